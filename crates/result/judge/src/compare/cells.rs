//! Builds rows and cells from the results of the other modules.

use iodyno_model::{
    Better, CandidateResult, ComparedRow, EqualRate, Metric, Observation, Pairing, Question,
    Regime, Side, Verdict,
};
use iodyno_stats::{Sample as Sorted, cliffs_delta};
use iodyno_units::{Rate, counted, list};

use super::comparability::{self, Sides, objections};
use super::facts::{Facts, compare_facts};
use super::floor;
use super::grouping::Kinship;
use super::levels::Level;
use super::metrics::{Role, RowMetric};
use super::reduce::sample;
use super::sample::{Sample, Two};
use super::sides::{Gathered, by_reason, gather};
use super::verdict::{Numbers, decide, may_be_small, within_margin};
use super::{statistics, words};
use crate::repeats::median;

/// A row by one metric with the values that count.
pub(super) struct Prepared<'r, 't, 'a> {
    asked: &'r RowMetric<'t, 'a>,
    /// By workload, then by column.
    gathered: Vec<Vec<Gathered<'a>>>,
}

/// The name of a row, and the trials of its baseline and of a candidate.
pub(super) type TwoSides<'p, 'a> = (&'p Vec<String>, &'p Gathered<'a>, &'p Gathered<'a>);

/// A cell before the correction for multiple comparisons.
pub(super) struct Draft {
    /// Purpose of its row.
    pub(super) role: Role,
    /// Its row.
    row: usize,
    /// Its column; the baseline is 0.
    column: usize,
    /// Its values, or why there is nothing to compare.
    sample: Result<Sample, String>,
    /// p of no difference.
    pub(super) p: Option<f64>,
}

/// A row with the compared facts of its cells.
pub(super) struct Built {
    /// The row.
    pub(super) row: ComparedRow,
    /// Purpose.
    pub(super) role: Role,
    /// Compared facts of each cell.
    pub(super) facts: Vec<Facts>,
}

/// Takes the values that count.
pub(super) fn prepare<'r, 't, 'a>(asked: &'r [RowMetric<'t, 'a>]) -> Vec<Prepared<'r, 't, 'a>> {
    let gather_row = |asked: &'r RowMetric<'t, 'a>| Prepared {
        asked,
        gathered: asked
            .workloads
            .iter()
            .zip(&asked.own)
            .map(|(workload, own)| {
                let columns = workload.columns.iter();
                columns
                    .map(|trials| {
                        gather(trials.iter().copied(), own).counted_as(own, &asked.metric)
                    })
                    .collect()
            })
            .collect(),
    };
    asked.iter().map(gather_row).collect()
}

impl<'a> Prepared<'_, '_, 'a> {
    /// The paired or pooled sample of a cell's two sides.
    fn sample(&self, column: usize, columns: &[String]) -> Result<Sample, String> {
        let workloads = self.asked.workloads.iter();
        for workload in workloads.clone() {
            refuse_pooling(&workload.columns[0], &columns[0])?;
            refuse_pooling(&workload.columns[column], &columns[column])?;
        }
        let two: Vec<Two> = workloads
            .zip(&self.gathered)
            .map(|(workload, sides)| Two {
                name: &workload.name,
                baseline: &sides[0],
                candidate: &sides[column],
            })
            .collect();
        sample(&two, &self.asked.metric, (&columns[0], &columns[column]))
    }

    /// What to add to the reason why a cell has no data: a metric that both sides have, where one has not the row's.
    fn other_metric(&self, column: usize) -> String {
        let side = |column: usize| {
            let workloads = self.asked.workloads.iter();
            workloads.flat_map(move |workload| workload.columns[column].iter().copied())
        };
        let both = || side(0).chain(side(column)).filter(|o| o.unusable.is_none());
        let all_have = |name: &str| both().all(|trial| trial.figure(name).is_some());
        let one_has_none = side(0).next().is_none() || side(column).next().is_none();
        if one_has_none || all_have(&self.asked.metric.name) {
            return String::new();
        }
        let common = [Metric::IOPS, Metric::BANDWIDTH];
        let common = common.into_iter().find(|name| all_have(name));
        common.map_or(String::new(), |name| {
            format!("; both sides have {name}: add `--metric {name}`")
        })
    }

    /// The name of the row, and the trials of the baseline and of a column that count; `None` for a family.
    pub(super) fn two(&self, column: usize) -> Option<TwoSides<'_, 'a>> {
        match self.gathered.as_slice() {
            [sides] => Some((&self.asked.row.name, &sides[0], &sides[column])),
            _ => None,
        }
    }

