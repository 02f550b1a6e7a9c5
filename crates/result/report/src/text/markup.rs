//! Trials in one table to paste, with what was found in them.

use iodyno_model::ordered::{distinct, entry};
use iodyno_model::{Finding, Summary, Trial, Workload};
use iodyno_units::counted;

use super::table::{COLUMNS, notes, sections};
use crate::table::{Column, Markup, Table};

/// A trial of a run.
#[derive(Debug)]
pub struct NumberedTrial<'a> {
    /// Its number, as `--trial` takes it.
    pub number: u32,
    /// Its workload.
    pub workload: &'a Workload,
    /// Its results.
    pub trial: &'a Trial,
    /// Its summary.
    pub summary: Summary,
}

/// Rates and latencies, a line for each direction; then failures and findings, each once with its trials. Ends with a
/// newline.
pub fn trials_markup(trials: &[NumberedTrial<'_>], markup: Markup) -> String {
    let mut table = Table::new(
        [Column::right("trial"), Column::right("round")]
            .into_iter()
            .chain(["configuration", "workload", ""].map(Column::left))
            .chain(COLUMNS.map(|(head, ..)| Column::right(head))),
    );
    let mut remarks: Vec<(&str, Vec<Remark>)> = Vec::new();
    let mut legend: Vec<String> = Vec::new();
    for shown in trials {
        let trial = shown.trial;
        let sections = sections(shown.workload, &shown.summary);
        let several = sections.len() > 1;
        for (group, rows) in sections {
            let workload = match (&group, several) {
                (Some(group), true) => format!("{}: {group}", trial.workload),
                _ => trial.workload.clone(),
            };
            for row in rows {
                let lead = [
                    shown.number.to_string(),
                    (trial.key.round + 1).to_string(),
                    trial.configuration.clone(),
                    workload.clone(),
                ];
                table.row(lead.into_iter().chain(row.cells));
            }
        }
        let of_trial = |text: String| Remark {
            number: shown.number,
            text,
        };
        if let Some(reason) = trial.outcome.reason() {
            entry(&mut remarks, "").push(of_trial(reason.to_owned()));
        }
        for found in &trial.findings {
            entry(&mut remarks, found.kind.words()).push(of_trial(finding(found)));
        }
        legend.extend(notes(shown.workload, &shown.summary));
    }
    let remarks = remarks
        .iter()
        .map(|(_, of_kind)| joined(of_kind, trials.len()));
    let remarks: Vec<String> = distinct(legend).into_iter().chain(remarks).collect();
    let blocks = [table.markup(markup)].into_iter();
    let blocks: Vec<String> = blocks.chain(markup.list(remarks)).collect();
    blocks.join("\n")
}

/// What was found in a trial.
struct Remark {
    number: u32,
    text: String,
}

/// The remarks of one kind in one text: `all 3 trials, such as trial 1: too few ops for p99 (251 ops)`.
fn joined(remarks: &[Remark], all: usize) -> String {
    let numbers = distinct(remarks.iter().map(|remark| remark.number));
    let texts = distinct(remarks.iter().map(|remark| &remark.text));
    let first = &remarks[0];
    let which = match numbers.as_slice() {
        [one] => format!("trial {one}"),
        several if several.len() == all => format!("all {}", counted(all as u64, "trial")),
        several => format!("trials {}", iodyno_units::list(several)),
    };
    match texts.len() > 1 && numbers.len() > 1 {
        true => format!("{which}, such as trial {}: {}", first.number, first.text),
        false => format!("{which}: {}", first.text),
    }
}

/// A finding with its remedy.
fn finding(finding: &Finding) -> String {
    match &finding.remedy {
        Some(remedy) => format!("{} → {remedy}", finding.text),
        None => finding.text.clone(),
    }
}
