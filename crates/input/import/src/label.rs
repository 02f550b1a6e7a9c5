//! Fields from the path of a source: `--label '{config}/{job}.{loop}.json'`.
//!
//! A pattern is matched with the end of a path, component by component, so that it is independent of the parent
//! folders. `{name}` matches part of a component: at least one character, and no `/`. `{}` and `*` match the same and
//! store nothing. If several matches are possible, the earlier fields get the shortest texts. `{loop}` matches only
//! digits, so that in `a.b.1.json` the job is `a.b`.

use std::collections::BTreeMap;
use std::str::FromStr;

use thiserror::Error;

/// All errors of a pattern, or all paths that do not match it, each in one sentence.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{}", .0.join("\n"))]
pub struct LabelErrors(pub Vec<String>);

impl FromStr for LabelPattern {
    type Err = LabelErrors;

    fn from_str(pattern: &str) -> Result<LabelPattern, LabelErrors> {
        LabelPattern::parse(pattern)
    }
}

/// The fields of one source.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Label {
    /// By name: `config`, `job`, `loop`, and any other name in the pattern.
    pub fields: BTreeMap<String, String>,
}

impl Label {
    /// The field `{config}` or `{configuration}`.
    pub fn configuration(&self) -> Option<&str> {
        self.field("config")
    }

    /// The field `{job}` or `{workload}`.
    pub fn workload(&self) -> Option<&str> {
        self.field("job")
    }

    /// The fields other than the configuration, the workload and `{loop}`.
    pub fn dimensions(&self) -> impl Iterator<Item = (&str, &str)> {
        self.fields
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .filter(|(name, _)| !["config", "job", LOOP].contains(name))
    }

    fn field(&self, name: &str) -> Option<&str> {
        self.fields.get(name).map(String::as_str)
    }
}

/// A pattern for paths.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabelPattern {
    pattern: String,
    components: Vec<Vec<Piece>>,
}

/// Part of a component of a pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    /// This text.
    Text(String),
    /// Any text, stored under the name; skipped if there is no name.
    Field(Option<String>),
}

impl LabelPattern {
    /// Reads a pattern.
    ///
    /// # Errors
    /// All errors of the pattern at once.
    pub fn parse(pattern: &str) -> Result<LabelPattern, LabelErrors> {
        let mut errors = Vec::new();
        let components: Vec<Vec<Piece>> = pattern
            .trim_start_matches("./")
            .trim_start_matches('/')
            .split('/')
            .map(|component| pieces(component, pattern, &mut errors))
            .collect();
        errors.extend(faults(&components));
        let place = |error| format!("label `{pattern}`{error}");
        let errors: Vec<String> = errors.into_iter().map(place).collect();
        match errors.is_empty() {
            true => Ok(LabelPattern {
                pattern: pattern.to_owned(),
                components,
            }),
            false => Err(LabelErrors(errors)),
        }
    }

    /// The fields of a path; `None` if it does not match.
    pub fn label(&self, path: &str) -> Option<Label> {
        let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
        let skipped = parts.len().checked_sub(self.components.len())?;
        let mut label = Label::default();
        for (pieces, part) in self.components.iter().zip(&parts[skipped..]) {
            for (name, value) in captures(pieces, part)? {
                label.fields.insert(name.to_owned(), value.to_owned());
            }
        }
        Some(label)
    }

    /// The labels of some paths, in their order.
    ///
    /// # Errors
    /// Every path that does not match.
    pub fn labels<'p>(
        &self,
        paths: impl IntoIterator<Item = &'p str>,
    ) -> Result<Vec<Label>, LabelErrors> {
        let mut labels = Vec::new();
        let mut errors = Vec::new();
        for path in paths {
            match self.label(path) {
                Some(label) => labels.push(label),
                None => errors.push(format!("{path}: does not match the label `{self}`")),
            }
        }
        match errors.is_empty() {
            true => Ok(labels),
            false => Err(LabelErrors(errors)),
        }
    }
}

