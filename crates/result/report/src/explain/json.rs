//! An explanation as JSON. The first key is `schema`; keys are only added within its number.

use iodyno_model::{
    Cause, Difference, Explained, ExplainedFamily, Explanation, Quantity, Reasons, Stack, StackOf,
    TimePart,
};

use super::words::{headline, of_family};
use crate::compare::{EstimatedView, metric_unit, verdict_tag};
use crate::json::{list, object, print};

/// `schema` = `iodyno.explanation/2`. Values are in the unit of their quantity, differences are candidate − baseline,
/// `speed` is a ratio of speed. Ends with a newline.
pub fn json(explanation: &Explanation) -> String {
    print(&Document(explanation))
}

object!(Document<'a>(it in &'a Explanation) {
    schema: "iodyno.explanation/2",
    name: it.name,
    comparisons: list(&it.comparisons, ComparisonView),
    // Families of workloads, whose members are among the comparisons.
    families: list(&it.families, FamilyView),
});

object!(FamilyView<'a>(it in &'a ExplainedFamily) {
    row: it.of.row,
    baseline: it.of.columns.0,
    candidate: it.of.columns.1,
    metric: it.of.metric.name,
    speed: it.of.ratio.as_ref().map(EstimatedView),
    verdict: verdict_tag(&it.of.verdict),
    headline: of_family(it),
    // Rows of the members.
    members: it.members,
    // Geometric means over the members, with the mean shares of the parts.
    stack: it.stack.as_ref().map(StackView),
    most: it.most.map(|(part, _)| part.name()),
    most_in_members: it.most.map(|(_, count)| count),
    candidate_causes: list(&it.causes, CauseView),
});

object!(ComparisonView<'a>(it in &'a Explained) {
    row: it.of.row,
    baseline: it.of.columns.0,
    candidate: it.of.columns.1,
    metric: it.of.metric.name,
    unit: metric_unit(&it.of.metric.unit),
    speed: it.of.ratio.as_ref().map(EstimatedView),
    verdict: verdict_tag(&it.of.verdict),
    n: it.n,
    // Little's law, the parts of the time, and candidate causes, in words.
    headline: headline(it),
    // Null: not explained.
    reasons: it.reasons.as_ref().ok().map(ReasonsView),
    not_known: it.lacking,
    without [opt]: &it.reasons.as_ref().err(),
});

object!(ReasonsView<'a>(it in &'a Reasons) {
    // rate = ops in flight ÷ time of an op.
    rate: QuantityView(&it.rate),
    ops_in_flight: QuantityView(&it.in_flight),
    time_of_op: QuantityView(&it.time),
    rate_given: it.rate_given,
    stacks: list(&it.stacks, StackView),
    // Percent of the workers' time.
    worker: list(&it.worker, PartView),
    worker_is_limit: [it.worker_limited.0, it.worker_limited.1],
    work_per_op: list(&it.work, QuantityView),
    // The parts that make most of the difference.
    most: it.most.iter().map(|(part, _)| part.name()).collect::<Vec<_>>(),
    most_in_step [opt]: it.step.map(|(step, _)| step.name()),
    parts_cannot_be_told: it.noise,
    candidate_causes: list(&it.causes, CauseView),
});

object!(StackView<'a>(it in &'a Stack) {
    of: match &it.of {
        StackOf::Op => "op",
        StackOf::Job(_) => "op of a job",
        StackOf::Sync(_) => "sync",
        StackOf::Cycle => "cycle",
        StackOf::Background => "background requests per op",
    },
    job [opt]: &match &it.of {
        StackOf::Job(name) => Some(name),
        _ => None,
    },
    // Both sides.
    syncs_per_op [opt]: &match it.of {
        StackOf::Sync((one, other)) => Some([one, other]),
        _ => None,
    },
    // They add up to the whole.
    parts: list(&it.parts, PartView),
    whole: QuantityView(&it.whole),
});

object!(PartView<'a>(it in &'a (TimePart, Quantity)) {
    part: it.1.name,
    quantity: QuantityView(&it.1),
});

object!(QuantityView<'a>(it in &'a Quantity) {
    name: it.name,
    words: it.words,
    unit: it.unit,
    baseline: it.sides.0,
    candidate: it.sides.1,
    difference: EstimatedView(&it.difference),
    certainty: it.certainty.name(),
    // Of a part, on both sides: how much of it may belong to other parts or processes.
    uncertain [opt]: &Some(it.uncertain).filter(|it| *it != (0.0, 0.0)),
});

object!(CauseView<'a>(it in &'a Cause) {
    fact [opt]: &match it {
        Cause::Fact(fact) => Some(FactView(fact)),
        Cause::Series(_) => None,
    },
    series [opt]: &match it {
        Cause::Series(quantity) => Some(QuantityView(quantity)),
        Cause::Fact(_) => None,
    },
});

object!(FactView<'a>(it in &'a Difference) {
    name: it.name,
    baseline: it.values.0,
    candidate: it.values.1,
    under_test: it.axis,
});