    /// Whether a column has no trial in this row, although another candidate has one. A plan may leave out columns in
    /// some rows.
    pub(super) fn is_nowhere(&self, column: usize) -> bool {
        let columns = &self.asked.row.columns;
        let mut candidates = columns.iter().skip(1);
        columns[column].is_empty() && candidates.any(|trials| !trials.is_empty())
    }

    /// The trials of a column that count.
    fn trials(&self, column: usize) -> Vec<&'a Observation> {
        let counted = self
            .gathered
            .iter()
            .flat_map(|sides| &sides[column].counted);
        counted.map(|counted| counted.observation).collect()
    }

    fn side(&self, column: usize, columns: &[String], alpha: f64) -> Side {
        let family = self.gathered.len() > 1;
        let values = match self.gathered.as_slice() {
            [only] => only[column].values(),
            _ => Vec::new(),
        };
        let left_out = self.asked.workloads.iter().zip(&self.gathered);
        let left_out = left_out.flat_map(|(workload, sides)| {
            let reasons = sides[column].left_out.iter();
            reasons.map(move |reason| match family {
                true => format!("{}: {reason}", workload.name),
                false => reason.clone(),
            })
        });
        let trials = self.trials(column);
        Side {
            column: columns[column].clone(),
            median: Sorted::new(&values)
                .ok()
                .and_then(|it| median(&it, 1.0 - alpha)),
            left_out: left_out.collect(),
            regimes: regimes(&trials),
            flags: comparability::flags(&trials),
            values,
        }
    }
}

/// Trials of several workloads or configurations that share a round are not repetitions of one another; one of them
/// must not represent all.
fn refuse_pooling(trials: &[&Observation], column: &str) -> Result<(), String> {
    for dimension in [Observation::WORKLOAD, Observation::CONFIGURATION] {
        let with_rounds = trials.iter().copied().filter(|o| o.round.is_some());
        let found = super::grouping::values(with_rounds, dimension);
        if found.len() > 1 {
            return Err(format!(
                "{column} has several {dimension}s in this row that the other side has not: {}; \
                 add {dimension} to the rows, or choose one",
                list(&found)
            ));
        }
    }
    Ok(())
}

fn regimes(trials: &[&Observation]) -> Vec<Regime> {
    let mut several = trials.iter().filter(|o| o.behaviour.regimes.len() > 1);
    several
        .next()
        .map_or(Vec::new(), |trial| trial.behaviour.regimes.clone())
}

/// A draft for each cell, row by row.
pub(super) fn drafts(prepared: &[Prepared], columns: &[String]) -> Vec<Draft> {
    let of_row = |(row, prepared): (usize, &Prepared)| {
        let each = (1..columns.len()).map(|column| {
            let sample = prepared.sample(column, columns);
            Draft {
                role: prepared.asked.role,
                row,
                column,
                p: sample.as_ref().ok().and_then(statistics::p),
                sample,
            }
        });
        each.collect::<Vec<Draft>>()
    };
    prepared.iter().enumerate().flat_map(of_row).collect()
}

/// The noise floor of each row: the larger of the one from its repeated baseline and the one from the rows in which
/// no difference is expected. For those rows themselves it is their own.
pub(super) fn floors(
    prepared: &[Prepared],
    drafts: &[Draft],
    columns: &[String],
    question: &Question,
) -> Vec<Option<f64>> {
    let level = 1.0 - question.alpha;
    let larger = |one: Option<f64>, other: Option<f64>| match (one, other) {
        (Some(one), Some(other)) => Some(one.max(other)),
        (one, other) => one.or(other),
    };
    let floor_cells = drafts.iter().filter(|draft| draft.role == Role::Floor);
    let from_rows = floor_cells
        .filter_map(|draft| floor::farthest(draft.sample.as_ref().ok()?, level))
        .reduce(f64::max);
    prepared
        .iter()
        .map(|prepared| {
            let asked = prepared.asked;
            let again = floor::from_again(asked, &columns[0], level);
            larger(again, from_rows)
        })
        .collect()
}

