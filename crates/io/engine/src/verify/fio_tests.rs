//! Blocks with headers of fio. The expected bytes follow from the documented layout.

use iodyno_model::{BlockPattern, HeaderFormat, Pattern};
use iodyno_sys::OpKind;

use super::*;
use crate::RecordedWriter;

const SUMS: [Checksum; 14] = [
    Checksum::Crc32c,
    Checksum::Xxhash32,
    Checksum::Md5,
    Checksum::Crc7,
    Checksum::Crc16,
    Checksum::Crc32,
    Checksum::Crc64,
    Checksum::Sha1,
    Checksum::Sha256,
    Checksum::Sha512,
    Checksum::Sha3_224,
    Checksum::Sha3_256,
    Checksum::Sha3_384,
    Checksum::Sha3_512,
];
const FORMATS: [HeaderFormat; 2] = [HeaderFormat::Fio, HeaderFormat::Fio340];
const FILES: [(&str, u64, u64); 2] = [("a", 0, 1 << 20), ("b", 0, 1 << 20)];

fn rule(checksum: Checksum, header: HeaderFormat) -> Verify {
    Verify {
        checksum,
        header,
        ..Verify::default()
    }
}

fn of_trial(trial: u64, rule: Verify, block: u64) -> Verifier {
    let writer = Writer {
        seed: 9,
        trial,
        clone: 4,
    };
    let unit = verified_unit(&rule, block);
    Verifier::new(rule, writer, (unit, unit), &FILES, 4)
}

fn write(file: u32, offset: u64, length: u32) -> Op {
    Op::new(OpKind::Write, file, offset, length)
}

fn sealed(verifier: &mut Verifier, op: &Op) -> Vec<u8> {
    let mut buffer: Vec<u8> = (0..op.length).map(|byte| (byte * 31 + 7) as u8).collect();
    verifier.seal(0, op, &mut buffer, 5_000_000_123);
    verifier.written(0, op);
    buffer
}

/// CRC-32C, bit by bit, without the inversion at its end.
fn crc32c_by_bits(bytes: &[u8]) -> u32 {
    bytes.iter().fold(!0, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            (crc >> 1) ^ if crc & 1 == 1 { 0x82f6_3b78 } else { 0 }
        })
    })
}

/// A block as fio writes it, with checksum crc32c: the layout as documented.
fn block_of_fio(format: HeaderFormat, offset: u64, write: u64, length: usize) -> Vec<u8> {
    let mut header = 0xacca_u16.to_le_bytes().to_vec();
    match format {
        HeaderFormat::Fio => header.extend([0x81, 5]),
        _ => header.extend(5u16.to_le_bytes()),
    }
    header.extend((length as u32).to_le_bytes());
    header.extend(0x0123_4567_89ab_cdef_u64.to_le_bytes());
    header.extend(offset.to_le_bytes());
    header.extend(77u32.to_le_bytes());
    header.extend(999_999_999_u32.to_le_bytes());
    match format {
        HeaderFormat::Fio => {
            header.extend(write.to_le_bytes());
            header.extend(1u16.to_le_bytes());
            // Unused: arbitrary content of the buffer.
            header.extend([0x5a, 0xa5]);
        }
        _ => {
            header.extend(1u16.to_le_bytes());
            header.extend((write as u16).to_le_bytes());
        }
    }
    header.extend(crc32c_by_bits(&header).to_le_bytes());
    let data: Vec<u8> = (0..length).map(|byte| (byte * 13 + 1) as u8).collect();
    let data = &data[..length - header.len() - 4];
    [&header, &crc32c_by_bits(data).to_le_bytes()[..], data].concat()
}

#[test]
fn blocks_have_the_documented_layout() {
    for format in FORMATS {
        let mut verifier = of_trial(77, rule(Checksum::Crc32c, format), 512);
        sealed(&mut verifier, &write(1, 0, 512));
        let block = sealed(&mut verifier, &write(1, 4096, 512));
        let word = |at: usize| u32::from_le_bytes(block[at..at + 4].try_into().unwrap());
        let half = |at: usize| u16::from_le_bytes(block[at..at + 2].try_into().unwrap());
        assert_eq!(half(0), 0xacca);
        assert_eq!((word(4), word(16), word(20)), (512, 4096, 0));
        // 5.000000123 s, with the mark of iodyno.
        assert_eq!((word(24), word(28)), (5, 123 | 1 << 31));
        let (length, clone, number) = match format {
            HeaderFormat::Fio => (48, half(40), word(32)),
            _ => (40, half(32), half(34).into()),
        };
        assert_eq!((clone, number), (5, 1));
        match format {
            HeaderFormat::Fio => assert_eq!(block[2..4], [0x81, 5]),
            _ => assert_eq!(half(2), 5),
        }
        assert_eq!(word(length - 4), crc32c_by_bits(&block[..length - 4]));
        assert_eq!(word(length), crc32c_by_bits(&block[length + 4..]));
    }
}

