//! The plan of a run, and the plan of one trial for a node.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::{
    ClosingTable, FactClass, Fresh, Imported, Job, Metric, PlannedNode, Provision, Question,
    Search, SimTarget, TrialKey, VmLayer,
};

/// Target of the I/O.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    /// As the jobs specify; relative paths start at `folder`.
    AsWritten {
        /// The current folder of the command.
        folder: PathBuf,
    },
    /// A folder (which contains the jobs' folders and files), a file or a device.
    Path(PathBuf),
    /// Storage that is made for the trials. The plan of a trial contains the path of what was made: [`Target::Path`].
    Made(Box<Provision>),
    /// Simulated storage: nothing is read from or written to the host.
    Simulated(Box<SimTarget>),
}

impl Target {
    /// The folder, file or device; empty for storage that is not made yet, or simulated.
    pub fn path(&self) -> &Path {
        match self {
            Target::AsWritten { folder } => folder,
            Target::Path(path) => path,
            Target::Made(_) | Target::Simulated(_) => Path::new(""),
        }
    }
}

/// A target with its settings: one column of a comparison.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Configuration {
    /// Its name.
    pub name: String,
    /// Its target.
    pub target: Target,
    /// Whether it is the baseline repeated for the noise floor: everything but its name equals the baseline's.
    #[serde(default)]
    pub again: bool,
    /// Further dimensions of its trials: the values of the axes of a matrix.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub dimensions: BTreeMap<String, String>,
    /// Names of the nodes that have it; empty: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<String>,
}

impl Configuration {
    /// A separate configuration, not the repeated baseline.
    pub fn new(name: impl Into<String>, target: Target) -> Configuration {
        Configuration {
            name: name.into(),
            target,
            again: false,
            dimensions: BTreeMap::new(),
            nodes: Vec::new(),
        }
    }

    /// How its storage is made; `None`: it exists.
    pub fn provision(&self) -> Option<&Provision> {
        match &self.target {
            Target::Made(provision) => Some(provision),
            Target::AsWritten { .. } | Target::Path(_) | Target::Simulated(_) => None,
        }
    }

    /// Its simulated storage; `None`: it is real, or chosen by the jobs.
    pub fn simulated(&self) -> Option<&SimTarget> {
        match &self.target {
            Target::Simulated(simulated) => Some(simulated),
            Target::AsWritten { .. } | Target::Path(_) | Target::Made(_) => None,
        }
    }
}

/// Which trials use the files that a trial laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FilePolicy {
    /// As the jobs name them.
    #[default]
    Own,
    /// The workloads of a family use the same files, which the first of them on a target lays out.
    Shared,
    /// A snapshot of the target, taken after its files were laid out, is rolled back before each trial.
    Rollback,
}

/// The source text of a workload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// The file, or `<command line>`.
    pub name: String,
    /// Its text, as read.
    pub text: String,
}

/// The work done on a target.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Workload {
    /// Its name: the file name without its extension.
    pub name: String,
    /// Its sources.
    pub sources: Vec<Source>,
    /// The jobs, in file order.
    pub jobs: Vec<Job>,
    /// The options of fio's global sections as written (name → value).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub global_options: BTreeMap<String, String>,
    /// As [`Configuration::again`], if workloads are compared.
    #[serde(default)]
    pub again: bool,
    /// The primary metric of its trials, fixed when the run was planned. `None`: each trial's own data select one, as
    /// for reads and writes at offsets, and for file operations in plans of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metric: Option<Metric>,
    /// The workloads with this name have one verdict together: the geometric mean of their ratios.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub family: Option<String>,
    /// Names of the configurations on which it runs; empty: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub only: Vec<String>,
    /// Names of the nodes on which it runs; empty: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<String>,
    /// Further dimensions of its trials: the values of the axes of a matrix.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub dimensions: BTreeMap<String, String>,
    /// It takes part in this number of rounds, the first ones; `None`: in all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rounds: Option<u32>,
    /// Rules to stop its trials early, in addition to those of the plan.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub stopping: Stopping,
    /// Which trials share files.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub files: FilePolicy,
    /// Its load is searched: each trial has another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub search: Option<Search>,
}

