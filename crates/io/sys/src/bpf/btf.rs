//! Reads the kernel's description of its types (BTF; kernel, `Documentation/bpf/btf.rst`): ids of types and offsets of
//! fields.

use thiserror::Error;

/// A description that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum BtfError {
    /// Invalid or truncated BTF.
    #[error("the kernel's description of its types (BTF) is not in its format: {0}")]
    Malformed(&'static str),
    /// A type is missing.
    #[error("this kernel has no type `{0}`")]
    NoType(String),
    /// A field is missing, or is not at whole bytes.
    #[error("this kernel's `struct {0}` has no field `{1}`")]
    NoField(String, String),
}

/// Kinds of types, with the numbers of the format.
mod kind {
    pub(super) const INT: u32 = 1;
    pub(super) const ARRAY: u32 = 3;
    pub(super) const STRUCT: u32 = 4;
    pub(super) const UNION: u32 = 5;
    pub(super) const ENUM: u32 = 6;
    pub(super) const TYPEDEF: u32 = 8;
    pub(super) const FUNC_PROTO: u32 = 13;
    pub(super) const VAR: u32 = 14;
    pub(super) const DATASEC: u32 = 15;
    pub(super) const DECL_TAG: u32 = 17;
    pub(super) const ENUM64: u32 = 19;
}

const MAGIC: u16 = 0xEB9F;
/// Anonymous structures within others are followed to this depth.
const DEPTH: u32 = 8;

/// Types of a kernel.
#[derive(Debug)]
pub struct Btf {
    words: Vec<u32>,
    strings: Vec<u8>,
    /// The start of each type in `words`; the first has id 1, because 0 is `void`.
    types: Vec<usize>,
}

impl Btf {
    /// Reads a description, as `/sys/kernel/btf/vmlinux` has it.
    ///
    /// # Errors
    /// It is not in the format.
    pub fn parse(bytes: &[u8]) -> Result<Btf, BtfError> {
        let short = BtfError::Malformed("it ends in its header");
        let magic = bytes.get(0..2).ok_or(short.clone())?;
        if u16::from_ne_bytes([magic[0], magic[1]]) != MAGIC {
            return Err(BtfError::Malformed("its first bytes are others"));
        }
        let word = |at: usize| -> Result<usize, BtfError> {
            let four = bytes.get(at..at + 4).ok_or(short.clone())?;
            Ok(u32::from_ne_bytes([four[0], four[1], four[2], four[3]]) as usize)
        };
        let header = word(4)?;
        let section = |offset: usize, length: usize| {
            let start = header.checked_add(offset)?;
            bytes.get(start..start.checked_add(length)?)
        };
        let types =
            section(word(8)?, word(12)?).ok_or(BtfError::Malformed("its types end early"))?;
        let strings =
            section(word(16)?, word(20)?).ok_or(BtfError::Malformed("its names end early"))?;
        let words = types
            .chunks_exact(4)
            .map(|four| u32::from_ne_bytes([four[0], four[1], four[2], four[3]]))
            .collect();
        let mut btf = Btf {
            words,
            strings: strings.to_vec(),
            types: Vec::new(),
        };
        btf.index()?;
        Ok(btf)
    }

    /// Finds where each type begins.
    fn index(&mut self) -> Result<(), BtfError> {
        let mut at = 0;
        while at < self.words.len() {
            let [_, info, _] = self.head(at)?;
            let (members, kind) = ((info & 0xFFFF) as usize, info >> 24 & 0x1F);
            self.types.push(at);
            at += 3 + match kind {
                kind::INT | kind::VAR | kind::DECL_TAG => 1,
                kind::ARRAY => 3,
                kind::STRUCT | kind::UNION | kind::DATASEC | kind::ENUM64 => 3 * members,
                kind::ENUM | kind::FUNC_PROTO => 2 * members,
                1..=19 => 0,
                _ => return Err(BtfError::Malformed("it has types of an unknown kind")),
            };
        }
        if at > self.words.len() {
            return Err(BtfError::Malformed("its last type ends early"));
        }
        Ok(())
    }

    /// Name, kind with number of members, and size or type, of the type that begins at a word.
    fn head(&self, at: usize) -> Result<[u32; 3], BtfError> {
        let head = self.words.get(at..at + 3);
        let head = head.ok_or(BtfError::Malformed("its last type ends early"))?;
        Ok([head[0], head[1], head[2]])
    }

    /// Whether the name at an offset in the names is this.
    fn is_named(&self, offset: u32, name: &str) -> bool {
        let from = self.strings.get(offset as usize..).unwrap_or_default();
        from.strip_prefix(name.as_bytes())
            .is_some_and(|rest| rest.first() == Some(&0))
    }

    /// The id of a typedef.
    ///
    /// # Errors
    /// No typedef has this name.
    pub fn typedef(&self, name: &str) -> Result<u32, BtfError> {
        self.find(name, kind::TYPEDEF)
            .map(|index| index as u32 + 1)
            .ok_or_else(|| BtfError::NoType(name.to_owned()))
    }

