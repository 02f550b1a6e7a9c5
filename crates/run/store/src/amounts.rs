//! The numbers in the results of an exported run: their sums and times have 64 bits.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};

/// The largest number of a result, and the largest sum of the amounts of a trial with its frames.
const LARGEST: u64 = 1 << 61;

/// The largest time, ms since 1970: the end of the year 9999.
const MAX_MS: u64 = 253_402_300_799_999;

/// The numbers of a line, as magnitudes; fractions do not count.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Numbers {
    largest: u64,
    /// Of those that are added up: not of times of clocks.
    sum: u64,
    /// The largest of the times since 1970.
    latest_ms: u64,
}

/// Adds up the numbers of a trial and of its frames.
#[derive(Debug, Default)]
pub(crate) struct Amounts(u64);

impl Amounts {
    /// Adds a line; `first`: it is that of a trial. Returns what is wrong with its numbers.
    pub(crate) fn add(&mut self, line: &[u8], first: bool) -> Result<(), String> {
        let found: Numbers = serde_json::from_slice(line).map_err(|error| error.to_string())?;
        let before = if first { 0 } else { self.0 };
        self.0 = before.saturating_add(found.sum);
        match () {
            () if found.largest > LARGEST => Err(format!(
                "the number {} is too large: at most {LARGEST}",
                found.largest
            )),
            () if self.0 > LARGEST => Err(format!(
                "the numbers of the trial add up to more than {LARGEST}"
            )),
            () => check_time(found.latest_ms),
        }
    }
}

/// Returns what is wrong with a time, ms since 1970.
pub(crate) fn check_time(unix_ms: u64) -> Result<(), String> {
    match unix_ms > MAX_MS {
        true => Err(format!("the time {unix_ms} ms is after the year 9999")),
        false => Ok(()),
    }
}

impl Numbers {
    fn one(number: u64) -> Numbers {
        Numbers {
            largest: number,
            sum: number,
            latest_ms: 0,
        }
    }

    fn and(self, other: Numbers) -> Numbers {
        Numbers {
            largest: self.largest.max(other.largest),
            sum: self.sum.saturating_add(other.sum),
            latest_ms: self.latest_ms.max(other.latest_ms),
        }
    }

    /// As those of a member with this name.
    fn named(self, name: &str) -> Numbers {
        match name {
            // The sum of a histogram has 128 bits, and a seed is not added to anything.
            "sum" | "seed" => Numbers::default(),
            name if name.ends_with("unix_ms") => Numbers {
                latest_ms: self.largest,
                sum: 0,
                ..self
            },
            name if ["at_ns", "start_ns", "end_ns"]
                .iter()
                .any(|end| name.ends_with(end)) =>
            {
                Numbers { sum: 0, ..self }
            }
            _ => self,
        }
    }
}

impl<'de> Deserialize<'de> for Numbers {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Numbers, D::Error> {
        struct Any;

        impl<'de> Visitor<'de> for Any {
            type Value = Numbers;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a value")
            }

            fn visit_unit<E>(self) -> Result<Numbers, E> {
                Ok(Numbers::default())
            }

            fn visit_bool<E>(self, _: bool) -> Result<Numbers, E> {
                Ok(Numbers::default())
            }

            fn visit_str<E>(self, _: &str) -> Result<Numbers, E> {
                Ok(Numbers::default())
            }

            fn visit_f64<E>(self, _: f64) -> Result<Numbers, E> {
                Ok(Numbers::default())
            }

            fn visit_u64<E>(self, number: u64) -> Result<Numbers, E> {
                Ok(Numbers::one(number))
            }

            fn visit_i64<E>(self, number: i64) -> Result<Numbers, E> {
                Ok(Numbers::one(number.unsigned_abs()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Numbers, A::Error> {
                let mut all = Numbers::default();
                while let Some(one) = list.next_element::<Numbers>()? {
                    all = all.and(one);
                }
                Ok(all)
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Numbers, A::Error> {
                let mut all = Numbers::default();
                while let Some(name) = map.next_key::<String>()? {
                    all = all.and(map.next_value::<Numbers>()?.named(&name));
                }
                Ok(all)
            }
        }

        from.deserialize_any(Any)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_limited_alone_and_in_sum() {
        let half = LARGEST / 2;
        let check = |lines: &[String], expected: &str| {
            let mut amounts = Amounts::default();
            let mut lines = lines.iter().zip([true, false, false]);
            let found = lines.try_for_each(|(line, first)| amounts.add(line.as_bytes(), first));
            let found = found.err().unwrap_or_default();
            assert!(
                found.contains(expected) && found.is_empty() == expected.is_empty(),
                "{found}"
            );
        };
        let list = |number: u64| format!(r#"{{"a":[{number},{number},-1.5,null,"x",true]}}"#);
        check(&[list(half)], "");
        check(&[list(half), list(1)], "add up to more than");
        check(&[list(half + 1)], "add up to more than");
        check(&[list(LARGEST + 1)], "is too large");
        check(&[format!(r#"{{"b":{}}}"#, i64::MIN)], "is too large");
        check(
            &[format!(r#"{{"seed":{0},"c":{{"sum":{0}}}}}"#, u64::MAX)],
            "",
        );
        check(
            &[format!(r#"{{"at_ns":{LARGEST},"clock_at_ns":{LARGEST}}}"#)],
            "",
        );
        check(
            &[format!(r#"{{"start_unix_ms":{LARGEST}}}"#)],
            "after the year 9999",
        );
        check(&[format!(r#"{{"start_unix_ms":{MAX_MS}}}"#)], "");
    }
}
