//! The names of all keys.

use super::{SETTINGS, cycle, read, sets};

/// All keys of a text, with the sets and steps that they belong to, and the flags of the command line.
pub fn keys() -> impl Iterator<Item = String> {
    let top = read::KEYS
        .iter()
        .filter(|key| !["files", "cycle"].contains(key));
    let top = top.map(|key| (*key).to_owned());
    let sets = sets::KEYS.iter().map(|key| format!("files.{key}"));
    let steps = cycle::KEYS.iter().map(|key| format!("cycle.{key}"));
    let flags = SETTINGS.iter().map(|key| format!("--set {key}"));
    top.chain(sets).chain(steps).chain(flags)
}
