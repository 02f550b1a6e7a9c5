//! ZFS: OpenZFS, or zfs-fuse where the kernel does not have it. Both take the same commands.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Duration;

use iodyno_host::block::Block;
use iodyno_host::{Roots, mounts, names, text};
use iodyno_model::{Diagnostic, Layer, Pinning, ZfsLayer, number_list};
use iodyno_sys::host::zvol_name;

use crate::journal::{Header, Journal, Step};

use super::action::Action;
use super::host::{Host, word};
use super::host_ops::{HostOps, cannot};

/// How often an export is repeated while zfs-fuse has open files, unless the run is to stop.
const CLOSED: u32 = 600;
/// The longest time for the export or the import of a pool.
const EXPORT: Duration = Duration::from_secs(120);
/// The longest time for a question to ZFS.
const QUESTION: Duration = Duration::from_secs(20);
/// Without the block cache, the server uses direct I/O below it, as a file system in the kernel does.
const SERVER: [&str; 4] = [
    "zfs-fuse",
    "--no-daemon",
    "--no-kstat-mount",
    "--disable-block-cache",
];

/// The programs of OpenZFS that are used.
pub(crate) const TOOLS: [&str; 2] = ["zpool", "zfs"];
/// The program that makes a partition without writing to the device.
pub(crate) const ADD_PARTITION: &str = "addpart";
/// The start of that partition, sectors of 512 bytes.
const FIRST_SECTOR: u64 = 2048;

/// The pool of a target.
pub(crate) fn pool(token: &str) -> String {
    format!("iodyno-{token}")
}

/// The mark of a zfs-fuse process that iodyno started. All targets share it, except for those of a container, which are
/// in another mount namespace and have a server of their own.
pub(crate) fn server_mark(host: &dyn Host) -> String {
    let namespace = fs::read_link(host.roots().proc.join("self/ns/mnt"));
    let namespace = namespace.map(|link| format!(" {}", link.display()));
    format!("zfs-fuse{}", namespace.unwrap_or_default())
}

/// The dataset or volume under test.
pub(crate) fn dataset(token: &str) -> String {
    format!("{}/data", pool(token))
}

/// The dataset that holds the copy of a clone.
pub(crate) fn copies(token: &str) -> String {
    format!("{}/copy", pool(token))
}

/// The name of one of several datasets or volumes: `data`, `data2`, …
pub(crate) fn numbered(name: &str, number: u32) -> String {
    match number {
        0 => name.to_owned(),
        more => format!("{name}{}", more + 1),
    }
}

/// The device of a volume.
pub(crate) fn volume_path(name: &str) -> PathBuf {
    Path::new("/dev/zvol").join(name)
}

/// The device of a volume: the link that udev makes, or, without udev, the kernel's name of it. `None`: it does not
/// exist yet.
pub(crate) fn volume_device(roots: &Roots, name: &str) -> Option<PathBuf> {
    let link = volume_path(name);
    if link.exists() {
        return Some(link);
    }
    if roots.root.join("run/udev").exists() {
        return None;
    }
    let devices = names(roots.sys.join("block")).into_iter();
    let mut devices = devices.filter(|device| device.starts_with("zd"));
    let device = devices.find(|device| {
        let file = File::open(roots.dev.join(device));
        file.is_ok_and(|file| zvol_name(file.as_fd()).is_ok_and(|found| found == name))
    });
    device.map(|device| roots.dev.join(device))
}

/// The command that makes a partition of a whole disk known to the kernel, and the partition; `None`: it is not a disk.
/// zpool writes a partition table to a whole disk, and waits for the links that udev makes for it.
pub(crate) fn partition(roots: &Roots, device: &Path) -> Option<(Vec<String>, PathBuf)> {
    let device = device.canonicalize().ok()?;
    let name = device.file_name()?.to_str()?;
    let block = Block::named(roots, name).ok()?;
    let mapped = ["dm-", "loop", "zram"];
    if block.parent().is_some() || mapped.iter().any(|kind| name.starts_with(kind)) {
        return None;
    }
    let separator = match name.ends_with(|last: char| last.is_ascii_digit()) {
        true => "p",
        false => "",
    };
    let length = (block.length() / 512).saturating_sub(2 * FIRST_SECTOR);
    let path = device.display();
    let words = [
        ADD_PARTITION.to_owned(),
        path.to_string(),
        "1".to_owned(),
        FIRST_SECTOR.to_string(),
        length.to_string(),
    ];
    Some((words.into(), PathBuf::from(format!("{path}{separator}1"))))
}

