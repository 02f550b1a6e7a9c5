//! The header that fio puts on each verified block.
//!
//! | bytes since 3.41 | bytes up to 3.40 | what |
//! |---|---|---|
//! | 0–1 | 0–1 | a fixed word |
//! | 2 | – | version of the layout |
//! | 3 | 2–3 | number of the checksum |
//! | 4–7 | 4–7 | length of the unit |
//! | 8–15 | 8–15 | seed |
//! | 16–23 | 16–23 | offset of the unit in its file |
//! | 24–31 | 24–31 | time: seconds, and nanoseconds |
//! | 32–39 | 34–35 | number of the write, from 0 |
//! | 40–41 | 32–33 | number of the clone, from 1 |
//! | 42–43 | – | not used |
//! | 44–47 | 36–39 | CRC-32C of all bytes before it, not inverted at the end |
//!
//! All in the byte order of the host that wrote it; that of little-endian hosts here. The checksum of the unit's other
//! bytes follows, and then these bytes. With an offset, the header including its checksum is exchanged with the bytes
//! at that offset.
//!
//! fio does not read the time, and its nanoseconds are below 10⁹: their highest bit marks headers of iodyno. The seed
//! of these identifies the trial and the file.

use crc::{Algorithm, CRC_7_MMC, CRC_16_ARC, CRC_64_REDIS, Crc, Table};
use iodyno_model::{Checksum, HeaderFormat};
use md5::Md5;
use sha1::Sha1;
use sha2::block_api::{compress256, compress512};
use sha3::{Digest, Sha3_224, Sha3_256, Sha3_384, Sha3_512};
use xxhash_rust::xxh32::Xxh32;

const MAGIC: u16 = 0xacca;
/// The version of the layout since 3.41.
const VERSION: u8 = 0x81;
/// The bit in the nanoseconds that marks headers of iodyno.
const OURS: u32 = 1 << 31;
/// Length of the longest checksum, bytes.
const MAX_SUM: usize = 128;

/// The layout of the header without its checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Layout {
    /// Since 3.41.
    New,
    /// Up to 3.40.
    Old,
}

/// A header without its checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FioHeader {
    pub(crate) layout: Layout,
    /// Number of the checksum.
    pub(crate) sum: u16,
    /// Length of the unit, bytes.
    pub(crate) length: u32,
    pub(crate) seed: u64,
    /// Offset of the unit in its file.
    pub(crate) offset: u64,
    /// Time of the write, ns of the engine clock; meaningless in headers of fio.
    pub(crate) time_ns: u64,
    /// iodyno wrote it.
    pub(crate) ours: bool,
    /// Number of the write, from 0; in the old layout, its lowest 16 bits.
    pub(crate) write: u64,
    /// Number of the clone, from 1.
    pub(crate) clone: u16,
}

impl Layout {
    /// `None`: a header of iodyno.
    pub(crate) fn of(format: HeaderFormat) -> Option<Layout> {
        match format {
            HeaderFormat::Iodyno => None,
            HeaderFormat::Fio => Some(Layout::New),
            HeaderFormat::Fio340 => Some(Layout::Old),
        }
    }

    /// Length of the header without its checksum, bytes.
    pub(crate) fn length(self) -> usize {
        match self {
            Layout::New => 48,
            Layout::Old => 40,
        }
    }

    /// The number of a write as stored in the header.
    pub(crate) fn write_number(self, write: u64) -> u64 {
        match self {
            Layout::New => write,
            Layout::Old => write & 0xffff,
        }
    }
}

/// CRC-32C without the inversion at its end.
fn crc32c_of(bytes: &[u8]) -> u32 {
    !crc32c::crc32c(bytes)
}