#[test]
fn checksums_have_the_values_of_their_definitions() {
    let of = |checksum, text: &'static [u8]| {
        let (one, other) = text.split_at(text.len() / 2);
        let whole = fio_header::sum(&checksum, Layout::New, [text, &[], &[]]);
        let parts = fio_header::sum(&checksum, Layout::New, [one, &[], other]);
        assert_eq!(whole, parts, "{checksum:?}");
        fio_header::digits(whole.bytes())
    };
    let digits = b"123456789".as_slice();
    assert_eq!(of(Checksum::Crc7, digits), "75");
    assert_eq!(of(Checksum::Crc16, digits), "3dbb");
    // The check value of cksum without the length, not inverted.
    assert_eq!(of(Checksum::Crc32, digits), "7f89a189");
    assert_eq!(of(Checksum::Crc32c, digits), "7c6df91c");
    assert_eq!(of(Checksum::Crc64, digits), "cad9b8c414d9c6e9");
    assert_eq!(
        of(Checksum::Md5, b"abc"),
        "900150983cd24fb0d6963f7d28e17f72"
    );
    // a9993e36 4706816a ba3e2571 7850c26c 9cd0d89d in words of a little-endian host.
    let sha1 = "363e99a96a810647 71253eba6cc25078 9dd8d09c".replace(' ', "");
    assert_eq!(of(Checksum::Sha1, b"abc"), sha1);
    let sha512 = of(Checksum::Sha512, b"abc");
    assert!(
        sha512.starts_with("ddaf35a193617abacc417349ae204131"),
        "{sha512}"
    );
    // The second half of the last block: zeroes, and the number of bits.
    assert_eq!(sha512[128..], format!("{:0126}18", 0));
    let sha256 = of(Checksum::Sha256, b"abc");
    assert_eq!(sha256[16..], format!("{:096}1800000000000000", 0));
    let sha3 = of(Checksum::Sha3_224, b"abc");
    assert_eq!(
        sha3,
        "e642824c3f8cf24ad09234ee7d3c766fc9a3a5168d0c94ad73b46fdf"
    );
}

#[test]
fn a_hash_pads_data_of_any_length() {
    // For each length around the ends of blocks: other data give another sum, which covers the end of the last block.
    let data: Vec<u8> = (0..300u32).map(|byte| (byte * 7 + 3) as u8).collect();
    for checksum in [Checksum::Sha256, Checksum::Sha512] {
        let mut seen = std::collections::HashSet::new();
        for length in 0..data.len() {
            let sum = fio_header::sum(&checksum, Layout::New, [&data[..length], &[], &[]]);
            assert!(seen.insert(sum.bytes().to_vec()), "{checksum:?} {length}");
            let bits = (length * 8) as u64;
            let ending = match checksum {
                Checksum::Sha256 => bits.to_le_bytes(),
                _ => bits.to_be_bytes(),
            };
            assert!(sum.bytes().ends_with(&ending), "{checksum:?} {length}");
        }
    }
}

#[test]
fn written_blocks_are_accepted_and_every_changed_byte_is_detected() {
    for format in FORMATS {
        for checksum in SUMS {
            for moved in [0, 256_usize] {
                let rule = Verify {
                    header_offset: moved as u64,
                    ..rule(checksum.clone(), format)
                };
                let mut verifier = of_trial(77, rule, 512);
                let op = write(0, 8192, 1024);
                let block = sealed(&mut verifier, &op);
                let what = format!("{format:?} {checksum:?} {moved}");
                assert!(verifier.check(&op, &block), "{what}: {:?}", verifier.result);
                // Up to fio 3.39, `sha512` is not a hash of all data.
                let all = (format, &checksum) != (HeaderFormat::Fio340, &Checksum::Sha512);
                let data = (0..1024).step_by(41).filter(|_| all);
                let header = (moved..moved + 44).step_by(3);
                for at in header.chain(data) {
                    let mut damaged = block.clone();
                    damaged[at] ^= 0x10;
                    assert!(!verifier.check(&op, &damaged), "{what} byte {at}");
                }
            }
        }
    }
}

