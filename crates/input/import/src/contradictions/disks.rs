//! Settings that prose states, against those of commands, results and listed properties.

use std::collections::BTreeMap;

use iodyno_units::{Bytes, Nanos};

use super::quantity::{is_same_size, size, time};
use super::source::{Source, section};

/// What is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Attribute {
    /// Bytes.
    Block,
    Depth,
    Jobs,
    /// ns.
    Runtime,
    /// Bytes of a virtual disk.
    Disk,
}

/// A stated value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Setting {
    pub(super) attribute: Attribute,
    pub(super) value: f64,
}

impl Attribute {
    fn is_same(self, one: f64, other: f64) -> bool {
        match self {
            Attribute::Depth | Attribute::Jobs => one == other,
            Attribute::Block | Attribute::Runtime | Attribute::Disk => is_same_size(one, other),
        }
    }

    fn in_words(self, value: f64) -> String {
        match self {
            Attribute::Block => format!("blocks of {}", Bytes(value as u64)),
            Attribute::Depth => format!("a depth of {value}"),
            Attribute::Jobs => format!("{value} jobs"),
            Attribute::Runtime => format!("a runtime of {}", Nanos(value as u64)),
            Attribute::Disk => format!("a size of {}", Bytes(value as u64)),
        }
    }

    /// fio's option and the name of the fact.
    fn names(self) -> Option<(&'static str, &'static str)> {
        match self {
            Attribute::Block => Some(("bs", "bs")),
            Attribute::Depth => Some(("iodepth", "depth")),
            Attribute::Jobs => Some(("numjobs", "jobs")),
            Attribute::Runtime => Some(("runtime", "")),
            Attribute::Disk => None,
        }
    }

    fn parsed(self, text: &str) -> Option<f64> {
        match self {
            Attribute::Depth | Attribute::Jobs => text.parse().ok(),
            Attribute::Block | Attribute::Disk => {
                text.parse::<Bytes>().ok().map(|bytes| bytes.0 as f64)
            }
            Attribute::Runtime => match text.parse::<f64>() {
                Ok(seconds) => Some(seconds * 1e9),
                Err(_) => text.parse::<Nanos>().ok().map(|time| time.0 as f64),
            },
        }
    }
}

/// Words of sentences about conditions or other tests; fio prints `Starting 4 processes`, of all its groups.
const CONDITIONS: [&str; 15] = [
    "starting",
    "if",
    "or",
    "when",
    "unless",
    "threshold",
    "instead",
    "previously",
    "would",
    "versus",
    "vs",
    "against",
    "than",
    "between",
    "different",
];

/// The settings of a sentence; an attribute with several values is left out.
pub(super) fn stated(words: &[&str]) -> Vec<Setting> {
    let lower: Vec<String> = words.iter().map(|word| word.to_lowercase()).collect();
    if lower.iter().any(|word| CONDITIONS.contains(&word.as_str())) {
        return Vec::new();
    }
    let mut found: BTreeMap<Attribute, Vec<f64>> = BTreeMap::new();
    for at in 0..words.len() {
        if let Some(setting) = setting(words, &lower, at) {
            let values = found.entry(setting.attribute).or_default();
            values.push(setting.value);
        }
    }
    let single = |(attribute, values): (Attribute, Vec<f64>)| match values.as_slice() {
        [value] => Some(Setting {
            attribute,
            value: *value,
        }),
        _ => None,
    };
    found.into_iter().filter_map(single).collect()
}

/// The setting whose number is at a place.
fn setting(words: &[&str], lower: &[String], at: usize) -> Option<Setting> {
    let word = |place: usize| lower.get(place).map_or("", String::as_str);
    let set = |attribute, value| Some(Setting { attribute, value });
    if let Some((name, value)) = word(at).split_once('=') {
        let attribute = match name.trim_start_matches('-') {
            "bs" | "blocksize" => Attribute::Block,
            "iodepth" => Attribute::Depth,
            "numjobs" => Attribute::Jobs,
            _ => return None,
        };
        return set(attribute, attribute.parsed(value)?);
    }
    if let Some((size, taken)) = size(words.get(at..)?) {
        let next = word(at + taken);
        if ["block", "blocks", "blocksize"].contains(&next)
            || is_named(lower, at, &["block", "size"])
        {
            return set(Attribute::Block, size.value);
        }
        if is_virtual(next, word(at + taken + 1)) {
            return set(Attribute::Disk, size.value);
        }
    }
    let number = word(at).parse::<u32>().ok().map(f64::from);
    if let Some(number) = number {
        if is_named(lower, at, &["queue", "depth"]) || is_named(lower, at, &["iodepth"]) {
            return set(Attribute::Depth, number);
        }
        let jobs = ["jobs", "threads", "workers", "processes", "clients"];
        if jobs.contains(&word(at + 1)) && !["per", "each", "in"].contains(&word(at + 2)) {
            return set(Attribute::Jobs, number);
        }
    }
    let runs = |word: &String| ["run", "ran", "runs", "running"].contains(&word.as_str());
    if at > 0 && word(at - 1) == "for" && lower[..at].iter().any(runs) {
        return set(Attribute::Runtime, time(words.get(at..)?)?);
    }
    None
}

