//! Objections to a verdict: explanations of the result other than the attribute under test.
//!
//! | what | objects to | otherwise |
//! |---|---|---|
//! | trials ended otherwise (runtime against size, another duration), not the axis | every verdict | – |
//! | host, program, workload or target differ, not the axis | a difference | equivalence stands, listed |
//! | timed trials not steady, most of a side | every verdict | flagged |
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
//! "Every verdict" means every verdict about the storage. CANNOT DECIDE and NO DATA stay, because they already
//! report what is missing. INCONCLUSIVE is replaced too, because more rounds would not help. A difference is
//! FASTER, SLOWER or DIFFERENT BUT SMALL; no difference is EQUIVALENT or INCONCLUSIVE.
//!
//! Reasons: a limit of the client or the device on both sides makes both alike, and any difference left comes
//! from the limit. On the faster side alone it only understates the difference. On the slower side alone, the
//! other side shows that the work could go faster, so the slowness belongs to the configuration. A fixed amount
//! of work need not be steady: it is compared by its completion. I/O of another process takes time from both
//! sides and belongs to no configuration: a side that is slower, or equal, may be so because of it. Short
//! memory, throttled writers, full queues and saturated servers are mostly caused by the configuration and are
//! part of what is compared: they are reported as possible causes and do not change the verdict. Unknown facts
//! never object. Trials whose figures do not measure the storage are left out before this step.

use iodyno_model::{
    Course, FactClass, FindingKind, Flag, Kind, Observation, Question, Verdict, Weight,
};

use super::facts::{Differing, Facts};
use super::words;

/// The two sides of a cell: the trials that count.
#[derive(Clone, Copy)]
pub(super) struct Sides<'a> {
    /// The baseline's.
    pub(super) baseline: &'a [&'a Observation],
    /// The candidate's.
    pub(super) candidate: &'a [&'a Observation],
    /// The names of the two.
    pub(super) columns: (&'a str, &'a str),
}

/// Objections and notes of one cell.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Objections {
    /// Why the sides are not comparable; empty if they are.
    pub(super) reasons: Vec<String>,
    /// Notes to print with the verdict.
    pub(super) notes: Vec<String>,
}

