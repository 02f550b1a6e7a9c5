//! The user's permission for one invocation: which content may be overwritten, and what a run from another user may do.
//!
//! Invariant: a permission is never stored or imported. A file from another user never decides what is overwritten on
//! this host or what runs on it.

use std::collections::{BTreeSet, HashSet};
use std::path::{Component, Path, PathBuf};

use iodyno_model::{Blocks, Configuration, Job, Plan, Target, Work};
use iodyno_runner::made_up_name;

use crate::acts::{Act, acts, on_host};

/// The user's permission for resuming a run, or a part of it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Permission {
    /// The arguments of `--destroy`.
    pub destroy: Vec<PathBuf>,
    /// The arguments of `--on`: the name of a configuration and a path, absolute.
    pub named: Vec<NamedTarget>,
    /// The arguments of `--allow`: texts of [`Act`]s.
    pub allowed: Vec<String>,
    /// The [`crate::fingerprint`] of the plan that this user began under the run's identity on this host, from a record
    /// outside of the store. A store can come from another user.
    pub begun: Option<String>,
    /// The plan that the user gives again. It runs in place of the stored one, which must be equal.
    pub plan: Option<Plan>,
    /// The cells whose trials are run now; `None`: all.
    pub cells: Option<BTreeSet<u32>>,
    /// The current folder; relative names of log files start there.
    pub folder: PathBuf,
}

/// A path that a configuration uses.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NamedTarget {
    /// The configuration's name.
    pub configuration: String,
    /// A folder, a file, a device, or the common beginning of the names of log files.
    pub path: PathBuf,
}

/// Every path that a plan names and its trials may write to, in order, without duplicates. Generated names are in one
/// of the folders among them. Simulated devices have no path; that of an export of an NBD server is its URI.
pub(crate) fn named_by(plan: &Plan, here: &Path) -> Vec<NamedTarget> {
    let mut all: Vec<NamedTarget> = Vec::new();
    // A repeated baseline has the target of the baseline. An imported plan may contain something else.
    let repeats = |it: &Configuration| {
        let mut others = plan.configurations.iter().filter(|one| !one.again);
        it.again && others.any(|one| one.target == it.target)
    };
    let on_host = on_host(plan);
    let mut known = HashSet::new();
    for configuration in plan.configurations.iter().filter(|one| !repeats(one)) {
        let jobs = plan.workloads.iter().flat_map(|workload| &workload.jobs);
        let target = &configuration.target;
        // Storage is made on them, or they are looked at, whatever the jobs use.
        let below = match target {
            Target::Made(provision) => provision.paths(),
            Target::Path(path) if on_host => vec![path.clone()],
            Target::Path(_) | Target::AsWritten { .. } | Target::Simulated(_) => Vec::new(),
        };
        let paths = jobs.flat_map(|job| {
            // A node looks at the target, also for jobs without files.
            let places = if on_host {
                places(target, job)
            } else {
                Vec::new()
            };
            [paths_of(target, job), places, beside(target, job, here)].concat()
        });
        for path in below.into_iter().chain(paths) {
            let target = NamedTarget {
                configuration: configuration.name.clone(),
                path,
            };
            if known.insert(target.clone()) {
                all.push(target);
            }
        }
    }
    all
}

/// The folders, files and devices that a job uses on this target, as named in the plan.
pub(crate) fn paths_of(target: &Target, job: &Job) -> Vec<PathBuf> {
    let engine = job.work.engine();
    let simulated = engine.is_some_and(|engine| engine.kind.without_files());
    if let Some(uri) = engine.and_then(|engine| engine.export.as_ref()) {
        return vec![PathBuf::from(uri.to_string())];
    }
    match simulated {
        true => Vec::new(),
        false => places(target, job),
    }
}

/// The folders, files and devices of a job on this target, if its engine has any.
fn places(target: &Target, job: &Job) -> Vec<PathBuf> {
    match target {
        Target::Simulated(_) => Vec::new(),
        Target::Path(path) => vec![path.clone()],
        Target::Made(provision) => provision.paths(),
        Target::AsWritten { folder } => match &job.work {
            Work::Blocks(blocks) => files_of(&job.name, blocks, folder),
            Work::FileOperations(operations) => {
                let own = operations.fio.as_ref().and_then(|fio| fio.folder.as_ref());
                vec![own.map_or_else(|| folder.clone(), |own| folder.join(own))]
            }
            // These files are in the folder itself.
            Work::SharedFiles(_) => vec![folder.clone()],
        },
    }
}

