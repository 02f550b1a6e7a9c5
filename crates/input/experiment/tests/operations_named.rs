//! Named workloads of file operations, and their changes by the command line.

use iodyno_experiment::fileops::{
    Described, Overrides, named, names, read, suggest, text, with_all, write,
};
use iodyno_model::{Action, Arrival, Content, Diagnostic, Direction, Operations, Subject, Writing};
use iodyno_units::Nanos;

const MIB: u64 = 1 << 20;

fn operations(described: &Described) -> &Operations {
    described
        .job
        .work
        .file_operations()
        .expect("file operations")
}

#[test]
fn every_named_workload_is_found_by_its_name_and_aliases() {
    let mut seen = Vec::new();
    for entry in names() {
        let source = text(entry.name).expect("a text");
        let described = read("elsewhere.toml", source).expect(entry.name);
        assert_eq!(described.name, entry.name);
        assert_eq!(described.about, entry.about);
        assert_eq!(named(entry.name).as_ref(), Some(&described));
        for alias in entry.aliases {
            assert_eq!(named(alias).as_ref(), Some(&described), "{alias}");
            assert_eq!(text(alias), Some(source), "{alias}");
        }
        seen.extend(entry.aliases.iter().chain([&entry.name]).copied());
    }
    assert_eq!(names().len(), 19);
    let many = seen.len();
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen.len(), many, "a name is there twice");
    assert_eq!((named("nope"), text("nope")), (None, None));
}

#[test]
fn names_of_the_original_tool_have_its_amounts() {
    for (name, known_as, bytes) in [
        ("delete_10k_2MiB", "delete_10k_2MB", 20_000 * MIB),
        ("delete_100k_2MiB", "delete_100k_2MB", 200_000 * MIB),
        ("delete_200k_2MiB", "delete_200k_2MB", 400_000 * MIB),
        ("write_sync_1MiB", "write_sync_1MB", 3 * 2048 * MIB),
        ("write_sync_16MiB", "write_sync_16MiB", 3 * 2048 * MIB),
        ("write_sync_128MiB", "write_sync_128MiB", 3 * 2048 * MIB),
        ("disk_usage_128MB", "disk_usage_128MB", 3 * 1024 * MIB),
        ("disk_usage_many_files", "disk_usage_many_files", 128 << 10),
        (
            "delete_large_dir_256MiB",
            "delete_large_dir_256MiB",
            100_256 * MIB,
        ),
        (
            "delete_large_dir_2MiB",
            "delete_large_dir_2MiB",
            100_002 * MIB,
        ),
        ("delete_small_dir_2GiB", "delete_small_dir_2GiB", 3048 * MIB),
        (
            "delete_small_dir_256MiB",
            "delete_small_dir_256MiB",
            1256 * MIB,
        ),
        ("delete_small_dir_2MiB", "delete_small_dir_2MiB", 1002 * MIB),
        ("create_empty", "create_empty", 0),
    ] {
        let described = named(name).expect(name);
        assert_eq!(
            (described.name.as_str(), described.needs().bytes),
            (known_as, bytes),
            "{name}"
        );
    }
}

#[test]
fn timed_steps_match_the_table_of_benchmarks() {
    let check = |name: &str, timed: &[Direction], drains: bool, seconds: Option<u64>| {
        let described = named(name).expect(name);
        let work = operations(&described);
        let times: Vec<Direction> = work
            .cycle
            .iter()
            .filter(|step| step.timed)
            .map(|step| step.action.direction())
            .collect();
        assert_eq!(times, timed, "{name}");
        assert_eq!(work.drain, drains, "{name}");
        assert_eq!(
            described.job.end.runtime,
            seconds.map(Nanos::from_secs),
            "{name}"
        );
        assert_eq!(described.job.clones, 1, "{name}");
        assert_eq!(described.job.buffers.content, Content::Random, "{name}");
    };
    use Direction::{Create, Statfs, Sync, SyncFolder, Unlink};
    check("create_empty", &[Create, SyncFolder], false, Some(10));
    for name in [
        "delete_10k_2MB",
        "delete_100k_2MB",
        "delete_200k_2MB",
        "delete_10k_2k_200MB",
    ] {
        check(name, &[Unlink], true, None);
    }
    for size in ["2MiB", "256MiB", "2GiB"] {
        check(
            &format!("delete_small_dir_{size}"),
            &[Unlink],
            true,
            Some(10),
        );
    }
    for size in ["2MiB", "256MiB"] {
        check(
            &format!("delete_large_dir_{size}"),
            &[Unlink],
            true,
            Some(10),
        );
    }
    for size in ["1MB", "10MB", "16MiB", "100MB", "128MiB"] {
        check(&format!("write_sync_{size}"), &[Sync], false, Some(10));
    }
    for name in [
        "statfs_many_files",
        "statfs_100MB",
        "disk_usage_many_files",
        "disk_usage_128MB",
    ] {
        check(name, &[Statfs], false, Some(10));
    }
}

