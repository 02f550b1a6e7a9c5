//! The JSON of every command, compared with the documents in `golden/`.
//!
//! Programs read this JSON: a renamed, removed or reordered key, a number in another form, and a change of a figure
//! that follows from the seed all fail here. To accept an intended change:
//!
//!     IODYNO_GOLDEN=update cargo test -p iodyno --test program golden
//!
//! and read the diff of `golden/`. Runs are simulated in virtual time, or they are the runs stored in
//! `golden/*.iodyno`, which an earlier version exported: their figures are compared exactly. Values that differ
//! between runs are replaced before the comparison ([`Mask`]): ids, paths, wall clock, the description of the host,
//! and the figures of the few runs with real I/O. Sentences are replaced by `PROSE`, so that their wording can
//! change; floating-point numbers are rounded to 12 digits, because mathematical libraries differ in the last ones.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use crate::harness::{Done, Home};

/// Keys whose values are sentences; `text` only in a finding.
const PROSE: [&str; 15] = [
    "about",
    "derived",
    "found",
    "hint",
    "left_out",
    "message",
    "notes",
    "problem",
    "reason",
    "reasons",
    "remedy",
    "rule",
    "threshold",
    "why",
    "words",
];

/// Keys whose values come from the wall clock, or contain the version.
const WALL_CLOCK: [&str; 9] = [
    "duration_ms",
    "ended_unix_ms",
    "iodyno version",
    "job_start",
    "started_unix_ms",
    "time",
    "timestamp",
    "timestamp_ms",
    "unix_ms",
];

/// Keys below which all values depend on the host; the keys of the first level are kept.
const HOST: [&str; 2] = ["environment", "host"];

/// Keys whose complete values depend on the host if I/O is real.
const HOST_WHOLE: [&str; 12] = [
    "behaviour",
    "cpu",
    "device_shares",
    "devices",
    "findings",
    "notes",
    "resolution_limited",
    "sampling",
    "series",
    "steps",
    "totals",
    "unwritten_bytes",
];

/// Keys that a run with real I/O has on some hosts only: after a preemption, a late start, or an op without an end.
const HOST_OPTIONAL: [&str; 4] = ["at_least_ns", "in_flight", "node_stalls", "start_late_ns"];

/// Numbers that a run with real I/O gives on every host.
const SAME_ON_EVERY_HOST: [&str; 22] = [
    "attempt",
    "bytes",
    "bytes_per_op",
    "cell",
    "cells",
    "clones",
    "count",
    "depth",
    "failed_ops",
    "files",
    "files_per_op",
    "imported",
    "job",
    "length_bytes",
    "ops",
    "region_bytes",
    "round",
    "rounds",
    "short_ops",
    "trials_completed",
    "trials_planned",
    "version",
];

/// The values that are replaced before a document is compared.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mask {
    /// Only sentences: the document shows data that were stored by an older version.
    Stored,
    /// Also ids, paths, the wall clock and the host: the figures follow from the seed.
    Virtual,
    /// Also every figure that is not the same on every host; equal neighbours in arrays are merged.
    Real,
}

/// A JSON document that keeps the order of its keys and the form of its scalars.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Json {
    Scalar(String),
    Array(Vec<Json>),
    Object(Vec<(String, Json)>),
}

impl Json {
    /// Reads one or several consecutive documents, which serde_json has validated.
    fn documents(text: &str) -> Vec<Json> {
        let documents =
            serde_json::Deserializer::from_str(text).into_iter::<serde::de::IgnoredAny>();
        documents.for_each(|document| {
            document.unwrap_or_else(|error| panic!("{error} in:\n{text}"));
        });
        let mut rest = text;
        let mut documents = Vec::new();
        while !rest.trim_start().is_empty() {
            documents.push(Json::read(&mut rest));
        }
        documents
    }

    fn read(rest: &mut &str) -> Json {
        *rest = rest.trim_start();
        if let Some(inner) = rest.strip_prefix('{') {
            *rest = inner;
            let mut fields = Vec::new();
            while !Json::ends(rest, '}') {
                let key = Json::read_scalar(rest);
                *rest = rest.trim_start().strip_prefix(':').unwrap();
                fields.push((key.trim_matches('"').to_owned(), Json::read(rest)));
            }
            return Json::Object(fields);
        }
        if let Some(inner) = rest.strip_prefix('[') {
            *rest = inner;
            let mut elements = Vec::new();
            while !Json::ends(rest, ']') {
                elements.push(Json::read(rest));
            }
            return Json::Array(elements);
        }
        Json::Scalar(Json::read_scalar(rest))
    }

