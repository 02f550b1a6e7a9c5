//! The reference of all keys, as Markdown.

use std::fmt::Write;

use crate::keys::{
    CONFIGURATION, FILE, Key, Kind, MATRIX, NODE, PINNING, TABLE, WORKLOAD, kinds, layer,
};

/// The keys of one table, with the heading, a sentence below it, and the prefix of their names.
struct Part {
    title: String,
    about: &'static str,
    prefix: String,
    keys: &'static [Key],
}

fn part(title: impl Into<String>, prefix: impl Into<String>, keys: &'static [Key]) -> Part {
    let (title, prefix) = (title.into(), prefix.into());
    Part {
        title,
        about: "",
        prefix,
        keys,
    }
}

/// The part of a key whose value is a table, or tables by name; `of`: to what it belongs.
fn inner(key: &'static Key, of: &str, prefix: &str) -> Option<Part> {
    let (Kind::Table(keys) | Kind::Layer(_, keys) | Kind::Named(keys)) = key.kind else {
        return None;
    };
    Some(Part {
        about: key.about,
        ..part(
            format!("`{}`{of}", key.name),
            format!("{prefix}{}.", key.name),
            keys,
        )
    })
}

/// All keys by table. Those of a layer begin with its kind.
fn parts() -> Vec<Part> {
    let mut parts = vec![
        part("The file", "", FILE),
        part("`[configuration.NAME]`", "configuration.", CONFIGURATION),
    ];
    let (layers, others): (Vec<&Key>, Vec<&Key>) = CONFIGURATION
        .iter()
        .partition(|key| matches!(key.kind, Kind::Layer(..)));
    for one in layers {
        parts.extend(inner(one, "", ""));
        let (of, prefix) = (format!(" of `{}`", one.name), format!("{}.", one.name));
        let keys = layer(one.name).1.iter();
        parts.extend(keys.filter_map(|key| inner(key, &of, &prefix)));
    }
    let others = others.into_iter();
    parts.extend(others.filter_map(|key| inner(key, " of a configuration", "")));
    parts.push(part("`[workload.NAME]`", "workload.", WORKLOAD));
    let keys = WORKLOAD.iter();
    parts.extend(keys.filter_map(|key| inner(key, " of a workload", "")));
    parts.push(part("`[node.NAME]`", "node.", NODE));
    parts.push(part("`[table]`", "table.", TABLE));
    parts
}

/// All keys except tables of others, and whether each belongs to a layer.
pub fn keys() -> impl Iterator<Item = (String, bool)> {
    parts().into_iter().flat_map(|Part { prefix, keys, .. }| {
        let kind = prefix.split('.').next();
        let layer = kind.is_some_and(|kind| kinds().contains(&kind));
        let values = keys
            .iter()
            .filter(|key| !matches!(key.kind, Kind::Table(_) | Kind::Layer(..) | Kind::Named(_)));
        values.map(move |key| (format!("{prefix}{}", key.name), layer))
    })
}

/// The tables of all keys.
pub fn reference_markdown() -> String {
    let text: String = parts().iter().map(section).collect();
    text.trim_end().to_owned() + "\n"
}

fn section(part: &Part) -> String {
    let mut text = format!("### {}\n\n", part.title);
    if !part.about.is_empty() {
        let _ = write!(text, "{}\n\n", part.about);
    }
    // Keys with tables of their own have a heading, and the page describes those of servers and of the matrix once.
    let once: Vec<&str> = (PINNING.iter().chain(&MATRIX))
        .map(|key| key.about)
        .collect();
    let keys: Vec<&Key> = (part.keys.iter())
        .filter(|key| {
            !matches!(key.kind, Kind::Table(_) | Kind::Layer(..)) && !once.contains(&key.about)
        })
        .collect();
    let rest = |key: &Key| {
        let default = match key.default {
            "" => String::new(),
            default => format!("; default: {default}"),
        };
        format!("({}{default}): {}", in_words(key.kind), key.about)
    };
    // Neighbours that differ in their name only share a line.
    for alike in keys.chunk_by(|one, next| rest(one) == rest(next)) {
        let names: Vec<String> = alike.iter().map(|key| format!("`{}`", key.name)).collect();
        let _ = writeln!(text, "- {} {}", names.join(", "), rest(alike[0]));
    }
    text + "\n"
}

fn in_words(kind: Kind) -> String {
    let text = match kind {
        Kind::Words(words) => {
            let words: Vec<String> = words.iter().map(|word| format!("`\"{word}\"`")).collect();
            return words.join(", ");
        }
        Kind::Text(_) => "string",
        Kind::Switch => "`true`/`false`",
        Kind::Count(..) => "number",
        Kind::Size(_) => "size",
        Kind::Sector => "bytes",
        Kind::Time(_) | Kind::Whole(_) => "time",
        Kind::Percent => "percentage",
        Kind::Texts => "string(s)",
        Kind::Scalars => "table of values",
        Kind::Parameters => "table: values, or `{ about, default }`",
        Kind::Table(_) | Kind::Layer(..) => "table",
        Kind::Layers => "tables with `kind` and its options",
        Kind::Named(_) => "tables by name",
        Kind::Presets => "tables of parameters by name",
        Kind::Axes => "arrays, or tables of labels",
        Kind::Zip => "names of axes",
        Kind::Exclude => "tables of labels by axis",
        Kind::Fio => "path(s), or table of options",
        Kind::FileOperations => "name(s), or table",
    };
    text.to_owned()
}
