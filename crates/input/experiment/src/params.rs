//! Parameters, presets, and the replacement of `${NAME}` in strings.

use std::collections::BTreeMap;

use crate::document::{Entry, Node, Report, Table, Value, instead, listed, wrong};
use iodyno_model::{Diagnostic, closest};
use iodyno_secrets::is_secret;

/// The name in `--set scale=NAME` that selects a preset.
pub(crate) const SCALE: &str = "scale";

/// What `${NAME}` stands for.
#[derive(Debug, Clone)]
pub(crate) struct Variable {
    /// In values.
    pub(crate) value: Value,
    /// In names.
    pub(crate) label: String,
}

impl Variable {
    /// A parameter; the elements of an array are separated by commas in texts.
    fn of(value: Value) -> Variable {
        let node = Node { value, at: 0..0 };
        let label = match node.as_list() {
            Some(list) => list
                .iter()
                .filter_map(Node::scalar)
                .collect::<Vec<_>>()
                .join(","),
            None => node.scalar().unwrap_or_default(),
        };
        let value = node.value;
        Variable { value, label }
    }
}

pub(crate) type Variables = BTreeMap<String, Variable>;

/// The texts of variables with the name of a secret.
pub(crate) fn secrets(variables: &Variables) -> Vec<String> {
    let named = variables
        .iter()
        .filter(|(name, _)| is_secret(name.as_str()));
    let texts = named.filter_map(|(_, variable)| match &variable.value {
        Value::Text(text) => Some(text.clone()),
        _ => None,
    });
    texts.collect()
}

/// Which text replaces `${NAME}`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum As {
    /// The value; a string that is only `${NAME}` gets its type, too.
    Value,
    /// The label of an axis.
    Label,
}

/// The values of all parameters: of the file, of the chosen preset, of `settings`.
pub(crate) fn parameters(
    file: &Table,
    settings: &[(String, String)],
    report: &mut Report<'_>,
    faults: &mut Vec<Diagnostic>,
) -> Variables {
    let declared = file.get("params").and_then(Node::as_table);
    let presets = file.get("preset").and_then(Node::as_table);
    let declared: &[Entry] = declared.map_or(&[], |table| &table.entries);
    let presets: &[Entry] = presets.map_or(&[], |table| &table.entries);
    let chosen = settings.iter().rfind(|(name, _)| name == SCALE);
    if let Some((_, preset)) = chosen
        && !presets.iter().any(|entry| entry.key == *preset)
    {
        faults.push(no_preset(preset, presets));
    }
    for (name, value) in settings {
        if name != SCALE && !declared.iter().any(|entry| entry.key == *name) {
            faults.push(no_parameter(name, value, declared, presets));
        }
    }
    let preset_values = preset_values(presets, declared, chosen.map(|(_, name)| name), report);
    let mut variables = Variables::new();
    for entry in declared {
        if entry.key == SCALE {
            let hint = format!("`--set {SCALE}=NAME` selects a preset");
            report.error(
                entry.key_at.clone(),
                "a parameter cannot be named `scale`",
                hint,
            );
            continue;
        }
        let default = default(entry, report);
        let preset = preset_values.iter().rfind(|value| value.key == entry.key);
        let preset = preset.map(|value| &value.node);
        let given = settings.iter().rfind(|(name, _)| *name == entry.key);
        let value = match given {
            Some((_, text)) => typed(text, preset.or(default)),
            None => match preset.or(default) {
                Some(node) => node.value.clone(),
                None => {
                    if entry.node.as_table().is_some() {
                        report.add(entry.key_at.clone(), missing(entry));
                    }
                    Value::Text(String::new())
                }
            },
        };
        variables.insert(entry.key.clone(), Variable::of(value));
    }
    resolve(&mut variables, declared, report);
    variables
}

