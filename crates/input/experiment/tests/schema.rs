//! The schema accepts every shipped experiment, as its reader does, and refuses texts with mistakes.

use std::path::{Path, PathBuf};

use iodyno_experiment::document::{Node, Report, Value as Toml, parse};
use iodyno_experiment::{Context, read, schema};
use iodyno_fio::SystemHost;
use serde_json::{Map, Value, json};

/// The keywords of JSON Schema that the schema uses, as far as it uses them. Another keyword is an error of this test.
fn accepts(value: &Value, schema: &Value, root: &Value) -> bool {
    let rules = schema.as_object().expect("a schema is an object");
    rules.iter().all(|(keyword, rule)| match keyword.as_str() {
        "$schema" | "title" | "description" | "$defs" => true,
        "$ref" => {
            let path = rule.as_str().unwrap().strip_prefix('#').unwrap();
            accepts(value, root.pointer(path).expect(path), root)
        }
        "anyOf" => rule
            .as_array()
            .unwrap()
            .iter()
            .any(|one| accepts(value, one, root)),
        "type" => {
            let is = |name: &Value| match name.as_str().unwrap() {
                "object" => value.is_object(),
                "array" => value.is_array(),
                "string" => value.is_string(),
                "boolean" => value.is_boolean(),
                "integer" => value.is_i64() || value.is_u64(),
                "number" => value.is_number(),
                other => panic!("unknown type {other}"),
            };
            match rule.as_array() {
                Some(names) => names.iter().any(is),
                None => is(rule),
            }
        }
        "properties" => {
            let own = value.as_object();
            let own = own.into_iter().flatten();
            own.into_iter()
                .filter_map(|(key, value)| Some((value, rule.get(key)?)))
                .all(|(value, rule)| accepts(value, rule, root))
        }
        "additionalProperties" => {
            let known = rules.get("properties");
            let own = value.as_object();
            let others = own.into_iter().flatten();
            others
                .into_iter()
                .filter(|(key, _)| known.is_none_or(|known| known.get(key.as_str()).is_none()))
                .all(|(_, value)| match rule.as_bool() {
                    Some(any) => any,
                    None => accepts(value, rule, root),
                })
        }
        "required" => {
            let names = rule.as_array().unwrap();
            value.as_object().is_none_or(|own| {
                names
                    .iter()
                    .all(|name| own.contains_key(name.as_str().unwrap()))
            })
        }
        "items" => {
            let items = value.as_array();
            let mut items = items.into_iter().flatten();
            items.all(|item| accepts(item, rule, root))
        }
        "minItems" => value
            .as_array()
            .is_none_or(|items| items.len() as u64 >= rule.as_u64().unwrap()),
        "enum" => rule.as_array().unwrap().contains(value),
        "const" => value == rule,
        "minimum" => value
            .as_f64()
            .is_none_or(|number| number >= rule.as_f64().unwrap()),
        "exclusiveMinimum" => value
            .as_f64()
            .is_none_or(|number| number > rule.as_f64().unwrap()),
        "maximum" => value
            .as_f64()
            .is_none_or(|number| number <= rule.as_f64().unwrap()),
        // The patterns are simple: what they require is checked by hand.
        "pattern" => value
            .as_str()
            .is_none_or(|text| match rule.as_str().unwrap() {
                r"\$\{" => text.contains("${"),
                r"^\s*[0-9]" => text.trim().starts_with(|c: char| c.is_ascii_digit()),
                pattern if pattern.starts_with(r"^\s*[0-9.]+\s*") => {
                    let text = text.trim();
                    let unit = text.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
                    let percent = pattern.contains('%') && ["", "%"].contains(&unit.trim());
                    let size = pattern.contains("[bB]") && unit.len() <= 4 && !unit.contains('%');
                    unit.len() < text.len() && (percent || size)
                }
                other => panic!("unknown pattern {other}"),
            }),
        other => panic!("unknown keyword {other}"),
    })
}

fn as_json(node: &Node) -> Value {
    match &node.value {
        Toml::Text(text) => json!(text),
        Toml::Integer(number) => json!(i64::try_from(*number).unwrap()),
        Toml::Float(number) => json!(number),
        Toml::Switch(on) => json!(on),
        Toml::Date => Value::Null,
        Toml::List(list) => list.iter().map(as_json).collect(),
        Toml::Table(table) => table_as_json(table),
    }
}

fn table_as_json(table: &iodyno_experiment::document::Table) -> Value {
    let entries = table.entries.iter();
    let object: Map<String, Value> = entries
        .map(|entry| (entry.key.clone(), as_json(&entry.node)))
        .collect();
    Value::Object(object)
}

