//! Storage on a simulated host, interrupted at every point.

mod checks;
mod cleaning;
mod foreign;
mod guests;
mod locks;
mod making;
mod settings;
mod zfs_server;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader};
use std::os::unix::fs::{MetadataExt, symlink};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::guest::port::PortError;
use iodyno_host::fake::FakeHost;
use iodyno_host::{Owner, Roots, StateFolders, names};
use iodyno_model::{
    Acceleration, CommandRun, DiskAio, DiskCache, DmTarget, ExportServer, FileSystemKind,
    FlakeyFault, FolderServer, Layer, Limits, MdLayer, MdLevel, Pinning, Provision, VdevGroup,
    VmDisk, VmLayer, ZfsLayer, ZfsOrigin,
};
use rustix::process::Signal;

use super::action::Action;
use super::change::StorageChange;
use super::host::{Host, Invocation, Ran, ThisHost};
use super::maker::Maker;
use super::{ProvisionRequest, TornDown, mapped, zfs};
use crate::journal::{Header, Journal, JournalError};

const GIB: u64 = 1 << 30;
const TOKEN: &str = "t-1";
/// The number of [`provisions`].
const KINDS: usize = 9;

/// A command or server whose process runs.
#[derive(Debug, Clone, PartialEq)]
struct Process {
    pid: u32,
    mark: String,
    /// What a command will still do unless it is killed.
    pending: Option<Vec<String>>,
}

/// A host that obeys the commands that layers run. It can die before or after anything that is done to it.
struct World {
    host: FakeHost,
    pools: RefCell<BTreeSet<String>>,
    /// What the user's commands have made.
    made: RefCell<BTreeSet<String>>,
    processes: RefCell<Vec<Process>>,
    commands: RefCell<Vec<String>>,
    /// The number of the last disk.
    disks: Cell<u32>,
    /// Number of points passed.
    passed: Cell<usize>,
    /// The point at which iodyno is killed.
    dies_at: Cell<Option<usize>>,
    /// The number of bytes that are read when limits are checked through a file system.
    read_through: Cell<u64>,
    /// The command that fails, by its first words.
    fails: RefCell<Option<&'static str>>,
    /// What a command that fails prints.
    cause: Cell<&'static str>,
    /// The journal on which another process works, and how often iodyno pauses until that process ends.
    worker: RefCell<Option<(Journal, u32)>>,
    /// How often a guest does not answer.
    silent: Cell<u32>,
}

/// The payload of the panic that stands for SIGKILL.
struct Killed;

impl World {
    fn new() -> World {
        let host = FakeHost::new();
        for file in [
            "dev/loop-control",
            "dev/fuse",
            "sys/class/zram-control/hot_add",
            "sys/class/misc/device-mapper/dev",
        ] {
            host.write(file, "");
        }
        host.write("sys/class/zram-control/hot_remove", "");
        host.write("proc/sys/vm/dirty_ratio", "20\n");
        host.write(
            "proc/mdstat",
            "Personalities : [raid1] \nunused devices: <none>\n",
        );
        host.write("proc/sys/kernel/random/boot_id", "one\n");
        let mount = "1 1 0:32 / /sys/fs/cgroup/blkio rw - cgroup cgroup rw,blkio\n";
        host.write("proc/self/mountinfo", mount);
        host.write("proc/self/cgroup", "7:blkio:/\n");
        for kind in ["read_iops", "write_iops", "read_bps", "write_bps"] {
            let file = format!("sys/fs/cgroup/blkio/blkio.throttle.{kind}_device");
            host.write(&file, "9:9 77\n");
        }
        for folder in ["data", "sys/block", "var/lib/iodyno/journal", "run/iodyno"] {
            fs::create_dir_all(host.path(folder)).unwrap();
        }
        host.write("data/mine", "keep");
        // Devices of others.
        let world = World {
            host,
            pools: RefCell::default(),
            made: RefCell::default(),
            processes: RefCell::default(),
            commands: RefCell::default(),
            disks: Cell::new(0),
            passed: Cell::new(0),
            dies_at: Cell::new(None),
            read_through: Cell::new(1),
            fails: RefCell::new(None),
            cause: Cell::new("target is busy"),
            worker: RefCell::new(None),
            silent: Cell::new(0),
        };
        world.attach(&world.host.path("data/mine"));
        world
    }

