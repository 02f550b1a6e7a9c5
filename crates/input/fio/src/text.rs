//! Splits job files into lines, sections and includes, independent of the meaning of options.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use iodyno_model::{Diagnostic, Place, Source};

use super::host::Host;

/// Maximum depth of nested includes.
const DEPTH: usize = 16;
/// The largest size of all texts of a command, bytes: nested includes multiply.
const MAX_BYTES: usize = 64 << 20;
/// The largest number of files of a command, counted each time they are read.
const MAX_FILES: usize = 10_000;

/// `key=value`, or a key alone.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) key: String,
    pub(super) value: Option<String>,
    pub(super) key_place: Place,
    /// Location of the value, or of the key if there is no value.
    pub(super) value_place: Place,
    /// Whether there are spaces around the `=`.
    pub(super) spaced: bool,
}

/// File name for locations in the command line.
pub(super) const COMMAND_LINE: &str = "<command line>";

impl Entry {
    /// Whether it is an argument of the command.
    pub(super) fn is_argument(&self) -> bool {
        self.key_place.file == Path::new(COMMAND_LINE)
    }
}

/// `[name]` and the options after it.
#[derive(Debug, Clone)]
pub(super) struct Section {
    pub(super) name: String,
    pub(super) place: Place,
    pub(super) entries: Vec<Entry>,
    /// Whether it begins with `--name`.
    pub(super) by_option: bool,
}

impl Section {
    /// Whether its options are defaults for the following sections.
    pub(super) fn is_global(&self) -> bool {
        self.name.starts_with("global")
    }
}

/// The diagnostics so far.
#[derive(Debug, Default)]
pub(super) struct Report {
    pub(super) diagnostics: Vec<Diagnostic>,
    /// Number of errors about valid features that are not supported.
    pub(super) refusals: usize,
    /// Warnings that `--warnings-fatal` makes errors: those that fio also prints, and those about significant options
    /// without effect. The others are advice.
    pub(super) fatal_warnings: BTreeSet<String>,
    /// Whether the jobs are only checked or printed, so that missing files or sizes are not errors.
    pub(super) runs_nothing: bool,
    /// The bytes of all texts so far.
    bytes: usize,
}

impl Report {
    pub(super) fn push(&mut self, diagnostic: Diagnostic) {
        self.diagnostics.push(diagnostic);
    }
}

/// Splits a job file with its includes. Errors are added to `report`, texts to `sources`.
pub(super) fn read_sections(
    path: &Path,
    text: &str,
    host: &dyn Host,
    report: &mut Report,
    sources: &mut Vec<Source>,
) -> Vec<Section> {
    let mut reader = Reader {
        host,
        report,
        sources,
        open: vec![path.to_owned()],
    };
    let sections = reader.sections(path, text);
    if sections.is_empty() && reader.report.diagnostics.is_empty() {
        reader.report.push(
            Diagnostic::error(format!("`{}` has no sections", path.display()))
                .hint("a job begins with its name in brackets, such as `[randread]`"),
        );
    }
    sections
}

/// Adds a text that was read to the others.
///
/// # Errors
/// The limit that is exceeded by the number or the total length of the texts.
fn keep(
    path: &Path,
    text: &str,
    report: &mut Report,
    sources: &mut Vec<Source>,
) -> Result<(), String> {
    report.bytes = report.bytes.saturating_add(text.len());
    if report.bytes > MAX_BYTES {
        let most = MAX_BYTES >> 20;
        return Err(format!(
            "all job files and included files together are longer than {most} MiB"
        ));
    }
    if sources.len() >= MAX_FILES {
        return Err(format!(
            "there are more than {MAX_FILES} job files and included files"
        ));
    }
    sources.push(Source {
        name: path.display().to_string(),
        text: text.to_owned(),
    });
    Ok(())
}

pub(super) fn unreadable(path: &Path, error: &io::Error) -> Diagnostic {
    let diagnostic = Diagnostic::error(format!("cannot read `{}`: {error}", path.display()));
    match error.kind() {
        io::ErrorKind::NotFound => diagnostic.hint("check the path"),
        _ => diagnostic,
    }
}

struct Reader<'a> {
    host: &'a dyn Host,
    report: &'a mut Report,
    sources: &'a mut Vec<Source>,
    /// The files being read, to detect cycles.
    open: Vec<PathBuf>,
}

