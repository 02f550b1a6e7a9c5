//! Objections to a verdict: explanations of the result other than the attribute under test.
//!
//! | what | objects to | otherwise |
//! |---|---|---|
//! | a fact differs (end of the trials, host, program, workload, target), not the axis | every verdict | – |
//! | a side pools trials whose facts differ | every verdict | trials of rounds: noted |
//! | timed trials not steady on one side | every verdict | both: noted; flagged |
//! | client saturated on both sides | every verdict, unless the client is what is compared | flagged |
//! | client saturated on one side | no difference found | the faster one: "at least"; flagged |
//! | device capped on both sides | every verdict | flagged |
//! | device capped on one side | no difference found | the faster one: "at least"; flagged |
//! | a cache served one side | every verdict | both: noted, flagged |
//! | data compressible, or never written, on one side | a difference | flagged |
//! | another process's I/O on one side's devices | every verdict, but a difference with that side ahead | ahead: "at least"; both: noted; flagged |
//! | memory short, writers throttled, a full queue, a saturated server or interrupt CPU, a CPU quota or contention, on one side | nothing | noted, flagged |
//! | … on both sides | nothing | flagged |
//! | fewer seconds than a course needs, or no series | nothing | noted where trials are timed |
//!
//! A side has a condition if most of its trials have it. "On one side" means that the counts of the two sides
//! differ significantly by Fisher's exact test at 5 %; otherwise both sides have the condition if most trials of
//! the two together have it. Texts state both counts.
//!
//! "Every verdict" means every verdict about the storage. CANNOT DECIDE and NO DATA remain, because they already
//! report what is missing. INCONCLUSIVE is replaced too, because more rounds would not help. A difference is FASTER,
//! SLOWER or DIFFERENT BUT SMALL; no difference is EQUIVALENT or INCONCLUSIVE.
//!
//! Reasons: a limit of the client or the device on both sides makes their results similar, and any remaining difference
//! comes from the limit. On the faster side alone it only reduces the difference. On the slower side alone, the other
//! side shows that the work can be faster, so the slowness belongs to the configuration. A fixed amount of work need
//! not be steady: it is compared by its completion. I/O of another process takes time from both sides and belongs to no
//! configuration: it can be the reason why a side is slower or equal. Short memory, throttled writers, full queues and
//! saturated servers are mostly caused by the configuration and are part of what is compared: they do not change the
//! verdict, and are reported as possible causes only where they are on the slower side. Unknown facts never object.
//! Trials whose figures do not measure the storage are left out before this step.

use std::collections::BTreeSet;

use iodyno_model::printable::shell_word;
use iodyno_model::{
    Course, Difference, FactClass, FindingKind, Flag, Kind, Observation, Question, SideFlag,
    Verdict, Weight,
};

use super::facts::{Facts, differ_in_counts};
use super::words;
use iodyno_model::ordered::entry;
use iodyno_units::counted;

/// The two sides of a cell: the trials that count.
#[derive(Clone, Copy)]
pub(super) struct Sides<'a> {
    /// The baseline's.
    pub(super) baseline: &'a [&'a Observation],
    /// The candidate's.
    pub(super) candidate: &'a [&'a Observation],
    /// The names of the two sides.
    pub(super) columns: (&'a str, &'a str),
}

/// Objections and notes of one cell.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Objections {
    /// Why the sides are not comparable; empty if they are.
    pub(super) reasons: Vec<String>,
    /// Notes to print with the verdict.
    pub(super) notes: Vec<String>,
    /// Remarks that do not affect the verdict.
    pub(super) remarks: Vec<String>,
}

impl Objections {
    /// Adds a reason if it affects the verdict, otherwise a remark.
    fn object(&mut self, bears: bool, reason: String) {
        match bears {
            true => self.reasons.push(reason),
            false => self.remarks.push(reason),
        }
    }
}

