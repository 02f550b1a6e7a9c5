//! The text of `help`, and the compatibility page.

use std::fmt::Write;

use iodyno_options::{Status, Unit};

use super::options::{OPTIONS, OptionSpec};

/// All options by topic, with their defaults, and the unsupported features.
pub fn help() -> String {
    let mut text = String::from(
        "iodyno fileio [--OPTION=VALUE]... prepare|run|cleanup|help\n\n  \
         prepare  makes the files in the current folder\n  \
         run      measures\n  \
         cleanup  removes the files\n",
    );
    for (topic, options) in OPTIONS.topics {
        if *topic == "Databases" {
            text.push_str(
                "\nOptions of databases (--db-…, --mysql-…, --pgsql-…) have no effect.\n",
            );
            continue;
        }
        let _ = write!(text, "\n{topic}:\n");
        for option in options.iter() {
            let name = format!("--{}{}", option.name, placeholder(option.unit));
            let _ = writeln!(text, "  {name:<38} {}", meaning(option));
        }
    }
    text.push_str(
        "\nSizes take K, M, G, T: powers of 1024. Names may be written with `_`. What differs from sysbench's is in\n\
         docs/sysbench-compatibility.md.\n",
    );
    text
}

/// docs/sysbench-compatibility.md.
pub fn compatibility() -> String {
    OPTIONS.page(include_str!("compatibility.md"), &[])
}

fn meaning(option: &OptionSpec) -> String {
    let mut text = option.text.trim_end_matches('.').to_owned();
    if let Unit::Words(words) = option.unit {
        let _ = write!(text, " {{{}}}", words.join(", "));
    }
    if !option.default.is_empty() {
        let _ = write!(text, " [{}]", option.default);
    }
    match option.status {
        Status::Honoured(_) => {}
        Status::Ignored { why, .. } => {
            let _ = write!(text, "; no effect: {why}");
        }
        Status::Refused { why, .. } => {
            let _ = write!(text, "; refused: {why}");
        }
    }
    text
}

/// Placeholder for the value after the option's name.
fn placeholder(unit: Unit) -> &'static str {
    match unit {
        Unit::Bytes => "=SIZE",
        Unit::Seconds => "=SECONDS",
        Unit::Switch => "[=on|off]",
        Unit::Words(_) => "=WORD",
        Unit::SomeOf(_) => "=[WORD,...]",
        Unit::Text => "=TEXT",
        _ => "=N",
    }
}
