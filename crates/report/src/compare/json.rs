//! A comparison as JSON: everything that is known of it, every trial's value with it.
//!
//! The first key is `schema`; keys are only added within its number. A figure that does not exist (or is
//! no number) is null.

use std::collections::BTreeMap;

use iodyno_model::{
    Cell, ClaimCheck, ComparedRow, Comparison, Difference, Estimated, Question, Regime, Side,
    Verdict,
};
use serde::Serialize;

use super::csv::{better, pairing, unit};
use super::words::{Counts, summary_counts, tag, verdict_words};

/// `schema` = `iodyno.comparison/1`. Values are in `rows[].metric.unit`, in the order of rounds; shares and
/// levels are fractions of one; a ratio is a speed, above one the candidate is better. Ends with a newline.
pub fn json(comparison: &Comparison) -> String {
    let document = document(comparison);
    // Maps with text keys and numbers: nothing here can fail to be written.
    serde_json::to_string_pretty(&document).unwrap_or_default() + "\n"
}

#[derive(Serialize)]
pub(crate) struct Document<'a> {
    schema: &'static str,
    name: &'a str,
    question: QuestionObject<'a>,
    baseline: Option<&'a str>,
    candidates: Vec<CandidateObject<'a>>,
    rounds: u32,
    paired: bool,
    /// Primary comparisons: what Holm adjusts over.
    primaries: u32,
    noise_floor: Option<f64>,
    rows: Vec<RowObject<'a>>,
    same: &'a [String],
    differs: Vec<DifferenceObject<'a>>,
    claims: Vec<ClaimObject<'a>>,
    notes: &'a [String],
}

#[derive(Serialize)]
struct QuestionObject<'a> {
    columns: &'a str,
    rows: &'a [String],
    only: Vec<PairObject<'a>>,
    metrics: &'a [String],
    axis: &'a [String],
    floor: Vec<PairObject<'a>>,
    margin: f64,
    alpha: f64,
}

#[derive(Serialize)]
struct PairObject<'a> {
    dimension: &'a str,
    value: &'a str,
}

#[derive(Serialize)]
struct CandidateObject<'a> {
    name: &'a str,
    /// Verdicts over the primary rows.
    verdicts: CountsObject,
}

#[derive(Serialize)]
struct CountsObject {
    faster: u32,
    slower: u32,
    equivalent: u32,
    different_but_small: u32,
    undecided: u32,
    not_comparable: u32,
    no_data: u32,
}

#[derive(Serialize)]
struct RowObject<'a> {
    /// Its values of the row dimensions.
    dimensions: BTreeMap<&'a str, &'a str>,
    metric: MetricObject<'a>,
    /// Benjamini–Hochberg instead of Holm.
    exploratory: bool,
    /// No difference is expected: the row makes the noise floor.
    floor_row: bool,
    noise_floor: Option<f64>,
    baseline: SideObject<'a>,
    cells: Vec<CellObject<'a>>,
}

#[derive(Serialize)]
struct MetricObject<'a> {
    name: &'a str,
    unit: &'a str,
    better: &'static str,
}

#[derive(Serialize)]
struct SideObject<'a> {
    column: &'a str,
    values: &'a [f64],
    median: Option<EstimatedObject>,
    left_out: &'a [String],
    regimes: Vec<RegimeObject>,
    flags: &'a [String],
}

#[derive(Serialize)]
struct EstimatedObject {
    value: f64,
    low: Option<f64>,
    high: Option<f64>,
    level: f64,
}

#[derive(Serialize)]
struct RegimeObject {
    start_ns: u64,
    end_ns: u64,
    ops_per_s: f64,
    deviation_ops_per_s: f64,
}

#[derive(Serialize)]
struct CellObject<'a> {
    candidate: SideObject<'a>,
    pairing: &'static str,
    /// Rounds, or trials of the smaller side.
    n: u32,
    ratio: Option<EstimatedObject>,
    p: Option<f64>,
    adjusted_p: Option<f64>,
    cliffs_delta: Option<f64>,
    margin: f64,
    /// `faster`, `slower`, `equivalent`, `different_but_small`, `inconclusive`, `cannot_decide`,
    /// `not_comparable`, `no_data`.
    verdict: &'static str,
    /// What the numbers alone would give.
    verdict_by_numbers: &'static str,
    /// The verdict in one line.
    words: String,
    /// Why it is not comparable, or why there are no data.
    reasons: Vec<&'a str>,
    /// Of an inconclusive one: rounds or trials a side that are still needed.
    more_needed: Option<u32>,
    /// Of one that cannot be decided: the smallest p that n could give, what it has to fall below, and
    /// the least n that could decide.
    smallest_p: Option<f64>,
    needed_p: Option<f64>,
    least_n: Option<u32>,
    differs: Vec<DifferenceObject<'a>>,
    members: Vec<MemberObject<'a>>,
    notes: &'a [String],
}

#[derive(Serialize)]
struct DifferenceObject<'a> {
    name: &'a str,
    baseline: &'a str,
    candidate: &'a str,
    axis: bool,
}

#[derive(Serialize)]
struct MemberObject<'a> {
    workload: &'a str,
    ratio: f64,
}

#[derive(Serialize)]
struct ClaimObject<'a> {
    source: &'a str,
    line: u32,
    workload: &'a str,
    unit: &'a str,
    printed_sides: &'a [String],
    printed_delta: &'a str,
    printed_p: Option<f64>,
    printed_n: &'a [u32],
    recomputed_sides: &'a [Option<String>],
    recomputed_p: Option<f64>,
    follows: bool,
    against: &'a [String],
}

