//! The reference of all keys, as Markdown.

use std::fmt::Write;

use crate::keys::{CONFIGURATION, FILE, KINDS, Key, Kind, NODE, TABLE, WORKLOAD, layer_keys};

/// Where tests show the effect of each key; their program writes it.
const EFFECTS: &str = concat!(
    include_str!("effects.txt"),
    include_str!("layer_effects.txt")
);

/// The keys of one table, with the heading and the prefix of their names.
struct Part {
    title: String,
    prefix: String,
    keys: &'static [Key],
}

fn part(title: impl Into<String>, prefix: impl Into<String>, keys: &'static [Key]) -> Part {
    let (title, prefix) = (title.into(), prefix.into());
    Part {
        title,
        prefix,
        keys,
    }
}

/// All keys by table. Those of a layer begin with its kind.
fn parts() -> Vec<Part> {
    let mut parts = vec![
        part("The file", "", FILE),
        part("`[configuration.NAME]`", "configuration.", CONFIGURATION),
    ];
    for kind in KINDS {
        let keys = layer_keys(kind);
        parts.push(part(format!("`{kind}`"), format!("{kind}."), keys));
        let inner = nested(keys);
        parts.extend(inner.map(|(key, keys)| {
            part(
                format!("`{key}` of `{kind}`"),
                format!("{kind}.{key}."),
                keys,
            )
        }));
    }
    let others = nested(CONFIGURATION).filter(|(key, _)| !KINDS.contains(key));
    let other = |(key, keys)| {
        part(
            format!("`{key}` of a configuration"),
            format!("{key}."),
            keys,
        )
    };
    parts.extend(others.map(other));
    parts.push(part("`[workload.NAME]`", "workload.", WORKLOAD));
    let other = |(key, keys)| part(format!("`{key}` of a workload"), format!("{key}."), keys);
    parts.extend(nested(WORKLOAD).map(other));
    parts.push(part("`[node.NAME]`", "node.", NODE));
    parts.push(part("`[table]`", "table.", TABLE));
    parts
}

/// All keys except tables of others, and whether each belongs to a layer.
pub fn keys() -> impl Iterator<Item = (String, bool)> {
    parts().into_iter().flat_map(|Part { prefix, keys, .. }| {
        let layer = prefix
            .split('.')
            .next()
            .is_some_and(|kind| KINDS.contains(&kind));
        let values = keys
            .iter()
            .filter(|key| !matches!(key.kind, Kind::Table(_) | Kind::Named(_)));
        values.map(move |key| (format!("{prefix}{}", key.name), layer))
    })
}

/// The tables of all keys.
pub fn reference_markdown() -> String {
    let text: String = parts().iter().map(section).collect();
    text.trim_end().to_owned() + "\n"
}

fn nested(keys: &'static [Key]) -> impl Iterator<Item = (&'static str, &'static [Key])> {
    keys.iter().filter_map(|key| match key.kind {
        Kind::Table(keys) => Some((key.name, keys)),
        _ => None,
    })
}

fn section(
    Part {
        title,
        prefix,
        keys,
    }: &Part,
) -> String {
    let mut text = format!(
        "### {title}\n\n| key | value | default | effect shown in | description |\n|---|---|---|---|---|\n"
    );
    for key in *keys {
        let (name, kind, default) = (key.name, in_words(key.kind), key.default);
        let full = format!("{prefix}{name}");
        let mut effects = EFFECTS.lines().filter_map(|line| line.split_once(": "));
        let seen = effects
            .find(|(key, _)| *key == full)
            .map_or("", |(_, seen)| seen);
        let about = key.about.replace('|', "\\|");
        let _ = writeln!(text, "| `{name}` | {kind} | {default} | {seen} | {about} |");
    }
    text + "\n"
}

fn in_words(kind: Kind) -> String {
    match kind {
        Kind::Text => "a string".to_owned(),
        Kind::Switch => "`true` or `false`".to_owned(),
        Kind::Count(..) => "a whole number".to_owned(),
        Kind::Size(_) => "a size: `\"4GiB\"`".to_owned(),
        Kind::Sector => "a number of bytes: `4096`".to_owned(),
        Kind::Time(_) => "a time: `\"60s\"`".to_owned(),
        Kind::Percent => "a percentage: `\"3%\"`".to_owned(),
        Kind::Words(words) => {
            let words: Vec<String> = words.iter().map(|word| format!("`\"{word}\"`")).collect();
            words.join(", ")
        }
        Kind::Texts => "a string or several".to_owned(),
        Kind::Scalars => "a table of strings, numbers and switches".to_owned(),
        Kind::Parameters => "a table: values, or `{ about, default }`".to_owned(),
        Kind::Table(_) => "a table, see below".to_owned(),
        Kind::Layers => "tables with `kind` and its options".to_owned(),
        Kind::Named(_) => "tables by name, see below".to_owned(),
        Kind::NamedScalars => "tables of parameters by name".to_owned(),
        Kind::Axes => "arrays, or tables of labels".to_owned(),
        Kind::Zip => "names of axes".to_owned(),
        Kind::Exclude => "tables of labels by axis".to_owned(),
        Kind::Fio => "a path, several, or a table of options".to_owned(),
        Kind::FileOperations => "a name, several, or a table".to_owned(),
    }
}
