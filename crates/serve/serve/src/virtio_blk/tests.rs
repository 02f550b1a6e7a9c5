use proptest::prelude::*;
use vm_memory::Address;

use super::*;

const LENGTH: u64 = 1 << 20;
const DISK: Disk = Disk {
    export: Export {
        length: LENGTH,
        unit: 512,
        rotational: false,
        trims: true,
    },
    id: *b"0123456789abcdefghij",
};
const MEMORY: usize = 4 << 20;
const TABLE: u64 = 0;
const INDIRECT: u64 = 0x3000;
const HEADER: u64 = 0x4000;
const STATUS: u64 = 0x5000;
const DATA: u64 = 0x10000;
const NEXT: u16 = 1;
const WRITE: u16 = 2;
const TABLE_FLAG: u16 = 4;

fn memory() -> GuestMemoryMmap {
    GuestMemoryMmap::from_ranges(&[(GuestAddress(0), MEMORY)]).unwrap()
}

fn put(memory: &GuestMemoryMmap, table: u64, descriptors: &[(u64, u32, u16, u16)]) {
    for (number, (address, length, flags, next)) in descriptors.iter().enumerate() {
        let mut bytes = address.to_le_bytes().to_vec();
        bytes.extend(length.to_le_bytes());
        bytes.extend(flags.to_le_bytes());
        bytes.extend(next.to_le_bytes());
        let at = GuestAddress(table).unchecked_add(16 * number as u64);
        memory.write_slice(&bytes, at).unwrap();
    }
}

struct Taken {
    wanted: DiskRequest,
    place: ReplyPlace,
}

/// The request whose chain begins with descriptor 0.
fn taken(memory: &GuestMemoryMmap, disk: &Disk, through: bool) -> Option<Taken> {
    let table = DescriptorTable {
        start: GuestAddress(TABLE),
        size: 64,
    };
    // Left by earlier requests.
    let mut sent = Segments(vec![(GuestAddress(1), 2)]);
    let mut place = ReplyPlace {
        data: Segments(vec![(GuestAddress(3), 4)]),
        status: GuestAddress(5),
    };
    let room = Room {
        sent: &mut sent,
        place: &mut place,
        buffer: vec![7; 2000],
    };
    let wanted = disk.request(memory, table, 0, through, room);
    wanted.map(|wanted| Taken { wanted, place })
}

fn header(memory: &GuestMemoryMmap, kind: u32, sector: u64) {
    let mut bytes = kind.to_le_bytes().to_vec();
    bytes.extend([0; 4]);
    bytes.extend(sector.to_le_bytes());
    memory.write_slice(&bytes, GuestAddress(HEADER)).unwrap();
}

/// A request with one segment of data.
fn asked(kind: u32, sector: u64, data: u32, flags: u16, through: bool) -> Taken {
    let memory = memory();
    header(&memory, kind, sector);
    put(
        &memory,
        TABLE,
        &[
            (HEADER, 16, NEXT, 1),
            (DATA, data, NEXT | flags, 2),
            (STATUS, 1, WRITE, 0),
        ],
    );
    taken(&memory, &DISK, through).unwrap()
}

fn access(wanted: &DiskRequest) -> Option<(Access, u64, u32)> {
    match wanted {
        DiskRequest::Access {
            access,
            offset,
            length,
            ..
        } => Some((*access, *offset, *length)),
        _ => None,
    }
}

#[test]
fn requests_inside_of_the_disk_are_taken_and_others_refused() {
    let last = LENGTH / 512 - 1;
    for (kind, sector, data, flags, expected) in [
        (IN, 0, 512, WRITE, Ok((Access::Read, 0, 512))),
        (IN, last, 512, WRITE, Ok((Access::Read, last * 512, 512))),
        (IN, last, 1024, WRITE, Err(STATUS_IOERR)),
        (IN, 0, 100, WRITE, Err(STATUS_IOERR)),
        (IN, u64::MAX, 512, WRITE, Err(STATUS_IOERR)),
        (IN, 1 << 55, 512, WRITE, Err(STATUS_IOERR)),
        (IN, 0, u32::MAX - 511, WRITE, Err(STATUS_IOERR)),
        (IN, 0, 512, 0, Err(STATUS_IOERR)),
        (
            OUT,
            1,
            1024,
            0,
            Ok((Access::Write { fua: false }, 512, 1024)),
        ),
        (OUT, last + 1, 512, 0, Err(STATUS_IOERR)),
        (OUT, 1, 512, WRITE, Err(STATUS_IOERR)),
        (FLUSH, 0, 0, 0, Ok((Access::Flush, 0, 0))),
        (GET_ID, 0, 19, WRITE, Err(STATUS_IOERR)),
        (DISCARD, 0, 0, 0, Err(STATUS_UNSUPP)),
        (99, 0, 512, 0, Err(STATUS_UNSUPP)),
    ] {
        let wanted = asked(kind, sector, data, flags, false).wanted;
        let result = match &wanted {
            DiskRequest::Refused(status) => Err(*status),
            other => Ok(access(other).unwrap()),
        };
        assert_eq!(result, expected, "{kind} {sector} {data} {flags}");
    }
    assert!(matches!(
        asked(GET_ID, 0, 20, WRITE, false).wanted,
        DiskRequest::Id
    ));
}