pub(crate) fn document(comparison: &Comparison) -> Document<'_> {
    let mut columns = comparison.columns.iter().map(String::as_str);
    Document {
        schema: "iodyno.comparison/1",
        name: &comparison.name,
        question: question(&comparison.question),
        baseline: columns.next(),
        candidates: columns
            .map(|name| CandidateObject {
                name,
                verdicts: counts(summary_counts(comparison, name)),
            })
            .collect(),
        rounds: comparison.rounds,
        paired: comparison.paired,
        primaries: comparison.primaries,
        noise_floor: comparison.floor,
        rows: comparison
            .rows
            .iter()
            .map(|it| row(comparison, it))
            .collect(),
        same: &comparison.same,
        differs: comparison.differs.iter().map(difference).collect(),
        claims: comparison.claims.iter().map(claim).collect(),
        notes: &comparison.notes,
    }
}

fn question(question: &Question) -> QuestionObject<'_> {
    QuestionObject {
        columns: &question.columns,
        rows: &question.rows,
        only: question.only.iter().map(pair).collect(),
        metrics: &question.metrics,
        axis: &question.axis,
        floor: question.floor.iter().map(pair).collect(),
        margin: question.margin,
        alpha: question.alpha,
    }
}

fn pair((dimension, value): &(String, String)) -> PairObject<'_> {
    PairObject { dimension, value }
}

fn counts(counts: Counts) -> CountsObject {
    CountsObject {
        faster: counts.faster,
        slower: counts.slower,
        equivalent: counts.equivalent,
        different_but_small: counts.small,
        undecided: counts.undecided,
        not_comparable: counts.not_comparable,
        no_data: counts.no_data,
    }
}

fn row<'a>(comparison: &'a Comparison, row: &'a ComparedRow) -> RowObject<'a> {
    let names = row.name.iter().map(String::as_str);
    let dimensions = comparison.question.rows.iter().map(String::as_str);
    RowObject {
        dimensions: dimensions.zip(names).collect(),
        metric: MetricObject {
            name: &row.metric.name,
            unit: unit(&row.metric.unit),
            better: better(row.metric.better),
        },
        exploratory: row.exploratory,
        floor_row: row.no_difference,
        noise_floor: row.floor,
        baseline: side(&row.baseline),
        cells: row.cells.iter().map(cell).collect(),
    }
}

fn side(side: &Side) -> SideObject<'_> {
    SideObject {
        column: &side.column,
        values: &side.values,
        median: side.median.as_ref().map(estimated),
        left_out: &side.left_out,
        regimes: side.regimes.iter().map(regime).collect(),
        flags: &side.flags,
    }
}

fn estimated(estimated: &Estimated) -> EstimatedObject {
    EstimatedObject {
        value: estimated.value,
        low: estimated.interval.map(|interval| interval.0),
        high: estimated.interval.map(|interval| interval.1),
        level: estimated.level,
    }
}

fn regime(regime: &Regime) -> RegimeObject {
    RegimeObject {
        start_ns: regime.start_ns,
        end_ns: regime.end_ns,
        ops_per_s: regime.rate,
        deviation_ops_per_s: regime.deviation,
    }
}

fn cell(cell: &Cell) -> CellObject<'_> {
    let reasons = match &cell.verdict {
        Verdict::NotComparable { reasons } => reasons.iter().map(String::as_str).collect(),
        Verdict::NoData { why } => vec![why.as_str()],
        _ => Vec::new(),
    };
    let more_needed = match cell.verdict {
        Verdict::Inconclusive { more } => more,
        _ => None,
    };
    let undecidable = match cell.verdict {
        Verdict::CannotDecide {
            smallest_p,
            needed_p,
            least,
            ..
        } => Some((smallest_p, needed_p, least)),
        _ => None,
    };
    CellObject {
        candidate: side(&cell.side),
        pairing: pairing(cell.pairing),
        n: cell.n,
        ratio: cell.ratio.as_ref().map(estimated),
        p: cell.p,
        adjusted_p: cell.adjusted_p,
        cliffs_delta: cell.cliffs_delta,
        margin: cell.margin,
        verdict: tag(&cell.verdict),
        verdict_by_numbers: tag(&cell.by_numbers),
        words: verdict_words(cell),
        reasons,
        more_needed,
        smallest_p: undecidable.map(|it| it.0),
        needed_p: undecidable.map(|it| it.1),
        least_n: undecidable.map(|it| it.2),
        differs: cell.differs.iter().map(difference).collect(),
        members: cell
            .members
            .iter()
            .map(|member| MemberObject {
                workload: &member.workload,
                ratio: member.ratio,
            })
            .collect(),
        notes: &cell.notes,
    }
}

fn difference(difference: &Difference) -> DifferenceObject<'_> {
    DifferenceObject {
        name: &difference.name,
        baseline: &difference.values.0,
        candidate: &difference.values.1,
        axis: difference.axis,
    }
}

fn claim(check: &ClaimCheck) -> ClaimObject<'_> {
    let claim = &check.claim;
    ClaimObject {
        source: &claim.at.source,
        line: claim.at.line,
        workload: &claim.workload,
        unit: &claim.unit,
        printed_sides: &claim.sides,
        printed_delta: &claim.delta,
        printed_p: claim.p,
        printed_n: &claim.n,
        recomputed_sides: &check.recomputed,
        recomputed_p: check.p,
        follows: check.against.is_empty(),
        against: &check.against,
    }
}