impl Workload {
    /// A workload that runs on all configurations and in all rounds.
    pub fn new(name: impl Into<String>, sources: Vec<Source>, jobs: Vec<Job>) -> Workload {
        Workload {
            name: name.into(),
            sources,
            jobs,
            global_options: BTreeMap::new(),
            again: false,
            metric: None,
            family: None,
            only: Vec::new(),
            nodes: Vec::new(),
            dimensions: BTreeMap::new(),
            rounds: None,
            stopping: Stopping::default(),
            files: FilePolicy::default(),
            search: None,
        }
    }

    /// The workload at a load of its search; unchanged if it has none.
    pub fn at(&self, load: Option<f64>) -> Cow<'_, Workload> {
        let Some((search, load)) = self.search.as_ref().zip(load) else {
            return Cow::Borrowed(self);
        };
        let mut workload = self.clone();
        for job in &mut workload.jobs {
            search.set(job, load);
        }
        Cow::Owned(workload)
    }

    /// Whether it has trials on a configuration. The repeated baseline runs what the baseline runs.
    fn runs_on(&self, configuration: &Configuration, configurations: &[Configuration]) -> bool {
        let named = |name: &str| self.only.iter().any(|only| only == name);
        // Others may have the target of the baseline.
        let repeats = || {
            let mut others = configurations.iter().filter(|other| !other.again);
            let name = |other: &Configuration| format!("{} (again)", other.name);
            others.any(|other| name(other) == configuration.name && named(&other.name))
        };
        self.only.is_empty() || named(&configuration.name) || (configuration.again && repeats())
    }

    /// Whether a job issues ops of this name: `read`. Whether it syncs depends on several options, and is not known.
    /// The events of sysbench's test are counted as `op` too.
    pub fn issues(&self, op: &str) -> bool {
        let mut works = self.jobs.iter().map(|job| &job.work);
        if op == crate::Direction::Op.name()
            && works.any(|work| matches!(work, crate::Work::SharedFiles(_)))
        {
            return true;
        }
        let mut issued = self.jobs.iter().flat_map(|job| match &job.work {
            crate::Work::FileOperations(operations) => operations.directions(),
            work => work.moves(),
        });
        issued.any(|direction| direction.name() == op)
    }

    /// Whether any of its jobs uses a simulated device: its figures are not those of real storage.
    pub fn simulated(&self) -> bool {
        let mut engines = self.jobs.iter().filter_map(|job| job.work.engine());
        engines.any(|engine| engine.kind == crate::EngineKind::Sim)
    }

    /// Whether its trials run in virtual time: every job uses a simulated device with a virtual clock.
    pub fn in_virtual_time(&self) -> bool {
        !self.jobs.is_empty() && self.jobs.iter().all(|job| job.work.in_virtual_time())
    }
}

/// Rules to stop a run after a round.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Stopping {
    /// Minimum number of rounds before the rule on the interval's width applies.
    #[serde(default)]
    pub least_rounds: u32,
    /// Stop at the end of a round if the interval of every primary ratio is at most this wide, as a fraction of
    /// the ratio (high − low): 0.03.
    #[serde(default)]
    pub width: Option<f64>,
    /// Do not begin a round that would end after this time, ns, if it takes as long as the longest so far.
    #[serde(default)]
    pub max_time_ns: Option<u64>,
}

impl Stopping {
    /// Whether there is no rule.
    pub fn is_none(&self) -> bool {
        *self == Stopping::default()
    }
}

/// Actions between trials, so that all start in the same state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Settling {
    /// Sync, and drop the page cache, dentries and inodes, if permitted.
    #[serde(default)]
    pub drop_caches: bool,
    /// Maximum time to wait until the targets' devices are idle, ns; 0: do not wait.
    #[serde(default)]
    pub idle_ns: u64,
}

/// Telemetry of the host during each trial.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Sampling {
    /// Sampling interval, ns; 0: no sampling.
    pub every_ns: u64,
    /// Names of processes to sample in addition: servers under test.
    pub processes: Vec<String>,
    /// The tokens of storage, by names of `processes`: of these, only those that were started to make that storage are
    /// sampled.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub made_for: BTreeMap<String, String>,
    /// The sockets on which the file servers of the storage tell what they counted ([`crate::SeriesKind::Requests`]).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stats: Vec<PathBuf>,
    /// Count the times of requests at the block devices below the targets, in the kernel
    /// ([`crate::SeriesKind::Block`]).
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub block_trace: bool,
}