    /// Skips a comma, or the end of an array or object.
    fn ends(rest: &mut &str, bracket: char) -> bool {
        *rest = rest.trim_start();
        let after = rest.strip_prefix(bracket);
        *rest = after.unwrap_or_else(|| rest.strip_prefix(',').unwrap_or(rest).trim_start());
        after.is_some()
    }

    fn read_scalar(rest: &mut &str) -> String {
        let mut escaped = false;
        let mut quotes = 0;
        let end = rest.find(|letter: char| {
            let quote = letter == '"' && !escaped;
            escaped = letter == '\\' && !escaped;
            quotes += usize::from(quote);
            quotes == 2 || (quotes == 0 && (letter.is_whitespace() || ",]}".contains(letter)))
        });
        let end = end.map_or(rest.len(), |end| end + usize::from(quotes == 2));
        let (scalar, after) = rest.split_at(end);
        *rest = after;
        scalar.to_owned()
    }

    /// The fields of an object.
    fn fields(&mut self) -> &mut Vec<(String, Json)> {
        match self {
            Json::Object(fields) => fields,
            other => panic!("not an object: {other:?}"),
        }
    }

    /// The elements of the array below a key.
    fn array(&mut self, key: &str) -> &mut Vec<Json> {
        match self.fields().iter_mut().find(|(name, _)| name == key) {
            Some((_, Json::Array(elements))) => elements,
            other => panic!("not an array: {other:?}"),
        }
    }

    /// Whether the object has this text for a key.
    fn is(&mut self, key: &str, text: &str) -> bool {
        let expected = Json::Scalar(format!("\"{text}\""));
        self.fields()
            .iter()
            .any(|(name, value)| name == key && *value == expected)
    }

    fn masked(self, parent: &str, key: &str, mask: Mask) -> Json {
        let live = mask != Mask::Stored;
        let token = |word: &str| Json::Scalar(word.to_owned());
        if mask == Mask::Real && HOST_WHOLE.contains(&key) {
            return token("HOST");
        }
        match self {
            Json::Scalar(_) if live && WALL_CLOCK.contains(&key) => token("WHEN"),
            Json::Scalar(_) if live && HOST.contains(&key) => token("HOST"),
            Json::Scalar(text) if text.starts_with('"') => {
                let prose = PROSE.contains(&key) || (parent, key) == ("findings", "text");
                Json::Scalar(if prose { "PROSE".to_owned() } else { text })
            }
            Json::Scalar(word) if word.starts_with(char::is_alphabetic) => Json::Scalar(word),
            Json::Scalar(_) if mask == Mask::Real && !SAME_ON_EVERY_HOST.contains(&key) => {
                token("N")
            }
            Json::Scalar(number) => Json::Scalar(rounded(number)),
            Json::Object(fields) => {
                let hidden = live && HOST.contains(&key);
                let present = |name: &str| mask != Mask::Real || !HOST_OPTIONAL.contains(&name);
                let fields = fields.into_iter().filter(|(name, _)| present(name));
                let masked = fields.map(|(name, value)| {
                    let value = match hidden {
                        true => token("HOST"),
                        false => value.masked(key, &name, mask),
                    };
                    (name, value)
                });
                Json::Object(masked.collect())
            }
            Json::Array(elements) => {
                let masked = elements
                    .into_iter()
                    .map(|element| element.masked(parent, key, mask));
                let mut masked: Vec<Json> = masked.collect();
                if mask == Mask::Real {
                    masked.dedup();
                }
                Json::Array(masked)
            }
        }
    }

    /// Replaces one text by another in all scalars.
    fn replaced(self, from: &str, to: &str) -> Json {
        match self {
            Json::Scalar(scalar) => Json::Scalar(scalar.replace(from, to)),
            Json::Object(fields) => Json::Object(
                fields
                    .into_iter()
                    .map(|(name, value)| (name, value.replaced(from, to)))
                    .collect(),
            ),
            Json::Array(elements) => Json::Array(
                elements
                    .into_iter()
                    .map(|element| element.replaced(from, to))
                    .collect(),
            ),
        }
    }

