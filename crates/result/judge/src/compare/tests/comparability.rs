//! Each rule of comparability, with and without the condition.

use iodyno_model::{
    Behaviour, CandidateResult, Course, FactClass, FindingKind, Kind, Observation, Pairing,
    Question, Verdict, Weight,
};

use super::{around, both, compared, differently_around, first_cell, only_cell};
use crate::testing::observations::{each, fact, imported, regimes, rounds, warning};

type Change<'a> = &'a dyn Fn(&mut Observation);

const NOTHING: Change = &|_| {};

/// The baseline has 1000 ops/s, the candidate `level`.
fn cell(level: f64, baseline: Change, candidate: Change) -> CandidateResult {
    only_cell(&both(
        each(rounds("ext4", "job", &around(1000.0)), baseline),
        each(rounds("zfs", "job", &differently_around(level)), candidate),
    ))
}

const FASTER: f64 = 1600.0;
const SLOWER: f64 = 600.0;
const EQUAL: f64 = 1001.0;

/// The verdict is unchanged, or the reasons against it contain `text`.
#[track_caller]
fn check(cell: &CandidateResult, text: Option<&str>) {
    match (&cell.verdict, text) {
        (Verdict::NotComparable { reasons }, Some(text)) => {
            assert!(reasons.join("; ").contains(text), "{reasons:?}");
            assert_ne!(cell.by_numbers, cell.verdict);
        }
        // Separate runs have no verdict for another reason, independent of their facts.
        (Verdict::Inconclusive { .. }, None) if cell.pairing != Pairing::Paired => {}
        (verdict, None) => assert_eq!(*verdict, cell.by_numbers),
        (verdict, Some(text)) => panic!("{verdict:?} in place of {text}"),
    }
}

fn has(cell: &CandidateResult, note: &str) -> bool {
    let mut said = cell.notes.iter().chain(&cell.remarks);
    said.any(|said| said.contains(note))
}

