//! Plans of runs.

mod bound_plan;
mod closing;
mod configuration;
mod node;
mod procedure;
mod question;
mod search;
mod workload;

pub use bound_plan::BoundPlan;
pub use closing::{BandwidthUnit, ClosingTable};
pub use configuration::{Configuration, Target};
pub use node::{NodeAddress, NodeProgram, PlannedNode, SshAddress};
pub use procedure::{RoundOrder, Sampling, Settling, Stopping};
pub use question::Question;
pub use search::{Bound, Search, SearchAxis};
pub use workload::{FilePolicy, Source, Workload};

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::{FactClass, Fresh, Imported, Provision, VmLayer};

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

fn stuck_after_ns() -> u64 {
    Plan::STUCK_AFTER_NS
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Job;
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
            command: None,
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
