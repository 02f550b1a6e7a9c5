//! The ready-made experiments, which need no file: `iodyno run quickstart`.

use toml::de::DeTable;

/// A ready-made experiment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadyMade {
    /// Its name.
    pub name: &'static str,
    /// Its text, in TOML.
    pub text: &'static str,
    /// Whether its parameters `size` and `direct` are to fit the folder in which it runs, unless they are given.
    pub fits: bool,
}

macro_rules! ready_made {
    ($($name:literal, fits $fits:literal;)+) => {
        &[$(ReadyMade {
            name: $name,
            fits: $fits,
            text: include_str!(concat!("../../../../experiments/", $name, ".toml")),
        }),+]
    };
}

/// All of them, in the order of lists.
pub static READY_MADE: &[ReadyMade] = ready_made! {
    "disk", fits true;
    "quickstart", fits true;
    "zfs-vs-ext4", fits false;
    "postgres-wal", fits false;
    "zvol-vs-file", fits false;
    "four-guests", fits false;
    "sysbench-on-a-pool", fits false;
    "mirror-simulated", fits false;
    "mirror-policies-simulated", fits false;
    "mirror-policies", fits false;
    "mirror-workloads", fits false;
    "mirror-peers", fits false;
    "virtiofs-suite", fits false;
    "virtiofs-servers", fits false;
    "dispatch-policies", fits false;
    "dispatch-policies-guest", fits false;
};

impl ReadyMade {
    /// The one with this name.
    pub fn named(name: &str) -> Option<&'static ReadyMade> {
        READY_MADE.iter().find(|it| it.name == name)
    }

    /// What it is about, in one line.
    pub fn about(&self) -> String {
        let table = DeTable::parse(self.text).ok();
        let about = table
            .and_then(|table| Some(table.get_ref().get("about")?.get_ref().as_str()?.to_owned()));
        about.unwrap_or_default()
    }

    /// The parameters without a default value, in the order of the text.
    pub fn required(&self) -> Vec<String> {
        let table = DeTable::parse(self.text).ok();
        let params = table
            .as_ref()
            .and_then(|table| table.get_ref().get("params")?.get_ref().as_table());
        let mut found: Vec<(usize, String)> = Vec::new();
        for (name, value) in params.into_iter().flatten() {
            let described = value.get_ref().as_table();
            if described.is_some_and(|it| !it.contains_key("default")) {
                found.push((name.span().start, name.get_ref().to_string()));
            }
        }
        found.sort();
        found.into_iter().map(|(_, name)| name).collect()
    }
}