impl Objections {
    /// Adds a reason if it affects the verdict, otherwise a note.
    fn object(&mut self, bears: bool, reason: String) {
        match bears {
            true => self.reasons.push(reason),
            false => self.notes.push(reason),
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
    let beside: Vec<&Differing> = facts
        .differing
        .iter()
        .filter(|d| !d.difference.axis)
        .collect();
    for differing in &beside {
        let ending = differing.class == FactClass::Ending;
        let applies = match ending {
            true => claims != Claims::Nothing,
            false => claims.difference(),
        };
        // Facts that do not object are listed among the differing facts already.
        if applies {
            found.object(true, differing_words(differing));
        }
    }
    if let Some(reason) = kinds_differ(sides, &beside) {
        found.object(claims != Claims::Nothing, reason);
    }
    for (side, column) in [
        (sides.baseline, sides.columns.0),
        (sides.candidate, sides.columns.1),
    ] {
        if let Some(reason) = unsteady(side, column) {
            found.object(claims != Claims::Nothing, reason);
        }
        found.notes.extend(regimes_of_finite_work(side, column));
    }
    found.notes.extend(course_unknown(sides));
    let client_compared =
        facts.differing.iter().any(|d| {
            d.difference.axis && matches!(d.class, FactClass::Workload | FactClass::Program)
        }) || question.columns == Observation::WORKLOAD;
    let mut limits = vec![(FindingKind::DeviceCapped, "capped by the device")];
    if !client_compared {
        limits.insert(0, (FindingKind::ClientSaturated, "client saturated"));
    }
    for (kind, words) in limits {
        limited(sides, claims, kind, words, &mut found);
    }
    one_sided(sides, claims, &mut found);
    disturbed(sides, claims, &mut found);
    reasons_of_its_own(sides, claims, &mut found);
    found
}

/// `differing mount options: noatime, relatime (--axis "mount options" if that is what is compared)`.
fn differing_words(differing: &Differing) -> String {
    let difference = &differing.difference;
    let name = match difference.name.contains(' ') {
        true => format!("\"{}\"", difference.name),
        false => difference.name.clone(),
    };
    format!(
        "differing {}: {} against {} (--axis {name} if that is what is compared)",
        difference.name, difference.values.0, difference.values.1
    )
}

/// One side had a fixed duration, the other a fixed amount of work; reported unless a fact reports it already.
fn kinds_differ(sides: Sides, beside: &[&Differing]) -> Option<String> {
    let all = |side: &[&Observation], kind| side.iter().all(|o| o.kind == kind);
    let differ = |one, other| all(sides.baseline, one) && all(sides.candidate, other);
    let said = beside.iter().any(|d| d.class == FactClass::Ending);
    (!said && (differ(Kind::Timed, Kind::Finite) || differ(Kind::Finite, Kind::Timed)))
        .then(|| "one side ended by its runtime, the other when its work was done".to_owned())
}

/// Whether more than half are.
fn most(count: usize, of: usize) -> bool {
    2 * count > of
}

fn unsteady(side: &[&Observation], column: &str) -> Option<String> {
    let timed = || side.iter().filter(|o| o.kind == Kind::Timed);
    let count =
        |wanted: fn(&Course) -> bool| timed().filter(|o| wanted(&o.behaviour.course)).count();
    let regimes = count(|course| matches!(course, Course::Regimes));
    let drifting = count(|course| matches!(course, Course::Drifting { .. }));
    if !most(regimes + drifting, side.len()) {
        return None;
    }
    let how = match (regimes, drifting) {
        (_, 0) => "have several regimes",
        (0, _) => "drift",
        _ => "drift or have several regimes",
    };
    Some(format!(
        "not steady: {} of {} trials of {column} {how}",
        regimes + drifting,
        side.len()
    ))
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

fn has(side: &[&Observation], kind: FindingKind) -> bool {
    let flagged = side.iter().filter(|o| flag(o, kind).is_some()).count();
    most(flagged, side.len())
}

/// A limit that is not the storage's.
fn limited(sides: Sides, claims: Claims, kind: FindingKind, words: &str, found: &mut Objections) {
    let on = (has(sides.baseline, kind), has(sides.candidate, kind));
    let (column, ahead) = match on {
        (false, false) => return,
        (true, true) if claims == Claims::Nothing => return,
        (true, true) => {
            found.reasons.push(format!("both {words}"));
            return;
        }
        (true, false) => (sides.columns.0, Claims::BaselineAhead),
        (false, true) => (sides.columns.1, Claims::CandidateAhead),
    };
    match claims {
        Claims::NoDifference => found.reasons.push(format!("{column} {words}")),
        claims if claims == ahead => found.notes.push(format!(
            "{column} {words}: the difference may be larger than it seems"
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
        let column = match (has(sides.baseline, kind), has(sides.candidate, kind)) {
            (true, false) => sides.columns.0,
            (false, true) => sides.columns.1,
            (true, true) if kind == FindingKind::CacheServed => {
                found
                    .notes
                    .push("both served by a cache: this compares caches, not devices".to_owned());
                continue;
            }
            _ => continue,
        };
        if objects {
            found
                .reasons
                .push(format!("{words} on the side of {column} alone"));
        }
    }
}

/// Another process used the devices of a side.
fn disturbed(sides: Sides, claims: Claims, found: &mut Objections) {
    let kind = FindingKind::OtherIo;
    let (column, ahead) = match (has(sides.baseline, kind), has(sides.candidate, kind)) {
        (false, false) => return,
        (true, true) => {
            let note = "both shared their devices with other processes".to_owned();
            found.notes.push(note);
            return;
        }
        (true, false) => (sides.columns.0, Claims::BaselineAhead),
        (false, true) => (sides.columns.1, Claims::CandidateAhead),
    };
    let shared = format!("{column} alone shared its devices with other processes");
    match claims {
        Claims::Nothing => {}
        claims if claims == ahead => found.notes.push(format!(
            "{shared}: the difference may be larger than it seems"
        )),
        _ => found.reasons.push(shared),
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
        let column = match (has(sides.baseline, kind), has(sides.candidate, kind)) {
            (true, false) => sides.columns.0,
            (false, true) => sides.columns.1,
            _ => continue,
        };
        found
            .notes
            .push(format!("{column} alone {words}: it may be why"));
    }
}

/// The flags of a side for the table: each once, with the number of trials if not all have it.
pub(super) fn flags(side: &[&Observation]) -> Vec<String> {
    let mut found: Vec<(&str, usize)> = Vec::new();
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
            match found.iter_mut().find(|(known, _)| *known == words) {
                Some((_, count)) => *count += 1,
                None => found.push((words, 1)),
            }
        }
    }
    let all = side.len();
    found
        .into_iter()
        .map(|(words, count)| match count == all {
            true => words.to_owned(),
            false => format!("{words} in {count} of {all} trials"),
        })
        .collect()
}
