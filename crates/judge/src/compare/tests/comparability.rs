//! Each rule of comparability, with and without the fault.

use iodyno_model::{
    Behaviour, Cell, Course, FactClass, FindingKind, Kind, Observation, Pairing, Question, Verdict,
    Weight,
};

use super::{around, both, compared, first_cell, only_cell, otherwise_around};
use crate::testing::observations::{each, fact, imported, regimes, rounds, warning};

type Change<'a> = &'a dyn Fn(&mut Observation);

const NOTHING: Change = &|_| {};

/// The baseline does 1000/s, the candidate `level`.
fn cell(level: f64, baseline: Change, candidate: Change) -> Cell {
    only_cell(&both(
        each(rounds("ext4", "job", &around(1000.0)), baseline),
        each(rounds("zfs", "job", &otherwise_around(level)), candidate),
    ))
}

const FASTER: f64 = 1600.0;
const SLOWER: f64 = 600.0;
const EQUAL: f64 = 1001.0;

/// The verdict stands, or the reasons against it hold `text`.
#[track_caller]
fn check(cell: &Cell, text: Option<&str>) {
    match (&cell.verdict, text) {
        (Verdict::NotComparable { reasons }, Some(text)) => {
            assert!(reasons.join("; ").contains(text), "{reasons:?}");
            assert_ne!(cell.by_numbers, cell.verdict);
        }
        // Separate runs lack a verdict for another reason, whatever their facts.
        (Verdict::Inconclusive { .. }, None) if cell.pairing != Pairing::Paired => {}
        (verdict, None) => assert_eq!(*verdict, cell.by_numbers),
        (verdict, Some(text)) => panic!("{verdict:?} in place of {text}"),
    }
}

fn has(cell: &Cell, note: &str) -> bool {
    cell.notes.iter().any(|said| said.contains(note))
}

#[test]
fn facts_beside_the_axis_object_to_a_difference_and_not_to_equivalence() {
    for class in [FactClass::Host, FactClass::Program, FactClass::Workload] {
        let with = |value: &'static str| {
            move |o: &mut Observation| o.facts.push(fact(class, "kernel", value))
        };
        let (old, new) = (with("6.1"), with("6.18"));
        let reason =
            "differing kernel: 6.1 against 6.18 (--axis kernel if that is what is compared)";
        check(&cell(FASTER, &old, &new), Some(reason));
        check(&cell(SLOWER, &old, &new), Some(reason));
        check(&cell(FASTER, &old, &old), None);
        check(&cell(FASTER, &old, NOTHING), None); // not told by one side
        let equal = cell(EQUAL, &old, &new);
        check(&equal, None);
        assert_eq!(equal.verdict, Verdict::Equivalent);
        assert_eq!(equal.differs.len(), 1);
        let trials = both(
            each(rounds("ext4", "job", &around(1000.0)), old),
            each(rounds("zfs", "job", &otherwise_around(FASTER)), new),
        );
        let question = Question {
            axis: vec!["kernel".to_owned()],
            ..Question::default()
        };
        let comparison = compared(&trials, &question);
        check(&comparison.rows[0].cells[0], None);
        assert!(comparison.differs[0].axis && comparison.rows[0].cells[0].differs.is_empty());
    }
}

#[test]
fn the_target_is_the_axis_where_configurations_are_compared() {
    let with = |value: &'static str| {
        move |o: &mut Observation| {
            o.facts
                .push(fact(FactClass::Target, "mount options", value));
            o.facts.push(fact(FactClass::Target, "device", "vda"));
            o.facts.push(fact(FactClass::Target, "file system", value));
        }
    };
    let configurations = cell(FASTER, &with("noatime"), &with("relatime"));
    check(&configurations, None);
    let run = |value: &'static str, run: &'static str, level: f64| {
        each(rounds("here", "job", &around(level)), move |o| {
            with(value)(o);
            o.dimensions.insert("run".to_owned(), run.to_owned());
        })
    };
    let trials = both(run("noatime", "1", 1000.0), run("relatime", "2", FASTER));
    let by_run = |axis: &[&str]| Question {
        columns: "run".to_owned(),
        axis: axis.iter().map(|name| (*name).to_owned()).collect(),
        ..Question::default()
    };
    let runs = first_cell(&trials, &by_run(&[]));
    check(
        &runs,
        Some("differing mount options: noatime against relatime (--axis \"mount options\""),
    );
    check(
        &first_cell(&trials, &by_run(&["mount options"])),
        Some("differing file system"),
    );
    let both_named = first_cell(&trials, &by_run(&["mount options", "file system"]));
    check(&both_named, None);
    let comparison = compared(&trials, &by_run(&[]));
    assert_eq!(comparison.same, ["device"]);
    assert_eq!(comparison.differs.len(), 2);
}