    fn maker(&self) -> Maker<'_> {
        Maker {
            host: self,
            folders: StateFolders::new(&self.host.roots, true, |_| None).unwrap(),
            records: None,
            stop: &|| false,
            progress: &|_| (),
        }
    }

    /// A point at which iodyno may be killed.
    fn point(&self) {
        let passed = self.passed.get();
        self.passed.set(passed + 1);
        if self.dies_at.get() == Some(passed) {
            self.dies_at.set(None);
            resume_unwind(Box::new(Killed));
        }
    }

    fn attach(&self, file: &Path) -> String {
        let block = self.host.path("sys/block");
        let taken = names(&block);
        let mut free = (0..).map(|number| format!("loop{number}"));
        let name = free.find(|name| !taken.contains(name)).unwrap();
        let number = name.trim_start_matches("loop");
        let folder = format!("sys/block/{name}");
        let backing = format!("{}\n", file.display());
        self.host
            .write(&format!("{folder}/loop/backing_file"), &backing);
        self.host.write(&format!("{folder}/loop/dio"), "1\n");
        self.give_sequence(&name);
        self.host.write(&format!("{folder}/size"), "131072\n");
        self.host
            .write(&format!("{folder}/dev"), &format!("7:{number}\n"));
        self.host
            .write(&format!("{folder}/queue/scheduler"), "[none] kyber\n");
        self.host
            .write(&format!("{folder}/queue/read_ahead_kb"), "128\n");
        self.host.write(&format!("dev/{name}"), "");
        let link = self.host.path(&format!("sys/class/block/{name}"));
        symlink(self.host.path(&folder), link).unwrap();
        self.host.path(&format!("dev/{name}")).display().to_string()
    }

    /// Gives a disk the next number, as the kernel does.
    fn give_sequence(&self, name: &str) {
        let sequence = self.disks.get() + 1;
        self.disks.set(sequence);
        let file = format!("sys/block/{name}/diskseq");
        self.host.write(&file, &format!("{sequence}\n"));
    }

    /// Adds a block device. Returns its folder.
    fn add_block(&self, name: &str, number: &str) -> String {
        let folder = format!("sys/block/{name}");
        self.host.write(&format!("{folder}/dev"), number);
        self.host.write(&format!("{folder}/size"), "131072");
        self.host.write(&format!("dev/{name}"), "");
        let link = self.host.path(&format!("sys/class/block/{name}"));
        symlink(self.host.path(&folder), link).unwrap();
        folder
    }

    fn detach(&self, name: &str) -> bool {
        fs::remove_file(self.host.path(&format!("dev/{name}"))).is_ok() && {
            fs::remove_file(self.host.path(&format!("sys/class/block/{name}"))).unwrap();
            fs::remove_dir_all(self.host.path(&format!("sys/block/{name}"))).is_ok()
        }
    }

    fn mountinfo(&self) -> String {
        fs::read_to_string(self.host.path("proc/self/mountinfo")).unwrap()
    }

    fn unmount(&self, point: &str) -> bool {
        let text = self.mountinfo();
        let mut lines: Vec<&str> = text.lines().collect();
        let wanted = format!(" {point} ");
        let Some(place) = lines.iter().rposition(|line| line.contains(&wanted)) else {
            return false;
        };
        lines.remove(place);
        let rest: String = lines.iter().map(|line| format!("{line}\n")).collect();
        self.host.write("proc/self/mountinfo", &rest);
        // What was mounted is not in the folder.
        for entry in fs::read_dir(point).unwrap().flatten() {
            let path = entry.path();
            let _ = fs::remove_file(&path).or_else(|_| fs::remove_dir_all(&path));
        }
        true
    }

    /// Does what a command does. `None`: it fails.
    fn obey(&self, words: &[String]) -> Option<String> {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let last = *words.last().unwrap();
        let done = String::new();
        match words.as_slice() {
            ["losetup", "--find", ..] => Path::new(last)
                .exists()
                .then(|| self.attach(Path::new(last))),
            ["losetup", "--detach", device] => {
                let name = Path::new(device).file_name().unwrap().to_str().unwrap();
                self.detach(name).then_some(done)
            }
            ["mount", ..] => {
                let kind = words[2];
                Path::new(last).is_dir().then(|| {
                    self.host.mount("0:99", last, kind, words[words.len() - 2]);
                    done
                })
            }
            ["umount", point] => self.unmount(point).then_some(done),
            [mkfs, .., device] if mkfs.starts_with("mkfs.") => {
                let name = Path::new(device).file_name().unwrap().to_str().unwrap();
                let read_ahead = self
                    .host
                    .path(&format!("sys/block/{name}/queue/read_ahead_kb"));
                if read_ahead.exists() {
                    // Programs that read the device's limits anew do this.
                    fs::write(read_ahead, "128\n").unwrap();
                }
                Some(done)
            }
            ["dd", _, to, ..] => fs::write(to.trim_start_matches("of="), "copy")
                .ok()
                .map(|()| done),
            ["btrfs", "subvolume", "create", path] => fs::create_dir(path).ok().map(|()| done),
            ["zpool", "create", ..] => {
                let pool = words
                    .iter()
                    .find(|word| word.starts_with("iodyno-"))
                    .unwrap();
                self.pools
                    .borrow_mut()
                    .insert((*pool).to_owned())
                    .then_some(done)
            }
            ["zpool", "destroy", pool] => self.pools.borrow_mut().remove(*pool).then_some(done),
            ["zpool", "list", ..] => {
                let runs = self
                    .processes
                    .borrow()
                    .iter()
                    .any(|one| one.mark == zfs::server_mark(self));
                let pools = self.pools.borrow();
                runs.then(|| pools.iter().map(|pool| format!("{pool}\n")).collect())
            }
            ["mdadm", "--create", device, ..] => {
                let name = device.rsplit('/').next().unwrap();
                let folder = self.add_block(&format!("md_{name}"), "9:1");
                for (file, value) in [("resync_start", "none"), ("degraded", "0")] {
                    self.host.write(&format!("{folder}/md/{file}"), value);
                }
                Some(done)
            }
            ["mdadm", "--stop", device] => self.detach(device.rsplit('/').next()?).then_some(done),
            ["dmsetup", "targets"] => {
                let all = ["linear", "delay", "flakey", "crypt", "log-writes"];
                Some(all.map(|name| format!("{name} v1.0.0\n")).concat())
            }
            ["dmsetup", "create", name, ..] | ["cryptsetup", .., name] => {
                let taken = names(self.host.path("sys/block"));
                let mut free = (0..).map(|number| format!("dm-{number}"));
                let device = free.find(|device| !taken.contains(device))?;
                let folder = self.add_block(&device, "253:1");
                self.host.write(&format!("{folder}/dm/name"), name);
                Some(done)
            }
            ["dmsetup", "remove", _, name] => {
                let device = mapped::mapped_device(self.roots(), name)?;
                self.detach(&device).then_some(done)
            }
            ["/bin/sh", "-c", "make"] => self
                .made
                .borrow_mut()
                .insert("it".to_owned())
                .then_some(done),
            ["/bin/sh", "-c", "unmake"] => {
                self.made.borrow_mut().clear();
                Some(done)
            }
            ["/bin/sh", "-c", "false"] => None,
            _ => Some(done),
        }
    }

    /// Everything that the host has, except iodyno's own folders.
    fn state(&self) -> BTreeMap<PathBuf, String> {
        fn walk(folder: &Path, found: &mut BTreeMap<PathBuf, String>) {
            for name in names(folder) {
                let path = folder.join(name);
                let metadata = path.symlink_metadata().unwrap();
                if metadata.is_dir() {
                    found.insert(path.clone(), String::new());
                    walk(&path, found);
                } else if metadata.is_symlink() {
                    found.insert(path.clone(), "link".to_owned());
                } else {
                    found.insert(path.clone(), fs::read_to_string(&path).unwrap_or_default());
                }
            }
        }
        let mut found = BTreeMap::new();
        walk(&self.host.roots.root, &mut found);
        let extra = format!("{:?} {:?} {:?}", self.pools, self.made, self.processes);
        found.insert(PathBuf::from("others"), extra);
        found
    }

    /// Lets the commands that still run do what they do.
    fn finish_commands(&self) {
        let processes = std::mem::take(&mut *self.processes.borrow_mut());
        for process in processes {
            match process.pending {
                Some(words) => drop(self.obey(&words)),
                None => self.processes.borrow_mut().push(process),
            }
        }
    }

    /// The kernel forgets everything that is not in a file.
    fn restart(&self) {
        self.processes.borrow_mut().clear();
        self.host.write("proc/sys/kernel/random/boot_id", "two\n");
        self.host.write("proc/sys/vm/dirty_ratio", "20\n");
        for kind in ["read_iops", "write_iops", "read_bps", "write_bps"] {
            let file = format!("sys/fs/cgroup/blkio/blkio.throttle.{kind}_device");
            self.host.write(&file, "9:9 77\n");
        }
        let text = self.mountinfo();
        for line in text.lines().skip(1) {
            self.unmount(line.split(' ').nth(4).unwrap());
        }
        for name in names(self.host.path("sys/block")) {
            match name.strip_prefix("loop") {
                Some("0") => {}
                Some(_) => drop(self.detach(&name)),
                None if !name.starts_with("zram") => drop(self.detach(&name)),
                None => fs::remove_dir_all(self.host.path(&format!("sys/block/{name}"))).unwrap(),
            }
        }
        self.pools.borrow_mut().clear();
    }
}

