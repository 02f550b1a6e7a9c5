//! Texts of file operations: all errors at once with their locations, arbitrary texts without a panic, and
//! texts written from a workload parse to the same workload.

use iodyno_experiment::fileops::{Described, named, names, read, text, write};
use iodyno_model::{
    Action, Arrival, Content, CycleStep, Diagnostic, Direction, FileSet, Operations, PickOrder,
    Subject, Work, Writing,
};
use iodyno_units::Nanos;
use proptest::collection::vec;
use proptest::prelude::*;

/// Errors as `LINE:COLUMN message | hint`.
fn said(faults: &[Diagnostic]) -> Vec<String> {
    let one = |fault: &Diagnostic| {
        let place = fault.place.as_ref().expect("a place");
        let hint = fault.hint.as_deref().unwrap_or("");
        format!("{}:{} {} | {hint}", place.line, place.column, fault.message)
    };
    faults.iter().map(one).collect()
}

/// Each expectation is the beginning of a message and, after `…`, a part of it.
#[track_caller]
fn check(text: &str, expected: &[&str]) {
    let faults = read("mine.toml", text).err().unwrap_or_default();
    let said = said(&faults);
    assert_eq!(said.len(), expected.len(), "{text}\n{said:#?}");
    for (said, expected) in said.iter().zip(expected) {
        let (begin, part) = expected.split_once('…').unwrap_or((expected, ""));
        assert!(
            said.starts_with(begin) && said.contains(part),
            "{text}\n`{said}`\nis not `{expected}`"
        );
    }
}

/// A text with these lines before a valid cycle.
fn with_head(lines: &str) -> String {
    format!("{lines}\n[[cycle]]\nop = 'statfs'\ntimed = true\n")
}

/// A text with these steps, each `key=value` separated by commas.
fn with_steps(steps: &[&str]) -> String {
    let mut text = "duration = '1s'\n".to_owned();
    for step in steps {
        text += &format!("[[cycle]]\n{}\n", step.replace(", ", "\n"));
    }
    text
}