/// The class of a verdict by numbers, as far as objections depend on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Claims {
    /// FASTER: the candidate is ahead.
    CandidateAhead,
    /// SLOWER.
    BaselineAhead,
    /// A difference that does not matter.
    SmallDifference,
    /// EQUIVALENT or INCONCLUSIVE.
    NoDifference,
    /// No statement about the storage.
    Nothing,
}

impl Claims {
    fn of(verdict: &Verdict) -> Claims {
        match verdict {
            Verdict::Faster => Claims::CandidateAhead,
            Verdict::Slower => Claims::BaselineAhead,
            Verdict::DifferentButSmall => Claims::SmallDifference,
            Verdict::Equivalent | Verdict::Inconclusive { .. } => Claims::NoDifference,
            Verdict::CannotDecide { .. }
            | Verdict::NotComparable { .. }
            | Verdict::NoData { .. } => Claims::Nothing,
        }
    }

    fn difference(self) -> bool {
        matches!(
            self,
            Claims::CandidateAhead | Claims::BaselineAhead | Claims::SmallDifference
        )
    }
}

/// The objections to the verdict of the numbers, by the table above.
pub(super) fn objections(
    sides: Sides,
    facts: &Facts,
    question: &Question,
    by_numbers: &Verdict,
) -> Objections {
    let claims = Claims::of(by_numbers);
    let mut found = Objections::default();
    let beside: Vec<&Difference> = facts.differing.iter().filter(|d| !d.axis).collect();
    // Facts that do not object are already listed among the differing facts.
    if !beside.is_empty() && claims != Claims::Nothing {
        found.reasons.push(differing_words(sides, &beside));
    }
    for mixed in &facts.pooled {
        found.object(claims != Claims::Nothing, mixed.clone());
    }
    if let Some(reason) = kinds_differ(sides, &beside) {
        found.object(claims != Claims::Nothing, reason);
    }
    unsteady(sides, claims, &mut found);
    for (side, column) in [
        (sides.baseline, sides.columns.0),
        (sides.candidate, sides.columns.1),
    ] {
        found.notes.extend(regimes_of_finite_work(side, column));
    }
    found.notes.extend(rounds_in_parts(sides));
    found.remarks.extend(course_unknown(sides));
    let client_compared = facts
        .differing
        .iter()
        .any(|d| d.axis && matches!(d.class, FactClass::Workload | FactClass::Program))
        || question.columns == Observation::WORKLOAD;
    let mut limits = vec![(FindingKind::DeviceCapped, "capped by the device")];
    if !client_compared {
        limits.insert(0, (FindingKind::ClientSaturated, "client saturated"));
    }
    for (kind, words) in limits {
        limited(sides, claims, kind, words, &mut found);
    }
    one_sided(sides, claims, &mut found);
    disturbed(sides, claims, &mut found);
    not_preconditioned(sides, claims, &mut found);
    reasons_of_its_own(sides, claims, &mut found);
    found
}

/// `differing mount options: noatime against relatime; bs: 4k against 64k (if that is what is compared: iodyno
/// compare 3 5 --axis "mount options" --axis bs)`.
fn differing_words(sides: Sides, beside: &[&Difference]) -> String {
    let values: Vec<String> = beside
        .iter()
        .map(|it| format!("{}: {} against {}", it.name, it.values.0, it.values.1))
        .collect();
    let axes: Vec<String> = beside
        .iter()
        .map(|it| format!("--axis {}", shell_word(&it.name)))
        .collect();
    format!(
        "differing {} (if that is what is compared: iodyno compare {} {})",
        values.join("; "),
        runs(sides),
        axes.join(" ")
    )
}

/// The runs of the sides as arguments of `iodyno compare`: `3 5`.
pub(super) fn runs(sides: Sides) -> String {
    let trials = sides.baseline.iter().chain(sides.candidate).copied();
    let runs = super::grouping::values(trials, Observation::RUN);
    let names = runs
        .iter()
        .map(|run| run.strip_prefix("run ").unwrap_or(run));
    names.collect::<Vec<_>>().join(" ")
}