/// The values of the chosen preset. The others are checked, too.
fn preset_values(
    presets: &[Entry],
    declared: &[Entry],
    chosen: Option<&String>,
    report: &mut Report<'_>,
) -> Vec<Entry> {
    let mut values: Vec<Entry> = Vec::new();
    for preset in presets {
        let Some(table) = preset.node.as_table() else {
            let message = wrong(&preset.key, "a table", &preset.node);
            report.plain_error(preset.node.at.clone(), message);
            continue;
        };
        for entry in &table.entries {
            if !is_value(&entry.node) {
                let message = wrong(&entry.key, A_VALUE, &entry.node);
                report.plain_error(entry.node.at.clone(), message);
            } else if !declared.iter().any(|known| known.key == entry.key) {
                let message = format!("`{}` is not a parameter", entry.key);
                let hint = known_names(&entry.key, declared);
                report.error(entry.key_at.clone(), message, hint);
            } else if chosen == Some(&preset.key) {
                values.push(entry.clone());
            }
        }
    }
    values
}

/// Replaces parameters in the values of parameters.
fn resolve(variables: &mut Variables, declared: &[Entry], report: &mut Report<'_>) {
    let node = |entry: &Entry, variables: &Variables| {
        let value = variables.get(&entry.key)?.value.clone();
        let at = entry.node.at.clone();
        Some(Node { value, at })
    };
    let variable = |entry: &&Entry| {
        let found = node(entry, variables);
        found.is_some_and(|node| node.as_text().is_some_and(|text| text.contains("${")))
    };
    let mut pending: Vec<&Entry> = declared.iter().filter(variable).collect();
    while let Some((place, node)) = pending.iter().enumerate().find_map(|(place, entry)| {
        let node = node(entry, variables)?;
        let mut others = pending.iter();
        let waits = others.any(|other| mentions(&node, &other.key));
        (!waits).then_some((place, node))
    }) {
        let entry = pending.remove(place);
        let value = replaced(&node, variables, As::Value, report).value;
        variables.insert(entry.key.clone(), Variable::of(value));
    }
    for entry in pending {
        let message = format!(
            "the value of the parameter `{}` depends on itself",
            entry.key
        );
        let hint = "leave out one `${NAME}` of the parameters that refer to each other";
        report.error(entry.node.at.clone(), message, hint);
    }
}

fn missing(entry: &Entry) -> Diagnostic {
    let name = &entry.key;
    let about = entry.node.as_table().and_then(|table| table.get("about"));
    let about = about.and_then(Node::as_text);
    let about = about.map_or(String::new(), |about| format!(" ({about})"));
    Diagnostic::error(format!("the parameter `{name}` has no value{about}"))
        .hint(format!("give it: `--set {name}=VALUE`"))
}

/// The default of a parameter: its value, or `default` of its table.
fn default<'d>(entry: &'d Entry, report: &mut Report<'_>) -> Option<&'d Node> {
    let Some(table) = entry.node.as_table() else {
        if !is_value(&entry.node) {
            let message = wrong(&entry.key, A_VALUE, &entry.node);
            report.plain_error(entry.node.at.clone(), message);
            return None;
        }
        return Some(&entry.node);
    };
    let section = crate::document::Section::new(table, entry.node.at.clone(), "a parameter");
    section.refuse_unknown(&["about", "default"], report);
    section.text("about", report);
    let node = table.get("default")?;
    if !is_value(node) {
        let message = wrong("default", A_VALUE, node);
        report.plain_error(node.at.clone(), message);
        return None;
    }
    Some(node)
}

/// What the value of a parameter is, for messages.
const A_VALUE: &str = "a string, a number, a switch or an array of these";

fn is_value(node: &Node) -> bool {
    let mut items = node.as_list().unwrap_or(std::slice::from_ref(node)).iter();
    items.all(|item| item.scalar().is_some())
}

/// A text of the command line, with the type of the default if it can have it. The elements of an array are separated
/// by commas, and have the type of its first one.
fn typed(text: &str, default: Option<&Node>) -> Value {
    if let Some(list) = default.and_then(Node::as_list) {
        let items = text.split(',').map(str::trim).filter(|it| !it.is_empty());
        let items = items.map(|item| Node {
            value: typed(item, list.first()),
            at: 0..0,
        });
        return Value::List(items.collect());
    }
    let parsed = match default.map(|node| &node.value) {
        Some(Value::Integer(_) | Value::Float(_)) => match text.parse() {
            Ok(number) => Some(Value::Integer(number)),
            Err(_) => text.parse().ok().map(Value::Float),
        },
        Some(Value::Switch(_)) => text.parse().ok().map(Value::Switch),
        _ => None,
    };
    parsed.unwrap_or_else(|| Value::Text(text.to_owned()))
}

