//! Checks a table against its keys, and reads values by their kind. Reading a value twice reports its error once.

use std::ops::Range;

use crate::document::{Entry, Located, Node, Report, Section, Table, Value, wrong};
use iodyno_units::{Bytes, Nanos};

use crate::keys::{Key, Kind, layer_keys};

/// The sizes of a loop device's sectors, bytes.
pub(crate) const SECTORS: [u32; 4] = [512, 1024, 2048, 4096];

/// A table that is read by a list of keys.
#[derive(Debug, Clone)]
pub(crate) struct Keyed<'d> {
    section: Section<'d>,
    table: &'d Table,
    keys: &'static [Key],
}

impl<'d> Keyed<'d> {
    /// `title`: its name in messages.
    pub(crate) fn new(
        table: &'d Table,
        at: Range<usize>,
        title: &'static str,
        keys: &'static [Key],
    ) -> Keyed<'d> {
        let section = Section::new(table, at, title);
        Keyed {
            section,
            table,
            keys,
        }
    }

    /// The table of a key, which is part of the names of its keys in messages.
    pub(crate) fn within(
        table: &'d Table,
        at: Range<usize>,
        name: &'static str,
        keys: &'static [Key],
    ) -> Keyed<'d> {
        let mut keyed = Keyed::new(table, at, name, keys);
        keyed.section.within = name;
        keyed
    }

    /// Reports unknown keys and values of the wrong kind.
    pub(crate) fn check(&self, report: &mut Report<'_>) {
        let axes = self.keys.iter().any(|key| matches!(key.kind, Kind::Axes));
        self.check_keys(axes, report);
    }

    /// `axes`: whether the section may have axes.
    fn check_keys(&self, axes: bool, report: &mut Report<'_>) {
        let names: Vec<&str> = self.keys.iter().map(|key| key.name).collect();
        self.section.refuse_unknown(&names, report);
        for key in self.keys {
            if let Some(node) = self.table.get(key.name) {
                self.check_value(key, node, axes, report);
            }
        }
    }

    fn check_value(&self, key: &'static Key, node: &Node, axes: bool, report: &mut Report<'_>) {
        let name = key.name;
        if axes && node.as_list().is_some() && has_one_value(key.kind) {
            let name = self.section.full(name);
            let message = format!("`{name}` is one value, not an array");
            let axis = match name.contains('.') {
                true => format!("axis.\"{name}\""),
                false => format!("axis.{name}"),
            };
            let hint = format!("for a trial of each value, write the array as `{axis}`");
            report.error(node.at.clone(), message, hint);
            report.reported(node.at.clone());
            return;
        }
        match key.kind {
            Kind::Text => _ = self.section.text(name, report),
            Kind::Switch => _ = self.section.switch(name, report),
            Kind::Count(..) => _ = self.count(name, report),
            Kind::Size(least) => _ = self.section.size(name, least, report),
            Kind::Sector => _ = self.sector(name, report),
            Kind::Time(_) => _ = self.time(name, report),
            Kind::Percent => _ = self.percent(name, report),
            Kind::Words(_) => _ = self.word(name, report),
            Kind::Texts => _ = self.texts(name, report),
            Kind::Scalars => _ = self.scalars(name, report),
            Kind::Table(keys) => {
                if let Some(table) = table(&self.section.full(name), node, report) {
                    Keyed::within(table, node.at.clone(), name, keys).check_keys(axes, report);
                }
            }
            Kind::Named(_) if node.as_table().is_none() => {
                let message = wrong(name, "a table of tables", node);
                report.error(node.at.clone(), message, named_hint(name));
            }
            Kind::Named(_) => {}
            Kind::NamedScalars | Kind::Axes | Kind::Parameters => {
                _ = table(name, node, report);
            }
            Kind::Layers | Kind::Zip | Kind::Exclude => {
                if node.as_list().is_none() {
                    let example = match key.kind {
                        Kind::Zip => "such as `zip = [\"bs\", \"iodepth\"]`",
                        Kind::Exclude => "such as `exclude = [{ bs = \"4k\", rw = \"write\" }]`",
                        _ => {
                            "such as `layers = [{ kind = \"ext4\" }, { kind = \"zram\", size = \"1GiB\" }]`"
                        }
                    };
                    report.error(node.at.clone(), wrong(name, "an array", node), example);
                }
            }
            // Read with the rest of the workload.
            Kind::Fio | Kind::FileOperations => {}
        }
    }

    /// Whether it has unknown keys: what seems to be missing may be misspelt.
    pub(crate) fn has_unknown(&self) -> bool {
        let known = |name: &str| self.keys.iter().any(|key| key.name == name);
        let mut entries = self.table.entries.iter();
        entries.any(|entry| !known(&entry.key) && entry.key != "kind")
    }

    /// The name of a key in messages.
    pub(crate) fn full(&self, name: &str) -> String {
        self.section.full(name)
    }

    /// The location of a key.
    pub(crate) fn at(&self, name: &str) -> Option<Range<usize>> {
        self.section.key(name)
    }

    /// The location of the table.
    pub(crate) fn whole(&self) -> Range<usize> {
        self.section.at.clone()
    }

    pub(crate) fn value(&self, name: &str) -> Option<&'d Node> {
        self.section.value(name)
    }

    fn kind(&self, name: &str) -> Option<Kind> {
        let key = self.keys.iter().find(|key| key.name == name);
        key.map(|key| key.kind)
    }

    pub(crate) fn text(&self, name: &str, report: &mut Report<'_>) -> Option<Located<String>> {
        self.section.text(name, report)
    }

    pub(crate) fn switch(&self, name: &str, report: &mut Report<'_>) -> Option<bool> {
        self.section.switch(name, report)
    }

    pub(crate) fn count(&self, name: &str, report: &mut Report<'_>) -> Option<u64> {
        let Some(Kind::Count(least, most)) = self.kind(name) else {
            return None;
        };
        let found = self.section.count(name, (least, most), report)?;
        Some(found.value)
    }

    pub(crate) fn size(&self, name: &str, report: &mut Report<'_>) -> Option<u64> {
        let Some(Kind::Size(least)) = self.kind(name) else {
            return None;
        };
        self.section.size(name, least, report)
    }

    /// The size of a sector, bytes.
    pub(crate) fn sector(&self, name: &str, report: &mut Report<'_>) -> Option<u32> {
        let node = self.section.value(name)?;
        let text = node.scalar().unwrap_or_default();
        let bytes = text.trim().parse().ok();
        let bytes = bytes.or_else(|| Some(text.parse::<Bytes>().ok()?.0));
        let found = SECTORS
            .into_iter()
            .find(|sector| Some(u64::from(*sector)) == bytes);
        if found.is_none() {
            let name = self.section.full(name);
            let message = wrong(&name, "the size of a sector", node);
            let sectors = SECTORS.map(|sector| sector.to_string());
            let hint = format!("it is one of {} bytes", sectors.join(", "));
            report.error(node.at.clone(), message, hint);
        }
        found
    }

    pub(crate) fn time(&self, name: &str, report: &mut Report<'_>) -> Option<Nanos> {
        let Some(Kind::Time(least)) = self.kind(name) else {
            return None;
        };
        let time = self.section.time(name, report)?;
        if time >= least {
            return Some(time);
        }
        let message = format!("`{}` is too short", self.section.full(name));
        let at = self.section.value(name)?.at.clone();
        report.error(at, message, format!("it is at least {least}"));
        None
    }

    pub(crate) fn word(&self, name: &str, report: &mut Report<'_>) -> Option<&'static str> {
        let Some(Kind::Words(words)) = self.kind(name) else {
            return None;
        };
        let words: Vec<(&'static str, &'static str)> =
            words.iter().map(|word| (*word, *word)).collect();
        let found = self.section.word(name, &words, report)?;
        Some(found.value)
    }

    /// A share, 0.03 for 3 %.
    pub(crate) fn percent(&self, name: &str, report: &mut Report<'_>) -> Option<f64> {
        let node = self.section.value(name)?;
        let number = match &node.value {
            Value::Text(text) => {
                let text = text.trim();
                text.strip_suffix('%')
                    .unwrap_or(text)
                    .trim_end()
                    .parse()
                    .ok()
            }
            Value::Integer(number) => Some(*number as f64),
            Value::Float(number) => Some(*number),
            _ => None,
        };
        let percent = number.filter(|percent| *percent > 0.0 && *percent <= 100.0);
        if percent.is_none() {
            let name = self.section.full(name);
            let message = wrong(&name, "a percentage above 0 and at most 100", node);
            report.error(node.at.clone(), message, "such as `\"3%\"`");
        }
        percent.map(|percent| percent / 100.0)
    }

    /// A string or an array of strings, each with its location.
    pub(crate) fn texts(&self, name: &str, report: &mut Report<'_>) -> Vec<Located<String>> {
        let Some(node) = self.section.value(name) else {
            return Vec::new();
        };
        let one = |node: &Node| {
            let value = node.as_text()?.to_owned();
            let at = node.at.clone();
            Some(Located { value, at })
        };
        let found: Option<Vec<Located<String>>> = match &node.value {
            Value::List(list) => list.iter().map(one).collect(),
            _ => one(node).map(|one| vec![one]),
        };
        if found.is_none() {
            let name = self.section.full(name);
            let message = wrong(&name, "a string or an array of strings", node);
            report.error(node.at.clone(), message, "put each between quotes");
        }
        found.unwrap_or_default()
    }

    /// A table of strings, numbers and switches, as texts. Tables within it are names with dots.
    pub(crate) fn scalars(&self, name: &str, report: &mut Report<'_>) -> Vec<(Entry, String)> {
        let Some(node) = self.section.value(name) else {
            return Vec::new();
        };
        match table(&self.section.full(name), node, report) {
            Some(table) => scalars(table, "", report),
            None => Vec::new(),
        }
    }
}

