//! Converts plans stored or exported by older versions of iodyno to the current form.
//!
//! Up to [`iodyno_model::SCHEMA`] 1, each job had the fields of all kinds of work side by side, and `operations` or
//! `shared_files` determined which of them applied.

use iodyno_model::{Plan, SCHEMA};
use rusqlite::{Transaction, params};
use serde::de::Error;
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use crate::StoreError;
use crate::blob::{decode, encode, of_document};
use crate::error::OperationError;

/// Schema 4: plans in the form of [`SCHEMA`] 2. A plan that cannot be read is left unchanged, and is reported as
/// damaged when it is requested.
pub(crate) fn stored_plans(transaction: &Transaction<'_>) -> Result<(), OperationError> {
    let mut plans = transaction.prepare("SELECT alias, plan FROM runs")?;
    let mut changed = transaction.prepare("UPDATE runs SET plan = ?2 WHERE alias = ?1")?;
    let mut rows = plans.query([])?;
    // One at a time: an imported run can be large.
    while let Some(row) = rows.next()? {
        let (alias, blob): (i64, Vec<u8>) = (row.get(0)?, row.get(1)?);
        let Some(plan) = decode(&blob).ok().and_then(|value| plan(value).ok()) else {
            continue;
        };
        let blob = encode(&plan).map_err(|source| StoreError::NotStorable {
            what: "the plan",
            source,
        })?;
        changed.execute(params![alias, blob])?;
    }
    Ok(())
}

/// Decodes the plan in a JSON value, of any version.
///
/// # Errors
/// Why it is not a plan.
fn plan(mut value: Value) -> Result<Plan, String> {
    let old = value
        .get("schema")
        .and_then(Value::as_u64)
        .is_some_and(|schema| schema < 2);
    if old {
        let workloads = value.get_mut("workloads").and_then(Value::as_array_mut);
        for workload in workloads.into_iter().flatten() {
            let jobs = workload.get_mut("jobs").and_then(Value::as_array_mut);
            for job in jobs
                .into_iter()
                .flatten()
                .filter_map(Value::as_object_mut)
                .filter(|job| !job.contains_key("work"))
            {
                let work = work(job);
                job.insert("work".to_owned(), work);
            }
        }
        value["schema"] = SCHEMA.into();
    }
    of_document(&value).map_err(|error| error.to_string())
}

/// Reads a plan of any version, as [`plan`] does.
pub(crate) fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Plan, D::Error> {
    plan(Value::deserialize(deserializer)?).map_err(D::Error::custom)
}

/// Moves the fields that belong to the kind of work out of an old job.
fn work(job: &mut Map<String, Value>) -> Value {
    let mut passes = Map::new();
    if let Some(end) = job.get_mut("end").and_then(Value::as_object_mut) {
        for name in ["time_based", "io_size", "loops"] {
            passes.extend(end.remove(name).map(|value| (name.to_owned(), value)));
        }
    }
    let mut blocks = Map::new();
    for name in ["engine", "access", "files", "extent", "sync", "verify"] {
        blocks.extend(job.remove(name).map(|value| (name.to_owned(), value)));
    }
    let present = |value: Option<Value>| value.filter(|value| !value.is_null());
    let operations = present(job.remove("operations"));
    let shared = present(job.remove("shared_files"));
    let (kind, work) = match (operations, shared) {
        (Some(operations), _) => ("file_operations", operations),
        (None, Some(mut shared)) => {
            let mut take = |path: &str| {
                let found = blocks_at(&mut blocks, path);
                found.map_or(Value::Null, Value::take)
            };
            for (name, path) in [
                ("count", "files/count"),
                ("distribution", "access/distribution/read"),
                ("seed", "access/seed"),
                ("engine", "engine"),
            ] {
                shared[name] = take(path);
            }
            ("shared_files", shared)
        }
        (None, None) => {
            blocks.insert("passes".to_owned(), passes.into());
            ("blocks", blocks.into())
        }
    };
    Map::from_iter([(kind.to_owned(), work)]).into()
}

fn blocks_at<'a>(blocks: &'a mut Map<String, Value>, path: &str) -> Option<&'a mut Value> {
    let (first, rest) = path.split_once('/').unwrap_or((path, ""));
    let found = blocks.get_mut(first)?;
    match rest {
        "" => Some(found),
        rest => found.pointer_mut(&format!("/{rest}")),
    }
}
