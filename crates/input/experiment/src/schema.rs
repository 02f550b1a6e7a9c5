//! The JSON Schema of an experiment, for editors.

use serde_json::{Map, Value, json};

use crate::check::SECTORS;
use crate::keys::{FILE, Key, Kind, kinds, layer};

/// A string with a parameter or an axis: it may stand for any value.
const VARIABLE: &str = r"\$\{";

/// The schema (JSON Schema, draft 2020-12). It accepts every experiment that is valid, and refuses unknown keys and
/// values of the wrong type.
pub fn schema() -> Value {
    let mut schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "iodyno experiment",
    });
    let root = schema.as_object_mut().expect("an object");
    root.extend(object(FILE));
    root.insert("required".to_owned(), json!(["workload"]));
    root.insert("$defs".to_owned(), definitions());
    schema
}

fn definitions() -> Value {
    let layers: Vec<Value> = kinds()
        .iter()
        .map(|kind| {
            let mut layer = Value::Object(object(layer(kind).1));
            layer["properties"]["kind"] = json!({ "const": kind });
            layer["required"] = json!(["kind"]);
            layer
        })
        .collect();
    json!({
        "variable": { "type": "string", "pattern": VARIABLE },
        "scalar": { "type": ["string", "number", "boolean"] },
        "value": {
            "anyOf": [
                { "$ref": "#/$defs/scalar" },
                { "type": "array", "items": { "$ref": "#/$defs/scalar" } },
            ],
        },
        "scalars": {
            "type": "object",
            "additionalProperties": { "anyOf": [{ "$ref": "#/$defs/scalar" }, { "$ref": "#/$defs/scalars" }] },
        },
        "texts": {
            "anyOf": [{ "type": "string" }, { "type": "array", "items": { "type": "string" } }],
        },
        "layer": { "anyOf": layers },
    })
}

/// An object with these keys.
fn object(keys: &[Key]) -> Map<String, Value> {
    let properties: Map<String, Value> = keys
        .iter()
        .map(|key| (key.name.to_owned(), property(key)))
        .collect();
    let mut object = Map::new();
    object.insert("type".to_owned(), json!("object"));
    object.insert("properties".to_owned(), Value::Object(properties));
    object.insert("additionalProperties".to_owned(), json!(false));
    object
}

fn property(key: &Key) -> Value {
    let mut property = kind(key.kind);
    let about = match key.default {
        "" => key.about.to_owned(),
        default => format!("{} Default: {default}.", key.about),
    };
    property["description"] = json!(about);
    property
}

/// A value, or a string with a variable.
fn or_variable(value: Value) -> Value {
    json!({ "anyOf": [value, { "$ref": "#/$defs/variable" }] })
}

fn kind(kind: Kind) -> Value {
    match kind {
        Kind::Text(_) => json!({ "type": "string" }),
        Kind::Switch => or_variable(json!({ "type": "boolean" })),
        Kind::Count(least, most) => {
            or_variable(json!({ "type": "integer", "minimum": least, "maximum": most }))
        }
        Kind::Size(least) => or_variable(json!({
            "anyOf": [
                { "type": "integer", "minimum": least },
                { "type": "string", "pattern": r"^\s*[0-9.]+\s*([kKmMgGtT]?(i?[bB])?)?\s*$" },
            ],
        })),
        Kind::Sector => or_variable(json!({
            "anyOf": [
                { "enum": SECTORS },
                { "type": "string", "pattern": r"^\s*[0-9.]+\s*([kK]?(i?[bB])?)?\s*$" },
            ],
        })),
        Kind::Time(_) | Kind::Whole(_) => {
            or_variable(json!({ "type": "string", "pattern": r"^\s*[0-9]" }))
        }
        Kind::Percent => or_variable(json!({
            "anyOf": [
                { "type": "number", "exclusiveMinimum": 0, "maximum": 100 },
                { "type": "string", "pattern": r"^\s*[0-9.]+\s*%?\s*$" },
            ],
        })),
        Kind::Words(words) => or_variable(json!({ "enum": words })),
        Kind::Texts => json!({ "$ref": "#/$defs/texts" }),
        Kind::Scalars => json!({ "$ref": "#/$defs/scalars" }),
        Kind::Parameters => json!({
            "type": "object",
            "additionalProperties": {
                "anyOf": [
                    { "$ref": "#/$defs/value" },
                    {
                        "type": "object",
                        "properties": { "about": { "type": "string" }, "default": { "$ref": "#/$defs/value" } },
                        "additionalProperties": false,
                    },
                ],
            },
        }),
        Kind::Table(keys) | Kind::Layer(_, keys) => Value::Object(object(keys)),
        Kind::Layers => json!({ "type": "array", "items": { "$ref": "#/$defs/layer" } }),
        Kind::Named(keys) => {
            json!({ "type": "object", "additionalProperties": Value::Object(object(keys)) })
        }
        Kind::Presets => json!({
            "type": "object",
            "additionalProperties": { "type": "object", "additionalProperties": { "$ref": "#/$defs/value" } },
        }),
        Kind::Axes => json!({
            "type": "object",
            "additionalProperties": {
                "anyOf": [
                    { "type": "array", "items": { "$ref": "#/$defs/scalar" }, "minItems": 1 },
                    { "$ref": "#/$defs/variable" },
                    {
                        "type": "object",
                        "additionalProperties": { "anyOf": [{ "$ref": "#/$defs/scalar" }, { "type": "object" }] },
                    },
                ],
            },
        }),
        Kind::Zip => json!({
            "type": "array",
            "items": { "anyOf": [{ "type": "string" }, { "type": "array", "items": { "type": "string" } }] },
        }),
        Kind::Exclude => json!({
            "type": "array",
            "items": {
                "type": "object",
                "additionalProperties": { "$ref": "#/$defs/value" },
            },
        }),
        Kind::Fio => {
            json!({ "anyOf": [{ "$ref": "#/$defs/texts" }, { "$ref": "#/$defs/scalars" }] })
        }
        Kind::FileOperations => {
            json!({ "anyOf": [{ "$ref": "#/$defs/texts" }, { "type": "object" }] })
        }
    }
}
