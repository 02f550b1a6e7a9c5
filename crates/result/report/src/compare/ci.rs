//! The primary verdicts for systems of continuous integration: JUnit's XML, and annotations of GitHub's workflows.

use iodyno_model::{CandidateResult, Comparison, Verdict};

use super::words::{row_name, verdict_words};
use crate::style::sanitize;
use crate::table::Markup;

/// A verdict with its names.
struct Case<'a> {
    /// `zfs against ext4, randread`.
    name: String,
    /// In one line.
    words: String,
    verdict: &'a Verdict,
}

impl Case<'_> {
    fn of<'a>(comparison: &'a Comparison, row: &[String], cell: &'a CandidateResult) -> Case<'a> {
        let baseline = comparison.columns.first().map_or("", String::as_str);
        let sides = format!("{} against {baseline}", cell.side.column);
        let names = row.iter().filter(|name| !name.is_empty());
        let names: Vec<&str> = std::iter::once(sides.as_str())
            .chain(names.map(String::as_str))
            .collect();
        Case {
            name: sanitize(&names.join(", ")),
            words: sanitize(&verdict_words(cell)),
            verdict: &cell.verdict,
        }
    }

    fn regressed(&self) -> bool {
        *self.verdict == Verdict::Slower
    }

    fn decided(&self) -> bool {
        matches!(
            self.verdict,
            Verdict::Faster | Verdict::Slower | Verdict::Equivalent | Verdict::DifferentButSmall
        )
    }
}

fn cases(comparison: &Comparison) -> Vec<Case<'_>> {
    let rows = comparison.rows.iter();
    let rows = rows.filter(|row| !row.exploratory && !row.no_difference);
    rows.flat_map(|row| {
        let name = row_name(row, &comparison.question);
        let cells = row.cells.iter();
        cells.map(move |cell| Case::of(comparison, &name, cell))
    })
    .collect()
}

/// JUnit's XML: a test case for each primary verdict, which fails if it is SLOWER and is skipped if the data do not
/// decide. Ends with a newline.
pub fn junit(comparison: &Comparison) -> String {
    let cases = cases(comparison);
    let count = |wanted: fn(&Case<'_>) -> bool| cases.iter().filter(|case| wanted(case)).count();
    let escape = |text: &str| Markup::Html.escape(text);
    let suite = escape(&comparison.name);
    let body = cases.iter().map(|case| {
        let words = escape(&case.words);
        let inner = match case {
            case if case.regressed() => format!("<failure message=\"{words}\"/>"),
            case if !case.decided() => format!("<skipped message=\"{words}\"/>"),
            _ => format!("<system-out>{words}</system-out>"),
        };
        let name = escape(&case.name);
        format!("    <testcase classname=\"{suite}\" name=\"{name}\">{inner}</testcase>\n")
    });
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n  <testsuite name=\"{suite}\" \
         tests=\"{}\" failures=\"{}\" skipped=\"{}\">\n{}  </testsuite>\n</testsuites>\n",
        cases.len(),
        count(|case| case.regressed()),
        count(|case| !case.decided()),
        body.collect::<String>()
    )
}

/// Commands of GitHub's workflows: an error for each primary verdict that is SLOWER, a notice for the others. Ends with
/// a newline.
pub fn annotations(comparison: &Comparison) -> String {
    let data = |text: &str| text.replace('%', "%25");
    let property = |text: &str| data(text).replace(':', "%3A").replace(',', "%2C");
    let lines = cases(comparison).into_iter().map(|case| {
        let level = if case.regressed() { "error" } else { "notice" };
        let (title, words) = (property(&case.name), data(&case.words));
        format!("::{level} title={title}::{words}\n")
    });
    lines.collect()
}
