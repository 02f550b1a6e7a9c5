//! The first process of a guest: mounts the kernel's file systems, loads modules, and starts a node for each session.
//!
//! Invariant: it does not end while the guest runs. What it cannot do is written to the console, and it powers the
//! guest off, so that the host finds the reason in the console's log.

use std::convert::Infallible;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::mount::MountFlags;
use rustix::process::{WaitOptions, waitpid};
use rustix::system::RebootCommand;

use crate::guest::image::{MODULE_LIST, PROGRAM};
use crate::guest::port::{self, NodeExit};
use crate::guest::qemu::{SERIAL, SHARE, TOKEN_ARGUMENT, disk_path, served_slot, share_path};

/// The file systems of the kernel, with their mount points.
const MOUNTS: [(&str, &str); 5] = [
    ("proc", "/proc"),
    ("sysfs", "/sys"),
    ("devtmpfs", "/dev"),
    ("tmpfs", "/run"),
    ("tmpfs", "/tmp"),
];
/// The folders in which programs are looked for.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// The longest wait for a device that a module makes.
const DEVICES: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(5);
/// The most that the nodes of a guest print on its console, bytes.
const WORDS: u64 = 64 << 10;

/// Whether this process was started by the kernel as init of a guest.
pub fn is_init(program: Option<&OsStr>) -> bool {
    std::process::id() == 1 && program == Some(OsStr::new("/init"))
}

/// Runs as init. Returns only if the guest cannot be powered off.
pub fn run() -> ExitCode {
    let why = match serve() {
        Ok(never) => match never {},
        Err(why) => why,
    };
    say(&why);
    let _ = rustix::system::reboot(RebootCommand::PowerOff);
    ExitCode::FAILURE
}

/// Writes a line to the console.
fn say(text: &str) {
    if let Ok(mut console) = File::options().write(true).open("/dev/console") {
        let _ = writeln!(console, "iodyno: {text}");
    }
}

fn serve() -> Result<Infallible, String> {
    for (kind, point) in MOUNTS {
        fs::create_dir_all(point).map_err(|error| format!("cannot make `{point}`: {error}"))?;
        rustix::mount::mount(kind, point, kind, MountFlags::empty(), None)
            .map_err(|error| format!("cannot mount {kind} at `{point}`: {error}"))?;
    }
    let list = fs::read_to_string(Path::new("/").join(MODULE_LIST));
    for module in list.unwrap_or_default().lines() {
        load(module).map_err(|error| format!("cannot load the module `{module}`: {error}"))?;
    }
    name_disks()?;
    let port = await_found("the port of the host", || device_of_port(port::NAME))?;
    let failed = |error: io::Error| format!("cannot use `{}`: {error}", port.display());
    // From here on the console gets the reason of a panic and little else: its log on the host does not grow.
    let _ = fs::write("/proc/sys/kernel/printk", "1 4 1 7");
    let words = Arc::new(Mutex::new(WORDS));
    // It stays open: closing it would drop what the host has sent.
    let mut port_file = File::options()
        .read(true)
        .write(true)
        .open(&port)
        .map_err(failed)?;
    loop {
        port::answer(&mut port_file).map_err(failed)?;
        let exit =
            node(&port_file, &words).map_err(|error| format!("cannot start a node: {error}"))?;
        if let NodeExit::Signal(signal) = exit {
            say(&format!("the node was ended by signal {signal}"));
        }
        port::report_exit(&mut port_file, exit).map_err(failed)?;
        // Its descendants are children of this process now.
        while let Ok(Some(_)) = waitpid(None, WaitOptions::NOHANG) {}
    }
}

fn load(module: &str) -> io::Result<()> {
    let file = File::open(module)?;
    match rustix::system::finit_module(file, c"", 0) {
        Err(error) if error == rustix::io::Errno::EXIST => Ok(()),
        other => Ok(other?),
    }
}