/// One side had a fixed duration, the other a fixed amount of work; reported unless a fact reports it already.
fn kinds_differ(sides: Sides, beside: &[&Difference]) -> Option<String> {
    let all = |side: &[&Observation], kind| side.iter().all(|o| o.kind == kind);
    let differ = |one, other| all(sides.baseline, one) && all(sides.candidate, other);
    let said = beside.iter().any(|d| d.class == FactClass::Ending);
    (!said && (differ(Kind::Timed, Kind::Finite) || differ(Kind::Finite, Kind::Timed)))
        .then(|| "one side ended by its runtime, the other when its work was done".to_owned())
}

/// The sides that have a condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum On {
    Neither,
    Both,
    Baseline,
    Candidate,
}

/// On which sides a condition is met, by the rule of this module.
struct Met<'a> {
    on: On,
    columns: (&'a str, &'a str),
    /// The numbers of trials with the condition and of all trials, by side.
    counts: ((usize, usize), (usize, usize)),
}

impl<'a> Met<'a> {
    fn of(sides: Sides<'a>, condition: impl Fn(&Observation) -> bool) -> Met<'a> {
        let count = |side: &[&Observation]| {
            let met = side.iter().filter(|o| condition(o)).count();
            (met, side.len())
        };
        let counts = (count(sides.baseline), count(sides.candidate));
        let differ = differ_in_counts(counts.0, counts.1);
        let most = |(count, of): (usize, usize)| 2 * count > of;
        let on = match (differ, most(counts.0), most(counts.1)) {
            (true, true, false) => On::Baseline,
            (true, false, true) => On::Candidate,
            (true, true, true) => On::Both,
            (true, false, false) => On::Neither,
            (false, ..) => match most((counts.0.0 + counts.1.0, counts.0.1 + counts.1.1)) {
                true => On::Both,
                false => On::Neither,
            },
        };
        Met {
            on,
            columns: sides.columns,
            counts,
        }
    }

    fn flagged(sides: Sides<'a>, kind: FindingKind) -> Met<'a> {
        Met::of(sides, |o| flag(o, kind).is_some())
    }

    /// The only side that has it, with the claim that puts this side ahead.
    fn alone(&self) -> Option<(&'a str, Claims)> {
        match self.on {
            On::Baseline => Some((self.columns.0, Claims::BaselineAhead)),
            On::Candidate => Some((self.columns.1, Claims::CandidateAhead)),
            On::Neither | On::Both => None,
        }
    }

    /// `5 of 8 trials of ext4, 0 of 8 trials of zfs`.
    fn counts(&self) -> String {
        let side = |(count, of): (usize, usize), column: &str| {
            format!("{count} of {} of {column}", words::trials(of))
        };
        format!(
            "{}, {}",
            side(self.counts.0, self.columns.0),
            side(self.counts.1, self.columns.1)
        )
    }
}

/// Timed trials that drift or have several regimes, on one side: the sides differ in more than a level.
fn unsteady(sides: Sides, claims: Claims, found: &mut Objections) {
    let timed = |o: &Observation| o.kind == Kind::Timed;
    let regimes = |o: &Observation| timed(o) && matches!(o.behaviour.course, Course::Regimes);
    let drifting =
        |o: &Observation| timed(o) && matches!(o.behaviour.course, Course::Drifting { .. });
    let met = Met::of(sides, |o| regimes(o) || drifting(o));
    let all = || sides.baseline.iter().chain(sides.candidate);
    let how = match (all().any(|o| regimes(o)), all().any(|o| drifting(o))) {
        (true, false) => "several regimes",
        (false, _) => "drift",
        (true, true) => "drift or several regimes",
    };
    let counts = met.counts();
    match (met.on, met.alone()) {
        (On::Both, _) => found
            .notes
            .push(format!("both not steady ({how}): {counts}")),
        (_, Some((column, _))) => found.object(
            claims != Claims::Nothing,
            format!("{column} alone not steady ({how}): {counts}"),
        ),
        _ => {}
    }
}

fn course_unknown(sides: Sides) -> Option<String> {
    let unknown = |side: &[&Observation]| {
        side.iter().any(|o| {
            let course = &o.behaviour.course;
            o.kind == Kind::Timed && matches!(course, Course::TooShort { .. } | Course::Unknown)
        })
    };
    let columns = match (unknown(sides.baseline), unknown(sides.candidate)) {
        (false, false) => return None,
        (true, false) => sides.columns.0.to_owned(),
        (false, true) => sides.columns.1.to_owned(),
        (true, true) => format!("{} and {}", sides.columns.0, sides.columns.1),
    };
    Some(format!(
        "steadiness of {columns} unknown: trials too short, or without a series"
    ))
}

/// Rounds between whose trials those of other rounds ran, because a run was resumed in parts: what changed on the host
/// meanwhile is in their ratios.
fn rounds_in_parts(sides: Sides) -> Option<String> {
    let all = sides.baseline.iter().chain(sides.candidate);
    let in_rounds = all.filter_map(|trial| {
        let run = trial.dimension(Observation::RUN);
        Some((run, trial.started_unix_ms?, trial.round?))
    });
    let mut in_time: Vec<(&str, u64, u32)> = in_rounds.collect();
    in_time.sort_unstable();
    let mut rounds: BTreeSet<(&str, u32)> = BTreeSet::new();
    let mut parts: BTreeSet<(&str, u32)> = BTreeSet::new();
    let mut before = None;
    for (run, _, round) in in_time {
        let own = (run, round);
        // Another round was between it and its own.
        if !rounds.insert(own) && before != Some(own) {
            parts.insert(own);
        }
        before = Some(own);
    }
    (!parts.is_empty()).then(|| {
        format!(
            "{} of {} ran in parts, with other rounds in between: changes of the host are in their ratios",
            parts.len(),
            counted(rounds.len() as u64, "round")
        )
    })
}

fn regimes_of_finite_work(side: &[&Observation], column: &str) -> Option<String> {
    let mut several = side.iter().filter(|o| {
        o.kind != Kind::Timed
            && o.behaviour.course == Course::Regimes
            && o.behaviour.regimes.len() > 1
    });
    let first = several.next()?;
    Some(format!(
        "{column} has {}",
        words::regimes(&first.behaviour.regimes)
    ))
}

fn flag(observation: &Observation, kind: FindingKind) -> Option<&Flag> {
    let mut flags = observation.flags.iter();
    flags.find(|flag| flag.kind == kind && flag.weight >= Weight::Warning)
}

/// A limit other than the storage's.
fn limited(sides: Sides, claims: Claims, kind: FindingKind, words: &str, found: &mut Objections) {
    let met = Met::flagged(sides, kind);
    let counts = met.counts();
    if met.on == On::Both && claims != Claims::Nothing {
        found.reasons.push(format!("both {words}: {counts}"));
    }
    let Some((column, ahead)) = met.alone() else {
        return;
    };
    match claims {
        Claims::NoDifference => found.reasons.push(format!("{column} {words}: {counts}")),
        claims if claims == ahead => found.notes.push(format!(
            "{column} {words} ({counts}): the difference may be larger than it seems"
        )),
        _ => {}
    }
}

/// Conditions that make the work of one side easier.
fn one_sided(sides: Sides, claims: Claims, found: &mut Objections) {
    for (kind, words, objects) in [
        (
            FindingKind::CacheServed,
            "served by a cache",
            claims != Claims::Nothing,
        ),
        (
            FindingKind::Compressible,
            "compressible data",
            claims.difference(),
        ),
        (
            FindingKind::Unwritten,
            "reads of what was never written",
            claims.difference(),
        ),
    ] {
        let met = Met::flagged(sides, kind);
        if met.on == On::Both && kind == FindingKind::CacheServed {
            found
                .notes
                .push("both served by a cache: this compares caches, not devices".to_owned());
        }
        if let Some((column, _)) = met.alone().filter(|_| objects) {
            found.reasons.push(format!(
                "{words} on the side of {column} alone: {}",
                met.counts()
            ));
        }
    }
}

/// Another process used the devices of a side.
fn disturbed(sides: Sides, claims: Claims, found: &mut Objections) {
    let met = Met::flagged(sides, FindingKind::OtherIo);
    let counts = met.counts();
    if met.on == On::Both {
        found.notes.push(format!(
            "both shared their devices with other processes: {counts}"
        ));
    }
    let Some((column, ahead)) = met.alone() else {
        return;
    };
    let shared = format!("{column} alone shared its devices with other processes");
    match claims {
        Claims::Nothing => {}
        claims if claims == ahead => found.notes.push(format!(
            "{shared} ({counts}): the difference may be larger than it seems"
        )),
        _ => found.reasons.push(format!("{shared}: {counts}")),
    }
}

/// The storage of a side was preconditioned and did not become steady: new storage is often faster.
fn not_preconditioned(sides: Sides, claims: Claims, found: &mut Objections) {
    let met = Met::flagged(sides, FindingKind::NotPreconditioned);
    let counts = met.counts();
    if met.on == On::Both {
        found.notes.push(format!(
            "both were not steady after preconditioning: {counts}"
        ));
    }
    if let Some((column, ahead)) = met.alone() {
        found.object(
            claims == ahead,
            format!("{column} alone was not steady after preconditioning: {counts}"),
        );
    }
}

/// Conditions on one side only, mostly caused by the configuration itself.
fn reasons_of_its_own(sides: Sides, claims: Claims, found: &mut Objections) {
    if claims == Claims::Nothing {
        return;
    }
    for (kind, words) in [
        (FindingKind::MemoryPressure, "was short of memory"),
        (
            FindingKind::DirtyThrottled,
            "had its writers throttled by dirty limits",
        ),
        (FindingKind::QueueSaturated, "had a full queue"),
        (FindingKind::CpuQuota, "used up its CPU quota"),
        (
            FindingKind::CpuContention,
            "had workers that waited for a CPU",
        ),
        (
            FindingKind::ServerSaturated,
            "had a server without CPU time left",
        ),
        (
            FindingKind::InterruptsOnOneCpu,
            "had a device's interrupts on one busy CPU",
        ),
    ] {
        let met = Met::flagged(sides, kind);
        if let Some((column, ahead)) = met.alone() {
            // What slows a side down explains a difference only if this side is the slower one.
            let effect = match claims {
                Claims::CandidateAhead | Claims::BaselineAhead if claims == ahead => {
                    ": the difference may be larger than it seems"
                }
                Claims::CandidateAhead | Claims::BaselineAhead => ": it may be why",
                _ => "",
            };
            let counts = met.counts();
            found
                .notes
                .push(format!("{column} alone {words} ({counts}){effect}"));
        }
    }
}

/// The flags of a side, each once.
pub(super) fn flags(side: &[&Observation]) -> Vec<SideFlag> {
    let mut found: Vec<(&str, u32)> = Vec::new();
    for observation in side {
        let warned = observation.flags.iter();
        let mut own: Vec<&str> = warned
            .filter(|flag| flag.weight >= Weight::Warning)
            .map(|flag| flag.kind.words())
            .collect();
        let course = &observation.behaviour.course;
        if observation.kind == Kind::Timed
            && matches!(course, Course::Regimes | Course::Drifting { .. })
        {
            own.push("not steady");
        }
        own.sort_unstable();
        own.dedup();
        for words in own {
            *entry(&mut found, words) += 1;
        }
    }
    let flags = found.into_iter().map(|(words, trials)| SideFlag {
        words: words.to_owned(),
        trials,
        of: side.len() as u32,
    });
    flags.collect()
}
