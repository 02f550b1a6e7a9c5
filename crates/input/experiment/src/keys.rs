//! The table of keys: name, kind of value, description and default of each. It drives the checks of a text, the JSON
//! Schema and the reference page.

use iodyno_mirror::PolicyKind;
use iodyno_model::{Acceleration, DiskAio, DiskCache, DiskInterface, DiskOrigin, Shape};
use iodyno_units::{Bytes, Nanos};
use serde_json::{Value, json};

/// A key of a table.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Key {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    /// Description, one sentence.
    pub(crate) about: &'static str,
    /// Default in words; in backquotes: as it would be written; empty: none.
    pub(crate) default: &'static str,
}

/// Kind of a value.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Kind {
    /// A string.
    Text(Form),
    /// `true` or `false`.
    Switch,
    /// An integer from the first to the second.
    Count(u64, u64),
    /// Bytes, at least this: `"4GiB"`, or an integer.
    Size(u64),
    /// The size of a sector, bytes: a power of two, with or without quotes.
    Sector,
    /// A time, at least this: `"60s"`.
    Time(Nanos),
    /// A time in whole units of this.
    Whole(Nanos),
    /// A percentage above 0: `"3%"`, or a number.
    Percent,
    /// One of these words.
    Words(&'static [&'static str]),
    /// A string, or an array of strings.
    Texts,
    /// A table of free keys with strings, numbers or switches.
    Scalars,
    /// Parameters: a scalar, an array of scalars, or a table with `about` and `default`.
    Parameters,
    /// A table with these keys.
    Table(&'static [Key]),
    /// A table with the options of a kind of layer.
    Layer(Needs, &'static [Key]),
    /// An array of tables: a kind of layer with its options.
    Layers,
    /// A table of tables with these keys, by names of the user.
    Named(&'static [Key]),
    /// Tables of parameters, by names of the user.
    Presets,
    /// Axes: arrays of scalars, parameters with one, or tables of scalars and tables by label.
    Axes,
    /// An array of names, or of arrays of names.
    Zip,
    /// An array of tables with labels by axis.
    Exclude,
    /// A path, an array of paths, or a table of fio's options.
    Fio,
    /// A name, an array of names, or a table.
    FileOperations,
}

/// What the string of a layer stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// Itself.
    Plain,
    /// A path, from the folder of the text.
    Path,
    /// Numbers of CPUs or NUMA nodes: `0-3,8`.
    Numbers,
    /// Simulated disks: `hdd + hdd*2`.
    Disks,
    /// The value of a property of a ZFS dataset or volume.
    Property,
}

/// What is below a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Needs {
    /// Nothing: it is the lowest layer.
    Nothing,
    /// A path that the user names.
    Path,
    Folder,
    Files,
    Devices,
    DevicesOrFiles,
    /// Any layer.
    Any,
}

impl Needs {
    /// Whether it can be on this.
    pub(crate) fn fits(self, below: Shape) -> bool {
        let devices = matches!(below, Shape::Devices(_));
        let files = matches!(below, Shape::Files(_));
        match self {
            Needs::Nothing | Needs::Path => below == Shape::Nothing,
            Needs::Folder => below == Shape::Folder,
            Needs::Files => files,
            Needs::Devices => devices,
            Needs::DevicesOrFiles => devices || files,
            Needs::Any => below != Shape::Nothing,
        }
    }
}

/// A string that stands for itself.
const TEXT: Kind = Kind::Text(Form::Plain);

const fn key(name: &'static str, kind: Kind, about: &'static str) -> Key {
    Key {
        name,
        kind,
        about,
        default: "",
    }
}

impl Key {
    const fn default(self, default: &'static str) -> Key {
        Key { default, ..self }
    }