#[test]
fn a_fact_that_differs_alone_between_runs_is_taken_for_the_axis() {
    let run = |class, value: &'static str, run: &'static str, level: f64| {
        each(rounds("here", "job", &around(level)), move |o| {
            o.facts.push(fact(class, "it", value));
            o.dimensions.insert("run".to_owned(), run.to_owned());
        })
    };
    let question = Question {
        columns: "run".to_owned(),
        ..Question::default()
    };
    for class in [
        FactClass::Target,
        FactClass::Host,
        FactClass::Program,
        FactClass::Workload,
    ] {
        let trials = both(run(class, "a", "1", 1000.0), run(class, "b", "2", FASTER));
        let cell = first_cell(&trials, &question);
        check(&cell, None);
        assert!(has(
            &cell,
            "it is all that differs: taken for what is compared"
        ));
    }
    let ending = FactClass::Ending;
    let trials = both(run(ending, "a", "1", 1000.0), run(ending, "b", "2", FASTER));
    check(&first_cell(&trials, &question), Some("differing it"));
}

#[test]
fn where_a_trait_of_workloads_is_compared_that_trait_alone_is_the_axis() {
    let job = |engine: &'static str, depth: &'static str, level: f64| {
        each(rounds("here", "job", &around(level)), move |o| {
            o.dimensions.insert("engine".to_owned(), engine.to_owned());
            o.facts.push(fact(FactClass::Workload, "engine", engine));
            o.facts.push(fact(FactClass::Workload, "depth", depth));
        })
    };
    let question = Question {
        columns: "engine".to_owned(),
        ..Question::default()
    };
    let trials = both(job("psync", "1", 1000.0), job("io_uring", "1", FASTER));
    check(&first_cell(&trials, &question), None);
    let trials = both(job("psync", "1", 1000.0), job("io_uring", "16", FASTER));
    check(
        &first_cell(&trials, &question),
        Some("differing depth: 1 against 16"),
    );
    let by_workload = Question {
        columns: "workload".to_owned(),
        ..Question::default()
    };
    let trials = both(
        job("psync", "1", 1000.0),
        each(job("io_uring", "16", FASTER), |o| {
            o.dimensions
                .insert("workload".to_owned(), "other".to_owned());
        }),
    );
    check(&first_cell(&trials, &by_workload), None);
}

#[test]
fn another_end_objects_to_every_verdict() {
    let with = |value: &'static str| {
        move |o: &mut Observation| o.facts.push(fact(FactClass::Ending, "ended by", value))
    };
    for level in [FASTER, SLOWER, EQUAL] {
        let differing = cell(level, &with("runtime"), &with("size"));
        check(&differing, Some("differing ended by: runtime against size"));
        check(&cell(level, &with("size"), &with("size")), None);
        let kinds = cell(level, NOTHING, &|o| o.kind = Kind::Finite);
        check(
            &kinds,
            Some("one side ended by its runtime, the other when its work was done"),
        );
    }
}

#[test]
fn facts_that_differ_within_a_side_are_noted() {
    let by_round = |o: &mut Observation| {
        let kernel = if o.round < Some(5) { "6.1" } else { "6.18" };
        o.facts.push(fact(FactClass::Host, "kernel", kernel));
    };
    // The same mixture on both sides explains no difference.
    let mixed = cell(FASTER, &by_round, &by_round);
    check(&mixed, None);
    assert!(has(
        &mixed,
        "the trials of zfs differ in kernel (6.1, 6.18)"
    ));
}