/// All rows with their verdicts, without the cells of [`Prepared::is_nowhere`].
pub(super) fn rows(
    prepared: &[Prepared],
    drafts: &[Draft],
    levels: &[Level],
    floors: &[Option<f64>],
    (columns, question): (&[String], &Question),
) -> Vec<Built> {
    let mut built: Vec<Built> = prepared
        .iter()
        .zip(floors)
        .map(|(prepared, floor)| Built {
            row: ComparedRow {
                name: prepared.asked.row.name.clone(),
                family: prepared.asked.row.kinship == Kinship::Family,
                metric: prepared.asked.metric.clone(),
                exploratory: prepared.asked.role != Role::Primary,
                baseline: prepared.side(0, columns, question.alpha),
                cells: Vec::new(),
                floor: *floor,
                no_difference: prepared.asked.role == Role::Floor,
            },
            role: prepared.asked.role,
            facts: Vec::new(),
        })
        .collect();
    for (draft, level) in drafts.iter().zip(levels) {
        let prepared = &prepared[draft.row];
        if prepared.is_nowhere(draft.column) {
            continue;
        }
        let built = &mut built[draft.row];
        let trials = (prepared.trials(0), prepared.trials(draft.column));
        let names = (columns[0].as_str(), columns[draft.column].as_str());
        let family = prepared.gathered.len() > 1;
        let facts = compare_facts(&trials.0, &trials.1, names, question, family);
        // The rows that provide the noise floor are not judged by it.
        let floor = floors[draft.row].filter(|_| draft.role != Role::Floor);
        let side = prepared.side(draft.column, columns, question.alpha);
        let mut cell = match &draft.sample {
            Ok(sample) => decided(sample, side, level, floor.unwrap_or(0.0), question),
            Err(why) => {
                let why = format!("{why}{}", prepared.other_metric(draft.column));
                without_data(side, level, question.margin, &why)
            }
        };
        let sides = Sides {
            baseline: &trials.0,
            candidate: &trials.1,
            columns: names,
        };
        judge(&mut cell, sides, &facts, question);
        cell.notes.extend(unpaired_too(&built.row.baseline, &cell));
        if let Some((note, rate)) = closed_loops(sides, &prepared.asked.metric, question) {
            cell.notes.push(note);
            cell.equal_rate = rate;
        }
        cell.notes.extend(prepared.asked.notes.iter().cloned());
        let better = prepared.asked.metric.better;
        cell.remarks
            .extend(of_medians(&built.row.baseline, &cell, better));
        for side in [&built.row.baseline, &cell.side] {
            let told = |reason: &String| match &cell.verdict {
                Verdict::NoData { why } => why.contains(reason.as_str()),
                _ => false,
            };
            if !by_reason(&side.left_out).iter().all(told) {
                cell.notes.extend(left_out(side));
            }
        }
        if draft.role == Role::Floor {
            let note = "no difference is expected here: this row gives the noise floor";
            cell.notes.push(note.to_owned());
        }
        cell.p = draft.p;
        built.row.cells.push(cell);
        built.facts.push(facts);
    }
    built
}

/// Where the ratio is that of pairs, and a side also has trials without a partner, which its median includes.
fn unpaired_too(baseline: &Side, cell: &CandidateResult) -> Option<String> {
    let (first, second) = (baseline.values.len(), cell.side.values.len());
    let more = first.max(second) > cell.n as usize;
    (cell.pairing == Pairing::Paired && cell.n > 0 && more).then(|| {
        format!(
            "the ratio is that of the {} that both sides have; the medians are those of {} of {} and {} of {}",
            counted(cell.n.into(), "round"),
            counted(first as u64, "trial"),
            baseline.column,
            counted(second as u64, "trial"),
            cell.side.column
        )
    })
}

fn without_data(side: Side, level: &Level, margin: f64, why: &str) -> CandidateResult {
    let verdict = Verdict::NoData {
        why: why.to_owned(),
    };
    CandidateResult {
        side,
        ratio: None,
        p: None,
        adjusted_p: level.adjusted_p,
        cliffs_delta: None,
        pairing: Pairing::Unpaired,
        n: 0,
        margin,
        verdict: verdict.clone(),
        by_numbers: verdict,
        differs: Vec::new(),
        members: Vec::new(),
        notes: Vec::new(),
        remarks: Vec::new(),
        equal_rate: None,
    }
}

/// The numbers of a sample, and the threshold of the next look for an unadjusted p.
pub(super) fn numbers(
    sample: &Sample,
    level: &Level,
    floor: f64,
    question: &Question,
) -> (Numbers, f64) {
    let ratio = statistics::ratio(sample, level.level);
    let n = u32::try_from(sample.n()).unwrap_or(u32::MAX);
    let smallest_p = statistics::smallest_p(sample);
    // Further rounds are judged at the next look, which has less of α if this one could decide.
    let spends = question.looks.is_some() && smallest_p <= question.alpha_at_look();
    let next = match spends && sample.pairing == Pairing::Paired {
        true => level.share * Question::KEPT,
        false => level.share,
    };
    let numbers = Numbers {
        n,
        ratio,
        direction: match ratio {
            Some(_) => 0.0,
            None => statistics::direction(sample),
        },
        adjusted_p: level.adjusted_p.unwrap_or(1.0),
        alpha: question.alpha_at_look(),
        share: level.share,
        equivalence_p: statistics::equivalence_p(sample, question.margin),
        smallest_p,
        least: match smallest_p > level.share {
            true => statistics::least(sample.pairing, next),
            false => n,
        },
        margin: question.margin,
        floor,
    };
    (numbers, next)
}

