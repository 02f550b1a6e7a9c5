//! Limits of a plan from elsewhere: what it asks for is known before work is done on it.

use serde_json::Value;

use crate::{Job, Plan, Target, VerifyTrim, Workload};

/// The largest number in a plan, except for seeds. Sums and products of a few lengths and times still have 64 bits.
const LARGEST: u64 = 1 << 61;

impl Plan {
    /// What is larger than in any plan that iodyno makes, or 0 and never is, in words; `None`: nothing. A plan from
    /// elsewhere is measured before work is done on it. `rounds`: as many rounds may be asked for.
    pub fn excess(&self, rounds: u32) -> Option<String> {
        let executed = self.imported.is_none();
        self.too_many(rounds)
            .or_else(|| executed.then(|| self.too_few()).flatten())
            .or_else(|| executed.then(|| self.too_large()).flatten())
    }

    fn too_many(&self, rounds: u32) -> Option<String> {
        let jobs = || self.workloads.iter().flat_map(|workload| &workload.jobs);
        // The jobs of a workload can run at the same time.
        let most = |of: fn(&Job) -> u64| {
            let all = |job: &Job| of(job).saturating_mul(job.clones.max(1).into());
            let sum = |it: &Workload| it.jobs.iter().map(all).fold(0, u64::saturating_add);
            self.workloads.iter().map(sum).max().unwrap_or(0)
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
            ("attempts of a trial", self.retry.into(), 1000),
            ("samples per second", sampled.unwrap_or(0), 10),
        ];
        let beyond = limits.into_iter().find(|(_, number, most)| number > most);
        beyond.map(|(what, number, most)| format!("{number} {what}, at most {most}"))
    }

    /// What is 0.
    fn too_few(&self) -> Option<String> {
        let targets = self.configurations.iter().map(|it| &it.target);
        let simulated = targets.flat_map(|target| match target {
            Target::Simulated(it) => vec![
                ("devices of a target", it.count.into()),
                ("bytes in a stripe", it.stripe),
                ("queues of a target", it.queues.into()),
                ("bytes in a record", it.records.map_or(1, |it| it.length)),
            ],
            _ => Vec::new(),
        });
        let jobs = self.workloads.iter().map(|it| it.jobs.len() as u64);
        let jobs = jobs.map(|number| ("jobs of a workload", number));
        let of_jobs = self.workloads.iter().flat_map(|it| &it.jobs);
        let of_jobs = of_jobs.flat_map(|job| {
            let passes = job.work.blocks().map_or(1, |blocks| blocks.passes.loops);
            let trim = trim_of(job);
            [
                ("ops in flight of a job", job.work.depth().into()),
                ("passes of a job", passes),
                (
                    "blocks between trims",
                    trim.map_or(1, |it| it.backlog.into()),
                ),
                (
                    "blocks in a batch of trims",
                    trim.map_or(1, |it| it.batch.into()),
                ),
            ]
        });
        let mut all = simulated.chain(jobs).chain(of_jobs);
        let found = all.find(|(_, number)| *number == 0);
        found.map(|(what, _)| format!("0 {what}, at least 1"))
    }

    /// A number that is too large.
    fn too_large(&self) -> Option<String> {
        let document = serde_json::to_value(self).ok()?;
        largest(&document)
            .filter(|number| *number > LARGEST)
            .map(|number| format!("the number {number}, at most {LARGEST}"))
    }
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
