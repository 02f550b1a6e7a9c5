//! The schedule of an experiment as text for `--dry-run`: the storage that is made, space and time, and every trial in
//! order.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;

use iodyno_model::{
    Configuration, DiskOrigin, DmTarget, FlakeyFault, Fresh, Layer, Pinning, Plan, Provision,
    VmLayer, ZfsLayer, ZfsOrigin,
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
    let searches = schedule.searches.iter();
    let searches: HashSet<(&str, &str)> = searches
        .map(|it| (it.workload.as_str(), it.configuration.as_str()))
        .collect();
    let searched = |trial: &&Scheduled| {
        searches.contains(&(trial.workload.as_str(), trial.configuration.as_str()))
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
            match (last, schedule.trials.len()) {
                (0, _) => format!("{done} are done; at most {left} of searches remain"),
                (_, 1) => format!("{done} of {all} are done; {left} remains:"),
                _ => format!("{done} of {all} are done; {left} remain, in this order:"),
            }
        }
    };
    let mut text = line("trials", &order, style);
    // A round's trials follow each other.
    let rounds = schedule
        .trials
        .chunk_by(|one, next| one.round == next.round);
    for trials in rounds.filter(|trials| trials[0].round <= last) {
        let round = trials[0].round;
        let trials = trials.iter().map(|trial| {
            let (workload, configuration) = (&trial.workload, &trial.configuration);
            match alone {
                true => format!("{} {workload}", trial.number),
                false => format!("{} {workload} on {configuration}", trial.number),
            }
        });
        let trials: Vec<String> = trials.collect();
        text += &items(&format!("  round {round}"), &trials, style);
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

/// Pairs of configurations that are named; of more there is the number.
const NAMED_PAIRS: usize = 3;

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
        let mut by_reason: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for (one, other, why) in &schedule.turns {
            let pairs = by_reason.entry(why).or_default();
            pairs.push(format!("{one} and {other}"));
        }
        let in_turn = by_reason.iter().map(|(why, pairs)| match pairs.len() {
            1..=NAMED_PAIRS => format!("{} take turns: {why}", pairs.join(", ")),
            more => format!("{more} pairs take turns: {why}"),
        });
        let in_turn: Vec<String> = in_turn.collect();
        let often = match in_turn.is_empty() {
            true => often.to_owned(),
            false => format!("{often}: {}", in_turn.join("; ")),
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
    let (name, options) = name_and_options(layer);
    let said = options.into_iter().flatten();
    let options: Vec<String> = said.filter(|it| !it.is_empty()).collect();
    match options.is_empty() {
        true => name,
        false => format!("{name} ({})", options.join(", ")),
    }
}

/// A layer in words, and those of its options that are to be said.
fn name_and_options(layer: &Layer) -> (String, Vec<Option<String>>) {
    let name = layer.words();
    let each =
        |count: u32, what, size| format!("{} of {}", counted(count.into(), what), Bytes(size));
    match layer {
        Layer::File {
            size,
            count,
            allocate,
        } => (
            each(*count, "file", *size),
            vec![said(*allocate, "reserved")],
        ),
        Layer::Loop { direct, sector } => {
            let direct = if *direct { "direct I/O" } else { "cached" };
            (name, vec![said(true, direct), sectors(*sector)])
        }
        Layer::Zram {
            size,
            count,
            algorithm,
        } => (each(*count, "zram device", *size), vec![algorithm.clone()]),
        Layer::Tmpfs { size } => (name, vec![Some(Bytes(*size).to_string())]),
        Layer::FileSystem { mkfs, mount, .. } => {
            let mkfs = (!mkfs.is_empty()).then(|| format!("mkfs {}", mkfs.join(" ")));
            let mount = (!mount.is_empty()).then(|| format!("mount -o {}", mount.join(",")));
            (name, vec![mkfs, mount])
        }
        Layer::Zfs(zfs) => (name, pool(zfs)),
        Layer::Throttle(limits) => {
            let rate = |limit: u64, what: &str| (limit > 0).then(|| format!("{limit} {what}/s"));
            let bandwidth =
                |limit: u64, what: &str| (limit > 0).then(|| format!("{} {what}/s", Bytes(limit)));
            let options = vec![
                rate(limits.read_iops, "reads"),
                rate(limits.write_iops, "writes"),
                bandwidth(limits.read_bandwidth, "read"),
                bandwidth(limits.write_bandwidth, "written"),
            ];
            (name, options)
        }
        Layer::Delay {
            read_ns,
            write_ns,
            disks,
            pinning,
        } => {
            let spans = match &disks[..] {
                [] => vec![span("reads", *read_ns), span("writes", *write_ns)],
                disks => vec![Some(format!("as {}", disks.join(" + ")))],
            };
            (name, [spans, pinned(pinning)].concat())
        }
        Layer::Md(md) => {
            let options = vec![
                said(true, md.level.name()),
                md.layout.clone(),
                md.chunk.map(|bytes| format!("chunks of {}", Bytes(bytes))),
                said(md.bitmap, "bitmap"),
                said(md.assume_clean, "not synchronised"),
            ];
            (name, options)
        }
        Layer::Dm(target) => (name, mapped(target)),
        Layer::Mirror(mirror) => {
            let delay = &mirror.delay;
            let options = vec![
                Some(mirror.policy.clone()),
                (!delay.is_empty()).then(|| format!("delayed as {}", delay.join(" + "))),
                mirror.queues.map(|number| counted(number.into(), "queue")),
            ];
            (name, [options, pinned(&mirror.pinning)].concat())
        }
        Layer::Virtiofs(server) | Layer::Fuse(server) => {
            let by = vec![Some(format!("by `{}`", server.command))];
            (name, [by, pinned(&server.pinning)].concat())
        }
        Layer::Vm(vm) => (counted(vm.guests.into(), "virtual machine"), machine(vm)),
        Layer::Directory { .. } | Layer::Device { .. } | Layer::Overlay { .. } | Layer::Nfs(_) => {
            (name, Vec::new())
        }
    }
}

fn said(said: bool, word: &str) -> Option<String> {
    said.then(|| word.to_owned())
}

fn span(what: &str, ns: u64) -> Option<String> {
    Some(format!("{what} {}", Nanos(ns)))
}

fn sectors(bytes: Option<u32>) -> Option<String> {
    bytes.map(|bytes| format!("sectors of {bytes} B"))
}

fn pool(zfs: &ZfsLayer) -> Vec<Option<String>> {
    let groups = zfs.layout.iter().map(|group| {
        let kind = group.redundancy.as_deref().unwrap_or("stripe");
        format!("{kind} {}", group.devices)
    });
    let groups: Vec<String> = groups.collect();
    let mut options = vec![(!groups.is_empty()).then(|| groups.join(" + "))];
    let pairs = zfs.pool.iter().chain(&zfs.properties);
    options.extend(pairs.map(|(name, value)| Some(format!("{name}={value}"))));
    let volume = |bytes| match zfs.instances() {
        1 => format!("volume of {}", Bytes(bytes)),
        count => format!("{count} volumes of {}", Bytes(bytes)),
    };
    options.push(zfs.volume.map(volume));
    options.push(match zfs.origin {
        ZfsOrigin::New => None,
        ZfsOrigin::Clone => said(true, "clone"),
        ZfsOrigin::Copy if zfs.instances() > 1 => Some(format!("{} copies", zfs.instances())),
        ZfsOrigin::Copy => said(true, "copy"),
    });
    [options, pinned(&zfs.pinning)].concat()
}

fn machine(vm: &VmLayer) -> Vec<Option<String>> {
    let disk = vm.disk();
    let mut options = vec![
        (!vm.names.is_empty()).then(|| vm.names.join(" + ")),
        Some(counted(vm.cpus.into(), "CPU")),
        Some(Bytes(vm.memory).to_string()),
        Some(format!("accel={}", vm.accel.name())),
    ];
    match &vm.share {
        Some(server) => options.push(Some(format!("folders shared by `{server}`"))),
        None => options.extend([
            said(true, disk.interface.name()),
            Some(format!("cache={}", disk.cache.name())),
            Some(format!("aio={}", disk.aio.name())),
            said(disk.iothread, "iothread"),
            disk.zone.map(|bytes| format!("zones of {}", Bytes(bytes))),
            (disk.origin != DiskOrigin::New).then(|| format!("origin={}", disk.origin.name())),
        ]),
    }
    [options, pinned(&vm.pinning)].concat()
}

/// A target of the device mapper with its options.
fn mapped(target: &DmTarget) -> Vec<Option<String>> {
    let mut options = vec![said(true, target.name())];
    options.extend(match target {
        DmTarget::Linear | DmTarget::LogWrites => Vec::new(),
        DmTarget::Delay {
            read_ns,
            write_ns,
            flush_ns,
        } => vec![
            span("reads", *read_ns),
            span("writes", *write_ns),
            span("flushes", *flush_ns),
        ],
        DmTarget::Flakey {
            up_ns,
            down_ns,
            fault,
        } => {
            let fault = match fault {
                FlakeyFault::Errors => "errors",
                FlakeyFault::ErrorWrites => "writes fail",
                FlakeyFault::DropWrites => "writes are dropped",
            };
            vec![
                span("up", *up_ns),
                span("down", *down_ns),
                said(true, fault),
            ]
        }
        DmTarget::Crypt {
            cipher,
            key_bits,
            sector,
        } => vec![
            Some(cipher.clone()),
            Some(format!("{key_bits} bits")),
            sectors(*sector),
        ],
    });
    options
}

/// Where the server processes of a layer run.
fn pinned(pinning: &Pinning) -> Vec<Option<String>> {
    let (cpus, numa) = (pinning.cpus.as_ref(), pinning.numa.as_ref());
    vec![
        cpus.map(|cpus| format!("on CPUs {cpus}")),
        numa.map(|nodes| format!("on NUMA nodes {nodes}")),
    ]
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

#[cfg(test)]
mod tests {
    use iodyno_model::{Bound, Search, SearchAxis};

    use super::*;

    /// A pass over all trials for each round, or over all searches for each trial, would take hours.
    #[test]
    fn many_rounds_and_many_searches_are_listed() {
        const MANY: u32 = 100_000;
        let trial = |number: u32| Scheduled {
            number,
            round: number,
            configuration: "c".to_owned(),
            workload: "w".to_owned(),
        };
        let search = |number: u32| Searching {
            configuration: format!("c{number}"),
            workload: "w".to_owned(),
            search: Search {
                axis: SearchAxis::Depth,
                until: Bound::parse("p99 < 2ms").unwrap(),
            },
            most_trials: 1,
            most_ns: None,
        };
        let schedule = Schedule {
            done: 2,
            trials: (1..=MANY).map(trial).collect(),
            searches: (0..MANY).map(search).collect(),
            ..Schedule::default()
        };
        let plan = Plan::new("p", Vec::new(), Vec::new());
        let style = Style {
            color: false,
            width: 80,
            unicode: false,
        };
        let text = super::trials(&plan, &schedule, style);
        assert_eq!(text.matches("  round ").count() as u32, MANY);
        assert!(text.ends_with("100000 w on c\n"));
    }
}
