//! Headings, and the section of a write-up to which each applies.

/// A heading: a line of prose that names the text after it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Heading {
    /// Its line, from 1.
    pub(crate) line: u32,
    /// A smaller number is a wider section: the number of characters of `#` and `=`, 1 (`=`) or 2 (`-`) for
    /// underlined headings, 10 for a line in bold, 11 for an item of a numbered list.
    pub(crate) level: u32,
    /// Its words, without the markup.
    pub(crate) text: String,
    /// The index of the next wider heading in force.
    parent: Option<usize>,
}

impl Heading {
    /// Whether it names a section, and is not a list item.
    pub(crate) fn is_section(&self) -> bool {
        self.level < ITEM
    }
}

impl Heading {
    /// The name that it gives: `ext4` for `## ext4 results:`. `None` if it numbers a run, is a command, or is a list
    /// item that does not say whose results follow.
    pub(crate) fn name(&self) -> Option<&str> {
        let text = self.text.trim().trim_end_matches(':').trim();
        if let Some(name) = results_of(text) {
            return Some(name);
        }
        let lower = text.to_lowercase();
        let mut words = lower.split_whitespace();
        let first = words.next()?;
        let number = |word: &str| {
            let digits = word.trim_matches(['#', '.', ':']);
            !digits.is_empty() && digits.bytes().all(|c| c.is_ascii_digit())
        };
        let numbers_a_run = number(first)
            || (RUNS.contains(&first.trim_end_matches('#'))
                && words.next().is_some_and(number)
                && words.next().is_none());
        let command = (COMMANDS.contains(&first) && lower.contains(' '))
            || first.starts_with(['.', '/'])
            || text.contains(" --");
        (self.is_section() && !numbers_a_run && !command).then_some(text)
    }
}

/// Words before the number of a repetition.
const RUNS: [&str; 9] = [
    "run",
    "round",
    "trial",
    "loop",
    "repetition",
    "iteration",
    "attempt",
    "pass",
    "take",
];

/// Commands after a root prompt: `# fio job.fio` looks like a heading.
const COMMANDS: [&str; 14] = [
    "fio", "sysbench", "iodyno", "sudo", "cd", "cat", "echo", "for", "mount", "umount", "sync",
    "zfs", "zpool", "dd",
];

/// The name in a heading above results: `ext4` of `ext4 results from each run`.
pub(crate) fn results_of(heading: &str) -> Option<&str> {
    const NO_NAMES: [&str; 10] = [
        "the",
        "these",
        "those",
        "all",
        "our",
        "benchmark",
        "test",
        "raw",
        "following",
        "no",
    ];
    let mut words = heading.split_whitespace();
    let name = words.next()?.trim_matches(['*', '`', '"', ':']);
    let results = words.next()?;
    let follows = words.next().unwrap_or("");
    let is_word = results
        .trim_end_matches([':', '.'])
        .eq_ignore_ascii_case("results");
    let goes_on = ["", "from", "of", "for", "with", "on"].contains(&follows);
    let is_name = !name.is_empty() && !NO_NAMES.contains(&name.to_ascii_lowercase().as_str());
    (is_word && goes_on && is_name).then_some(name)
}

/// The headings in force at a line, and the prose above it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Context<'t> {
    /// The widest first.
    pub(crate) headings: Vec<&'t Heading>,
}

impl<'t> Context<'t> {
    /// The narrowest heading that satisfies a predicate.
    pub(crate) fn nearest(&self, test: impl Fn(&Heading) -> bool) -> Option<&'t Heading> {
        self.headings.iter().rev().copied().find(|h| test(h))
    }
}

/// All headings of a text.
#[derive(Debug, Default)]
pub(super) struct Headings {
    all: Vec<Heading>,
}

const BOLD: u32 = 10;
const ITEM: u32 = 11;

impl Headings {
    pub(super) fn of<'t>(lines: impl Iterator<Item = &'t str>) -> Headings {
        let mut all: Vec<Heading> = Vec::new();
        let mut open: Vec<usize> = Vec::new();
        let mut fence: Option<&str> = None;
        let mut above = "";
        let mut lines = (1..).zip(lines).peekable();
        while let Some((line, text)) = lines.next() {
            let (over, below) = (above, lines.peek().map_or("", |(_, text)| *text));
            above = text;
            if let Some(mark) = fence {
                if text.trim_start().starts_with(mark) {
                    fence = None;
                }
                continue;
            }
            fence = opens_fence(text, over);
            if fence.is_some() {
                continue;
            }
            let Some((level, words)) = heading(text, below) else {
                continue;
            };
            while open.last().is_some_and(|&last| all[last].level >= level) {
                open.pop();
            }
            let parent = open.last().copied();
            open.push(all.len());
            all.push(Heading {
                line,
                level,
                text: words.replace("**", ""),
                parent,
            });
        }
        Headings { all }
    }

    pub(super) fn context(&self, line: u32) -> Context<'_> {
        let above = self.all.partition_point(|heading| heading.line <= line);
        let mut headings = Vec::new();
        let mut next = above.checked_sub(1);
        while let Some(heading) = next.map(|index| &self.all[index]) {
            headings.push(heading);
            next = heading.parent;
        }
        headings.reverse();
        Context { headings }
    }
}

