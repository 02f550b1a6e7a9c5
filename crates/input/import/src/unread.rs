//! Recognises lines that look like results, to list those that no reader understood.

use super::measure::measure;

/// Words that tools print before or above their figures. In lower case.
const WORDS: [&str; 9] = [
    "iops=",
    "bw=",
    "\"fio version\"",
    "ops/sec(cum)",
    "reads/s:",
    "writes/s:",
    "bytes/sec",
    "tps = ",
    "clat percentiles",
];

/// Lines of tools whose output is known but not supported, each with the reason. In lower case.
const KNOWN: [(&str, &str); 4] = [
    (
        "requests/sec executed",
        "sysbench 0.4's output is not supported: use sysbench 1.0, or write the figures as a table",
    ),
    (
        "total transferred",
        "sysbench 0.4's output is not supported: use sysbench 1.0, or write the figures as a table",
    ),
    (
        "%util",
        "output of `iostat -x` is not supported: `iodyno run` samples the disks itself",
    ),
    (
        "fsync: iops=",
        "sysbench 1.1's output is not supported: use sysbench 1.0, or write the figures as a table",
    ),
];

/// Why a line that no reader understood is listed; `None` if it does not look like a result.
pub(super) fn why_unread(line: &str) -> Option<&'static str> {
    let lower = line.to_lowercase();
    if let Some((_, why)) = KNOWN.iter().find(|(words, _)| lower.contains(words)) {
        return Some(why);
    }
    if is_sysbench_1_1(lower.trim()) {
        return Some(KNOWN[3].1);
    }
    if WORDS.iter().any(|word| lower.contains(word)) {
        return Some("looks like a tool's output, but not in a form that is known");
    }
    if is_statement(&lower) {
        return Some(STATEMENT);
    }
    if !has_unit(&lower) {
        return is_row(&lower)
            .then_some("a table whose columns are not known; name them by a column map");
    }
    Some(if lower.starts_with('|') {
        "a table whose columns are not known; name them by a column map"
    } else {
        "a figure outside of any known form; figures within prose are not read"
    })
}

/// `read:  IOPS=4243.58 66.31 MiB/s (69.53 MB/s)`; fio prints a comma and `BW=`.
fn is_sysbench_1_1(lower: &str) -> bool {
    let rest = lower.strip_prefix("read:").or(lower.strip_prefix("write:"));
    rest.is_some_and(|rest| {
        rest.contains("iops=") && rest.contains(" mib/s (") && !rest.contains("bw=")
    })
}

/// The reason for a line of prose that states a relative difference.
pub(super) const STATEMENT: &str =
    "a claim in prose: whether the results support it needs a reader's judgement";

/// Beginnings of words that compare. In lower case.
const COMPARING: [&str; 20] = [
    "fast", "slow", "better", "worse", "improv", "increas", "decreas", "reduc", "higher", "lower",
    "more", "less", "regress", "gain", "drop", "speed", "degrad", "boost", "up", "down",
];

/// Prose that gives a relative difference: `increased by 50%`, `+10 %`, `2x faster`, `3 times slower`. In lower case.
fn is_statement(lower: &str) -> bool {
    if lower.starts_with('|') {
        return false;
    }
    let words: Vec<&str> = lower
        .split_whitespace()
        .map(|word| word.trim_matches(['(', ')', '"', '*', '`', ',', '.', ';', ':']))
        .collect();
    let is_number = |word: &str| {
        word.trim_start_matches(['+', '-', '−', '~'])
            .parse::<f64>()
            .is_ok()
    };
    let mut signed = false;
    let mut relative = false;
    for (place, word) in words.iter().enumerate() {
        let next = words.get(place + 1).copied().unwrap_or("");
        let percent = word.strip_suffix('%').is_some_and(is_number)
            || (is_number(word) && ["%", "percent"].contains(&next));
        let times = word.strip_suffix(['x', '×']).is_some_and(is_number)
            || (is_number(word) && next == "times");
        relative |= percent || times;
        signed |= percent && word.starts_with(['+', '-', '−']);
    }
    let compares = |word: &&str| COMPARING.iter().any(|begin| word.starts_with(begin));
    // A row of figures is not prose.
    let letters = words
        .iter()
        .filter(|word| word.starts_with(char::is_alphabetic))
        .count();
    relative && letters >= 3 && (signed || words.iter().any(compares))
}

/// A number directly followed by a unit.
fn has_unit(lower: &str) -> bool {
    let mut numbered = false;
    for word in lower.split([' ', '\t', '|', '(', ')', '=', ',', ';']) {
        let unit = word.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
        let has_number = unit.len() < word.len();
        let is_unit = measure(unit.trim_end_matches(['.', ':'])).is_some();
        if is_unit && (has_number || numbered) {
            return true;
        }
        // `12 k IO/s` and `12k IO/s`: a single letter is the scale of the number.
        numbered = (has_number && unit.len() <= 1) || (numbered && word.is_empty());
    }
    false
}

/// A row of a table with bars and at least two numbers.
fn is_row(line: &str) -> bool {
    line.matches('|').count() >= 2
        && line
            .split(['|', ' ', '\t'])
            .filter(|word| word.parse::<f64>().is_ok())
            .count()
            >= 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_the_tool_whose_output_is_not_supported() {
        for (line, tool) in [
            ("  333.05 Requests/sec executed", "sysbench 0.4"),
            (
                "Read 93.75Mb  Written 62.5Mb  Total transferred 156.25Mb  (5.2Mb/sec)",
                "sysbench 0.4",
            ),
            (
                "   read:  IOPS=4243.58 66.31 MiB/s (69.53 MB/s)",
                "sysbench 1.1",
            ),
            ("Device  r/s  rkB/s  w/s  wkB/s  aqu-sz  %util", "iostat -x"),
            (
                "  read: IOPS=12, BW=48.1MiB/s (50.4MB/s)(28",
                "a tool's output",
            ),
        ] {
            assert!(
                why_unread(line).is_some_and(|why| why.contains(tool)),
                "{line}"
            );
        }
    }

    #[test]
    fn distinguishes_figures_from_prose() {
        for (line, unread) in [
            ("both capped near 250 MB/s by the device", true),
            ("12.5k IOPS", true),
            ("  READ: bw=48.1MiB/s (50.4MB/s)", true),
            ("| a | 1 | 2 |", true),
            ("4891 KiB/s", true),
            ("random reads from 16 files (MB/s).", false),
            ("the 4k block bandwidth", false),
            ("| Node | Bandwidth |", false),
            ("improved by 50%, and the IOPs by 10%,", true),
            (
                "and the IOPs by 10%, by more carefully selecting the preferred",
                true,
            ),
            ("reads gain +50 % and writes +10 %", true),
            ("ext4 was 3 times slower", true),
            ("zfs is 2.5x faster here", true),
            ("the disk was 50% full", false),
            ("cpu : usr=3.10%, sys=8.20%, ctx=100", false),
            ("tank 12% 3% 5%", false),
            ("the last of them took 41.5 seconds", true),
            ("tps = 595.473351 (without initial connection time)", true),
            ("checkpoint after 12345 tps", true),
            ("p99 was 12ms", true),
            ("a file of 8 MiB", false),
            ("", false),
        ] {
            assert_eq!(why_unread(line).is_some(), unread, "{line}");
        }
    }
}