    /// The default as [`Keyed::stored`](crate::check::Keyed::stored) gives it, if it is a value.
    pub(crate) fn usual(&self) -> Option<Value> {
        let text = self.default.strip_prefix('`')?.strip_suffix('`')?;
        let text = text.trim_matches('"');
        Some(match self.kind {
            Kind::Text(Form::Plain) | Kind::Words(_) => json!(text),
            Kind::Switch => json!(text.parse::<bool>().ok()?),
            Kind::Count(..) => json!(text.parse::<u64>().ok()?),
            Kind::Size(_) => json!(text.parse::<Bytes>().ok()?.0),
            Kind::Time(_) | Kind::Whole(_) => json!(text.parse::<Nanos>().ok()?.0),
            _ => return None,
        })
    }
}

/// Units of times in layers.
pub(crate) const MILLISECOND: Nanos = Nanos::from_millis(1);
const SECOND: Nanos = Nanos::from_secs(1);

/// Maximum number of rounds.
const MAX_ROUNDS: u64 = 100_000;
/// The largest number that TOML can represent.
const LARGEST: u64 = i64::MAX as u64;

/// The shortest measured time, and the smallest limit of a time.
const SHORTEST: Nanos = Nanos::from_millis(1);

pub(crate) const MATRIX: [Key; 3] = [
    key(
        "axis",
        Kind::Axes,
        "Values of one key, crossed with those of the other axes: a list, or a table of labels.",
    ),
    key(
        "zip",
        Kind::Zip,
        "Axes that change together instead of being crossed.",
    ),
    key(
        "exclude",
        Kind::Exclude,
        "Combinations that are left out, as labels by axis.",
    ),
];

/// The keys before the first table.
#[rustfmt::skip]
pub(crate) const FILE: &[Key] = &[
    key("name", TEXT, "Name of the run in lists.").default("the name of the file"),
    key("about", TEXT, "What the experiment is about."),
    key("question", TEXT, "The question that it answers; a run prints it above the answer."),
    key("baseline", TEXT, "The configuration that the others are compared with; with one configuration, the workload; with `compare`, one of its values.").default("the first"),
    key("compare", TEXT, "What is compared: `configuration`, `workload` or an axis; with an axis, its values, for each combination of the other axes.").default("configurations; with one, workloads"),
    key("rounds", Kind::Count(1, MAX_ROUNDS), "Number of rounds: trials of each configuration and workload; with `stop`, the maximum.").default("the smallest number that can decide, at least 10"),
    key("seed", Kind::Count(0, LARGEST), "Seed of all random decisions.").default("random"),
    key("max_time", Kind::Time(SHORTEST), "Do not start a round that would end after this time."),
    key("stop", Kind::Percent, "Stop once every confidence interval is at most this wide, in percent of its ratio."),
    key("aa", Kind::Switch, "Run the baseline twice in each round, to measure the noise.").default("`false`"),
    key("probe", Kind::Switch, "Try each configuration and workload for at most one second before the first round, without a record: errors are found early, and the time is estimated.").default("`false`"),
    key("retry", Kind::Count(0, 100), "How often a failed trial is repeated, at most. Each attempt is stored; the last one counts.").default("`0`"),
    key("settle", Kind::Switch, "Drop the page cache and wait for idle devices between trials.").default("`true`"),
    key("metric", Kind::Texts, "Metrics to compare by; the first decides, the others are exploratory.").default("depends on the workload"),
    key("margin", Kind::Percent, "Smaller differences are negligible.").default("`\"3%\"`"),
    key("fresh", Kind::Words(&["round", "trial", "experiment"]), "How often storage is made anew.").default("`\"round\"`"),
    key("params", Kind::Parameters, "Parameters: `${NAME}` in a string is replaced by the value; `--set NAME=VALUE` changes it."),
    key("preset", Kind::Presets, "Values of several parameters, selected by `--set scale=NAME`."),
    key("table", Kind::Table(TABLE), "The table that is printed at the end."),
    key("node", Kind::Named(NODE), "A host on which the trials run, all nodes at once.").default("those of `--node`; without any, this host"),
    key("configuration", Kind::Named(CONFIGURATION), "A target with its settings: one column of the comparison.").default("those of `--on`"),
    key("workload", Kind::Named(WORKLOAD), "Work done on each configuration."),
];