impl Sampling {
    /// The default interval, ns.
    pub const EVERY_NS: u64 = 1_000_000_000;
    /// The shortest interval, ns.
    pub const MIN_NS: u64 = 100_000_000;
}

impl Default for Sampling {
    fn default() -> Sampling {
        Sampling {
            every_ns: Sampling::EVERY_NS,
            processes: Vec::new(),
            made_for: BTreeMap::new(),
            stats: Vec::new(),
            block_trace: false,
        }
    }
}

/// How the order of the cells in a round is drawn from the seed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RoundOrder {
    /// Two cells alternate within each pair of rounds, AB BA or BA AB; more are shuffled in each round. The order of
    /// plans that were stored without one.
    #[default]
    Alternating,
    /// Shuffled in each round, independently of the other rounds.
    Shuffled,
}

/// An experiment: configurations × workloads × rounds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// [`crate::SCHEMA`].
    pub schema: u32,
    /// Its name, for lists.
    pub name: String,
    /// What it is about, in the user's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub about: Option<String>,
    /// The command as given, for `show`.
    pub command: Vec<String>,
    /// The nodes on which each trial runs at once; empty: this host.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<PlannedNode>,
    /// At least one, unless imported.
    pub configurations: Vec<Configuration>,
    /// At least one, unless imported.
    pub workloads: Vec<Workload>,
    /// Number of rounds; with a stop rule, the maximum.
    pub rounds: u32,
    /// How many rounds were complete each time the number of rounds was changed: the verdict could be seen then.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub looks: Vec<u32>,
    /// Seed of all randomness.
    pub seed: u64,
    /// How the order of a round is drawn.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub order: RoundOrder,
    /// Devices and disk images whose content may be overwritten, as the user named them. Given for one invocation: it
    /// is not stored, and what an older version stored is ignored.
    #[serde(skip)]
    pub destroy: Vec<PathBuf>,
    /// The question that the trials are to answer.
    #[serde(default)]
    pub question: Question,
    /// Rules to stop early.
    #[serde(default)]
    pub stopping: Stopping,
    /// How often targets that are made are made anew. Where configurations use one device in turn: for every trial.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub fresh: Fresh,
    /// How often a failed trial is repeated, at most. Every attempt is stored.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub retry: u32,
    /// Whether each cell is tried out before the first round, without a record.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub probe: bool,
    /// Actions between trials.
    #[serde(default)]
    pub settling: Settling,
    /// Telemetry of the host.
    #[serde(default)]
    pub sampling: Sampling,
    /// A trial is stuck after this time without progress, ns; 0: never.
    #[serde(default = "stuck_after_ns")]
    pub stuck_after_ns: u64,
    /// The table that closes the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub table: Option<ClosingTable>,
    /// Results imported from other tools. Such a plan has no trials and is not executed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub imported: Option<Imported>,
}

fn stuck_after_ns() -> u64 {
    Plan::STUCK_AFTER_NS
}

impl Plan {
    /// The class of the facts that an axis of this plan defines; `None` if it is not an axis of configurations alone,
    /// or of workloads alone.
    pub fn defines(&self, axis: &str) -> Option<FactClass> {
        let mut configurations = self.configurations.iter();
        let mut workloads = self.workloads.iter();
        match (
            configurations.any(|it| it.dimensions.contains_key(axis)),
            workloads.any(|it| it.dimensions.contains_key(axis)),
        ) {
            (true, false) => Some(FactClass::Target),
            (false, true) => Some(FactClass::Workload),
            _ => None,
        }
    }

    /// The default of [`Plan::stuck_after_ns`]. Disks and their drivers repeat or give up a command within it.
    pub const STUCK_AFTER_NS: u64 = 30_000_000_000;

