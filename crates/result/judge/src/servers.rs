//! Resources used by the processes under test.

use std::collections::{BTreeMap, BTreeSet};

use iodyno_model::{LegUse, SeriesKind, ServerUse, Trial};

use crate::series::{View, measured};

/// Resource use of the processes that the user named, over the measured time: one entry per name, in the order
/// of names. Empty if none was sampled in that time.
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
            sum.user_ns = sum.user_ns.saturating_add(user);
            sum.system_ns = sum.system_ns.saturating_add(system);
            add(&mut sum.read_bytes, view.count("read_bytes"));
            add(&mut sum.written_bytes, view.count("written_bytes"));
            if let (Some(requests), Some(commands)) =
                (view.count("leg_requests"), view.count("leg_commands"))
            {
                let legs = sum.legs.get_or_insert_default();
                legs.requests = legs.requests.saturating_add(requests);
                legs.commands = legs.commands.saturating_add(commands);
            }
            let gauges = now.entry(name).or_default();
            let gauge = |column| view.count(column).unwrap_or(0);
            gauges.0 = gauges.0.saturating_add(gauge("threads"));
            gauges.1 = gauges.1.saturating_add(gauge("memory"));
        }
        for (name, (threads, memory)) in now {
            let sum = sums.entry(name).or_default();
            sum.samples += 1;
            sum.span_ns = sum.span_ns.saturating_add(sample.span_ns);
            sum.threads = sum.threads.saturating_add(threads);
            sum.memory = sum.memory.max(memory);
        }
    }
    let charged = sums.into_iter().filter(|(_, sum)| sum.span_ns > 0);
    charged.map(|(name, sum)| sum.into_use(name)).collect()
}

/// Requests to the legs of mirrors, real or simulated, by commands that contained them. `None`: there were none.
pub(crate) fn requests_per_command(trial: &Trial, servers: &[ServerUse]) -> Option<f64> {
    let simulated = trial.parts.iter().flat_map(|part| &part.host.simulated);
    let simulated = simulated.map(|disk| LegUse {
        requests: disk.requests.iter().sum(),
        commands: disk.commands,
    });
    let real = servers.iter().filter_map(|server| server.legs);
    let all = simulated.chain(real);
    let (requests, commands) = all.fold((0, 0), |(requests, commands), legs| {
        (requests + legs.requests, commands + legs.commands)
    });
    (commands > 0).then(|| requests as f64 / commands as f64)
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
    /// Sums over all samples; the byte counts are known if any sample has them.
    threads: u64,
    samples: u64,
    memory: u64,
    read_bytes: Option<u64>,
    written_bytes: Option<u64>,
    legs: Option<LegUse>,
    span_ns: u64,
}

fn add(sum: &mut Option<u64>, value: Option<u64>) {
    if let Some(value) = value {
        *sum = Some(sum.unwrap_or(0).saturating_add(value));
    }
}

impl Sum<'_> {
    fn into_use(self, name: &str) -> ServerUse {
        let samples = self.samples.max(1);
        ServerUse {
            name: name.to_owned(),
            processes: u32::try_from(self.processes.len()).unwrap_or(u32::MAX),
            user_ns: self.user_ns,
            system_ns: self.system_ns,
            threads: self.threads.saturating_add(samples / 2) / samples,
            memory: self.memory,
            read_bytes: self.read_bytes,
            written_bytes: self.written_bytes,
            legs: self.legs,
            span_ns: self.span_ns,
        }
    }
}

#[cfg(test)]
mod tests {
    use iodyno_model::SeriesKind::Process;
    use iodyno_model::SimulatedDisk;

    use super::*;
    use crate::testing::telemetry::{Named, SECOND, recording};
    use crate::testing::{self};

    fn process(user: u64, system: u64, threads: u64, read: u64) -> Named {
        vec![
            ("user", user * SECOND / 100),
            ("system", system * SECOND / 100),
            ("threads", threads),
            ("memory", threads << 20),
            ("read_bytes", read),
        ]
    }

