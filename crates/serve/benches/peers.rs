//! What NBD servers on one file cost, side by side: a mirror of one leg, nbdkit and qemu-storage-daemon. Prints the time of a request and
//! the CPU time of the server's process, the median of some rounds in which the servers take turns. Servers that are not installed are
//! left out.
//!
//! The file is in /dev/shm, so that what is printed is overhead. Compare columns of one run only, and not with the load of another host.
#![allow(clippy::print_stdout, reason = "prints its results")]

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use iodyno_mirror::PolicyKind;
use iodyno_mirror::core::Settings;
use iodyno_model::{Engine, EngineKind, NbdServer, NbdUri};
use iodyno_serve::front::{Front, Listener, Service};
use iodyno_serve::legs::{self, Purpose};
use iodyno_serve::nbd::Export;
use iodyno_serve::{format, queue};
use iodyno_sys::memory::Arena;
use iodyno_sys::{Backend, Completions, NbdBackend, Op, OpKind, nbd};

const LENGTH: u64 = 256 << 20;
const ROUNDS: usize = 5;
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

/// A server in a process of its own, ended when it is dropped.
struct Server {
    name: &'static str,
    process: Child,
    uri: NbdUri,
}

impl Drop for Server {
    fn drop(&mut self) {
        // It has nothing to lose.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Server {
    /// `None`: it is not installed, or does not start.
    fn start(
        name: &'static str,
        mut command: Command,
        socket: PathBuf,
        export: &str,
    ) -> Option<Server> {
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let process = command.spawn().ok()?;
        let mut server = Server {
            name,
            process,
            uri: NbdUri {
                server: NbdServer::Unix(socket),
                export: export.to_owned(),
            },
        };
        loop {
            if let Ok(connection) = nbd::connect(&server.uri, Duration::from_secs(10)) {
                connection.close();
                return Some(server);
            }
            if server.process.try_wait().ok()?.is_some() {
                return None;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// CPU time of the process, with threads that have ended, ns. The kernel counts it in units of 10 ms.
    fn cpu(&self) -> u64 {
        let text = std::fs::read_to_string(format!("/proc/{}/stat", self.process.id()));
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
    let connection = nbd::connect(&server.uri, Duration::from_secs(10)).expect("connected");
    let arena = Arena::new(load.depth, load.bytes as usize, 0, false).expect("memory");
    let engine = Engine::new(EngineKind::Nbd, load.depth);
    let mut client = NbdBackend::new(connection.socket, "server", arena, &engine);
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
                &Op {
                    kind: load.kind,
                    file: 0,
                    offset: offset(issued, load.bytes),
                    length: load.bytes,
                    skip: 0,
                    priority: 0,
                },
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
    let socket = |name: &str| folder.join(name);
    let mut all = Vec::new();
    let mut own = Command::new(std::env::current_exe().expect("this program"));
    own.arg(SERVE).arg(file("own")).arg(socket("own.s"));
    all.extend(Server::start("iodyno", own, socket("own.s"), ""));
    let mut nbdkit = Command::new("nbdkit");
    nbdkit.args(["--foreground", "--unix"]).arg(socket("kit.s"));
    nbdkit.arg("file").arg(file("kit"));
    all.extend(Server::start("nbdkit", nbdkit, socket("kit.s"), ""));
    let mut qemu = Command::new("qemu-storage-daemon");
    let (disk, path) = (file("qemu"), socket("qemu.s"));
    qemu.arg("--blockdev").arg(format!(
        "driver=file,node-name=d,filename={},cache.direct=on,aio=io_uring",
        disk.display()
    ));
    qemu.arg("--nbd-server")
        .arg(format!("addr.type=unix,addr.path={}", path.display()));
    qemu.args(["--export", "type=nbd,id=e,node-name=d,name=d,writable=on"]);
    all.extend(Server::start("qemu-storage-daemon", qemu, path, "d"));
    all
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    if arguments.next().as_deref() == Some(SERVE) {
        let paths: Vec<PathBuf> = arguments.map(PathBuf::from).collect();
        return serve(&paths[..1], &paths[1]);
    }
    let folder = PathBuf::from(format!("/dev/shm/iodyno-peers-{}", std::process::id()));
    std::fs::create_dir(&folder).expect("a folder in /dev/shm");
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
        .for_each(|server| print!(" {:>20}", server.name));
    println!();
    for (load, row) in LOADS.iter().zip(results) {
        print!("{:24}", load.name);
        for column in row {
            let (elapsed, cpu): (Vec<f64>, Vec<f64>) = column.into_iter().unzip();
            print!(" {:11.2} {:8.2}", median(elapsed) / 1e3, median(cpu) / 1e3);
        }
        println!();
    }
    drop(servers);
    std::fs::remove_dir_all(&folder).expect("removed");
}

/// Serves a mirror until this process is killed.
fn serve(paths: &[PathBuf], socket: &Path) {
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
    let mirror = found.mirror(Settings::default());
    let (handle, inbox) = queue::channel().expect("a channel");
    let listener = Listener::unix(socket).expect("a socket");
    let _front = Front::start(listener, Service::Nbd(export), handle).expect("a front");
    let settings = queue::Settings {
        policy: PolicyKind::Adaptive,
        leg_timeout_ns: 30_000_000_000,
        resync_rate: 1 << 30,
        seed: 1,
    };
    let task = queue::Task::Serve;
    queue::run(mirror, open, settings, task, inbox, &mut |_, _| ()).expect("a ring");
}
