//! The named workloads.

use iodyno_model::closest;

use super::{Described, read};

/// A named workload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Named {
    /// Its name.
    pub name: &'static str,
    /// Other names for it.
    pub aliases: &'static [&'static str],
    /// Description: what is done and what is timed.
    pub about: String,
}

struct Entry {
    name: &'static str,
    aliases: &'static [&'static str],
    text: &'static str,
}

macro_rules! entries {
    ($($name:literal $([$($alias:literal),+])?,)+) => {
        [$(Entry {
            name: $name,
            aliases: &[$($($alias),+)?],
            text: include_str!(concat!("named/", $name, ".toml")),
        }),+]
    };
}

/// In the order of lists. `MB` in a name is as its authors wrote it and means 2^20 bytes. If the same name
/// with `MiB` has a different amount, it is a separate entry.
static ENTRIES: [Entry; 19] = entries![
    "create_empty",
    "delete_10k_2MB"["delete_10k_2MiB"],
    "delete_100k_2MB"["delete_100k_2MiB"],
    "delete_200k_2MB"["delete_200k_2MiB"],
    "delete_10k_2k_200MB"["delete_10k_2k_200MiB"],
    "delete_small_dir_2MiB"["delete_small_dir_2MB"],
    "delete_small_dir_256MiB"["delete_small_dir_256MB"],
    "delete_small_dir_2GiB"["delete_small_dir_2GB"],
    "delete_large_dir_2MiB"["delete_large_dir_2MB"],
    "delete_large_dir_256MiB"["delete_large_dir_256MB"],
    "write_sync_1MB"["write_sync_1MiB"],
    "write_sync_10MB"["write_sync_10MiB"],
    "write_sync_16MiB"["write_sync_16MB"],
    "write_sync_100MB"["write_sync_100MiB"],
    "write_sync_128MiB"["write_sync_128MB"],
    "statfs_many_files",
    "statfs_100MB"["statfs_100MiB"],
    "disk_usage_many_files",
    "disk_usage_128MB"["disk_usage_128MiB"],
];

/// All named workloads.
pub fn names() -> Vec<Named> {
    let named = ENTRIES.iter().map(|entry| Named {
        name: entry.name,
        aliases: entry.aliases,
        about: of(entry)
            .map(|described| described.about)
            .unwrap_or_default(),
    });
    named.collect()
}

/// The workload with this name or alias. The workload has its name, not the alias.
pub fn named(name: &str) -> Option<Described> {
    entry(name).and_then(of)
}

/// The text of a workload, by name or alias.
pub fn text(name: &str) -> Option<&'static str> {
    entry(name).map(|entry| entry.text)
}

/// The name or alias closest to a word, if it is similar enough.
pub fn suggest(name: &str) -> Option<String> {
    let known = ENTRIES.iter().flat_map(|entry| {
        let aliases = entry.aliases.iter().copied();
        std::iter::once(entry.name).chain(aliases)
    });
    // Words are compared in lower case, then the original name is looked up.
    let known: Vec<(String, &str)> = known.map(|name| (name.to_lowercase(), name)).collect();
    let near = closest(name, known.iter().map(|(lower, _)| lower.as_str()))?;
    let found = known.iter().find(|(lower, _)| lower == near);
    found.map(|(_, name)| (*name).to_owned())
}

fn entry(name: &str) -> Option<&'static Entry> {
    ENTRIES
        .iter()
        .find(|entry| entry.name == name || entry.aliases.contains(&name))
}

/// A test parses all of them.
fn of(entry: &Entry) -> Option<Described> {
    read(&format!("{}.toml", entry.name), entry.text).ok()
}
