//! A compact encoding of integer sequences that compresses well.

use serde::{Deserialize, Serialize};

/// A sequence of integers, without trailing repetitions. A sequence of zeros is empty.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Numbers {
    /// A common divisor of all values, for example of clock ticks, pages or sectors. Values are stored divided by it.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    unit: u64,
    /// Whether each value but the first is stored as its difference from the previous known value.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    steps: bool,
    /// The last value repeats indefinitely; if there is none, the value is 0.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    values: Vec<Option<i64>>,
}

fn one() -> u64 {
    1
}

fn is_one(unit: &u64) -> bool {
    *unit == 1
}

impl Numbers {
    /// Encodes a sequence, directly or as differences, whichever has fewer digits. Unsigned 64-bit values are passed
    /// in as the signed values with the same bits.
    pub(crate) fn of(values: &[Option<i64>]) -> Numbers {
        // Most interrupt sources never fire on most CPUs.
        if values.iter().all(|value| *value == Some(0)) {
            return Numbers {
                unit: 1,
                steps: false,
                values: Vec::new(),
            };
        }
        let mut before = 0i64;
        let steps: Vec<Option<i64>> = values
            .iter()
            .map(|value| {
                value.map(|value| value.wrapping_sub(std::mem::replace(&mut before, value)))
            })
            .collect();
        let plain = Numbers::shortened(values.to_vec(), false);
        let stepped = Numbers::shortened(steps, true);
        match stepped.digits() < plain.digits() {
            true => stepped,
            false => plain,
        }
    }

    /// The decoded values; the last stored one repeats indefinitely.
    pub(crate) fn read(&self) -> impl Iterator<Item = Option<i64>> {
        let last = self.values.last().copied().unwrap_or(Some(0));
        let mut before = 0i64;
        let values = self.values.iter().copied().chain(std::iter::repeat(last));
        values.map(move |value| {
            let value = value?.wrapping_mul(self.unit as i64);
            before = match self.steps {
                true => before.wrapping_add(value),
                false => value,
            };
            Some(before)
        })
    }

    fn shortened(mut values: Vec<Option<i64>>, steps: bool) -> Numbers {
        let known = values.iter().flatten();
        let unit = known.fold(0, |unit, value| divisor(unit, value.unsigned_abs()));
        let unit = if i64::try_from(unit).is_ok() {
            unit.max(1)
        } else {
            1
        };
        for value in values.iter_mut().flatten() {
            *value /= unit as i64;
        }
        while values.len() > 1 && values[values.len() - 2] == values[values.len() - 1] {
            values.pop();
        }
        Numbers {
            unit,
            steps,
            values,
        }
    }

    fn digits(&self) -> u32 {
        let known = self.values.iter().flatten();
        let digits = known.map(|value| 1 + value.unsigned_abs().checked_ilog10().unwrap_or(0));
        digits.sum()
    }
}

/// The greatest common divisor. If one argument is 0, the other one.
fn divisor(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text(values: &[Option<i64>]) -> String {
        serde_json::to_string(&Numbers::of(values)).unwrap()
    }

    #[test]
    fn repetitions_are_stored_once() {
        let check = |values: &[i64], written: &str| {
            let values: Vec<Option<i64>> = values.iter().copied().map(Some).collect();
            assert_eq!(text(&values), written);
        };
        check(&[], "{}");
        check(&[0, 0, 0], "{}");
        check(&[7, 7, 7], r#"{"unit":7,"values":[1]}"#);
        check(&[0, 0, 5, 0, 0], r#"{"unit":5,"values":[0,0,1,0]}"#);
        check(&[40, 41, 42, 43], r#"{"steps":true,"values":[40,1]}"#);
        check(
            &[30_000_000, 10_000_000, 0],
            r#"{"unit":10000000,"values":[3,1,0]}"#,
        );
        check(
            &[8_192_004_096, 8_192_000_000, 8_192_008_192],
            r#"{"unit":4096,"steps":true,"values":[2000001,-1,2]}"#,
        );
        check(
            &[i64::MIN, i64::MIN],
            r#"{"values":[-9223372036854775808]}"#,
        );
    }

    #[test]
    fn unknown_values_stay_unknown() {
        assert_eq!(text(&[None, None]), r#"{"values":[null]}"#);
        assert_eq!(text(&[Some(1), None]), r#"{"values":[1,null]}"#);
        assert_eq!(
            text(&[Some(100), None, Some(101), Some(102)]),
            r#"{"steps":true,"values":[100,null,1]}"#
        );
    }

    proptest! {
        #[test]
        fn any_sequence_is_decoded_unchanged(
            values in prop::collection::vec(prop::option::weighted(0.9, any::<i64>()), 0..40),
            unit in 1i64..1000, small in any::<bool>(),
        ) {
            let smaller = |value: i64| if small { value % 100 * unit } else { value };
            let values: Vec<Option<i64>> =
                values.into_iter().map(|value| value.map(smaller)).collect();
            let text = text(&values);
            let read: Numbers = serde_json::from_str(&text).unwrap();
            let read: Vec<Option<i64>> = read.read().take(values.len()).collect();
            prop_assert_eq!(read, values, "{}", text);
        }
    }
}