#[test]
fn top_level_keys_are_parsed_and_checked() {
    let fine = |lines: &str| check(&with_head(lines), &[]);
    fine("duration = '1s'");
    fine("max-ops = 5");
    fine("threads = 4096\nduration = '1.5ms'\nfolders = 'own'\nrate = 5\narrival = 'poisson'");
    fine("duration = '1s'\nrate = 0.5\ndrain = true\ncompress-percent = 100\nramp = '0s'");
    let one = |lines: &str, expected: &str| check(&with_head(lines), &[expected]);
    one("", "1:1 nothing ends the workload…duration");
    one(
        "durtion = '1s'\nmax-ops = 1",
        "1:1 unknown key `durtion`…did you mean `duration`?",
    );
    one(
        "max_ops = 1\nduration = '1s'",
        "1:1 unknown key `max_ops`…did you mean `max-ops`?",
    );
    one(
        "seed = 1\nduration = '1s'",
        "1:1 unknown key `seed`…the file may have `name`",
    );
    one(
        "duration = 10",
        "1:12 `duration` is a time with its unit, not the number 10…\"10s\"",
    );
    one(
        "duration = '10'",
        "1:12 `duration`: `10` has no unit; write `10s`",
    );
    one("duration = '0s'", "1:1 `duration` is 0");
    one("max-ops = 0", "1:11 `max-ops` is out of range…from 1");
    one("max-ops = -5", "1:11 `max-ops` is out of range");
    one(
        "max-ops = 1.5",
        "1:11 `max-ops` is a whole number, not the number 1.5",
    );
    one(
        "max-ops = '5'",
        "1:11 `max-ops` is a whole number, not the string \"5\"",
    );
    one("max-ops = 99999999999999999999", "1:11 …");
    one(
        "duration = '1s'\nthreads = 0",
        "2:11 `threads` is out of range…from 1 to 4096",
    );
    one(
        "duration = '1s'\nthreads = 4097",
        "2:11 `threads` is out of range",
    );
    one(
        "duration = '1s'\nfolders = 'shard'",
        "2:11 `folders` cannot be \"shard\"…did you mean `\"shared\"`?",
    );
    one(
        "duration = '1s'\nfolders = 1",
        "2:11 `folders` is a string, not the number 1",
    );
    one(
        "duration = '1s'\ndrain = 'yes'",
        "2:9 `drain` is `true` or `false`, not the string \"yes\"",
    );
    one(
        "duration = '1s'\nrate = 0",
        "2:8 `rate` is a number above 0, not the number 0",
    );
    one(
        "duration = '1s'\nrate = inf",
        "2:8 `rate` is a number above 0",
    );
    one(
        "duration = '1s'\nrate = nan",
        "2:8 `rate` is a number above 0",
    );
    one(
        "duration = '1s'\nrate = '5/s'",
        "2:8 `rate` is a number above 0, not the string",
    );
    one(
        "duration = '1s'\narrival = 'poisson'",
        "2:11 `arrival` has no effect without a `rate`",
    );
    one(
        "duration = '1s'\ncompress-percent = 101",
        "2:20 `compress-percent` is out of range…0 to 100",
    );
    fine("duration = '1s'\nchunk = '4KiB'\nsetup-threads = 1");
    one(
        "duration = '1s'\nchunk = '3KiB'",
        "2:1 `chunk` cannot have this size…a power of two, at most 1MiB",
    );
    one("duration = '1s'\nchunk = '2MiB'", "2:1 `chunk` cannot have");
    one(
        "duration = '1s'\nsetup-threads = 0",
        "2:17 `setup-threads` is out of range…from 1 to 256",
    );
    one(
        "duration = '1s'\nname = 'a b'",
        "2:8 \"a b\" cannot be a workload's name…letters",
    );
    one(
        "duration = '1s'\nname = ''",
        "2:8 \"\" cannot be a workload's name",
    );
    one("duration = '1s'\nname = 5", "2:8 `name` is a string");
    one(
        "duration = '1s'\nabout = \"a\\nb\"",
        "2:9 `about` is more than one line",
    );
    one(
        "duration = '1s'\nfiles = 5",
        "2:9 `files` is tables, not the number 5…`[[files]]`",
    );
    one(
        "duration = '1s'\nfiles = [5]",
        "2:10 `files` is tables, not the number 5",
    );
    one(
        "duration = 2020-01-01",
        "1:12 `duration` is a time with its unit, not a date",
    );
}

#[test]
fn steps_accept_the_keys_of_their_op() {
    let one = |step: &str, expected: &str| {
        check(
            &with_steps(&["op = 'statfs', timed = true", step]),
            &[expected],
        )
    };
    one("timed = true", "5:1 a step lacks `op`…add `op = ");
    one("op = 'statfs'", "5:1 a step lacks `timed`");
    one(
        "op = 'fsync', timed = true",
        "6:6 `op` cannot be \"fsync\"…did you mean `\"sync\"`?",
    );
    one(
        "op = 'frobnicate', timed = true",
        "6:6 `op` cannot be \"frobnicate\"…one of `create`, `open`",
    );
    one("op = 5, timed = true", "6:6 `op` is a string");
    one(
        "op = 'statfs', timed = 1",
        "7:9 `timed` is `true` or `false`",
    );
    one(
        "op = 'statfs', timd = true, timed = true",
        "7:1 unknown key `timd`…did you mean `timed`?",
    );
    one(
        "op = 'statfs', bytes = 5, timed = true",
        "7:1 `bytes` does not go with `statfs`…`op` and `timed` alone",
    );
    one(
        "op = 'append', bytes = 5, new-file-at = 6, of = 'current', timed = true",
        "9:1 `of` does not go with `append`…`bytes`, `new-file-at` and `keep`",
    );
    one(
        "op = 'append', bytes = 5, timed = true",
        "5:1 a step lacks `new-file-at`",
    );
    one(
        "op = 'append', bytes = 5, new-file-at = 4, timed = true",
        "5:1 5 bytes are appended to files of at most 4",
    );
    one(
        "op = 'append', bytes = 5, new-file-at = 5, keep = -1, timed = true",
        "9:8 `keep` is out of range",
    );
    one(
        "op = 'append', bytes = '5q', new-file-at = 5, timed = true",
        "7:9 `bytes`: cannot read `5q` as a size",
    );
    one(
        "op = 'append', bytes = true, new-file-at = 5, timed = true",
        "7:9 `bytes` is a size with its unit, not `true`",
    );
    one(
        "op = 'append', bytes = '2PiB', new-file-at = 5, timed = true",
        "7:9 `bytes`: cannot read",
    );
    one(
        "op = 'append', bytes = '2000TiB', new-file-at = 5, timed = true",
        "7:9 `bytes` is out of range…1 PiB",
    );
    one("op = 'unlink', timed = true", "5:1 a step lacks `of`");
    one(
        "op = 'unlink', of = 'files', timed = true",
        "7:6 unknown set \"files\"…there is `current`",
    );
    one(
        "op = 'unlink', of = 'curent', timed = true",
        "7:6 unknown set \"curent\"…did you mean `current`?",
    );
}

