//! What a write-up states against its own figures: statements that they contradict, and the rows of printed
//! comparisons (claims), computed again from the trials.

use iodyno_model::{ClaimCheck, Contradiction, SourceLine};

use super::figures::p_is;
use crate::style::{Paint, Style, sanitize, trimmed};
use crate::table::{Cell, Column, Markup, Table};
use iodyno_model::ordered::distinct;

/// What is checked of some write-ups; empty if nothing is. Ends with a newline.
pub fn statements(
    contradictions: &[Contradiction],
    checks: &[ClaimCheck],
    markup: Markup,
) -> String {
    let list = markup.list(contradictions.iter().map(contradiction));
    let table = claims(checks).map(|claims| claims.markup(markup));
    let blocks: Vec<String> = list.into_iter().chain(table).collect();
    blocks.join("\n")
}

/// Claims without a comparison of trials: a title and a table; empty without claims.
pub fn claims_text(checks: &[ClaimCheck], style: Style) -> String {
    let text = claims(checks).map(|claims| claims.text(style));
    style.plain(&trimmed(&text.unwrap_or_default()))
}

/// A statement, and the contradicting figures of its write-up.
pub(crate) fn contradiction(found: &Contradiction) -> String {
    let against = match found.against.line == found.at.line {
        true => String::new(),
        false => format!(", line {}", found.against.line),
    };
    format!(
        "{}: \"{}\" contradicts the write-up's own figures{against}: {}",
        place(&found.at),
        found.statement,
        found.shown
    )
}

pub(crate) fn place(at: &SourceLine) -> String {
    format!("{} line {}", at.source, at.line)
}

/// The claims of imported tables.
pub(super) struct Claims {
    /// `claims of ext4-zfs-fsbench.txt, line 412: 3 of 5 follow from their trials`.
    title: String,
    rows: Vec<ClaimRow>,
}

/// A claim and the result of its check.
struct ClaimRow {
    /// The workload and the unit.
    name: String,
    /// The printed figures: each side, then the difference.
    printed: Vec<String>,
    /// The figures computed from the trials, if they differ from the printed ones.
    recomputed: Option<Vec<String>>,
    /// `None`: it cannot be checked.
    follows: Option<bool>,
    /// Why it does not follow, or why it cannot be checked.
    reasons: Vec<String>,
}

impl ClaimRow {
    fn standing(&self) -> &'static str {
        match self.follows {
            Some(true) => "follows",
            Some(false) => "DOES NOT FOLLOW",
            None => "cannot be checked",
        }
    }
}

impl Claims {
    /// For the terminal.
    pub(super) fn text(&self, style: Style) -> String {
        style.paragraph(&self.title, 2, Paint::Strong)
            + &self.terminal_table().draw(style.columns(), style)
    }

    fn terminal_table(&self) -> Table {
        let columns = self.rows.iter().map(|row| row.printed.len()).max();
        let columns = (0..columns.unwrap_or(0) + 2).map(|_| Column::left(""));
        let count = columns.len();
        let mut table = Table::new(columns).indent(2).gap(3);
        for row in &self.rows {
            let paint = match row.follows {
                Some(true) => Paint::Green,
                Some(false) => Paint::Red,
                None => Paint::Yellow,
            };
            let mut cells = vec![Cell::from(row.name.as_str())];
            cells.extend(row.printed.iter().map(|text| Cell::from(text.as_str())));
            cells.resize(count - 1, Cell::default());
            cells.push(Cell::painted(row.standing(), paint));
            table.row(cells);
            if let Some(recomputed) = &row.recomputed {
                let line = format!("    from the trials: {}", recomputed.join(", "));
                table.text(line, 6, Paint::Dim);
            }
            for reason in &row.reasons {
                table.text(format!("    {reason}"), 6, Paint::Dim);
            }
        }
        table
    }

    /// To paste.
    pub(super) fn markup(&self, markup: Markup) -> String {
        let title = markup.paragraph(&[markup.escape(&self.title)]);
        title + "\n" + &self.pasted_table().markup(markup)
    }

    fn pasted_table(&self) -> Table {
        let others = ["printed", "from the trials", "stands"];
        let columns = std::iter::once(Column::left("row"));
        let mut table = Table::new(columns.chain(others.map(Column::left)));
        for row in &self.rows {
            let recomputed = row.recomputed.as_ref();
            let standing = [row.standing().to_owned()].into_iter();
            let standing: Vec<String> = standing.chain(row.reasons.iter().cloned()).collect();
            table.row([
                row.name.clone(),
                row.printed.join(", "),
                match (recomputed, row.follows) {
                    (Some(texts), _) => texts.join(", "),
                    (None, Some(_)) => "as printed".to_owned(),
                    (None, None) => String::new(),
                },
                standing.join(": "),
            ]);
        }
        table
    }
}

pub(super) fn claims(checks: &[ClaimCheck]) -> Option<Claims> {
    let first = checks.first()?;
    let count = |outcome| {
        checks
            .iter()
            .filter(|check| check.follows() == outcome)
            .count()
    };
    let unchecked = match count(None) {
        0 => String::new(),
        n => format!(", {n} cannot be checked"),
    };
    let sources = distinct(checks.iter().map(|check| check.claim.at.source.as_str()));
    let place = match sources.as_slice() {
        [source] => format!("{source}, line {}", first.claim.at.line),
        several => several.join(", "),
    };
    Some(Claims {
        title: sanitize(&format!(
            "claims of {place}: {} of {} follow from their trials{unchecked}",
            count(Some(true)),
            checks.len()
        )),
        rows: checks.iter().map(row).collect(),
    })
}

fn row(check: &ClaimCheck) -> ClaimRow {
    let claim = &check.claim;
    let printed = claim.sides.iter().cloned();
    let name = [claim.workload.as_str(), claim.unit.as_str()].join(" ");
    let difference = difference(&claim.delta, claim.p, &claim.n);
    let from_trials: Vec<String> = check
        .recomputed
        .iter()
        .map(|side| side.clone().unwrap_or("not in the trials".to_owned()))
        .chain(check.p.map(p_is))
        .collect();
    let sides = check.recomputed.iter().map(Option::as_deref);
    let as_printed = sides.eq(claim.sides.iter().map(|side| Some(side.as_str())))
        && check.p.map(p_is) == claim.p.map(p_is);
    ClaimRow {
        name: sanitize(name.trim()),
        printed: printed
            .chain([difference])
            .map(|it| sanitize(&it))
            .collect(),
        recomputed: (!as_printed && check.unchecked.is_none())
            .then(|| from_trials.iter().map(|it| sanitize(it)).collect()),
        follows: check.follows(),
        reasons: check
            .against
            .iter()
            .chain(&check.unchecked)
            .map(|why| sanitize(why))
            .collect(),
    }
}

/// `"~" p=0.100 n=3+3`: the printed verdict is quoted, since it is not one of ours.
fn difference(delta: &str, p: Option<f64>, n: &[u32]) -> String {
    let n: Vec<String> = n.iter().map(u32::to_string).collect();
    let parts = [
        (!delta.is_empty()).then(|| format!("\"{delta}\"")),
        p.map(p_is),
        (!n.is_empty()).then(|| format!("n={}", n.join("+"))),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    parts.join(" ")
}