    /// The offset of a field of a structure, bytes. Also finds fields of anonymous members.
    ///
    /// # Errors
    /// The structure or field is unknown, or the field is a bit field.
    pub fn offset(&self, structure: &str, field: &str) -> Result<i16, BtfError> {
        let index = self
            .find(structure, kind::STRUCT)
            .ok_or_else(|| BtfError::NoType(format!("struct {structure}")))?;
        self.field(index, field, DEPTH)
            .filter(|bits| bits % 8 == 0)
            .and_then(|bits| i16::try_from(bits / 8).ok())
            .ok_or_else(|| BtfError::NoField(structure.to_owned(), field.to_owned()))
    }

    /// The index of a type in `types`.
    fn find(&self, name: &str, of_kind: u32) -> Option<usize> {
        self.types.iter().position(|at| {
            let head = self.head(*at);
            head.is_ok_and(|[named, info, _]| {
                info >> 24 & 0x1F == of_kind && self.is_named(named, name)
            })
        })
    }

    /// The offset of a field in bits.
    fn field(&self, index: usize, name: &str, depth: u32) -> Option<u32> {
        let at = *self.types.get(index)?;
        let [_, info, _] = self.head(at).ok()?;
        if !matches!(info >> 24 & 0x1F, kind::STRUCT | kind::UNION) {
            return None;
        }
        // With this flag, the upper 8 bits of an offset are the number of bits of the field, 0 for whole ones.
        let has_sizes = info >> 31 == 1;
        let members = self.words.get(at + 3..)?.chunks_exact(3);
        for member in members.take((info & 0xFFFF) as usize) {
            let (named, of_type, offset) = (member[0], member[1], member[2]);
            let (bits, single) = match has_sizes {
                true => (offset & 0x00FF_FFFF, offset >> 24 > 0),
                false => (offset, false),
            };
            if self.is_named(named, name) {
                return (!single).then_some(bits);
            }
            if named == 0 && depth > 0 {
                let inner = (of_type as usize).checked_sub(1)?;
                if let Some(within) = self.field(inner, name, depth - 1) {
                    return bits.checked_add(within);
                }
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use iodyno_testing::skip;

    /// A description with these types (words) and names.
    fn described(types: &[u32], strings: &[u8]) -> Vec<u8> {
        let length = types.len() as u32 * 4;
        let header = [24, 0, length, length, strings.len() as u32];
        let mut bytes = MAGIC.to_ne_bytes().to_vec();
        bytes.extend([1, 0]);
        bytes.extend(header.iter().flat_map(|word| word.to_ne_bytes()));
        bytes.extend(types.iter().flat_map(|word| word.to_ne_bytes()));
        bytes.extend(strings);
        bytes
    }

    /// `int`; a union of two fields; a structure with a field, that union without a name, and a bit field; a typedef.
    fn example() -> Vec<u8> {
        // Offsets of names:    1    5  7  9  11      16 18
        let strings = b"\0int\0a\0b\0c\0outer\0d\0alias\0";
        let types = [
            [1, kind::INT << 24, 4, 0].as_slice(),
            &[0, kind::UNION << 24 | 2, 4, 5, 1, 0, 7, 1, 0],
            &[11, 1 << 31 | kind::STRUCT << 24 | 3, 16],
            &[9, 1, 32, 0, 2, 64, 17, 1, 3 << 24 | 96],
            &[19, kind::TYPEDEF << 24, 3],
        ];
        described(&types.concat(), strings)
    }

    #[test]
    fn finds_fields_also_within_unions_without_a_name() {
        let btf = Btf::parse(&example()).unwrap();
        assert_eq!(btf.offset("outer", "c"), Ok(4));
        assert_eq!(btf.offset("outer", "b"), Ok(8));
        assert_eq!(btf.typedef("alias"), Ok(4));
        let missing = |field: &str| BtfError::NoField("outer".to_owned(), field.to_owned());
        assert_eq!(btf.offset("outer", "e"), Err(missing("e")));
        assert_eq!(btf.offset("outer", "d"), Err(missing("d")), "a bit field");
        let no_type = BtfError::NoType("struct alias".to_owned());
        assert_eq!(btf.offset("alias", "c"), Err(no_type));
    }

    #[test]
    fn a_description_that_is_cut_off_is_refused() {
        let whole = example();
        for end in 0..whole.len() {
            assert!(Btf::parse(&whole[..end]).is_err(), "{end} bytes");
        }
    }

    #[test]
    fn the_description_of_this_kernel_has_the_fields_of_requests() {
        let Ok(bytes) = std::fs::read("/sys/kernel/btf/vmlinux") else {
            skip("this kernel does not describe its types (/sys/kernel/btf/vmlinux)");
            return;
        };
        let btf = Btf::parse(&bytes).unwrap();
        assert!(btf.offset("request", "cmd_flags").unwrap() > 0);
        assert!(btf.typedef("btf_trace_block_rq_issue").unwrap() > 0);
    }

    proptest! {
        #[test]
        fn damaged_descriptions_are_read_without_a_panic(
            damage in prop::collection::vec((0..160usize, any::<u8>()), 1..6)
        ) {
            let mut bytes = example();
            for (at, value) in damage {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte = value;
                }
            }
            if let Ok(btf) = Btf::parse(&bytes) {
                let _ = btf.offset("outer", "b");
                let _ = btf.typedef("alias");
            }
        }
    }
}