    /// Formats the document: a value that does not fit into one line starts a new one.
    fn print(&self, depth: usize, text: &mut String) {
        let (brackets, parts): (_, Vec<(Option<&str>, &Json)>) = match self {
            Json::Scalar(scalar) => return text.push_str(scalar),
            Json::Array(elements) => (
                ["[", "]"],
                elements.iter().map(|element| (None, element)).collect(),
            ),
            Json::Object(fields) => (
                ["{", "}"],
                fields
                    .iter()
                    .map(|(key, value)| (Some(key.as_str()), value))
                    .collect(),
            ),
        };
        let mut lines = Vec::new();
        for (key, value) in parts {
            let mut line = key.map_or(String::new(), |key| format!("\"{key}\": "));
            value.print(depth + 1, &mut line);
            lines.push(line);
        }
        let length: usize = lines.iter().map(|line| line.len() + 2).sum();
        let flat = length < 140 && !lines.iter().any(|line| line.contains('\n'));
        let indent = |depth: usize| format!("\n{}", "  ".repeat(depth));
        let (before, between, after) = match flat {
            true => (String::new(), ", ".to_owned(), String::new()),
            false => (
                indent(depth + 1),
                format!(",{}", indent(depth + 1)),
                indent(depth),
            ),
        };
        let _ = write!(
            text,
            "{}{before}{}{after}{}",
            brackets[0],
            lines.join(&between),
            brackets[1]
        );
    }
}

/// A number rounded to 12 digits.
fn rounded(number: String) -> String {
    let digits = number.chars().filter(char::is_ascii_digit).count();
    match number.contains(['.', 'e']) && digits > 12 {
        true => format!(
            "{}",
            format!("{:.11e}", number.parse::<f64>().unwrap())
                .parse::<f64>()
                .unwrap()
        ),
        false => number,
    }
}

/// Replaces every hexadecimal id of a run, with or without hyphens.
fn without_ids(text: &str) -> String {
    let mut result = String::new();
    let mut word = String::new();
    for letter in text.chars().chain(['\0']) {
        if letter.is_ascii_hexdigit() || letter == '-' {
            word.push(letter);
            continue;
        }
        result += &match uuid_in(&word) {
            Some(id) => word.replacen(&id, "RUN-ID", 1),
            None => std::mem::take(&mut word),
        };
        word.clear();
        result.push(letter);
    }
    result.pop();
    result
}

/// A UUID of version 7 in a word of hexadecimal digits and hyphens.
fn uuid_in(word: &str) -> Option<String> {
    let parts: Vec<&str> = word.split('-').collect();
    let lengths: Vec<usize> = parts.iter().map(|part| part.len()).collect();
    if let Some(at) = lengths.windows(5).position(|five| five == [8, 4, 4, 4, 12]) {
        return parts[at + 2]
            .starts_with('7')
            .then(|| parts[at..at + 5].join("-"));
    }
    let plain = parts
        .iter()
        .find(|part| part.len() == 32 && part[12..].starts_with('7'));
    plain.map(|id| (*id).to_owned())
}

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/program/golden")
        .join(name)
}

/// Compares the output of a command with `golden/NAME.json`.
#[track_caller]
fn is_golden(home: &Home, name: &str, mask: Mask, done: &Done) {
    documents_are_golden(home, name, mask, Json::documents(&done.stdout));
}

