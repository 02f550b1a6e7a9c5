//! The flags of fio's command line.

use std::path::Path;

use crate::case::{Case, Language, Look, case};
use crate::looks::{FAULT, FILES, joined};
use crate::run::Run;

pub(crate) static LANGUAGE: Language = Language {
    name: "flags",
    options: || iodyno_fio::honoured_flags().map(str::to_owned).collect(),
    topics: &[CASES],
    arguments,
};

/// Each word is an option or a flag, except names of job files.
fn arguments(_: &Path, _: &Look, words: &str) -> Vec<String> {
    let words = words
        .split_whitespace()
        .map(|word| match word.ends_with(".fio") {
            true => word.to_owned(),
            false => format!("--{word}"),
        });
    std::iter::once("fio".to_owned()).chain(words).collect()
}

#[rustfmt::skip]
const CASES: &[Case] = &[
    case("output", FORMATS, "no-store name=t ioengine=sim size=8k", &[("", "printed: normal"), ("output=x", "printed: x: normal")]),
    case("output-format", FORMATS, "no-store name=t ioengine=sim size=8k", &[("", "printed: normal"), ("output-format=json", "printed: json"), ("output-format=json+", "printed: json+"), ("output-format=terse", "printed: terse 3"), ("output-format=terse,normal,json", "printed: terse 3 json normal")]),
    case("minimal", FORMATS, "no-store name=t ioengine=sim size=8k", &[("", "printed: normal"), ("minimal", "printed: terse 3")]),
    case("append-terse", FORMATS, "no-store name=t ioengine=sim size=8k", &[("", "printed: normal"), ("append-terse", "printed: terse 3 normal")]),
    case("terse-version", FORMATS, "no-store name=t ioengine=sim size=8k output-format=terse", &[("", "printed: terse 3"), ("terse-version=2", "printed: terse 2"), ("terse-version=4", "printed: terse 4"), ("terse-version=5", "printed: terse 5")]),
    case("status-interval", COUNTS, "no-store name=t ioengine=sim sim_latency=constant:1ms size=1g time_based runtime=4 output-format=json", &[("", "1 documents, 0 lines"), ("status-interval=2", "3 documents, 0 lines")]),
    case("eta", COUNTS, "no-store name=t ioengine=sim sim_latency=constant:1ms size=1g time_based runtime=30 output-format=json", &[("", "1 documents, 0 lines"), ("eta=never", "1 documents, 0 lines"), ("eta=always", "1 documents, 3 lines")]),
    case("eta-newline", COUNTS, "no-store name=t ioengine=sim sim_latency=constant:1ms size=1g time_based runtime=30 output-format=json", &[("eta=always", "1 documents, 3 lines"), ("eta=always eta-newline=5", "1 documents, 6 lines")]),
    case("allow-exec", FILES, "no-store name=t ioengine=null size=8k exec_prerun=ls", &[("", ""), ("allow-exec", "t.prerun.txt:13")]),
    case("bandwidth-log", FILES, "no-store name=t ioengine=sim sim_latency=constant:1ms size=8k", &[("", ""), ("bandwidth-log", "agg-read_bw.log:17 agg-trim_bw.log:14 agg-write_bw.log:14"), ("bandwidth-log=x", "x-read_bw.log:17 x-trim_bw.log:14 x-write_bw.log:14")]),
    case("section", JOBS, "no-store output-format=json j.fio", &[("", "a b c"), ("section=b", "b"), ("section=c section=a", "a c")]).after(sections),
    case("readonly", FAULT, "no-store quiet name=t ioengine=sim size=8k rw=write", &[("", "0"), ("readonly", "1 error: the job writes or trims, and `--readonly` was given")]),
    case("warnings-fatal", FAULT, "no-store quiet name=t ioengine=sim size=8k time_based", &[("", "0"), ("warnings-fatal", "1 error: `--warnings-fatal` makes this an error: `time_based` has no effect without a `runtime`")]),
    case("parse-only", FILES, "no-store name=t rw=write size=8k", &[("", "t.0.0:8k"), ("parse-only", "")]),
    case("showcmd", START, "no-store j.fio", &[("", "a: (g=0): rw=read, bs=(R)"), ("showcmd", "fio --name=a --ioengine=sim --size=4k")]).after(sections),
    case("version", START, "", &[("help", "iodyno fio [OPTION…] [JOBFILE…]"), ("version", "fio-3.42")]),
    case("help", START, "", &[("version", "fio-3.42"), ("help", "iodyno fio [OPTION…] [JOBFILE…]")]),
    case("cmdhelp", START, "", &[("version", "fio-3.42"), ("cmdhelp=bs", "bs: Block size; a"), ("cmdhelp", "# Jobs and groups")]),
    case("enghelp", START, "", &[("version", "fio-3.42"), ("enghelp=libaio", "nowait : Ops that"), ("enghelp", "Available IO engines: psync")]),
    case("quiet", WARNINGS, "no-store name=t ioengine=sim size=8k direct=1G", &[("", "warns"), ("quiet", "none")]),
    case("no-store", STORED, "name=t ioengine=sim size=8k", &[("", "stored"), ("no-store", "none")]),
    case("destroy", FAULT, "no-store name=t rw=write filename=image size=8k", &[("", "1 error: cannot write to `image`: it is not blank"), ("destroy=image", "0")]).after(image),
    case("dry-run", FILES, "no-store name=t rw=write size=8k", &[("", "t.0.0:8k"), ("dry-run", "")]),
    case("inflate-log", START, "", &[("version", "fio-3.42"), ("name=t no-store ioengine=sim sim_latency=constant:1ms size=4k write_bw_log=x log_store_compressed=1; inflate-log=x_bw.1.log.fz", "1, 4096, 0, 4096,")]),
    case("idle-prof", IDLE, "no-store quiet name=t ioengine=null size=8k rate_iops=10 time_based runtime=1", &[("", "none"), ("idle-prof=system", "of all CPUs"), ("idle-prof=percpu", "of all CPUs")]),
];

