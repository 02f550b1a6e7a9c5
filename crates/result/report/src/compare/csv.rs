//! Comma-separated values: one line per candidate and row, with all digits of each number.

use iodyno_model::{CandidateResult, ComparedRow, Comparison, Side};

use super::footnotes::each_once;
use super::searches::searches_csv;
use super::words::{better, pairing, row_name, tag, unit_name, verdict_words};
use crate::csv::{estimated, number};
use crate::table::{Column, Table};

/// The columns after those of the rows' dimensions.
const COLUMNS: &str = "metric,unit,better,exploratory,baseline,candidate,pairing,n,baseline_median,baseline_low,\
    baseline_high,candidate_median,candidate_low,candidate_high,median_level,ratio,ratio_low,ratio_high,\
    ratio_level,p,adjusted_p,cliffs_delta,margin,noise_floor,verdict,verdict_by_numbers,words,remarks,\
    baseline_values,candidate_values";

/// A header line, then one line for each candidate in each row, quoted as in RFC 4180. Lines end with a newline alone.
///
/// The rows' dimensions come first, one column each. Values are in the row's unit (`ns` for times), a side's values are
/// joined by `;`, shares and levels are fractions of one, and missing values are empty. `ratio` is a speed: above one,
/// the candidate is better, also for metrics where lower is better. The answers of searches follow after an empty line,
/// as a separate table.
pub fn csv(comparison: &Comparison) -> String {
    let dimensions = &comparison.question.rows;
    let names = dimensions
        .iter()
        .map(String::as_str)
        .chain(COLUMNS.split(','));
    let mut table = Table::new(names.map(Column::left));
    for row in &comparison.rows {
        for cell in &row.cells {
            let mut fields = row_name(row, &comparison.question);
            fields.extend(line(comparison, row, cell));
            table.row(fields);
        }
    }
    let searches = match comparison.searches.as_slice() {
        [] => String::new(),
        answers => format!("\n{}", searches_csv(answers)),
    };
    table.csv() + &searches
}

fn line(comparison: &Comparison, row: &ComparedRow, cell: &CandidateResult) -> [String; 30] {
    let [baseline_median, baseline_low, baseline_high] = estimated(row.baseline.median.as_ref());
    let [candidate_median, candidate_low, candidate_high] = estimated(cell.side.median.as_ref());
    let [ratio, ratio_low, ratio_high] = estimated(cell.ratio.as_ref());
    let median_level = row.baseline.median.or(cell.side.median);
    [
        row.metric.name.clone(),
        unit_name(&row.metric.unit).to_owned(),
        better(row.metric.better).to_owned(),
        row.exploratory.to_string(),
        comparison.columns.first().cloned().unwrap_or_default(),
        cell.side.column.clone(),
        pairing(cell.pairing).to_owned(),
        cell.n.to_string(),
        baseline_median,
        baseline_low,
        baseline_high,
        candidate_median,
        candidate_low,
        candidate_high,
        number(median_level.map(|median| median.level)),
        ratio,
        ratio_low,
        ratio_high,
        number(cell.ratio.as_ref().map(|ratio| ratio.level)),
        number(cell.p),
        number(cell.adjusted_p),
        number(cell.cliffs_delta),
        number(Some(cell.margin)),
        number(row.floor),
        tag(&cell.verdict).to_owned(),
        tag(&cell.by_numbers).to_owned(),
        verdict_words(cell),
        remarks(row, cell),
        values(&row.baseline),
        values(&cell.side),
    ]
}

/// Flags and notes. Excluded trials are mentioned in the notes.
fn remarks(row: &ComparedRow, cell: &CandidateResult) -> String {
    let side = |side: &Side| -> Vec<String> {
        let flags = side.flags.iter();
        flags
            .map(|text| format!("{}: {text}", side.column))
            .collect()
    };
    let notes = cell.notes.iter().chain(&cell.remarks).cloned();
    let all: Vec<String> = side(&row.baseline)
        .into_iter()
        .chain(side(&cell.side))
        .chain(notes)
        .collect();
    each_once(&all)
}

fn values(side: &Side) -> String {
    let values: Vec<String> = side
        .values
        .iter()
        .map(|value| number(Some(*value)))
        .collect();
    values.join(";")
}