/// Whether the kernel has ZFS.
pub(crate) fn in_kernel(host: &dyn Host) -> bool {
    host.roots().dev.join("zfs").exists()
}

/// Excludes others from making and removing pools in zfs-fuse, which does one thing at a time.
pub(crate) fn alone(
    ops: &HostOps<'_>,
    stop: &dyn Fn() -> bool,
) -> Result<Option<File>, Diagnostic> {
    match in_kernel(ops.host) {
        true => Ok(None),
        false => ops.lock(stop).map(Some),
    }
}

/// The imported pools, or why they are not known: the server does not run, or does not answer.
fn pools(ops: &mut HostOps<'_>) -> Result<Vec<String>, Diagnostic> {
    let answer = ops.run(&["zpool", "list", "-H", "-o", "name"], QUESTION);
    // A question is not part of making the target.
    ops.commands.pop();
    Ok(answer?.lines().map(str::to_owned).collect())
}

/// Whether a pool is imported.
pub(crate) fn is_imported(ops: &mut HostOps<'_>, pool: &str) -> bool {
    ops.host.program("zpool").is_some()
        && pools(ops).is_ok_and(|pools| pools.iter().any(|name| name == pool))
}

/// The CPUs on which the server runs that iodyno started; empty without one.
pub(crate) fn server_cpus(ops: &HostOps<'_>) -> String {
    ops.cpus_of(&server_mark(ops.host))
}

/// Whether iodyno started the server that answers here.
fn is_own_server(ops: &HostOps<'_>) -> bool {
    !ops.host.marked(&server_mark(ops.host)).is_empty()
}

/// Starts zfs-fuse unless ZFS answers already.
pub(crate) fn start_server(
    ops: &mut HostOps<'_>,
    log: &Path,
    pinning: &Pinning,
) -> Result<(), Diagnostic> {
    let _alone = ops.lock(ops.stop)?;
    if in_kernel(ops.host) || pools(ops).is_ok() {
        return Ok(());
    }
    let own = std::mem::replace(&mut ops.mark, server_mark(ops.host));
    let started = ops.start(&pinning.command(&SERVER.map(str::to_owned)), log);
    ops.mark = own;
    started?;
    if ops.wait_for(|ops| pools(ops).ok()).is_some() {
        return Ok(());
    }
    let output = text(log).unwrap_or_default();
    let message = format!("zfs-fuse does not answer\n  cause: {output}");
    Err(Diagnostic::error(message.trim_end_matches("\n  cause: "))
        .hint("start it by hand: `zfs-fuse --no-daemon`"))
}

/// The steps of the targets that use the server of this mount namespace, or are about to. Those of a process that has
/// ended need it only as long as they have pools.
fn users(ops: &HostOps<'_>) -> Vec<Vec<Step>> {
    let roots = ops.host.roots();
    let namespace = |process: &str| fs::read_link(roots.proc.join(process).join("ns/mnt")).ok();
    let here = |(header, steps): &(Header, Vec<Step>)| {
        let needs = |step: &Step| !step.undone && matches!(step.action, Action::ZfsFuse { .. });
        let of_owner = namespace(&header.owner.pid.to_string());
        let same = of_owner.is_none() || of_owner == namespace("self");
        same && header.owner.lives(roots) && steps.iter().any(needs)
    };
    let others = ops.others().into_iter().filter(here);
    others.map(|(_, steps)| steps).collect()
}

/// Whether there is a server that iodyno started and that no target uses any more, not even one that is only about to.
pub(crate) fn server_is_idle(ops: &mut HostOps<'_>) -> bool {
    is_own_server(ops) && users(ops).is_empty() && pools(ops).map_or(true, |pools| pools.is_empty())
}

/// Whether a server that iodyno started has only pools that are to be destroyed: those of this target, of targets that
/// are being undone, and of targets whose process has ended.
pub(crate) fn can_end_server(ops: &mut HostOps<'_>) -> bool {
    let tokens = Journal::tokens(ops.journals).into_iter();
    let of_targets: Vec<String> = tokens.map(|token| pool(&token)).collect();
    let kept = |steps: Vec<Step>| !steps.iter().any(|step| step.undone);
    !in_kernel(ops.host)
        && is_own_server(ops)
        && !users(ops).into_iter().any(kept)
        && pools(ops).is_ok_and(|pools| pools.iter().all(|name| of_targets.contains(name)))
}