fn sections(folder: &Path) {
    let text = "[global]\nioengine=sim\nsize=4k\n[a]\n[b]\n[c]\n";
    std::fs::write(folder.join("j.fio"), text).unwrap();
}

/// The beginning of an image of qcow2.
fn image(folder: &Path) {
    let mut bytes = vec![0; 1 << 20];
    bytes[..8].copy_from_slice(b"QFI\xfb\0\0\0\x03");
    std::fs::write(folder.join("image"), bytes).unwrap();
}

/// In which formats a result is printed, and written to the file `x`.
const FORMATS: Look = Look::output("output", |run| {
    let file = match run.names().contains(&"x".to_owned()) {
        true => format!("x: {}", formats(&String::from_utf8(run.file("x")).unwrap())),
        false => String::new(),
    };
    format!("printed: {} {file}", formats(&run.done.stdout))
});

fn formats(text: &str) -> String {
    let terse = text.lines().find_map(|line| {
        let (version, rest) = line.split_once(';')?;
        (version.len() == 1 && rest.starts_with("fio-") || version == "2")
            .then(|| format!("terse {version}"))
    });
    let json = text
        .contains("\"fio version\"")
        .then(|| match text.contains("\"bins\"") {
            true => "json+".to_owned(),
            false => "json".to_owned(),
        });
    let normal = text.contains("Run status").then(|| "normal".to_owned());
    joined([terse, json, normal].into_iter().flatten())
}

/// How many results are printed, and how many lines of progress.
const COUNTS: Look = Look::output("output", |run| {
    let lines = run
        .done
        .stderr
        .lines()
        .filter(|line| line.contains(" IOPS "))
        .count();
    format!(
        "{} documents, {lines} lines",
        run.done.stdout.matches("\"fio version\"").count()
    )
});

const JOBS: Look = Look::output("output", |run| {
    let jobs = run.value("/jobs").as_array().cloned().unwrap_or_default();
    joined(
        jobs.iter()
            .map(|job| job["jobname"].as_str().unwrap_or_default().to_owned()),
    )
});

/// The first words of the output.
const START: Look = Look::output("output", |run| {
    joined(
        run.done
            .stdout
            .split_whitespace()
            .take(4)
            .map(str::to_owned),
    )
});

const WARNINGS: Look = Look::output("output", |run| {
    let warns = run.done.stderr.contains("warning: ");
    if warns { "warns" } else { "none" }.to_owned()
});

const STORED: Look = Look::output("store", |run: &Run| {
    if run.stored() { "stored" } else { "none" }.to_owned()
});

const IDLE: Look = Look::output("output", |run| {
    let idle = run.done.stdout.contains("CPU idleness");
    if idle { "of all CPUs" } else { "none" }.to_owned()
});