    fn trial(recording: testing::telemetry::Recording) -> Trial {
        let (_, mut trial) = testing::four_clones();
        trial.telemetry = recording.done();
        trial
    }

    #[test]
    fn processes_with_the_same_name_are_added_over_the_measured_time() {
        let rows = |_| {
            vec![
                ("virtiofsd[12]", process(30, 20, 4, 100)),
                ("qemu-system-x86[7]", process(100, 0, 9, 0)),
                ("virtiofsd[13]", process(10, 0, 2, 50)),
            ]
        };
        // Ten of the thirty seconds are after the measured time.
        let found = servers(&trial(recording().seconds(Process, 30, rows)));
        let [qemu, virtiofsd] = found.as_slice() else {
            panic!("{found:#?}");
        };
        assert_eq!((qemu.name.as_str(), qemu.cores()), ("qemu-system-x86", 1.0));
        let expected = ServerUse {
            name: "virtiofsd".to_owned(),
            processes: 2,
            user_ns: 8 * SECOND,
            system_ns: 4 * SECOND,
            threads: 6,
            memory: 6 << 20,
            read_bytes: Some(20 * 150),
            written_bytes: Some(0),
            legs: Some(LegUse::default()),
            span_ns: 20 * SECOND,
        };
        assert_eq!(*virtiofsd, expected);
        assert_eq!(virtiofsd.cores(), 0.6);
    }

    #[test]
    fn a_server_that_started_later_has_its_own_time() {
        let first = |_| vec![("sshd[5]", process(50, 0, 1, 0))];
        let later = |_| {
            vec![
                ("sshd[5]", process(50, 0, 1, 0)),
                ("nbd[9]", process(80, 0, 3, 0)),
            ]
        };
        let recording = recording().seconds(Process, 10, first);
        let found = servers(&trial(recording.seconds_from(10, Process, 10, later)));
        let spans: Vec<(u64, f64)> = found
            .iter()
            .map(|server| (server.span_ns, server.cores()))
            .collect();
        assert_eq!(spans, [(10 * SECOND, 0.8), (20 * SECOND, 0.5)]);
    }

    #[test]
    fn requests_to_legs_are_those_of_the_measured_time() {
        let rows = |_| {
            let mut mirror = process(50, 0, 1, 0);
            mirror.extend([("leg_requests", 300), ("leg_commands", 100)]);
            vec![("iodyno-mirror[5]", mirror)]
        };
        let mut trial = trial(recording().seconds(Process, 30, rows));
        let found = servers(&trial);
        let expected = LegUse {
            requests: 20 * 300,
            commands: 20 * 100,
        };
        assert_eq!(found[0].legs, Some(expected));
        assert_eq!(requests_per_command(&trial, &found), Some(3.0));
        assert_eq!(requests_per_command(&trial, &[]), None);
        trial.parts[0].host.simulated = vec![SimulatedDisk {
            requests: [7, 3],
            commands: 4,
            ..SimulatedDisk::default()
        }];
        assert_eq!(requests_per_command(&trial, &[]), Some(2.5));
    }

    #[test]
    fn unsampled_processes_are_not_servers() {
        assert_eq!(servers(&trial(recording())), []);
        let mut unknown =
            trial(recording().seconds(Process, 20, |_| vec![("sshd[5]", process(50, 0, 1, 7))]));
        let io = unknown.telemetry.shapes[0].column("read_bytes").unwrap();
        for sample in &mut unknown.telemetry.samples {
            sample.values[io] = None;
        }
        assert_eq!(servers(&unknown)[0].read_bytes, None);
        for sample in &mut unknown.telemetry.samples {
            sample.values.fill(None);
        }
        assert_eq!(servers(&unknown), []);
    }

    #[test]
    fn programs_are_distinguished_from_their_processes() {
        for (subject, name) in [
            ("a[1]", "a"),
            ("a", "a"),
            ("a[b][17]", "a[b]"),
            ("a[1", "a[1"),
        ] {
            assert_eq!(program(subject), name);
        }
    }
}
