//! The costs of servers of one file, side by side: a mirror of one leg by NBD, vhost-user-blk and FUSE with a loop
//! device; nbdkit by NBD; qemu-storage-daemon by both; and the file without a server. Prints the time of a request and
//! the CPU time of the server's process: the median of some rounds in which the servers take turns. Servers that are
//! not installed, or need root, are omitted. The server's CPU time excludes the kernel threads of a loop device.
//!
//! The file is in /dev/shm, or PEERS_DIR, so that the result is overhead. Compare only columns of one run, not with the
//! load of another host.
#![allow(clippy::print_stdout, reason = "prints its results")]

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use iodyno_mirror::PolicyKind;
use iodyno_mirror::core::Settings;
use iodyno_model::{Engine, EngineKind, ExportServer, ExportUri};
use iodyno_serve::front::{Front, Listener, Service};
use iodyno_serve::fuse::{FuseFront, Transport};
use iodyno_serve::legs::{self, Purpose};
use iodyno_serve::nbd::Export;
use iodyno_serve::virtio_blk::Disk;
use iodyno_serve::{format, queue};
use iodyno_sys::memory::Arena;
use iodyno_sys::vhost_user::{self, Connection};
use iodyno_sys::{
    Backend, Completions, NbdBackend, Op, OpKind, UringBackend, VhostUserBackend, nbd,
};
use iodyno_testing::Loop;

const LENGTH: u64 = 256 << 20;
const ROUNDS: usize = 5;
const O_DIRECT: i32 = 0o40000;
/// The argument with which this program is the server.
const SERVE: &str = "--serve-a-mirror";

#[derive(Clone, Copy)]
struct Load {
    name: &'static str,
    kind: OpKind,
    bytes: u32,
    depth: u32,
    count: u32,
}

const fn load(name: &'static str, kind: OpKind, bytes: u32, depth: u32, count: u32) -> Load {
    Load {
        name,
        kind,
        bytes,
        depth,
        count,
    }
}

const LOADS: [Load; 5] = [
    load("4 KiB reads, depth 1", OpKind::Read, 4096, 1, 10_000),
    load("4 KiB reads, depth 16", OpKind::Read, 4096, 16, 40_000),
    load("4 KiB writes, depth 1", OpKind::Write, 4096, 1, 10_000),
    load("4 KiB writes, depth 16", OpKind::Write, 4096, 16, 40_000),
    load("1 MiB reads, depth 4", OpKind::Read, 1 << 20, 4, 1_000),
];

/// How requests reach a server.
enum Reach {
    Export(ExportUri),
    /// A file, or a device on it.
    File(PathBuf),
}

