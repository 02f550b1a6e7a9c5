//! Whether a host is fit to measure on: what was looked at, what was found, what to do.

use iodyno_model::{Check, CheckState};
use serde::Serialize;

use crate::json::print;
use crate::style::{Paint, Style, harmless, left, trimmed, width};

/// Columns of the mark and the blank after it.
const MARK: usize = 6;

/// The widest that names stand beside what was found; of a longer one, that has a line of its own.
const LONGEST_NAME: usize = 22;

/// A line for each check, in the order given, with rule and remedy where it is not as it should be; at last, whether the host is
/// fit. Ends with a newline.
pub fn text(checks: &[Check], style: Style) -> String {
    let names = checks.iter().map(|check| width(&harmless(&check.name)));
    let name_width = names
        .filter(|name| *name <= LONGEST_NAME)
        .max()
        .unwrap_or(0);
    let mut text: String = checks
        .iter()
        .map(|check| one(check, name_width, style))
        .collect();
    text += &verdict(checks, style);
    trimmed(&text)
}

fn one(check: &Check, name_width: usize, style: Style) -> String {
    let (mark, paint) = match check.state {
        CheckState::Fine => ("ok", Paint::Green),
        CheckState::Unknown => ("?", Paint::Dim),
        CheckState::Note => ("note", Paint::Cyan),
        CheckState::Unfit => ("bad", Paint::Red),
    };
    let indent = MARK + name_width + 2;
    let name = harmless(&check.name);
    let head = match width(&name) <= name_width {
        true => left(&name, name_width + 2),
        false => name + "\n" + &" ".repeat(indent),
    };
    let line = format!("{}{head}{}", left(mark, MARK), harmless(&check.found));
    let wrapped: String = (style.plain(&line))
        .split('\n')
        .map(|line| style.wrap(line, indent) + "\n")
        .collect();
    let mut text = wrapped.replacen(mark, &style.paint(paint, mark), 1);
    if matches!(check.state, CheckState::Fine | CheckState::Unknown) {
        return text;
    }
    let spaces = " ".repeat(indent);
    let rule = style.plain(&harmless(&check.rule));
    let rule = style.wrap(&format!("{spaces}rule: {rule}"), indent + 2);
    for line in rule.lines() {
        text += &(style.paint(Paint::Dim, line) + "\n");
    }
    if let Some(remedy) = &check.remedy {
        let remedy = style.plain(&harmless(&format!("→ {remedy}")));
        text += &(style.wrap(&format!("{spaces}{remedy}"), indent + 2) + "\n");
    }
    text
}

fn verdict(checks: &[Check], style: Style) -> String {
    let count = |state| checks.iter().filter(|check| check.state == state).count();
    let (unfit, notes) = (count(CheckState::Unfit), count(CheckState::Note));
    let all = checks.len();
    let checks = if all == 1 { "check" } else { "checks" };
    let noted = match notes {
        0 => String::new(),
        1 => ", 1 note".to_owned(),
        notes => format!(", {notes} notes"),
    };
    let line = match unfit {
        0 => style.paint(
            Paint::Green,
            &format!("fit to measure ({all} {checks}{noted})"),
        ),
        unfit => style.paint(
            Paint::Red,
            &format!("not fit: {unfit} of {all} {checks}{noted}"),
        ),
    };
    line + "\n"
}

#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    fit: bool,
    checks: &'a [Check],
}

/// `schema` = `iodyno.doctor/1`: `fit`, and `checks` with `name`, `state` (`fine`, `unknown`, `note`, `unfit`), `found`,
/// `rule` and, where there is one, `remedy`. Ends with a newline.
pub fn json(checks: &[Check]) -> String {
    print(&Document {
        schema: "iodyno.doctor/1",
        fit: checks.iter().all(|check| check.state != CheckState::Unfit),
        checks,
    })
}