    /// A plan with one round, without a question or a fixed seed.
    pub fn new(
        name: impl Into<String>,
        configurations: Vec<Configuration>,
        workloads: Vec<Workload>,
    ) -> Plan {
        Plan {
            schema: crate::SCHEMA,
            name: name.into(),
            about: None,
            command: Vec::new(),
            nodes: Vec::new(),
            configurations,
            workloads,
            rounds: 1,
            looks: Vec::new(),
            seed: 0,
            order: RoundOrder::Shuffled,
            destroy: Vec::new(),
            question: Question::default(),
            stopping: Stopping::default(),
            fresh: Fresh::default(),
            retry: 0,
            probe: false,
            settling: Settling::default(),
            sampling: Sampling::default(),
            stuck_after_ns: Plan::STUCK_AFTER_NS,
            table: None,
            imported: None,
        }
    }

    /// Number of cells: configurations × workloads, without the pairs that [`Workload::only`] excludes.
    pub fn cells(&self) -> u32 {
        self.pairs().count() as u32
    }

    /// The names that the nodes of a cell's trials can have: its virtual machines and their host, otherwise all nodes
    /// of the plan. A single empty one if there is one node without a name.
    pub fn node_names_of(&self, cell: u32) -> Vec<String> {
        let (configuration, _) = self.cell(cell);
        let vm = configuration.provision().and_then(Provision::vm);
        match (vm, self.nodes.is_empty()) {
            (Some((vm, _)), true) => {
                let host = VmLayer::HOST.to_owned();
                vm.names().into_iter().chain([host]).collect()
            }
            (Some((vm, _)), false) => {
                let named = |node: &PlannedNode| {
                    let guests = vm.names().into_iter();
                    let guests = guests.map(|guest| format!("{}.{guest}", node.name));
                    guests.chain([node.name.clone()]).collect::<Vec<_>>()
                };
                self.nodes.iter().flat_map(named).collect()
            }
            (None, true) => vec![String::new()],
            (None, false) => self.nodes.iter().map(|node| node.name.clone()).collect(),
        }
    }

    /// The configuration and workload of a cell. Panics if there is no such cell.
    pub fn cell(&self, cell: u32) -> (&Configuration, &Workload) {
        let (configuration, workload) = self.place(cell);
        (
            &self.configurations[configuration],
            &self.workloads[workload],
        )
    }

    /// The indices of a cell's configuration and workload. Panics if there is no such cell.
    pub fn place(&self, cell: u32) -> (usize, usize) {
        let (cell, workloads) = (cell as usize, self.workloads.len());
        // Of many cells, each would be a search through those before it.
        if self.workloads.iter().all(|it| it.only.is_empty()) && workloads > 0 {
            return (cell / workloads, cell % workloads);
        }
        self.pairs().nth(cell).expect("a cell of the plan")
    }

    /// The configuration and workload of each cell, in their order.
    pub fn each_cell(&self) -> impl Iterator<Item = (&Configuration, &Workload)> + Clone {
        let each = self.pairs();
        each.map(|(place, workload)| (&self.configurations[place], &self.workloads[workload]))
    }

    /// The indices of configuration and workload of every cell.
    fn pairs(&self) -> impl Iterator<Item = (usize, usize)> + Clone {
        let configurations = self.configurations.iter().enumerate();
        configurations.flat_map(move |(place, configuration)| {
            let workloads = self.workloads.iter().enumerate();
            workloads
                .filter(|(_, workload)| workload.runs_on(configuration, &self.configurations))
                .map(move |(workload, _)| (place, workload))
        })
    }

    /// The indices of the nodes that do the work of a cell's trials: those that both its configuration and its workload
    /// name. Empty if the plan names no nodes.
    pub fn nodes_of(&self, cell: u32) -> Vec<usize> {
        let (configuration, workload) = self.cell(cell);
        nodes_of(&self.nodes, configuration, workload)
    }

    /// Whether a cell has a trial in a round.
    pub fn takes_part(&self, cell: u32, round: u32) -> bool {
        let rounds = self.cell(cell).1.rounds;
        rounds.is_none_or(|rounds| round < rounds)
    }