/// The keys of `[table]`.
#[rustfmt::skip]
pub(crate) const TABLE: &[Key] = &[
    key("rows", Kind::Texts, "Dimensions of the rows: `workload`, `configuration`, `node` or an axis.").default("those of the comparison"),
    key("columns", Kind::Texts, "Dimensions of the columns, the outermost first.").default("the compared one"),
    key("metric", Kind::Texts, "Metrics, side by side: `iops`, `read.p99`; `p99` is that of each kind of op.").default("that of each verdict"),
    key("unit", Kind::Words(&["MB/s", "MiB/s"]), "Unit of bandwidths."),
    key("digits", Kind::Count(0, 9), "Number of decimal places.").default("three significant digits"),
    key("mean", Kind::Switch, "Add the arithmetic mean beside each median.").default("`false`"),
    key("title", TEXT, "A line above the table."),
    key("regret", Kind::Switch, "Add how far each column is from the best one of each cell.").default("`false`"),
];

/// The keys of `[node.NAME]`.
#[rustfmt::skip]
pub(crate) const NODE: &[Key] = &[
    key("at", TEXT, "Where it is: `ssh://[USER@]HOST[:PORT]` or `local`, with `?fio` to have fio do the I/O. `--node NAME=ADDRESS` takes precedence."),
    key("sudo", Kind::Switch, "Run as root there, by `sudo -n`.").default("`false`"),
    key("jobs", Kind::Switch, "Whether it does the work of the trials; `false`: it is only sampled during each trial.").default("`true`"),
];

/// The keys of `[configuration.NAME]`.
#[rustfmt::skip]
pub(crate) const CONFIGURATION: &[Key] = &[
    key("target", TEXT, "The storage, from the top down: `ext4 on loop on file on FOLDER`, an existing path, or simulated disks: `mirror of sim:hdd x 3`."),
    key("layers", Kind::Layers, "The layers as tables, from the top down, where a kind occurs twice."),
    key("directory", Kind::Layer(Needs::Path, DIRECTORY), "A new folder in an existing one."),
    key("device", Kind::Layer(Needs::Path, DEVICE), "Existing block devices; needs `--destroy` for each that is not blank."),
    key("file", Kind::Layer(Needs::Folder, FILES), "Image files in the folder below."),
    key("loop", Kind::Layer(Needs::Files, LOOP), "A loop device on each file below."),
    key("zram", Kind::Layer(Needs::Nothing, ZRAM), "Compressed block devices in memory."),
    key("tmpfs", Kind::Layer(Needs::Nothing, TMPFS), "A file system in memory."),
    key("ext4", Kind::Layer(Needs::Devices, FILE_SYSTEM), "An ext4 file system on the device below."),
    key("xfs", Kind::Layer(Needs::Devices, FILE_SYSTEM), "An XFS file system on the device below."),
    key("btrfs", Kind::Layer(Needs::Devices, FILE_SYSTEM), "A Btrfs file system on the devices below."),
    key("zfs", Kind::Layer(Needs::DevicesOrFiles, ZFS), "A ZFS pool on the devices or files below, and a dataset or a volume in it."),
    key("overlay", Kind::Layer(Needs::Folder, OVERLAY), "An overlay mount on the folder below."),
    key("nfs", Kind::Layer(Needs::Folder, NFS), "An export of the folder below by NFS, and its mount, both in a virtual machine."),
    key("throttle", Kind::Layer(Needs::Any, THROTTLE), "Limits of the rate of the devices below."),
    key("delay", Kind::Layer(Needs::DevicesOrFiles, DELAY), "A delay of each read and write of the file or device below."),
    key("md", Kind::Layer(Needs::Devices, MD), "An array of the kernel's md on all devices below."),
    key("dm", Kind::Layer(Needs::Devices, DM), "A device of the device mapper on each device below."),
    key("mirror", Kind::Layer(Needs::DevicesOrFiles, MIRROR), "A mirror on the files or devices below, which iodyno serves."),
    key("virtiofs", Kind::Layer(Needs::Folder, VIRTIOFS), "A virtio-fs server of the folder below, whose clients the jobs are."),
    key("fuse", Kind::Layer(Needs::Folder, FUSE), "The folder below, mounted by a FUSE server."),
    key("sim", Kind::Table(SIM), "Settings of simulated storage."),
    key("vm", Kind::Layer(Needs::Any, VM), "Virtual machines, whose disks are the files or devices below. The layers above are made in them, and the trials run in them."),
    key("fill", Kind::Size(0), "Amount of random data written to a new target before its first trial.").default("none"),
    key("precondition", Kind::Time(Nanos(0)), "Longest time for which a new target is written until its rate is steady, after SNIA's PTS.").default("none"),
    key("host", Kind::Table(HOST), "Settings of the host while the target exists."),
    key("env", Kind::Scalars, "Environment of the commands."),
    key("setup", TEXT, "Command that makes storage that iodyno does not know."),
    key("ready", TEXT, "Command that succeeds once the storage can be used; it is repeated until then."),
    key("teardown", TEXT, "Command that undoes `setup`."),
    key("sample", Kind::Texts, "Names of server processes to sample."),
    key("nodes", Kind::Texts, "The nodes that have it.").default("all with jobs"),
    MATRIX[0], MATRIX[1], MATRIX[2],
];