#[test]
fn impossible_steps_are_reported_at_their_location() {
    check(
        &with_steps(&["op = 'sync', timed = true"]),
        &["2:1 no file was created"],
    );
    let unclosed = [
        "op = 'create', timed = true",
        "op = 'unlink', of = 'current', timed = true",
    ];
    check(
        &with_steps(&unclosed),
        &["5:1 the file is still open: close it first"],
    );
    let ordered = [
        "op = 'create', timed = true",
        "op = 'close', timed = false",
        "op = 'stat', of = 'current', order = 'random', timed = true",
    ];
    check(
        &with_steps(&ordered),
        &["11:9 `order` has no effect on the current file"],
    );
    check(
        &with_steps(&["op = 'statfs', timed = false"]),
        &["1:1 no step of its cycle is timed…timed = true"],
    );
    check("duration = '1s'", &["1:1 its cycle has no step…[[cycle]]"]);
    check("", &["1:1 its cycle has no step"]);
    let inline = "duration = '1s'\ncycle = [{ op = 'close', timed = true }]\n";
    check(inline, &["2:10 no file was created"]);
}

#[test]
fn sets_are_parsed_and_checked() {
    let one = |set: &str, expected: &[&str]| {
        let text = format!(
            "[[files]]\n{}\n[[cycle]]\nop = 'unlink'\nof = 'f'\ntimed = true\n",
            set.replace(", ", "\n")
        );
        check(&text, expected);
    };
    one("name = 'f', count = 5, size = 0", &[]);
    one(
        "name = 'f', count = 0x10, size = '1.5MiB', fsync = false",
        &[],
    );
    one("name = 'f', size = 0", &["1:1 a set lacks `count`"]);
    one("name = 'f', count = 5", &["1:1 a set lacks `size`"]);
    one(
        "name = 'f', count = 0, size = 0",
        &["3:9 `count` is out of range"],
    );
    one(
        "name = 'f', count = 5, size = -1",
        &["4:8 `size` is out of range"],
    );
    one(
        "name = 'f', count = 5, sise = 0",
        &[
            "1:1 a set lacks `size`",
            "4:1 unknown key `sise`…did you mean `size`?",
        ],
    );
    one(
        "name = 'g', count = 5, size = 1",
        &["7:6 unknown set \"f\"…did you mean `g`"],
    );
    for name in ["", "a/b", "a.b", "..", "-a", "current", "ä"] {
        let text = format!(
            "[[files]]\nname = '{name}'\ncount = 1\nsize = 1\n[[cycle]]\nop = 'statfs'\ntimed = true\n"
        );
        let faults = read("mine.toml", &format!("duration = '1s'\n{text}")).unwrap_err();
        assert!(
            faults[0].message.contains("cannot be a set's name"),
            "{faults:?}"
        );
    }
    let twice = "duration = '1s'\n[[files]]\nname = 'a'\ncount = 1\nsize = 1\n[[files]]\nname = 'a'\ncount = 1\nsize = 1\n\
        [[cycle]]\nop = 'statfs'\ntimed = true\n";
    check(twice, &["7:8 there are two sets `a`"]);
}