#[test]
fn facts_other_than_the_axis_object_to_every_verdict() {
    for class in [FactClass::Host, FactClass::Program, FactClass::Workload] {
        let with = |value: &'static str| {
            move |o: &mut Observation| o.facts.push(fact(class, "kernel", value))
        };
        let (old, new) = (with("6.1"), with("6.18"));
        let reason = "differing kernel: 6.1 against 6.18 (if that is what is compared: \
                      iodyno compare 1 --axis kernel)";
        for level in [FASTER, SLOWER, EQUAL] {
            let differing = cell(level, &old, &new);
            check(&differing, Some(reason));
            assert_eq!(differing.differs.len(), 1);
            check(&cell(level, &old, &old), None);
        }
        let trials = both(
            each(rounds("ext4", "job", &around(1000.0)), old),
            each(rounds("zfs", "job", &differently_around(FASTER)), new),
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
fn a_fact_that_one_side_lacks_is_unknown() {
    let with = |class| move |o: &mut Observation| o.facts.push(fact(class, "it", "70"));
    let unknown = |trials: &[Observation]| compared(trials, &Question::default()).unknown;
    let own = |level: f64, name| rounds(name, "job", &around(level));
    for class in [FactClass::Host, FactClass::Program, FactClass::Ending] {
        let trials = both(own(1000.0, "ext4"), each(own(FASTER, "zfs"), with(class)));
        check(&only_cell(&trials), None);
        assert_eq!(unknown(&trials), ["it"]);
        assert!(compared(&trials, &Question::default()).same.is_empty());
    }
    // The target is compared.
    let target = each(own(FASTER, "zfs"), with(FactClass::Target));
    assert!(unknown(&both(own(1000.0, "ext4"), target)).is_empty());
    // Own trials contain each option that is not at its default; imported ones may not.
    let of_workload = with(FactClass::Workload);
    let option = |o: &mut Observation| {
        o.facts.push(fact(FactClass::Workload, "rwmixread", "70"));
    };
    let trials = both(own(1000.0, "ext4"), each(own(FASTER, "zfs"), option));
    check(
        &only_cell(&trials),
        Some("differing rwmixread: 50 against 70"),
    );
    let trials = both(own(1000.0, "ext4"), each(own(FASTER, "zfs"), of_workload));
    check(&only_cell(&trials), Some("differing it: none against 70"));
    let imported = imported("zfs", "job", &differently_around(FASTER));
    let trials = both(each(own(1000.0, "ext4"), option), imported);
    check(&only_cell(&trials), None);
    assert_eq!(unknown(&trials), ["rwmixread"]);
}

#[test]
fn facts_are_compared_by_value() {
    let cases = [
        ("size", "16 MiB", "16m", true),
        ("size", "16 MiB", "16777216", true),
        ("size", "16 MiB", "16MiB", false),
        ("size", "16 MiB", "17m", false),
        ("bs", "4k,64k", "4096,64K", true),
        ("bs", "4k", "4m", false),
        ("depth", "32", "032", true),
        ("ramp", "60 s", "1m", true),
        ("ramp", "10 s", "10", true),
        ("ramp", "10 s", "10m", false),
        ("mem", "malloc", "shm", false),
        ("kernel", "6.1", "6.18", false),
    ];
    for (name, own, other, alike) in cases {
        let told = |value: &'static str| {
            move |o: &mut Observation| o.facts.push(fact(FactClass::Workload, name, value))
        };
        let baseline = each(rounds("ext4", "job", &around(1000.0)), told(own));
        let candidate = each(
            imported("zfs", "job", &differently_around(FASTER)),
            told(other),
        );
        let found = compared(&both(baseline, candidate), &Question::default());
        assert_eq!(
            found.same.contains(&name.to_owned()),
            alike,
            "{name} {other}"
        );
        assert_eq!(found.differs.is_empty(), alike, "{name} {other}");
    }
}

#[test]
fn an_option_that_complete_options_do_not_list_is_at_its_default() {
    let option = |name: &'static str, value: &'static str| {
        move |o: &mut Observation| o.facts.push(fact(FactClass::Workload, name, value))
    };
    let complete = |name: &str, level: f64| {
        each(imported(name, "job", &differently_around(level)), |o| {
            o.options_complete = true;
        })
    };
    let values = |trials: &[Observation]| {
        let found = compared(trials, &Question::default());
        let values = found.differs.iter().map(|it| it.values.clone());
        (values.collect::<Vec<_>>(), found.unknown)
    };
    let pair = |one: &str, other: &str| (one.to_owned(), other.to_owned());
    let own = |name, value| each(rounds("ext4", "job", &around(1000.0)), option(name, value));
    let differs = both(own("rwmixread", "70"), complete("zfs", FASTER));
    assert_eq!(values(&differs), (vec![pair("70", "50")], Vec::new()));
    let alike = both(own("rwmixread", "50"), complete("zfs", FASTER));
    assert_eq!(values(&alike), (Vec::new(), Vec::new()));
    // Not an option of fio, or not imported: unknown.
    for name in ["folders", "time_based", "rate"] {
        let unknown = both(own(name, "1"), complete("zfs", FASTER));
        assert_eq!(values(&unknown), (Vec::new(), vec![name.to_owned()]));
    }
    let between = both(
        each(complete("ext4", 1000.0), option("thread", "1")),
        complete("zfs", FASTER),
    );
    assert_eq!(values(&between), (vec![pair("1", "default")], Vec::new()));
}

#[test]
fn the_target_is_the_axis_if_configurations_are_compared() {
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
        Some(
            "differing file system: noatime against relatime; mount options: noatime against relatime \
             (if that is what is compared: iodyno compare 1 2 --axis 'file system' --axis 'mount options')",
        ),
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
fn the_only_differing_fact_of_runs_is_compared_only_if_requested() {
    let run = |class, value: &'static str, run: &'static str, level: f64| {
        each(rounds("here", "job", &around(level)), move |o| {
            o.facts.push(fact(class, "it", value));
            o.dimensions.insert("run".to_owned(), format!("run {run}"));
        })
    };
    let by_run = |axis: &[&str]| Question {
        columns: "run".to_owned(),
        inferred: true,
        axis: axis.iter().map(|name| (*name).to_owned()).collect(),
        ..Question::default()
    };
    for class in [
        FactClass::Target,
        FactClass::Host,
        FactClass::Program,
        FactClass::Workload,
        FactClass::Ending,
    ] {
        for level in [FASTER, SLOWER, EQUAL] {
            let trials = both(run(class, "a", "3", 1000.0), run(class, "b", "5", level));
            let reason = "differing it: a against b (if that is what is compared: \
                          iodyno compare 3 5 --axis it)";
            check(&first_cell(&trials, &by_run(&[])), Some(reason));
            check(&first_cell(&trials, &by_run(&["it"])), None);
        }
    }
}

#[test]
fn default_columns_do_not_make_the_workload_the_axis() {
    let job = |workload: &'static str, bs: &'static str, level: f64| {
        each(rounds("here", workload, &around(level)), move |o| {
            o.dimensions.insert("bs".to_owned(), bs.to_owned());
            o.facts.push(fact(FactClass::Workload, "bs", bs));
        })
    };
    let trials = both(job("a", "4k", 1000.0), job("b", "64k", EQUAL));
    for columns in ["workload", "bs"] {
        for (inferred, against) in [(true, Some("differing bs: 4k against 64k")), (false, None)] {
            let question = Question {
                columns: columns.to_owned(),
                rows: vec!["configuration".to_owned()],
                inferred,
                ..Question::default()
            };
            check(&first_cell(&trials, &question), against);
        }
    }
}

#[test]
fn trials_whose_facts_differ_are_not_pooled() {
    let depths = |o: &mut Observation| {
        let even = o.source.as_ref().is_some_and(|at| at.line % 2 == 0);
        let depth = if even { "1" } else { "16" };
        o.facts.push(fact(FactClass::Workload, "depth", depth));
    };
    for level in [FASTER, SLOWER, EQUAL] {
        let trials = both(
            each(imported("ext4", "job", &around(1000.0)), depths),
            each(imported("zfs", "job", &differently_around(level)), depths),
        );
        let reason = "the trials of zfs are not repetitions: they differ in depth (16, 1)";
        check(&only_cell(&trials), Some(reason));
    }
}

#[test]
fn fullness_and_settling_vary_from_trial_to_trial() {
    let full = |percent: [u32; 2]| {
        move |o: &mut Observation| {
            let round = o.round.unwrap_or(0) as usize;
            let value = format!("{} %", percent[round % 2]);
            o.facts.push(fact(FactClass::Host, "fullness", &value));
        }
    };
    check(&cell(FASTER, &full([37, 39]), &full([40, 42])), None);
    let fuller = cell(FASTER, &full([37, 39]), &full([43, 45]));
    check(
        &fuller,
        Some("differing fullness: 37 %, 39 % against 43 %, 45 %"),
    );
    // The files of the workloads are there from the second round on.
    let laid_out = |first: &'static str, later: &'static str| {
        move |o: &mut Observation| {
            let value = if o.round == Some(0) { first } else { later };
            o.facts.push(fact(FactClass::Host, "fullness", value));
        }
    };
    let same = laid_out("40 %", "40 %");
    check(&cell(FASTER, &laid_out("34 %", "40 %"), &same), None);
    check(&cell(FASTER, &laid_out("4 %", "40 %"), &same), None);
    let own = laid_out("30 % to 40 %", "30 % to 40 %");
    check(
        &cell(FASTER, &own, &laid_out("40 % to 50 %", "40 % to 50 %")),
        None,
    );
    let fuller = laid_out("46 % to 56 %", "46 % to 56 %");
    check(&cell(FASTER, &own, &fuller), Some("differing fullness"));
    let settled = |busy: u32| {
        move |o: &mut Observation| {
            let value = if o.round < Some(busy) {
                "devices busy"
            } else {
                "yes"
            };
            o.facts.push(fact(FactClass::Host, "settled", value));
        }
    };
    check(&cell(FASTER, &settled(0), &settled(3)), None);
    check(&cell(FASTER, &settled(4), &settled(5)), None);
    let busy = cell(FASTER, &settled(0), &settled(10));
    check(&busy, Some("differing settled: yes against devices busy"));
}

#[test]
fn if_a_trait_of_workloads_is_compared_it_is_the_only_axis() {
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
fn a_different_kind_of_end_objects_to_every_verdict() {
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
    // The same mixture on both sides does not explain a difference.
    let mixed = cell(FASTER, &by_round, &by_round);
    check(&mixed, None);
    assert!(has(
        &mixed,
        "the trials of zfs differ in kernel (6.1, 6.18)"
    ));
}

#[test]
fn timed_trials_must_be_steady_but_finite_ones_need_not() {
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
        let counts = "zfs alone not steady (drift): 0 of 10 trials of ext4, 6 of 10 trials of zfs";
        check(&six, Some(counts));
        assert_eq!(
            six.side.flags[0].to_string(),
            "not steady in 6 of 10 trials"
        );
        let all = cell(level, &of_rounds(10, two.clone()), NOTHING);
        check(
            &all,
            Some(
                "ext4 alone not steady (several regimes): 10 of 10 trials of ext4, 0 of 10 trials of zfs",
            ),
        );
        let alike = cell(
            level,
            &of_rounds(7, drifting.clone()),
            &of_rounds(8, drifting.clone()),
        );
        check(&alike, None);
        assert!(has(
            &alike,
            "both not steady (drift): 7 of 10 trials of ext4, 8 of 10 trials of zfs"
        ));
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
fn too_few_trials_have_precedence_over_all_objections() {
    let trials = both(
        imported("ext4", "job", &[1.0, 2.0, 3.0]),
        each(imported("zfs", "job", &[4.0, 5.0, 6.0]), |o| {
            o.kind = Kind::Finite;
        }),
    );
    let trials = each(trials, |o| {
        if o.kind == Kind::Unknown {
            o.kind = Kind::Timed;
        }
    });
    let cell = only_cell(&trials);
    assert!(matches!(cell.verdict, Verdict::CannotDecide { .. }));
    assert!(has(
        &cell,
        "one side ended by its runtime, the other when its work was done"
    ));
}

#[test]
fn a_condition_of_one_side_needs_counts_that_differ_significantly() {
    let upto = |kind, rounds: u32| {
        move |o: &mut Observation| {
            if o.round < Some(rounds) {
                o.flags.push(warning(kind));
            }
        }
    };
    for kind in [FindingKind::OtherIo, FindingKind::CacheServed] {
        // Fisher's exact test: p = 1, 0.65, 0.17 and 0.011.
        for (baseline, candidate, objects) in
            [(5, 6, false), (4, 6, false), (2, 6, false), (0, 6, true)]
        {
            let found = cell(EQUAL, &upto(kind, baseline), &upto(kind, candidate));
            let counts = "0 of 10 trials of ext4, 6 of 10 trials of zfs";
            check(&found, objects.then_some(counts));
        }
        let both = cell(EQUAL, &upto(kind, 6), &upto(kind, 5));
        check(&both, None);
        assert!(both.notes.iter().any(|note| note.starts_with("both ")));
    }
}

#[test]
fn limits_of_client_and_device_object_if_they_would_explain_the_result() {
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
        assert!(has(
            &faster,
            "0 of 10 trials of ext4, 10 of 10 trials of zfs): the difference may be larger than it seems"
        ));
        assert_eq!(faster.side.flags[0].to_string(), words);
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
fn a_saturated_client_does_not_object_if_clients_are_compared() {
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
fn compressible_or_unwritten_data_on_one_side_object_to_a_difference() {
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
fn io_of_other_processes_objects_unless_the_disturbed_side_is_faster() {
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
fn conditions_caused_by_a_side_itself_are_noted_and_do_not_change_the_verdict() {
    for (kind, words) in [
        (
            FindingKind::MemoryPressure,
            "zfs alone was short of memory (0 of 10 trials of ext4, 10 of 10 trials of zfs)",
        ),
        (
            FindingKind::DirtyThrottled,
            "zfs alone had its writers throttled",
        ),
        (FindingKind::QueueSaturated, "zfs alone had a full queue"),
        (FindingKind::CpuQuota, "zfs alone used up its CPU quota"),
        (
            FindingKind::CpuContention,
            "zfs alone had workers that waited for a CPU",
        ),
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
            // Of the slower side only: what slows down the faster one is not the reason.
            assert_eq!(
                has(&one, "it may be why"),
                level == SLOWER,
                "{:?}",
                one.notes
            );
            let larger = "the difference may be larger than it seems";
            assert_eq!(has(&one, larger), level == FASTER, "{:?}", one.notes);
            let of_baseline = cell(level, &met, NOTHING);
            assert_eq!(has(&of_baseline, "it may be why"), level == FASTER);
            let both = cell(level, &met, &met);
            check(&both, None);
            assert!(!has(&both, "it may be why"), "{:?}", both.notes);
        }
    }
}

#[test]
fn rounds_that_were_made_in_parts_are_reported() {
    let at = |late: u64| {
        move |o: &mut Observation| {
            let round = u64::from(o.round.unwrap_or(0));
            o.started_unix_ms = Some(1000 + round * 10 + late);
        }
    };
    let note = |late: u64| {
        let cell = cell(FASTER, &at(0), &at(late));
        cell.notes
            .into_iter()
            .find(|note| note.contains("in parts"))
    };
    // One after the other in each round, also at the same millisecond.
    for late in [0, 5, 9] {
        assert_eq!(note(late), None, "{late}");
    }
    let all = "10 of 10 rounds ran in parts, with other rounds in between: \
               changes of the host are in their ratios";
    assert_eq!(note(5000).as_deref(), Some(all));
    let first_ones = |o: &mut Observation| match o.round {
        Some(0..3) => at(5000)(o),
        _ => at(5)(o),
    };
    let three = cell(FASTER, &at(0), &first_ones);
    assert!(
        has(&three, "3 of 10 rounds ran in parts"),
        "{:?}",
        three.notes
    );
}
