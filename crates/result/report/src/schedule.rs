//! The schedule of an experiment as text for `--dry-run`: the storage that is made, space and time, and every trial in
//! order.

use std::collections::BTreeMap;
use std::path::Path;

use iodyno_model::{
    Configuration, DiskOrigin, DmTarget, FlakeyFault, Fresh, Layer, Pinning, Plan, Provision,
    ZfsOrigin,
};
use iodyno_units::{Bytes, Nanos, counted};

use crate::compare::bound_words;
use crate::json::{Schedule, Scheduled, Searching};
use crate::style::{Style, line};

/// The lines before the workloads: storage, space, time, and whether the rounds can decide.
pub(crate) fn summary(plan: &Plan, schedule: &Schedule, style: Style) -> String {
    let mut text = made(schedule, style);
    for (folder, bytes) in &schedule.space {
        let grows = plan.configurations.iter().any(|it| grows_in(it, folder));
        let (most, how) = match grows {
            true => (
                "at most ",
                "; those that are not reserved grow as they are written",
            ),
            false => ("", ""),
        };
        let folder = folder.display();
        let space = format!("{most}{} of image files in {folder}{how}", Bytes(*bytes));
        text += &line("space", &space, style);
    }
    text += &time(plan, schedule, style);
    text += &decides(schedule, style);
    if let Some(longest) = schedule.probe {
        let probe = format!(
            "each configuration and workload, for at most {longest}, before the first round"
        );
        text += &line("probes", &probe, style);
    }
    if plan.retry > 0 {
        let times = counted(plan.retry.into(), "time");
        text += &line("repeats", &format!("a failed trial at most {times}"), style);
    }
    for search in &schedule.searches {
        text += &line("search", &searching(search), style);
    }
    text
}

/// The lines after the workloads: the trials by round. Rounds with only trials of searches are all alike, and not
/// listed.
pub(crate) fn trials(plan: &Plan, schedule: &Schedule, style: Style) -> String {
    let alone = plan.configurations.len() == 1;
    let searched = |trial: &&Scheduled| {
        let mut searches = schedule.searches.iter();
        searches.any(|it| it.workload == trial.workload && it.configuration == trial.configuration)
    };
    let own = schedule.trials.iter().filter(|trial| !searched(trial));
    let last = own.map(|trial| trial.round).max().unwrap_or(0);
    let further = schedule.trials.iter().any(|trial| trial.round > last);
    let order = match (last, schedule.done) {
        (0, 0) => "one of each search per round, until it has its answer".to_owned(),
        (_, 0) => "in this order, one after the other:".to_owned(),
        (last, done) => {
            let all = u64::from(done) + schedule.trials.len() as u64;
            let left = counted(schedule.trials.len() as u64, "trial");
            match last {
                0 => format!("{done} are done; at most {left} of searches remain"),
                _ => format!("{done} of {all} are done; {left} remain, in this order:"),
            }
        }
    };
    let mut text = line("trials", &order, style);
    for round in 1..=last {
        let trials = schedule.trials.iter().filter(|trial| trial.round == round);
        let trials = trials.map(|trial| {
            let (workload, configuration) = (&trial.workload, &trial.configuration);
            match alone {
                true => format!("{} {workload}", trial.number),
                false => format!("{} {workload} on {configuration}", trial.number),
            }
        });
        let trials: Vec<String> = trials.collect();
        if !trials.is_empty() {
            text += &items(&format!("  round {round}"), &trials, style);
        }
    }
    if last > 0 && further {
        let rest = "one trial of each search per round, until it has its answer";
        text += &line("  then", rest, style);
    }
    text
}

/// A label and a list, broken between its items.
fn items(label: &str, items: &[String], style: Style) -> String {
    const JOINED: &str = "\u{a0}";
    let items: Vec<String> = items.iter().map(|item| item.replace(' ', JOINED)).collect();
    line(label, &items.join(", "), style).replace(JOINED, " ")
}

/// `curve on here: the highest rate_iops with p99 < 2.00 ms; at most 60 trials, 12.0 s`.
fn searching(search: &Searching) -> String {
    let trials = counted(search.most_trials.into(), "trial");
    let time = match search.most_ns {
        Some(ns) => Nanos(ns).to_string(),
        None => "without a time limit".to_owned(),
    };
    format!(
        "{} on {}: the highest {} with {}; at most {trials}, {time}",
        search.workload,
        search.configuration,
        search.search.axis.name(),
        bound_words(&search.search.until),
    )
}