/// The kinds of layers.
pub(crate) fn kinds() -> Vec<&'static str> {
    let layers = CONFIGURATION.iter();
    let layers = layers.filter(|key| matches!(key.kind, Kind::Layer(..)));
    layers.map(|key| key.name).collect()
}

/// What is below a kind of layer, and its options.
pub(crate) fn layer(kind: &str) -> (Needs, &'static [Key]) {
    let found = CONFIGURATION.iter().find(|key| key.name == kind);
    match found.map(|key| key.kind) {
        Some(Kind::Layer(needs, keys)) => (needs, keys),
        _ => (Needs::Any, &[]),
    }
}

const DIRECTORY: &[Key] =
    &[key("path", TEXT, "Path of the existing folder.").default("the end of `target`")];

const DEVICE: &[Key] =
    &[key("paths", Kind::Texts, "Paths of the devices.").default("the end of `target`")];

#[rustfmt::skip]
const FILES: &[Key] = &[
    key("size", Kind::Size(1), "Length of each file."),
    key("count", Kind::Count(1, 64), "Number of files.").default("the number that the layers above need"),
    key("allocate", Kind::Switch, "Reserve the blocks, so that the file does not grow during a trial.").default("`true`"),
];

#[rustfmt::skip]
const LOOP: &[Key] = &[
    key("direct", Kind::Switch, "Direct I/O on the files, so that nothing is cached twice.").default("`true`"),
    key("sector", Kind::Sector, "Logical block size.").default("`512`"),
];

#[rustfmt::skip]
const ZRAM: &[Key] = &[
    key("size", Kind::Size(1), "Size of each device."),
    key("count", Kind::Count(1, 64), "Number of devices.").default("the number that the layers above need"),
    key("algorithm", TEXT, "Compression, such as `zstd`.").default("the kernel's"),
];

const TMPFS: &[Key] = &[key("size", Kind::Size(1), "Largest size.")];

#[rustfmt::skip]
const FILE_SYSTEM: &[Key] = &[
    key("mkfs", Kind::Texts, "Arguments of mkfs."),
    key("mount", Kind::Texts, "Mount options."),
];

const PROPERTY: Kind = Kind::Text(Form::Property);