#[test]
fn similar_names_are_suggested() {
    for (word, expected) in [
        ("create_emty", Some("create_empty")),
        ("delete_10k_2mb", Some("delete_10k_2MB")),
        ("delete_10k_2mib", Some("delete_10k_2MiB")),
        ("write-sync-10MB", Some("write_sync_10MB")),
        ("statfs_many_file", Some("statfs_many_files")),
        ("randrw.fio", None),
        ("", None),
    ] {
        assert_eq!(suggest(word).as_deref(), expected, "{word}");
    }
}

fn overridden(name: &str, overrides: &Overrides) -> Described {
    let described = named(name).expect(name);
    described
        .with(overrides)
        .unwrap_or_else(|faults| panic!("{name}: {faults:?}"))
}

fn files(of: Option<&str>, count: u64) -> Overrides {
    Overrides {
        files: vec![(of.map(str::to_owned), count)],
        ..Overrides::default()
    }
}

fn sized(of: Option<&str>, bytes: u64) -> Overrides {
    Overrides {
        file_size: vec![(of.map(str::to_owned), bytes)],
        ..Overrides::default()
    }
}

#[test]
fn a_number_or_size_without_a_name_applies_to_the_files_of_the_ops() {
    let check = |name: &str, overrides: Overrides, amounts: &str| {
        let changed = overridden(name, &overrides);
        assert_eq!(changed.amounts(), amounts, "{name} {overrides:?}");
        assert_eq!(changed.name, name);
        assert!(
            changed.about.ends_with(&format!(" (here: {amounts})")),
            "{}",
            changed.about
        );
        assert_eq!(operations(&changed).about, changed.about);
    };
    check("delete_10k_2MB", files(None, 100), "files 100 × 2 MiB");
    check(
        "delete_10k_2MB",
        files(Some("files"), 100),
        "files 100 × 2 MiB",
    );
    check("delete_10k_2MB", sized(None, 4096), "files 10000 × 4 KiB");
    check("delete_10k_2MB", sized(None, 0), "files 10000 × 0 B");
    check(
        "delete_10k_2k_200MB",
        files(None, 5),
        "small 8000 × 2 MiB, large 5 × 200 MiB",
    );
    check(
        "delete_10k_2k_200MB",
        sized(None, MIB),
        "small 8000 × 2 MiB, large 2000 × 1 MiB",
    );
    check(
        "delete_10k_2k_200MB",
        files(Some("small"), 7),
        "small 7 × 2 MiB, large 2000 × 200 MiB",
    );
    check(
        "delete_small_dir_2MiB",
        files(None, 9),
        "beside 9 × 1 MiB; a cycle writes 2 MiB",
    );
    check(
        "delete_small_dir_2MiB",
        sized(None, 9),
        "beside 1000 × 1 MiB; a cycle writes 9 B",
    );
    check(
        "delete_small_dir_2MiB",
        sized(Some("beside"), 0),
        "beside 1000 × 0 B; a cycle writes 2 MiB",
    );
    check(
        "write_sync_1MB",
        sized(None, 4096),
        "a cycle appends 4 KiB, a new file at 2 GiB",
    );
    check("statfs_many_files", sized(None, 1), "a cycle writes 1 B");
}

/// The workloads of a suite, or their errors, and the warnings.
fn suite(names: &[&str], overrides: &Overrides) -> (Vec<Result<Described, String>>, Vec<String>) {
    let suite: Vec<Described> = names.iter().map(|name| named(name).expect(name)).collect();
    let (changed, warnings) = with_all(&suite, overrides);
    let message = |faults: Vec<Diagnostic>| faults[0].message.clone();
    let warnings = warnings.into_iter().map(|warning| warning.message);
    (
        changed.into_iter().map(|it| it.map_err(message)).collect(),
        warnings.collect(),
    )
}