impl FioHeader {
    /// The header at the start of `bytes`, and the error if its own checksum is wrong; `None`: no header.
    pub(crate) fn read(bytes: &[u8]) -> Option<(FioHeader, Option<String>)> {
        let long = |at: usize| Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
        let word = |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
        let half = |at: usize| Some(u16::from_le_bytes(bytes.get(at..at + 2)?.try_into().ok()?));
        if half(0)? != MAGIC {
            return None;
        }
        // The old layout has the number of the checksum in these two bytes; there are few checksums.
        let layout = match bytes.get(2..4)? {
            [VERSION, _] => Layout::New,
            _ => Layout::Old,
        };
        let nanoseconds = word(28)?;
        let header = FioHeader {
            layout,
            sum: match layout {
                Layout::New => (*bytes.get(3)?).into(),
                Layout::Old => half(2)?,
            },
            length: word(4)?,
            seed: long(8)?,
            offset: long(16)?,
            time_ns: u64::from(word(24)?) * 1_000_000_000 + u64::from(nanoseconds & !OURS),
            ours: nanoseconds & OURS != 0,
            write: match layout {
                Layout::New => long(32)?,
                Layout::Old => half(34)?.into(),
            },
            clone: half(match layout {
                Layout::New => 40,
                Layout::Old => 32,
            })?,
        };
        let checked = layout.length() - 4;
        let (stored, computed) = (word(checked)?, crc32c_of(&bytes[..checked]));
        let fault = (stored != computed).then(|| {
            format!("a header with a wrong checksum: {stored:08x}, expected {computed:08x}")
        });
        Some((header, fault))
    }

    /// Writes the header to the start of `bytes`.
    pub(crate) fn put(&self, bytes: &mut [u8]) {
        let mut put = |at: usize, part: &[u8]| bytes[at..at + part.len()].copy_from_slice(part);
        put(0, &MAGIC.to_le_bytes());
        put(4, &self.length.to_le_bytes());
        put(8, &self.seed.to_le_bytes());
        put(16, &self.offset.to_le_bytes());
        let (seconds, rest) = (self.time_ns / 1_000_000_000, self.time_ns % 1_000_000_000);
        let mark = if self.ours { OURS } else { 0 };
        put(24, &(seconds as u32).to_le_bytes());
        put(28, &(rest as u32 | mark).to_le_bytes());
        match self.layout {
            Layout::New => {
                put(2, &[VERSION, self.sum as u8]);
                put(32, &self.write.to_le_bytes());
                put(40, &self.clone.to_le_bytes());
                put(42, &[0; 2]);
            }
            Layout::Old => {
                put(2, &self.sum.to_le_bytes());
                put(32, &self.clone.to_le_bytes());
                put(34, &(self.write as u16).to_le_bytes());
            }
        }
        let checked = self.layout.length() - 4;
        let sum = crc32c_of(&bytes[..checked]);
        bytes[checked..checked + 4].copy_from_slice(&sum.to_le_bytes());
    }
}

/// The checksums, with fio's numbers and names.
static SUMS: [(u16, Checksum, &str); 17] = [
    (1, Checksum::HeaderOnly, "meta"),
    (2, Checksum::Md5, "md5"),
    (3, Checksum::Crc64, "crc64"),
    (4, Checksum::Crc32, "crc32"),
    (5, Checksum::Crc32c, "crc32c"),
    (6, Checksum::Crc32c, "crc32c-intel"),
    (7, Checksum::Crc16, "crc16"),
    (8, Checksum::Crc7, "crc7"),
    (9, Checksum::Sha256, "sha256"),
    (10, Checksum::Sha512, "sha512"),
    (11, Checksum::Sha3_224, "sha3-224"),
    (12, Checksum::Sha3_256, "sha3-256"),
    (13, Checksum::Sha3_384, "sha3-384"),
    (14, Checksum::Sha3_512, "sha3-512"),
    (15, Checksum::Xxhash32, "xxhash"),
    (16, Checksum::Sha1, "sha1"),
    (17, Checksum::PatternWithHeader, "pattern_hdr"),
];

/// fio's number for a checksum; `None`: fio's headers do not have it.
pub(crate) fn number(checksum: &Checksum) -> Option<u16> {
    let same = |(_, known, _): &&(u16, Checksum, &str)| known == checksum;
    SUMS.iter().find(same).map(|(number, ..)| *number)
}

/// fio's name of the checksum with this number.
pub(crate) fn name(number: u16) -> Option<&'static str> {
    let same = |(known, ..): &&(u16, Checksum, &str)| *known == number;
    SUMS.iter().find(same).map(|(.., name)| *name)
}