/// The storage that is made, and how often.
fn made(schedule: &Schedule, style: Style) -> String {
    let mut text = String::new();
    for made in &schedule.makes {
        let storage = format!("{}: {}", made.configuration, made.storage);
        text += &line("makes", &storage, style);
    }
    if !text.is_empty() {
        let often = match schedule.fresh {
            Fresh::Round => "for each round",
            Fresh::Trial => "for each trial",
            Fresh::Experiment => "once",
        };
        let pairs = schedule.turns.iter();
        let pairs: Vec<String> = pairs
            .map(|(one, other)| format!("{one} and {other}"))
            .collect();
        let often = match pairs.is_empty() {
            true => often.to_owned(),
            false => format!("{often}: {} use the same storage in turn", pairs.join(", ")),
        };
        text += &line("made", &often, style);
    }
    text
}

/// The layers with their options and the other settings.
pub fn storage(provision: &Provision) -> String {
    let layers: Vec<String> = match provision.layers.as_slice() {
        [Layer::Directory { path }] => vec![format!("a new folder in {}", path.display())],
        layers => layers.iter().map(layer).collect(),
    };
    let settings = settings(provision).into_iter();
    let settings = settings.map(|(what, value)| format!("; {what} {value}"));
    layers.join(" on ") + &settings.collect::<String>()
}

fn settings(provision: &Provision) -> Vec<(&'static str, String)> {
    let pairs = |map: &BTreeMap<String, String>| {
        let pairs: Vec<String> = map
            .iter()
            .map(|(key, value)| format!("{key}={value}"))
            .collect();
        pairs.join(" ")
    };
    let fill = match provision.fill {
        0 => String::new(),
        bytes => Bytes(bytes).to_string(),
    };
    let precondition = match provision.precondition_ns {
        0 => String::new(),
        ns => Nanos(ns).to_string(),
    };
    let command = |command: &Option<String>| match command {
        Some(command) => format!("`{command}`"),
        None => String::new(),
    };
    let all = [
        ("filled with", fill),
        ("preconditioned for at most", precondition),
        ("sysctl", pairs(&provision.sysctl)),
        ("queue", pairs(&provision.queue)),
        ("environment", pairs(&provision.env)),
        ("setup", command(&provision.setup)),
        ("ready", command(&provision.ready)),
        ("teardown", command(&provision.teardown)),
        ("sampled", provision.sample.join(", ")),
    ];
    all.into_iter()
        .filter(|(_, value)| !value.is_empty())
        .collect()
}