/// Other paths that a job writes to: logs, copies of bad blocks, and the output of its commands.
fn beside(target: &Target, job: &Job, here: &Path) -> Vec<PathBuf> {
    let folder = match target {
        Target::AsWritten { folder } => folder,
        Target::Path(_) | Target::Made(_) | Target::Simulated(_) => here,
    };
    let logs = job.logs.paths().map(|path| folder.join(path));
    let verify = job.work.blocks().and_then(|blocks| blocks.verify.as_ref());
    let dumps = verify.is_some_and(|verify| verify.dump);
    let commands = job.exec_prerun.is_some() || job.exec_postrun.is_some();
    logs.chain((dumps || commands).then(|| folder.to_owned()))
        .collect()
}

fn files_of(job: &str, blocks: &Blocks, folder: &Path) -> Vec<PathBuf> {
    let files = &blocks.files;
    if !files.directories.is_empty() {
        // Even an absolute name is relative to them.
        let directories = files.directories.iter();
        return directories.map(|one| folder.join(one)).collect();
    }
    if !files.names.is_empty() {
        return files.names.iter().map(|one| folder.join(one)).collect();
    }
    let made_up = made_up_name(files, job);
    let mut parts = made_up.components();
    let mut paths = match parts.all(|part| matches!(part, Component::Normal(_))) {
        true => vec![folder.to_owned()],
        false => vec![folder.join(made_up)],
    };
    // The name of a job can be that of its device.
    if Path::new(job).is_absolute() {
        paths.push(PathBuf::from(job));
    }
    paths
}

impl Permission {
    /// Whether the trials of a cell are run now.
    pub(crate) fn has_cell(&self, cell: u32) -> bool {
        self.cells
            .as_ref()
            .is_none_or(|cells| cells.contains(&cell))
    }

    /// The paths that the plan uses but the user did not name, and those that the user named but the plan does not
    /// use.
    pub(crate) fn compare(&self, plan: &Plan) -> (Vec<NamedTarget>, Vec<NamedTarget>) {
        let uses = named_by(plan, &self.folder);
        let lacks = |some: &[NamedTarget], others: &[NamedTarget]| -> Vec<NamedTarget> {
            let some = some.iter().filter(|one| !others.contains(one));
            some.cloned().collect()
        };
        (lacks(&uses, &self.named), lacks(&self.named, &uses))
    }

    /// Actions of the plan beyond its paths that the user did not allow, and allowed actions that the plan does not
    /// contain.
    pub(crate) fn compare_acts(&self, plan: &Plan) -> (Vec<Act>, Vec<String>) {
        let acts = acts(plan);
        let texts: Vec<String> = acts.iter().map(Act::to_string).collect();
        let unknown = self.allowed.iter().filter(|one| !texts.contains(one));
        let unknown = unknown.cloned().collect();
        let lacking = acts.into_iter().zip(texts);
        let lacking = lacking.filter(|(_, text)| !self.allowed.contains(text));
        (lacking.map(|(act, _)| act).collect(), unknown)
    }
}

#[cfg(test)]
mod tests {
    use iodyno_model::{
        Configuration, Direction, Engine, EngineKind, Files, FioOperations, Logs, Operations,
        Verify, Workload,
    };

    use super::*;

    fn blocks(name: &str, change: impl FnOnce(&mut Job, &mut Blocks)) -> Job {
        let mut job = Job {
            name: name.to_owned(),
            ..Job::default()
        };
        let mut blocks = Blocks::default();
        change(&mut job, &mut blocks);
        Job {
            work: Work::Blocks(blocks),
            ..job
        }
    }

    fn files(names: &[&str], directories: &[&str]) -> Files {
        let paths = |texts: &[&str]| texts.iter().map(PathBuf::from).collect();
        Files {
            names: paths(names),
            directories: paths(directories),
            ..Files::default()
        }
    }

    fn check(target: &Target, job: Job, expected: &[&str]) {
        let mut again = Configuration::new("c (again)", target.clone());
        again.again = true;
        let plan = Plan::new(
            "p",
            vec![Configuration::new("c", target.clone()), again],
            vec![
                Workload::new("w", Vec::new(), vec![job.clone()]),
                Workload::new("x", Vec::new(), vec![job]),
            ],
        );
        let named = named_by(&plan, Path::new("/here"));
        assert!(named.iter().all(|one| one.configuration == "c"));
        let named: Vec<String> = named
            .iter()
            .map(|one| one.path.display().to_string())
            .collect();
        assert_eq!(named, expected, "{target:?}");
    }

