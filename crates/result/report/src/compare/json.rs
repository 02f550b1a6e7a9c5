//! A comparison as JSON, with every trial's value.
//!
//! The first key is `schema`; keys are only added within its number. A figure that does not exist or is not finite is
//! null.

use std::collections::BTreeMap;

use iodyno_model::{
    CandidateResult, ClaimCheck, ComparedRow, Comparison, Difference, FilledTable, Member, Metric,
    Question, Regime, Side, Verdict,
};

use super::closing::ClosingView;
use super::estimated::EstimatedView;
use super::searches::AnswerView;
use super::words::{better, pairing, tag, unit_name, verdict_words};
use crate::json::{list, object, print};

/// `schema` = `iodyno.comparison/1`. Values are in `rows[].metric.unit`, in the order of rounds; shares and
/// levels are fractions of one; a ratio is a speed, above one the candidate is better. `table`: the closing table of the
/// run. Ends with a newline.
pub fn json(comparison: &Comparison, table: Option<&FilledTable>) -> String {
    print(&Document((comparison, table)))
}

object!(Document<'a>((it, table) in (&'a Comparison, Option<&'a FilledTable>)) {
    schema: "iodyno.comparison/1",
    name: it.name,
    question: QuestionView(&it.question),
    baseline: it.columns.first(),
    candidates: (it.columns.iter().skip(1))
        .map(|name| CandidateView((it, name)))
        .collect::<Vec<_>>(),
    rounds: it.rounds,
    paired: it.paired,
    // Number of primary comparisons, for Holm's adjustment.
    primaries: it.primaries,
    noise_floor: it.floor,
    rows: (it.rows.iter()).map(|row| RowView((it, row))).collect::<Vec<_>>(),
    same: it.same,
    differs: list(&it.differs, DifferenceView),
    // Facts that only one side has.
    unknown: it.unknown,
    claims: list(&it.claims, ClaimView),
    // Of workloads with a searched load; their trials are not compared.
    searches [filled]: list(&it.searches, AnswerView),
    // The closing table of the experiment.
    table [opt]: table.map(ClosingView),
    notes: it.notes,
});

object!(QuestionView<'a>(question in &'a Question) {
    words [opt]: &question.words,
    columns: question.columns,
    rows: question.rows,
    // Dimensions of the rows that tables print as columns.
    across [filled]: question.across,
    only: list(&question.only, PairView),
    metrics: question.metrics,
    // How many of them decide, if several do.
    primary_metrics [opt]: &(question.primary_metrics > 1).then_some(question.primary_metrics),
    axis: question.axis,
    floor: list(&question.floor, PairView),
    margin: question.margin,
    alpha: question.alpha,
    // The part of alpha that this look may spend, and the number of earlier looks; null if the run cannot be extended.
    alpha_at_look: question.alpha_at_look(),
    earlier_looks: question.looks,
});

object!(PairView<'a>((dimension, value) in &'a (String, String)) {
    dimension: dimension,
    value: value,
});

object!(CandidateView<'a>((comparison, name) in (&'a Comparison, &'a str)) {
    name: name,
    // Verdicts over the primary rows.
    verdicts: comparison.verdicts(Some(name)),
});

object!(RowView<'a>((comparison, row) in (&'a Comparison, &'a ComparedRow)) {
    // Its values of the row dimensions.
    dimensions: (comparison.question.rows.iter())
        .zip(&row.name)
        .collect::<BTreeMap<_, _>>(),
    // The dimension `workload` is the name of a family: the row is the geometric mean of its workloads.
    family: row.family,
    metric: MetricView(&row.metric),
    // Benjamini–Hochberg instead of Holm.
    exploratory: row.exploratory,
    // The row gives the noise floor: no difference is expected.
    floor_row: row.no_difference,
    noise_floor: row.floor,
    baseline: SideView(&row.baseline),
    cells: list(&row.cells, CellView),
});

object!(MetricView<'a>(metric in &'a Metric) {
    name: metric.name,
    unit: unit_name(&metric.unit),
    better: better(metric.better),
});

object!(SideView<'a>(side in &'a Side) {
    column: side.column,
    values: side.values,
    median: side.median.as_ref().map(EstimatedView),
    left_out: side.left_out,
    regimes: list(&side.regimes, RegimeView),
    flags: side.flags.iter().map(ToString::to_string).collect::<Vec<_>>(),
});

object!(RegimeView<'a>(regime in &'a Regime) {
    start_ns: regime.start_ns,
    end_ns: regime.end_ns,
    ops_per_s: regime.rate,
    deviation_ops_per_s: regime.deviation,
});

object!(CellView<'a>(cell in &'a CandidateResult) {
    candidate: SideView(&cell.side),
    pairing: pairing(cell.pairing),
    // Rounds, or trials of the smaller side.
    n: cell.n,
    ratio: cell.ratio.as_ref().map(EstimatedView),
    p: cell.p,
    adjusted_p: cell.adjusted_p,
    cliffs_delta: cell.cliffs_delta,
    margin: cell.margin,
    // `faster`, `slower`, `equivalent`, `different_but_small`, `inconclusive`, `cannot_decide`, `not_comparable`,
    // `no_data`.
    verdict: tag(&cell.verdict),
    // The verdict by the numbers alone.
    verdict_by_numbers: tag(&cell.by_numbers),
    // The verdict as one line of text.
    words: verdict_words(cell),
    // The reasons why the sides are not comparable, the verdict is inconclusive, or data are missing.
    reasons: reasons(&cell.verdict),
    // For an inconclusive verdict: the number of further rounds, or trials per side, that are needed.
    more_needed: match cell.verdict {
        Verdict::Inconclusive { more, .. } => more,
        _ => None,
    },
    // For a verdict that n cannot decide: the smallest p possible with n, the level that p must be below, and the
    // smallest n that can decide.
    smallest_p: undecidable(&cell.verdict).map(|it| it.0),
    needed_p: undecidable(&cell.verdict).map(|it| it.1),
    least_n: undecidable(&cell.verdict).map(|it| it.2),
    differs: list(&cell.differs, DifferenceView),
    members: list(&cell.members, MemberView),
    notes: [cell.notes.as_slice(), &cell.remarks].concat(),
});

fn reasons(verdict: &Verdict) -> Vec<&str> {
    match verdict {
        Verdict::NotComparable { reasons } | Verdict::Inconclusive { reasons, .. } => {
            reasons.iter().map(String::as_str).collect()
        }
        Verdict::NoData { why } => vec![why.as_str()],
        _ => Vec::new(),
    }
}

fn undecidable(verdict: &Verdict) -> Option<(f64, f64, u32)> {
    match verdict {
        Verdict::CannotDecide {
            smallest_p,
            needed_p,
            least,
            ..
        } => Some((*smallest_p, *needed_p, *least)),
        _ => None,
    }
}

object!(DifferenceView<'a>(difference in &'a Difference) {
    name: difference.name,
    baseline: difference.values.0,
    candidate: difference.values.1,
    axis: difference.axis,
});

object!(MemberView<'a>(member in &'a Member) {
    workload: member.workload,
    ratio: member.ratio,
});

object!(ClaimView<'a>(check in &'a ClaimCheck) {
    source: check.claim.at.source,
    line: check.claim.at.line,
    workload: check.claim.workload,
    unit: check.claim.unit,
    printed_sides: check.claim.sides,
    printed_delta: check.claim.delta,
    printed_p: check.claim.p,
    printed_n: check.claim.n,
    recomputed_sides: check.recomputed,
    recomputed_p: check.p,
    follows: check.follows(),
    against: check.against,
    unchecked [opt]: &check.unchecked,
});