impl std::fmt::Display for LabelPattern {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.pattern)
    }
}

/// The field that only numbers repetitions.
const LOOP: &str = "loop";

/// The canonical name of a field with several names.
fn canonical(name: &str) -> &str {
    match name {
        "configuration" => "config",
        "workload" => "job",
        // The import itself becomes a run, so a field named `run` can only number repetitions.
        "round" | "run" => LOOP,
        name => name,
    }
}

/// Splits a component into pieces; errors are added to the list and skipped. The name of the pattern is put before
/// each.
fn pieces(component: &str, pattern: &str, errors: &mut Vec<String>) -> Vec<Piece> {
    // The offset of the component in the pattern, for the positions in errors.
    let start = component.as_ptr() as usize - pattern.as_ptr() as usize;
    let character = |at: usize| pattern[..start + at].chars().count() + 1;
    let mut pieces = Vec::new();
    let mut at = 0;
    while at < component.len() {
        let rest = &component[at..];
        let taken = rest.find(['{', '}', '*']).unwrap_or(rest.len());
        if taken > 0 {
            pieces.push(Piece::Text(rest[..taken].to_owned()));
            at += taken;
            continue;
        }
        if rest.starts_with('*') {
            pieces.push(Piece::Field(None));
            at += 1;
            continue;
        }
        let inside = rest.strip_prefix('{').and_then(|inside| {
            let end = inside.find(['{', '}'])?;
            inside[end..].starts_with('}').then(|| &inside[..end])
        });
        let Some(name) = inside else {
            let brace = &rest[..1];
            let place = character(at);
            errors.push(format!(", character {place}: `{brace}` has no partner"));
            at += 1;
            continue;
        };
        at += name.len() + 2;
        let is_word = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
        if !name.chars().all(is_word) {
            errors.push(format!(
                ": `{{{name}}}` is not a field name; use letters, digits, `_` and `-`"
            ));
        }
        let name = (!name.is_empty()).then(|| canonical(name).to_owned());
        pieces.push(Piece::Field(name));
    }
    pieces
}

/// Errors of a pattern as a whole.
fn faults(components: &[Vec<Piece>]) -> Vec<String> {
    let mut errors = Vec::new();
    let names: Vec<&str> = components
        .iter()
        .flatten()
        .filter_map(|piece| match piece {
            Piece::Field(Some(name)) => Some(name.as_str()),
            _ => None,
        })
        .collect();
    for (index, name) in names.iter().enumerate() {
        let before = names[..index].iter().filter(|other| *other == name).count();
        if before == 1 {
            errors.push(format!(": `{{{name}}}` appears more than once"));
        }
    }
    if names.is_empty() {
        let usual = "`{config}`, `{job}` and `{loop}` are the usual ones";
        errors.push(format!(" names no field; {usual}"));
    }
    for pair in components.iter().flat_map(|pieces| pieces.windows(2)) {
        if let [Piece::Field(first), Piece::Field(second)] = pair {
            let [first, second] = [first, second].map(|name| name.as_deref().unwrap_or_default());
            errors.push(format!(
                ": there is no text between `{{{first}}}` and `{{{second}}}`"
            ));
        }
    }
    errors
}