fn is_accepted(text: &str) -> bool {
    let mut report = Report::new("x.toml", text);
    let table = parse(text, &mut report);
    assert_eq!(report.errors(), 0, "{text}");
    let schema = schema();
    accepts(&table_as_json(&table), &schema, &schema)
}

/// The experiments that are shipped.
fn shipped() -> Vec<(PathBuf, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../experiments");
    let files = [folder.clone(), folder.join("explain")].map(|folder| {
        let entries = std::fs::read_dir(folder).unwrap();
        entries.map(|entry| entry.unwrap().path())
    });
    let files = files.into_iter().flatten();
    let files = files.filter(|file| file.extension().is_some_and(|ending| ending == "toml"));
    files
        .map(|file| (file.clone(), std::fs::read_to_string(file).unwrap()))
        .collect()
}

#[test]
fn accepts_the_shipped_experiments() {
    let shipped = shipped();
    assert!(shipped.len() > 30, "{}", shipped.len());
    for (file, text) in shipped {
        assert!(is_accepted(&text), "{}", file.display());
    }
}

#[test]
fn the_shipped_experiments_have_no_errors() {
    for (file, text) in shipped() {
        let folder = ("folder".to_owned(), "/x".to_owned());
        let settings: Vec<_> = text
            .contains("${folder}")
            .then_some(folder)
            .into_iter()
            .collect();
        let context = Context {
            source: &file.display().to_string(),
            folder: file.parent().unwrap(),
            settings: &settings,
            nodes: &[],
            host: &SystemHost,
        };
        if let Err(faults) = read(&text, &context) {
            panic!("{}: {faults:#?}", file.display());
        }
    }
}

#[test]
fn refuses_unknown_keys_and_values_of_the_wrong_kind() {
    const WORK: &str = "\n[workload.w]\nfs = 'create_empty'\n";
    assert!(is_accepted(WORK));
    for bad in [
        "nam = 'x'",
        "rounds = 'many'",
        "rounds = 0",
        "max_time = 12",
        "max_time = 'soon'",
        "fresh = 'sometimes'",
        "stop = 'x%'",
        "margin = 0",
        "aa = 'yes'",
        "metric = 3",
        "destroy = ['/dev/x']",
        "params = 3",
        "params.x = { abut = 'x' }",
        "preset.full = 3",
        "table.row = 'workload'",
        "[configuration.c]\ntraget = '/x'",
        "[configuration.c]\ntarget = 3",
        "[configuration.c.zfs]\ncompresion = 'off'",
        "[configuration.c.file]\nsize = 'large'",
        "[configuration.c]\nlayers = [{ kind = 'ext5' }]",
        "[configuration.c]\nlayers = [{ kind = 'ext4', size = 3 }]",
        "[configuration.c]\nlayers = [{ mount = 'noatime' }]",
        "[workload.v]\nduration = 3\nfs = 'create_empty'",
        "[workload.v]\nfiles = 'their own'\nfs = 'create_empty'",
        "[workload.v]\nfio = 3",
        "[workload.v]\nfs = 3",
        "[workload.v]\nfileio = 'run'",
        "[workload.v]\nfs = 'create_empty'\naxis.x = 3",
        "[workload.v]\nfs = 'create_empty'\naxis.x = []",
        "[workload.v]\nfs = 'create_empty'\nexclude = 3",
        "[workload.v]\nfs = 'create_empty'\nsearch = { axis = 'rate' }",
    ] {
        assert!(!is_accepted(&format!("{bad}{WORK}")), "{bad}");
    }
    assert!(!is_accepted("name = 'without work'"));
}

#[test]
fn the_reference_of_the_documentation_is_current() {
    let page = include_str!("../../../../docs/experiments.md");
    let reference = iodyno_experiment::reference_markdown();
    assert!(
        page.ends_with(&reference),
        "regenerate it: cargo run -p iodyno-experiment --example experiment_reference"
    );
}

#[test]
fn every_key_is_described() {
    fn check(schema: &Value) {
        for (name, key) in schema["properties"].as_object().unwrap() {
            let about = key["description"].as_str().unwrap_or_default();
            assert!(about.ends_with('.') && about.len() > 5, "{name}: {about}");
            if key.get("properties").is_some() {
                check(key);
            }
            if let Some(sections) = key.get("additionalProperties")
                && sections
                    .get("properties")
                    .is_some_and(|it| it.get("axis").is_some())
            {
                check(sections);
            }
        }
    }
    check(&schema());
}
