//! Recognises lines that look like results, to list those that no reader understood.

/// Units of figures, as they follow a number. In lower case.
const RATES: [&str; 12] = [
    "kib/s", "mib/s", "gib/s", "kb/s", "mb/s", "gb/s", "b/s", "io/s", "iops", "iop/s", "ops/s",
    "ops/sec",
];

/// Words that tools put before or over their figures. In lower case.
const WORDS: [&str; 8] = [
    "iops=",
    "bw=",
    "\"fio version\"",
    "ops/sec(cum)",
    "reads/s:",
    "writes/s:",
    "bytes/sec",
    "clat percentiles",
];

/// Why a line that no reader understood should be named, if it looks like a result.
pub(super) fn why_unread(line: &str) -> Option<&'static str> {
    let lower = line.to_lowercase();
    if WORDS.iter().any(|word| lower.contains(word)) {
        return Some("looks like a tool's output, but not in a form that is known");
    }
    if !has_rate(&lower) {
        return is_row(&lower)
            .then_some("a table whose columns are not known; name them by a column map");
    }
    Some(if lower.starts_with('|') {
        "a table whose columns are not known; name them by a column map"
    } else {
        "a figure outside of any known form; figures within prose are not read"
    })
}

/// A number with a rate's unit right after it.
fn has_rate(lower: &str) -> bool {
    let mut numbered = false;
    for word in lower.split([' ', '\t', '|', '(', ')', '=', ',', ';']) {
        let unit = word.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
        let has_number = unit.len() < word.len();
        let is_rate = RATES.contains(&unit.trim_end_matches(['.', ':']));
        if is_rate && (has_number || numbered) {
            return true;
        }
        // `12 k IO/s` and `12k IO/s`: a scale of one letter belongs to the number.
        numbered = (has_number && unit.len() <= 1) || (numbered && word.is_empty());
    }
    false
}

/// A row of a table with bars and at least two numbers in it.
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
    fn tells_figures_from_prose() {
        for (line, unread) in [
            ("both capped near 250 MB/s by the device", true),
            ("12.5k IOPS", true),
            ("  READ: bw=48.1MiB/s (50.4MB/s)", true),
            ("| a | 1 | 2 |", true),
            ("4891 KiB/s", true),
            ("random reads from 16 files (MB/s).", false),
            ("the 4k block bandwidth", false),
            ("| Node | Bandwidth |", false),
            ("improved by 50%, and the IOPs by 10%,", false),
            ("", false),
        ] {
            assert_eq!(why_unread(line).is_some(), unread, "{line}");
        }
    }
}