#[test]
fn timed_trials_have_to_be_steady_and_finite_ones_have_not() {
    let drifting = Behaviour {
        course: Course::Drifting {
            rise_percent: 14.0,
            range_percent: 30.0,
        },
        ..Behaviour::default()
    };
    let of_rounds = |upto: u32, behaviour: Behaviour| {
        move |o: &mut Observation| {
            if o.round < Some(upto) {
                o.behaviour = behaviour.clone();
            }
        }
    };
    let two = regimes(&[3930.0, 65_300.0]);
    for level in [FASTER, SLOWER, EQUAL] {
        let six = cell(level, NOTHING, &of_rounds(6, drifting.clone()));
        check(&six, Some("not steady: 6 of 10 trials of zfs drift"));
        assert_eq!(six.side.flags, ["not steady in 6 of 10 trials"]);
        let all = cell(level, &of_rounds(10, two.clone()), NOTHING);
        check(
            &all,
            Some("not steady: 10 of 10 trials of ext4 have several regimes"),
        );
        check(&cell(level, NOTHING, &of_rounds(5, drifting.clone())), None); // no majority
        let finite = |behaviour: Behaviour| {
            move |o: &mut Observation| {
                o.kind = Kind::Finite;
                o.behaviour = behaviour.clone();
            }
        };
        let deletes = cell(level, &finite(two.clone()), &finite(drifting.clone()));
        check(&deletes, None);
        assert!(has(
            &deletes,
            "ext4 has two regimes: 3.93k/s until 1.00 s, then 65.3k/s"
        ));
    }
    let wide: Vec<f64> = [1.3, 0.8, 1.1, 0.7, 1.2, 0.9, 1.25, 0.85, 1.05, 0.95]
        .map(|factor| factor * 1000.0)
        .to_vec();
    let undecided = only_cell(&both(
        rounds("ext4", "job", &around(1000.0)),
        each(rounds("zfs", "job", &wide), |o| o.behaviour = two.clone()),
    ));
    check(&undecided, Some("not steady")); // more rounds would not help
    let short = cell(FASTER, NOTHING, &|o| {
        o.behaviour.course = Course::TooShort { seconds: 3 }
    });
    check(&short, None);
    assert!(has(&short, "steadiness of zfs unknown: trials too short"));
}

#[test]
fn too_few_trials_come_before_all_objections() {
    let trials = both(
        imported("ext4", "job", &[1.0, 2.0, 3.0]),
        each(imported("zfs", "job", &[4.0, 5.0, 6.0]), |o| {
            o.kind = Kind::Timed;
            o.behaviour = regimes(&[1.0, 2.0]);
        }),
    );
    let cell = only_cell(&trials);
    assert!(matches!(cell.verdict, Verdict::CannotDecide { .. }));
    assert!(has(
        &cell,
        "not steady: 3 of 3 trials of zfs have several regimes"
    ));
}

#[test]
fn limits_of_client_and_device_object_where_they_would_explain_the_result() {
    for (kind, words) in [
        (FindingKind::ClientSaturated, "client saturated"),
        (FindingKind::DeviceCapped, "capped by the device"),
    ] {
        let on = move |o: &mut Observation| o.flags.push(warning(kind));
        for level in [FASTER, SLOWER, EQUAL] {
            check(&cell(level, &on, &on), Some(&format!("both {words}")));
            check(&cell(level, NOTHING, NOTHING), None);
        }
        check(&cell(EQUAL, &on, NOTHING), Some(&format!("ext4 {words}")));
        check(&cell(EQUAL, NOTHING, &on), Some(&format!("zfs {words}")));
        let faster = cell(FASTER, NOTHING, &on);
        check(&faster, None);
        assert!(has(&faster, "the difference may be larger than it seems"));
        assert_eq!(faster.side.flags, [words]);
        let slower = cell(SLOWER, NOTHING, &on);
        check(&slower, None);
        assert!(!has(&slower, "larger than it seems"));
        let few = move |o: &mut Observation| {
            if o.round < Some(5) {
                o.flags.push(warning(kind));
            }
        };
        check(&cell(EQUAL, &few, &few), None); // not most trials
        let note = move |o: &mut Observation| {
            o.flags.push(warning(kind));
            o.flags[0].weight = Weight::Note;
        };
        check(&cell(EQUAL, &note, &note), None);
    }
}