/// The cell's verdict from its numbers alone.
fn decided(
    sample: &Sample,
    side: Side,
    level: &Level,
    floor: f64,
    question: &Question,
) -> CandidateResult {
    let margin = question.margin;
    let (numbers, next) = numbers(sample, level, floor, question);
    let Numbers { n, ratio, .. } = numbers;
    let by_numbers = decide(&numbers, || statistics::more(sample, margin, 1.0 - next));
    let mut notes = sample.notes.clone();
    let verdict = match by_numbers {
        _ if sample.reasons.is_empty() => by_numbers.clone(),
        // More trials within the same runs would not help either.
        Verdict::CannotDecide { .. } => {
            notes.extend(sample.reasons.iter().cloned());
            by_numbers.clone()
        }
        _ => Verdict::Inconclusive {
            more: None,
            reasons: sample.reasons.clone(),
        },
    };
    let (baseline, candidate) = (sample.baseline.len(), sample.candidate.len());
    if baseline != candidate {
        let unit = match sample.pairing {
            Pairing::Runs => "runs",
            Pairing::Paired | Pairing::Unpaired => "trials",
        };
        notes.push(format!(
            "{baseline} {unit} of the baseline, {candidate} of {}",
            side.column
        ));
    }
    notes.extend(left_open(sample, &numbers, &verdict));
    let remarks = equivalence(sample, &numbers, &verdict)
        .into_iter()
        .collect();
    CandidateResult {
        side,
        ratio,
        p: None,
        adjusted_p: level.adjusted_p,
        cliffs_delta: cliffs_delta(&sample.baseline, &sample.candidate).ok(),
        pairing: sample.pairing,
        n,
        margin,
        verdict,
        by_numbers,
        differs: Vec::new(),
        members: sample.members.clone(),
        notes,
        remarks,
        equal_rate: None,
    }
}

/// What the verdict leaves open.
fn left_open(sample: &Sample, numbers: &Numbers, verdict: &Verdict) -> Vec<String> {
    let mut notes = Vec::new();
    if !sample.positive() {
        notes.push("a value is 0 or less: there is no ratio, ranks alone decide".to_owned());
    } else if numbers.ratio.is_none() {
        notes.push("the ratio is beyond what can be computed: ranks alone decide".to_owned());
    }
    if matches!(verdict, Verdict::Faster | Verdict::Slower) && may_be_small(numbers) {
        let (what, share) = match numbers.floor > numbers.margin {
            true => ("noise floor", numbers.floor),
            false => ("margin", numbers.margin),
        };
        notes.push(format!(
            "the difference is significant, but may lie within the {what} of ±{}",
            iodyno_units::percent(share)
        ));
    }
    notes
}

/// The one-sided interval of an equivalence whose printed one exceeds the margin.
fn equivalence(sample: &Sample, numbers: &Numbers, verdict: &Verdict) -> Option<String> {
    let printed = numbers.ratio.and_then(|ratio| ratio.interval);
    if *verdict != Verdict::Equivalent || within_margin(printed, numbers.margin) {
        return None;
    }
    let level = 1.0 - 2.0 * numbers.share;
    let (low, high) = statistics::ratio(sample, level)?.interval?;
    Some(format!(
        "equivalence is tested one-sided: [{low:.3}, {high:.3}] at {} lies within ±{}",
        iodyno_units::percent(level),
        iodyno_units::percent(numbers.margin)
    ))
}

/// The share by which the quotient of two printed medians may differ from the ratio beside them: about four times what
/// rounding a ratio near 1 to two decimals explains.
const VISIBLE: f64 = 0.02;

/// A remark if the two medians give another ratio than the printed one, which is not computed from them.
fn of_medians(baseline: &Side, cell: &CandidateResult, better: Better) -> Option<String> {
    let ratio = cell.ratio?.value;
    let medians = (baseline.median?.value, cell.side.median?.value);
    let quotient = match better {
        Better::Higher => medians.1 / medians.0,
        Better::Lower => medians.0 / medians.1,
    };
    let of = match cell.pairing {
        Pairing::Paired => "the median of the ratios within the rounds",
        Pairing::Unpaired => "the median of the ratios of all pairs of trials",
        Pairing::Runs => "that of the runs' geometric means",
    };
    ((quotient / ratio).ln().abs() > VISIBLE.ln_1p()).then(|| {
        let numbers = [quotient, ratio].map(iodyno_units::significant);
        format!(
            "the ratio of the medians is {}×; {}× is {of}",
            numbers[0], numbers[1]
        )
    })
}

