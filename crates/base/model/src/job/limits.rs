//! Limits of a plan from elsewhere: what it asks for is known before work is done on it.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::{
    Access, Amount, BlockSizes, Blocks, Direction, Distribution, Job, Order, Plan, Search,
    SimDevice, SimTarget, VerifyTrim, Workload,
};

/// The largest number in a plan, except for seeds. Sums and products of a few lengths and times still have 64 bits.
const LARGEST: u64 = 1 << 61;

impl Plan {
    /// The largest number of dimensions of a plan besides those of every trial: the axes of its sections, or those of
    /// imported results together.
    pub const MAX_DIMENSIONS: usize = 256;

    /// What is larger than in any plan that iodyno makes, or 0 and never is, in words; `None`: nothing. A plan from
    /// elsewhere is measured before work is done on it. `rounds`: the number of rounds to carry out.
    pub fn excess(&self, rounds: u32) -> Option<String> {
        let executed = self.imported.is_none();
        self.too_many(rounds)
            .or_else(|| executed.then(|| self.too_few(rounds)).flatten())
            .or_else(|| executed.then(|| self.too_large()).flatten())
    }

    fn too_many(&self, rounds: u32) -> Option<String> {
        let jobs = || self.workloads.iter().flat_map(|workload| &workload.jobs);
        // A search can raise depths and numbers of clones.
        let searched = self.workloads.iter().filter(|it| it.search.is_some());
        let searched = searched.map(|it| it.at(Some(Search::LARGEST)).into_owned());
        let searched: Vec<Workload> = searched.collect();
        let percentiles = jobs().map(|job| job.reporting.percentiles.len() as u64);
        // The jobs of a workload can run at the same time.
        let most = |of: fn(&Job) -> u64| {
            let all = |job: &Job| of(job).saturating_mul(job.clones.max(1).into());
            let sum = |it: &Workload| it.jobs.iter().map(all).fold(0, u64::saturating_add);
            let all = self.workloads.iter().chain(&searched);
            all.map(sum).max().unwrap_or(0)
        };
        let named = self.workloads.iter().map(|it| it.only.len() as u64 + 1);
        let again = self.configurations.iter().filter(|it| it.again).count() as u64 + 1;
        // Both numbers are bounded by the memory of the plan.
        let pairs = self.configurations.len() as u64 * named.sum::<u64>();
        let own = self.workloads.iter().filter_map(|it| it.rounds);
        let rounds = own.chain([self.rounds, rounds]).max().unwrap_or(0);
        let sampled = 1_000_000_000_u64.checked_div(self.sampling.every_ns);
        let limits = [
            ("rounds", rounds.into(), 100_000),
            ("dimensions", self.dimensions(), Plan::MAX_DIMENSIONS as u64),
            ("nodes", self.nodes.len() as u64, 4096),
            (
                "pairs of configuration and workload",
                pairs.saturating_mul(again),
                // A comparison takes time in proportion to the square.
                20_000,
            ),
            (
                "trials",
                pairs.saturating_mul(again).saturating_mul(rounds.into()),
                4_000_000,
            ),
            ("jobs", jobs().count() as u64, 100_000),
            ("clones of a workload", most(|_| 1), 65_536),
            (
                "ops in flight of a workload",
                most(|job| job.work.depth().into()),
                1 << 20,
            ),
            (
                "bytes of buffers of a workload",
                // Those of others need a permission to run.
                most(|job| match job.work.in_virtual_time() {
                    true => job.work.buffer_bytes(),
                    false => 0,
                }),
                1 << 34,
            ),
            (
                "files of a workload",
                most(|job| job.work.file_count()),
                1 << 20,
            ),
            (
                "percent of trimmed blocks",
                jobs().map(trimmed_percent).max().unwrap_or(0),
                100,
            ),
            (
                "bytes of maps of a workload",
                most(|job| match job.work.blocks() {
                    Some(blocks) if job.work.in_virtual_time() => map_bytes(blocks),
                    _ => 0,
                }),
                1 << 31,
            ),
            (
                "clones of a workload in virtual time",
                // Each is a thread with some hundred KiB. Those of others need a permission to run.
                most(|job| job.work.in_virtual_time().into()),
                4096,
            ),
            ("percentiles of a job", percentiles.max().unwrap_or(0), 1000),
            ("attempts of a trial", self.retry.into(), 1000),
            ("samples per second", sampled.unwrap_or(0), 10),
        ];
        let mut limits = limits.into_iter().chain(self.simulated_limits());
        let beyond = limits.find(|(_, number, most)| number > most);
        beyond.map(|(what, number, most)| format!("{number} {what}, at most {most}"))
    }