#[test]
fn blocks_of_fio_are_accepted_by_a_job_that_checks() {
    for format in FORMATS {
        // For any format that the job would write.
        for own in FORMATS {
            let only = Verify {
                only: true,
                ..rule(Checksum::Crc32c, own)
            };
            let mut checker = of_trial(77, only, 4096);
            let block = block_of_fio(format, 12288, 3, 4096);
            let op = write(0, 12288, 4096);
            assert!(checker.check(&op, &block), "{:?}", checker.result);
            for at in 0..4096 {
                let mut damaged = block.clone();
                damaged[at] ^= 1;
                assert!(!checker.check(&op, &damaged), "{format:?} byte {at}");
            }
            let bad = checker.result.bad();
            assert!(!checker.check(&write(0, 8192, 4096), &block));
            assert_eq!(
                (checker.result.misplaced, checker.result.bad()),
                (1, bad + 1)
            );
        }
    }
}

#[test]
fn other_blocks_of_fio_are_reported_by_their_kind() {
    let found = |rule: Verify, length: u32, block: &[u8]| {
        let mut checker = of_trial(77, rule, length.into());
        assert!(!checker.check(&write(0, 0, length), block));
        assert_eq!(checker.result.foreign, 1);
        let block = &checker.result.bad_blocks[0];
        (
            block.found.clone(),
            block.fitting.clone().unwrap_or_default(),
        )
    };
    let told = |found: &str, fitting: &str| (found.to_owned(), fitting.to_owned());
    let block = block_of_fio(HeaderFormat::Fio, 0, 0, 4096);
    assert_eq!(
        found(rule(Checksum::Md5, HeaderFormat::Fio), 4096, &block),
        told(
            "a block with checksum crc32c, expected md5",
            "verify=crc32c"
        )
    );
    assert_eq!(
        found(rule(Checksum::Crc32c, HeaderFormat::Fio), 512, &block),
        told("a block of 4096 bytes, expected 512", "bs=4096")
    );
    let in_parts = Verify {
        interval: 512,
        ..rule(Checksum::Crc32c, HeaderFormat::Fio)
    };
    assert_eq!(found(in_parts, 512, &block).1, "verify_interval=4096");
    let (told, fitting) = found(Verify::default(), 4096, &block);
    assert_eq!(fitting, "verify_header=fio");
    assert!(
        told.starts_with("a block of fio with checksum crc32c"),
        "{told}"
    );
}

#[test]
fn lost_stale_and_misplaced_writes_are_distinguished() {
    for format in FORMATS {
        let of = |trial| of_trial(trial, rule(Checksum::Xxhash32, format), 4096);
        let (here, there) = (write(0, 0, 4096), write(0, 65536, 4096));
        let mut earlier = of(76);
        let before = sealed(&mut earlier, &here);
        let mut now = of(77);
        let first = sealed(&mut now, &here);
        let elsewhere = sealed(&mut now, &there);
        let other_file = sealed(&mut now, &write(1, 0, 4096));
        let last = sealed(&mut now, &here);
        assert!(now.check(&here, &last));
        assert!(!now.check(&here, &first) && !now.check(&here, &before));
        assert_eq!((now.result.stale, now.result.bad()), (2, 2));
        assert!(!now.check(&here, &elsewhere) && !now.check(&here, &other_file));
        assert_eq!((now.result.misplaced, now.result.bad()), (2, 4));
        // fio overwrote the block meanwhile.
        let of_fio = rule(Checksum::Crc32c, format);
        let mut now = of_trial(77, of_fio, 4096);
        sealed(&mut now, &here);
        assert!(!now.check(&here, &block_of_fio(format, 0, 0, 4096)));
        assert_eq!(now.result.stale, 1);
    }
}

#[test]
fn a_record_detects_lost_writes_of_iodyno_and_accepts_later_ones_of_fio() {
    let only = Verify {
        only: true,
        ..rule(Checksum::Crc32c, HeaderFormat::Fio)
    };
    let (here, there) = (write(0, 0, 4096), write(0, 4096, 4096));
    let mut writer = of_trial(77, rule(Checksum::Crc32c, HeaderFormat::Fio), 4096);
    let first = sealed(&mut writer, &here);
    let last = sealed(&mut writer, &here);
    let mut checker = of_trial(90, only, 4096);
    checker.expect_recorded(&[RecordedBlocks {
        unit: 4096,
        writers: vec![RecordedWriter {
            trial: 77,
            name: "a".to_owned(),
        }],
        units: vec![
            RecordedUnit::Written {
                writer: 0,
                sequence: 2,
            },
            RecordedUnit::Unwritten,
        ],
    }]);
    assert!(checker.check(&here, &last));
    assert!(!checker.check(&here, &first));
    assert_eq!(checker.result.stale, 1);
    // Writes of fio may be newer than the record.
    let of_fio = |offset| block_of_fio(HeaderFormat::Fio, offset, 9, 4096);
    assert!(checker.check(&here, &of_fio(0)) && checker.check(&there, &of_fio(4096)));
    assert_eq!(checker.result.checked, 4);
    // Blocks that iodyno did not write according to the record are checked only if they are fio's.
    assert!(checker.check(&there, &[0; 4096]));
    assert_eq!(checker.result.checked, 4);
    assert!(!checker.check(&there, &of_fio(0)));
}

