//! Describes the amounts of a workload as text.

use iodyno_model::{Action, CycleStep, Operations};
use iodyno_units::Bytes;

use super::cycle::op_word;

/// `files 10000 × 2 MiB; a cycle appends 10 MiB`.
pub(super) fn amounts(operations: &Operations) -> String {
    let sets = operations.sets.iter();
    let sets = sets.map(|set| format!("{} {} × {}", set.name, set.count, Bytes(set.size)));
    let sets: Vec<String> = sets.collect();
    let written = operations
        .cycle
        .iter()
        .filter_map(|step| match step.action {
            Action::Write { bytes } => Some(format!("a cycle writes {}", Bytes(bytes))),
            Action::Append {
                bytes, new_file_at, ..
            } => Some(format!(
                "a cycle appends {}, a new file at {}",
                Bytes(bytes),
                Bytes(new_file_at)
            )),
            _ => None,
        });
    let mut parts: Vec<String> = written.collect();
    if !sets.is_empty() {
        parts.insert(0, sets.join(", "));
    }
    parts.join("; ")
}

/// `create, sync_folder timed; close not`: for workloads without a description.
pub(super) fn steps(cycle: &[CycleStep]) -> String {
    let words = |timed: bool| {
        let steps = cycle.iter().filter(|step| step.timed == timed);
        let words: Vec<&str> = steps.map(|step| op_word(&step.action)).collect();
        words.join(", ")
    };
    match (words(true), words(false)) {
        (timed, untimed) if untimed.is_empty() => format!("{timed} timed"),
        (timed, untimed) => format!("{timed} timed; {untimed} not"),
    }
}