/// Ends the server and all that it has imported.
pub(crate) fn end_server(ops: &HostOps<'_>) {
    ops.end_processes(&server_mark(ops.host));
}

/// Whether the server with this mark is the only remaining process of another mount namespace, so that its pools
/// cannot be used any more.
pub(crate) fn is_left_behind(ops: &HostOps<'_>, mark: &str) -> bool {
    let servers = ops.host.marked(mark);
    let Some((_, namespace)) = mark.split_once(' ') else {
        return false;
    };
    let proc = &ops.host.roots().proc;
    let processes = names(proc).into_iter().filter_map(|name| name.parse().ok());
    let mut others = processes.filter(|process: &u32| !servers.contains(process));
    let inside = |process: &u32| {
        let own = fs::read_link(proc.join(format!("{process}/ns/mnt")));
        own.is_ok_and(|own| own == Path::new(namespace))
    };
    !servers.is_empty() && mark != server_mark(ops.host) && !others.any(|process| inside(&process))
}

/// Ends the server, unless a target has begun to use it meanwhile. `mark`: that of the server with which the target was
/// made.
pub(crate) fn stop_server(ops: &mut HostOps<'_>, mark: &str) -> Result<(), Diagnostic> {
    let _alone = ops.lock(&|| false)?;
    if is_left_behind(ops, mark) {
        ops.end_processes(mark);
    } else if server_is_idle(ops) {
        ops.end_processes(&server_mark(ops.host));
    }
    Ok(())
}

/// Empties the cache of a pool that is the top layer of a target and not part of the page cache: the pool is exported
/// and imported. A pool below another layer is in use and keeps its cache.
///
/// # Errors
/// A command failed.
pub(crate) fn empty_caches(
    ops: &mut HostOps<'_>,
    journal: &Journal,
    links: &Path,
) -> Result<(), Diagnostic> {
    let mut layers = journal.header.provision.layers.iter();
    let top = layers.find(|layer| !matches!(layer, Layer::Throttle(_)));
    // The last pool that was made: there may be others below.
    let pool = journal
        .steps
        .iter()
        .rev()
        .find_map(|step| match &step.action {
            Action::Pool { name, arguments } => Some((name, arguments)),
            _ => None,
        });
    let (Some(Layer::Zfs(_)), Some((pool, arguments))) = (top, pool) else {
        return Ok(());
    };
    // Without links to the pool's own devices, every device of the host would be searched.
    let linked = || -> io::Result<()> {
        fs::create_dir_all(links)?;
        let devices = arguments.iter().filter(|word| word.starts_with('/'));
        for (number, device) in devices.enumerate() {
            let link = links.join(format!("{number:04}"));
            if link.symlink_metadata().is_err() {
                symlink(device, link)?;
            }
        }
        Ok(())
    };
    linked().map_err(|error| cannot("link the devices in", links, &error))?;
    let links = word(links)?;
    let mounted = |ops: &HostOps<'_>| {
        let mounts = mounts::own(ops.host.roots()).into_iter();
        let of_pool = |source: &str| source.split('/').next() == Some(pool);
        let ours = mounts.filter(|mount| of_pool(&mount.source));
        ours.map(|mount| mount.source).collect::<Vec<_>>()
    };
    let before = mounted(ops);
    // zfs-fuse closes files later than their processes, and much later on a busy host. Others use it between two
    // attempts.
    let mut _alone = None;
    ops.repeat_while_busy(CLOSED, |ops| {
        if (ops.stop)() {
            return Err(Diagnostic::error("stopped while a pool was exported").into());
        }
        let locked = alone(ops, ops.stop)?;
        ops.attempt(&["zpool", "export", pool], EXPORT)?;
        _alone = locked;
        Ok(())
    })?;
    let import = [
        "zpool",
        "import",
        "-o",
        "cachefile=none",
        "-d",
        &links,
        pool,
    ];
    ops.run(&import, EXPORT)?;
    for data in before {
        if !mounted(ops).contains(&data) {
            ops.run(&["zfs", "mount", &data], EXPORT)?;
        }
    }
    Ok(())
}

