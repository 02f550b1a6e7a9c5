//! Sizes of virtual disks in prose, against those in lists of properties and in commands.

use iodyno_units::Bytes;

use super::quantity::{is_same_size, size};
use super::source::{Source, section};

/// Words of sentences about conditions or other tests.
const CONDITIONS: [&str; 14] = [
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

/// The size that a sentence states of its virtual disks, bytes; `None` if it states several.
pub(super) fn stated(words: &[&str]) -> Option<f64> {
    let lower: Vec<String> = words.iter().map(|word| word.to_lowercase()).collect();
    if lower.iter().any(|word| CONDITIONS.contains(&word.as_str())) {
        return None;
    }
    let word = |place: usize| lower.get(place).map_or("", String::as_str);
    let mut sizes = (0..words.len()).filter_map(|at| {
        let (size, taken) = size(&words[at..])?;
        is_virtual(word(at + taken), word(at + taken + 1)).then_some(size.value)
    });
    let first = sizes.next()?;
    sizes.next().is_none().then_some(first)
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

/// What contradicts a size of disks: the sizes that the same section lists, if none of them is this one.
pub(super) fn against(source: &Source<'_>, line: u32, bytes: f64) -> Option<(u32, String)> {
    let context = source.lines.context(line);
    let mut sections = context.headings.iter().filter(|it| it.is_section());
    let mut scope = section(&context);
    let listed = loop {
        let listed: Vec<(u32, String, f64)> = source
            .lines
            .iter()
            .filter_map(|(line, text)| {
                let (name, value) = disk(text)?;
                source.is_below(line, scope).then_some((line, name, value))
            })
            .collect();
        let heading = sections.next_back();
        // A section that describes the set-up is about the sections beside it as well.
        if !listed.is_empty() || !heading.is_some_and(|it| is_setup(&it.text)) {
            break listed;
        }
        scope = sections.clone().next_back().map(|it| it.line);
    };
    let same = |(_, _, value): &(u32, String, f64)| is_same_size(*value, bytes);
    if listed.iter().any(same) {
        return None;
    }
    let (line, name, value) = listed.first()?;
    Some((
        *line,
        format!("{name} has a size of {}", Bytes(*value as u64)),
    ))
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

/// The size of a virtual disk in a list of properties or a command that makes it.
fn disk(text: &str) -> Option<(String, f64)> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let place = |word: &str| words.iter().position(|it| *it == word);
    let parsed = |value: &str| {
        let bytes = value.parse::<Bytes>().ok()?.0;
        (bytes > 0).then_some(bytes as f64)
    };
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
