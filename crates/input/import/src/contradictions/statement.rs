//! What a sentence states, if it can be checked.

use super::super::sysbench::PrepareOptions;
use super::disks;
use super::prose::{Word, bare};
use super::quantity::{Approximate, count, size, time};

/// A statement that can be checked.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Statement {
    /// Its first line.
    pub(super) line: u32,
    /// The sentence, or the clause of it.
    pub(super) text: String,
    pub(super) what: Stated,
}

/// What is stated. A verb is given by beginnings of words that the name of a workload can contain.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Stated {
    /// How many ops were done.
    Count(Approximate, &'static [&'static str]),
    /// How long a fixed amount of work took.
    Time {
        limit: Limit,
        ns: f64,
        count: Option<Approximate>,
        verb: &'static [&'static str],
    },
    /// That some files of a size have this size together.
    Product {
        files: Approximate,
        each: f64,
        total: Approximate,
    },
    /// The size of virtual disks, bytes.
    DiskSize(f64),
    /// That interrupts are balanced over CPUs.
    Balanced,
    /// The options of a command that prepared the files of a result.
    Prepare(PrepareOptions),
}

/// A limit of a time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Limit {
    AtMost,
    AtLeast,
}

impl Limit {
    /// Whether a time is beyond it. Times are printed with three digits.
    pub(super) fn is_broken(self, ns: f64, limit_ns: f64) -> bool {
        match self {
            Limit::AtMost => ns > limit_ns * 1.01,
            Limit::AtLeast => ns < limit_ns * 0.99,
        }
    }

    pub(super) fn broken_in_words(self) -> &'static str {
        match self {
            Limit::AtMost => "longer",
            Limit::AtLeast => "shorter",
        }
    }
}

/// Past participles, and what they do in the name of a workload.
const VERBS: [(&[&str], &[&str]); 4] = [
    (&["created"], &["creat"]),
    (
        &["deleted", "removed", "unlinked"],
        &["delet", "remov", "unlink"],
    ),
    (&["written", "wrote"], &["writ"]),
    (
        &[
            "completed",
            "executed",
            "performed",
            "issued",
            "processed",
            "finished",
        ],
        &[""],
    ),
];

/// Words of sentences about something else than the measured ops, or about a rule.
const BESIDE: [&str; 14] = [
    "outside",
    "before",
    "prior",
    "beforehand",
    "each",
    "every",
    "per",
    "if",
    "would",
    "should",
    "untimed",
    "another",
    "other",
    "until",
];

const FILES: [&str; 3] = ["files", "inodes", "folders"];
const OPS: [&str; 8] = [
    "ops",
    "operations",
    "requests",
    "events",
    "ios",
    "i/os",
    "reads",
    "writes",
];
/// Words between a number and its noun.
const ADJECTIVES: [&str; 6] = ["empty", "small", "large", "new", "random", "sequential"];

