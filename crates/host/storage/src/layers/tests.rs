//! Storage on a simulated host, interrupted at every point.

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
    /// The journal on which another process works, and how often iodyno pauses until that process ends.
    worker: RefCell<Option<(Journal, u32)>>,
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
            worker: RefCell::new(None),
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
        let output = output.unwrap_or_else(|| "busy".to_owned());
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
        _limit: Duration,
        _stop: &dyn Fn() -> bool,
    ) -> Result<(), PortError> {
        Err(PortError::Stopped)
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

#[test]
fn what_is_made_is_undone_in_reverse_and_undoing_twice_changes_nothing() {
    for which in 0..KINDS {
        let world = World::new();
        let before = world.state();
        let made = make(&world, provisions(&world).remove(which)).unwrap();
        assert!(made.path.exists(), "{}", made.path.display());
        assert_eq!(journals(&world), ["t-1.jsonl"]);
        assert_ne!(world.state(), before);
        let undone = world.maker().tear_down(TOKEN);
        assert_eq!(undone.faults, []);
        assert!(!undone.commands.is_empty());
        assert_eq!(world.state(), before, "target {which}");
        assert_eq!(world.maker().tear_down(TOKEN), TornDown::default());
        assert_eq!(world.state(), before);
    }
}

#[test]
fn the_commands_of_a_target_are_those_of_its_layers_from_the_bottom_up() {
    let world = World::new();
    let root = world.host.roots.root.display().to_string();
    let provision = provisions(&world).remove(0);
    let made = make(&world, provision).unwrap();
    let shown = |commands: &[CommandRun]| {
        let commands = commands.iter();
        let shown = commands.map(|run| run.command.replace(&root, ""));
        shown.collect::<Vec<_>>()
    };
    assert_eq!(
        shown(&made.commands),
        [
            "/bin/sh -c make",
            "/bin/sh -c true",
            "losetup --find --show --direct-io=on /data/iodyno-t-1/disk0.img",
            "mkfs.ext4 -q -F -E lazy_itable_init=0,lazy_journal_init=0 /dev/loop1",
            "mount -t ext4 -o noatime /dev/loop1 /run/iodyno/t-1/3",
        ]
    );
    let facts: Vec<(&str, &str)> = made
        .facts
        .iter()
        .map(|(k, v)| (k.as_str(), v.as_str()))
        .collect();
    assert_eq!(
        facts,
        [
            ("ext4.options", "rw,noatime,data=x"),
            ("layers", "ext4 on loop on file on directory"),
            ("loop.direct_io", "on"),
        ]
    );
    let read = |name: &str| fs::read_to_string(world.host.path(name)).unwrap();
    assert_eq!(read("proc/sys/vm/dirty_ratio"), "10\n");
    assert_eq!(read("sys/block/loop1/queue/scheduler"), "none [kyber]\n");
    let undone = world.maker().tear_down(TOKEN);
    assert_eq!(
        shown(&undone.commands),
        [
            "umount /run/iodyno/t-1/3",
            "losetup --detach /dev/loop1",
            "/bin/sh -c unmake",
        ]
    );
}

#[test]
fn clean_undoes_a_target_that_was_interrupted_at_any_point() {
    for which in 0..KINDS {
        for at in 0..points(which) {
            let (world, before) = interrupted(which, at);
            let cleaned = world.maker().clean(false);
            world.finish_commands();
            assert_eq!(cleaned.faults, []);
            for orphan in &cleaned.orphans {
                assert_eq!(orphan.faults, [], "target {which} at {at}");
            }
            assert_eq!(world.state(), before, "target {which}, interrupted at {at}");
        }
    }
}

#[test]
fn a_clean_that_was_interrupted_at_any_point_is_completed_by_the_next() {
    for which in 0..KINDS {
        let made = points(which);
        for at in 0.. {
            let world = World::new();
            let before = world.state();
            make(&world, provisions(&world).remove(which)).unwrap();
            world.dies_at.set(Some(made + at));
            let clean = || world.maker().clean(false);
            let whole = catch_unwind(AssertUnwindSafe(clean)).is_ok();
            world.dies_at.set(None);
            clean();
            world.finish_commands();
            assert_eq!(world.state(), before, "target {which}, interrupted at {at}");
            if whole {
                break;
            }
        }
    }
}

#[test]
fn after_a_restart_only_files_are_left_to_undo() {
    for which in 0..KINDS {
        for at in 0..points(which) {
            let (world, before) = interrupted(which, at);
            let was_made = !world.made.borrow().is_empty();
            world.restart();
            let settings = world.host.path("proc/sys/vm/dirty_ratio");
            fs::write(&settings, "10\n").unwrap();
            world.maker().clean(false);
            // It is the setting of this boot, whoever made it.
            assert_eq!(fs::read_to_string(&settings).unwrap(), "10\n");
            fs::write(&settings, "20\n").unwrap();
            let mut expected = before;
            expected.insert(
                world.host.path("proc/sys/kernel/random/boot_id"),
                "two\n".to_owned(),
            );
            assert_eq!(
                world.state(),
                expected,
                "target {which} at {at}, {was_made}"
            );
        }
    }
}

#[test]
fn a_failure_undoes_what_was_made_before_it() {
    let cases = [
        (0, "mount -t ext4"),
        (0, "/bin/sh -c make"),
        (0, "losetup --find"),
        (1, "mkfs.btrfs"),
        (1, "btrfs subvolume"),
        (2, "zfs create"),
        (2, "zpool create"),
        (5, "mkfs.xfs"),
        (6, "mdadm --create"),
        (6, "mkfs.ext4"),
        (6, "dmsetup resume"),
        (7, "cryptsetup"),
        (7, "dmsetup create"),
    ];
    for (which, command) in cases {
        let world = World::new();
        let before = world.state();
        *world.fails.borrow_mut() = Some(command);
        let faults = make(&world, provisions(&world).remove(which)).unwrap_err();
        assert_eq!(faults.len(), 1, "{faults:?}");
        assert!(faults[0].contains(command), "{faults:?}");
        assert!(
            faults[0].contains("failed with exit status 1"),
            "{faults:?}"
        );
        assert_eq!(world.state(), before, "after {command}");
    }
}

#[test]
fn a_layer_that_cannot_be_undone_keeps_its_journal_and_what_is_below_it() {
    let world = World::new();
    let before = world.state();
    make(&world, provisions(&world).remove(0)).unwrap();
    *world.fails.borrow_mut() = Some("umount");
    let faults = world.maker().tear_down(TOKEN).faults;
    assert!(faults[0].message.contains("umount"), "{faults:?}");
    let hint = faults[0].hint.as_deref().unwrap_or_default();
    assert!(hint.contains("`fuser -vm "), "{hint}");
    assert!(
        world.host.path("sys/block/loop1").exists(),
        "it is below the mount"
    );
    *world.fails.borrow_mut() = None;
    let cleaned = world.maker().clean(false);
    let first = &cleaned.orphans[0];
    assert_eq!(
        (first.token.as_str(), first.why.as_str()),
        (TOKEN, "process 4711 has ended")
    );
    assert_eq!(world.state(), before);
}

#[test]
fn settings_of_the_host_are_restored_although_a_teardown_fails() {
    let world = World::new();
    let before = world.state();
    make(&world, provisions(&world).remove(0)).unwrap();
    *world.fails.borrow_mut() = Some("/bin/sh -c unmake");
    let cleaned = world.maker().clean(false);
    let orphan = &cleaned.orphans[0];
    assert!(orphan.faults[0].message.contains("unmake"), "{orphan:?}");
    let hint = orphan.faults[0].hint.as_deref().unwrap_or_default();
    assert!(hint.contains("/t-1.jsonl`"), "{hint}");
    let done = |what: &str| orphan.undone.iter().any(|one| one.contains(what));
    assert!(done("vm/dirty_ratio") && !done("make"), "{orphan:?}");
    let setting = world.host.path("proc/sys/vm/dirty_ratio");
    assert_eq!(world.state()[&setting], before[&setting]);
    assert_eq!(journals(&world), ["t-1.jsonl"]);
    *world.fails.borrow_mut() = None;
    world.maker().clean(false);
    assert_eq!(world.state(), before);
}

#[test]
fn a_folder_is_kept_while_the_mounts_in_it_are_not_known() {
    let world = World::new();
    let before = world.state();
    let made = make(&world, plain(vec![directory(&world)])).unwrap();
    let mounts = world.mountinfo();
    world.host.write("proc/self/mountinfo", "");
    let faults = world.maker().tear_down(TOKEN).faults;
    assert!(faults[0].message.contains("table of mounts"), "{faults:?}");
    assert!(made.path.exists());
    world.host.write("proc/self/mountinfo", &mounts);
    assert_eq!(world.maker().tear_down(TOKEN).faults, []);
    assert_eq!(world.state(), before);
}

#[test]
fn a_stop_undoes_what_was_made() {
    let world = World::new();
    let before = world.state();
    let progress = RefCell::new(Vec::new());
    let stop = || progress.borrow().len() >= 4;
    let tell = |what: &str| progress.borrow_mut().push(what.to_owned());
    let wanted = request(provisions(&world).remove(0));
    let maker = Maker {
        stop: &stop,
        progress: &tell,
        ..world.maker()
    };
    let made = maker.provision(&wanted, DEAD);
    assert_eq!(
        made.unwrap_err()[0].message,
        "stopped while the target was made"
    );
    assert_eq!(world.state(), before);
}

#[test]
fn clean_leaves_targets_alone_that_are_used_and_a_dry_run_leaves_all_alone() {
    let world = World::new();
    assert_eq!(world.living(4711), DEAD);
    make(&world, provisions(&world).remove(0)).unwrap();
    let used = world.state();
    assert_eq!(world.maker().clean(false).orphans, []);
    assert_eq!(world.state(), used);
    // Another process got its id.
    world.host.write(
        "proc/4711/stat",
        &format!("4711 (a b) S {} 6 0 0", "0 ".repeat(18).trim()),
    );
    let used = world.state();
    let listed = world.maker().clean(true).orphans;
    assert_eq!(world.state(), used);
    let root = world.host.roots.root.display().to_string();
    let listed: Vec<String> = listed[0]
        .undone
        .iter()
        .map(|what| what.replace(&root, ""))
        .collect();
    assert_eq!(
        listed,
        [
            "setting /sys/class/block/loop1/queue/scheduler",
            "mount of ext4 at /run/iodyno/t-1/3",
            "folder /run/iodyno/t-1/3",
            "folder /run/iodyno/t-1",
            "loop device on /data/iodyno-t-1/disk0.img",
            "image file /data/iodyno-t-1/disk0.img",
            "folder /data/iodyno-t-1",
            "result of `make`",
            "setting /proc/sys/vm/dirty_ratio",
        ]
    );
    let cleaned = world.maker().clean(false).orphans;
    assert_eq!(cleaned[0].undone.len(), listed.len());
    assert!(journals(&world).is_empty());
}

#[test]
fn clean_waits_for_a_process_that_still_undoes_a_target_and_names_it() {
    let (world, before) = interrupted(0, points(0) - 1);
    let folder = world.host.path("var/lib/iodyno/journal");
    let held = || Journal::open(&folder, TOKEN).unwrap();
    let journal = held();
    let metadata = journal.path.metadata().unwrap();
    use std::os::unix::fs::MetadataExt;
    let device = iodyno_host::block::DeviceNumber::of(metadata.dev());
    world.host.write(
        "proc/locks",
        &format!(
            "1: FLOCK  ADVISORY  WRITE 77 {:02x}:{:02x}:{} 0 EOF\n",
            device.major,
            device.minor,
            metadata.ino()
        ),
    );
    world.host.write("proc/77/comm", "iodyno\n");
    let cleaned = world.maker().clean(true);
    let said = &cleaned.faults[0].message;
    assert!(
        said.starts_with("process 77 (iodyno) still undoes the target `t-1`"),
        "{said}"
    );
    for name in ["proc/locks", "proc/77/comm"] {
        fs::remove_file(world.host.path(name)).unwrap();
    }
    fs::remove_dir(world.host.path("proc/77")).unwrap();
    // It ends without having undone everything.
    *world.worker.borrow_mut() = Some((journal, 2));
    let cleaned = world.maker().clean(false);
    assert_eq!(cleaned.faults, []);
    assert_eq!(cleaned.orphans.len(), 1);
    assert!(world.worker.borrow().is_none());
    assert_eq!(world.state(), before);
}

#[test]
fn clean_removes_nothing_through_a_link_in_place_of_a_folder() {
    let world = World::new();
    make(&world, provisions(&world).remove(0)).unwrap();
    let (made, theirs) = (
        world.host.path("data/iodyno-t-1"),
        world.host.path("data/theirs"),
    );
    world.host.write("data/theirs/disk0.img", "precious");
    fs::rename(&made, world.host.path("data/moved")).unwrap();
    symlink(&theirs, &made).unwrap();
    let cleaned = world.maker().clean(false);
    let fault = &cleaned.orphans[0].faults[0];
    assert!(
        fault.message.contains("it is not what iodyno made"),
        "{fault:?}"
    );
    assert_eq!(
        fs::read_to_string(theirs.join("disk0.img")).unwrap(),
        "precious"
    );
    assert!(made.is_symlink());
    // Once the folder is back, everything is undone.
    fs::remove_file(&made).unwrap();
    fs::rename(world.host.path("data/moved"), &made).unwrap();
    let cleaned = world.maker().clean(false);
    assert_eq!(cleaned.orphans[0].faults, []);
    assert!(!made.exists() && journals(&world).is_empty());
}

#[test]
fn queue_settings_are_in_force_after_everything_above_was_made_and_are_read_back() {
    let world = World::new();
    let before = world.state();
    let provision = |value: &str| Provision {
        queue: [
            ("nr_requests", "32"),
            ("read_ahead_kb", value),
            ("scheduler", "kyber"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into(),
        sysctl: [("vm.dirty_ratio".to_owned(), "10".to_owned())].into(),
        ..provisions(&world).remove(0)
    };
    world.host.write("proc/sys/vm/dirty_ratio", "20\n");
    make(&world, provision("8")).unwrap();
    let at = |name: &str| format!("sys/block/loop1/queue/{name}");
    let read = |name: &str| fs::read_to_string(world.host.path(name)).unwrap();
    assert_eq!(read(&at("read_ahead_kb")), "8\n");
    assert_eq!(read(&at("nr_requests")), "32\n");
    let ready = || world.maker().change(TOKEN, StorageChange::Renew);
    ready().unwrap();
    for (name, other) in [
        (at("read_ahead_kb"), "128\n"),
        ("proc/sys/vm/dirty_ratio".to_owned(), "5\n"),
    ] {
        let kept = read(&name);
        world.host.write(&name, other);
        let fault = ready().unwrap_err().remove(0);
        let values = format!("` is `{}` by now, not `{}`", other.trim(), kept.trim());
        assert!(fault.message.contains(&values), "{fault:?}");
        world.host.write(&name, &kept);
    }
    ready().unwrap();
    world.maker().tear_down(TOKEN);
    assert_eq!(world.state(), before);
    // A value that the kernel does not keep.
    let fault = make(&world, provision("5")).unwrap_err().remove(0);
    assert!(fault.starts_with("the kernel keeps `4` in"), "{fault:?}");
    assert_eq!(world.state(), before);
}

/// Settings of a queue: name, value before, value wanted. The kernel resets the read-ahead when another is written.
const OF_QUEUE: [(&str, &str, &str); 3] = [
    ("add_random", "1", "0"),
    ("read_ahead_kb", "68", "64"),
    ("rotational", "0", "1"),
];

/// Makes a target with a loop device and these settings. Returns the values of [`OF_QUEUE`] before, with the target
/// after `meanwhile`, and after the target was removed. `None`: this host has no loop devices.
#[allow(clippy::print_stderr, reason = "prints why it is skipped")]
fn queue_values(wanted: &[&str], meanwhile: impl Fn(&Path)) -> Option<[[String; 3]; 3]> {
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("image");
    File::create(&image).unwrap().set_len(1 << 20).unwrap();
    let attach = Command::new("losetup")
        .args(["--find", "--show"])
        .arg(&image)
        .output();
    let attached = attach.ok().filter(|attached| attached.status.success());
    let Some(attached) = attached else {
        eprintln!("SKIPPED: no loop devices here");
        return None;
    };
    let device = String::from_utf8(attached.stdout)
        .unwrap()
        .trim()
        .to_owned();
    let queue = Path::new("/sys/class/block")
        .join(device.trim_start_matches("/dev/"))
        .join("queue");
    let read = || OF_QUEUE.map(|(name, ..)| fs::read_to_string(queue.join(name)).unwrap());
    let [first, read_ahead, last] = OF_QUEUE;
    for (name, before, _) in [first, last, read_ahead] {
        fs::write(queue.join(name), before).unwrap();
    }
    let before = read();
    let host = ThisHost::new();
    let maker = Maker {
        host: &host,
        folders: StateFolders::new(&Roots::below(folder.path()), true, |_| None).unwrap(),
        records: Some(folder.path().to_owned()),
        stop: &|| false,
        progress: &|_| (),
    };
    let settings = OF_QUEUE.iter().filter(|(name, ..)| wanted.contains(name));
    let request = ProvisionRequest {
        destroy: vec![PathBuf::from(&device)],
        ..request(Provision {
            queue: settings
                .map(|(name, _, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect(),
            ..plain(vec![Layer::Device {
                paths: vec![PathBuf::from(&device)],
            }])
        })
    };
    let made = maker.provision(&request, DEAD);
    let during = read();
    meanwhile(&queue);
    let cleaned = maker.clean(false);
    let after = read();
    let detached = Command::new("losetup")
        .arg("--detach")
        .arg(&device)
        .status();
    assert!(detached.unwrap().success());
    assert!(made.is_ok(), "{made:?}");
    assert!(cleaned.orphans[0].faults.is_empty(), "{cleaned:?}");
    assert_eq!(before, ["1\n", "68\n", "0\n"]);
    Some([before, during, after])
}

#[test]
fn queue_settings_that_the_kernel_changes_with_others_are_kept_and_restored() {
    for (wanted, expected) in [
        (
            &["add_random", "read_ahead_kb", "rotational"][..],
            ["0\n", "64\n", "1\n"],
        ),
        (&["rotational"], ["1\n", "68\n", "1\n"]),
    ] {
        let Some([before, during, after]) = queue_values(wanted, |_| ()) else {
            return;
        };
        assert_eq!(during, expected);
        assert_eq!(after, before, "{wanted:?}");
    }
}

#[test]
fn a_read_ahead_that_was_not_put_back_is_restored_by_clean() {
    // A process was killed after the kernel changed the read-ahead with the setting that it wrote.
    for wanted in [&["rotational"][..], &["read_ahead_kb", "rotational"]] {
        let killed = |queue: &Path| fs::write(queue.join("read_ahead_kb"), "128").unwrap();
        let Some([before, _, after]) = queue_values(wanted, killed) else {
            return;
        };
        assert_eq!(after, before, "{wanted:?}");
    }
}

#[test]
fn a_setting_that_somebody_else_changed_is_kept() {
    let world = World::new();
    make(&world, provisions(&world).remove(0)).unwrap();
    world.host.write("proc/sys/vm/dirty_ratio", "33\n");
    assert_eq!(world.maker().tear_down(TOKEN).faults, []);
    let now = fs::read_to_string(world.host.path("proc/sys/vm/dirty_ratio")).unwrap();
    assert_eq!(now, "33\n");
}

#[test]
fn zfs_fuse_runs_as_long_as_it_has_pools() {
    let world = World::new();
    make(&world, provisions(&world).remove(2)).unwrap();
    let other = ProvisionRequest {
        token: "t-2".to_owned(),
        ..request(provisions(&world).remove(2))
    };
    let maker = world.maker();
    maker.provision(&other, DEAD).unwrap();
    assert_eq!(world.marked("zfs-fuse").len(), 1);
    maker.tear_down(TOKEN);
    assert_eq!(world.marked("zfs-fuse").len(), 1, "t-2 has a pool");
    maker.tear_down("t-2");
    assert_eq!(world.marked("zfs-fuse").len(), 0);
}

#[test]
fn the_zfs_fuse_of_a_container_is_not_ended_from_outside() {
    let world = World::new();
    let namespaces = world.host.path("proc/self/ns");
    fs::create_dir_all(&namespaces).unwrap();
    let enter = |namespace: &str| {
        let _ = fs::remove_file(namespaces.join("mnt"));
        symlink(namespace, namespaces.join("mnt")).unwrap();
    };
    enter("mnt:[1]");
    make(&world, provisions(&world).remove(2)).unwrap();
    let inside = world.marked("zfs-fuse mnt:[1]");
    assert_eq!(inside.len(), 1);
    // Its pools are not known outside.
    let pools = std::mem::take(&mut *world.pools.borrow_mut());
    enter("mnt:[2]");
    let maker = world.maker();
    let other = ProvisionRequest {
        token: "t-2".to_owned(),
        ..request(provisions(&world).remove(2))
    };
    maker.provision(&other, DEAD).unwrap();
    maker.tear_down("t-2");
    assert_eq!(world.marked("zfs-fuse mnt:[1]"), inside);
    enter("mnt:[1]");
    *world.pools.borrow_mut() = pools;
    maker.tear_down(TOKEN);
    assert_eq!(world.marked("zfs-fuse mnt:[1]").len(), 0);
}

#[test]
fn clean_ends_the_zfs_fuse_of_a_mount_namespace_without_other_processes() {
    let world = World::new();
    world.enter("self", "mnt:[1]");
    world.enter("5001", "mnt:[1]");
    make(&world, provisions(&world).remove(2)).unwrap();
    let server = world.marked("zfs-fuse mnt:[1]");
    assert_eq!(server.len(), 1);
    world.enter(&server[0].to_string(), "mnt:[1]");
    // Its run was killed, and its pools are not known outside.
    world.pools.borrow_mut().clear();
    world.enter("self", "mnt:[2]");
    let listed = world.maker().clean(true);
    assert!(
        !listed.orphans[0]
            .undone
            .contains(&"server zfs-fuse".to_owned())
    );
    world.enter("5001", "mnt:[2]");
    let cleaned = world.maker().clean(false);
    assert_eq!(cleaned.orphans[0].faults, []);
    assert_eq!(world.marked("zfs-fuse mnt:[1]").len(), 0, "{cleaned:?}");
}

#[test]
fn the_zfs_fuse_of_a_container_does_not_wait_for_targets_outside() {
    let world = World::new();
    let owner = world.living(4712);
    world.enter("self", "mnt:[1]");
    world.enter("4712", "mnt:[1]");
    let maker = world.maker();
    let outside = ProvisionRequest {
        token: "t-2".to_owned(),
        ..request(provisions(&world).remove(2))
    };
    maker.provision(&outside, owner).unwrap();
    let pools = std::mem::take(&mut *world.pools.borrow_mut());
    world.enter("self", "mnt:[2]");
    make(&world, provisions(&world).remove(2)).unwrap();
    *world.fails.borrow_mut() = Some("zpool destroy");
    assert_eq!(maker.tear_down(TOKEN).faults, []);
    assert_eq!(world.marked("zfs-fuse mnt:[2]").len(), 0);
    assert_eq!(world.marked("zfs-fuse mnt:[1]").len(), 1);
    *world.fails.borrow_mut() = None;
    world.enter("self", "mnt:[1]");
    *world.pools.borrow_mut() = pools;
    assert_eq!(maker.tear_down("t-2").faults, []);
}

#[test]
fn servers_run_on_the_cpus_that_their_layer_names() {
    let world = World::new();
    world.host.write("sys/devices/system/cpu/online", "0-3\n");
    world.host.write("sys/devices/system/node/online", "0\n");
    let pinning = |cpus: &str| Pinning {
        cpus: Some(cpus.to_owned()),
        numa: Some("0".to_owned()),
    };
    let on = |cpus: &str| {
        let mut layers = vec![mirrors(), image(4), directory(&world)];
        if let Layer::Zfs(zfs) = &mut layers[0] {
            zfs.pinning = pinning(cpus);
        }
        request(plain(layers))
    };
    let faults = world.maker().check(&[on("2-5")]);
    let faults: Vec<&str> = faults.iter().map(|it| it.message.as_str()).collect();
    let prefix = "configuration `a`: the host has no CPU";
    assert_eq!(faults, [format!("{prefix} 4 (and 1 more of `2-5`)")]);
    let maker = world.maker();
    let made = maker.provision(&on("0-1"), DEAD).unwrap();
    let server = "taskset --cpu-list 0-1 numactl --membind=0 zfs-fuse --no-daemon";
    let commands: Vec<&str> = made
        .commands
        .iter()
        .map(|run| run.command.as_str())
        .collect();
    assert!(
        commands.iter().any(|command| command.starts_with(server)),
        "{commands:?}"
    );
    // The server is one for all pools.
    let other = ProvisionRequest {
        token: "t-2".to_owned(),
        ..on("2")
    };
    let faults = maker.check(&[other]);
    assert!(
        faults[0].message.contains("zfs-fuse runs already"),
        "{faults:?}"
    );
    maker.tear_down(TOKEN);
}

#[test]
fn zfs_fuse_is_kept_for_a_target_that_has_not_made_its_pool_yet() {
    let world = World::new();
    make(&world, provisions(&world).remove(2)).unwrap();
    let maker = world.maker();
    let header = Header::new(
        "t-2",
        "b",
        "one".to_owned(),
        world.living(4712),
        provisions(&world).remove(2),
    );
    let mut other = Journal::begin(&maker.folders.journals, header, &world).unwrap();
    let log = world.host.path("log");
    other
        .intend(
            Action::ZfsFuse {
                log,
                pinning: Pinning::default(),
            },
            &world,
        )
        .unwrap();
    maker.tear_down(TOKEN);
    assert_eq!(world.marked("zfs-fuse").len(), 1, "t-2 is about to use it");
    drop(other);
    maker.tear_down("t-2");
    assert_eq!(world.marked("zfs-fuse").len(), 0);
}

#[test]
fn a_server_whose_only_pool_stays_busy_is_ended_and_another_pool_keeps_it() {
    let world = World::new();
    let before = world.state();
    make(&world, provisions(&world).remove(2)).unwrap();
    *world.fails.borrow_mut() = Some("zpool destroy");
    world.pools.borrow_mut().insert("tank".to_owned());
    let faults = world.maker().tear_down(TOKEN).faults;
    assert!(faults[0].message.contains("busy"), "{faults:?}");
    assert_eq!(
        world.marked("zfs-fuse").len(),
        1,
        "it has the pool of the user"
    );
    world.pools.borrow_mut().remove("tank");
    assert_eq!(world.maker().tear_down(TOKEN).faults, []);
    *world.fails.borrow_mut() = None;
    assert_eq!(world.state(), before);
}

#[test]
fn a_server_is_ended_when_all_its_pools_stay_busy_and_belong_to_targets_that_end() {
    let world = World::new();
    let before = world.state();
    make(&world, provisions(&world).remove(2)).unwrap();
    let maker = world.maker();
    let other = ProvisionRequest {
        token: "t-2".to_owned(),
        ..request(provisions(&world).remove(2))
    };
    let owner = world.living(4712);
    maker.provision(&other, owner).unwrap();
    *world.fails.borrow_mut() = Some("zpool destroy");
    let faults = maker.tear_down(TOKEN).faults;
    assert!(faults[0].message.contains("busy"), "{faults:?}");
    fs::remove_dir_all(world.host.path("proc/4712")).unwrap();
    assert_eq!(maker.tear_down(TOKEN).faults, []);
    assert_eq!(world.marked("zfs-fuse").len(), 0);
    assert_eq!(maker.tear_down("t-2").faults, []);
    *world.fails.borrow_mut() = None;
    assert_eq!(world.state(), before);
}

#[test]
fn a_compressed_device_of_another_program_is_kept() {
    let world = World::new();
    let before = world.state();
    // Another program makes a device between the intent and the action.
    let zram = || provisions(&world).remove(3);
    let block = world.host.path("sys/block");
    let taken = Cell::new(false);
    let tell = |what: &str| {
        if what.contains("/dev/zram0") && !taken.replace(true) {
            world.read(Path::new("hot_add")).unwrap();
        }
    };
    let maker = Maker {
        progress: &tell,
        ..world.maker()
    };
    maker.provision(&request(zram()), DEAD).unwrap();
    assert_eq!(names(&block), ["loop0", "zram0", "zram1", "zram2"]);
    assert_eq!(maker.tear_down(TOKEN).faults, []);
    assert_eq!(names(&block), ["loop0", "zram0"]);
    fs::remove_dir_all(block.join("zram0")).unwrap();
    assert_eq!(world.state(), before);
    // A target that was killed before it had a device does not remove that of the next one, which has the same number.
    let header = Header::new("t-0", "a", "one".to_owned(), DEAD, zram());
    let mut killed = Journal::begin(&maker.folders.journals, header, &world).unwrap();
    let intent = Action::Zram {
        number: 0,
        size: GIB,
        algorithm: None,
    };
    killed.intend(intent, &world).unwrap();
    drop(killed);
    make(&world, zram()).unwrap();
    assert_eq!(maker.tear_down("t-0").faults, []);
    assert_eq!(names(&block), ["loop0", "zram0", "zram1"]);
    maker.tear_down(TOKEN);
    assert_eq!(world.state(), before);
}

#[test]
fn a_target_that_is_undone_while_its_journal_is_opened_is_missing() {
    let world = World::new();
    let folder = world.maker().folders.journals.clone();
    let header = Header::new("t-9", "a", "one".to_owned(), DEAD, plain(Vec::new()));
    let journal = Journal::begin(&folder, header, &world).unwrap();
    std::thread::scope(|scope| {
        let opened = scope.spawn(|| {
            loop {
                match Journal::open(&folder, "t-9").map(drop) {
                    Err(JournalError::Busy) => std::thread::yield_now(),
                    other => return other,
                }
            }
        });
        journal.remove().unwrap();
        let opened = opened.join().unwrap();
        assert!(matches!(opened, Err(JournalError::Missing)));
    });
}

/// A lock that a process holds on a file or folder until its standard input is closed.
struct Held(Child);

impl Held {
    /// Returns when it has the lock. The host lists it as that of process 99, `iodyno`.
    fn on(path: &Path, world: &World) -> Held {
        let mut holder = Command::new("flock");
        holder.arg(path).args(["-c", "echo held; cat"]);
        holder.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut holder = holder.spawn().unwrap();
        let mut line = String::new();
        let output = holder.stdout.take().unwrap();
        BufReader::new(output).read_line(&mut line).unwrap();
        assert_eq!(line, "held\n");
        let file = path.metadata().unwrap();
        let device = (rustix::fs::major(file.dev()), rustix::fs::minor(file.dev()));
        let of = format!("{:02x}:{:02x}:{}", device.0, device.1, file.ino());
        let locks = format!("1: FLOCK  ADVISORY  WRITE 99 {of} 0 EOF\n");
        world.host.write("proc/locks", &locks);
        world.host.write("proc/99/comm", "iodyno\n");
        Held(holder)
    }

    fn release(mut self) {
        drop(self.0.stdin.take());
        assert!(self.0.wait().unwrap().success());
    }
}

#[test]
fn a_lock_of_another_process_is_waited_for_until_it_is_released() {
    let world = World::new();
    let maker = world.maker();
    let folder = maker.folders.journals.clone();
    fs::create_dir_all(&folder).unwrap();
    let held = RefCell::new(None);
    let progress = RefCell::new(Vec::new());
    // The holder ends once it is said who is waited for.
    let tell = |what: &str| {
        if what.starts_with("waiting") {
            progress.borrow_mut().push(what.to_owned());
            if let Some(held) = held.take() {
                Held::release(held);
            }
        }
    };
    let waiting = |path: &Path| {
        let path = path.display();
        vec![format!(
            "waiting for process 99 (iodyno), which keeps `{path}` locked"
        )]
    };
    let (zfs, journal) = (provisions(&world).remove(2), folder.join("t-1.jsonl"));
    held.replace(Some(Held::on(&folder, &world)));
    let maker = Maker {
        progress: &tell,
        ..world.maker()
    };
    maker.provision(&request(zfs), DEAD).unwrap();
    assert_eq!(progress.take(), waiting(&folder));
    for locked in [&folder, &journal] {
        held.replace(Some(Held::on(locked, &world)));
        maker.change(TOKEN, StorageChange::EmptyCaches).unwrap();
        assert_eq!(progress.take(), waiting(locked));
    }
    // A stop ends the wait.
    let holder = Held::on(&folder, &world);
    let stopping = Maker {
        stop: &|| true,
        ..world.maker()
    };
    let stopped = stopping.change(TOKEN, StorageChange::EmptyCaches);
    let stopped = stopped.unwrap_err();
    assert!(stopped[0].message.starts_with("stopped"), "{stopped:?}");
    held.replace(Some(holder));
    assert_eq!(maker.tear_down(TOKEN).faults, []);
    assert_eq!(progress.take(), waiting(&folder));
    assert!(journals(&world).is_empty());
}

#[test]
fn the_cache_of_a_pool_is_emptied_and_other_targets_have_none() {
    let world = World::new();
    make(&world, provisions(&world).remove(2)).unwrap();
    world.commands.borrow_mut().clear();
    world
        .maker()
        .change(TOKEN, StorageChange::EmptyCaches)
        .unwrap();
    let root = world.host.roots.root.display().to_string();
    let commands: Vec<String> = (world.commands.borrow().iter())
        .map(|command| command.replace(&root, ""))
        .collect();
    assert_eq!(
        commands,
        [
            "zpool export iodyno-t-1",
            "zpool import -o cachefile=none -d /run/iodyno/t-1/devices iodyno-t-1"
        ]
    );
    let links = world.host.path("run/iodyno/t-1/devices");
    assert_eq!(names(&links), ["0000", "0001", "0002", "0003"]);
    world.maker().tear_down(TOKEN);
    make(&world, provisions(&world).remove(0)).unwrap();
    world.commands.borrow_mut().clear();
    world
        .maker()
        .change(TOKEN, StorageChange::EmptyCaches)
        .unwrap();
    assert_eq!(*world.commands.borrow(), Vec::<String>::new());
}

#[test]
fn a_server_of_virtio_fs_is_started_anew_for_each_trial_and_undone_with_its_step() {
    let world = World::new();
    let before = world.state();
    let provision = provisions(&world).pop().unwrap();
    let made = make(&world, provision).unwrap();
    let Some(ExportServer::Virtiofs(socket)) = made.share.map(|share| share.server) else {
        panic!("the jobs have no server");
    };
    assert!(socket.exists() && made.path.is_dir());
    assert_eq!(made.facts["virtiofs.server"], "fsd {socket} {folder}");
    assert_eq!(made.facts["layers"], "virtiofs on fuse on tmpfs");
    let servers = |world: &World| -> Vec<(u32, String)> {
        let processes = world.processes.borrow();
        (processes.iter())
            .map(|process| (process.pid, process.mark.clone()))
            .collect()
    };
    let first = servers(&world);
    fs::remove_file(&socket).unwrap();
    world.maker().change(TOKEN, StorageChange::Renew).unwrap();
    assert!(socket.exists());
    // The one of FUSE goes on. The new one is found by the step of the old one.
    let second = servers(&world);
    assert_eq!((first.len(), second.len()), (2, 2));
    assert_eq!(first[0], second[0]);
    assert_ne!(first[1].0, second[1].0);
    assert_eq!(first[1].1, second[1].1);
    let undone = world.maker().tear_down(TOKEN);
    assert!(undone.faults.is_empty(), "{:?}", undone.faults);
    assert_eq!((world.state(), servers(&world).len()), (before, 0));
    // Others have no servers that end.
    make(&world, provisions(&world).remove(0)).unwrap();
    world.commands.borrow_mut().clear();
    world.maker().change(TOKEN, StorageChange::Renew).unwrap();
    assert_eq!(*world.commands.borrow(), Vec::<String>::new());
}

#[test]
fn a_virtio_fs_server_below_another_layer_is_an_error() {
    let world = World::new();
    let mut provision = provisions(&world).pop().unwrap();
    provision.layers.swap(0, 1);
    let faults = make(&world, provision).unwrap_err();
    assert!(
        faults[0].contains("`virtiofs` has to be the top layer"),
        "{faults:?}"
    );
}

#[test]
fn a_pool_below_another_layer_keeps_its_cache() {
    let world = World::new();
    let mut layers = provisions(&world).remove(2).layers;
    assert!(matches!(layers[0], Layer::Zfs(_)));
    layers.splice(0..0, [file_system(FileSystemKind::Ext4), LOOP, image(1)]);
    make(&world, plain(layers)).unwrap();
    world.commands.borrow_mut().clear();
    world
        .maker()
        .change(TOKEN, StorageChange::EmptyCaches)
        .unwrap();
    assert_eq!(*world.commands.borrow(), Vec::<String>::new());
}

#[test]
fn limits_that_do_not_hold_through_a_file_system_are_an_error() {
    let world = World::new();
    let before = world.state();
    let limits = Limits {
        read_bandwidth: 10 << 20,
        ..Limits::default()
    };
    let throttled = || {
        plain(vec![
            file_system(FileSystemKind::Btrfs),
            Layer::Throttle(limits),
            LOOP,
            image(2),
            directory(&world),
        ])
    };
    // In half a second.
    world.read_through.set(10 << 20);
    let made = make(&world, throttled()).unwrap();
    assert_eq!(made.facts["throttle.achieved_read_through"], "20 MiB/s");
    assert_eq!(names(&made.path), Vec::<String>::new());
    world.maker().tear_down(TOKEN);
    world.read_through.set(100 << 20);
    let faults = make(&world, throttled()).unwrap_err();
    assert_eq!(
        faults,
        ["the limits for reads do not hold through `btrfs`: 200 MiB/s through it"]
    );
    assert_eq!(world.state(), before);
}

#[test]
fn root_is_told_of_the_journals_of_other_users() {
    let world = World::new();
    let users =
        "root:x:0:0::/root:/bin/sh\nada:x:1000:1000:Ada:/home/ada:/bin/sh\nbob:x:1001:1:::\n";
    world.host.write("etc/passwd", users);
    world
        .host
        .write("home/ada/.local/state/iodyno/journal/t-9.jsonl", "");
    world
        .host
        .write("root/.local/state/iodyno/journal/t-8.jsonl", "");
    let others = world.maker().clean(false).others;
    let shown: Vec<(&str, u64)> = others
        .iter()
        .map(|it| (it.name.as_str(), it.journals))
        .collect();
    assert_eq!(shown, [("ada", 1)]);
    assert!(
        world
            .host
            .path("home/ada/.local/state/iodyno/journal/t-9.jsonl")
            .exists()
    );
}

#[test]
fn impossible_targets_are_refused_with_all_faults_before_anything_is_made() {
    let world = World::new();
    let before = world.state();
    let check = |layers: Vec<Layer>, expected: &[&str]| {
        let wanted = request(plain(layers));
        let found = world.maker().check(&[wanted]);
        let prefix = "configuration `a`: ";
        let found: Vec<&str> = found
            .iter()
            .map(|fault| fault.message.strip_prefix(prefix).unwrap())
            .collect();
        assert_eq!(found, expected);
    };
    let ext4 = || file_system(FileSystemKind::Ext4);
    check(vec![], &["there is no layer"]);
    let several = ["a", "b"].map(|name| ProvisionRequest {
        configuration: name.to_owned(),
        ..request(plain(vec![]))
    });
    let found = world.maker().check(&several);
    let found: Vec<&str> = found.iter().map(|fault| fault.message.as_str()).collect();
    assert_eq!(found, ["configurations `a`, `b`: there is no layer"]);
    check(
        vec![ext4(), image(2), directory(&world)],
        &["`ext4` needs one device below it, and there is 2 files below it"],
    );
    check(
        vec![LOOP, image(2), directory(&world)],
        &["the top layer `loop` gives 2 devices, and trials use one"],
    );
    check(
        vec![ext4(), LOOP, Layer::Tmpfs { size: 1 }, directory(&world)],
        &[
            "`tmpfs` needs to be the lowest layer, and there is a folder below it",
            "`loop` needs files below it, as in `loop on file`, and there is a folder below it",
        ],
    );
    check(
        vec![mirrors(), image(3), directory(&world)],
        &["the layout of `zfs` has 4 devices, and there are 3 below"],
    );
    let delay = Layer::Delay {
        read_ns: 1_500_000,
        write_ns: 2_000_000,
        disks: Vec::new(),
        pinning: Pinning::default(),
    };
    check(
        vec![delay, image(1), directory(&world)],
        &["`delay` cannot wait for 1.50 ms"],
    );
    let delay = Layer::Delay {
        read_ns: 0,
        write_ns: 0,
        disks: vec!["hdd".to_owned(), "hdd*2".to_owned()],
        pinning: Pinning::default(),
    };
    check(
        vec![delay, image(3), directory(&world)],
        &[
            "`delay.disk` names 2 disks, and there are 3 below it",
            "the top layer `delay` gives 3 devices, and trials use one",
        ],
    );
    let missing = world.host.path("missing");
    let wanted = Layer::Directory {
        path: missing.clone(),
    };
    let first = world.maker().check(&[request(plain(vec![wanted]))]);
    assert!(
        first[0]
            .message
            .contains(&format!("`{}` does not exist", missing.display())),
        "{first:?}"
    );
    let hint = first[0].hint.as_deref().unwrap_or_default();
    assert!(hint.contains("mkdir -p"), "{hint}");
    let odd = ProvisionRequest {
        token: "../x".to_owned(),
        ..request(Provision {
            sysctl: [("vm.nothing".to_owned(), "1".to_owned())].into(),
            ..plain(vec![directory(&world)])
        })
    };
    let found = world.maker().check(&[odd]);
    let messages: Vec<&str> = found.iter().map(|fault| fault.message.as_str()).collect();
    assert_eq!(
        messages,
        [
            "configuration `a`: `../x` cannot be the token of a target",
            "configuration `a`: the kernel has no setting `vm.nothing`",
        ]
    );
    assert_eq!(world.state(), before);
}

#[test]
fn arrays_and_mapped_devices_are_made_and_fail_only_while_the_target_is_complete() {
    let world = World::new();
    let root = world.host.roots.root.display().to_string();
    let shown = |commands: &[CommandRun]| {
        let of_loops = |run: &&CommandRun| {
            ["losetup", "/dev/loop"]
                .iter()
                .any(|it| run.command.contains(it))
        };
        let commands = commands.iter().filter(|run| !of_loops(run));
        let shown = commands.map(|run| run.command.replace(&root, ""));
        shown.collect::<Vec<_>>()
    };
    let made = make(&world, provisions(&world).remove(6)).unwrap();
    assert_eq!(
        shown(&made.commands),
        [
            "mdadm --detail /dev/md_iodyno-t-1-3",
            "dmsetup create iodyno-t-1-4-0 --table '0 131072 linear 9:1 0'",
            "mkfs.ext4 -q -F -E lazy_itable_init=0,lazy_journal_init=0 /dev/dm-0",
            "mount -t ext4 -o noatime /dev/dm-0 /run/iodyno/t-1/5",
            "dmsetup load iodyno-t-1-4-0 --table '0 131072 flakey 9:1 0 5 1 0'",
            "dmsetup resume iodyno-t-1-4-0",
        ]
    );
    let created = made
        .commands
        .iter()
        .find(|run| run.command.starts_with("mdadm --create"));
    assert_eq!(
        created.unwrap().command.replace(&root, ""),
        "mdadm --create /dev/md/iodyno-t-1-3 --config=/run/iodyno/t-1/3/mdadm.conf --run --metadata=1.2 \
         --level=raid1 --raid-devices=2 --bitmap=internal /dev/loop1 /dev/loop2"
    );
    assert_eq!(
        made.facts["md.members_equal"],
        "synchronised before the trials"
    );
    assert_eq!(made.facts["dm.table"], "0 131072 flakey 9:1 0 5 1 0");
    let undone = world.maker().tear_down(TOKEN);
    assert_eq!(
        shown(&undone.commands),
        [
            "dmsetup load iodyno-t-1-4-0 --table '0 131072 linear 9:1 0'",
            "dmsetup resume iodyno-t-1-4-0",
            "umount /run/iodyno/t-1/5",
            "dmsetup remove --retry iodyno-t-1-4-0",
            "mdadm --stop /dev/md_iodyno-t-1-3",
        ]
    );
    let made = make(&world, provisions(&world).remove(7)).unwrap();
    let last = shown(&made.commands);
    let log = "dmsetup create iodyno-t-1-4-0 --table '0 131072 log-writes 253:1 253:1'";
    assert!(last.iter().any(|command| command == log), "{last:?}");
}

#[test]
fn arrays_and_mapped_devices_that_the_kernel_cannot_make_are_refused() {
    let world = World::new();
    let faults = |layers: Vec<Layer>| {
        let found = world.maker().check(&[request(plain(layers))]);
        let shown = found
            .into_iter()
            .map(|fault| fault.message.replace("configuration `a`: ", ""));
        shown.collect::<Vec<_>>()
    };
    let below = |count: u32| [LOOP, image(count), directory(&world)];
    let on = |top: Layer, count: u32| faults([vec![top], below(count).to_vec()].concat());
    assert_eq!(
        on(array(MdLevel::Raid1), 1),
        ["`md` needs at least two devices below it, and there is a device below it"]
    );
    assert_eq!(
        on(Layer::Dm(DmTarget::LogWrites), 3)[0],
        "`dm` needs pairs of devices below it, one for the data and one for the log, and there is 3 devices below it"
    );
    let odd = Layer::Dm(DmTarget::Delay {
        read_ns: 1_500_000,
        write_ns: 0,
        flush_ns: 0,
    });
    assert_eq!(on(odd, 1), ["`dm.read` cannot be 1.50 ms"]);
    let never = Layer::Dm(DmTarget::Flakey {
        up_ns: 0,
        down_ns: 0,
        fault: FlakeyFault::Errors,
    });
    assert_eq!(on(never, 1), ["`dm.up` and `dm.down` are both 0"]);
    world.host.write("proc/sys/kernel/osrelease", "6.1\n");
    let lacking = "md has no `raid10`, and the kernel 6.1 has no module `raid10`";
    assert_eq!(on(array(MdLevel::Raid10), 4), [lacking]);
    // It is loaded when it is needed.
    world.host.write(
        "lib/modules/6.1/modules.builtin",
        "kernel/drivers/md/raid10.ko\n",
    );
    assert_eq!(on(array(MdLevel::Raid10), 4), [""; 0]);
    fs::remove_file(world.host.path("proc/mdstat")).unwrap();
    let missing = on(array(MdLevel::Raid1), 2);
    assert!(
        missing[0].ends_with("/proc/mdstat`, which does not exist"),
        "{missing:?}"
    );
}

#[test]
fn virtual_machines_are_refused_with_all_faults_and_leave_the_layers_above_to_their_guests() {
    let world = World::new();
    let root = world.host.roots.root.clone();
    let faults = |vm: VmLayer, above: Vec<Layer>, files: u32| {
        let below = [Layer::Vm(vm), image(files), directory(&world)];
        let wanted = request(plain(above.into_iter().chain(below).collect()));
        let found = world.maker().check(&[wanted]);
        let shown = found.into_iter().map(|fault| {
            let message = fault.message.replace(&root.display().to_string(), "");
            message.replace("configuration `a`: ", "")
        });
        shown.collect::<Vec<_>>()
    };
    let wrong = VmLayer {
        guests: 2,
        accel: Acceleration::Kvm,
        disks: vec![VmDisk {
            cache: DiskCache::Writeback,
            aio: DiskAio::Native,
            ..VmDisk::default()
        }],
        ..VmLayer::default()
    };
    let delay = Layer::Delay {
        read_ns: 1_000_000,
        write_ns: 0,
        disks: Vec::new(),
        pinning: Pinning::default(),
    };
    assert_eq!(
        faults(wrong, vec![delay], 3),
        [
            "`delay` cannot be made in a virtual machine",
            "2 virtual machines cannot share 3 files or devices equally",
            "qemu has no `aio=native` with `cache=writeback`",
            "`/dev/kvm` cannot be used",
            "there is no kernel for guests in `/var/cache/iodyno/kernel` or ``",
        ]
    );
    let kernel = root.join("k");
    let modules = kernel.join("lib/modules/6.1");
    fs::create_dir_all(&modules).unwrap();
    fs::create_dir_all(kernel.join("boot")).unwrap();
    fs::write(kernel.join("boot/vmlinuz-6.1"), "").unwrap();
    fs::write(
        modules.join("modules.builtin"),
        "a/virtio_pci.ko\na/virtio_console.ko\n",
    )
    .unwrap();
    let fitting = VmLayer {
        kernel: Some(kernel),
        ..VmLayer::default()
    };
    let lacking = "the kernel 6.1 has no module `virtio_blk`, `ext4`";
    let ext4 = file_system(FileSystemKind::Ext4);
    assert_eq!(faults(fitting.clone(), vec![ext4.clone()], 1), [lacking]);
    let all = "a/virtio_pci.ko\na/virtio_console.ko\na/virtio_blk.ko\na/ext4.ko\n";
    fs::write(modules.join("modules.builtin"), all).unwrap();
    let none: [&str; 0] = [];
    assert_eq!(faults(fitting.clone(), vec![ext4], 1), none);
    let zfs = Layer::Zfs(ZfsLayer {
        pinning: Pinning {
            cpus: Some("0".to_owned()),
            numa: None,
        },
        ..ZfsLayer::default()
    });
    assert_eq!(
        faults(fitting, vec![zfs], 4),
        [
            "there is no OpenZFS for the guests' kernel 6.1",
            "`zfs.cpus` and `zfs.numa` have no effect: ZFS runs in the kernel",
        ]
    );
}

#[test]
fn the_last_line_of_a_journal_may_be_incomplete_and_other_versions_are_kept() {
    let world = World::new();
    let before = world.state();
    make(&world, provisions(&world).remove(0)).unwrap();
    let journal = world.host.path("var/lib/iodyno/journal/t-1.jsonl");
    let text = fs::read_to_string(&journal).unwrap();
    fs::write(&journal, format!("{text}{{\"inte")).unwrap();
    assert_eq!(world.maker().tear_down(TOKEN).faults, []);
    assert_eq!(world.state(), before);
    fs::write(&journal, text.replace("\"schema\":1", "\"schema\":2")).unwrap();
    let faults = world.maker().clean(false).faults;
    assert!(faults[0].message.contains("cannot be parsed"), "{faults:?}");
    assert_eq!(journals(&world).len(), 1);
}

#[test]
fn mounts_loop_devices_and_files_of_others_are_kept_and_named() {
    let world = World::new();
    let before = world.state();
    make(&world, provisions(&world).remove(0)).unwrap();
    let clean = || {
        let cleaned = world.maker().clean(false);
        let faults = cleaned.orphans.into_iter().flat_map(|one| one.faults);
        faults.map(|fault| fault.message).collect::<Vec<_>>()
    };
    let point = world.host.path("run/iodyno/t-1/3").display().to_string();
    // On the mount of the target, by another type or the same one, and below it.
    for (theirs, kind) in [
        (point.clone(), "tmpfs"),
        (point.clone(), "ext4"),
        (format!("{point}/sub"), "tmpfs"),
    ] {
        fs::create_dir_all(&theirs).unwrap();
        world.host.mount("0:77", &theirs, kind, "theirs");
        let mounted = world.mountinfo();
        let faults = clean();
        assert!(faults[0].contains(&format!("`{theirs}`")), "{faults:?}");
        assert!(faults[0].contains(&format!("the {kind} ")), "{faults:?}");
        assert_eq!(world.mountinfo(), mounted);
        assert!(world.host.path("sys/block/loop1").exists());
        assert!(world.unmount(&theirs));
    }
    // In place of it, once that was unmounted.
    assert!(world.unmount(&point));
    world.host.mount("0:77", &point, "ext4", "/dev/loop1");
    assert!(clean()[0].contains(&point));
    assert!(world.unmount(&point));
    // Another loop device on the image, and a file beside it.
    let image = world.host.path("data/iodyno-t-1/disk0.img");
    let theirs = world.attach(&image);
    world.host.write("data/iodyno-t-1/mine", "precious");
    let faults = clean();
    assert!(
        faults[0].contains("did not make: `mine`") && !image.exists(),
        "{faults:?}"
    );
    assert!(Path::new(&theirs).exists() && !world.host.path("dev/loop1").exists());
    assert_eq!(journals(&world), ["t-1.jsonl"]);
    assert!(world.detach("loop2"));
    fs::remove_file(world.host.path("data/iodyno-t-1/mine")).unwrap();
    assert_eq!(clean(), Vec::<String>::new());
    assert_eq!(world.state(), before);
}

#[test]
fn a_loop_device_that_others_have_attached_in_place_of_that_of_iodyno_is_kept() {
    let world = World::new();
    make(&world, plain(vec![LOOP, image(1), directory(&world)])).unwrap();
    assert!(world.detach("loop1"));
    let image = world.host.path("data/iodyno-t-1/disk0.img");
    let theirs = world.attach(&image);
    assert!(theirs.ends_with("/loop1"), "{theirs}");
    let cleaned = world.maker().clean(false);
    assert_eq!(cleaned.orphans[0].faults, []);
    assert!(!image.exists() && Path::new(&theirs).exists());
}

#[test]
fn a_compressed_device_that_others_have_made_in_place_of_that_of_iodyno_is_kept() {
    let world = World::new();
    make(&world, provisions(&world).remove(3)).unwrap();
    let size = fs::read(world.host.path("sys/block/zram1/disksize")).unwrap();
    fs::remove_dir_all(world.host.path("sys/block/zram1")).unwrap();
    let control = world.host.path("sys/class/zram-control/hot_add");
    assert_eq!(Host::read(&world, &control).unwrap(), "1");
    fs::write(world.host.path("sys/block/zram1/disksize"), size).unwrap();
    let cleaned = world.maker().clean(false);
    assert_eq!(cleaned.orphans[0].faults, []);
    assert!(world.host.path("sys/block/zram1").exists());
    assert!(!world.host.path("sys/block/zram0").exists());
}

/// What others put over, below, beside and on what was made so far: mounts, a file, and loop devices, which can only be
/// read.
struct Theirs {
    points: Vec<String>,
    file: Option<PathBuf>,
    loops: Vec<String>,
}

impl Theirs {
    fn put(world: &World, below: &str) -> Theirs {
        let at = |folder: &str| {
            let entries = fs::read_dir(world.host.path(folder));
            let entries = entries.into_iter().flatten().flatten();
            entries.map(|entry| entry.path()).collect::<Vec<_>>()
        };
        let folders = at("run/iodyno/t-1").into_iter();
        let points = folders.filter(|path| path.is_dir() && !path.ends_with("devices"));
        let points = points.map(|path| format!("{}{below}", path.display()));
        let points: Vec<String> = points.collect();
        for point in &points {
            fs::create_dir_all(point).unwrap();
            world.host.mount("0:77", point, "tmpfs", "theirs");
        }
        let images = at("data/iodyno-t-1");
        let loops = images.iter().map(|image| {
            let device = world.attach(image);
            let name = device.rsplit('/').next().unwrap().to_owned();
            world.host.write(&format!("sys/block/{name}/ro"), "1\n");
            name
        });
        let loops = loops.collect();
        let file = images.first().map(|image| image.with_file_name("mine"));
        if let Some(file) = &file {
            fs::write(file, "precious").unwrap();
        }
        Theirs {
            points,
            file,
            loops,
        }
    }

    fn assert_kept(&self, world: &World, place: &str) {
        let mounts = world.mountinfo();
        for point in &self.points {
            assert!(mounts.contains(&format!(" {point} ")), "{place}: {point}");
        }
        for name in &self.loops {
            let folder = world.host.path(&format!("sys/block/{name}"));
            assert!(folder.exists(), "{place}: {name}");
        }
        let text = self.file.as_ref().map(fs::read_to_string);
        assert!(
            text.is_none_or(|text| text.is_ok_and(|text| text == "precious")),
            "{place}"
        );
    }

    fn remove(self, world: &World, below: &str) {
        for point in &self.points {
            assert!(world.unmount(point));
            if !below.is_empty() {
                fs::remove_dir(point).unwrap();
            }
        }
        for name in &self.loops {
            assert!(world.detach(name));
        }
        self.file.map(fs::remove_file).transpose().unwrap();
    }
}

#[test]
fn what_others_have_put_on_a_target_is_kept_wherever_it_was_interrupted() {
    for which in 0..KINDS {
        for at in 0..points(which) {
            for (below, restart) in [("", false), ("/sub", false), ("", true)] {
                let (world, mut before) = interrupted(which, at);
                if restart {
                    world.restart();
                    let boot = world.host.path("proc/sys/kernel/random/boot_id");
                    before.insert(boot, "two\n".to_owned());
                }
                let place = format!("target {which} at {at}, {below:?}, {restart}");
                let theirs = Theirs::put(&world, below);
                world.maker().clean(false);
                theirs.assert_kept(&world, &place);
                theirs.remove(&world, below);
                let cleaned = world.maker().clean(false);
                world.finish_commands();
                for orphan in &cleaned.orphans {
                    assert_eq!(orphan.faults, [], "{place}");
                }
                assert_eq!(world.state(), before, "{place}");
            }
        }
    }
}
