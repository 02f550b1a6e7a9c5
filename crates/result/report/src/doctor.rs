//! Whether a host is fit for measurements: checks, findings, remedies.

use iodyno_model::{Check, CheckState};
use iodyno_units::counted;

use crate::json::{object, print};
use crate::style::{Paint, Style, left, sanitize, trimmed, width};

/// Width of the mark and the blank after it, columns.
const MARK: usize = 6;

/// The longest name that has its finding on the same line; otherwise the finding is on the next line.
const MAX_NAME_LEN: usize = 22;

/// A line for each check in the given order, with rule and remedy if it is violated. The last line states whether the
/// host is fit. Ends with a newline.
pub fn text(checks: &[Check], style: Style) -> String {
    let names = checks.iter().map(|check| width(&sanitize(&check.name)));
    let name_width = names
        .filter(|name| *name <= MAX_NAME_LEN)
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
    let name = sanitize(&check.name);
    let head = match width(&name) <= name_width {
        true => left(&name, name_width + 2),
        false => name + "\n" + &" ".repeat(indent),
    };
    let line = format!("{}{head}{}", left(mark, MARK), sanitize(&check.found));
    let wrapped: String = (style.plain(&line))
        .split('\n')
        .map(|line| style.wrap(line, indent) + "\n")
        .collect();
    let mut text = wrapped.replacen(mark, &style.paint(paint, mark), 1);
    if matches!(check.state, CheckState::Fine | CheckState::Unknown) {
        return text;
    }
    let spaces = " ".repeat(indent);
    let rule = style.plain(&sanitize(&check.rule));
    let rule = style.wrap(&format!("{spaces}rule: {rule}"), indent + 2);
    for line in rule.lines() {
        text += &(style.paint(Paint::Dim, line) + "\n");
    }
    if let Some(remedy) = &check.remedy {
        let remedy = style.plain(&sanitize(&format!("→ {remedy}")));
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
        notes => format!(", {}", counted(notes as u64, "note")),
    };
    let line = match unfit {
        0 => style.paint(
            Paint::Green,
            &format!("fit for measurements ({all} {checks}{noted})"),
        ),
        unfit => style.paint(
            Paint::Red,
            &format!("not fit: {unfit} of {all} {checks}{noted}"),
        ),
    };
    line + "\n"
}

/// `schema` = `iodyno.doctor/1`: `fit`, and `checks` with `name`, `state` (`fine`, `unknown`, `note`, `unfit`),
/// `found`, `rule` and, if there is one, `remedy`. Ends with a newline.
pub fn json(checks: &[Check]) -> String {
    print(&Document(checks))
}

object!(Document<'a>(checks in &'a [Check]) {
    schema: "iodyno.doctor/1",
    fit: checks.iter().all(|check| check.state != CheckState::Unfit),
    checks: checks,
});

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::Value;

    const EIGHTY: Style = Style {
        color: false,
        width: 80,
        unicode: true,
    };

    fn check(name: &str, state: CheckState, found: &str, rule: &str) -> Check {
        Check {
            name: name.to_owned(),
            state,
            found: found.to_owned(),
            rule: rule.to_owned(),
            remedy: None,
        }
    }

    fn checks() -> Vec<Check> {
        let mut governor = check(
            "governor",
            CheckState::Unfit,
            "powersave on 4 of 8 CPUs",
            "`performance`: a clock that follows the load makes the first seconds slower than the others",
        );
        governor.remedy = Some("cpupower frequency-set -g performance".to_owned());
        vec![
            check(
                "clock source",
                CheckState::Fine,
                "tsc, 22 ns a reading",
                "tsc",
            ),
            governor,
            check(
                "turbo",
                CheckState::Unknown,
                "the host does not tell",
                "off",
            ),
            check(
                "write cache of vda",
                CheckState::Note,
                "write back",
                "told, not judged: syncs are as dear as the device makes them",
            ),
            check(
                "free space of /mnt/a/rather/long/path",
                CheckState::Fine,
                "100 GiB of 250 GiB",
                "≥ 20 %",
            ),
        ]
    }

    #[test]
    fn a_failed_check_has_its_rule_and_its_remedy() {
        insta::assert_snapshot!(text(&checks(), EIGHTY));
    }

    #[test]
    fn the_last_line_says_whether_the_host_is_fit() {
        let fine = check("swap", CheckState::Fine, "none in use", "none");
        let note = check("discard", CheckState::Note, "off", "told");
        for (checks, expected) in [
            (vec![], "fit for measurements (0 checks)\n"),
            (vec![fine.clone()], "fit for measurements (1 check)\n"),
            (
                vec![fine.clone(), note.clone(), note],
                "fit for measurements (3 checks, 2 notes)\n",
            ),
        ] {
            assert!(text(&checks, EIGHTY).ends_with(expected));
        }
        assert!(text(&checks(), EIGHTY).ends_with("not fit: 1 of 5 checks, 1 note\n"));
    }

    #[test]
    fn json_has_the_result_and_every_check() {
        let document: Value = serde_json::from_str(&json(&checks())).unwrap();
        assert_eq!(document["schema"], "iodyno.doctor/1");
        assert_eq!(document["fit"], false);
        let found = document["checks"].as_array().unwrap();
        let states: Vec<&str> = found.iter().filter_map(|it| it["state"].as_str()).collect();
        assert_eq!(states, ["fine", "unfit", "unknown", "note", "fine"]);
        assert_eq!(found[1]["remedy"], "cpupower frequency-set -g performance");
        let fit: Value = serde_json::from_str(&json(&checks()[..1])).unwrap();
        assert_eq!(fit["fit"], true);
    }

    #[test]
    fn colour_changes_no_text() {
        let plain = text(&checks(), EIGHTY);
        let mut coloured = text(
            &checks(),
            Style {
                color: true,
                ..EIGHTY
            },
        );
        assert!(coloured.contains("\x1b[31mbad\x1b[0m"), "{coloured}");
        for code in ["0", "2", "31", "32", "33", "36"] {
            coloured = coloured.replace(&format!("\x1b[{code}m"), "");
        }
        assert_eq!(coloured, plain);
    }

    fn words() -> impl Strategy<Value = String> {
        prop::collection::vec("[a-z0-9µ→≥%./]{1,12}", 1..20).prop_map(|words| words.join(" "))
    }

    proptest! {
        #[test]
        fn no_line_is_wider_than_the_terminal(
            found in words(), rule in words(), remedy in words(), name in words(),
            columns in 60usize..200, unicode in any::<bool>(), state in 0..4
        ) {
            let state = [CheckState::Fine, CheckState::Unknown, CheckState::Note, CheckState::Unfit][state as usize];
            let mut checks = checks();
            checks.push(Check { name, state, found, rule, remedy: Some(remedy) });
            let text = text(&checks, Style { width: columns, unicode, color: false });
            for line in text.lines() {
                prop_assert!(width(line) <= columns, "{line}");
            }
            prop_assert!(unicode || text.is_ascii(), "{text}");
        }
    }
}
