//! Checks a table against its keys, and reads values by their kind. Reading a value twice reports its error once.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

use crate::document::{Entry, Located, Node, Report, Section, Table, Value, wrong};
use iodyno_model::{SimDisk, number_list};
use iodyno_units::{Bytes, Nanos};
use serde_json::{Value as Json, json};

use crate::keys::{Form, Key, Kind, MILLISECOND, kinds, layer};

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
            Kind::Table(keys) | Kind::Layer(_, keys) => {
                if let Some(table) = table(&self.section.full(name), node, report) {
                    Keyed::within(table, node.at.clone(), name, keys).check_keys(axes, report);
                }
            }
            Kind::Named(_) if node.as_table().is_none() => {
                let message = wrong(name, "a table of tables", node);
                report.error(node.at.clone(), message, named_hint(name));
            }
            Kind::Named(_) => {}
            Kind::Presets | Kind::Axes | Kind::Parameters => {
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
            _ => _ = self.read(key, report),
        }
    }

    /// The value of a key, with its units taken away; an error if it is of the wrong kind.
    fn read(&self, key: &Key, report: &mut Report<'_>) -> Option<Json> {
        let name = key.name;
        Some(match key.kind {
            Kind::Text(form) => self.formed(name, form, report)?,
            Kind::Switch => json!(self.switch(name, report)?),
            Kind::Count(..) => json!(self.count(name, report)?),
            Kind::Size(_) => json!(self.size(name, report)?),
            Kind::Sector => json!(self.sector(name, report)?),
            Kind::Time(_) | Kind::Whole(_) => json!(self.time(name, report)?.0),
            Kind::Percent => json!(self.percent(name, report)?),
            Kind::Words(_) => json!(self.word(name, report)?),
            Kind::Texts => {
                // Several arguments in one string.
                let texts = self.texts(name, report);
                let words = texts.iter().flat_map(|text| text.value.split_whitespace());
                words.collect()
            }
            Kind::Scalars => json!(self.settings(name, report)),
            _ => return None,
        })
    }

    /// The values of a layer as the model stores them, with the defaults of keys that are not there. `folder` is the
    /// start of relative paths.
    pub(crate) fn stored(&self, folder: &Path, report: &mut Report<'_>) -> Json {
        let mut stored = json!({});
        for key in self.keys {
            let value = match self.inner(key.name) {
                Some(inner) => Some(inner.stored(folder, report)),
                None => self.read(key, report).or_else(|| key.usual()),
            };
            let Some(value) = value else { continue };
            match key.kind {
                Kind::Time(_) | Kind::Whole(_) => stored[format!("{}_ns", key.name)] = value,
                Kind::Text(Form::Property) => stored["properties"][key.name] = value,
                Kind::Text(Form::Path) => {
                    let path = folder.join(value.as_str().unwrap_or_default());
                    stored[key.name] = json!(path.to_string_lossy());
                }
                _ => stored[key.name] = value,
            }
        }
        stored
    }

    /// A string; an error if it is not what it stands for.
    fn formed(&self, name: &str, form: Form, report: &mut Report<'_>) -> Option<Json> {
        let text = self.text(name, report);
        match (form, text) {
            (Form::Disks, None) => Some(json!([])),
            (Form::Disks, Some(text)) => {
                let disks = text.value.split('+').map(|disk| disk.trim().parse());
                let disks: Result<Vec<SimDisk>, String> = disks.collect();
                if let Err(message) = &disks {
                    report.error(text.at, message, ONE_FOR_EACH);
                }
                let disks = disks.unwrap_or_default();
                Some(disks.iter().map(ToString::to_string).collect())
            }
            (Form::Numbers, Some(text)) if number_list(&text.value).is_none() => {
                let message = format!("`{}` is not a list of numbers", text.value);
                report.error(text.at, message, "write `0-3,8`");
                None
            }
            (_, text) => Some(json!(text?.value)),
        }
    }

    /// Whether it has unknown keys: what seems to be missing may be misspelt.
    pub(crate) fn has_unknown(&self) -> bool {
        let known = |name: &str| self.keys.iter().any(|key| key.name == name);
        let mut entries = self.table.entries.iter();
        entries.any(|entry| !known(&entry.key) && entry.key != "kind")
    }

    /// Whether a key is missing, and not misspelt.
    pub(crate) fn lacks(&self, name: &str, report: &Report<'_>) -> bool {
        self.value(name).is_none() && !self.has_unknown() && !report.broken
    }

    /// The name of a key in messages.
    pub(crate) fn full(&self, name: &str) -> String {
        self.section.full(name)
    }

    /// The table of a key that has one.
    pub(crate) fn inner(&self, name: &str) -> Option<Keyed<'d>> {
        let key = self.keys.iter().find(|key| key.name == name)?;
        let (Kind::Table(keys) | Kind::Layer(_, keys)) = key.kind else {
            return None;
        };
        let node = self.value(name)?;
        Some(Keyed::within(
            node.as_table()?,
            node.at.clone(),
            key.name,
            keys,
        ))
    }

    /// Reports a key that must not be there.
    pub(crate) fn refuse(
        &self,
        name: &str,
        message: impl Into<String>,
        hint: impl Into<String>,
        report: &mut Report<'_>,
    ) {
        if let Some(at) = self.at(name) {
            report.error(at, message, hint);
        }
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
        let time = self.section.time(name, report)?;
        let full = self.full(name);
        match self.kind(name)? {
            Kind::Time(least) if time < least => {
                let message = format!("`{full}` is too short");
                let at = self.value(name)?.at.clone();
                report.error(at, message, format!("it is at least {least}"));
                return None;
            }
            Kind::Whole(unit) if !time.0.is_multiple_of(unit.0) => {
                let units = match unit {
                    MILLISECOND => "milliseconds",
                    _ => "seconds",
                };
                let message = format!("`{full}` cannot be {time}");
                report.error(self.at(name)?, message, format!("use whole {units}"));
            }
            _ => {}
        }
        Some(time)
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

    /// As [`Keyed::scalars`], by name.
    pub(crate) fn settings(&self, name: &str, report: &mut Report<'_>) -> BTreeMap<String, String> {
        let found = self.scalars(name, report).into_iter();
        found.map(|(entry, text)| (entry.key, text)).collect()
    }
}

/// How simulated disks of devices are written.
pub(crate) const ONE_FOR_EACH: &str =
    "write `\"hdd\"` for all, or a disk for each: `\"hdd + hdd*2\"`";

/// Whether the value is a string, a number or a switch.
fn has_one_value(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::Text(_)
            | Kind::Switch
            | Kind::Count(..)
            | Kind::Size(_)
            | Kind::Sector
            | Kind::Time(_)
            | Kind::Whole(_)
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
        let kinds: Vec<_> = kinds().into_iter().map(|kind| (kind, kind)).collect();
        let Some(kind) = section.word("kind", &kinds, report) else {
            continue;
        };
        let (_, keys) = layer(kind.value);
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