impl Reader<'_> {
    fn sections(&mut self, path: &Path, text: &str) -> Vec<Section> {
        if let Err(limit) = keep(path, text, self.report, self.sources) {
            let fault = Diagnostic::error(format!("cannot read `{}`: {limit}", path.display()));
            self.report.push(fault.hint("give fewer job files"));
            return Vec::new();
        }
        let mut sections: Vec<Section> = Vec::new();
        let mut stray = false;
        for line in lines(path, text) {
            self.check_encoding(&line);
            if line.content.starts_with('[') {
                if let Some(section) = self.header(&line) {
                    sections.push(section);
                }
                continue;
            }
            match sections.last_mut() {
                Some(section) => {
                    let entries = self.line(&line);
                    section.entries.extend(entries);
                }
                None if stray => {}
                None => {
                    stray = true;
                    self.report.push(
                        Diagnostic::error("an option precedes the first section")
                            .at(line.place(line.content))
                            .hint("begin with `[global]` or with a job's name in brackets"),
                    );
                }
            }
        }
        sections
    }

    /// Reports a line with bytes that are not UTF-8, which a host replaces: a name or a value would be another one.
    fn check_encoding(&mut self, line: &Line) {
        let key = line.content.split('=').next().unwrap_or_default();
        if line.content.contains('\u{fffd}') && key.trim() != "description" {
            self.report.push(
                Diagnostic::error(
                    "the line contains bytes that are not UTF-8 (or U+FFFD in their place)",
                )
                .at(line.place(line.content))
                .hint(
                    "write it in UTF-8; only comments and `description=` may contain other bytes",
                ),
            );
        }
    }

    fn header(&mut self, line: &Line) -> Option<Section> {
        let (name, after) = match line.content[1..].rsplit_once(']') {
            Some((name, after)) => (name, after.trim()),
            None => (&line.content[1..], ""),
        };
        if !line.content.contains(']') {
            self.report.push(
                Diagnostic::error("the section's `]` is missing")
                    .at(line.place(line.content))
                    .hint(format!("write `[{}]`", name.trim())),
            );
        } else if !after.is_empty() {
            self.report.push(
                Diagnostic::error(format!("`{after}` follows the section's name"))
                    .at(line.place(after))
                    .hint("put options on separate lines"),
            );
        }
        if name.trim().is_empty() {
            self.report.push(
                Diagnostic::error("the section has no name")
                    .at(line.place(line.content))
                    .hint("write one, such as `[randread]`"),
            );
            return None;
        }
        Some(Section {
            name: name.to_owned(),
            place: line.place(line.content),
            entries: Vec::new(),
            by_option: false,
        })
    }

    /// The options of a line: one, or those of an included file.
    fn line(&mut self, line: &Line) -> Vec<Entry> {
        let included = line
            .content
            .strip_prefix("include")
            .filter(|rest| rest.starts_with([' ', '\t', '=']))
            .map(|rest| rest[1..].trim());
        match included {
            Some(name) => self.include(line, name),
            None => vec![line.entry()],
        }
    }

    fn exhausted(&self) -> bool {
        self.report.bytes > MAX_BYTES
    }

    fn include(&mut self, line: &Line, name: &str) -> Vec<Entry> {
        let place = line.place(name);
        let beside = line.file.parent().unwrap_or(Path::new("")).join(name);
        let named = PathBuf::from(name);
        // After a limit was reached, nothing more is read.
        if self.exhausted() {
            return Vec::new();
        }
        let read = self.host.read_included(&named).map(|text| (named, text));
        let read = read.or_else(|error| match error.kind() {
            io::ErrorKind::NotFound => {
                let read = self.host.read_included(&beside);
                read.map(|text| (beside, text))
            }
            _ => Err(error),
        });
        let (path, text) = match read {
            Ok(found) => found,
            Err(error) => {
                self.report.push(
                    Diagnostic::error(format!("cannot read the included file `{name}`: {error}"))
                        .at(place)
                        .hint("its path is relative to the current folder, or else to this file's"),
                );
                return Vec::new();
            }
        };
        if self.open.contains(&path) || self.open.len() >= DEPTH {
            self.report.push(
                Diagnostic::error(format!("`{name}` includes itself, or too deeply"))
                    .at(place)
                    .hint("leave the line out"),
            );
            return Vec::new();
        }
        if let Err(limit) = keep(&path, &text, self.report, self.sources) {
            self.report.bytes = usize::MAX;
            self.report.push(
                Diagnostic::error(format!("cannot include `{name}`: {limit}"))
                    .at(place)
                    .hint("include fewer or shorter files"),
            );
            return Vec::new();
        }
        self.open.push(path.clone());
        let mut entries = Vec::new();
        for line in lines(&path, &text) {
            self.check_encoding(&line);
            if line.content.starts_with('[') {
                self.report.push(
                    Diagnostic::error("an included file has no sections of its own")
                        .at(line.place(line.content))
                        .hint("leave the line out; its options join the section that includes it"),
                );
                break;
            }
            entries.extend(self.line(&line));
        }
        self.open.pop();
        entries
    }
}

/// A non-empty line.
struct Line<'a> {
    file: &'a Path,
    number: u32,
    /// As written.
    raw: &'a str,
    /// Without comments and surrounding spaces.
    content: &'a str,
}

/// The non-empty lines. `;` and `#` start a comment anywhere.
fn lines<'a>(file: &'a Path, text: &'a str) -> impl Iterator<Item = Line<'a>> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    text.lines().zip(1..).filter_map(move |(raw, number)| {
        let content = raw.split([';', '#']).next().unwrap_or_default();
        let content = content.trim_matches(|c: char| c.is_whitespace() || c.is_control());
        (!content.is_empty()).then_some(Line {
            file,
            number,
            raw,
            content,
        })
    })
}

impl Line<'_> {
    /// Location of `token`, a part of the line.
    fn place(&self, token: &str) -> Place {
        place(self.file, self.number, self.raw, token)
    }

    fn entry(&self) -> Entry {
        let Some((key, value)) = self.content.split_once('=') else {
            return Entry {
                key: self.content.to_owned(),
                value: None,
                key_place: self.place(self.content),
                value_place: self.place(self.content),
                spaced: false,
            };
        };
        let trimmed = value.trim();
        let value_place = match trimmed.is_empty() {
            true => self.place(self.content),
            false => self.place(trimmed),
        };
        Entry {
            key: key.trim_end().to_owned(),
            value: Some(trimmed.to_owned()),
            key_place: self.place(key.trim_end()),
            value_place,
            spaced: value.starts_with(char::is_whitespace),
        }
    }
}

/// Location of `token`, a slice of `line`.
pub(super) fn place(file: &Path, number: u32, line: &str, token: &str) -> Place {
    let offset = (token.as_ptr() as usize).wrapping_sub(line.as_ptr() as usize);
    let before = line.get(..offset).unwrap_or_default();
    Place {
        file: file.to_owned(),
        line: number,
        column: before.chars().count() as u32 + 1,
        length: token.chars().count().max(1) as u32,
        text: line.to_owned(),
    }
}
