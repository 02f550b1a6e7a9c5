//! The compatibility page, generated from the option table.

use std::fmt::Write;

use super::engines::{Availability, ENGINES};
use super::flags::{FLAGS, FlagStatus};
use super::option::{OptionSpec, Status};
use super::options::{OPTIONS, TOPICS};

/// docs/fio-compatibility.md.
pub fn compatibility_markdown() -> String {
    let mut text = String::new();
    introduction(&mut text);
    for (topic, options) in TOPICS {
        let _ = write!(
            text,
            "## {topic}\n\n| option | value | default | status | what it does |\n|---|---|---|---|---|\n"
        );
        for option in options.iter() {
            let _ = writeln!(text, "{}", row(option));
        }
        text.push('\n');
    }
    engines(&mut text);
    flags(&mut text);
    text
}

fn introduction(text: &mut String) {
    let count = |test: fn(&Status) -> bool| OPTIONS.iter().filter(|o| test(&o.status)).count();
    let _ = write!(
        text,
        "# fio's options in iodyno\n\n\
         This page is generated from the option table; do not edit it. Regenerate it with\n\
         `cargo run -p iodyno-fio --example fio_compatibility > docs/fio-compatibility.md`.\n\n\
         Of {} options {} are honoured, {} are ignored (taken, without effect) and {} are refused \
         (a job that has one is not run).\nAn ignored or refused option may have a value that \
         asks for nothing special, such as `atomic=0`.\n\n",
        OPTIONS.len(),
        count(|status| matches!(status, Status::Honoured)),
        count(|status| matches!(status, Status::Ignored { .. })),
        count(|status| matches!(status, Status::Refused { .. })),
    );
    text.push_str(DIFFERENCES);
}

const DIFFERENCES: &str = "\
## Read otherwise than by fio

| point | here |
|---|---|
| numbers with garbage after them (`4x`, `1.5k`, `1e4`, `4 k`) | an error with its line; fio takes the digits |
| `bs = 4k` | 4096; fio takes 4, and a warning says so |
| `4KiB` | 4000 as in fio, with a warning; `kb_base=1000` makes it 4096 |
| `runtime=1min`, `runtime=30sec` | an error; fio takes microseconds |
| `runtime=0.5` | an error; fio takes no limit |
| `bs=4k-16k` | an error that names `bsrange`; fio takes the sizes of reads and writes |
| shares of `bssplit` that do not add up to 100 | an error |
| `direct=true`, `group_reporting=yes` | the same as 1 |
| a boolean without a value | 1 |
| `${VAR}` that is not set | nothing, with a warning |
| options before several job files | count for all files; fio applies them to the first |
| a number in parentheses | arithmetic with `+ - * / % ^`, suffixes and `$ncpus`, `$pagesize`, `$mb_memory` |
| `time_based` without `runtime` | an error; fio goes on without it |

";

fn row(option: &OptionSpec) -> String {
    let names: Vec<String> = option.names().map(|name| format!("`{name}`")).collect();
    let default = match option.default {
        "" => String::new(),
        default => format!("`{}`", escaped(default)),
    };
    let status = match option.status {
        Status::Honoured => "honoured".to_owned(),
        Status::Ignored { why, .. } => format!("ignored: {why}"),
        Status::Refused { why, instead } => format!("refused: {why}; use {instead}"),
    };
    format!(
        "| {} | {} | {} | {} | {} |",
        names.join(", "),
        escaped(&option.unit.describe()),
        default,
        escaped(&status),
        escaped(option.text)
    )
}

fn engines(text: &mut String) {
    text.push_str("## Engines\n\n| engine | what it is | status |\n|---|---|---|\n");
    for engine in ENGINES {
        let status = match engine.availability {
            Availability::Here(_) => "here".to_owned(),
            Availability::Not { why, instead } => format!("refused: {why}; {instead}"),
        };
        let _ = writeln!(
            text,
            "| `{}` | {} | {} |",
            engine.name,
            engine.text,
            escaped(&status)
        );
    }
    text.push('\n');
}

fn flags(text: &mut String) {
    text.push_str(
        "## Command line\n\n`iodyno fio` takes fio's own command line.\n\n\
         | flag | status | what it does |\n|---|---|---|\n",
    );
    for flag in FLAGS {
        let status = match flag.status {
            FlagStatus::Honoured(_) => "honoured".to_owned(),
            FlagStatus::Ignored(why) => format!("ignored: {why}"),
            FlagStatus::Refused(why, instead) => format!("refused: {why}; use {instead}"),
        };
        let _ = writeln!(
            text,
            "| `--{}` | {} | {} |",
            flag.name,
            escaped(&status),
            flag.text
        );
    }
}

/// A bar would end the cell.
fn escaped(text: &str) -> String {
    text.replace('|', "\\|")
}