/// The mark that ends a block of verbatim text, if this line opens one.
pub(crate) fn opens_fence<'t>(line: &str, above: &str) -> Option<&'t str> {
    let text = line.trim_start();
    if text.starts_with("```") {
        return Some("```");
    }
    if text.starts_with("~~~") {
        return Some("~~~");
    }
    match line {
        "...." => Some("...."),
        // Below a line of text it is that line's underline.
        "----" if above.trim().is_empty() || above.starts_with('[') => Some("----"),
        _ => None,
    }
}

/// The level and the words of a heading; `None` for other lines.
fn heading<'t>(line: &'t str, below: &str) -> Option<(u32, &'t str)> {
    for mark in ['#', '='] {
        let words = line.trim_start_matches(mark);
        let level = line.len() - words.len();
        if (1..=6).contains(&level) && words.starts_with([' ', '\t']) && !words.trim().is_empty() {
            let words = words.trim().trim_end_matches(mark).trim_end();
            return Some((level as u32, words));
        }
    }
    if let Some(level) = underline(below, line) {
        return Some((level, line.trim()));
    }
    if let Some(words) = bold(line.trim()) {
        return Some((BOLD, words));
    }
    item(line).map(|words| (ITEM, words))
}

/// The level of the line above an underline.
fn underline(line: &str, above: &str) -> Option<u32> {
    let mark = line.chars().next().filter(|mark| "=-".contains(*mark))?;
    let length = line.len();
    let fits = length >= 3
        && length.abs_diff(above.trim().chars().count()) <= 3
        && line.chars().all(|c| c == mark)
        && above.starts_with(char::is_alphanumeric)
        && above.contains(char::is_alphabetic);
    fits.then_some(if mark == '=' { 1 } else { 2 })
}

/// The words of a line that begins in bold: `**Benchmark 1:** creating files`.
fn bold(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("**")?;
    let end = rest.find("**")?;
    (end > 0).then(|| line.trim_matches('*'))
}

/// The words of a numbered item that is not indented: `1. ext4 results`.
fn item(line: &str) -> Option<&str> {
    let digits = line.bytes().take_while(u8::is_ascii_digit).count();
    let rest = line.get(digits..)?;
    let words = rest
        .strip_prefix(". ")
        .or_else(|| rest.strip_prefix(") "))?;
    ((1..=3).contains(&digits) && !words.trim().is_empty()).then(|| words.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn over(text: &str, line: u32) -> Vec<String> {
        let headings = Headings::of(text.lines());
        let context = headings.context(line);
        context.headings.iter().map(|h| h.text.clone()).collect()
    }

    #[test]
    fn finds_the_headings_over_a_line() {
        for (text, line, expected) in [
            ("x", 1, vec![]),
            ("# A\n## B\nx", 3, vec!["A", "B"]),
            ("# A\n## B\n# C\nx", 4, vec!["C"]),
            ("# A\n## B\n# C\nx", 2, vec!["A", "B"]),
            ("= A\n\n==== Zvol ====\nx", 4, vec!["A", "Zvol"]),
            ("Setup\n-----\nx", 3, vec!["Setup"]),
            (
                "Purpose\n=======\nSetup\n-----\nx",
                5,
                vec!["Purpose", "Setup"],
            ),
            (
                "**One:** first.\n- r\n1. ext4 runs\nx",
                4,
                vec!["One: first.", "ext4 runs"],
            ),
            (
                "1. ext4\n```\n# root prompt\nx\n```\n2. zfs\nx",
                4,
                vec!["ext4"],
            ),
            (
                "1. ext4\n```\n# root prompt\nx\n```\n2. zfs\nx",
                7,
                vec!["zfs"],
            ),
            ("= A\n\n----\n# root\n----\nx", 6, vec!["A"]),
            ("|===\n|a\n|===\nx", 4, vec![]),
            ("    1. nested\nx", 2, vec![]),
            ("12.5 is no item\n1.5. x\nx", 3, vec![]),
        ] {
            assert_eq!(over(text, line), expected, "{text:?}");
        }
    }
}