#[track_caller]
fn documents_are_golden(home: &Home, name: &str, mask: Mask, documents: Vec<Json>) {
    let work = home.work();
    let mut found = String::new();
    for document in documents {
        let mut document = document.masked("", "", mask);
        if mask != Mask::Stored {
            // Before printing, because lines are wrapped according to the lengths of these values.
            document = document.replaced(work.to_str().unwrap(), "/WORK");
        }
        document.print(0, &mut found);
        found.push('\n');
    }
    if mask != Mask::Stored {
        found = without_ids(&found);
    }
    let path = golden(&format!("{name}.json"));
    if std::env::var_os("IODYNO_GOLDEN").is_some_and(|it| it == "update") {
        return std::fs::write(path, found).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    if let Some(line) = expected
        .lines()
        .zip(found.lines())
        .position(|(one, other)| one != other)
    {
        let around = |text: &str| {
            let lines: Vec<&str> = text.lines().collect();
            lines[line.saturating_sub(6)..lines.len().min(line + 7)].join("\n")
        };
        panic!(
            "{}:{} differs; expected:\n{}\nfound:\n{}",
            path.display(),
            line + 1,
            around(&expected),
            around(&found)
        );
    }
    assert_eq!(
        expected.len(),
        found.len(),
        "{} is longer or shorter",
        path.display()
    );
}

/// Jobs of every kind of block I/O: a mix, a rate after a ramp in several clones, a later job with syncs.
const MIX: &str = "\
[global]
ioengine=sim
sim_latency=exponential:100us
percentile_list=50:99
size=1m

[mixed]
rw=randrw
rwmixread=70
bssplit=4k/60:16k/40
iodepth=4
sim_servers=2

[paced]
rw=randread
bs=4k
numjobs=3
group_reporting
rate_iops=1000
ramp_time=100ms
runtime=300ms
time_based

[later]
stonewall
startdelay=50ms
rw=write
bs=64k
fsync=4
";

/// A job on a device that fails each tenth op, and stops there.
const BROKEN: &str = "\
[t]
ioengine=sim
sim_latency=constant:100us
sim_faults=eio:10,short:7
rw=randread
bs=4k
size=160k
percentile_list=99
";

/// A home with a run of two configurations and three rounds.
fn home_with_rounds() -> (Home, Done) {
    let home = Home::new();
    home.file("mix.fio", MIX);
    for folder in ["a", "b"] {
        std::fs::create_dir(home.work().join(folder)).unwrap();
    }
    let done = home.iodyno(&[
        "run", "mix.fio", "--on", "a", "--on", "b", "--rounds", "3", "--seed", "7", "--json",
    ]);
    (home, done.succeeds())
}

#[test]
fn golden_plan() {
    let home = Home::new();
    home.file("mix.fio", MIX);
    let done = home.iodyno(&[
        "run",
        "mix.fio",
        "--on",
        "x=a",
        "--on",
        "y=b",
        "--dry-run",
        "--seed",
        "7",
        "--json",
    ]);
    is_golden(&home, "plan", Mask::Virtual, &done.succeeds());
    let done = home.iodyno(&[
        "fs",
        "run",
        "delete_small_dir_2MiB",
        "--threads",
        "2",
        "--dry-run",
        "--seed",
        "7",
        "--json",
    ]);
    is_golden(
        &home,
        "plan-of-file-operations",
        Mask::Virtual,
        &done.succeeds(),
    );
}

#[test]
fn golden_run_and_what_reads_it() {
    let (home, done) = home_with_rounds();
    is_golden(&home, "run", Mask::Virtual, &done);
    for (name, arguments) in [
        ("list", &["list", "--json"][..]),
        ("show", &["show", "last", "--json", "--trial", "2"]),
        (
            "show-fio",
            &["show", "last", "--format", "fio-json", "--trial", "1"],
        ),
        (
            "show-fio+",
            &["show", "last", "--format", "fio-json+", "--trial", "1"],
        ),
        ("compare", &["compare", "last", "--json"]),
        (
            "compare-metrics",
            &[
                "compare",
                "last",
                "--format",
                "json",
                "--metric",
                "read.p99,iops",
                "--baseline",
                "b",
                "--margin",
                "5%",
            ],
        ),
    ] {
        is_golden(
            &home,
            name,
            Mask::Virtual,
            &home.iodyno(arguments).succeeds(),
        );
    }
    // The same job in a second run with one trial: compared by run.
    home.iodyno(&["run", "mix.fio", "--seed", "8", "-q"])
        .succeeds();
    let done = home.iodyno(&["compare", "1", "2", "--json"]).succeeds();
    is_golden(&home, "compare-runs", Mask::Virtual, &done);
}

#[test]
fn golden_failures() {
    let home = Home::new();
    home.file("broken.fio", BROKEN);
    home.file("tough.fio", &format!("{BROKEN}continue_on_error=read\n"));
    let done = home.iodyno(&[
        "run",
        "broken.fio",
        "tough.fio",
        "--rounds",
        "2",
        "--seed",
        "7",
        "--json",
    ]);
    is_golden(&home, "run-failed", Mask::Virtual, &done.exits(4));
    is_golden(
        &home,
        "list-failed",
        Mask::Virtual,
        &home.iodyno(&["list", "--json"]).succeeds(),
    );
}

/// fio's command line has no option for the run's seed, which determines the random numbers of the device: its
/// service times are constant.
#[test]
fn golden_fio_command_line() {
    let home = Home::new();
    home.file("mix.fio", &MIX.replace("exponential", "constant"));
    for (name, format) in [("fio", "json"), ("fio+", "json+")] {
        let done = home
            .iodyno(&["fio", &format!("--output-format={format}"), "mix.fio"])
            .succeeds();
        is_golden(&home, name, Mask::Virtual, &done);
    }
}

#[test]
fn golden_check() {
    let home = Home::new();
    home.file("good.fio", MIX);
    home.file(
        "faulty.fio",
        "[t]\nrw=raed\nsize=4KiB\niodepth=32\n[u]\nioengine=rbd\nrw=read\nsize=1m\n\
         [v]\nioengine=sim\nverify=crc32c\nrw=write\nsize=1m\n",
    );
    let done = home
        .iodyno(&["check", "--json", "good.fio", "faulty.fio"])
        .exits(2);
    is_golden(&home, "check", Mask::Virtual, &done);
    is_golden(
        &home,
        "check-sound",
        Mask::Virtual,
        &home.iodyno(&["check", "--json", "good.fio"]).succeeds(),
    );
}

#[test]
fn golden_real_io() {
    let home = Home::new();
    home.file(
        "file.fio",
        "[t]\nioengine=psync\nrw=randrw\nbs=4k\nsize=256k\nfsync=8\nrandseed=7\npercentile_list=50\n",
    );
    let done = home
        .iodyno(&["run", "file.fio", "--seed", "7", "--no-settle", "--json"])
        .succeeds();
    is_golden(&home, "run-real", Mask::Real, &done);
    let operations = [
        "fs",
        "run",
        "delete_10k_2MB",
        "--files",
        "10",
        "--file-size",
        "4KiB",
        "--no-settle",
        "--no-drain",
    ];
    let done = home
        .iodyno(&[&operations[..], &["--seed", "7", "--json"]].concat())
        .succeeds();
    is_golden(&home, "fs-run", Mask::Real, &done);
    let fileio = [
        "fileio",
        "--file-total-size=256K",
        "--file-num=4",
        "--file-block-size=4K",
    ];
    home.iodyno(&[&fileio[..], &["prepare"]].concat())
        .succeeds();
    let run = ["--file-test-mode=seqrd", "--events=40", "--time=0", "run"];
    home.iodyno(&[&fileio[..], &run].concat()).succeeds();
    is_golden(
        &home,
        "fileio",
        Mask::Real,
        &home.iodyno(&["show", "last", "--json"]).succeeds(),
    );
    is_golden(
        &home,
        "list-real",
        Mask::Real,
        &home.iodyno(&["list", "--json"]).succeeds(),
    );
}

#[test]
fn golden_named_workloads() {
    let home = Home::new();
    is_golden(
        &home,
        "fs-list",
        Mask::Virtual,
        &home.iodyno(&["fs", "list", "--json"]).succeeds(),
    );
}

#[test]
fn golden_host() {
    let home = Home::new();
    let done = home.iodyno(&["doctor", "--json", "--for", "500ms", "."]);
    let mut documents = Json::documents(&done.stdout);
    // The list of checks depends on the host; these exist on all hosts. A passed check has no remedy.
    let checks = documents[0].array("checks");
    checks.retain_mut(|check| {
        ["clock source", "memory available", "other load"]
            .iter()
            .any(|name| check.is("name", name))
    });
    for field in checks
        .iter_mut()
        .flat_map(Json::fields)
        .filter(|(name, _)| name == "state")
    {
        field.1 = Json::Scalar("STATE".to_owned());
    }
    checks
        .iter_mut()
        .for_each(|check| check.fields().retain(|(name, _)| name != "remedy"));
    for field in documents[0]
        .fields()
        .iter_mut()
        .filter(|(name, _)| name == "fit")
    {
        field.1 = Json::Scalar("FIT".to_owned());
    }
    documents_are_golden(&home, "doctor", Mask::Virtual, documents);

    let done = home
        .iodyno(&["watch", "--once", "--json", "--every", "100ms"])
        .succeeds();
    let mut documents = Json::documents(&done.stdout);
    let series = documents[0].array("series");
    series.retain_mut(|table| {
        ["cpu", "load", "memory"]
            .iter()
            .any(|kind| table.is("kind", kind))
    });
    for table in series {
        let rows = table.array("rows");
        rows.truncate(1);
        *rows = rows
            .drain(..)
            .map(|row| row.masked("", "", Mask::Real))
            .collect();
    }
    for field in documents[0]
        .fields()
        .iter_mut()
        .filter(|(name, _)| name == "kernel")
    {
        field.1 = Json::Scalar("HOST".to_owned());
    }
    documents_are_golden(&home, "watch", Mask::Virtual, documents);
}

#[test]
fn golden_imports_of_others_results() {
    let home = Home::new();
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../input/import/tests/data");
    for name in [
        "ext4-zfs-fsbench.txt",
        "fio-3.33-clones.json",
        "sysbench-rndrw.txt",
        "zfs-mirror-table.txt",
        "zfs-sysbench.txt",
    ] {
        std::fs::copy(data.join(name), home.work().join(name)).unwrap();
        let done = home.iodyno(&["import", "--json", name]).succeeds();
        let stem = name.rsplit_once('.').unwrap().0;
        is_golden(&home, &format!("import-{stem}"), Mask::Virtual, &done);
    }
    is_golden(
        &home,
        "list-imported",
        Mask::Virtual,
        &home.iodyno(&["list", "--json"]).succeeds(),
    );
    is_golden(
        &home,
        "show-imported",
        Mask::Virtual,
        &home.iodyno(&["show", "4", "--json"]).succeeds(),
    );
    is_golden(
        &home,
        "compare-imported",
        Mask::Virtual,
        &home.iodyno(&["compare", "1", "--json"]).succeeds(),
    );
}

/// The structure of an exported run: the kind of each line, and the names of its fields.
#[test]
fn golden_export() {
    let (home, _) = home_with_rounds();
    let export = ["export", "last", "--names"];
    let bundle = home.iodyno(&export).succeeds().stdout;
    let mut kinds: Vec<Json> = Vec::new();
    for mut line in Json::documents(&bundle) {
        for (_, value) in line.fields() {
            if let Json::Object(fields) = value {
                fields
                    .iter_mut()
                    .for_each(|(_, value)| *value = Json::Scalar("…".to_owned()));
            }
        }
        if !kinds.contains(&line) {
            kinds.push(line);
        }
    }
    documents_are_golden(&home, "export", Mask::Virtual, kinds);
    home.file("run.iodyno", &bundle);
    home.iodyno(&["--store", "other.db", "import", "run.iodyno"])
        .succeeds();
    let here = home.iodyno(&["show", "last", "--json"]).succeeds();
    let there = home
        .iodyno(&["--store", "other.db", "show", "last", "--json"])
        .succeeds();
    assert_eq!(here.stdout, there.stdout);
}

/// Runs on a disk, exported by version 0.1.0: every figure, fact and series is compared.
#[test]
fn golden_exports_of_an_earlier_version() {
    for (name, fio, several) in [
        ("blocks", true, true),
        ("file-operations", false, false),
        ("shared-files", false, false),
    ] {
        let home = Home::new();
        let bundle = golden(&format!("{name}.iodyno"));
        home.iodyno(&["import", bundle.to_str().unwrap()])
            .succeeds();
        let check = |what: &str, arguments: &[&str]| {
            let done = home.iodyno(arguments).succeeds();
            is_golden(&home, &format!("{name}-{what}"), Mask::Stored, &done);
        };
        check("list", &["list", "--json"]);
        check("show", &["show", "last", "--json"]);
        if fio {
            check(
                "fio",
                &["show", "last", "--format", "fio-json", "--trial", "1"],
            );
            check(
                "series",
                &["show", "last", "--series", "all", "--json", "--trial", "1"],
            );
        }
        if several {
            check("compare", &["compare", "last", "--json", "--metric", "all"]);
        }
    }
}

/// A store written by the first version with a store.
#[test]
fn golden_store_of_schema_1() {
    let home = Home::new();
    let sql = include_str!("../../../../run/store/tests/fixtures/schema-1.sql");
    std::fs::create_dir_all(home.store().parent().unwrap()).unwrap();
    rusqlite::Connection::open(home.store())
        .unwrap()
        .execute_batch(sql)
        .unwrap();
    for (name, arguments) in [
        ("schema-1-list", &["list", "--json"][..]),
        ("schema-1-show", &["show", "1", "--json"]),
        ("schema-1-show-interrupted", &["show", "2", "--json"]),
        ("schema-1-show-fio", &["show", "1", "--format", "fio-json"]),
        ("schema-1-compare", &["compare", "1", "2", "--json"]),
    ] {
        is_golden(
            &home,
            name,
            Mask::Stored,
            &home.iodyno(arguments).succeeds(),
        );
    }
}