/// The words of `zpool create` after `create`.
pub(crate) fn create(token: &str, layer: &ZfsLayer, devices: &[String]) -> Vec<String> {
    let mut words: Vec<String> = vec!["-f".into(), "-o".into(), "cachefile=none".into()];
    for (name, value) in &layer.pool {
        words.extend(["-o".to_owned(), format!("{name}={value}")]);
    }
    words.extend(["-O".into(), "mountpoint=none".into(), pool(token)]);
    let mut devices = devices.iter();
    for group in &layer.layout {
        words.extend(group.redundancy.clone());
        words.extend(devices.by_ref().take(group.devices as usize).cloned());
    }
    words.extend(devices.cloned());
    words
}

/// Properties that only datasets have. Those that only volumes have begin with `vol`.
const OF_DATASETS: [&str; 6] = [
    "recordsize",
    "atime",
    "relatime",
    "xattr",
    "dnodesize",
    "special_small_blocks",
];

/// The command that creates a dataset mounted at a point, or a volume.
pub(crate) fn create_data(name: &str, layer: &ZfsLayer, point: &str) -> Vec<String> {
    let mut words: Vec<String> = vec!["zfs".into(), "create".into()];
    match layer.volume {
        Some(size) => words.extend(["-V".to_owned(), size.to_string()]),
        None => words.extend(["-o".to_owned(), format!("mountpoint={point}")]),
    }
    for (property, value) in &layer.properties {
        let foreign = match layer.volume {
            Some(_) => OF_DATASETS.contains(&property.as_str()),
            None => property.starts_with("vol"),
        };
        if !foreign {
            words.extend(["-o".to_owned(), format!("{property}={value}")]);
        }
    }
    words.push(name.to_owned());
    words
}

/// What the installed ZFS lacks for a layer.
pub(crate) fn check(ops: &mut HostOps<'_>, layer: &ZfsLayer, devices: usize) -> Vec<Diagnostic> {
    let mut faults = Vec::new();
    let named: u32 = layer.layout.iter().map(|group| group.devices).sum();
    if !layer.layout.is_empty() && named as usize != devices {
        let message =
            format!("the layout of `zfs` has {named} devices, and there are {devices} below");
        faults
            .push(Diagnostic::error(message).hint("change `zfs.layout` or the number of devices"));
    }
    if ops.host.program("zpool").is_none() {
        let hint = "install OpenZFS, or Debian's package `zfs-fuse`";
        faults.push(Diagnostic::error("`zpool` is not installed").hint(hint));
        return faults;
    }
    if !in_kernel(ops.host) {
        if ops.host.program("zfs-fuse").is_none() {
            let hint = "load the module `zfs`, or install Debian's package `zfs-fuse`";
            faults.push(Diagnostic::error("the kernel does not have ZFS").hint(hint));
        } else if layer.volume.is_some() {
            let hint = "install OpenZFS, or put `loop on file` on a dataset instead of a volume";
            faults.push(Diagnostic::error("zfs-fuse has no volumes").hint(hint));
        }
    }
    if in_kernel(ops.host) {
        faults.extend(unpinned(layer));
    } else if !layer.pinning.is_none() {
        let wanted = layer.pinning.cpus.as_deref().and_then(number_list);
        let runs_there = || number_list(&server_cpus(ops)) == wanted && wanted.is_some();
        if !runs_there() && pools(ops).is_ok() {
            let message = "zfs-fuse runs already, so `zfs.cpus` and `zfs.numa` have no effect";
            faults.push(Diagnostic::error(message).hint("end it first"));
        }
    }
    for (program, properties) in [("zfs", &layer.properties), ("zpool", &layer.pool)] {
        // Without arguments, the usage is printed, with all properties and their values.
        let _ = ops.run(&[program, "get"], QUESTION);
        let known = ops.commands.pop().map(|run| run.output).unwrap_or_default();
        if known.contains("PROPERTY") {
            let faulty = properties
                .iter()
                .filter_map(|(name, value)| unknown(&known, name, value));
            faults.extend(faulty.map(|message| {
                Diagnostic::error(message).hint(format!("`{program} get` lists what it knows"))
            }));
        }
    }
    faults
}