#[test]
fn what_a_workload_lacks_does_not_apply_to_it_if_another_of_the_suite_has_it() {
    let amounts = |names: &[&str], overrides: &Overrides| {
        let (changed, _) = suite(names, overrides);
        let amounts = changed.into_iter().map(|it| it.map(|it| it.amounts()));
        amounts.collect::<Vec<Result<String, String>>>()
    };
    let all = [
        "create_empty",
        "delete_10k_2MB",
        "delete_10k_2k_200MB",
        "write_sync_1MB",
    ];
    let fine = |texts: &[&str]| -> Vec<Result<String, String>> {
        texts.iter().map(|text| Ok((*text).to_owned())).collect()
    };
    assert_eq!(
        amounts(&all, &files(None, 5)),
        fine(&[
            "",
            "files 5 × 2 MiB",
            "small 8000 × 2 MiB, large 5 × 200 MiB",
            "a cycle appends 1 MiB, a new file at 2 GiB",
        ])
    );
    assert_eq!(
        amounts(&all, &sized(Some("small"), 4096)),
        fine(&[
            "",
            "files 10000 × 2 MiB",
            "small 8000 × 4 KiB, large 2000 × 200 MiB",
            "a cycle appends 1 MiB, a new file at 2 GiB",
        ])
    );
    let shorter = Overrides {
        new_file_at: Some(8 << 20),
        ..Overrides::default()
    };
    assert_eq!(
        amounts(&["create_empty", "write_sync_1MB"], &shorter),
        fine(&["", "a cycle appends 1 MiB, a new file at 8 MiB"])
    );
    // None of them has any.
    for found in amounts(&["create_empty", "write_sync_1MB"], &files(None, 5)) {
        assert!(found.is_err_and(|error| error.contains("creates no files beforehand")));
    }
}

#[test]
fn a_duration_for_timed_workloads_does_not_cut_off_deletes() {
    let minute = Overrides {
        duration: Some(Nanos::from_secs(60)),
        ..Overrides::default()
    };
    let durations = |names: &[&str]| {
        let (changed, warnings) = suite(names, &minute);
        let changed = changed.into_iter();
        let seconds = changed.map(|it| it.unwrap().job.end.runtime.map(|time| time.secs()));
        (seconds.collect::<Vec<Option<f64>>>(), warnings)
    };
    let (seconds, warnings) =
        durations(&["create_empty", "delete_10k_2MB", "delete_small_dir_2MiB"]);
    assert_eq!(seconds, [Some(60.0), None, Some(60.0)]);
    assert_eq!(
        warnings,
        ["the duration does not apply to `delete_10k_2MB`, which ends when `files` is empty"]
    );
    let (seconds, warnings) = durations(&["delete_10k_2MB", "delete_100k_2MB"]);
    assert_eq!((seconds, warnings.len()), (vec![Some(60.0); 2], 0));
}

#[test]
fn named_workloads_write_quickly_and_can_write_as_the_original_does() {
    let words = |described: &Described| operations(described).writing_in_words();
    for (name, expected) in [
        ("create_empty", ""),
        ("delete_10k_2MB", "1 MiB a write, 4 threads"),
        ("delete_10k_2k_200MB", "1 MiB a write, 4 and 1 threads"),
        ("write_sync_1MB", "1 MiB a write"),
    ] {
        assert_eq!(words(&named(name).unwrap()), expected, "{name}");
        let says = text(name).unwrap().contains("chunk = \"1MiB\"");
        assert_eq!(says, !expected.is_empty(), "{name}");
    }
    let Writing { chunk, threads } = Overrides::ORIGINAL;
    let original = Overrides {
        chunk: Some(chunk),
        setup_threads: threads,
        ..Overrides::default()
    };
    let delete = overridden("delete_10k_2MB", &original);
    assert_eq!(words(&delete), "1 KiB a write, 1 thread");
    assert_eq!(read("again.toml", &write(&delete)), Ok(delete));
}