impl Host for World {
    fn roots(&self) -> &Roots {
        &self.host.roots
    }

    fn run(&self, invocation: &Invocation, _stop: &dyn Fn() -> bool) -> Ran {
        let words = invocation.words.clone();
        let process = Process {
            pid: 1000 + self.passed.get() as u32,
            mark: invocation.mark.clone(),
            pending: Some(words.clone()),
        };
        self.processes.borrow_mut().push(process.clone());
        // Killed here, iodyno leaves the command running.
        self.point();
        self.processes.borrow_mut().retain(|one| *one != process);
        let text = invocation.text();
        let fails = self
            .fails
            .borrow()
            .is_some_and(|fails| text.starts_with(fails));
        let output = (!fails).then(|| self.obey(&words)).flatten();
        self.point();
        self.commands.borrow_mut().push(text.clone());
        let status = Some(i32::from(output.is_none()));
        let output = output.unwrap_or_else(|| self.cause.get().to_owned());
        Ran {
            printed: output.clone(),
            record: CommandRun {
                command: text,
                status,
                output,
                span_ns: 1,
            },
            why: None,
        }
    }

    fn start(&self, invocation: &Invocation, log: &Path) -> io::Result<()> {
        self.point();
        fs::write(log, "")?;
        if invocation.words[0] == "nbdfuse" {
            let file = PathBuf::from(&invocation.words[1]);
            let point = file.parent().unwrap().display().to_string();
            self.host.mount("0:98", &point, "fuse", "nbdfuse");
            fs::write(file, "")?;
        }
        if let [program, place, _] = invocation.words.as_slice() {
            match program.as_str() {
                "fsd" => fs::write(place, "")?,
                "fused" => {
                    self.host.mount("0:97", place, "fuse", "fused");
                }
                _ => {}
            }
        }
        self.processes.borrow_mut().push(Process {
            pid: 1000 + self.passed.get() as u32,
            mark: invocation.mark.clone(),
            pending: None,
        });
        self.point();
        Ok(())
    }