#[rustfmt::skip]
const ZFS: &[Key] = &[
    key("layout", TEXT, "The devices of the pool: `2 x mirror 3`, `raidz1 4`, `stripe 2`; several with ` + `.").default("a stripe of all devices"),
    key("pool", Kind::Scalars, "Properties of the pool, such as `ashift`."),
    key("properties", Kind::Scalars, "Other properties of the dataset or volume."),
    key("compression", PROPERTY, "Property of the dataset or volume."),
    key("recordsize", PROPERTY, "Property of the dataset: `128K`."),
    key("volblocksize", PROPERTY, "Property of the volume: `8K`."),
    key("sync", PROPERTY, "Property of the dataset or volume: `standard`, `always`, `disabled`."),
    key("atime", PROPERTY, "Property of the dataset."),
    key("primarycache", PROPERTY, "Property of the dataset or volume: `all`, `metadata`, `none`."),
    key("logbias", PROPERTY, "Property of the dataset or volume."),
    key("checksum", PROPERTY, "Property of the dataset or volume."),
    key("copies", PROPERTY, "Property of the dataset or volume."),
    key("xattr", PROPERTY, "Property of the dataset."),
    key("volume", Kind::Size(1), "Use a volume of this size.").default("a dataset"),
    key("count", Kind::Count(1, 64), "Number of volumes, clones or copies. Each copy is in its own dataset.").default("the number that the layers above need; one dataset"),
    key("origin", Kind::Words(&["new", "clone", "copy"]), "A new dataset or volume, a clone of its snapshot, or a copy of a clone (`dd`).").default("`\"new\"`"),
    PINNING[0], PINNING[1],
];

const NUMBERS: Kind = Kind::Text(Form::Numbers);

/// The keys of layers with server processes.
pub(crate) const PINNING: [Key; 2] = [
    key("cpus", NUMBERS, "CPUs of its server processes: `0-3,8`.").default("all"),
    key(
        "numa",
        NUMBERS,
        "NUMA nodes of its server processes' memory, and of their CPUs without `cpus`.",
    )
    .default("all"),
];

const OVERLAY: &[Key] = &[key(
    "mount",
    Kind::Texts,
    "Mount options besides the folders.",
)];

#[rustfmt::skip]
const NFS: &[Key] = &[
    key("version", Kind::Words(&["4.0", "4.1", "4.2"]), "Version of the protocol.").default("`\"4.2\"`"),
    key("sync", Kind::Switch, "The server stores a write before it acknowledges it.").default("`true`"),
    key("threads", Kind::Count(1, 1024), "Number of threads of the server.").default("`8`"),
    key("rsize", Kind::Size(1024), "Largest read of the client.").default("the kernel's"),
    key("wsize", Kind::Size(1024), "Largest write of the client.").default("the kernel's"),
    key("mount", Kind::Texts, "Mount options besides these."),
];

#[rustfmt::skip]
const THROTTLE: &[Key] = &[
    key("read_iops", Kind::Count(0, LARGEST), "Reads per second of each device; 0: no limit.").default("`0`"),
    key("write_iops", Kind::Count(0, LARGEST), "Writes per second of each device; 0: no limit.").default("`0`"),
    key("read_bandwidth", Kind::Size(0), "Bytes read per second of each device; 0: no limit.").default("`0`"),
    key("write_bandwidth", Kind::Size(0), "Bytes written per second of each device; 0: no limit.").default("`0`"),
];

const DISKS: Kind = Kind::Text(Form::Disks);

#[rustfmt::skip]
const DELAY: &[Key] = &[
    key("read", Kind::Whole(MILLISECOND), "Delay of a read.").default("`\"0s\"`"),
    key("write", Kind::Whole(MILLISECOND), "Delay of a write.").default("`\"0s\"`"),
    key("disk", DISKS, "Simulated disks whose time the devices take at least, in place of `read` and `write`: `\"hdd\"` or `\"flash\"` for all, `\"hdd + hdd*2\"` for each.").default("none"),
    PINNING[0], PINNING[1],
];