    /// The number of different dimensions besides those of every trial.
    fn dimensions(&self) -> u64 {
        let of_configurations = self.configurations.iter().map(|it| &it.dimensions);
        let own = of_configurations.chain(self.workloads.iter().map(|it| &it.dimensions));
        let mut names: BTreeSet<String> = own.flat_map(|axes| axes.keys().cloned()).collect();
        for trial in self.imported.iter().flat_map(|it| it.trials.iter()) {
            names.extend(trial.dimensions.into_keys());
        }
        names.len() as u64
    }

    /// The simulated targets of configurations.
    fn simulated_targets(&self) -> impl Iterator<Item = &SimTarget> {
        let all = self.configurations.iter();
        all.filter_map(|configuration| configuration.simulated())
    }

    /// Numbers of simulated devices, which take memory, with their limits.
    fn simulated_limits(&self) -> [(&'static str, u64, u64); 3] {
        let jobs = self.workloads.iter().flat_map(|workload| &workload.jobs);
        let own = jobs.filter_map(|job| Some(&job.work.engine()?.sim.as_ref()?.device));
        let all = self.simulated_targets().map(|target| &target.device);
        let disks = all.chain(own).map(SimDevice::disks).max();
        let most = |of: fn(&SimTarget) -> u32| self.simulated_targets().map(of).max().unwrap_or(0);
        [
            (
                "disks of a simulated mirror",
                disks.unwrap_or(0) as u64,
                SimDevice::MAX_DISKS as u64,
            ),
            (
                "devices of a target",
                most(|it| it.count).into(),
                SimTarget::MOST.into(),
            ),
            (
                "queues of a target",
                most(|it| it.queues).into(),
                SimTarget::MOST.into(),
            ),
        ]
    }

    /// What is less than iodyno ever writes.
    fn too_few(&self, rounds: u32) -> Option<String> {
        let rounds = ("rounds", self.rounds.min(rounds).into(), 1);
        let simulated = self.simulated_targets().flat_map(|it| {
            let record = it.records.map_or(SECTOR, |it| it.length);
            [
                ("devices of a target", it.count.into(), 1),
                ("bytes in a stripe", it.stripe, SECTOR),
                ("queues of a target", it.queues.into(), 1),
                ("bytes in a record", record, SECTOR),
            ]
        });
        let jobs = self.workloads.iter().map(|it| it.jobs.len() as u64);
        let jobs = jobs.map(|number| ("jobs of a workload", number, 1));
        let of_jobs = self.workloads.iter().flat_map(|it| &it.jobs);
        let of_jobs = of_jobs.flat_map(|job| {
            let passes = job.work.blocks().map_or(1, |blocks| blocks.passes.loops);
            let trim = trim_of(job);
            [
                ("ops in flight of a job", job.work.depth().into(), 1),
                ("passes of a job", passes, 1),
                (
                    "blocks between trims",
                    trim.map_or(1, |it| it.backlog.into()),
                    1,
                ),
                (
                    "blocks in a batch of trims",
                    trim.map_or(1, |it| it.batch.into()),
                    1,
                ),
            ]
        });
        let mut all = [rounds]
            .into_iter()
            .chain(simulated)
            .chain(jobs)
            .chain(of_jobs);
        let found = all.find(|(_, number, least)| number < least);
        found.map(|(what, number, least)| format!("{number} {what}, at least {least}"))
    }

    /// A number that is too large.
    fn too_large(&self) -> Option<String> {
        let document = serde_json::to_value(self).ok()?;
        largest(&document)
            .filter(|number| *number > LARGEST)
            .map(|number| format!("the number {number}, at most {LARGEST}"))
    }
}

/// The least length of a stripe and of a record, bytes: requests are divided at their ends.
const SECTOR: u64 = 512;

/// Bytes in which a clone remembers what it did in its region, about, at most.
fn map_bytes(blocks: &Blocks) -> u64 {
    let (access, extent) = (&blocks.access, &blocks.extent);
    let files = u64::from(blocks.files.count.max(1));
    let length = match (blocks.files.size, extent.size) {
        (Some((_, Amount::Bytes(most))), _) => most.saturating_mul(files),
        (None, Some(Amount::Bytes(size))) => size,
        // It is not known before the trial.
        _ => LARGEST,
    };
    let of = |unit: u64, bytes: u64| length.div_ceil(unit.max(1)).saturating_mul(bytes);
    let unit = access.min_block();
    let zones = extent.write_zones.map(|zones| of(zones.size, 8));
    let regions = access.precondition.map(|rule| {
        let again = rule.physical_bytes(length, 1) / u64::from(rule.regions.max(1));
        let again = again.div_ceil(unit.max(1)).saturating_mul(16);
        again.saturating_add(u64::from(rule.regions) * 8)
    });
    let checked = blocks.verify.as_ref().map(|verify| match verify.interval {
        0 => of(unit, 24),
        interval => of(interval, 24),
    });
    let sizes = |direction| access.block_sizes.get(direction);
    let vary = |direction| sizes(direction).is_some_and(|it| it.min() != it.max());
    let mapped = access.random_map && access.order == Order::Random;
    // Blocks of one size need no map. A file's map has at most 2^32 blocks.
    let used = (mapped && access.directions().any(vary)).then(|| of(unit, 1).min(files << 32) / 7);
    let maps = [zones, regions, checked, used].into_iter().flatten();
    let lists = list_bytes(access).saturating_mul(files);
    maps.fold(lists, u64::saturating_add)
}

/// Bytes of the lists of a region.
fn list_bytes(access: &Access) -> u64 {
    let of = |direction: Direction| {
        let listed = match access.distribution.get(direction) {
            Some(Distribution::Zoned(zones)) => zones.len(),
            Some(Distribution::Sequence { blocks, .. }) => blocks.len(),
            _ => 0,
        };
        let sizes = match access.block_sizes.get(direction) {
            Some(BlockSizes::Split(sizes)) => sizes.len(),
            _ => 0,
        };
        (listed + sizes) as u64 * 32
    };
    access.directions().map(of).sum()
}

fn trim_of(job: &Job) -> Option<VerifyTrim> {
    let verify = job.work.blocks()?.verify.as_ref()?;
    verify.trim
}

fn trimmed_percent(job: &Job) -> u64 {
    trim_of(job).map_or(0, |trim| trim.percent.into())
}

/// The largest number of a document, except for seeds; of a negative one its magnitude.
fn largest(value: &Value) -> Option<u64> {
    match value {
        Value::Number(number) => {
            let magnitude = number.as_i64().map(i64::unsigned_abs);
            number.as_u64().or(magnitude)
        }
        Value::Array(values) => values.iter().filter_map(largest).max(),
        Value::Object(members) => {
            let members = members.iter().filter(|(name, _)| *name != "seed");
            members.filter_map(|(_, value)| largest(value)).max()
        }
        Value::Null | Value::Bool(_) | Value::String(_) => None,
    }
}