#[test]
fn all_errors_are_reported_at_once_in_the_order_of_the_text() {
    let text = "name = 'x y'\nduraton = '1s'\nthreads = 0\n\n[[files]]\nname = 'f'\ncount = 'ten'\n\n\
        [[cycle]]\nop = 'craete'\ntimed = 1\n\n[[cycle]]\nop = 'close'\nbytes = 5\ntimed = true\n";
    check(
        text,
        &[
            "1:8 ",
            "2:1 unknown key `duraton`",
            "3:11 ",
            "5:1 a set lacks `size`",
            "7:9 `count` is a whole number",
            "10:6 `op` cannot be",
            "11:9 `timed`",
            "15:1 `bytes` does not go with `close`",
        ],
    );
    // If every step is valid, errors of their sequence are reported with the others.
    let text = "durtion = '1s'\nmax-ops = 'x'\n[[cycle]]\nop = 'close'\ntimed = 5\n";
    check(text, &["1:1 ", "2:11 ", "3:1 no file was created", "5:9 "]);
}

#[test]
fn invalid_toml_is_reported_with_the_errors_of_the_valid_part() {
    check(
        "duration = '1s\nthreads = 0\n[[cycle]]\nop = 'statfs'\n",
        &[
            "1:14 invalid literal string",
            "2:11 `threads` is out of range",
        ],
    );
    check("name = 'a'\nname = 'b'\n", &["2:1 `name` is defined twice"]);
    check("[[cycle]\n", &["1:8 unclosed array table"]);
}

#[test]
fn a_text_without_a_name_is_named_by_its_file() {
    let text = with_head("duration = '1s'");
    assert_eq!(read("/a/b/my-work.toml", &text).unwrap().name, "my-work");
    let faults = read("my work.toml", &text).unwrap_err();
    assert_eq!(
        said(&faults),
        ["1:1 the file lacks `name` | add `name = \"my_workload\"`"]
    );
}

#[test]
fn defaults_are_filled_in() {
    let described = read("x.toml", &with_head("duration = '1s'")).unwrap();
    let operations = described.job.work.file_operations().unwrap();
    assert_eq!(described.about, "statfs timed");
    assert!(!operations.own_folders && !operations.drain);
    assert_eq!(
        (described.job.clones, described.job.pacing.ops_per_s),
        (1, 0.0)
    );
    let text = "[[files]]\nname='f'\ncount=1\nsize=1\n[[cycle]]\nop='unlink'\nof='f'\ntimed=true\n";
    let described = read("x.toml", text).unwrap();
    let operations = described.job.work.file_operations().unwrap();
    assert!(operations.drain && operations.sets[0].fsync);
    let of = Subject::Set {
        name: "f".to_owned(),
        order: PickOrder::Newest,
    };
    assert_eq!(operations.cycle[0].action, Action::Unlink { of });
}

/// The page for users.
fn page() -> String {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../../docs/file-operations.md"
    );
    std::fs::read_to_string(path).expect("docs/file-operations.md")
}

#[test]
fn the_page_lists_all_named_workloads() {
    let page = page();
    for entry in names() {
        assert!(
            page.contains(&format!("`{}`", entry.name)),
            "{}",
            entry.name
        );
    }
}