/// The statements of a sentence.
pub(super) fn statements(sentence: &[Word<'_>]) -> Vec<Statement> {
    let mut found = Vec::new();
    let words: Vec<&str> = sentence.iter().map(|word| bare(word.1)).collect();
    let has_number = words
        .iter()
        .any(|word| word.contains(|c: char| c.is_ascii_digit()));
    let mut add = |words: &[Word<'_>], what: Option<Stated>| {
        if let (Some(what), Some((line, _))) = (what, words.first()) {
            found.push(Statement {
                line: *line,
                text: quoted(words),
                what,
            });
        }
    };
    add(sentence, balanced(&words));
    if !has_number {
        return found;
    }
    add(sentence, product(&words));
    add(sentence, disks::stated(&words).map(Stated::DiskSize));
    let ends = |word: &Word| word.1.ends_with([',', ';']) || bare(word.1) == "compared";
    for clause in sentence.split_inclusive(ends) {
        let words: Vec<&str> = clause.iter().map(|word| bare(word.1)).collect();
        add(clause, done(&words));
    }
    found
}

/// The longest quotation, in characters.
const QUOTED: usize = 160;

fn quoted(words: &[Word<'_>]) -> String {
    let words: Vec<&str> = words.iter().map(|word| word.1).collect();
    let text = words.join(" ");
    let text = text.trim_end_matches([',', ';']);
    match text.chars().count() > QUOTED {
        true => text.chars().take(QUOTED - 1).chain(['…']).collect(),
        false => text.to_owned(),
    }
}

fn is_one_of(word: &str, names: &[&str]) -> bool {
    names.contains(&word.to_lowercase().as_str())
}

/// The place after a number's noun and the number, if this is a number of files or ops.
fn counted(words: &[&str], at: usize, nouns: &[&str]) -> Option<(Approximate, usize)> {
    let before = at.checked_sub(1).map_or("", |before| words[before]);
    let number = count(words.get(at)?, before)?;
    let mut next = at + 1;
    next += words
        .get(next..)
        .and_then(size)
        .map_or(0, |(_, taken)| taken);
    next += usize::from(words.get(next).is_some_and(|it| is_one_of(it, &ADJECTIVES)));
    is_one_of(words.get(next)?, nouns).then_some((number, next + 1))
}

/// How many files or ops were done, or how long they took.
fn done(words: &[&str]) -> Option<Stated> {
    if words.iter().any(|word| is_one_of(word, &BESIDE)) {
        return None;
    }
    let verb = VERBS.iter().find(|(forms, _)| {
        let mut words = words.iter();
        words.any(|word| is_one_of(word, forms))
    });
    let (forms, verb) = verb?;
    let nouns: &[&str] = match verb {
        [""] => &OPS,
        _ => &FILES,
    };
    let mut numbers = (0..words.len()).filter_map(|at| counted(words, at, nouns));
    let number = numbers.next().map(|(number, _)| number);
    if numbers.next().is_some() {
        return None;
    }
    match (limit(words), number) {
        (Some((limit, ns)), count) => Some(Stated::Time {
            limit,
            ns,
            count,
            verb,
        }),
        // The object of an active verb can be anything.
        (None, Some(number)) if !is_one_of("wrote", forms) => Some(Stated::Count(number, verb)),
        _ => None,
    }
}

/// `in under 3 seconds`, `within 500 ms`, `took more than 2 minutes`.
fn limit(words: &[&str]) -> Option<(Limit, f64)> {
    const BEFORE: [&str; 9] = [
        "in", "within", "took", "take", "takes", "needed", "needs", "lasted", "after",
    ];
    words.iter().enumerate().find_map(|(at, word)| {
        if !is_one_of(word, &BEFORE) {
            return None;
        }
        let rest = words.get(at + 1..)?;
        let lower: Vec<String> = rest
            .iter()
            .take(2)
            .map(|word| word.to_lowercase())
            .collect();
        let pair: Vec<&str> = lower.iter().map(String::as_str).collect();
        let (limit, taken) = match pair.as_slice() {
            ["under" | "below", ..] => (Limit::AtMost, 1),
            ["over" | "above", ..] => (Limit::AtLeast, 1),
            ["less", "than"] | ["at", "most"] => (Limit::AtMost, 2),
            ["more" | "longer", "than"] | ["at", "least"] => (Limit::AtLeast, 2),
            _ if is_one_of(word, &["within"]) => (Limit::AtMost, 0),
            _ => return None,
        };
        Some((limit, time(rest.get(taken..)?)?))
    })
}

/// `2000 2MB files is already 400GB of data`.
fn product(words: &[&str]) -> Option<Stated> {
    const IS: [&str; 8] = [
        "is", "are", "=", "make", "makes", "total", "equals", "equal",
    ];
    (0..words.len()).find_map(|at| {
        let before = at.checked_sub(1).map_or("", |before| words[before]);
        let files = count(words[at], before)?;
        let (each, taken) = size(words.get(at + 1..)?)?;
        let noun = at + 1 + taken;
        let verb = words.get(noun + 1)?;
        if !is_one_of(words.get(noun)?, &FILES) || !is_one_of(verb, &IS) {
            return None;
        }
        let rest = words.get(noun + 2..)?;
        let (total, _) = (0..rest.len().min(3)).find_map(|at| size(&rest[at..]))?;
        Some(Stated::Product {
            files,
            each: each.value,
            total,
        })
    })
}

/// `the balance of irqs is working fine`, `interrupts are spread evenly`.
fn balanced(words: &[&str]) -> Option<Stated> {
    const IRQS: [&str; 4] = ["irq", "irqs", "interrupt", "interrupts"];
    const SPREAD: [&str; 6] = [
        "balance",
        "balanced",
        "balancing",
        "spread",
        "distributed",
        "distribution",
    ];
    const GOOD: [&str; 12] = [
        "fine",
        "well",
        "works",
        "worked",
        "working",
        "good",
        "evenly",
        "even",
        "properly",
        "correctly",
        "equally",
        "balanced",
    ];
    const NOT: [&str; 14] = [
        "not", "no", "never", "isn't", "aren't", "doesn't", "don't", "wasn't", "without", "poor",
        "bad", "if", "should", "whether",
    ];
    let has = |names: &[&str]| words.iter().any(|word| is_one_of(word, names));
    (has(&IRQS) && has(&SPREAD) && has(&GOOD) && !has(&NOT)).then_some(Stated::Balanced)
}
