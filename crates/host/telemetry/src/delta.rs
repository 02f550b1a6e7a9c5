//! The increase of a count between two readings.

/// How a count changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Growth {
    /// It increased by this, with or without a wrap.
    By(u64),
    /// It decreased by at most the slack: it is treated as unchanged.
    WithinSlack,
    /// It decreased: it restarted from an unknown value.
    Restarted,
}

/// The change of a count between two readings. A decrease is a wrap if the range is known and the increase would be
/// less than a quarter of it.
pub(crate) fn growth(before: u64, now: u64, wraps: Option<u64>, slack: u64) -> Growth {
    if let Some(grown) = now.checked_sub(before) {
        return Growth::By(grown);
    }
    if before - now <= slack {
        return Growth::WithinSlack;
    }
    let around = wraps.and_then(|range| Some((range, range.checked_sub(before)? + now)));
    match around {
        Some((range, grown)) if grown < range / 4 => Growth::By(grown),
        _ => Growth::Restarted,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const RANGE: u64 = 1 << 32;

    #[test]
    fn distinguishes_a_wrap_from_a_restart() {
        for (before, now, wraps, slack, expected) in [
            (5, 9, None, 0, Growth::By(4)),
            (9, 9, None, 0, Growth::By(0)),
            (9, 5, None, 0, Growth::Restarted),
            (9, 5, None, 4, Growth::WithinSlack),
            (10, 5, None, 4, Growth::Restarted),
            (RANGE - 3, 4, Some(RANGE), 0, Growth::By(7)),
            (RANGE - 3, 4, None, 0, Growth::Restarted),
            // Three quarters of the range in one sample: more likely another disk with the same name.
            (1000, 4, Some(RANGE), 0, Growth::Restarted),
            (RANGE - 3, RANGE - 9, Some(RANGE), 0, Growth::Restarted),
            (1 << 40, 4, Some(RANGE), 0, Growth::Restarted),
            (RANGE - 1, RANGE + 5, Some(RANGE), 0, Growth::By(6)),
            (u64::MAX, 0, Some(u64::MAX), 0, Growth::By(0)),
        ] {
            assert_eq!(
                growth(before, now, wraps, slack),
                expected,
                "{before} {now}"
            );
        }
    }

    proptest! {
        #[test]
        fn counts_of_32_bits_grow_as_the_actual_ones(
            start in 0..1u64 << 40, grown in 0..RANGE / 4
        ) {
            let kept = |real: u64| real % RANGE;
            prop_assert_eq!(
                growth(kept(start), kept(start + grown), Some(RANGE), 0), Growth::By(grown)
            );
        }
    }
}
