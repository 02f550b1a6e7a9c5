//! Diagnostics of the user's input: the error, its position, and a hint.

use std::collections::HashMap;

use iodyno_model::{Diagnostic, Place, Severity};
use iodyno_units::counted;
use serde::Serialize;

use crate::json::{list, object, print};
use crate::style::{Paint, Style, sanitize, width};

/// Each diagnostic with its line and a caret; equal ones once, with their other places. The last line is the number of
/// all. Empty for an empty list.
pub fn text(diagnostics: &[Diagnostic], style: Style) -> String {
    if diagnostics.is_empty() {
        return String::new();
    }
    let mut text = String::new();
    let mut groups: Vec<Vec<&Diagnostic>> = Vec::new();
    let mut places: HashMap<(Severity, &str, Option<&str>), usize> = HashMap::new();
    for diagnostic in diagnostics {
        let hint = diagnostic.hint.as_deref();
        let key = (diagnostic.severity, diagnostic.message.as_str(), hint);
        let place = *places.entry(key).or_insert(groups.len());
        match groups.get_mut(place) {
            Some(group) => group.push(diagnostic),
            None => groups.push(vec![diagnostic]),
        }
    }
    for group in groups {
        text += &one(group[0], &group[1..], style);
        text += "\n";
    }
    style.plain(&(text + &count(diagnostics) + "\n"))
}

/// Number of places of equal diagnostics that are named, at most.
const MAX_PLACES: usize = 3;

/// `others`: the equal ones.
fn one(diagnostic: &Diagnostic, others: &[&Diagnostic], style: Style) -> String {
    let (word, paint) = match diagnostic.severity {
        Severity::Error => ("error", Paint::Red),
        Severity::Warning => ("warning", Paint::Yellow),
        Severity::Note => ("note", Paint::Cyan),
    };
    let wrap = |text: &str, indent: usize| style.wrap(&sanitize(text), indent);
    // The lines after the first one are causes and evidence; they are printed below the place.
    let mut lines = diagnostic.message.lines();
    let message = wrap(&format!("{word}: {}", lines.next().unwrap_or_default()), 2);
    let mut text = match message.split_once(':') {
        Some((word, rest)) => format!("{}:{rest}\n", style.paint(paint, word)),
        None => message + "\n",
    };
    if let Some(place) = &diagnostic.place {
        text += &at(place, paint, style);
    }
    if !others.is_empty() {
        text += &(wrap(&format!("  {}", elsewhere(others)), 4) + "\n");
    }
    for line in lines {
        text += &(wrap(&format!("  {}", line.trim()), 4) + "\n");
    }
    if let Some(hint) = &diagnostic.hint {
        text += &(wrap(&format!("hint: {hint}"), 6) + "\n");
    }
    text
}

/// `the same at a.fio:3:1, a.fio:9:1 and 4 more places`, or `5 more times` without places.
fn elsewhere(others: &[&Diagnostic]) -> String {
    let places = others.iter().filter_map(|it| it.place.as_ref());
    let named = places.take(MAX_PLACES).map(|place| {
        let file = place.file.display();
        match place.line {
            0 => file.to_string(),
            line => format!("{file}:{line}:{}", place.column.max(1)),
        }
    });
    let named: Vec<String> = named.collect();
    let more = (others.len() - named.len()) as u64;
    match (named.is_empty(), more) {
        (true, _) => counted(more, "more time"),
        (false, 0) => format!("the same at {}", named.join(", ")),
        (false, more) => format!(
            "the same at {} and {}",
            named.join(", "),
            counted(more, "more place")
        ),
    }
}

/// The place, the line as written and carets below the faulty part.
fn at(place: &Place, paint: Paint, style: Style) -> String {
    let file = sanitize(&place.file.display().to_string());
    let mut text = match place.line {
        0 => format!("  at: {file}\n"),
        line => format!("  at: {file}:{line}:{}\n", place.column.max(1)),
    };
    if place.text.trim().is_empty() {
        return text;
    }
    let gutter = place.line.to_string();
    // A tab counts as one character in the column and is drawn as one space.
    let line = sanitize(&place.text.replace('\t', " "));
    let before: String = line
        .chars()
        .take(place.column.saturating_sub(1) as usize)
        .collect();
    let meant: String = line
        .chars()
        .skip(place.column.saturating_sub(1) as usize)
        .take(place.length.max(1) as usize)
        .collect();
    let carets = "^".repeat(width(&meant).max(1));
    text += &format!("  {gutter} | {line}\n");
    text += &format!(
        "  {} | {}{}\n",
        " ".repeat(gutter.len()),
        " ".repeat(width(&before)),
        style.paint(paint, &carets)
    );
    text
}

/// `2 errors, 1 warning`.
fn count(diagnostics: &[Diagnostic]) -> String {
    let of = |severity, word: &str| match number(diagnostics, severity) {
        0 => None,
        number => Some(counted(number as u64, word)),
    };
    let counts = [
        of(Severity::Error, "error"),
        of(Severity::Warning, "warning"),
        of(Severity::Note, "note"),
    ];
    let counts: Vec<String> = counts.into_iter().flatten().collect();
    counts.join(", ")
}