#[rustfmt::skip]
const MD: &[Key] = &[
    key("level", Kind::Words(&["raid1", "raid10"]), "How the data are distributed.").default("`\"raid1\"`"),
    key("layout", TEXT, "Layout of `raid10`, as in mdadm: `n2`, `f2`, `o2`.").default("mdadm's"),
    key("chunk", Kind::Size(4096), "Chunk size of `raid10`.").default("mdadm's"),
    key("bitmap", Kind::Switch, "A write-intent bitmap on the members.").default("`false`"),
    key("assume_clean", Kind::Switch, "Take the members for equal. Otherwise they are synchronised before the first trial.").default("`false`"),
];

#[rustfmt::skip]
const DM: &[Key] = &[
    key("target", Kind::Words(&["linear", "delay", "flakey", "crypt", "log-writes"]), "What it does with requests.").default("`\"linear\"`"),
    key("read", Kind::Whole(MILLISECOND), "`delay`: delay of a read, in whole milliseconds.").default("`\"0s\"`"),
    key("write", Kind::Whole(MILLISECOND), "`delay`: delay of a write.").default("`\"0s\"`"),
    key("flush", Kind::Whole(MILLISECOND), "`delay`: delay of a flush.").default("that of a write"),
    key("up", Kind::Whole(SECOND), "`flakey`: time for which requests are passed on, in whole seconds."),
    key("down", Kind::Whole(SECOND), "`flakey`: time for which they then fail, in whole seconds."),
    key("fault", Kind::Words(&["errors", "error_writes", "drop_writes"]), "`flakey`, while it is down: all requests fail, writes fail, or writes are dropped.").default("`\"errors\"`"),
    key("cipher", TEXT, "`crypt`: the kernel's name of the cipher.").default("`\"aes-xts-plain64\"`"),
    key("key_bits", Kind::Count(64, 512), "`crypt`: length of the key, which is random.").default("`512`"),
    key("sector", Kind::Sector, "`crypt`: the unit of encryption.").default("`512`"),
];

#[rustfmt::skip]
const MIRROR: &[Key] = &[
    key("legs", Kind::Count(1, 16), "Number of legs, if the layers below are made.").default("`file.count` or `zram.count`, or 2"),
    key("policy", Kind::Words(PolicyKind::NAMES), "How the leg of a read is chosen.").default("`\"adaptive\"`"),
    key("delay", DISKS, "Simulated disks whose time the legs take at least: `\"hdd\"` or `\"flash\"` for all, `\"hdd + hdd*2\"` for each.").default("none"),
    key("queues", Kind::Count(1, 64), "Number of queues, each with a policy of its own. Simulated: jobs use them in turn. Real: the mirror has to be the top layer, and each clone of a job is a client of it by vhost-user-blk, with a ring; rings take the queues in turn.").default("simulated: `1`; real: a block device with one"),
    PINNING[0], PINNING[1],
];

#[rustfmt::skip]
const VIRTIOFS: &[Key] = &[
    key("server", TEXT, "Command of the server, with `{socket}` for the path of its socket and `{folder}` for that of the folder below. `iodyno` is this program. What `iodyno serve fs --stats {stats}` counts is sampled.").default("`\"iodyno serve fs {folder} --socket {socket} --stats {stats} --dispatch adaptive\"`"),
    PINNING[0], PINNING[1],
];

#[rustfmt::skip]
const FUSE: &[Key] = &[
    key("server", TEXT, "Command of the server, with `{mount}` for the mount point and `{folder}` for the path of the folder below. `iodyno` is this program. What `iodyno serve fs --stats {stats}` counts is sampled.").default("`\"iodyno serve fs {folder} --mount {mount} --stats {stats} --dispatch adaptive\"`"),
    PINNING[0], PINNING[1],
];

#[rustfmt::skip]
const SIM: &[Key] = &[
    key("stripe", Kind::Size(512), "Bytes that lie on one device before the next one follows.").default("`\"512KiB\"`"),
    key("aggregation", Kind::Size(512), "Longest command that merges requests in the queue of a disk.").default("`\"1MiB\"`"),
    key("record", Kind::Size(512), "Length of the records of a file system, such as ZFS's: all transfers are whole records.").default("none: the requests of the jobs"),
    key("prefetch", Kind::Size(0), "Furthest that the file system reads ahead of a sequential reader.").default("`0`"),
];

