//! The values of a text, owned, with their locations and in the order of the text.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::document::report::Report;

/// A value with its location.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// The value.
    pub value: Value,
    /// Its bytes in the text.
    pub at: Range<usize>,
}

/// A value of TOML.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// A string.
    Text(String),
    /// An integer; those that exceed the type are its extremes.
    Integer(i128),
    /// A number with a fraction or an exponent.
    Float(f64),
    /// `true` or `false`.
    Switch(bool),
    /// A date or a time.
    Date,
    /// An array.
    List(Vec<Node>),
    /// A table.
    Table(Table),
}

/// A key with its value.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// The key.
    pub key: String,
    /// The bytes of the key in the text.
    pub key_at: Range<usize>,
    /// Its value.
    pub node: Node,
}

/// A table: its entries, in the order of the text.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Table {
    /// Each key once.
    pub entries: Vec<Entry>,
}

impl Node {
    /// The table, if it is one.
    pub fn as_table(&self) -> Option<&Table> {
        match &self.value {
            Value::Table(table) => Some(table),
            _ => None,
        }
    }

    /// The string, if it is one.
    pub fn as_text(&self) -> Option<&str> {
        match &self.value {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The elements, if it is an array.
    pub fn as_list(&self) -> Option<&[Node]> {
        match &self.value {
            Value::List(list) => Some(list),
            _ => None,
        }
    }

    /// A string, number or switch as text; `None` for other values.
    pub fn scalar(&self) -> Option<String> {
        match &self.value {
            Value::Text(text) => Some(text.clone()),
            Value::Integer(number) => Some(number.to_string()),
            Value::Float(number) => Some(number.to_string()),
            Value::Switch(on) => Some(on.to_string()),
            Value::Date | Value::List(_) | Value::Table(_) => None,
        }
    }
}

impl Value {
    /// What it is, for messages: `the string "a"`, `a table`.
    pub fn in_words(&self) -> String {
        match self {
            Value::Text(text) => format!("the string {text:?}"),
            Value::Integer(number) => format!("the number {number}"),
            Value::Float(number) => format!("the number {number}"),
            Value::Switch(on) => format!("`{on}`"),
            Value::Date => "a date".to_owned(),
            Value::List(_) => "an array".to_owned(),
            Value::Table(_) => "a table".to_owned(),
        }
    }
}

impl Table {
    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&Node> {
        self.entry(key).map(|entry| &entry.node)
    }

    /// A key with its value.
    pub fn entry(&self, key: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.key == key)
    }

    /// Removes a key.
    pub fn remove(&mut self, key: &str) -> Option<Entry> {
        let place = self.entries.iter().position(|entry| entry.key == key)?;
        Some(self.entries.remove(place))
    }

    /// Sets a key; a table is merged into a table.
    pub fn set(&mut self, new: Entry) {
        let old = self.entries.iter_mut().find(|entry| entry.key == new.key);
        let Some(old) = old else {
            self.entries.push(new);
            return;
        };
        match (&mut old.node.value, new.node.value) {
            (Value::Table(into), Value::Table(from)) => {
                from.entries.into_iter().for_each(|entry| into.set(entry));
            }
            (_, value) => {
                let node = Node {
                    value,
                    at: new.node.at,
                };
                (old.key_at, old.node) = (new.key_at, node);
            }
        }
    }
}

/// Parses a text as far as it is valid. Errors are added to `report`, which is then marked as broken.
pub fn parse(text: &str, report: &mut Report<'_>) -> Table {
    let (table, faults) = DeTable::parse_recoverable(text);
    for fault in &faults {
        let at = fault.span().unwrap_or_default();
        match (fault.message(), text.get(at.clone())) {
            ("duplicate key", Some(key)) => {
                let hint = "write each key and each table once";
                report.error(at, format!("`{key}` is defined twice"), hint);
            }
            (message, _) => report.plain_error(at, message),
        }
    }
    report.broken |= !faults.is_empty();
    owned_table(table.get_ref())
}

fn owned_table(table: &DeTable<'_>) -> Table {
    let mut entries: Vec<Entry> = table
        .iter()
        .map(|(key, value)| Entry {
            key: key.get_ref().to_string(),
            key_at: key.span(),
            node: owned(value),
        })
        .collect();
    entries.sort_by_key(|entry| entry.key_at.start);
    Table { entries }
}

fn owned(value: &Spanned<DeValue<'_>>) -> Node {
    let at = value.span();
    let value = match value.get_ref() {
        DeValue::String(text) => Value::Text(text.to_string()),
        DeValue::Integer(number) => {
            let parsed = i128::from_str_radix(number.as_str(), number.radix());
            let extreme = match number.as_str().starts_with('-') {
                true => i128::MIN,
                false => i128::MAX,
            };
            Value::Integer(parsed.unwrap_or(extreme))
        }
        DeValue::Float(number) => Value::Float(number.as_str().parse().unwrap_or(f64::NAN)),
        DeValue::Boolean(on) => Value::Switch(*on),
        DeValue::Datetime(_) => Value::Date,
        DeValue::Array(array) => Value::List(array.iter().map(owned).collect()),
        DeValue::Table(table) => Value::Table(owned_table(table)),
    };
    Node { value, at }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Table {
        let mut report = Report::new("x.toml", text);
        let table = parse(text, &mut report);
        assert_eq!(report.errors(), 0);
        table
    }

    #[test]
    fn keys_keep_the_order_of_the_text_and_their_locations() {
        let text = "b = 1\na.z = 'x'\na.c = [1.5, true]\n";
        let table = parsed(text);
        let keys: Vec<&str> = table.entries.iter().map(|it| it.key.as_str()).collect();
        assert_eq!(keys, ["b", "a"]);
        let inner = table.get("a").unwrap().as_table().unwrap();
        let entry = inner.entry("z").unwrap();
        assert_eq!(&text[entry.key_at.clone()], "z");
        assert_eq!(&text[entry.node.at.clone()], "'x'");
        let list = inner.get("c").unwrap().as_list().unwrap();
        assert_eq!(list[1].scalar().as_deref(), Some("true"));
    }

    #[test]
    fn a_table_is_merged_and_any_other_value_replaced() {
        let mut table = parsed("a = 1\nt = { x = 1, y = 2 }");
        for new in parsed("t = { y = 3, z = 4 }\na = 'b'").entries {
            table.set(new);
        }
        assert_eq!(table.get("a").unwrap().as_text(), Some("b"));
        let inner = table.get("t").unwrap().as_table().unwrap();
        let values: Vec<String> = inner
            .entries
            .iter()
            .filter_map(|it| it.node.scalar())
            .collect();
        assert_eq!(values, ["1", "3", "4"]);
    }

    #[test]
    fn numbers_of_any_size_are_numbers() {
        let table = parsed(
            "a = 0x10\nb = -1\nc = 99999999999999999999999999999999999999999999999\nd = 1_000",
        );
        let numbers: Vec<String> = table
            .entries
            .iter()
            .filter_map(|it| it.node.scalar())
            .collect();
        assert_eq!(numbers, ["16", "-1", &i128::MAX.to_string(), "1000"]);
    }
}
