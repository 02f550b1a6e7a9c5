//! The reference of all keys, as Markdown.

use std::fmt::Write;

use crate::keys::{CONFIGURATION, FILE, KINDS, Key, Kind, NODE, TABLE, WORKLOAD, layer_keys};

/// The tables of all keys.
pub fn reference_markdown() -> String {
    let mut text = String::new();
    section(&mut text, "The file", FILE);
    section(&mut text, "`[configuration.NAME]`", CONFIGURATION);
    for kind in KINDS {
        section(&mut text, &format!("`{kind}`"), layer_keys(kind));
        for (key, keys) in nested(layer_keys(kind)) {
            section(&mut text, &format!("`{key}` of `{kind}`"), keys);
        }
    }
    for (key, keys) in nested(CONFIGURATION) {
        if !KINDS.contains(&key) {
            section(&mut text, &format!("`{key}` of a configuration"), keys);
        }
    }
    section(&mut text, "`[workload.NAME]`", WORKLOAD);
    for (key, keys) in nested(WORKLOAD) {
        section(&mut text, &format!("`{key}` of a workload"), keys);
    }
    section(&mut text, "`[node.NAME]`", NODE);
    section(&mut text, "`[table]`", TABLE);
    text.trim_end().to_owned() + "\n"
}

fn nested(keys: &'static [Key]) -> impl Iterator<Item = (&'static str, &'static [Key])> {
    keys.iter().filter_map(|key| match key.kind {
        Kind::Table(keys) => Some((key.name, keys)),
        _ => None,
    })
}

fn section(text: &mut String, title: &str, keys: &[Key]) {
    let _ = write!(
        text,
        "### {title}\n\n| key | value | default | description |\n|---|---|---|---|\n"
    );
    for key in keys {
        let (name, kind, default) = (key.name, in_words(key.kind), key.default);
        let about = key.about.replace('|', "\\|");
        let _ = writeln!(text, "| `{name}` | {kind} | {default} | {about} |");
    }
    text.push('\n');
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