#[test]
fn every_write_is_durable_without_a_negotiated_flush_or_cache() {
    let fua = Some((Access::Write { fua: true }, 512, 512));
    assert_eq!(access(&asked(OUT, 1, 512, 0, true).wanted), fua);
    assert!(Disk::writes_through(0, true));
    assert!(Disk::writes_through(F_FLUSH | F_CONFIG_WCE, false));
    assert!(!Disk::writes_through(F_FLUSH | F_CONFIG_WCE, true));
    assert!(!Disk::writes_through(F_FLUSH, false));
}

#[test]
fn the_data_of_a_write_are_gathered_from_segments_of_any_length_and_copied() {
    let memory = memory();
    header(&memory, OUT, 2);
    let data: Vec<u8> = (0..512u32).map(|at| at as u8).collect();
    memory
        .write_slice(&data, GuestAddress(HEADER + 16))
        .unwrap();
    // The header ends within a segment, and the rest of the chain is an indirect table.
    put(&memory, TABLE, &[(INDIRECT, 4 * 16, TABLE_FLAG, 0)]);
    put(
        &memory,
        INDIRECT,
        &[
            (HEADER, 7, NEXT, 1),
            (HEADER + 7, 109, NEXT, 2),
            (HEADER + 116, 412, NEXT, 3),
            (STATUS, 1, WRITE, 0),
        ],
    );
    let taken = taken(&memory, &DISK, false).unwrap();
    let zeros = [0; 2048];
    memory.write_slice(&zeros, GuestAddress(HEADER)).unwrap();
    match taken.wanted {
        DiskRequest::Access { offset, buffer, .. } => assert_eq!((offset, buffer), (1024, data)),
        other => panic!("{other:?}"),
    }
    assert_eq!(taken.place.answer(&memory, Err(5)), 1);
    let status: u8 = memory.read_obj(GuestAddress(STATUS)).unwrap();
    assert_eq!(status, STATUS_IOERR);
}

#[test]
fn what_was_read_is_scattered_and_counted() {
    let memory = memory();
    header(&memory, IN, 0);
    // The status is the last byte of a segment with data.
    put(
        &memory,
        TABLE,
        &[
            (HEADER, 16, NEXT, 1),
            (DATA, 200, NEXT | WRITE, 2),
            (DATA + 1000, 313, WRITE, 0),
        ],
    );
    let taken = taken(&memory, &DISK, false).unwrap();
    assert_eq!(access(&taken.wanted), Some((Access::Read, 0, 512)));
    let data: Vec<u8> = (0..512u32).map(|at| (at % 251) as u8 + 1).collect();
    assert_eq!(taken.place.answer(&memory, Ok(&data)), 513);
    let mut read = vec![0; 1313];
    memory.read_slice(&mut read, GuestAddress(DATA)).unwrap();
    assert_eq!([&read[..200], &read[1000..1312]].concat(), data);
    assert_eq!(read[1312], STATUS_OK);
}

#[test]
fn ranges_are_discarded_and_zeroed_with_the_flags_of_the_protocol() {
    let zeroed = |kind: u32, sectors: u32, flags: u32, trims: bool| {
        let memory = memory();
        header(&memory, kind, 0);
        let mut range = 8u64.to_le_bytes().to_vec();
        range.extend(sectors.to_le_bytes());
        range.extend(flags.to_le_bytes());
        memory.write_slice(&range, GuestAddress(DATA)).unwrap();
        put(
            &memory,
            TABLE,
            &[
                (HEADER, 16, NEXT, 1),
                (DATA, 16, NEXT, 2),
                (STATUS, 1, WRITE, 0),
            ],
        );
        let mut disk = DISK;
        disk.export.trims = trims;
        match taken(&memory, &disk, false).unwrap().wanted {
            DiskRequest::Access {
                offset,
                length,
                buffer,
                holes,
                ..
            } => {
                assert!(buffer.is_empty());
                Ok((offset, length, holes))
            }
            DiskRequest::Refused(status) => Err(status),
            DiskRequest::Id => panic!("it asked for something else"),
        }
    };
    assert_eq!(zeroed(DISCARD, 8, 0, true), Ok((4096, 4096, true)));
    assert_eq!(zeroed(DISCARD, 8, 0, false), Err(STATUS_UNSUPP));
    assert_eq!(zeroed(DISCARD, 8, 1, true), Err(STATUS_UNSUPP));
    assert_eq!(zeroed(DISCARD, 1 << 22, 0, true), Err(STATUS_IOERR));
    assert_eq!(zeroed(WRITE_ZEROES, 8, 1, true), Ok((4096, 4096, true)));
    assert_eq!(zeroed(WRITE_ZEROES, 8, 0, true), Ok((4096, 4096, false)));
    assert_eq!(zeroed(WRITE_ZEROES, 8, 1, false), Ok((4096, 4096, false)));
    assert_eq!(zeroed(WRITE_ZEROES, 8, 2, true), Err(STATUS_UNSUPP));
    assert_eq!(zeroed(WRITE_ZEROES, 2048, 0, true), Err(STATUS_IOERR));
}

