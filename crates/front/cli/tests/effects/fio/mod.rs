//! The options of fio.

mod access;
mod buffers;
mod engine;
mod extent;
mod files;
mod general;
mod pacing;
mod replay;
mod reporting;

use std::path::Path;

use crate::case::{Language, Look, Through};
use crate::run::RECORD;

pub(crate) static LANGUAGE: Language = Language {
    name: "fio",
    options: || iodyno_fio::honoured_options().map(str::to_owned).collect(),
    topics: &[
        general::CASES,
        access::CASES,
        engine::CASES,
        files::CASES,
        extent::CASES,
        pacing::CASES,
        buffers::CASES,
        reporting::CASES,
        replay::CASES,
    ],
    arguments,
};

/// Words of the form `NAME=VALUE` are options; a job without a name is `t`.
fn arguments(_: &Path, look: &Look, words: &str) -> Vec<String> {
    let mut arguments = vec![
        "fio".to_owned(),
        "--no-store".to_owned(),
        "--quiet".to_owned(),
    ];
    if !words.contains("output-format=") {
        arguments.push("--output-format=json".to_owned());
    }
    let mut each = words.split_whitespace();
    if !each.any(|word| word.starts_with("name=")) {
        arguments.push("--name=t".to_owned());
    }
    arguments.extend(words.split_whitespace().map(|word| format!("--{word}")));
    if look.through == Through::Ops {
        arguments.push(format!("--write_iolog={RECORD}"));
    }
    arguments
}