const PATH: Kind = Kind::Text(Form::Path);

#[rustfmt::skip]
const VM: &[Key] = &[
    key("guests", Kind::Count(1, 64), "Number of virtual machines. They run each trial at once, and share the files or devices below equally.").default("`1`"),
    key("cpus", Kind::Count(1, 255), "Number of CPUs of each.").default("`1`"),
    key("memory", Kind::Size(128 << 20), "Memory of each.").default("`\"512MiB\"`"),
    key("accel", Kind::Words(Acceleration::NAMES), "How instructions are executed. `auto`: by KVM if a guest boots with it within 10 s, otherwise by emulation (`tcg`).").default("`\"auto\"`"),
    key("kernel", PATH, "Folder with `boot` and `lib/modules` of a kernel.").default("that of `make guest-kernel`, otherwise the host's"),
    key("share", TEXT, "Command of a virtio-fs server, which shares the folder below `vm` with a guest: `\"virtiofsd --socket-path={socket} --shared-dir={folder}\"`. Each guest has a folder and a server of its own."),
    key("image", Kind::Table(VM_IMAGE), "A disk image that the guests boot in place of iodyno's own; they are reached by ssh."),
    key("host_cpus", NUMBERS, "CPUs of the host on which qemu runs: `0-3,8`.").default("all"),
    key("host_numa", NUMBERS, "NUMA nodes of the host whose memory qemu uses, and whose CPUs unless `host_cpus` names them: `0`.").default("all"),
    key("side_by_side", Kind::Switch, "The guests of this configuration exist beside other configurations, so that they are not booted for each trial. Idle guests use memory, and little of the CPUs.").default("`false`"),
    key("boot_timeout", Kind::Time(SECOND), "Longest time from the start of a guest until it answers. A slower guest is started again, at most twice.").default("2 minutes; with `image`, 15"),
    key("disk", Kind::Table(VM_DISK), "Settings of the disks."),
];

#[rustfmt::skip]
const VM_IMAGE: &[Key] = &[
    key("path", PATH, "The image. Each guest writes to an overlay of it, which is removed with the guest."),
    key("format", Kind::Words(&["raw", "qcow2", "vmdk", "vdi", "vhdx"]), "Its format.").default("as its name ends, otherwise `\"raw\"`"),
    key("user", TEXT, "Who logs in: `root`, or a user with `sudo` without a password.").default("`\"root\"`"),
    key("key", PATH, "Private key.").default("those of the user, and of the agent"),
    key("kernel", PATH, "Kernel to boot in place of the image's boot loader."),
    key("initrd", PATH, "Initrd of `kernel`."),
    key("append", TEXT, "Command line of `kernel`: `root=/dev/vda1 console=ttyS0`."),
    key("program", PATH, "Program of this version of iodyno for the guest: `make static` builds one that needs no libraries.").default("the host's"),
];

#[rustfmt::skip]
const VM_DISK: &[Key] = &[
    key("interface", Kind::Words(DiskInterface::NAMES), "What a disk is in the guest.").default("`\"virtio-blk\"`"),
    key("cache", Kind::Words(DiskCache::NAMES), "The host's page cache and the guest's flushes, as in qemu.").default("`\"none\"`"),
    key("aio", Kind::Words(DiskAio::NAMES), "How qemu accesses the file or device.").default("`\"threads\"`"),
    key("iothread", Kind::Switch, "A thread of qemu for each disk.").default("`false`"),
    key("command", TEXT, "`vhost-user-blk`: the command of each disk's server, with `{socket}` for the path of its socket and `{file}` for that of the file or device below."),
    key("zone", Kind::Size(64 << 10), "Length of a zone, a power of two: the disk is zoned. Needs `interface = \"nvme\"`.").default("no zones"),
    key("origin", Kind::Words(DiskOrigin::NAMES), "The image file of each target: a new one, or made of a golden file that has `fill` and is made once for the run: an overlay (`clone`, qcow2), a copy that shares its blocks (`reflink`), or a full copy.").default("`\"new\"`"),
];