#[test]
fn chains_without_an_end_or_a_status_cannot_be_answered() {
    for (what, chain) in [
        ("a loop", vec![(HEADER, 16, NEXT, 0)]),
        ("outside of the table", vec![(STATUS, 1, NEXT | WRITE, 64)]),
        ("nothing to write", vec![(HEADER, 16, 0, 0)]),
        ("an empty status", vec![(STATUS, 0, WRITE, 0)]),
        (
            "the order is wrong",
            vec![(STATUS, 1, NEXT | WRITE, 1), (HEADER, 16, 0, 0)],
        ),
        ("a table in a table", vec![(TABLE, 16, TABLE_FLAG, 0)]),
        (
            "a table of half an entry",
            vec![(INDIRECT, 24, TABLE_FLAG, 0)],
        ),
        ("a table elsewhere", vec![(1 << 40, 16, TABLE_FLAG, 0)]),
    ] {
        let memory = memory();
        put(&memory, TABLE, &chain);
        assert!(taken(&memory, &DISK, false).is_none(), "{what}");
    }
}

#[test]
fn addresses_that_are_not_shared_are_errors() {
    let memory = memory();
    header(&memory, OUT, 0);
    let outside = MEMORY as u64 - 100;
    for (address, length) in [(outside, 512), (1 << 40, 512), (u64::MAX - 5, 512)] {
        put(
            &memory,
            TABLE,
            &[
                (HEADER, 16, NEXT, 1),
                (address, length, NEXT, 2),
                (STATUS, 1, WRITE, 0),
            ],
        );
        let taken = taken(&memory, &DISK, false).unwrap();
        assert!(matches!(taken.wanted, DiskRequest::Refused(STATUS_IOERR)));
    }
    header(&memory, IN, 0);
    put(
        &memory,
        TABLE,
        &[
            (HEADER, 16, NEXT, 1),
            (outside, 512, NEXT | WRITE, 2),
            (STATUS, 1, WRITE, 0),
        ],
    );
    let reads = taken(&memory, &DISK, false).unwrap();
    assert_eq!(reads.place.answer(&memory, Ok(&[7; 512])), 1);
    let status: u8 = memory.read_obj(GuestAddress(STATUS)).unwrap();
    assert_eq!(status, STATUS_IOERR);
    put(
        &memory,
        TABLE,
        &[(HEADER, 16, NEXT, 1), (1 << 40, 513, WRITE, 0)],
    );
    let nowhere = taken(&memory, &DISK, false).unwrap();
    assert_eq!(nowhere.place.answer(&memory, Ok(&[7; 512])), 0);
}

#[test]
fn the_configuration_tells_limits_and_takes_the_choice_of_a_cache() {
    let config = DISK.config(true, 0, 96);
    assert_eq!(config.len(), 96);
    assert_eq!(config[..8], (LENGTH / 512).to_le_bytes());
    assert_eq!(config[20..24], 512u32.to_le_bytes());
    assert_eq!((config[32], config[34]), (1, MAX_QUEUES as u8));
    assert_eq!(DISK.config(false, 32, 1), [0]);
    let most = u64::from(MAX_SEGMENT_LEN) * u64::from(MAX_SEGMENTS);
    assert!(most <= u64::from(MAX_BYTES));
    for (offset, bytes, chosen) in [
        (32, &[0][..], Some(false)),
        (32, &[1], Some(true)),
        (31, &[1], None),
        (0, &[1; 8], None),
    ] {
        assert_eq!(Disk::chosen(offset, bytes), chosen);
    }
}

proptest! {
    #[test]
    fn any_descriptors_end_in_a_valid_request_or_an_error(
        descriptors in proptest::collection::vec((0u64..0x6000, 0u32..0x3000, 0u16..8, 0u16..66), 1..64),
        head in proptest::collection::vec(any::<u8>(), 16),
        kind in 0u32..14,
    ) {
        let memory = memory();
        put(&memory, TABLE, &descriptors);
        memory.write_slice(&head, GuestAddress(HEADER)).unwrap();
        header(&memory, kind, u64::from(head[0]));
        if let Some(taken) = taken(&memory, &DISK, false) {
            if let Some((access, offset, length)) = access(&taken.wanted) {
                prop_assert!(offset + u64::from(length) <= LENGTH);
                prop_assert!(length > 0 || access == Access::Flush);
            }
            prop_assert!(taken.place.answer(&memory, Ok(&[])) <= 1);
        }
    }
}
