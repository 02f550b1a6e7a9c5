//! The cost that a mirror and its NBD server add to direct I/O on one file: time and CPU per request, in one run. The
//! CPU time of NBD includes that of the client, which is a thread of the same process.
//!
//! The leg is a file in /dev/shm, so that the storage itself costs little: most of the result is overhead.
#![allow(clippy::print_stdout, reason = "prints its results")]

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Instant;

use iodyno_mirror::PolicyKind;
use iodyno_mirror::core::Settings;
use iodyno_serve::front::{Front, Listener, Service};
use iodyno_serve::legs::{self, Purpose};
use iodyno_serve::nbd::Export;
use iodyno_serve::{format, queue};
use iodyno_sys::host::process_use;
use iodyno_sys::memory::Arena;

const LENGTH: u64 = 256 << 20;
const O_DIRECT: i32 = 0o40000;

/// Requests of one kind.
#[derive(Clone, Copy)]
struct Load {
    name: &'static str,
    write: bool,
    bytes: usize,
    depth: usize,
    count: u64,
}

/// Time and CPU time per request, ns.
fn measured(count: u64, work: impl FnOnce()) -> (f64, f64) {
    let cpu = || process_use().user_ns + process_use().system_ns;
    let (begun, before) = (Instant::now(), cpu());
    work();
    let count = count as f64;
    (
        begun.elapsed().as_nanos() as f64 / count,
        (cpu() - before) as f64 / count,
    )
}

fn offset(number: u64, bytes: usize) -> u64 {
    let blocks = (LENGTH - (1 << 20)) / bytes as u64;
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15) % blocks * bytes as u64
}

/// One request after the other, by system calls.
fn bare(file: &File, load: Load) {
    let mut arena = Arena::new(1, load.bytes, 0, false).expect("memory");
    let buffer = arena.slot_mut(0);
    for number in 0..load.count {
        let at = offset(number, load.bytes);
        match load.write {
            true => file.write_all_at(buffer, at).expect("written"),
            false => file.read_exact_at(buffer, at).expect("read"),
        }
    }
}

fn connect(socket: &Path) -> UnixStream {
    let mut stream = UnixStream::connect(socket).expect("connected");
    stream.write_all(&3u32.to_be_bytes()).expect("sent");
    stream
        .write_all(b"IHAVEOPT\0\0\0\x01\0\0\0\0")
        .expect("sent");
    stream.read_exact(&mut [0; 28]).expect("an export");
    stream
}

/// `depth` requests at a time, by NBD.
fn by_nbd(stream: &mut UnixStream, load: Load) {
    let (mut sent, mut done) = (0, 0);
    let mut data = vec![0; load.bytes];
    let mut message = Vec::new();
    while done < load.count {
        while sent < load.count && sent - done < load.depth as u64 {
            message.clear();
            message.extend(0x2560_9513u32.to_be_bytes());
            message.extend([0, 0, 0, u8::from(load.write)]);
            message.extend(sent.to_be_bytes());
            message.extend(offset(sent, load.bytes).to_be_bytes());
            message.extend((load.bytes as u32).to_be_bytes());
            if load.write {
                message.extend(&data);
            }
            stream.write_all(&message).expect("sent");
            sent += 1;
        }
        let mut header = [0; 16];
        stream.read_exact(&mut header).expect("a reply");
        assert_eq!(header[4..8], [0; 4], "an error");
        if !load.write {
            stream.read_exact(&mut data).expect("data");
        }
        done += 1;
    }
}

fn main() {
    let folder = PathBuf::from(format!("/dev/shm/iodyno-serve-{}", std::process::id()));
    std::fs::create_dir(&folder).expect("a folder in /dev/shm");
    let path = |name: &str| folder.join(name);
    let names = ["bare", "one", "two"];
    for name in names {
        let file = File::create(path(name)).expect("a file");
        file.set_len(LENGTH).expect("its length");
    }
    let options = || OpenOptions::new().read(true).write(true).clone();
    let bare_file = options()
        .custom_flags(O_DIRECT)
        .open(path("bare"))
        .expect("O_DIRECT");
    let load = |name, write, bytes, depth, count| Load {
        name,
        write,
        bytes,
        depth,
        count,
    };
    let loads = [
        load("4 KiB reads, depth 1", false, 4096, 1, 30_000),
        load("4 KiB reads, depth 16", false, 4096, 16, 100_000),
        load("4 KiB writes, depth 1", true, 4096, 1, 30_000),
        load("4 KiB writes, depth 16", true, 4096, 16, 100_000),
        load("1 MiB reads, depth 4", false, 1 << 20, 4, 2_000),
        load("1 MiB writes, depth 4", true, 1 << 20, 4, 2_000),
    ];
    println!("µs per request: elapsed, CPU");
    println!(
        "{:24} {:>16} {:>16} {:>16}",
        "", "bare, depth 1", "NBD, one leg", "NBD, two legs"
    );
    let results: Vec<Vec<(f64, f64)>> = {
        let mut columns = vec![
            (loads.iter())
                .map(|load| {
                    bare(&bare_file, *load);
                    measured(load.count, || bare(&bare_file, *load))
                })
                .collect(),
        ];
        for legs in [&names[1..2], &names[1..3]] {
            let paths: Vec<PathBuf> = legs.iter().map(|name| path(name)).collect();
            columns.push(served(&paths, &folder, &loads));
        }
        columns
    };
    for (row, load) in loads.iter().enumerate() {
        print!("{:24}", load.name);
        for column in &results {
            let (elapsed, cpu) = column[row];
            print!(" {:8.2} {:7.2}", elapsed / 1e3, cpu / 1e3);
        }
        println!();
    }
    std::fs::remove_dir_all(&folder).expect("removed");
}

fn served(paths: &[PathBuf], folder: &Path, loads: &[Load]) -> Vec<(f64, f64)> {
    format::create(paths, paths, false).expect("a mirror");
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
    let (handle, inbox) = queue::channel(4).expect("a channel");
    let stop = handle.clone();
    let socket = folder.join("socket");
    let listener = Listener::unix(&socket).expect("a socket");
    let front = Front::start(listener, Service::Nbd(export), handle).expect("a front");
    let loads = loads.to_vec();
    let client = std::thread::spawn(move || {
        let mut stream = connect(&socket);
        let results = loads.iter().map(|load| {
            by_nbd(&mut stream, *load);
            measured(load.count, || by_nbd(&mut stream, *load))
        });
        let results: Vec<(f64, f64)> = results.collect();
        stop.stop();
        results
    });
    let settings = queue::Settings {
        policy: PolicyKind::RoundRobin,
        leg_timeout_ns: 30_000_000_000,
        resync_rate: 1 << 30,
        seed: 1,
    };
    let task = queue::Task::Serve;
    queue::run(mirror, open, settings, task, inbox, &mut |_, _| ()).expect("a ring");
    front.stop();
    client.join().expect("a client")
}