/// Applies the objections of `comparability` to the verdict.
fn judge(cell: &mut CandidateResult, sides: Sides, facts: &Facts, question: &Question) {
    let differing = facts.differing.iter();
    cell.differs = differing.filter(|d| !d.axis).cloned().collect();
    if sides.baseline.is_empty() || sides.candidate.is_empty() {
        return;
    }
    let objections = objections(sides, facts, question, &cell.by_numbers);
    cell.notes.extend(facts.notes.iter().cloned());
    cell.notes.extend(objections.notes);
    cell.remarks.extend(objections.remarks);
    if !objections.reasons.is_empty() {
        cell.verdict = Verdict::NotComparable {
            reasons: objections.reasons,
        };
    }
}

/// Tail latencies of closed loops at different throughput: the faster side operates at another point of its load
/// curve (Schroeder, Wierman, Harchol-Balter: Open versus closed, NSDI 2006).
fn closed_loops(
    sides: Sides,
    metric: &Metric,
    question: &Question,
) -> Option<(String, Option<EqualRate>)> {
    /// Share of the slower side's rate that both sides can sustain.
    const KEPT: f64 = 0.8;
    let (direction, figure) = metric.name.split_once('.')?;
    if !(figure.starts_with('p') || figure == "max") {
        return None;
    }
    let all = || sides.baseline.iter().chain(sides.candidate);
    let paced = |o: &&&Observation| {
        let mut facts = o.facts.iter();
        facts.any(|fact| match fact.name.as_str() {
            "rate" => fact.value != "none",
            "rate_iops" | "thinktime" => true,
            _ => false,
        })
    };
    if all().any(|o| paced(&o)) {
        return None;
    }
    let rate = |side: &[&Observation], name: &str| {
        let values = side.iter().filter_map(|o| o.figure(name)).map(|f| f.value);
        let values: Vec<f64> = values.collect();
        Sorted::new(&values).ok().map(|sorted| sorted.median())
    };
    let rates = |name: &str| Some((rate(sides.baseline, name)?, rate(sides.candidate, name)?));
    let (baseline, candidate) = rates(Metric::IOPS)?;
    let within = (baseline / candidate).ln().abs() <= question.margin.ln_1p();
    if within || baseline <= 0.0 || candidate <= 0.0 {
        return None;
    }
    let jobs = all().find_map(|o| o.dimension("jobs").parse::<f64>().ok());
    let own = rates(&format!("{direction}.{}", Metric::IOPS));
    let (one, other) = own.unwrap_or((baseline, candidate));
    let rate = EqualRate {
        per_clone: two_digits(KEPT * one.min(other) / jobs.unwrap_or(1.0).max(1.0)),
        total: two_digits(KEPT * baseline.min(candidate)),
    };
    let rate = (rate.per_clone >= 1.0 && rate.total >= 1.0).then_some(rate);
    let remedy = match rate.filter(|_| own.is_some()) {
        Some(rate) => format!(
            "to compare them at an equal rate, add rate_iops={} to the jobs and run both again",
            rate.per_clone
        ),
        None => "compare them at an equal rate".to_owned(),
    };
    let note = format!(
        "closed loops at different throughput ({}/s against {}/s): {} is not like for like; {remedy}",
        Rate(baseline),
        Rate(candidate),
        metric.name
    );
    Some((note, rate))
}

/// Rounded down to two significant digits.
fn two_digits(value: f64) -> f64 {
    let unit = 10f64.powf(value.log10().floor() - 1.0).max(1.0);
    (value / unit).floor() * unit
}

/// `3 trials of zfs left out: rounds 3, 4: failed: EIO; round 7: interrupted`.
fn left_out(side: &Side) -> Option<String> {
    const MOST: usize = 3;
    let count = side.left_out.len();
    if count == 0 {
        return None;
    }
    let mut reasons = by_reason(&side.left_out);
    let rest = match reasons.len() > MOST {
        true => "; …",
        false => "",
    };
    reasons.truncate(MOST);
    Some(format!(
        "{} of {} left out: {}{rest}",
        words::trials(count),
        side.column,
        reasons.join("; ")
    ))
}