/// Whether two numbers are those of the same checksum.
pub(crate) fn same(one: u16, other: u16) -> bool {
    let canonical = |number| if number == 6 { 5 } else { number };
    canonical(one) == canonical(other)
}

/// A checksum in the form of the header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sum {
    bytes: [u8; MAX_SUM],
    length: usize,
}

impl Sum {
    fn of_bytes(sum: &[u8]) -> Sum {
        let mut bytes = [0; MAX_SUM];
        bytes[..sum.len()].copy_from_slice(sum);
        Sum {
            bytes,
            length: sum.len(),
        }
    }

    /// The bytes of the header.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

/// Bytes in hexadecimal digits.
pub(crate) fn digits(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

static CRC7: Crc<u8, Table<1>> = Crc::<u8, Table<1>>::new(&CRC_7_MMC);
static CRC16: Crc<u16, Table<1>> = Crc::<u16, Table<1>>::new(&CRC_16_ARC);
static CRC32: Crc<u32, Table<1>> = Crc::<u32, Table<1>>::new(&Algorithm {
    width: 32,
    poly: 0x04c1_1db7,
    init: 0,
    refin: false,
    refout: false,
    xorout: 0,
    check: 0x89a1_897f,
    residue: 0,
});
static CRC64: Crc<u64, Table<1>> = Crc::<u64, Table<1>>::new(&CRC_64_REDIS);

/// A CRC of data in parts. A macro, because the digests of the four widths have no common trait.
macro_rules! crc {
    ($crc:expr, $data:expr) => {{
        let mut digest = $crc.digest();
        $data.iter().for_each(|part| digest.update(part));
        Sum::of_bytes(&digest.finalize().to_le_bytes())
    }};
}

/// The checksum of data in three parts.
pub(crate) fn sum(checksum: &Checksum, layout: Layout, data: [&[u8]; 3]) -> Sum {
    match checksum {
        Checksum::Crc32c => {
            let sum = data
                .iter()
                .fold(0, |sum, part| crc32c::crc32c_append(sum, part));
            Sum::of_bytes(&(!sum).to_le_bytes())
        }
        Checksum::Xxhash32 => {
            let mut hash = Xxh32::new(1);
            data.iter().for_each(|part| hash.update(part));
            Sum::of_bytes(&hash.digest().to_le_bytes())
        }
        Checksum::Crc7 => crc!(CRC7, data),
        Checksum::Crc16 => crc!(CRC16, data),
        Checksum::Crc32 => crc!(CRC32, data),
        Checksum::Crc64 => crc!(CRC64, data),
        Checksum::Md5 => hashed::<Md5>(data),
        Checksum::Sha1 => {
            // In words of the host.
            let mut sum = hashed::<Sha1>(data);
            sum.bytes[..20].chunks_mut(4).for_each(<[u8]>::reverse);
            sum
        }
        Checksum::Sha256 => sha256(data),
        Checksum::Sha512 => match layout {
            Layout::New => sha512(data),
            Layout::Old => unhashed_512(data),
        },
        Checksum::Sha3_224 => hashed::<Sha3_224>(data),
        Checksum::Sha3_256 => hashed::<Sha3_256>(data),
        Checksum::Sha3_384 => hashed::<Sha3_384>(data),
        Checksum::Sha3_512 => hashed::<Sha3_512>(data),
        Checksum::HeaderOnly
        | Checksum::PatternWithHeader
        | Checksum::Pattern(_)
        | Checksum::Nothing
        | Checksum::Xxhash64 => Sum::of_bytes(&[]),
    }
}

/// Whether the checksum in a header is that of the data. The old layout has two forms of `sha512`: fio 3.40 finishes
/// the hash.
pub(crate) fn matches(
    checksum: &Checksum,
    layout: Layout,
    data: [&[u8]; 3],
    stored: &[u8],
) -> bool {
    let finished = *checksum == Checksum::Sha512 && sha512(data).bytes() == stored;
    finished || sum(checksum, layout, data).bytes() == stored
}

fn hashed<D: Digest>(data: [&[u8]; 3]) -> Sum {
    let mut hash = D::new();
    data.iter().for_each(|part| hash.update(part));
    Sum::of_bytes(&hash.finalize())
}

/// A buffer of `N` bytes that is compressed whenever it is full. Its last content remains.
struct Blocks<const N: usize> {
    buffer: [u8; N],
    filled: usize,
    length: u64,
}

impl<const N: usize> Blocks<N> {
    fn absorb(&mut self, mut part: &[u8], mut compress: impl FnMut(&[[u8; N]])) {
        self.length += part.len() as u64;
        while !part.is_empty() {
            let (now, rest) = part.split_at(part.len().min(N - self.filled));
            self.buffer[self.filled..self.filled + now.len()].copy_from_slice(now);
            self.filled += now.len();
            part = rest;
            if self.filled == N {
                compress(std::slice::from_ref(&self.buffer));
                self.filled = 0;
            }
        }
    }

    /// Hashes the data, a one bit, zeroes and `ending`, of the number of bits, up to the end of a block.
    fn hash<const E: usize>(
        data: [&[u8]; 3],
        ending: impl Fn(u64) -> [u8; E],
        mut compress: impl FnMut(&[[u8; N]]),
    ) -> [u8; N] {
        let mut blocks = Blocks {
            buffer: [0; N],
            filled: 0,
            length: 0,
        };
        data.iter()
            .for_each(|part| blocks.absorb(part, &mut compress));
        let ending = ending(blocks.length * 8);
        let zeroes = (2 * N - 1 - E - blocks.filled) % N;
        blocks.absorb(&[0x80], &mut compress);
        blocks.absorb(&[0; N][..zeroes], &mut compress);
        blocks.absorb(&ending, &mut compress);
        blocks.buffer
    }
}

/// fio's variant of SHA-256. It differs from the standard in the byte order of the length at the end, and it stores
/// only the lowest byte of each word of the result. The rest of the field is the end of the last block.
fn sha256(data: [&[u8]; 3]) -> Sum {
    let mut state = [
        0x6a09_e667,
        0xbb67_ae85,
        0x3c6e_f372,
        0xa54f_f53a,
        0x510e_527f,
        0x9b05_688c,
        0x1f83_d9ab,
        0x5be0_cd19,
    ];
    let mut field = Blocks::<64>::hash(data, u64::to_le_bytes, |block| {
        compress256(&mut state, block);
    });
    for (byte, word) in field.iter_mut().zip(state) {
        *byte = word as u8;
    }
    Sum::of_bytes(&field)
}

/// SHA-512, and the second half of the last block.
fn sha512(data: [&[u8]; 3]) -> Sum {
    let mut state = [
        0x6a09_e667_f3bc_c908,
        0xbb67_ae85_84ca_a73b,
        0x3c6e_f372_fe94_f82b,
        0xa54f_f53a_5f1d_36f1,
        0x510e_527f_ade6_82d1,
        0x9b05_688c_2b3e_6c1f,
        0x1f83_d9ab_fb41_bd6b,
        0x5be0_cd19_137e_2179,
    ];
    let ending = |bits| u128::from(bits).to_be_bytes();
    let mut field = Blocks::<128>::hash(data, ending, |block| {
        compress512(&mut state, block);
    });
    for (bytes, word) in field.chunks_mut(8).zip(state) {
        bytes.copy_from_slice(&u64::to_be_bytes(word));
    }
    Sum::of_bytes(&field)
}

/// `sha512` up to fio 3.39: not a hash, but the buffer of an unfinished one: the first block of the data, with the
/// bytes after the last whole block over its start.
fn unhashed_512(data: [&[u8]; 3]) -> Sum {
    let mut first = None;
    let mut blocks = Blocks {
        buffer: [0; 128],
        filled: 0,
        length: 0,
    };
    for part in data {
        blocks.absorb(part, |block| {
            first.get_or_insert(block[0]);
        });
    }
    let mut field = first.unwrap_or(blocks.buffer);
    let end = blocks.filled;
    field[..end].copy_from_slice(&blocks.buffer[..end]);
    Sum::of_bytes(&field)
}
