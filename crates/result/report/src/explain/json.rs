//! An explanation as JSON. The first key is `schema`; keys are only added within its number.

use std::collections::BTreeMap;

use iodyno_model::{
    Cause, Change, CommonReason, Contradiction, Contrast, Equation, Explained, ExplainedFamily,
    Explanation, Term,
};

use super::words::{headline, of_family};
use crate::compare::{EstimatedView, metric_unit, verdict_tag};
use crate::json::{list, object, print};

/// `schema` = `iodyno.explanation/1`. Values are in the unit of their quantity; ratios of quantities are candidate ÷
/// baseline, `speed` is a ratio of speed; shares and levels are fractions of one. Ends with a newline.
pub fn json(explanation: &Explanation) -> String {
    print(&Document(explanation))
}

object!(Document<'a>(it in &'a Explanation) {
    schema: "iodyno.explanation/1",
    name: it.name,
    comparisons: list(&it.comparisons, ComparisonView),
    // Families of workloads, whose members are among the comparisons.
    families: list(&it.families, FamilyView),
    // Statements of imported write-ups that their own figures contradict.
    contradictions: list(&it.contradictions, ContradictionView),
});

object!(FamilyView<'a>(it in &'a ExplainedFamily) {
    row: it.row,
    baseline: it.columns.0,
    candidate: it.columns.1,
    metric: it.metric.name,
    speed: it.ratio.as_ref().map(EstimatedView),
    verdict: verdict_tag(&it.verdict),
    headline: of_family(it),
    // Rows of the members.
    members: it.members,
    common [opt]: &it.common.as_ref().map(CommonView),
});

object!(CommonView<'a>(it in &'a CommonReason) {
    words: it.words,
    // Rows of the members whose first reason it is.
    rows: it.rows,
    // Geometric mean over these members of the ratio of speed that it alone would give.
    speed: it.factor,
    candidate_causes: list(&it.causes, CauseView),
});

object!(ContradictionView<'a>(it in &'a Contradiction) {
    source: it.at.source,
    line: it.at.line,
    statement: it.statement,
    against_line: it.against.line,
    shown: it.shown,
});

object!(ComparisonView<'a>(it in &'a Explained) {
    row: it.row,
    baseline: it.columns.0,
    candidate: it.columns.1,
    metric: it.metric.name,
    unit: metric_unit(&it.metric.unit),
    speed: it.ratio.as_ref().map(EstimatedView),
    verdict: verdict_tag(&it.verdict),
    n: it.n,
    // One sentence.
    headline: headline(it),
    // Share of the ratio's logarithm; null without a difference or an explanation.
    explained: it.explained,
    unexplained: it.explained.map(|explained| 1.0 - explained),
    // Parts, which Holm's correction covers; other quantities are corrected by Benjamini and Hochberg's.
    tested: it.tested,
    rounds_needed [opt]: &it.rounds_needed,
    // The logarithms of `speed` add up to that of the ratio.
    parts: list(&it.terms, TermView),
    also_differs: list(&it.series, ContrastView),
    equations: list(&it.identities, EquationView),
    other_facts: list(&it.other_facts, CauseView),
    not_known: it.lacking,
    without [opt]: &it.without,
});

object!(TermView<'a>(it in &'a Term) {
    quantity: ContrastView(&it.contrast),
    speed: EstimatedView(&it.factor),
    share: it.share,
    explains: it.explains(),
    // It says where the time went, not why.
    open: it.open,
    candidate_causes: list(&it.causes, CauseView),
});

object!(ContrastView<'a>(it in &'a Contrast) {
    name: it.name,
    words: it.words,
    unit: it.unit,
    baseline: it.medians.0,
    candidate: it.medians.1,
    ratio [opt]: &match &it.change {
        Some(Change::Ratio(ratio)) => Some(EstimatedView(ratio)),
        _ => None,
    },
    difference [opt]: &match &it.change {
        Some(Change::Difference(difference)) => Some(EstimatedView(difference)),
        _ => None,
    },
    p: it.p,
    adjusted_p: it.adjusted_p,
    differs: it.differs,
    rounds_alike: [it.agreeing.0, it.agreeing.1],
    correlation_with_metric: [it.within.0, it.within.1],
});

object!(EquationView<'a>(it in &'a Equation) {
    equation: it.words,
    unit: it.unit,
    baseline: it.values[0],
    candidate: it.values[1],
    // right ÷ left − 1.
    residual: [it.residual.0, it.residual.1],
});

object!(CauseView<'a>(it in &'a Cause) {
    fact [opt]: &match it {
        Cause::Fact { name, values, axis } => Some(BTreeMap::from([
            ("name", name.clone()),
            ("baseline", values.0.clone()),
            ("candidate", values.1.clone()),
            ("under_test", axis.to_string()),
        ])),
        Cause::Series(_) => None,
    },
    series [opt]: &match it {
        Cause::Series(contrast) => Some(ContrastView(contrast)),
        Cause::Fact { .. } => None,
    },
});
