//! Finds runs by the names that users give: alias, `last`, identity or plan name.

use iodyno_model::RunId;
use rusqlite::{Connection, OptionalExtension, params};

use super::SqliteStore;
use super::rows::{no_such_run, run_id};
use crate::StoreError;
use crate::error::OperationError;

/// Maximum number of candidates that an error lists.
const SHOWN: usize = 8;

/// Minimum length of an identity prefix; a shorter one may be a typing error.
const MIN_PREFIX: usize = 4;

pub(super) fn find(store: &SqliteStore, name: &str) -> Result<RunId, StoreError> {
    store.reading("looking for a run", |transaction| {
        let name = name.trim();
        if let Some(back) = steps_back(name) {
            return last(transaction, name, back);
        }
        if let Some(run) = by_alias(transaction, name)? {
            return Ok(run);
        }
        let mut named = by_name(transaction, name)?;
        if named.is_empty() {
            named = by_prefix(transaction, name)?;
        }
        match named.as_slice() {
            [] => Err(no_such_run(name, &what_there_is(transaction, name)?)),
            [(run, _)] => Ok(*run),
            several => Err(OperationError::Store(StoreError::Ambiguous {
                name: name.to_owned(),
                count: several.len(),
                candidates: several
                    .iter()
                    .take(SHOWN)
                    .map(|(_, words)| words.clone())
                    .chain((several.len() > SHOWN).then(|| "…".to_owned()))
                    .collect(),
            })),
        }
    })
}

/// The runs that `last` counts: a run whose trials were all refused did nothing.
const COUNTED: &str = "FROM runs WHERE state IS NOT 'refused'
     OR EXISTS (SELECT 1 FROM trials WHERE run = alias AND trials.state IS NOT 'refused')";

/// Parses `last` as 0 and `last~2` as 2.
fn steps_back(name: &str) -> Option<u64> {
    match name.strip_prefix("last")? {
        "" => Some(0),
        rest => rest.strip_prefix('~')?.parse().ok(),
    }
}

fn last(connection: &Connection, name: &str, back: u64) -> Result<RunId, OperationError> {
    let offset = i64::try_from(back).unwrap_or(i64::MAX);
    let sql = format!("SELECT id {COUNTED} ORDER BY alias DESC LIMIT 1 OFFSET ?1");
    let mut statement = connection.prepare(&sql)?;
    let mut rows = statement.query([offset])?;
    if let Some(row) = rows.next()? {
        return run_id(row, "id");
    }
    let counted = format!("SELECT count(*), (SELECT count(*) FROM runs) {COUNTED}");
    let (count, all): (u64, u64) =
        connection.query_row(&counted, [], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let why = match count {
        0 if all > 0 => "all runs were refused, and `last` does not count them".to_owned(),
        0 => "the store is empty".to_owned(),
        1 => "the store has one run".to_owned(),
        count => format!(
            "the store has {count} runs, so that the oldest is `last~{}`",
            count - 1
        ),
    };
    Err(no_such_run(name, &why))
}

fn by_alias(connection: &Connection, name: &str) -> Result<Option<RunId>, OperationError> {
    // A number has no leading zero; an identity may begin with one.
    let Some(alias) = name
        .parse::<i64>()
        .ok()
        .filter(|alias| alias.to_string() == name)
    else {
        return Ok(None);
    };
    let mut statement = connection.prepare("SELECT id FROM runs WHERE alias = ?1")?;
    let mut rows = statement.query([alias])?;
    rows.next()?.map(|row| run_id(row, "id")).transpose()
}

fn by_name(connection: &Connection, name: &str) -> Result<Vec<(RunId, String)>, OperationError> {
    let mut statement =
        connection.prepare("SELECT alias, id FROM runs WHERE name = ?1 ORDER BY alias DESC")?;
    let mut rows = statement.query([name])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push((run_id(row, "id")?, row.get::<_, u64>("alias")?.to_string()));
    }
    Ok(found)
}

fn by_prefix(connection: &Connection, name: &str) -> Result<Vec<(RunId, String)>, OperationError> {
    let digits: String = name.chars().filter(|character| *character != '-').collect();
    let is_hex = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    if !is_hex || digits.len() < MIN_PREFIX || digits.len() > 32 {
        return Ok(Vec::new());
    }
    let mut statement = connection.prepare(
        "SELECT alias, id, name FROM runs WHERE substr(hex(id), 1, ?2) = upper(?1)
         ORDER BY alias DESC",
    )?;
    let mut rows = statement.query(params![digits, digits.len() as i64])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let run = run_id(row, "id")?;
        let (alias, name): (u64, String) = (row.get("alias")?, row.get("name")?);
        found.push((run, format!("{alias} ({run}, {name})")));
    }
    Ok(found)
}

fn what_there_is(connection: &Connection, name: &str) -> Result<String, OperationError> {
    let newest: Option<u64> = connection
        .query_row("SELECT max(alias) FROM runs", [], |row| row.get(0))
        .optional()?
        .flatten();
    let Some(newest) = newest else {
        return Ok("the store is empty".to_owned());
    };
    let mut statement =
        connection.prepare("SELECT name, max(alias) FROM runs GROUP BY name ORDER BY 2 DESC")?;
    let names = statement.query_map([], |row| {
        Ok((row.get::<_, String>(0)?, row.get::<_, u64>(1)?))
    })?;
    let mut nearest: Option<(usize, String, u64)> = None;
    for known in names {
        let (known, alias) = known?;
        let distance = strsim::damerau_levenshtein(name, &known);
        let near = distance <= 2 && distance * 3 <= known.chars().count();
        if near && nearest.as_ref().is_none_or(|best| distance < best.0) {
            nearest = Some((distance, known, alias));
        }
    }
    Ok(match nearest {
        Some((_, known, alias)) => format!("did you mean `{known}` (run {alias})?"),
        None => format!("the newest is {newest}"),
    })
}