#[test]
fn the_page_describes_every_key_and_op_and_its_examples_are_valid() {
    let page = page();
    for word in [
        "name",
        "about",
        "threads",
        "folders",
        "duration",
        "max-ops",
        "ramp",
        "rate",
        "arrival",
        "drain",
        "compress-percent",
        "chunk",
        "setup-threads",
        "count",
        "size",
        "fsync",
        "op",
        "timed",
        "of",
        "order",
        "bytes",
        "new-file-at",
        "keep",
        "length",
    ] {
        assert!(
            page.contains(&format!("\n| `{word}` |")),
            "`{word}` has no line"
        );
    }
    // `run` is the step of a command, which the page does not describe.
    let no_steps = [
        Direction::Read,
        Direction::Trim,
        Direction::Op,
        Direction::Run,
    ];
    let steps = Direction::EVERY
        .into_iter()
        .filter(|direction| !no_steps.contains(direction));
    for op in steps.map(Direction::name).chain(["append"]) {
        assert!(page.contains(&format!("\n| `{op}`")), "`{op}` has no line");
    }
    let examples: Vec<&str> = page
        .split("```toml\n")
        .skip(1)
        .filter_map(|rest| rest.split("```").next())
        .collect();
    assert!(!examples.is_empty());
    for example in examples {
        read("example.toml", example).unwrap_or_else(|faults| panic!("{example}\n{faults:?}"));
    }
}

fn order() -> impl Strategy<Value = PickOrder> {
    prop_oneof![
        Just(PickOrder::Newest),
        Just(PickOrder::Oldest),
        Just(PickOrder::Random)
    ]
}

fn bytes() -> impl Strategy<Value = u64> {
    prop_oneof![
        1u64..5000,
        (1u64..1000).prop_map(|n| n << 10),
        (0u32..=40).prop_map(|shift| 1 << shift)
    ]
}

fn time() -> impl Strategy<Value = Nanos> {
    prop_oneof![
        1u64..5000,
        (1u64..5000).prop_map(|ms| ms * 1_000_000),
        1u64..u64::MAX / 2
    ]
    .prop_map(Nanos)
}

/// Steps that are valid after any other steps.
fn block() -> impl Strategy<Value = Vec<Action>> {
    let set = || {
        order().prop_map(|order| Subject::Set {
            name: "b-1".to_owned(),
            order,
        })
    };
    let on_open = prop_oneof![
        bytes().prop_map(|bytes| Action::Write { bytes }),
        bytes().prop_map(|bytes| Action::Fallocate { bytes }),
        bytes().prop_map(|length| Action::Truncate { length: length - 1 }),
        Just(Action::Sync),
    ];
    let current = || Subject::Current;
    prop_oneof![
        vec(on_open.clone(), 0..4).prop_map(move |steps| {
            let ends = [
                Action::Close,
                Action::Rename { of: current() },
                Action::Unlink { of: current() },
            ];
            [vec![Action::Create], steps, ends.to_vec()].concat()
        }),
        (set(), vec(on_open, 0..3)).prop_map(|(of, steps)| [
            vec![Action::Open { of }],
            steps,
            vec![Action::Close]
        ]
        .concat()),
        (bytes(), bytes(), proptest::option::of(0u32..9)).prop_map(|(bytes, more, keep)| {
            vec![
                Action::Append {
                    bytes,
                    new_file_at: bytes + more,
                    keep,
                },
                Action::Sync,
            ]
        }),
        set().prop_map(|of| vec![
            Action::Stat { of: of.clone() },
            Action::Rename { of: of.clone() },
            Action::Unlink { of }
        ]),
        Just(vec![
            Action::Mkdir,
            Action::Readdir,
            Action::Rmdir,
            Action::SyncFolder,
            Action::Statfs
        ]),
    ]
}

prop_compose! {
    fn job_parts()(
        threads in 1u32..=4096,
        runtime in time(),
        ops in proptest::option::of(1u64..i64::MAX as u64),
        ramp in proptest::option::of(time()),
        rate in proptest::option::of((1e-9f64..1e12, any::<bool>())),
        percent in 0u32..=100,
    ) -> (u32, Nanos, Option<u64>, Option<Nanos>, Option<(f64, bool)>, u32) {
        (threads, runtime, ops, ramp, rate, percent)
    }
}