    fn marked(&self, mark: &str) -> Vec<u32> {
        let processes = self.processes.borrow();
        let marked = processes.iter().filter(|one| one.mark == mark);
        marked.map(|one| one.pid).collect()
    }

    fn kill(&self, process: u32, mark: &str, _signal: Signal) {
        self.point();
        let mut processes = self.processes.borrow_mut();
        processes.retain(|one| one.pid != process || one.mark != mark);
        if mark == zfs::server_mark(self) {
            self.pools.borrow_mut().clear();
        }
    }

    fn program(&self, name: &str) -> Option<PathBuf> {
        Some(Path::new("/bin").join(name))
    }

    fn read(&self, path: &Path) -> io::Result<String> {
        if path.ends_with("hot_add") {
            self.point();
            let taken = names(self.host.path("sys/block"));
            let mut free = (0..).map(|number| format!("zram{number}"));
            let name = free.find(|name| !taken.contains(name)).unwrap();
            self.host
                .write(&format!("sys/block/{name}/disksize"), "0\n");
            self.give_sequence(&name);
            self.host
                .write(&format!("sys/block/{name}/comp_algorithm"), "lzo [zstd]\n");
            self.point();
            return Ok(name.trim_start_matches("zram").to_owned());
        }
        Ok(fs::read_to_string(path)?.trim().to_owned())
    }