/// A file that was checked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Checked {
    /// Its path.
    pub file: String,
    /// `runnable`, `refused` or `faulty`.
    pub verdict: &'static str,
}

/// The result of a check as a JSON document: `schema` (`iodyno.diagnostics/1`), `errors`, `warnings`, and `diagnostics`
/// with `severity`, `message`, `file`, `line`, `column` (from 1), `length`, `text`, `hint`; keys that do not apply are
/// null. Then `verdict`, the worst of all files, and `files`, each with `file` and `verdict`. Ends with a newline.
pub fn json(diagnostics: &[Diagnostic], verdict: &'static str, files: Vec<Checked>) -> String {
    print(&Document((diagnostics, verdict, &files)))
}

type Checks<'a> = (&'a [Diagnostic], &'a str, &'a [Checked]);

object!(Document<'a>((diagnostics, verdict, files) in Checks<'a>) {
    schema: "iodyno.diagnostics/1",
    errors: number(diagnostics, Severity::Error),
    warnings: number(diagnostics, Severity::Warning),
    diagnostics: list(diagnostics, Entry),
    verdict: verdict,
    files: files,
});

object!(Entry<'a>(diagnostic in &'a Diagnostic) {
    severity: diagnostic.severity,
    message: diagnostic.message,
    file: diagnostic.place.as_ref().map(|place| place.file.display().to_string()),
    line: diagnostic.place.as_ref().map(|place| place.line),
    column: diagnostic.place.as_ref().map(|place| place.column),
    length: diagnostic.place.as_ref().map(|place| place.length),
    text: diagnostic.place.as_ref().map(|place| &place.text),
    hint: diagnostic.hint,
});

fn number(diagnostics: &[Diagnostic], severity: Severity) -> usize {
    let matching = diagnostics.iter().filter(|it| it.severity == severity);
    matching.count()
}

/// Lines of plain text, wrapped and without control characters.
pub fn lines(text: &str, style: Style) -> String {
    let wrapped = text
        .lines()
        .map(|line| style.wrap(&sanitize(line), 2) + "\n");
    style.plain(&wrapped.collect::<String>())
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use iodyno_model::{Diagnostic, Place};

    use super::{json, text};
    use crate::Style;

    fn place(line: u32, column: u32, length: u32, text: &str) -> Place {
        Place {
            file: PathBuf::from("jobs/oltp.fio"),
            line,
            column,
            length,
            text: text.to_owned(),
        }
    }

    fn faults() -> Vec<Diagnostic> {
        vec![
            Diagnostic::error("`4x` is no size")
                .at(place(12, 4, 2, "bs=4x"))
                .hint("write `4k` for 4096 bytes"),
            Diagnostic::warning("`\x1b[2J` is unknown\nand ignored").at(place(
                3,
                1,
                5,
                "größe=\t1",
            )),
            Diagnostic::error("no job is given"),
        ]
    }

    #[test]
    fn names_what_where_and_what_to_do() {
        insta::assert_snapshot!(text(&faults(), Style::default()));
    }

    #[test]
    fn equal_faults_are_printed_once_with_their_other_places() {
        let fault = |line| Diagnostic::error("`4x` is no size").at(place(line, 4, 2, "bs=4x"));
        let other = Diagnostic::warning("no job is given");
        let mut faults: Vec<Diagnostic> = [3, 5, 7, 9, 11].map(fault).into();
        faults.extend([other.clone(), other.clone(), other]);
        assert_eq!(
            text(&faults, Style::default()),
            "error: `4x` is no size\n  at: jobs/oltp.fio:3:4\n  3 | bs=4x\n    |    ^^\n  \
             the same at jobs/oltp.fio:5:4, jobs/oltp.fio:7:4, jobs/oltp.fio:9:4 and 1 more place\n\n\
             warning: no job is given\n  2 more times\n\n5 errors, 3 warnings\n"
        );
    }

    #[test]
    fn an_empty_list_prints_nothing() {
        assert_eq!(text(&[], Style::default()), "");
        assert!(json(&[], "runnable", Vec::new()).contains("\"errors\": 0"));
    }

    #[test]
    fn json_has_every_fault_with_its_place() {
        let value: serde_json::Value =
            serde_json::from_str(&json(&faults(), "faulty", Vec::new())).unwrap();
        assert_eq!(value["errors"], 2);
        assert_eq!(value["diagnostics"][0]["line"], 12);
        assert_eq!(value["diagnostics"][0]["severity"], "error");
        assert!(value["diagnostics"][2]["file"].is_null());
    }

    #[test]
    fn a_caret_beyond_the_line_is_printed() {
        let odd = [Diagnostic::error("cut off").at(place(1, 40, 0, "x"))];
        let drawn = text(&odd, Style::default());
        assert!(drawn.contains("| x\n"), "{drawn}");
        assert!(drawn.contains('^'), "{drawn}");
    }
}
