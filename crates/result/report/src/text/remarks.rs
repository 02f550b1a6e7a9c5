//! The findings of a trial, its notes, and why it failed.
//!
//! Notes on the set-up are on one line, except in full detail: most trials have some, and users ignore text that always
//! appears.

use iodyno_model::{Finding, FindingKind, Outcome, Trial, Weight};

use crate::style::{Paint, Style, trimmed};
use iodyno_model::ordered::distinct;

/// How much detail of a finding is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Detail {
    /// Findings with their remedies; the kinds of the notes on the set-up on one line.
    Brief,
    /// All findings with remedies and thresholds.
    Full,
}

/// Findings, notes, and why the trial failed.
pub fn remarks(trial: &Trial, findings: &[Finding], style: Style) -> String {
    style.plain(&trimmed(&told(trial, findings, Detail::Brief, style)))
}

pub(super) fn told(trial: &Trial, findings: &[Finding], detail: Detail, style: Style) -> String {
    let in_line = |finding: &&Finding| detail == Detail::Full || !on_set_up(finding);
    let mut text: String = findings
        .iter()
        .filter(in_line)
        .map(|finding| objection(finding, detail, style))
        .collect();
    if detail == Detail::Brief {
        text += &kinds_of_notes(findings, style);
    }
    for note in trial.parts.iter().flat_map(|part| &part.notes) {
        text += &style.paragraph(&format!("- {note}"), 2, Paint::Dim);
    }
    text + &failure(trial, findings, style)
}

/// Whether the finding is a note on the set-up of the trial and not on its measurements. A run prints each kind of
/// these notes once.
pub fn on_set_up(finding: &Finding) -> bool {
    finding.weight == Weight::Note
        && matches!(
            finding.kind,
            FindingKind::StoreOnTarget
                | FindingKind::Unwritten
                | FindingKind::TooShort
                | FindingKind::ResolutionLimited
                | FindingKind::SmallerThanMemory
                | FindingKind::Compressible
                | FindingKind::Fallback
        )
}

/// `notes: too few ops for the tail, compressible data (details: iodyno show)`; empty without such notes.
fn kinds_of_notes(findings: &[Finding], style: Style) -> String {
    let kinds = findings.iter().filter(|one| on_set_up(one));
    let kinds = distinct(kinds.map(|finding| finding.kind.words()));
    match kinds.is_empty() {
        true => String::new(),
        false => {
            let line = format!("notes: {} (details: iodyno show)", kinds.join(", "));
            style.paragraph(&line, 2, Paint::Dim)
        }
    }
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
        // The finding already states the interruption, with the measured time.
        Outcome::Interrupted(_) if told => return String::new(),
        Outcome::Interrupted(reason) => ("interrupted", reason),
        Outcome::Failed(reason) => ("failed", reason),
        Outcome::Refused(reason) => ("refused", reason),
    };
    style.paragraph(&format!("{word}: {reason}"), 2, Paint::Red)
}