prop_compose! {
    /// Any workload that can be described.
    fn described()(
        name in "[a-zA-Z0-9][a-zA-Z0-9_.-]{0,20}",
        about in "\\PC{0,40}",
        (threads, runtime, ops, ramp, rate, percent) in job_parts(),
        sizes in vec((1u64..1_000_000, 0u64..1 << 20, any::<bool>()), 1..4),
        blocks in vec((block(), any::<bool>()), 1..5),
        own_folders in any::<bool>(),
        drain in any::<bool>(),
        writing in (0u32..=20, proptest::option::of(1u32..=256))
            .prop_map(|(shift, threads)| Writing { chunk: 1 << shift, threads }),
    ) -> Described {
        let set = |(index, (count, size, fsync)): (usize, (u64, u64, bool))| FileSet {
            // Blocks take files from the first set, which always exists.
            name: format!("b-{}", index + 1), count, size, fsync, folders: false,
        };
        let steps = blocks.into_iter().flat_map(|(block, timed)| {
            block.into_iter().map(move |action| CycleStep { action, timed })
        });
        let mut cycle: Vec<CycleStep> = steps.collect();
        cycle[0].timed = true;
        let mut job = named("create_empty").unwrap().job;
        job.name.clone_from(&name);
        job.description.clone_from(&about);
        job.clones = threads;
        job.work = Work::FileOperations(Operations {
            about: about.clone(),
            sets: sizes.into_iter().enumerate().map(set).collect(),
            cycle, own_folders, drain, writing, fio: None, command: None,
        });
        job.end.runtime = Some(runtime);
        job.end.ops = ops;
        job.end.ramp = ramp.unwrap_or_default();
        if let Some((rate, poisson)) = rate {
            job.pacing.ops_per_s = rate / f64::from(threads);
            job.pacing.arrival = if poisson { Arrival::Poisson } else { Arrival::Linear };
        }
        if percent > 0 {
            job.buffers.content = Content::Compressible { percent, chunk: 0, pattern: None };
        }
        Described { name, about, job }
    }
}

/// Every error has a location within the text.
fn places_are_there(text: &str, faults: &[Diagnostic]) -> Result<(), TestCaseError> {
    let lines: Vec<&str> = text.split('\n').collect();
    for fault in faults {
        let place = fault.place.as_ref().expect("a place");
        let line = lines.get(place.line as usize - 1).copied();
        prop_assert_eq!(
            line.map(|line| line.strip_suffix('\r').unwrap_or(line)),
            Some(place.text.as_str())
        );
        let end = (place.column - 1 + place.length) as usize;
        prop_assert!(
            place.column >= 1 && end <= place.text.chars().count().max(1),
            "{:?}",
            place
        );
    }
    Ok(())
}

proptest! {
    #[test]
    fn a_workload_that_is_written_is_read_as_it_was(described in described()) {
        let text = write(&described);
        let again = read("x.toml", &text);
        prop_assert_eq!(again, Ok(described), "{}", text);
    }

    #[test]
    fn any_text_is_read_or_refused_with_places(text in "\\PC*") {
        if let Err(faults) = read("x.toml", &text) {
            prop_assert!(!faults.is_empty());
            places_are_there(&text, &faults)?;
        }
    }

    #[test]
    fn a_named_text_with_a_slip_is_read_or_refused_with_places(
        which in 0usize..19, at in 0usize..2000, cut in 0usize..4, put in "[a-z0-9='\"\\[\\]{}\n.é-]{0,3}",
    ) {
        let name = names()[which].name;
        let whole: Vec<char> = text(name).unwrap().chars().collect();
        let at = at % whole.len();
        let end = (at + cut).min(whole.len());
        let slipped: String = whole[..at].iter().copied().chain(put.chars()).chain(whole[end..].iter().copied()).collect();
        match read("x.toml", &slipped) {
            Ok(described) => prop_assert_eq!(read("x.toml", &write(&described)), Ok(described)),
            Err(faults) => places_are_there(&slipped, &faults)?,
        }
    }
}