fn known_names(name: &str, declared: &[Entry]) -> String {
    let names: Vec<&str> = declared.iter().map(|entry| entry.key.as_str()).collect();
    match names.is_empty() {
        true => "the experiment has no parameters".to_owned(),
        false => instead(name, &names, "the parameters are"),
    }
}

fn no_parameter(name: &str, value: &str, declared: &[Entry], presets: &[Entry]) -> Diagnostic {
    let mut hint = known_names(name, declared);
    if !presets.is_empty() {
        hint += &format!("; a preset is selected by `--set {SCALE}=NAME`");
    }
    Diagnostic::error(format!(
        "`--set {name}={value}`: unknown parameter `{name}`"
    ))
    .hint(hint)
}

fn no_preset(name: &str, presets: &[Entry]) -> Diagnostic {
    let names: Vec<&str> = presets.iter().map(|entry| entry.key.as_str()).collect();
    let hint = match names.is_empty() {
        true => "leave it out: the experiment has no presets".to_owned(),
        false => format!("the presets are {}", listed(&names)),
    };
    Diagnostic::error(format!("`--set {SCALE}={name}`: unknown preset `{name}`")).hint(hint)
}

/// Replaces `${NAME}` in all strings of a value. Unknown names are reported.
pub(crate) fn replaced(
    node: &Node,
    variables: &Variables,
    how: As,
    report: &mut Report<'_>,
) -> Node {
    let value = match &node.value {
        Value::Text(text) => match variables.get(only_name(text)).filter(|_| how == As::Value) {
            Some(variable) => located(&variable.value, node),
            None => Value::Text(replaced_text(text, node, variables, how, report)),
        },
        Value::List(list) => Value::List(
            list.iter()
                .map(|item| replaced(item, variables, how, report))
                .collect(),
        ),
        Value::Table(table) => Value::Table(replaced_table(table, variables, how, report)),
        other => other.clone(),
    };
    Node {
        value,
        at: node.at.clone(),
    }
}

/// The value of a variable; the elements of an array are where the variable is used.
fn located(value: &Value, used: &Node) -> Value {
    let Value::List(list) = value else {
        return value.clone();
    };
    let items = list.iter().map(|item| Node {
        at: used.at.clone(),
        ..item.clone()
    });
    Value::List(items.collect())
}

/// [`replaced`], for every value of a table.
pub(crate) fn replaced_table(
    table: &Table,
    variables: &Variables,
    how: As,
    report: &mut Report<'_>,
) -> Table {
    let entries = table.entries.iter();
    let entries = entries.map(|entry| replaced_entry(entry, variables, how, report));
    Table {
        entries: entries.collect(),
    }
}

/// [`replaced`], for the value of a key. If a name in it is unknown, the key has no other error.
pub(crate) fn replaced_entry(
    entry: &Entry,
    variables: &Variables,
    how: As,
    report: &mut Report<'_>,
) -> Entry {
    let before = report.errors();
    let node = replaced(&entry.node, variables, how, report);
    if node.as_table().is_none() && report.errors() > before {
        report.reported(entry.key_at.clone());
    }
    Entry {
        node,
        ..entry.clone()
    }
}

/// The name in a text that is only `${NAME}`; otherwise an empty text.
fn only_name(text: &str) -> &str {
    let inner = text
        .strip_prefix("${")
        .and_then(|rest| rest.strip_suffix('}'));
    inner.filter(|name| !name.contains('}')).unwrap_or_default()
}

