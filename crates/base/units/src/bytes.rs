use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::{ParseError, scaled, significant, split_number};

/// A number of bytes.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Bytes(pub u64);

const BINARY: [(&str, u64); 5] = [
    ("PiB", 1 << 50),
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
];

impl Bytes {
    /// The value in MiB.
    pub fn mib(self) -> f64 {
        self.0 as f64 / (1u64 << 20) as f64
    }
}

/// `4 KiB`, `1.50 GiB`, `512 B`: three significant digits; exact multiples without decimals.
impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match BINARY.iter().find(|(_, factor)| self.0 >= *factor) {
            None => format!("{} B", self.0),
            Some((unit, factor)) if self.0.is_multiple_of(*factor) => {
                format!("{} {unit}", self.0 / factor)
            }
            Some((unit, factor)) => {
                format!("{} {unit}", significant(self.0 as f64 / *factor as f64))
            }
        };
        f.pad(&text)
    }
}

/// Parses `4096`, `4KiB`, `1.5GiB` (powers of 1024), `4kB`, `1GB` (powers of 1000), and `4k`, `1G` (powers of 1024, as
/// in fio, sysbench, truncate and zfs).
impl FromStr for Bytes {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let error = || ParseError {
            input: text.to_owned(),
            expected: "a size: `4096`, `4KiB`, `1.5GiB`, `2GB`",
            with_unit: None,
        };
        let (number, suffix) = split_number(text.trim());
        let factor = match suffix.to_ascii_lowercase().as_str() {
            "" | "b" => 1,
            "k" | "kib" => 1 << 10,
            "m" | "mib" => 1 << 20,
            "g" | "gib" => 1 << 30,
            "t" | "tib" => 1 << 40,
            "kb" => 1_000,
            "mb" => 1_000_000,
            "gb" => 1_000_000_000,
            "tb" => 1_000_000_000_000,
            _ => return Err(error()),
        };
        scaled(number, factor).map(Bytes).ok_or_else(error)
    }
}

/// The factor of a size suffix in fio's job files, and whether it is the reverse of the standard: with `kb_base` 1024,
/// `k`, `kb` and `ki` are powers of 1024, and `kib` of 1000. Upper and lower case are the same. `None`: not a size
/// suffix.
pub fn fio_size_factor(suffix: &str, kb_base: u64) -> Option<(u64, bool)> {
    let suffix = suffix.to_ascii_lowercase();
    let unit = suffix.strip_suffix('b').unwrap_or(&suffix);
    let power = match unit.chars().next() {
        None => return Some((1, false)),
        Some('k') => 1,
        Some('m') => 2,
        Some('g') => 3,
        Some('t') => 4,
        Some('p') => 5,
        Some(_) => return None,
    };
    let binary_word = match &unit[1..] {
        "" => false,
        "i" => true,
        _ => return None,
    };
    // Only the long form (`kib`) changes the base; `ki` alone does not.
    let base: u64 = match (binary_word && suffix.ends_with('b'), kb_base) {
        (false, base) => base,
        (true, 1000) => 1024,
        (true, _) => 1000,
    };
    Some((base.pow(power), binary_word && base == 1000))
}

#[cfg(test)]
mod tests {
    use super::Bytes;

    #[test]
    fn parses_all_units() {
        for (text, bytes) in [
            ("4096", 4096),
            ("4KiB", 4096),
            ("4kB", 4000),
            ("1.5GiB", 3 << 29),
            (" 2 MiB", 2 << 20),
            ("128m", 128 << 20),
            ("1.5G", 3 << 29),
            ("4 k", 4096),
            ("0", 0),
        ] {
            assert_eq!(text.parse::<Bytes>().unwrap(), Bytes(bytes), "{text}");
        }
        for text in [
            "",
            "x",
            "4x",
            "4i",
            "1.2.3KiB",
            "-4KiB",
            "99999999999TiB",
            "1e4",
        ] {
            let error = text.parse::<Bytes>().unwrap_err();
            assert!(error.to_string().contains(text));
        }
    }

    #[test]
    fn prints_three_digits_and_a_unit() {
        for (bytes, text) in [
            (0, "0 B"),
            (512, "512 B"),
            (4096, "4 KiB"),
            (5000, "4.88 KiB"),
            (4 << 30, "4 GiB"),
            (u64::MAX, "16384 PiB"),
        ] {
            assert_eq!(Bytes(bytes).to_string(), text);
        }
    }
}