#[test]
fn blocks_of_an_earlier_version_and_those_of_fio_are_accepted() {
    let op = write(0, 0, 4096);
    let old = sealed(&mut of_trial(77, Verify::default(), 4096), &op);
    let only = Verify {
        only: true,
        ..rule(Checksum::Crc32c, HeaderFormat::Fio)
    };
    let mut checker = of_trial(78, only, 4096);
    assert!(checker.check(&op, &old), "{:?}", checker.result);
    let mut damaged = old;
    damaged[2000] ^= 1;
    assert!(!checker.check(&op, &damaged));
    assert_eq!(checker.result.corrupt, 1);
}

fn patterned(checksum: Checksum, interval: u64) -> Verify {
    let pattern = BlockPattern {
        bytes: Pattern([&[0xff][..], &[0; 8], b"abc"].concat()),
        offsets: vec![1],
        interval,
    };
    Verify {
        checksum,
        header: HeaderFormat::Fio,
        pattern: Some(pattern),
        ..Verify::default()
    }
}

/// The pattern from this place on: 0xff, the offset, abc.
fn repeated(offset: u64, length: usize) -> Vec<u8> {
    let once = [&[0xff][..], &offset.to_le_bytes(), b"abc"].concat();
    once.into_iter().cycle().take(length).collect()
}

#[test]
fn a_pattern_contains_the_offset_of_the_block() {
    let bytes = patterned(Checksum::Crc32c, 0).pattern.unwrap().bytes;
    let op = write(0, 8192, 1024);
    for (checksum, header) in [
        (Checksum::Pattern(bytes), 0),
        (Checksum::PatternWithHeader, 48),
        (Checksum::HeaderOnly, 48),
    ] {
        let mut verifier = of_trial(77, patterned(checksum.clone(), 0), 512);
        let block = sealed(&mut verifier, &op);
        // The pattern runs through the block, over all of its units.
        assert_eq!(block[header..512], repeated(8192, 1024)[header..512]);
        assert_eq!(block[512 + header..], repeated(8192, 1024)[512 + header..]);
        assert!(verifier.check(&op, &block), "{:?}", verifier.result);
        let mut damaged = block.clone();
        damaged[1000] ^= 1;
        assert!(!verifier.check(&op, &damaged), "{checksum:?}");
        let told = &verifier.result.bad_blocks[0];
        assert_eq!((told.offset, told.length), (8704, 512));
        assert!(
            told.found.contains("at byte 488, expected"),
            "{}",
            told.found
        );
        // Restarted at each interval.
        let mut verifier = of_trial(77, patterned(checksum, 256), 512);
        let block = sealed(&mut verifier, &op);
        assert_eq!(block[256..512], repeated(8448, 256));
        assert_eq!(block[768..], repeated(8960, 256));
        assert!(verifier.check(&op, &block), "{:?}", verifier.result);
    }
}

#[test]
fn the_rest_of_a_partly_overwritten_block_with_a_pattern_is_not_checked() {
    let bytes = patterned(Checksum::Crc32c, 0).pattern.unwrap().bytes;
    let mut verifier = of_trial(77, patterned(Checksum::Pattern(bytes), 0), 512);
    sealed(&mut verifier, &write(0, 0, 2048));
    sealed(&mut verifier, &write(0, 512, 1024));
    assert_eq!(verifier.ranges(4096), [(0, 512, 1024)]);
    // Units with headers are checked separately.
    let mut verifier = of_trial(77, rule(Checksum::Crc32c, HeaderFormat::Fio), 512);
    sealed(&mut verifier, &write(0, 0, 2048));
    sealed(&mut verifier, &write(0, 512, 1024));
    let left = [(0, 0, 512), (0, 512, 1024), (0, 1536, 512)];
    assert_eq!(verifier.ranges(4096), left);
}