    /// Whether more rounds have more trials: not if each workload has its own number of rounds.
    pub fn can_grow(&self) -> bool {
        let mut workloads = self.workloads.iter();
        workloads.any(|workload| workload.rounds.is_none())
    }

    /// Number of trials in the first `rounds` rounds.
    pub fn trials(&self, rounds: u32) -> u64 {
        let cells = self.pairs();
        let own = cells.map(|(_, workload)| self.workloads[workload].rounds);
        own.map(|own| u64::from(own.map_or(rounds, |own| own.min(rounds))))
            .sum()
    }
}

/// The indices of the nodes on which a workload runs on a configuration.
pub fn nodes_of(
    nodes: &[PlannedNode],
    configuration: &Configuration,
    workload: &Workload,
) -> Vec<usize> {
    let has = |names: &[String], name: &str| names.is_empty() || names.iter().any(|it| it == name);
    let own = nodes.iter().enumerate().filter(|(_, node)| {
        let named = has(&configuration.nodes, &node.name) && has(&workload.nodes, &node.name);
        named && !node.only_sampled
    });
    own.map(|(place, _)| place).collect()
}

/// One trial for the node that runs it. Percentages and lengths of existing files are still unresolved; the
/// node resolves them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BoundPlan {
    /// [`crate::SCHEMA`].
    pub schema: u32,
    /// Its identity.
    pub key: TrialKey,
    /// Its configuration.
    pub configuration: Configuration,
    /// Its workload.
    pub workload: Workload,
    /// The trial's own seed.
    pub seed: u64,
    /// As in [`Plan::destroy`].
    pub destroy: Vec<PathBuf>,
    /// Files that are never a target under any name: those of the store.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub protected: Vec<PathBuf>,
    /// Length of a frame, ns.
    pub frame_ns: u64,
    /// Telemetry of the host.
    #[serde(default)]
    pub sampling: Sampling,
    /// As in [`Plan::stuck_after_ns`].
    #[serde(default = "stuck_after_ns")]
    pub stuck_after_ns: u64,
    /// It ends when the trials of the other nodes have ended: a load beside them, or, without jobs, only the sampling
    /// of a host.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub background: bool,
    /// The place of the node among those of the trial; 0 also for a single one.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub node: u32,
}

impl BoundPlan {
    /// Whether it only samples the host.
    pub fn only_samples(&self) -> bool {
        self.workload.jobs.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Blocks, Engine, EngineKind, Operations, SimClock, SimDevice, SimOptions, Work};

    fn simulated(clock: Option<SimClock>) -> Job {
        let mut engine = Engine::new(EngineKind::Sim, 1);
        engine.sim = clock.map(|clock| SimOptions {
            clock,
            ..SimOptions::default()
        });
        Job {
            work: Work::Blocks(Blocks {
                engine,
                ..Blocks::default()
            }),
            ..Job::default()
        }
    }

    fn in_virtual_time(jobs: Vec<Job>) -> bool {
        Workload::new("w", Vec::new(), jobs).in_virtual_time()
    }

    #[test]
    fn only_a_workload_of_simulated_jobs_runs_in_virtual_time() {
        let (virtual_time, real) = (Some(SimClock::Virtual), Some(SimClock::Real));
        assert!(in_virtual_time(vec![
            simulated(None),
            simulated(virtual_time)
        ]));
        assert!(!in_virtual_time(vec![
            simulated(virtual_time),
            simulated(real)
        ]));
        assert!(!in_virtual_time(vec![simulated(None), Job::default()]));
        assert!(!in_virtual_time(Vec::new()));
        let operations = Operations {
            about: String::new(),
            sets: Vec::new(),
            cycle: Vec::new(),
            own_folders: false,
            drain: false,
            writing: Default::default(),
            fio: None,
        };
        assert!(!in_virtual_time(vec![Job {
            work: Work::FileOperations(operations),
            ..Job::default()
        }]));
    }

    /// Two configurations and the baseline once more; workloads `v` on both and `w` on the first alone.
    fn partial() -> Plan {
        let target = |path: &str| Target::Path(path.into());
        let mut again = Configuration::new("a (again)", target("/a"));
        again.again = true;
        let mut w = Workload::new("w", Vec::new(), Vec::new());
        w.only = vec!["a".to_owned()];
        w.rounds = Some(2);
        Plan::new(
            "p",
            vec![
                Configuration::new("a", target("/a")),
                again,
                Configuration::new("b", target("/b")),
            ],
            vec![Workload::new("v", Vec::new(), Vec::new()), w],
        )
    }