    fn write(&self, path: &Path, value: &str) -> io::Result<()> {
        self.point();
        if path.ends_with("hot_remove") {
            fs::remove_dir_all(self.host.path(&format!("sys/block/zram{value}")))?;
        } else if let Some((device, limit)) = value.split_once(' ')
            && path.to_string_lossy().ends_with("_device")
        {
            let text = fs::read_to_string(path)?;
            let others = text
                .lines()
                .filter(|line| !line.starts_with(&format!("{device} ")));
            let mut lines: Vec<&str> = others.collect();
            if limit != "0" {
                lines.push(value);
            }
            let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
            fs::write(path, text)?;
        } else if path.ends_with("read_ahead_kb") {
            // The kernel keeps whole pages.
            let pages = value.parse::<u32>().unwrap() / 4 * 4;
            fs::write(path, format!("{pages}\n"))?;
        } else if path.ends_with("scheduler") {
            fs::write(path.with_file_name("nr_requests"), "256\n")?;
            let text = match value {
                "none" => "[none] kyber\n",
                _ => "none [kyber]\n",
            };
            fs::write(path, text)?;
        } else {
            fs::write(path, format!("{value}\n"))?;
        }
        self.point();
        Ok(())
    }

    fn sync(&self, _file: &File) -> io::Result<()> {
        self.point();
        Ok(())
    }

    fn measure(
        &self,
        devices: &[PathBuf],
        _write: bool,
        _size: usize,
        span: Duration,
    ) -> io::Result<Vec<(u64, Duration)>> {
        Ok(devices.iter().map(|_| (1, span)).collect())
    }

    fn fill(&self, file: &Path, _bytes: u64, _stop: &dyn Fn() -> bool) -> io::Result<Duration> {
        self.point();
        fs::write(file, "random")?;
        self.point();
        Ok(Duration::from_secs(1000))
    }

    fn read_cold(
        &self,
        _file: &Path,
        span: Duration,
        _stop: &dyn Fn() -> bool,
    ) -> io::Result<(u64, Duration)> {
        self.point();
        Ok((self.read_through.get(), span))
    }

    fn sleep(&self, _span: Duration) {
        // A process that another test just started keeps the locks of this one until its own program begins.
        std::thread::sleep(Duration::from_millis(10));
        let mut worker = self.worker.borrow_mut();
        *worker = match worker.take() {
            Some((journal, left @ 1..)) => Some((journal, left - 1)),
            _ => None,
        };
    }

    fn is_root(&self) -> bool {
        true
    }

    fn cache(&self) -> Option<PathBuf> {
        Some(self.host.roots.root.join("var/cache/iodyno"))
    }

    fn await_guest(
        &self,
        _socket: &Path,
        limit: Duration,
        _stop: &dyn Fn() -> bool,
    ) -> Result<(), PortError> {
        match self.silent.get() {
            0 => Ok(()),
            left => {
                self.silent.set(left - 1);
                Err(PortError::Silent(limit))
            }
        }
    }
}

fn plain(layers: Vec<Layer>) -> Provision {
    Provision {
        layers,
        fill: 0,
        precondition_ns: 0,
        sysctl: BTreeMap::new(),
        queue: BTreeMap::new(),
        env: BTreeMap::new(),
        setup: None,
        ready: None,
        teardown: None,
        sample: Vec::new(),
    }
}

fn directory(world: &World) -> Layer {
    Layer::Directory {
        path: world.host.path("data"),
    }
}

fn image(count: u32) -> Layer {
    Layer::File {
        size: 64 << 20,
        count,
        allocate: false,
    }
}

const LOOP: Layer = Layer::Loop {
    direct: true,
    sector: None,
};

fn file_system(fs: FileSystemKind) -> Layer {
    Layer::FileSystem {
        fs,
        mkfs: Vec::new(),
        mount: vec!["noatime".to_owned()],
    }
}

fn mirrors() -> Layer {
    let mirror = || VdevGroup {
        redundancy: Some("mirror".to_owned()),
        devices: 2,
    };
    Layer::Zfs(ZfsLayer {
        layout: vec![mirror(), mirror()],
        pool: BTreeMap::new(),
        properties: BTreeMap::new(),
        volume: None,
        origin: ZfsOrigin::New,
        count: None,
        pinning: Pinning::default(),
    })
}

fn array(level: MdLevel) -> Layer {
    Layer::Md(MdLayer {
        level,
        layout: None,
        chunk: None,
        bitmap: true,
        assume_clean: false,
    })
}

fn flakey() -> Layer {
    Layer::Dm(DmTarget::Flakey {
        up_ns: 5_000_000_000,
        down_ns: 1_000_000_000,
        fault: FlakeyFault::Errors,
    })
}

fn encrypted() -> Layer {
    Layer::Dm(DmTarget::Crypt {
        cipher: "aes-xts-plain64".to_owned(),
        key_bits: 512,
        sector: None,
    })
}