/// A layer with its options.
fn layer(layer: &Layer) -> String {
    let with = |name: String, options: Vec<String>| {
        let options: Vec<String> = options.into_iter().filter(|it| !it.is_empty()).collect();
        match options.is_empty() {
            true => name,
            false => format!("{name} ({})", options.join(", ")),
        }
    };
    match layer {
        Layer::File {
            size,
            count,
            allocate,
        } => {
            let reserved = if *allocate { "reserved" } else { "" };
            let what = format!("{} of {}", counted(u64::from(*count), "file"), Bytes(*size));
            with(what, vec![reserved.to_owned()])
        }
        Layer::Loop { direct, sector } => {
            let direct = if *direct { "direct I/O" } else { "cached" };
            let sector = sector.map(|bytes| format!("sectors of {bytes} B"));
            with(
                "loop".to_owned(),
                vec![direct.to_owned(), sector.unwrap_or_default()],
            )
        }
        Layer::Zram {
            size,
            count,
            algorithm,
        } => with(
            format!(
                "{} of {}",
                counted(u64::from(*count), "zram device"),
                Bytes(*size)
            ),
            vec![algorithm.clone().unwrap_or_default()],
        ),
        Layer::Tmpfs { size } => with("tmpfs".to_owned(), vec![Bytes(*size).to_string()]),
        Layer::FileSystem { mkfs, mount, .. } => {
            let mount = match mount.is_empty() {
                true => String::new(),
                false => format!("mount -o {}", mount.join(",")),
            };
            let mkfs = match mkfs.is_empty() {
                true => String::new(),
                false => format!("mkfs {}", mkfs.join(" ")),
            };
            with(layer.words(), vec![mkfs, mount])
        }
        Layer::Zfs(zfs) => {
            let groups = zfs.layout.iter().map(|group| {
                let kind = group.redundancy.as_deref().unwrap_or("stripe");
                format!("{kind} {}", group.devices)
            });
            let groups: Vec<String> = groups.collect();
            let mut options = vec![groups.join(" + ")];
            let pairs = zfs.pool.iter().chain(&zfs.properties);
            options.extend(pairs.map(|(name, value)| format!("{name}={value}")));
            options.extend(
                zfs.volume
                    .map(|bytes| format!("volume of {}", Bytes(bytes))),
            );
            options.push(match zfs.origin {
                ZfsOrigin::New => String::new(),
                ZfsOrigin::Clone => "clone".to_owned(),
                ZfsOrigin::Copy => "copy".to_owned(),
            });
            options.extend(pinned(&zfs.pinning));
            with("zfs".to_owned(), options)
        }
        Layer::Throttle(limits) => {
            let rates = [
                ("reads", limits.read_iops, "/s"),
                ("writes", limits.write_iops, "/s"),
            ];
            let bandwidths = [
                ("read", limits.read_bandwidth),
                ("written", limits.write_bandwidth),
            ];
            let rates = rates.iter().filter(|(_, limit, _)| *limit > 0);
            let mut options: Vec<String> = rates
                .map(|(what, limit, per)| format!("{limit} {what}{per}"))
                .collect();
            let bandwidths = bandwidths.iter().filter(|(_, limit)| *limit > 0);
            options.extend(bandwidths.map(|(what, limit)| format!("{} {what}/s", Bytes(*limit))));
            with("throttle".to_owned(), options)
        }
        Layer::Delay {
            read_ns,
            write_ns,
            disks,
            pinning,
        } => {
            let spans = match &disks[..] {
                [] => vec![
                    format!("reads {}", Nanos(*read_ns)),
                    format!("writes {}", Nanos(*write_ns)),
                ],
                disks => vec![format!("as {}", disks.join(" + "))],
            };
            let options = spans.into_iter().chain(pinned(pinning));
            with("delay".to_owned(), options.collect())
        }
        Layer::Md(md) => with(
            "md".to_owned(),
            vec![
                md.level.name().to_owned(),
                md.layout.clone().unwrap_or_default(),
                md.chunk
                    .map(|bytes| format!("chunks of {}", Bytes(bytes)))
                    .unwrap_or_default(),
                if md.bitmap { "bitmap" } else { "" }.to_owned(),
                if md.assume_clean {
                    "not synchronised"
                } else {
                    ""
                }
                .to_owned(),
            ],
        ),
        Layer::Dm(target) => with("dm".to_owned(), mapped(target)),
        Layer::Mirror(mirror) => {
            let delay = match &mirror.delay[..] {
                [] => String::new(),
                disks => format!("delayed as {}", disks.join(" + ")),
            };
            let queues = mirror.queues.map(|number| counted(number.into(), "queue"));
            let options = [mirror.policy.clone(), delay].into_iter();
            let options = options.chain(queues);
            let options = options.chain(pinned(&mirror.pinning));
            with("mirror".to_owned(), options.collect())
        }
        Layer::Virtiofs(server) | Layer::Fuse(server) => {
            let options = [format!("by `{}`", server.command)].into_iter();
            let options = options.chain(pinned(&server.pinning));
            with(layer.kind().to_owned(), options.collect())
        }
        Layer::Vm(vm) => {
            let disk = vm.disk();
            let disks = vec![
                disk.interface.name().to_owned(),
                format!("cache={}", disk.cache.name()),
                format!("aio={}", disk.aio.name()),
                if disk.iothread { "iothread" } else { "" }.to_owned(),
                disk.zone
                    .map(|bytes| format!("zones of {}", Bytes(bytes)))
                    .unwrap_or_default(),
                match disk.origin {
                    DiskOrigin::New => String::new(),
                    origin => format!("origin={}", origin.name()),
                },
            ];
            let mut options = vec![
                vm.names.join(" + "),
                counted(u64::from(vm.cpus), "CPU"),
                Bytes(vm.memory).to_string(),
                format!("accel={}", vm.accel.name()),
            ];
            match &vm.share {
                Some(server) => options.push(format!("folders shared by `{server}`")),
                None => options.extend(disks),
            }
            let what = counted(u64::from(vm.guests), "virtual machine");
            with(
                what,
                options.into_iter().chain(pinned(&vm.pinning)).collect(),
            )
        }
        other => other.words(),
    }
}