/// Whether the value is a string, a number or a switch.
fn has_one_value(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::Text
            | Kind::Switch
            | Kind::Count(..)
            | Kind::Size(_)
            | Kind::Sector
            | Kind::Time(_)
            | Kind::Percent
            | Kind::Words(_)
    )
}

/// The entries of a table with their values as texts. `a.b = 1` is one entry, `a.b`.
pub(crate) fn scalars(
    table: &Table,
    prefix: &str,
    report: &mut Report<'_>,
) -> Vec<(Entry, String)> {
    let mut found = Vec::new();
    for entry in &table.entries {
        let key = format!("{prefix}{}", entry.key);
        if let Some(inner) = entry.node.as_table() {
            found.extend(scalars(inner, &format!("{key}."), report));
            continue;
        }
        match entry.node.scalar() {
            Some(text) => found.push((
                Entry {
                    key,
                    ..entry.clone()
                },
                text,
            )),
            None => {
                let message = wrong(&key, "a string, a number or a switch", &entry.node);
                report.plain_error(entry.node.at.clone(), message);
            }
        }
    }
    found
}

/// A value as a table; an error if it is not one.
pub(crate) fn table<'d>(name: &str, node: &'d Node, report: &mut Report<'_>) -> Option<&'d Table> {
    let found = node.as_table();
    if found.is_none() {
        report.plain_error(node.at.clone(), wrong(name, "a table", node));
    }
    found
}