const HOST: &[Key] = &[
    key(
        "sysctl",
        Kind::Scalars,
        "Kernel settings: `vm.dirty_ratio = 10`.",
    ),
    key(
        "queue",
        Kind::Scalars,
        "Settings of the devices' queues: `scheduler = \"none\"`.",
    ),
];

/// The keys of `[workload.NAME]`.
#[rustfmt::skip]
pub(crate) const WORKLOAD: &[Key] = &[
    key("fio", Kind::Fio, "A job file of fio, several, or the options of one job."),
    key("fs", Kind::FileOperations, "File operations: a name of `iodyno fs list` or a TOML file, several, a table with `names` and options, or the steps."),
    key("fileio", Kind::Scalars, "Options of sysbench fileio, without `--`: `file-test-mode = \"rndrw\"`."),
    key("command", TEXT, "A shell command; its time is the op's. It runs in a new, empty folder on each configuration."),
    key("prepare", TEXT, "A command that runs there once before each trial, without being timed."),
    key("cleanup", TEXT, "A command that runs there once after each trial, also if the trial failed."),
    key("repeat", Kind::Count(1, u32::MAX as u64), "Number of executions of the command in a trial; with `duration`, whichever ends first.").default("1, with `duration` any"),
    key("may_fail", Kind::Switch, "An exit status other than 0 is a result, the metric `exit_status`, instead of an error.").default("`false`"),
    key("timeout", Kind::Time(SHORTEST), "An execution of the command that takes longer is killed, and its trial fails.").default("none"),
    key("metric", Kind::Named(OUTPUT), "A number in the output of the command, under this name."),
    key("primary", TEXT, "The metric that decides.").default("depends on the work; of a command, its first `metric`, or else its time"),
    key("duration", Kind::Time(SHORTEST), "Measured time of a trial.").default("that of the work"),
    key("rounds", Kind::Count(1, MAX_ROUNDS), "Number of rounds in which it runs, at most that of the experiment.").default("all"),
    key("stop", Kind::Percent, "It no longer runs once its intervals are at most this wide."),
    key("max_time", Kind::Time(SHORTEST), "It no longer runs after this time in its trials."),
    key("files", Kind::Words(&["own", "shared", "rollback"]), "`own`: each trial has its files; `shared`: laid out once for all trials of the family; `rollback`: as after the set-up, by a snapshot.").default("`\"own\"`"),
    key("family", TEXT, "Workloads of a family share one verdict: the geometric mean."),
    key("search", Kind::Table(SEARCH), "Find the highest load that keeps a bound, and the knee of the curve."),
    key("only", Kind::Texts, "The configurations that it runs on.").default("all"),
    key("nodes", Kind::Texts, "The nodes that it runs on.").default("all with jobs"),
    MATRIX[0], MATRIX[1], MATRIX[2],
];

/// The keys of `metric.NAME` of a workload.
#[rustfmt::skip]
pub(crate) const OUTPUT: &[Key] = &[
    key("regex", TEXT, "A regular expression: the number is its first group, or else the whole match. The last match counts, in standard output or else in standard error."),
    key("json", TEXT, "A JSON pointer into standard output: `/jobs/0/iops`."),
    key("unit", TEXT, "Unit of the number, such as `\"ms\"`, `\"MB/s\"` or `\"/s\"`.").default("none"),
    key("better", Kind::Words(&["more", "less"]), "Which values are better."),
];

const SEARCH: &[Key] = &[
    key(
        "axis",
        Kind::Words(&["rate_iops", "iodepth", "numjobs"]),
        "The load that is varied.",
    ),
    key("until", TEXT, "The bound: `p99 < 2ms`, `iops > 10k`."),
];