/// A target of the device mapper with its options.
fn mapped(target: &DmTarget) -> Vec<String> {
    let mut options = vec![target.name().to_owned()];
    options.extend(match target {
        DmTarget::Linear | DmTarget::LogWrites => Vec::new(),
        DmTarget::Delay {
            read_ns,
            write_ns,
            flush_ns,
        } => vec![
            format!("reads {}", Nanos(*read_ns)),
            format!("writes {}", Nanos(*write_ns)),
            format!("flushes {}", Nanos(*flush_ns)),
        ],
        DmTarget::Flakey {
            up_ns,
            down_ns,
            fault,
        } => vec![
            format!("up {}", Nanos(*up_ns)),
            format!("down {}", Nanos(*down_ns)),
            match fault {
                FlakeyFault::Errors => "errors",
                FlakeyFault::ErrorWrites => "writes fail",
                FlakeyFault::DropWrites => "writes are dropped",
            }
            .to_owned(),
        ],
        DmTarget::Crypt {
            cipher,
            key_bits,
            sector,
        } => {
            let sector = sector.map(|bytes| format!("sectors of {bytes} B"));
            let all = [
                Some(cipher.clone()),
                Some(format!("{key_bits} bits")),
                sector,
            ];
            all.into_iter().flatten().collect()
        }
    });
    options
}

/// Where the server processes of a layer run.
fn pinned(pinning: &Pinning) -> impl Iterator<Item = String> {
    let cpus = pinning.cpus.iter().map(|cpus| format!("on CPUs {cpus}"));
    let nodes = pinning.numa.iter();
    cpus.chain(nodes.map(|nodes| format!("on NUMA nodes {nodes}")))
}

/// Whether a configuration has image files in a folder whose blocks are not reserved.
fn grows_in(configuration: &Configuration, folder: &Path) -> bool {
    let layers = configuration.provision().map(|it| it.layers.as_slice());
    let mut layers = layers.unwrap_or_default().iter();
    let grows = |layer| matches!(layer, &Layer::File { allocate, .. } if !allocate);
    layers.clone().any(grows)
        && layers.any(|layer| matches!(layer, Layer::Directory { path } if path == folder))
}

/// The kind of time that the trials take, if it is not that of a clock.
fn virtual_time(plan: &Plan) -> &'static str {
    let mut cells = (plan.each_cell()).map(|(_, workload)| workload.in_virtual_time());
    match (cells.clone().any(|it| it), cells.all(|it| it)) {
        (true, true) => " of virtual time",
        (true, false) => ", in part of virtual time",
        (false, _) => "",
    }
}

fn time(plan: &Plan, schedule: &Schedule, style: Style) -> String {
    let of = virtual_time(plan);
    let rounds = u64::from(plan.rounds);
    let uniform = plan.trials(plan.rounds) == u64::from(plan.cells()) * rounds;
    let (round, trials) = (Nanos(schedule.round_ns), Nanos(schedule.trials_ns));
    let searches = Nanos(schedule.searches_ns);
    let mut text = match (schedule.done, trials.0, searches.0) {
        (_, 0, 0) => "no workload has a time limit".to_owned(),
        (_, 0, 1..) => format!("the searches take at most {searches}{of}"),
        (1.., ..) => format!("the remaining trials take at least {trials}{of}"),
        _ if uniform => {
            let rounds = counted(rounds, "round");
            format!("a round takes at least {round}, and {rounds} {trials}{of}")
        }
        _ => format!("the first round takes at least {round}, and all trials {trials}{of}"),
    };
    if trials.0 > 0 && searches.0 > 0 {
        text += &format!("; the searches at most {searches} more");
    }
    if schedule.round_ns > 0 {
        text += ", besides making storage and files";
    }
    if schedule.round_ns > 0 && !schedule.without_limit.is_empty() {
        let names = schedule.without_limit.join(", ");
        text += &format!(", and {names}, without a time limit");
    }
    if schedule.precondition_ns > 0 {
        let most = Nanos(schedule.precondition_ns);
        text += &format!("; preconditioning takes at most {most} more");
    }
    if let (Some(max_time), Some(fit)) = (plan.stopping.max_time_ns, schedule.rounds_in_time) {
        let rounds = counted(fit.into(), "round");
        text += &format!("; {} allows at most {rounds}", Nanos(max_time));
    }
    line("time", &text, style)
}

/// Whether the rounds can decide.
fn decides(schedule: &Schedule, style: Style) -> String {
    if schedule.primary_comparisons == 0 {
        return String::new();
    }
    let rounds = schedule.compared_rounds;
    let comparisons = counted(schedule.primary_comparisons.into(), "primary comparison");
    let text = match &schedule.too_few {
        None => format!(
            "{} can decide {comparisons}: the smallest possible p is {:.2e}",
            counted(rounds.into(), "round"),
            // The least p of the two-sided signed-rank test: all differences have one sign.
            2f64.powi(1 - i32::try_from(rounds.min(1000)).unwrap_or(1000))
        ),
        Some(why) => why.clone(),
    };
    line("decides", &text, style)
}