#[test]
fn a_saturated_client_is_no_objection_where_clients_are_compared() {
    let saturated = |workload: &str, level: f64| {
        each(rounds("here", workload, &around(level)), |o| {
            o.flags.push(warning(FindingKind::ClientSaturated));
        })
    };
    let trials = both(saturated("psync", 1000.0), saturated("io_uring", FASTER));
    let question = Question {
        columns: "workload".to_owned(),
        ..Question::default()
    };
    check(&first_cell(&trials, &question), None);
}

#[test]
fn a_cache_on_one_side_objects_and_on_both_is_noted() {
    let cached = |o: &mut Observation| o.flags.push(warning(FindingKind::CacheServed));
    for level in [FASTER, SLOWER, EQUAL] {
        let reason = "served by a cache on the side of zfs alone";
        check(&cell(level, NOTHING, &cached), Some(reason));
        let caches = cell(level, &cached, &cached);
        check(&caches, None);
        assert!(has(&caches, "both served by a cache"));
    }
}

#[test]
fn easy_data_on_one_side_object_to_a_difference() {
    for (kind, reason) in [
        (
            FindingKind::Compressible,
            "compressible data on the side of ext4 alone",
        ),
        (
            FindingKind::Unwritten,
            "reads of what was never written on the side of ext4 alone",
        ),
    ] {
        let easy = move |o: &mut Observation| o.flags.push(warning(kind));
        check(&cell(FASTER, &easy, NOTHING), Some(reason));
        check(&cell(FASTER, &easy, &easy), None);
        check(&cell(EQUAL, &easy, NOTHING), None);
    }
}

#[test]
fn io_of_other_processes_objects_unless_the_disturbed_side_is_ahead() {
    let disturbed: Change = &|o| o.flags.push(warning(FindingKind::OtherIo));
    let reason = Some("zfs alone shared its devices with other processes");
    check(&cell(SLOWER, NOTHING, disturbed), reason);
    check(&cell(EQUAL, NOTHING, disturbed), reason);
    let ahead = cell(FASTER, NOTHING, disturbed);
    check(&ahead, None);
    assert!(has(&ahead, "the difference may be larger than it seems"));
    let baseline = cell(FASTER, disturbed, NOTHING);
    check(
        &baseline,
        Some("ext4 alone shared its devices with other processes"),
    );
    check(&cell(SLOWER, disturbed, NOTHING), None);
    let both = cell(FASTER, disturbed, disturbed);
    check(&both, None);
    assert!(has(&both, "both shared their devices"));
    let noted: Change = &|o| {
        o.flags.push(iodyno_model::Flag {
            weight: Weight::Note,
            ..warning(FindingKind::OtherIo)
        });
    };
    check(&cell(SLOWER, NOTHING, noted), None);
}

#[test]
fn what_a_side_met_by_its_own_doing_is_told_and_takes_no_verdict_away() {
    for (kind, words) in [
        (
            FindingKind::MemoryPressure,
            "zfs alone was short of memory: it may be why",
        ),
        (
            FindingKind::DirtyThrottled,
            "zfs alone had its writers throttled",
        ),
        (FindingKind::QueueSaturated, "zfs alone had a full queue"),
        (
            FindingKind::ServerSaturated,
            "zfs alone had a server without CPU time left",
        ),
        (
            FindingKind::InterruptsOnOneCpu,
            "zfs alone had a device's interrupts on one busy CPU",
        ),
    ] {
        let met = move |o: &mut Observation| o.flags.push(warning(kind));
        for level in [FASTER, SLOWER, EQUAL] {
            let one = cell(level, NOTHING, &met);
            check(&one, None);
            assert!(has(&one, words), "{:?}", one.notes);
            let both = cell(level, &met, &met);
            check(&both, None);
            assert!(!has(&both, "it may be why"), "{:?}", both.notes);
        }
    }
}