    #[test]
    fn every_path_that_a_plan_may_write_to_is_named() {
        let written = Target::AsWritten {
            folder: "/w".into(),
        };
        let path = Target::Path("/dev/sdx".into());
        let named = |names: &[&str], directories: &[&str]| {
            let files = files(names, directories);
            blocks("j", |_, blocks| blocks.files = files)
        };
        check(&written, blocks("j", |_, _| {}), &["/w"]);
        check(
            &written,
            named(&["f", "/dev/sdb"], &[]),
            &["/w/f", "/dev/sdb"],
        );
        check(
            &written,
            named(&["/dev/sdb"], &["/d", "e"]),
            &["/d", "/w/e"],
        );
        check(&path, named(&["f", "/dev/sdb"], &["/d"]), &["/dev/sdx"]);
        check(&written, blocks("/dev/sdc", |_, _| {}), &["/w", "/dev/sdc"]);
        let files = |folder: Option<&str>| {
            let mut job = blocks("j", |_, _| {});
            job.work = Work::FileOperations(Operations {
                about: String::new(),
                sets: Vec::new(),
                cycle: Vec::new(),
                own_folders: false,
                drain: false,
                writing: Default::default(),
                fio: Some(FioOperations {
                    engine: "filedelete".to_owned(),
                    folder: folder.map(Into::into),
                    direction: Direction::Write,
                    bytes: 0,
                }),
                command: None,
            });
            job
        };
        check(&written, files(None), &["/w"]);
        check(&written, files(Some("d")), &["/w/d"]);
        check(&written, files(Some("/etc")), &["/etc"]);
        check(&path, files(Some("/etc")), &["/dev/sdx"]);
        let format = |format: &str| {
            let format = format.to_owned();
            blocks("j", |_, blocks| blocks.files.format = format)
        };
        check(&written, format("/etc/$jobname"), &["/etc/j"]);
        check(
            &written,
            format("$clientuid/etc/x$JOBNUM"),
            &["/etc/x$jobnum"],
        );
        check(&written, format("a/../../x"), &["/w/a/../../x"]);
        check(&written, format("a/$jobname"), &["/w"]);
        let out = |job: &str, format: &str| {
            let format = format.to_owned();
            blocks(job, |_, blocks| blocks.files.format = format)
        };
        check(&written, out("..", "$jobname/x"), &["/w/../x"]);
        check(&written, out("/nowhere", "../x"), &["/w/../x", "/nowhere"]);
        check(&written, format("$jobname.$filenum"), &["/w"]);
        let logs = |engine| {
            blocks("j", move |job, blocks| {
                blocks.engine = Engine::new(engine, 1);
                job.logs = Logs {
                    bandwidth: Some("/etc/b".into()),
                    iops: Some("i".into()),
                    latency: Some("l".into()),
                    histogram: Some("/h".into()),
                    iolog: Some("/home/o".into()),
                    ..Logs::default()
                };
            })
        };
        check(
            &written,
            logs(EngineKind::Psync),
            &["/w", "/etc/b", "/w/i", "/w/l", "/h", "/home/o"],
        );
        check(
            &path,
            logs(EngineKind::Sim),
            &["/etc/b", "/here/i", "/here/l", "/h", "/home/o"],
        );
        let dumps = blocks("j", |_, blocks| {
            blocks.verify = Some(Verify {
                dump: true,
                save_state: true,
                ..Verify::default()
            });
        });
        check(&path, dumps, &["/dev/sdx", "/here"]);
    }

    #[test]
    fn a_repeated_baseline_with_a_separate_target_is_named() {
        let mut plan = crate::testing::plan(1, 1, 1);
        let mut again = Configuration::new("c0 (again)", Target::Path("/other".into()));
        again.again = true;
        plan.configurations.push(again);
        let paths = |plan: &Plan| -> Vec<PathBuf> {
            let named = named_by(plan, Path::new("/here"));
            named.into_iter().map(|one| one.path).collect()
        };
        assert_eq!(paths(&plan), ["/c0", "/other"].map(PathBuf::from));
        plan.configurations.remove(0);
        assert_eq!(paths(&plan), ["/other"].map(PathBuf::from));
    }

    #[test]
    fn named_paths_are_compared_with_those_of_the_plan() {
        let plan = crate::testing::plan(2, 1, 1);
        let target = |configuration: &str, path: &str| NamedTarget {
            configuration: configuration.to_owned(),
            path: path.into(),
        };
        let compare = |named: &[NamedTarget]| {
            Permission {
                named: named.to_vec(),
                ..Permission::default()
            }
            .compare(&plan)
        };
        let (first, second) = (target("c0", "/c0"), target("c1", "/c1"));
        let both = vec![first.clone(), second.clone()];
        assert_eq!(compare(&[]), (both.clone(), vec![]));
        assert_eq!(compare(&both), (vec![], vec![]));
        assert_eq!(
            compare(&[target("c0", "/c0/.")]).0,
            std::slice::from_ref(&second)
        );
        let other = target("c0", "/c1");
        assert_eq!(
            compare(&[other.clone(), second]),
            (vec![first], vec![other])
        );
    }
}