/// OpenZFS cannot be pinned.
pub(crate) fn unpinned(layer: &ZfsLayer) -> Option<Diagnostic> {
    let message = "`zfs.cpus` and `zfs.numa` have no effect: ZFS runs in the kernel";
    (!layer.pinning.is_none()).then(|| Diagnostic::error(message).hint("leave them out"))
}

/// What is wrong with a property according to the usage of `zfs get` or `zpool get`.
fn unknown(usage: &str, name: &str, value: &str) -> Option<String> {
    // Properties of users contain a colon.
    if name.contains(':') {
        return None;
    }
    let line = usage
        .lines()
        .find(|line| line.split_whitespace().next() == Some(name));
    let Some(line) = line else {
        return Some(format!(
            "the installed ZFS does not have the property `{name}`"
        ));
    };
    let values = line.split_whitespace();
    let values: Vec<&str> = values
        .skip(1)
        .skip_while(|word| matches!(*word, "YES" | "NO"))
        .collect();
    let values = values.join(" ");
    let choices: Vec<&str> = values.split(" | ").collect();
    // `<size>`, `512 to 128k, power of 2`, `gzip-[1-9]` and `sha256[,verify]` are not lists of words.
    let listed = choices.len() > 1 && !values.contains(['<', ',']);
    let fits = |choice: &&str| match choice.split_once("-[") {
        Some((stem, _)) => value
            .strip_prefix(stem)
            .is_some_and(|rest| rest.starts_with('-')),
        None => *choice == value,
    };
    (listed && !choices.iter().any(fits)).then(|| {
        format!("the installed ZFS does not have `{name}={value}`: its values are {values}")
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use iodyno_model::{VdevGroup, ZfsOrigin};

    use super::*;

    const USAGE: &str = "\
missing property argument
	PROPERTY       EDIT  INHERIT   VALUES

	available        NO       NO   <size>
	checksum        YES      YES   on | off | fletcher2 | fletcher4 | sha256
	compression     YES      YES   on | off | lzjb | gzip | gzip-[1-9] | zle
	dedup           YES      YES   on | off | verify | sha256[,verify]
	recordsize      YES      YES   512 to 128k, power of 2
	quota           YES       NO   <size> | none
	ashift            YES   <ashift, 9-13, or 0=default>
";

    #[test]
    fn properties_and_values_that_the_installed_zfs_lacks_are_told_apart() {
        let check = |name: &str, value: &str, expected: Option<&str>| {
            let found = unknown(USAGE, name, value);
            let found = found
                .as_deref()
                .map(|text| text.rsplit("does not have ").next().unwrap());
            assert_eq!(found, expected, "{name}={value}");
        };
        check("compression", "off", None);
        check("compression", "gzip-9", None);
        let values = "its values are on | off | lzjb | gzip | gzip-[1-9] | zle";
        let lz4 = format!("`compression=lz4`: {values}");
        check("compression", "lz4", Some(&lz4));
        check("sync", "disabled", Some("the property `sync`"));
        check("recordsize", "8k", None);
        check("dedup", "edonr,verify", None);
        check("quota", "1G", None);
        check("ashift", "12", None);
        check("com.example:tag", "x", None);
    }

    #[test]
    fn the_layout_is_laid_over_the_devices_in_order() {
        let group = |redundancy: Option<&str>, devices| VdevGroup {
            redundancy: redundancy.map(str::to_owned),
            devices,
        };
        let words = |layout: Vec<VdevGroup>| {
            let layer = ZfsLayer {
                layout,
                pool: [("ashift".to_owned(), "12".to_owned())].into(),
                properties: BTreeMap::new(),
                volume: None,
                origin: ZfsOrigin::New,
                count: None,
                pinning: Pinning::default(),
            };
            let devices = ["/a", "/b", "/c", "/d"].map(str::to_owned);
            create("t", &layer, &devices).join(" ")
        };
        let begin = "-f -o cachefile=none -o ashift=12 -O mountpoint=none iodyno-t";
        assert_eq!(words(Vec::new()), format!("{begin} /a /b /c /d"));
        assert_eq!(
            words(vec![group(Some("mirror"), 2), group(Some("mirror"), 2)]),
            format!("{begin} mirror /a /b mirror /c /d")
        );
        assert_eq!(
            words(vec![group(Some("raidz1"), 3), group(None, 1)]),
            format!("{begin} raidz1 /a /b /c /d")
        );
    }
}