/// A piece of a text.
enum Piece<'t> {
    Plain(&'t str),
    Variable(&'t str),
}

/// The pieces of a text. `$${` is a literal `${`.
fn pieces(text: &str) -> Vec<Piece<'_>> {
    let (mut pieces, mut rest) = (Vec::new(), text);
    while let Some(start) = rest.find("${") {
        let escaped = rest[..start].ends_with('$');
        let Some(length) = rest[start..].find('}').filter(|_| !escaped) else {
            // The second `$` is left out.
            let end = start + "${".len();
            pieces.push(Piece::Plain(&rest[..start - usize::from(escaped)]));
            pieces.push(Piece::Plain(&rest[start..end]));
            rest = &rest[end..];
            continue;
        };
        pieces.push(Piece::Plain(&rest[..start]));
        pieces.push(Piece::Variable(&rest[start + 2..start + length]));
        rest = &rest[start + length + 1..];
    }
    pieces.push(Piece::Plain(rest));
    pieces
}

fn replaced_text(
    text: &str,
    node: &Node,
    variables: &Variables,
    how: As,
    report: &mut Report<'_>,
) -> String {
    let (mut result, mut unknown) = (String::new(), false);
    for piece in pieces(text) {
        match piece {
            Piece::Plain(text) => result += text,
            Piece::Variable(name) => match variables.get(name) {
                Some(variable) if how == As::Value => {
                    let value = variable.value.clone();
                    let node = Node { value, at: 0..0 };
                    result += &node.scalar().unwrap_or_else(|| variable.label.clone());
                }
                Some(variable) => result += &variable.label,
                None => {
                    let names: Vec<&str> = variables.keys().map(String::as_str).collect();
                    let hint = match closest(name, names.iter().copied()) {
                        Some(near) => format!("did you mean `${{{near}}}`?"),
                        None => format!(
                            "declare it as `params.{name} = …`; `$${{{name}}}` is a literal `${{{name}}}`"
                        ),
                    };
                    let message = format!("`{name}` is neither a parameter nor an axis");
                    report.error(node.at.clone(), message, hint);
                    unknown = true;
                }
            },
        }
    }
    if unknown {
        report.reported(node.at.clone());
    }
    result
}

/// Whether a key or a string of a value contains `${NAME}`.
pub(crate) fn mentions(node: &Node, name: &str) -> bool {
    let in_text = |text: &str| {
        let pieces = pieces(text);
        let mut pieces = pieces.iter();
        pieces.any(|piece| matches!(piece, Piece::Variable(found) if *found == name))
    };
    match &node.value {
        Value::Text(text) => in_text(text),
        Value::List(list) => list.iter().any(|item| mentions(item, name)),
        Value::Table(table) => {
            let mut entries = table.entries.iter();
            entries.any(|entry| in_text(&entry.key) || mentions(&entry.node, name))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_replaced_by_values_or_labels() {
        let variable = |value: Value, label: &str| Variable {
            value,
            label: label.to_owned(),
        };
        let variables = Variables::from([
            ("n".to_owned(), variable(Value::Integer(4), "four")),
            (
                "t".to_owned(),
                variable(Value::Table(Table::default()), "x"),
            ),
        ]);
        for (text, how, expected) in [
            ("${n}", As::Value, Value::Integer(4)),
            ("${n}", As::Label, Value::Text("four".to_owned())),
            ("a${n}b${t}", As::Value, Value::Text("a4bx".to_owned())),
            ("a${n}b", As::Label, Value::Text("afourb".to_owned())),
            ("$${n} $n $", As::Value, Value::Text("${n} $n $".to_owned())),
            ("${n", As::Value, Value::Text("${n".to_owned())),
        ] {
            let node = Node {
                value: Value::Text(text.to_owned()),
                at: 0..1,
            };
            let mut report = Report::new("x.toml", "x");
            let found = replaced(&node, &variables, how, &mut report).value;
            assert_eq!((found, report.errors()), (expected, 0), "{text}");
        }
        let node = Node {
            value: Value::Text("${m}".to_owned()),
            at: 0..1,
        };
        let mut report = Report::new("x.toml", "x");
        replaced(&node, &variables, As::Value, &mut report);
        assert_eq!(report.errors(), 1);
    }
}
