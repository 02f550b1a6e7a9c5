//! What `help` prints.

use std::fmt::Write;

use super::option::{OptionSpec, Status};
use super::options::TOPICS;

/// All options by topic, with their defaults, and what is not done here.
pub fn help() -> String {
    let mut text = String::from(
        "iodyno fileio [--OPTION=VALUE]... prepare|run|cleanup|help\n\n  \
         prepare  makes the files in the current folder\n  \
         run      measures\n  \
         cleanup  removes the files\n",
    );
    for (topic, options) in TOPICS {
        if *topic == "Databases" {
            text.push_str(
                "\nOptions of databases (--db-…, --mysql-…, --pgsql-…) have no effect.\n",
            );
            continue;
        }
        let _ = write!(text, "\n{topic}:\n");
        for option in options.iter() {
            let name = format!("--{}{}", option.name, option.unit.placeholder());
            let _ = writeln!(text, "  {name:<38} {}", meaning(option));
        }
    }
    text.push_str(
        "\nSizes take K, M, G, T: powers of 1024. Names may be written with `_`. What differs from sysbench's is in\n\
         docs/sysbench-compatibility.md.\n",
    );
    text
}

fn meaning(option: &OptionSpec) -> String {
    let mut text = option.text.trim_end_matches('.').to_owned();
    if let super::Unit::Words(words) = option.unit {
        let _ = write!(text, " {{{}}}", words.join(", "));
    }
    if !option.default.is_empty() {
        let _ = write!(text, " [{}]", option.default);
    }
    match option.status {
        Status::Honoured => {}
        Status::Ignored { why } => {
            let _ = write!(text, "; no effect: {why}");
        }
        Status::Refused { why, .. } => {
            let _ = write!(text, "; refused: {why}");
        }
    }
    text
}