    #[test]
    fn a_pair_that_a_workload_excludes_is_not_a_cell() {
        let plan = partial();
        let mut whole = plan.clone();
        whole.workloads[1].only.clear();
        for plan in [&plan, &whole] {
            let one_by_one = (0..plan.cells()).map(|cell| plan.cell(cell));
            assert!(one_by_one.eq(plan.each_cell()));
        }
        let names: Vec<String> = (plan.each_cell())
            .map(|(configuration, workload)| format!("{} {}", configuration.name, workload.name))
            .collect();
        assert_eq!(names, ["a v", "a w", "a (again) v", "a (again) w", "b v"]);
        assert_eq!(plan.place(4), (2, 0));
    }

    #[test]
    fn a_workload_takes_part_in_its_first_rounds() {
        let plan = partial();
        assert_eq!(
            (plan.trials(1), plan.trials(2), plan.trials(5)),
            (5, 10, 19)
        );
        assert!(plan.takes_part(1, 1) && !plan.takes_part(1, 2) && plan.takes_part(4, 2));
    }

    #[test]
    fn permission_to_destroy_is_neither_stored_nor_read() {
        let plan = Plan {
            destroy: vec!["/dev/x".into()],
            ..Plan::new("p", Vec::new(), Vec::new())
        };
        let mut stored = serde_json::to_value(&plan).unwrap();
        assert_eq!(stored.get("destroy"), None);
        stored["destroy"] = serde_json::json!(["/dev/x"]);
        let read: Plan = serde_json::from_value(stored).unwrap();
        assert!(read.destroy.is_empty());
    }

    #[test]
    fn stored_plans_keep_the_order_that_they_began_with() {
        let plan = Plan::new("p", Vec::new(), Vec::new());
        let mut stored = serde_json::to_value(&plan).unwrap();
        assert_eq!(stored["order"], "shuffled");
        stored.as_object_mut().unwrap().remove("order");
        let read: Plan = serde_json::from_value(stored.clone()).unwrap();
        assert_eq!(read.order, RoundOrder::Alternating);
        assert_eq!(serde_json::to_value(&read).unwrap(), stored);
    }

    #[test]
    fn simulated_devices_are_stored_as_their_texts() {
        for text in ["law", "hdd", "flash*0.5", "mirror:md-raid1:hdd+hdd*2"] {
            let device: SimDevice = text.parse().unwrap();
            assert_eq!(device.to_string(), text);
            let options = SimOptions {
                device,
                ..SimOptions::default()
            };
            let stored = serde_json::to_value(&options).unwrap();
            assert_eq!(stored.get("device").is_some(), text != "law");
            assert_eq!(
                serde_json::from_value::<SimOptions>(stored).unwrap(),
                options
            );
        }
        for (text, wrong) in [
            ("ssd", "`ssd` is not a simulated disk"),
            ("hdd*0", "`0` is not a factor"),
            ("hdd*nan", "`nan` is not a factor"),
            ("mirror:modulo:hdd+", "`` is not a simulated disk"),
            ("mirror:hdd", "is not a simulated device"),
            (
                &format!("mirror:adaptive:hdd{}", "+hdd".repeat(16)),
                "the mirror has 17 disks, at most 16",
            ),
        ] {
            let error = text.parse::<SimDevice>().unwrap_err();
            assert!(error.contains(wrong), "{error}");
        }
    }

    #[test]
    fn stored_plans_without_a_clock_use_real_time() {
        let stored = r#"{"law": {"constant": 5}, "servers": 1, "faults": []}"#;
        let options: SimOptions = serde_json::from_str(stored).unwrap();
        assert_eq!(options.clock, SimClock::Real);
        let now = serde_json::to_string(&SimOptions::default()).unwrap();
        let options: SimOptions = serde_json::from_str(&now).unwrap();
        assert_eq!(options.clock, SimClock::Virtual);
    }
}