#[test]
fn the_last_override_takes_effect() {
    let once = overridden("delete_10k_2MB", &files(None, 100));
    let twice = once.with(&sized(None, 4096)).expect("fits");
    assert!(
        twice
            .about
            .ends_with("the unlink timed (here: files 100 × 4 KiB)"),
        "{}",
        twice.about
    );
    assert_eq!(twice.needs().bytes, 100 * 4096);
}

#[test]
fn appended_files_are_at_least_as_long_as_one_append() {
    let described = overridden("write_sync_1MB", &sized(None, 3 << 30));
    let append = &operations(&described).cycle[0].action;
    let Action::Append {
        bytes, new_file_at, ..
    } = append
    else {
        panic!("{append:?}");
    };
    assert_eq!((*bytes, *new_file_at), (3 << 30, 3 << 30));
}

#[test]
fn threads_rate_time_and_content_are_set_in_the_job() {
    let overrides = Overrides {
        threads: Some(4),
        own_folders: Some(true),
        duration: Some(Nanos::from_secs(600)),
        max_ops: Some(1000),
        ramp: Some(Nanos::from_secs(2)),
        rate: Some(100.0),
        poisson: true,
        drain: Some(true),
        compress_percent: Some(50),
        ..Overrides::default()
    };
    let described = overridden("create_empty", &overrides);
    let job = &described.job;
    assert_eq!((job.clones, job.end.ops), (4, Some(1000)));
    assert_eq!(job.end.runtime, Some(Nanos::from_secs(600)));
    assert_eq!(job.end.ramp, Nanos::from_secs(2));
    assert_eq!(
        (job.pacing.ops_per_s, job.pacing.arrival),
        (25.0, Arrival::Poisson)
    );
    assert!(operations(&described).own_folders && operations(&described).drain);
    assert!(matches!(
        job.buffers.content,
        Content::Compressible { percent: 50, .. }
    ));
    assert_eq!(described.about, named("create_empty").unwrap().about);
    // The rate is that of all threads together, whatever their number becomes later.
    let fewer = Overrides {
        threads: Some(2),
        ..Overrides::default()
    };
    assert_eq!(described.with(&fewer).unwrap().job.pacing.ops_per_s, 50.0);
}

#[test]
fn empty_overrides_change_nothing() {
    for entry in names() {
        let described = named(entry.name).unwrap();
        assert_eq!(described.clone().with(&Overrides::default()), Ok(described));
    }
}

#[test]
fn invalid_overrides_are_refused_with_the_available_names() {
    let check = |name: &str, overrides: Overrides, expected: &[&str]| {
        let faults = named(name).unwrap().with(&overrides).expect_err(name);
        let said: Vec<String> = faults
            .iter()
            .map(|fault| {
                format!(
                    "{} | {}",
                    fault.message,
                    fault.hint.as_deref().unwrap_or("")
                )
            })
            .collect();
        assert_eq!(said.len(), expected.len(), "{said:#?}");
        for (said, part) in said.iter().zip(expected) {
            assert!(said.contains(part), "`{said}` has no `{part}`");
        }
    };
    let or = Overrides::default;
    check(
        "create_empty",
        files(None, 1),
        &["creates no files beforehand"],
    );
    check(
        "create_empty",
        files(Some("x"), 1),
        &["no set `x` | it creates no files beforehand"],
    );
    check("create_empty", sized(None, 1), &["writes nothing"]);
    check(
        "delete_10k_2k_200MB",
        files(Some("big"), 1),
        &["no set `big` | it has `small` and `large`"],
    );
    check(
        "delete_10k_2MB",
        files(None, 0),
        &["cannot have 0 files | it is from 1"],
    );
    check(
        "write_sync_1MB",
        sized(None, 0),
        &["a size of 0 B | it is from 1 bytes"],
    );
    check(
        "write_sync_1MB",
        sized(None, u64::MAX),
        &["1 bytes to 1 PiB"],
    );
    let twice = Overrides {
        files: vec![(None, 5), (Some("large".to_owned()), 6)],
        ..or()
    };
    check(
        "delete_10k_2k_200MB",
        twice,
        &["number of files of set `large` is given twice"],
    );
    let twice = Overrides {
        file_size: vec![(None, 5), (None, 6)],
        ..or()
    };
    check(
        "write_sync_1MB",
        twice,
        &["size of files of what a cycle writes is given twice"],
    );
    check(
        "create_empty",
        Overrides {
            threads: Some(0),
            ..or()
        },
        &["threads is out of range"],
    );
    check(
        "create_empty",
        Overrides {
            threads: Some(5000),
            ..or()
        },
        &["from 1 to 4096"],
    );
    check(
        "create_empty",
        Overrides {
            poisson: true,
            ..or()
        },
        &["requires a rate"],
    );
    for rate in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        check(
            "create_empty",
            Overrides {
                rate: Some(rate),
                ..or()
            },
            &["not a number above 0"],
        );
    }
    let all = Overrides {
        duration: Some(Nanos(0)),
        max_ops: Some(0),
        compress_percent: Some(101),
        files: vec![(Some("y".to_owned()), 1)],
        ..or()
    };
    check(
        "create_empty",
        all,
        &[
            "duration is 0",
            "number of ops",
            "more than 100 %",
            "no set `y`",
        ],
    );
}