/// Mounts the folder that the host shares, and makes links to the disks that qemu was given, by their serial numbers or
/// slots: the kernel's names depend on the order in which it finds them.
fn name_disks() -> Result<(), String> {
    let line = fs::read_to_string("/proc/cmdline").unwrap_or_default();
    let argument = line
        .split_whitespace()
        .find_map(|word| word.strip_prefix(TOKEN_ARGUMENT));
    let Some((token, count)) = argument.and_then(|value| value.split_once(',')) else {
        return Ok(());
    };
    let (count, share) = count.split_once(',').unwrap_or((count, ""));
    if !share.is_empty() {
        let point = share_path(token);
        let made = fs::create_dir_all(&point).map_err(|error| error.to_string());
        let mounted = made.and_then(|()| {
            rustix::mount::mount(SHARE, &point, "virtiofs", MountFlags::empty(), None)
                .map_err(|error| error.to_string())
        });
        mounted.map_err(|why| {
            format!(
                "cannot mount the shared folder at `{}`: {why}",
                point.display()
            )
        })?;
    }
    for number in 0..count.parse().unwrap_or(0) {
        let serial = format!("{SERIAL}{number}");
        let found = || disk_with(&serial).or_else(|| disk_in(served_slot(number)));
        let name = await_found(&format!("disk {number}"), found)?;
        let link = disk_path(token, number);
        let folder = link.parent().unwrap_or(Path::new("/dev"));
        let made = fs::create_dir_all(folder)
            .and_then(|()| std::os::unix::fs::symlink(Path::new("/dev").join(name), &link));
        made.map_err(|error| format!("cannot make `{}`: {error}", link.display()))?;
    }
    Ok(())
}

/// The kernel's name of the disk with this serial number.
fn disk_with(serial: &str) -> Option<String> {
    let disks = fs::read_dir("/sys/block").ok()?.flatten();
    disks
        .filter_map(|disk| {
            let own = ["serial", "device/serial", "device/vpd_pg80"];
            let own = own.map(|name| fs::read(disk.path().join(name)).unwrap_or_default());
            // The page of SCSI begins with its length.
            let found = own.iter().any(|bytes| {
                let text = bytes.get(4..).filter(|_| bytes.first() == Some(&0));
                text.unwrap_or(bytes).trim_ascii() == serial.as_bytes()
            });
            found.then(|| disk.file_name().into_string().ok()).flatten()
        })
        .next()
}

/// The kernel's name of the disk in this PCI slot that has none of the serial numbers that this program gives.
fn disk_in(slot: usize) -> Option<String> {
    let slot = format!("/0000:00:{slot:02x}.0/");
    let disks = fs::read_dir("/sys/block").ok()?.flatten();
    let mut found = disks.filter(|disk| {
        let serial = fs::read_to_string(disk.path().join("serial")).unwrap_or_default();
        let path = fs::canonicalize(disk.path()).unwrap_or_default();
        !serial.starts_with(SERIAL) && path.to_string_lossy().contains(&slot)
    });
    found.next()?.file_name().into_string().ok()
}

/// The device of the virtio-serial port with this name.
fn device_of_port(name: &str) -> Option<PathBuf> {
    let ports = fs::read_dir("/sys/class/virtio-ports").ok()?.flatten();
    let mut ports = ports.filter(|port| {
        fs::read_to_string(port.path().join("name")).is_ok_and(|found| found.trim() == name)
    });
    Some(Path::new("/dev").join(ports.next()?.file_name()))
}

/// Waits until something is there.
fn await_found<T>(what: &str, mut find: impl FnMut() -> Option<T>) -> Result<T, String> {
    let begun = Instant::now();
    loop {
        if let Some(found) = find() {
            return Ok(found);
        }
        if begun.elapsed() >= DEVICES {
            return Err(format!(
                "{what} did not appear within {} s",
                DEVICES.as_secs()
            ));
        }
        thread::sleep(PAUSE);
    }
}

/// Runs a node on the port until it exits. At most `words` bytes of its standard error go to the console.
fn node(port: &File, words: &Arc<Mutex<u64>>) -> io::Result<NodeExit> {
    let mut node = Command::new(format!("/{PROGRAM}"))
        .arg("node")
        .env("PATH", PATH)
        .env("HOME", "/root")
        .stdin(Stdio::from(port.try_clone()?))
        .stdout(Stdio::from(port.try_clone()?))
        .stderr(Stdio::piped())
        .spawn()?;
    let mut console = File::options().write(true).open("/dev/console")?;
    if let Some(mut errors) = node.stderr.take() {
        let words = Arc::clone(words);
        // To the end: a node whose standard error is full would wait. Another process may keep it open.
        thread::spawn(move || {
            let mut left = words.lock().unwrap_or_else(PoisonError::into_inner);
            *left -= io::copy(&mut (&mut errors).take(*left), &mut console).unwrap_or(*left);
            drop(left);
            io::copy(&mut errors, &mut io::sink())
        });
    }
    let status = node.wait()?;
    Ok(match status.signal() {
        Some(signal) => NodeExit::Signal(signal),
        None => NodeExit::Code(status.code().unwrap_or_default()),
    })
}
