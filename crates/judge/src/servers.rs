//! What the processes under test used: a server is charged with what it took to serve.

use std::collections::{BTreeMap, BTreeSet};

use iodyno_model::{SeriesKind, ServerUse, Trial};

use crate::series::{View, measured};

/// The processes that the user named over the measured time, each name once, in the order of their names. Empty where none
/// was sampled within it.
pub fn servers(trial: &Trial) -> Vec<ServerUse> {
    let telemetry = measured(trial);
    let mut sums: BTreeMap<&str, Sum> = BTreeMap::new();
    for (shape, sample) in telemetry.of(SeriesKind::Process) {
        let mut now: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
        for view in View::of(shape, sample) {
            let (Some(user), Some(system)) = (view.count("user"), view.count("system")) else {
                continue;
            };
            let name = program(view.subject());
            let sum = sums.entry(name).or_default();
            sum.processes.insert(view.subject());
            sum.user_ns += user;
            sum.system_ns += system;
            add(&mut sum.read_bytes, view.count("read_bytes"));
            add(&mut sum.written_bytes, view.count("written_bytes"));
            let gauges = now.entry(name).or_default();
            gauges.0 += view.count("threads").unwrap_or(0);
            gauges.1 += view.count("memory").unwrap_or(0);
        }
        for (name, (threads, memory)) in now {
            let sum = sums.entry(name).or_default();
            sum.samples += 1;
            sum.span_ns += sample.span_ns;
            sum.threads += threads;
            sum.memory = sum.memory.max(memory);
        }
    }
    let charged = sums.into_iter().filter(|(_, sum)| sum.span_ns > 0);
    charged.map(|(name, sum)| sum.told(name)).collect()
}

/// `virtiofsd` of `virtiofsd[1234]`.
pub(crate) fn program(subject: &str) -> &str {
    match subject.rsplit_once('[') {
        Some((name, pid)) if pid.ends_with(']') => name,
        _ => subject,
    }
}

/// Processes of one name.
#[derive(Default)]
struct Sum<'a> {
    processes: BTreeSet<&'a str>,
    user_ns: u64,
    system_ns: u64,
    /// Of all samples; bytes are known if any sample tells them.
    threads: u64,
    samples: u64,
    memory: u64,
    read_bytes: Option<u64>,
    written_bytes: Option<u64>,
    span_ns: u64,
}

fn add(sum: &mut Option<u64>, value: Option<u64>) {
    if let Some(value) = value {
        *sum = Some(sum.unwrap_or(0).saturating_add(value));
    }
}

impl Sum<'_> {
    fn told(self, name: &str) -> ServerUse {
        let samples = self.samples.max(1);
        ServerUse {
            name: name.to_owned(),
            processes: u32::try_from(self.processes.len()).unwrap_or(u32::MAX),
            user_ns: self.user_ns,
            system_ns: self.system_ns,
            threads: (self.threads + samples / 2) / samples,
            memory: self.memory,
            read_bytes: self.read_bytes,
            written_bytes: self.written_bytes,
            span_ns: self.span_ns,
        }
    }
}
