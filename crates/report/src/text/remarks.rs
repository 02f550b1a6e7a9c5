//! The findings of a trial, its notes, and why it failed.

use iodyno_model::{Finding, FindingKind, Outcome, Trial, Weight};

use crate::style::{Paint, Style, trimmed};

/// How much of a finding is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Detail {
    /// The finding and its remedy.
    Brief,
    /// Also the threshold.
    Full,
}

/// Findings, notes, and why the trial failed.
pub fn remarks(trial: &Trial, findings: &[Finding], style: Style) -> String {
    style.plain(&trimmed(&told(trial, findings, Detail::Brief, style)))
}

pub(super) fn told(trial: &Trial, findings: &[Finding], detail: Detail, style: Style) -> String {
    let mut text: String = findings
        .iter()
        .map(|finding| objection(finding, detail, style))
        .collect();
    for note in trial.parts.iter().flat_map(|part| &part.notes) {
        text += &style.paragraph(&format!("- {note}"), 2, Paint::Dim);
    }
    text + &failure(trial, findings, style)
}

fn objection(finding: &Finding, detail: Detail, style: Style) -> String {
    let paint = match finding.weight {
        Weight::Invalid => Paint::Red,
        Weight::Warning => Paint::Yellow,
        Weight::Note => Paint::Dim,
    };
    let remedy = finding.remedy.as_ref();
    let remedy = remedy.map_or(String::new(), |remedy| format!(" → {remedy}"));
    let mut text = style.paragraph(&format!("! {}{remedy}", finding.text), 2, paint);
    if detail == Detail::Full && !finding.threshold.is_empty() {
        let threshold = format!("  threshold: {}", finding.threshold);
        text += &style.paragraph(&threshold, 4, Paint::Dim);
    }
    text
}

fn failure(trial: &Trial, findings: &[Finding], style: Style) -> String {
    let told = findings
        .iter()
        .any(|finding| finding.kind == FindingKind::Interrupted);
    let (word, reason) = match &trial.outcome {
        Outcome::Completed => return String::new(),
        // The finding says it, with the time that was measured.
        Outcome::Interrupted(_) if told => return String::new(),
        Outcome::Interrupted(reason) => ("interrupted", reason),
        Outcome::Failed(reason) => ("failed", reason),
        Outcome::Refused(reason) => ("refused", reason),
    };
    style.paragraph(&format!("{word}: {reason}"), 2, Paint::Red)
}