/// Targets that have every kind of action between them.
fn provisions(world: &World) -> Vec<Provision> {
    let limits = Limits {
        read_iops: 100,
        write_bandwidth: 1 << 20,
        ..Limits::default()
    };
    let setting = |name: &str, value: &str| BTreeMap::from([(name.to_owned(), value.to_owned())]);
    let zram = Layer::Zram {
        size: GIB,
        count: 2,
        algorithm: Some("zstd".to_owned()),
    };
    let delay = Layer::Delay {
        read_ns: 2_000_000,
        write_ns: 0,
        disks: Vec::new(),
        pinning: Pinning::default(),
    };
    vec![
        Provision {
            sysctl: setting("vm.dirty_ratio", "10"),
            queue: setting("scheduler", "kyber"),
            setup: Some("make".to_owned()),
            ready: Some("true".to_owned()),
            teardown: Some("unmake".to_owned()),
            ..plain(vec![
                file_system(FileSystemKind::Ext4),
                LOOP,
                image(1),
                directory(world),
            ])
        },
        plain(vec![
            file_system(FileSystemKind::Btrfs),
            Layer::Throttle(limits),
            LOOP,
            image(2),
            directory(world),
        ]),
        plain(vec![mirrors(), image(4), directory(world)]),
        plain(vec![file_system(FileSystemKind::Btrfs), zram]),
        plain(vec![
            Layer::Overlay { mount: Vec::new() },
            Layer::Tmpfs { size: GIB },
        ]),
        plain(vec![
            file_system(FileSystemKind::Xfs),
            delay,
            image(1),
            directory(world),
        ]),
        plain(vec![
            file_system(FileSystemKind::Ext4),
            flakey(),
            array(MdLevel::Raid1),
            LOOP,
            image(2),
            directory(world),
        ]),
        plain(vec![
            Layer::Dm(DmTarget::LogWrites),
            encrypted(),
            LOOP,
            image(2),
            directory(world),
        ]),
        plain(vec![
            Layer::Virtiofs(server("fsd {socket} {folder}")),
            Layer::Fuse(server("fused {mount} {folder}")),
            Layer::Tmpfs { size: GIB },
        ]),
    ]
}

fn server(command: &str) -> FolderServer {
    FolderServer {
        command: command.to_owned(),
        pinning: Pinning::default(),
    }
}

fn request(provision: Provision) -> ProvisionRequest {
    ProvisionRequest {
        token: TOKEN.to_owned(),
        configuration: "a".to_owned(),
        provision,
        destroy: Vec::new(),
        protected: Vec::new(),
        golden: None,
    }
}

/// A process that does not exist on the simulated host.
const DEAD: Owner = Owner {
    pid: 4711,
    start: 5,
};

impl World {
    /// Puts a process into a mount namespace.
    fn enter(&self, process: &str, namespace: &str) {
        let folder = self.host.path("proc").join(process).join("ns");
        fs::create_dir_all(&folder).unwrap();
        let _ = fs::remove_file(folder.join("mnt"));
        symlink(namespace, folder.join("mnt")).unwrap();
    }

    /// The owner of a process that is made on the simulated host.
    fn living(&self, pid: u32) -> Owner {
        let stat = format!("{pid} (a b) S {} 5 0 0", "0 ".repeat(18).trim());
        self.host.write(&format!("proc/{pid}/stat"), &stat);
        Owner::of(&self.host.roots, pid).unwrap()
    }
}

fn make(world: &World, provision: Provision) -> Result<super::Provisioned, Vec<String>> {
    let made = world.maker().provision(&request(provision), DEAD);
    made.map_err(|faults| faults.into_iter().map(|fault| fault.message).collect())
}

fn journals(world: &World) -> Vec<String> {
    names(world.host.path("var/lib/iodyno/journal"))
}

/// The number of points at which a target can be interrupted while it is made.
fn points(which: usize) -> usize {
    let world = World::new();
    make(&world, provisions(&world).remove(which)).unwrap();
    world.passed.get()
}

/// A world in which making a target was interrupted, with its state before.
fn interrupted(which: usize, at: usize) -> (World, BTreeMap<PathBuf, String>) {
    let world = World::new();
    let before = world.state();
    world.dies_at.set(Some(at));
    let killed = catch_unwind(AssertUnwindSafe(|| {
        let _ = make(&world, provisions(&world).remove(which));
    }));
    assert!(killed.is_err(), "it was not interrupted at {at}");
    (world, before)
}
