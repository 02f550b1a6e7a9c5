//! Where the server processes of a layer run.

use serde::{Deserialize, Serialize};

/// Where the server processes of a layer run.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Pinning {
    /// Their CPUs, such as `0-3,8`; `None`: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus: Option<String>,
    /// The NUMA nodes of their CPUs, unless these are given, and of their memory, such as `0`; `None`: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub numa: Option<String>,
}

impl Pinning {
    /// Whether they run anywhere.
    pub fn is_none(&self) -> bool {
        *self == Pinning::default()
    }

    /// A command that runs another one there.
    pub fn command(&self, command: &[String]) -> Vec<String> {
        let mut words: Vec<String> = Vec::new();
        if let Some(cpus) = &self.cpus {
            words.extend(["taskset", "--cpu-list", cpus].map(str::to_owned));
        }
        if let Some(nodes) = &self.numa {
            words.push("numactl".to_owned());
            if self.cpus.is_none() {
                words.push(format!("--cpunodebind={nodes}"));
            }
            words.push(format!("--membind={nodes}"));
        }
        words.extend(command.iter().cloned());
        words
    }
}

/// The numbers of a list of CPUs or NUMA nodes, such as `0-3,8`; `None` if it is not one.
pub fn number_list(list: &str) -> Option<Vec<u32>> {
    let ranges = list.trim().split(',').map(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last) = (first.parse::<u32>().ok()?, last.parse::<u32>().ok()?);
        (first <= last && last < 1 << 16).then_some(first..=last)
    });
    let ranges: Option<Vec<_>> = ranges.collect();
    Some(ranges?.into_iter().flatten().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pinned_commands_run_on_their_cpus_and_nodes() {
        let words = |cpus: Option<&str>, numa: Option<&str>| {
            let pinning = Pinning {
                cpus: cpus.map(str::to_owned),
                numa: numa.map(str::to_owned),
            };
            pinning.command(&["serve".to_owned()]).join(" ")
        };
        assert_eq!(words(None, None), "serve");
        assert_eq!(words(Some("0-3"), None), "taskset --cpu-list 0-3 serve");
        assert_eq!(
            words(None, Some("0,1")),
            "numactl --cpunodebind=0,1 --membind=0,1 serve"
        );
        assert_eq!(
            words(Some("2"), Some("1")),
            "taskset --cpu-list 2 numactl --membind=1 serve"
        );
    }

    #[test]
    fn lists_of_cpus_are_numbers_and_ranges() {
        assert_eq!(number_list("0"), Some(vec![0]));
        assert_eq!(number_list("0-2,8\n"), Some(vec![0, 1, 2, 8]));
        for wrong in ["", "a", "3-1", "1,,2", "0-4294967295"] {
            assert_eq!(number_list(wrong), None, "{wrong}");
        }
    }
}