/// The captured texts of a component, the last first; `None` if it does not match.
fn captures<'n, 't>(pieces: &'n [Piece], text: &'t str) -> Option<Vec<(&'n str, &'t str)>> {
    let (piece, after) = match pieces {
        [] => return text.is_empty().then(Vec::new),
        [Piece::Text(literal), after @ ..] => {
            return captures(after, text.strip_prefix(literal.as_str())?);
        }
        [Piece::Field(name), after @ ..] => (name.as_deref(), after),
    };
    for (at, c) in text.char_indices() {
        if piece == Some(LOOP) && !c.is_ascii_digit() {
            return None;
        }
        let end = at + c.len_utf8();
        if let Some(mut found) = captures(after, &text[end..]) {
            found.extend(piece.map(|name| (name, &text[..end])));
            return Some(found);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(pattern: &str, path: &str) -> Option<String> {
        let label = LabelPattern::parse(pattern).unwrap().label(path)?;
        let fields: Vec<String> = label
            .fields
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        Some(fields.join(" "))
    }

    #[test]
    fn takes_fields_from_the_end_of_a_path() {
        let usual = "{config}/{job}.{loop}.json";
        for (pattern, path, expected) in [
            (
                usual,
                "ext4/randread.1.json",
                Some("config=ext4 job=randread loop=1"),
            ),
            (
                usual,
                "/a/b/zfs-8k/seq.12.json",
                Some("config=zfs-8k job=seq loop=12"),
            ),
            (
                usual,
                "./zfs//seq.1.json",
                Some("config=zfs job=seq loop=1"),
            ),
            (usual, "seq.1.json", None),
            (usual, "ext4/seq.json", None),
            (usual, "ext4/seq.1.txt", None),
            (usual, "ext4/.1.json", None),
            (usual, "ext4/a.b.1.json", Some("config=ext4 job=a.b loop=1")),
            (
                "{job}-{loop}.json",
                "rand-rw-3.json",
                Some("job=rand-rw loop=3"),
            ),
            (
                "{job}-{bs}.json",
                "rand-rw-3.json",
                Some("bs=rw-3 job=rand"),
            ),
            ("{config}/{}/{job}", "a/skipped/c", Some("config=a job=c")),
            ("{config}_*.json", "a_b_c.json", Some("config=a")),
            ("*_{job}", "x_y", Some("job=y")),
            (
                "{configuration}/{workload}/{round}",
                "a/b/1",
                Some("config=a job=b loop=1"),
            ),
            ("{config}.{run}", "a.b.2", Some("config=a.b loop=2")),
            ("{config}.{run}", "a.before", None),
            (
                "{config}/{node}.log",
                "r/ext4/n1.log",
                Some("config=ext4 node=n1"),
            ),
            ("r-{größe}.txt", "r-groß.txt", Some("größe=groß")),
            ("/{config}/x", "/deep/down/ext4/x", Some("config=ext4")),
            ("a{x}a", "aaa", Some("x=a")),
            ("a{x}a", "aa", None),
        ] {
            assert_eq!(
                fields(pattern, path).as_deref(),
                expected,
                "{pattern} {path}"
            );
        }
    }

    #[test]
    fn reports_all_errors_of_a_pattern() {
        for (pattern, expected) in [
            ("plain.json", vec!["names no field"]),
            ("{a}{b}.json", vec!["no text between `{a}` and `{b}`"]),
            ("{job}/{workload}", vec!["`{job}` appears more than once"]),
            (
                "{config/x",
                vec!["character 1: `{` has no partner", "names no field"],
            ),
            ("{a}/é}", vec!["character 6: `}` has no partner"]),
            (
                "{a b}/{x}/{x}",
                vec![
                    "`{a b}` is not a field name",
                    "`{x}` appears more than once",
                ],
            ),
        ] {
            let errors = LabelPattern::parse(pattern).unwrap_err().0;
            let texts = errors;
            assert_eq!(texts.len(), expected.len(), "{pattern}: {texts:?}");
            for (text, part) in texts.iter().zip(expected) {
                assert!(text.contains(part), "{pattern}: {text}");
            }
        }
    }

    #[test]
    fn names_every_path_that_does_not_match() {
        let pattern = LabelPattern::parse("{config}/{job}.json").unwrap();
        let texts = pattern
            .labels(["a/b.json", "c.json", "d/e.txt"])
            .unwrap_err()
            .0;
        assert_eq!(
            texts,
            [
                "c.json: does not match the label `{config}/{job}.json`",
                "d/e.txt: does not match the label `{config}/{job}.json`",
            ]
        );
    }
}
