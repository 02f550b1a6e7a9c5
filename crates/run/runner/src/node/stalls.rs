//! The times in which no op of any clone of a trial completed.

use iodyno_model::Stalls;

/// When a clone was measured, and when none of its ops ended. Instants are on the trial's clock, ns.
#[derive(Debug, Clone, Default)]
pub(crate) struct Pauses {
    /// Start and end of its measured time.
    pub(crate) measured: (u64, u64),
    /// All pauses of at least this length are listed, ns.
    pub(crate) least_ns: u64,
    /// Start and end of each, ascending.
    pub(crate) list: Vec<(u64, u64)>,
}

/// The times in which some clone was measured, and none that was measured completed an op.
pub(crate) fn stalls<'a>(clones: impl Iterator<Item = &'a Pauses> + Clone) -> Stalls {
    let clones = clones.filter(|clone| clone.measured.0 < clone.measured.1);
    let measured = merged(clones.clone().map(|clone| clone.measured).collect());
    let active = merged(clones.clone().flat_map(active).collect());
    let mut list = Vec::new();
    for (from, to) in measured {
        let mut reached = from;
        let within = active
            .iter()
            .filter(|(start, end)| *end > from && *start < to);
        for (start, end) in within {
            list.push((reached, start.saturating_sub(reached)));
            reached = *end;
        }
        list.push((reached, to.saturating_sub(reached)));
    }
    let least_ns = clones.map(|clone| clone.least_ns).max().unwrap_or(0);
    longest(list, least_ns)
}

/// The times between the pauses of a clone. An instant counts as a time.
fn active(clone: &Pauses) -> Vec<(u64, u64)> {
    let (mut reached, until) = clone.measured;
    let mut list = Vec::new();
    for (from, to) in &clone.list {
        // A pause begins with the end of an op, and the first one with the measured time.
        if *from > clone.measured.0 {
            list.push((reached, *from));
        }
        reached = reached.max(*to);
    }
    list.push((reached, until));
    list.retain(|(from, to)| from <= to);
    list
}

/// Overlapping times as one, ascending.
fn merged(mut all: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
    all.sort_unstable();
    let mut merged: Vec<(u64, u64)> = Vec::new();
    for (from, to) in all {
        match merged.last_mut() {
            Some(last) if from <= last.1 => last.1 = last.1.max(to),
            _ => merged.push((from, to)),
        }
    }
    merged
}

/// Stalls of at least some length: the given one, or more if there are too many.
fn longest(mut list: Vec<(u64, u64)>, mut least_ns: u64) -> Stalls {
    list.retain(|(_, span_ns)| *span_ns >= least_ns.max(1));
    while list.len() > Stalls::MOST {
        least_ns = least_ns.max(1).saturating_mul(2);
        list.retain(|(_, span_ns)| *span_ns >= least_ns);
    }
    Stalls { least_ns, list }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEAST: u64 = 10;

    fn clone(measured: (u64, u64), list: &[(u64, u64)]) -> Pauses {
        Pauses {
            measured,
            least_ns: LEAST,
            list: list.to_vec(),
        }
    }

    #[test]
    fn a_stall_is_the_time_in_which_all_clones_pause() {
        for (clones, expected) in [
            (vec![clone((0, 100), &[(20, 50)])], vec![(20, 30)]),
            // Another clone completes an op at 40.
            (
                vec![
                    clone((0, 100), &[(20, 50)]),
                    clone((0, 100), &[(10, 40), (40, 60)]),
                ],
                vec![(20, 20), (40, 10)],
            ),
            // Another clone continues.
            (
                vec![clone((0, 100), &[(20, 50)]), clone((0, 100), &[])],
                vec![],
            ),
            // The other one has ended, or has not started.
            (
                vec![clone((0, 100), &[(60, 90)]), clone((0, 60), &[])],
                vec![(60, 30)],
            ),
            // From the start, and to the end.
            (
                vec![clone((5, 100), &[(5, 40), (80, 100)])],
                vec![(5, 35), (80, 20)],
            ),
            // Between two clones that were measured one after the other, no stall is reported.
            (vec![clone((0, 40), &[]), clone((70, 100), &[])], vec![]),
            // Only the common time, if that is long enough.
            (
                vec![clone((0, 100), &[(20, 50)]), clone((0, 100), &[(45, 70)])],
                vec![],
            ),
            (vec![clone((0, 0), &[])], vec![]),
        ] {
            assert_eq!(stalls(clones.iter()).list, expected, "{clones:?}");
        }
    }

    #[test]
    fn of_many_stalls_the_longest_are_listed_with_their_least_length() {
        let pauses = (0..1000).map(|number| (number * 100, number * 100 + 20 + number % 10));
        let one = clone((0, 100_000), &pauses.collect::<Vec<_>>());
        let found = stalls([&one].into_iter());
        assert!(found.list.len() <= Stalls::MOST && found.least_ns > LEAST);
        assert!(found.list.iter().all(|(_, span)| *span >= found.least_ns));
    }
}