/// How a table of tables by name is written.
pub(crate) fn named_hint(kind: &str) -> String {
    format!("begin each with a line `[{kind}.NAME]`")
}

/// The tables of `layers`: each with its kind. `None` if one is faulty; that is reported.
pub(crate) fn layers<'d>(
    node: &'d Node,
    report: &mut Report<'_>,
) -> Option<Vec<(&'static str, Keyed<'d>)>> {
    let mut found = Vec::new();
    let list = node.as_list()?;
    if list.is_empty() {
        let hint = "such as `layers = [{ kind = \"ext4\" }, { kind = \"zram\", size = \"1GiB\" }]`";
        report.error(node.at.clone(), "`layers` is empty", hint);
    }
    for item in list {
        let Some(table) = item.as_table() else {
            let message = wrong("layers", "an array of tables", item);
            let hint = match item.as_text() {
                Some(kind) => format!("write each as `{{ kind = \"{kind}\" }}`"),
                None => "write each as `{ kind = \"ext4\" }`".to_owned(),
            };
            report.error(item.at.clone(), message, hint);
            continue;
        };
        let section = Section::new(table, item.at.clone(), "a layer");
        section.miss("kind", "\"ext4\"", report);
        let kinds = crate::keys::KINDS.map(|kind| (kind, kind));
        let Some(kind) = section.word("kind", &kinds, report) else {
            continue;
        };
        let keys = layer_keys(kind.value);
        let names: Vec<&str> = std::iter::once("kind")
            .chain(keys.iter().map(|key| key.name))
            .collect();
        section.refuse_unknown(&names, report);
        let keyed = Keyed::within(table, item.at.clone(), kind.value, keys);
        for key in keys {
            if let Some(node) = table.get(key.name) {
                // An axis sets keys of tables, not of an array of tables.
                keyed.check_value(key, node, false, report);
            }
        }
        found.push((kind.value, keyed));
    }
    (found.len() == list.len() && !list.is_empty()).then_some(found)
}