/// Whether a name stands before a value: `block size of 4k`, `queue depth is 3`.
fn is_named(lower: &[String], at: usize, name: &[&str]) -> bool {
    let before = &lower[..at];
    let before = match before.split_last() {
        Some((last, rest)) if ["of", "is", "was", "="].contains(&last.as_str()) => rest,
        _ => before,
    };
    let end: Vec<&str> = before
        .iter()
        .rev()
        .take(name.len())
        .map(String::as_str)
        .collect();
    end.iter().rev().eq(name.iter())
}

/// Whether two words name a disk whose size is set and not that of a piece of hardware.
fn is_virtual(next: &str, after: &str) -> bool {
    const DISKS: [&str; 10] = [
        "disk", "disks", "drive", "drives", "device", "devices", "volume", "volumes", "image",
        "images",
    ];
    match next {
        "zvol" | "zvols" | "volume" | "volumes" => true,
        "virtual" | "virtio" | "backing" => DISKS.contains(&after),
        "disk" => ["image", "images"].contains(&after),
        _ => false,
    }
}

/// What contradicts a setting that prose states: the values that the same section gives, if none of them is this one.
pub(super) fn against(source: &Source<'_>, line: u32, setting: &Setting) -> Option<(u32, String)> {
    let context = source.lines.context(line);
    let mut sections = context.headings.iter().filter(|it| it.is_section());
    let mut scope = section(&context);
    let given = loop {
        let given = given(source, scope, setting.attribute)?;
        let heading = sections.next_back();
        // A section that describes the set-up is about the sections beside it as well.
        if !given.is_empty() || !heading.is_some_and(|it| is_setup(&it.text)) {
            break given;
        }
        scope = sections.clone().next_back().map(|it| it.line);
    };
    let same =
        |(_, _, value): &(u32, String, f64)| setting.attribute.is_same(*value, setting.value);
    if given.iter().any(same) {
        return None;
    }
    let (line, name, value) = given.first()?;
    let shown = format!("{name} has {}", setting.attribute.in_words(*value));
    Some((*line, shown))
}

fn is_setup(heading: &str) -> bool {
    const WORDS: [&str; 8] = [
        "setup",
        "set-up",
        "method",
        "topology",
        "configuration",
        "environment",
        "conditions",
        "procedure",
    ];
    let heading = heading.to_lowercase();
    WORDS.iter().any(|word| heading.contains(word))
}

/// Line, name and value of each place below a heading that gives an attribute. `None`: something below it does not tell
/// its value.
fn given(
    source: &Source<'_>,
    scope: Option<u32>,
    attribute: Attribute,
) -> Option<Vec<(u32, String, f64)>> {
    let Some((option, fact)) = attribute.names() else {
        let disks = source.lines.iter().filter_map(|(line, text)| {
            let (name, value) = disk(text)?;
            source.is_below(line, scope).then_some((line, name, value))
        });
        return Some(disks.collect());
    };
    let commands = source.commands.iter();
    let mut given = Vec::new();
    for command in commands.filter(|it| source.is_below(it.line(), scope)) {
        let value = attribute.parsed(command.option(option)?)?;
        given.push((command.line(), "the command".to_owned(), value));
    }
    if given.is_empty() && !fact.is_empty() {
        for result in source
            .results
            .iter()
            .filter(|it| source.is_below(it.line, scope))
        {
            let (_, value) = result.facts.iter().find(|(name, _)| name == fact)?;
            let value = attribute.parsed(value)?;
            given.push((result.line, "the result".to_owned(), value));
        }
    }
    Some(given)
}

/// The size of a virtual disk in a list of properties or a command that makes it.
fn disk(text: &str) -> Option<(String, f64)> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let place = |word: &str| words.iter().position(|it| *it == word);
    let parsed = |value: &str| Attribute::Disk.parsed(value).filter(|value| *value > 0.0);
    if let Some(at) = place("volsize") {
        return Some(("`volsize`".to_owned(), parsed(words.get(at + 1)?)?));
    }
    if let Some(rest) = text.trim_start().strip_prefix("virtual size: ") {
        let words: Vec<&str> = rest.split_whitespace().collect();
        let (size, _) = size(&words)?;
        return Some(("`virtual size`".to_owned(), size.value));
    }
    let made = |command: &[&str]| words.windows(command.len()).any(|it| it == command);
    if made(&["zfs", "create"]) {
        let value = words.get(place("-V")? + 1)?;
        return Some(("the command".to_owned(), parsed(value)?));
    }
    if made(&["qemu-img", "create"]) {
        return Some(("the command".to_owned(), parsed(words.last()?)?));
    }
    None
}