#[test]
fn an_ambiguous_set_must_be_named() {
    let two = "name = 'two'\nduration = '1s'\n\
        [[files]]\nname = 'a'\ncount = 1\nsize = 1\n[[files]]\nname = 'b'\ncount = 1\nsize = 1\n\
        [[cycle]]\nop = 'stat'\nof = 'a'\ntimed = true\n[[cycle]]\nop = 'stat'\nof = 'b'\ntimed = true\n";
    let described = read("two.toml", two).expect("sound");
    for overrides in [files(None, 2), sized(None, 2)] {
        let faults = described.clone().with(&overrides).unwrap_err();
        assert!(faults[0].message.contains("not clear whose"), "{faults:?}");
        assert!(
            faults[0].hint.as_deref().unwrap().contains("`a` and `b`"),
            "{faults:?}"
        );
    }
    let named = described.with(&files(Some("b"), 2)).expect("named");
    assert_eq!(named.amounts(), "a 1 × 1 B, b 2 × 1 B");
}

#[test]
fn the_source_of_a_workload_includes_overrides() {
    let described = overridden("delete_10k_2k_200MB", &files(None, 20));
    let workload = described.workload();
    assert_eq!(workload.name, "delete_10k_2k_200MB");
    assert_eq!(workload.jobs.first(), Some(&described.job));
    let source = &workload.sources[0];
    assert!(
        source
            .text
            .contains("name = \"large\"\ncount = 20\nsize = \"200MiB\"\n"),
        "{}",
        source.text
    );
    assert_eq!(read(&source.name, &source.text), Ok(described));
}

#[test]
fn a_written_workload_is_short_and_uses_the_largest_units() {
    let expected = "name = \"create_empty\"\n\
        about = \"create an empty file and sync the folder; both timed\"\n\
        threads = 1\nfolders = \"shared\"\nduration = \"10s\"\ndrain = false\ncompress-percent = 0\n\n\
        [[cycle]]\nop = \"create\"\ntimed = true\n\n\
        [[cycle]]\nop = \"sync_folder\"\ntimed = true\n\n\
        [[cycle]]\nop = \"close\"\ntimed = false\n";
    assert_eq!(write(&named("create_empty").unwrap()), expected);
}

#[test]
fn a_delete_takes_its_file_from_the_created_set() {
    let described = named("delete_10k_2k_200MB").unwrap();
    let of = Subject::Set {
        name: "large".to_owned(),
        order: iodyno_model::PickOrder::Newest,
    };
    assert_eq!(
        operations(&described).cycle[0].action,
        Action::Unlink { of }
    );
}

#[test]
fn a_smaller_append_limit_reduces_the_space_needed() {
    let small = Overrides {
        new_file_at: Some(4 << 20),
        ..Overrides::default()
    };
    let described = named("write_sync_1MB").unwrap().with(&small).unwrap();
    assert_eq!(described.needs().bytes, 3 * (4 << 20));
    let faults = named("create_empty").unwrap().with(&small).unwrap_err();
    assert!(faults[0].message.contains("does not append"), "{faults:?}");
    let less_than_a_write = Overrides {
        new_file_at: Some(4096),
        ..Overrides::default()
    };
    assert!(
        named("write_sync_1MB")
            .unwrap()
            .with(&less_than_a_write)
            .is_err()
    );
}
