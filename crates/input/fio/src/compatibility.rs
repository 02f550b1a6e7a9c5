//! The compatibility page: `compatibility.md` with the tables of options, engines and flags.

use std::fmt::Write;

use iodyno_options::by_reason;

use super::engines::{ENGINES, EngineSpec};
use super::flags::{FLAGS, Flag};
use super::options::OPTIONS;

/// Options of iodyno's own.
const OWN: [&str; 7] = [
    "uri",
    "sim_device",
    "sim_latency",
    "sim_servers",
    "sim_faults",
    "sim_clock",
    "verify_header",
];

/// docs/fio-compatibility.md.
pub fn compatibility_markdown() -> String {
    let engines = |supported| {
        let engines = ENGINES.iter();
        engines.filter(move |engine| engine.status.is_honoured() == supported)
    };
    let engine = |engine: &EngineSpec| format!("`{}`", engine.name);
    let flag = |flag: &Flag| format!("`--{}`", flag.name);
    let refused_engines = engines(false).map(|it| (engine(it), it.status.reason()));
    let flags = FLAGS.iter();
    let flags: Vec<String> = flags.filter(|it| it.honoured()).map(flag).collect();
    let engines: Vec<String> = engines(true).map(engine).collect();
    let ignored = FLAGS.iter().filter(|it| it.status.is_ignored());
    let refused = FLAGS.iter().filter(|it| it.status.is_refused());
    let reason = |it: &Flag| (flag(it), it.status.reason());
    OPTIONS.page(
        include_str!("compatibility.md"),
        &[
            ("own options", own_options()),
            ("engines", engines.join(", ")),
            ("refused engines", by_reason(refused_engines)),
            ("flags", flags.join(", ")),
            ("ignored flags", by_reason(ignored.map(reason))),
            ("refused flags", by_reason(refused.map(reason))),
        ],
    )
}

fn own_options() -> String {
    let mut text = "| option | value | default | description |\n|---|---|---|---|\n".to_owned();
    let own = OPTIONS
        .options()
        .filter(|option| OWN.contains(&option.name));
    for option in own {
        let (name, value, default) = (option.name, option.unit.describe(), option.default);
        let _ = writeln!(text, "| `{name}` | {value} | {default} | {} |", option.text);
    }
    text
}