/// A server in a separate process, which is ended on drop.
struct Server {
    name: &'static str,
    /// `None`: no server.
    process: Option<Child>,
    reach: Reach,
    /// The loop device, and the mounted file that it was made on.
    attached: Option<(Loop, PathBuf)>,
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some((device, file)) = self.attached.take() {
            drop(device);
            let _ = rustix::mount::unmount(file, rustix::mount::UnmountFlags::DETACH);
        }
        // It has nothing to lose.
        if let Some(process) = &mut self.process {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

impl Server {
    /// `None`: it is not installed, or does not start.
    fn start(name: &'static str, mut command: Command, reach: Reach) -> Option<Server> {
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let mut process = command.spawn().ok()?;
        let within = Duration::from_secs(10);
        let ready = || match &reach {
            Reach::Export(uri) => match &uri.server {
                ExportServer::VhostUser(path) => Connection::new(path, within).is_ok(),
                _ => nbd::connect(uri, within)
                    .map(nbd::Connection::close)
                    .is_ok(),
            },
            Reach::File(path) => path.metadata().is_ok_and(|found| found.len() > 0),
        };
        while !ready() {
            if process.try_wait().ok()?.is_some() {
                return None;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Some(Server {
            name,
            process: Some(process),
            reach,
            attached: None,
        })
    }

    /// A loop device on the file of a server.
    fn attach(mut self) -> Option<Server> {
        let Reach::File(file) = &self.reach else {
            return None;
        };
        let device = Loop::with(&["--direct-io=on"], file)?;
        let path = device.path().into();
        self.attached = Some((device, file.clone()));
        self.reach = Reach::File(path);
        Some(self)
    }

    /// A connection, or the open file.
    fn client(&self, load: Load) -> Box<dyn Backend> {
        let (slots, bytes) = (load.depth, load.bytes as usize);
        let arena = || Arena::new(slots, bytes, 0, false).expect("memory");
        let within = Duration::from_secs(10);
        match &self.reach {
            Reach::Export(uri) => match &uri.server {
                ExportServer::VhostUser(path) => {
                    let connection = Arc::new(Connection::new(path, within).expect("connected"));
                    let service = vhost_user::Service::Disk(connection);
                    let tail = VhostUserBackend::tail(slots);
                    let memory = service.memory().expect("a server");
                    let arena = Arena::within(memory, slots, bytes, 0, tail).expect("memory");
                    Box::new(VhostUserBackend::new(service, arena).expect("a queue"))
                }
                _ => {
                    let connection = nbd::connect(uri, within).expect("connected");
                    let engine = Engine::new(EngineKind::Nbd, slots);
                    Box::new(NbdBackend::new(
                        connection.socket,
                        self.name,
                        arena(),
                        &engine,
                    ))
                }
            },
            Reach::File(path) => {
                let file = (OpenOptions::new().read(true).write(true))
                    .custom_flags(O_DIRECT)
                    .open(path)
                    .expect("O_DIRECT");
                let file = iodyno_sys::File {
                    descriptor: file.into(),
                    device: false,
                };
                let engine = Engine::new(EngineKind::IoUring, slots);
                Box::new(UringBackend::new(vec![file], arena(), &engine).expect("a ring"))
            }
        }
    }

    /// CPU time of the process, with threads that have ended, ns. The kernel counts it in units of 10 ms.
    fn cpu(&self) -> u64 {
        let Some(process) = &self.process else {
            return 0;
        };
        let text = std::fs::read_to_string(format!("/proc/{}/stat", process.id()));
        let text = text.expect("it runs");
        let (_, fields) = text.rsplit_once(')').expect("a name in brackets");
        let ticks = fields.split_whitespace().skip(11).take(2);
        ticks
            .filter_map(|ticks| ticks.parse::<u64>().ok())
            .sum::<u64>()
            * 10_000_000
    }
}

fn offset(number: u32, bytes: u32) -> u64 {
    let blocks = (LENGTH - (2 << 20)) / u64::from(bytes);
    u64::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15) % blocks * u64::from(bytes)
}

/// Time and CPU time of the server per request, ns.
fn measured(server: &Server, load: Load) -> (f64, f64) {
    let mut client = server.client(load);
    let mut completions = Completions::with_capacity(load.depth);
    let mut free: Vec<u32> = (0..load.depth).collect();
    let (mut issued, mut done) = (0, 0);
    let warm = load.count / 10;
    let all = load.count + warm;
    let mut begun = (Instant::now(), 0, 0);
    while done < all {
        if done < warm {
            begun = (Instant::now(), server.cpu(), done);
        }
        // nbdkit fails if a client leaves with requests in flight.
        while issued < all
            && let Some(slot) = free.pop()
        {
            client.prep(
                slot,
                &Op::new(load.kind, 0, offset(issued, load.bytes), load.bytes),
            );
            issued += 1;
        }
        client
            .turn(1, load.depth, None, &mut completions)
            .expect("a turn");
        for end in &completions.list {
            assert_eq!(end.result, load.bytes as i32, "an error of {}", server.name);
            free.push(end.slot);
            done += 1;
        }
    }
    let elapsed = begun.0.elapsed().as_nanos() as f64;
    let count = f64::from(done - begun.2);
    (elapsed / count, (server.cpu() - begun.1) as f64 / count)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn servers(folder: &Path) -> Vec<Server> {
    let file = |name: &str| {
        let path = folder.join(name);
        let file = File::create(&path).expect("a file");
        file.set_len(LENGTH).expect("its length");
        path
    };
    let path = |name: &str| folder.join(name);
    let export = |server, name: &str| {
        Reach::Export(ExportUri {
            server,
            export: name.to_owned(),
        })
    };
    let nbd = |name: &str| export(ExportServer::Unix(path(name)), "");
    let own = |leg: &str, front: &str, at: &str| {
        let mut own = Command::new(std::env::current_exe().expect("this program"));
        own.arg(SERVE).arg(file(leg)).arg(front).arg(path(at));
        own
    };
    let mut all = vec![Server {
        name: "bare file",
        process: None,
        reach: Reach::File(file("bare")),
        attached: None,
    }];
    all.extend(Server::start("NBD", own("a", "nbd", "a.s"), nbd("a.s")));
    let guests = export(ExportServer::VhostUser(path("b.s")), "");
    all.extend(Server::start(
        "vhost-user",
        own("b", "vhost-user", "b.s"),
        guests,
    ));
    let mounted = own("c", "fuse", "c.f");
    let mounted = Server::start("FUSE + loop", mounted, Reach::File(path("c.f")));
    all.extend(mounted.and_then(Server::attach));
    let mut nbdkit = Command::new("nbdkit");
    nbdkit.args(["--foreground", "--unix"]).arg(path("kit.s"));
    nbdkit.arg("file").arg(file("kit"));
    all.extend(Server::start("nbdkit: NBD", nbdkit, nbd("kit.s")));
    let qemu = |disk: PathBuf| {
        let mut qemu = Command::new("qemu-storage-daemon");
        qemu.arg("--blockdev").arg(format!(
            "driver=file,node-name=d,filename={},cache.direct=on,aio=io_uring",
            disk.display()
        ));
        qemu
    };
    let (mut by_nbd, socket) = (qemu(file("q")), path("q.s"));
    by_nbd
        .arg("--nbd-server")
        .arg(format!("addr.type=unix,addr.path={}", socket.display()));
    by_nbd.args(["--export", "type=nbd,id=e,node-name=d,name=d,writable=on"]);
    let named = export(ExportServer::Unix(socket), "d");
    all.extend(Server::start("qemu: NBD", by_nbd, named));
    let (mut guests, socket) = (qemu(file("v")), path("v.s"));
    guests.arg("--export").arg(format!(
        "type=vhost-user-blk,id=e,node-name=d,writable=on,addr.type=unix,addr.path={}",
        socket.display()
    ));
    let disk = export(ExportServer::VhostUser(socket), "");
    all.extend(Server::start("qemu: vhost-user", guests, disk));
    all
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    if arguments.next().as_deref() == Some(SERVE) {
        let paths: Vec<PathBuf> = arguments.map(PathBuf::from).collect();
        return serve(&paths[..1], &paths[1], &paths[2]);
    }
    let parent = std::env::var("PEERS_DIR").unwrap_or_else(|_| "/dev/shm".to_owned());
    let folder = PathBuf::from(format!("{parent}/iodyno-peers-{}", std::process::id()));
    std::fs::create_dir(&folder).expect("a folder");
    let servers = servers(&folder);
    let load = || std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    println!("load before: {}", load().trim());
    let mut results = vec![vec![Vec::new(); servers.len()]; LOADS.len()];
    for _ in 0..ROUNDS {
        for (row, load) in LOADS.iter().enumerate() {
            for (column, server) in servers.iter().enumerate() {
                results[row][column].push(measured(server, *load));
            }
        }
    }
    println!("load after:  {}", load().trim());
    println!("µs per request: elapsed, CPU of the server");
    print!("{:24}", "");
    servers
        .iter()
        .for_each(|server| print!(" {:>17}", server.name));
    println!();
    for (load, row) in LOADS.iter().zip(results) {
        print!("{:24}", load.name);
        for column in row {
            let (elapsed, cpu): (Vec<f64>, Vec<f64>) = column.into_iter().unzip();
            print!(" {:9.2} {:7.2}", median(elapsed) / 1e3, median(cpu) / 1e3);
        }
        println!();
    }
    drop(servers);
    std::fs::remove_dir_all(&folder).expect("removed");
}

/// Serves a mirror until this process is killed.
fn serve(paths: &[PathBuf], front: &Path, at: &Path) {
    format::create(paths, paths, true).expect("a mirror");
    let legs = legs::open(paths, Purpose::Use).expect("legs");
    let found = legs::assemble(&legs, false).expect("all legs");
    let open = legs::descriptors(&found.assembly, &legs).expect("descriptors");
    let export = Export {
        length: found.assembly.geometry.length,
        unit: found.assembly.geometry.unit,
        rotational: false,
        trims: true,
    };
    let disk = Disk::new(export, found.assembly.mirror);
    let mirror = found.mirror(Settings::default());
    let (handle, inbox) = queue::channel(4).expect("a channel");
    let listener = || Listener::unix(at).expect("a socket");
    let start = |service| Front::start(listener(), service, handle.clone()).expect("a front");
    let (_front, _file) = match front.to_str() {
        Some("nbd") => (Some(start(Service::Nbd(export))), None),
        Some("vhost-user") => (Some(start(Service::VhostUser(disk))), None),
        // Without root it ends here, and is left out.
        _ => match FuseFront::start(at, export, &handle, Transport::Auto) {
            Ok(file) => (None, Some(file)),
            Err(_) => return,
        },
    };
    let settings = queue::Settings {
        policy: PolicyKind::Adaptive,
        leg_timeout_ns: 30_000_000_000,
        resync_rate: 1 << 30,
        seed: 1,
    };
    let task = queue::Task::Serve;
    queue::run(mirror, open, settings, task, inbox, &mut |_, _| ()).expect("a ring");
}
