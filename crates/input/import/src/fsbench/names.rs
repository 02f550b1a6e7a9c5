//! Completes the names that tables truncate to ten letters, and derives the kind of work from a name.

use iodyno_model::Kind;

/// The length to which tables truncate names.
const CUT: usize = 10;

/// The names found so far, each with its line.
#[derive(Debug, Default)]
pub(super) struct Names {
    seen: Vec<String>,
}

impl Names {
    /// Adds a name.
    pub(super) fn note(&mut self, name: &str) {
        self.seen.push(name.to_owned());
    }

    /// Adds names in brackets in prose: `Creating empty files(create_empty).`
    pub(super) fn note_prose(&mut self, text: &str) {
        let is_name = |word: &&str| {
            word.contains('_')
                && word.starts_with(|c: char| c.is_ascii_alphabetic())
                && word.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'_')
        };
        let in_brackets = text
            .split('(')
            .skip(1)
            .filter_map(|rest| rest.split_once(')'))
            .map(|(word, _)| word);
        self.seen
            .extend(in_brackets.filter(is_name).map(str::to_owned));
    }

    /// Completes a name of the table's column `optype`: the nearest name above that begins with it. If there is none,
    /// the name is unchanged.
    pub(super) fn whole(&self, optype: &str) -> String {
        self.seen
            .iter()
            .rev()
            .find(|name| fits(name, optype))
            .map_or_else(|| optype.to_owned(), Clone::clone)
    }
}

/// Whether a name, when truncated, is equal to this.
pub(super) fn fits(name: &str, optype: &str) -> bool {
    name == optype || (optype.chars().count() == CUT && name.starts_with(optype))
}

/// Whether two names are equal, ignoring a suffix such as `-4`: in a benchmark's name that is the number of
/// processors.
pub(super) fn alike(name: &str, other: &str) -> bool {
    name.replace('-', "_") == other.replace('-', "_")
}

/// Whether the name is long enough to be a truncated one.
pub(super) fn may_be_cut(name: &str) -> bool {
    name.chars().count() == CUT
}

/// Whether a workload of this name ends after its work or after a time.
pub(super) fn kind(name: &str) -> Kind {
    let per_op_setup = ["delete_small_dir", "delete_large_dir"];
    let timed = ["create_", "write_sync", "statfs"];
    if per_op_setup.iter().any(|prefix| name.starts_with(prefix)) {
        Kind::Unknown
    } else if name.starts_with("delete_") {
        Kind::Finite
    } else if timed.iter().any(|prefix| name.starts_with(prefix)) {
        Kind::Timed
    } else {
        Kind::Unknown
    }
}

/// Workloads whose cycles do work that is not timed, by the beginnings of their names.
const UNTIMED: [&str; 5] = [
    "write_sync",
    "statfs",
    "disk_usage",
    "delete_small_dir",
    "delete_large_dir",
];
/// Workloads whose cycles are timed completely.
const TIMED: [&str; 2] = ["create_empty", "delete_"];

/// Whether the cycles of a workload of this name do work that is not timed, as in iodyno's own trials; `None` if its
/// name does not tell.
pub(super) fn untimed_work(name: &str) -> Option<bool> {
    let begins = |beginning: &&str| {
        name.starts_with(beginning) || (may_be_cut(name) && beginning.starts_with(name))
    };
    match UNTIMED.iter().any(begins) {
        true => Some(true),
        false => TIMED.iter().any(begins).then_some(false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn untimed_work_is_known_for_every_named_workload_also_if_its_name_is_cut() {
        for named in iodyno_experiment::fileops::names() {
            let described = iodyno_experiment::fileops::named(named.name).unwrap();
            let operations = described.job.work.file_operations().unwrap();
            let expected = Some(operations.has_untimed_work());
            for name in named.aliases.iter().chain([&named.name]) {
                assert_eq!(untimed_work(name), expected, "{name}");
                let cut: String = name.chars().take(CUT).collect();
                assert_eq!(untimed_work(&cut), expected, "{cut}");
            }
        }
        assert_eq!(untimed_work("unlink"), None);
        assert_eq!(untimed_work("delete"), None, "short names are not cut");
    }

    #[test]
    fn completes_a_name_by_the_nearest_one_above() {
        let mut names = Names::default();
        names.note_prose("**Benchmark 1:** Creating empty files(create_empty).");
        names.note_prose("2. zfs results from one run (the other runs were similar) of (it).");
        names.note("delete_10k_2MB");
        assert_eq!(names.whole("create_emp"), "create_empty");
        assert_eq!(names.whole("delete_10k"), "delete_10k_2MB");
        names.note("delete_10k_2k_200MB");
        assert_eq!(names.whole("delete_10k"), "delete_10k_2k_200MB");
        assert_eq!(names.whole("delete_100"), "delete_100");
        assert_eq!(names.whole("create"), "create", "a short name is complete");
    }
}
