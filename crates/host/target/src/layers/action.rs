//! The actions of which making storage consists, and how each is undone.
//!
//! Invariant: undoing an action depends on the action and on the state of the host only. It may therefore be undone
//! whether it was completed, was interrupted, was already undone, or never began. Everything that is removed bears the
//! token of its target in its name, or is identified by what the intent says.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use iodyno_model::{CommandRun, Diagnostic, Identity, Inode, Pinning};
use iodyno_sys::host::loop_file;
use rustix::fs::{FallocateFlags, FlockOperation};
use rustix::process::Signal;
use serde::{Deserialize, Serialize};

use crate::guard::Guard;
use crate::identity::identify;
use crate::journal::{Journal, Step};
use crate::mounts::{self, Mount};
use crate::owner::{Owner, boot_id};
use crate::roots::{names, text};

use super::host::{Host, Invocation, device_number, word};
use super::made::{self, Made};
use super::{TARGET, lock, mapped, nfs, zfs};

/// The longest time that a command which undoes something may take.
const UNDO: Duration = Duration::from_secs(60);
/// How long, and at which interval, a busy mount or device is tried again.
const BUSY: u32 = 100;
const PAUSE: Duration = Duration::from_millis(100);
/// From SIGTERM to SIGKILL for a process, in tenths of a pause.
const TERMINATED: u32 = 500;

/// Something that is done to the host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "do")]
pub enum Action {
    /// Make a folder. Undone: it is removed with its content, unless something of others is mounted in it.
    Folder {
        /// Its path.
        path: PathBuf,
        /// The file system that contains it (`f_fsid`), if its folder is not iodyno's.
        #[serde(default)]
        system: Option<u64>,
        /// Only what other steps make is put in it: it is removed only if it is empty.
        #[serde(default)]
        empty: bool,
    },
    /// Make an image file.
    File {
        /// Its path.
        path: PathBuf,
        /// Its length, bytes.
        size: u64,
        /// Reserve its blocks.
        allocate: bool,
    },
    /// Empty a block device that the guard admitted.
    Device {
        /// Its path.
        path: PathBuf,
        /// What it is.
        identity: Option<Identity>,
        /// The process to which the guard admitted it.
        admitted_to: u32,
        /// When that started; see [`Owner`].
        #[serde(default)]
        started: u64,
    },
    /// Attach a loop device to a file. Returns the device, and the number that the kernel gives to what is attached.
    Loop {
        /// The file.
        file: PathBuf,
        /// With direct I/O.
        direct: bool,
        /// Logical block size, bytes.
        sector: Option<u32>,
    },
    /// Make a compressed device in memory. Returns its number, and the number that the kernel gives to each new disk.
    Zram {
        /// The number that the kernel gives to the next one.
        number: u32,
        /// Its size, bytes.
        size: u64,
        /// The compression.
        algorithm: Option<String>,
    },
    /// Mount a file system. Returns its device number.
    Mount {
        /// Its type.
        kind: String,
        /// The device, or a name.
        source: String,
        /// The mount point: a folder made for it.
        point: PathBuf,
        /// Options.
        options: Vec<String>,
    },
    /// Start a server. Undone: what it mounted is unmounted, and it is ended.
    Server {
        /// The program and its arguments.
        command: Vec<String>,
        /// Where it mounts a file system.
        point: PathBuf,
        /// What it prints.
        log: PathBuf,
    },
    /// Start zfs-fuse unless it runs. Undone: it is ended if it was started so, has no pool left, and no other target
    /// needs it.
    ZfsFuse {
        /// What it prints.
        log: PathBuf,
        /// Where it runs.
        #[serde(default)]
        pinning: Pinning,
    },
    /// Make a ZFS pool.
    Pool {
        /// Its name.
        name: String,
        /// The arguments of `zpool create`.
        arguments: Vec<String>,
    },
    /// Start the kernel's server of NFS in a guest.
    NfsServer {
        /// The folder that it exports.
        folder: PathBuf,
        /// Whether writes are acknowledged before they are stored.
        asynchronous: bool,
        /// Number of its threads.
        threads: u32,
    },
    /// Make an array of md.
    Array {
        /// Its name. The kernel's name of its device is this one after `md_`.
        name: String,
        /// A file for the settings of mdadm.
        settings: PathBuf,
        /// Arguments of `mdadm --create`.
        arguments: Vec<String>,
        /// The devices of which it is made.
        members: Vec<String>,
    },
    /// Make a device of the device mapper. Returns its path.
    Mapped {
        /// Its name.
        name: String,
        /// The program that makes it, and its arguments.
        command: Vec<String>,
        /// A table with which it does not fail, for a device that fails on purpose.
        calm: Option<String>,
    },
    /// Change a setting of the kernel.
    Setting {
        /// Its file.
        path: PathBuf,
        /// The device (`7:3`), if the file has a line for each.
        device: Option<String>,
        /// Its value before.
        before: String,
        /// Its new value.
        value: String,
    },
    /// Run the user's command that makes storage, and undo it with another one.
    Setup {
        /// The command, for a shell.
        command: Option<String>,
        /// The command that undoes it.
        teardown: Option<String>,
    },
    /// Run a command whose effect is undone with the layer below.
    Run {
        /// The program and its arguments.
        command: Vec<String>,
    },
}

/// The file system of a folder, `f_fsid` of statvfs(3). `None`: the folder is missing, or its file system has no
/// number.
fn system_of(folder: &Path) -> Option<u64> {
    let state = rustix::fs::statvfs(folder).ok()?;
    (state.f_fsid != 0).then_some(state.f_fsid)
}

impl Action {
    /// To make a folder in storage that iodyno made.
    pub(crate) fn folder(path: PathBuf) -> Action {
        Action::Folder {
            path,
            system: None,
            empty: false,
        }
    }

    /// To make a folder where something else is: it is not removed with anything that iodyno made. `empty`: see
    /// [`Action::Folder`].
    pub(crate) fn outer_folder(path: PathBuf, empty: bool) -> Action {
        let system = path.parent().and_then(system_of);
        Action::Folder {
            path,
            system,
            empty,
        }
    }
}

impl fmt::Display for Action {
    /// What is made.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Action::Folder { path, .. } => write!(f, "folder {}", path.display()),
            Action::File { path, .. } => write!(f, "image file {}", path.display()),
            Action::Device { path, .. } => write!(f, "use of device {}", path.display()),
            Action::Loop { file, .. } => write!(f, "loop device on {}", file.display()),
            Action::Zram { number, .. } => write!(f, "compressed device /dev/zram{number}"),
            Action::Mount { kind, point, .. } => {
                write!(f, "mount of {kind} at {}", point.display())
            }
            Action::Server { command, point, .. } => {
                let program = command.first().map(String::as_str).unwrap_or_default();
                write!(f, "server {program} at {}", point.display())
            }
            Action::ZfsFuse { .. } => write!(f, "server zfs-fuse"),
            Action::Pool { name, .. } => write!(f, "ZFS pool {name}"),
            Action::NfsServer { folder, .. } => write!(f, "NFS server of {}", folder.display()),
            Action::Array { name, .. } => write!(f, "array {name}"),
            Action::Mapped { name, .. } => write!(f, "mapped device {name}"),
            Action::Setting {
                path,
                device: Some(device),
                ..
            } => write!(f, "limit of device {device} in {}", path.display()),
            Action::Setting { path, .. } => write!(f, "setting {}", path.display()),
            Action::Setup {
                command: Some(command),
                ..
            } => write!(f, "result of `{command}`"),
            Action::Setup { .. } => write!(f, "storage that the teardown command removes"),
            Action::Run { command } => write!(f, "result of `{}`", command.join(" ")),
        }
    }
}

/// Who undoes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum By {
    /// The process that uses the target.
    Owner,
    /// `clean`, in the boot in which it was made, or in a later one: then all that the kernel keeps in memory is gone.
    Clean { same_boot: bool },
}

/// Performs and undoes actions.
pub(crate) struct Hands<'a> {
    pub(crate) host: &'a dyn Host,
    pub(crate) guard: &'a Guard,
    /// The folder of the journals.
    pub(crate) journals: &'a Path,
    /// Environment of the commands.
    pub(crate) environment: BTreeMap<String, String>,
    /// See [`Host::marked`]: the step that is being done.
    pub(crate) mark: String,
    /// What the target's files and folders are, by their paths, as far as it is recorded.
    pub(crate) inodes: BTreeMap<PathBuf, Inode>,
    pub(crate) stop: &'a dyn Fn() -> bool,
    /// Gets each action that is done, and what is waited for.
    pub(crate) told: &'a dyn Fn(&str),
    /// The commands that were run.
    pub(crate) commands: Vec<CommandRun>,
}

impl Hands<'_> {
    /// Runs a program.
    ///
    /// # Errors
    /// It did not exit with status 0.
    pub(crate) fn run(&mut self, words: &[&str], limit: Duration) -> Result<String, Diagnostic> {
        let (mark, stop) = (self.mark.clone(), self.stop);
        self.run_until(words, &mark, limit, stop)
    }

    fn run_until(
        &mut self,
        words: &[&str],
        mark: &str,
        limit: Duration,
        stop: &dyn Fn() -> bool,
    ) -> Result<String, Diagnostic> {
        let invocation = Invocation {
            words: words.iter().map(|word| (*word).to_owned()).collect(),
            environment: self.environment.clone(),
            mark: mark.to_owned(),
            limit,
        };
        let ran = self.host.run(&invocation, stop);
        let record = ran.record;
        let result = match (record.status, &ran.why) {
            (Some(0), _) => Ok(ran.printed),
            (Some(status), _) => Err(format!("failed with exit status {status}")),
            (None, why) => Err(why.clone().unwrap_or_default()),
        };
        let result = result.map_err(|why| {
            let said = last_lines(&record.output);
            Diagnostic::error(format!("`{}` {why}{said}", record.command))
        });
        self.commands.push(record);
        result
    }

    /// Runs a command that undoes something: a stop request does not end it.
    fn undo_by(&mut self, words: &[&str]) -> Result<String, Diagnostic> {
        self.run_until(words, &self.undo_mark(), UNDO, &|| false)
    }

    /// The mark of commands that undo the current step.
    fn undo_mark(&self) -> String {
        format!("{}/undo", self.mark)
    }

    /// Ends commands of the current step that still run because iodyno was killed; `began`: those that did it as well
    /// as those that undid it.
    pub(crate) fn end_commands(&mut self, began: bool) {
        let marks = [Some(self.undo_mark()), began.then(|| self.mark.clone())];
        for mark in marks.into_iter().flatten() {
            self.end_processes(&mark);
        }
    }

    /// Runs a command of the user.
    pub(crate) fn shell(&mut self, command: &str, limit: Duration) -> Result<String, Diagnostic> {
        self.run(&["/bin/sh", "-c", command], limit)
    }

    /// Performs an action. Returns what later actions need.
    ///
    /// # Errors
    /// The cause. Part of it may have been done.
    pub(crate) fn perform(
        &mut self,
        action: &Action,
        limit: Duration,
    ) -> Result<String, Diagnostic> {
        match action {
            Action::Folder { path, .. } => {
                let made = fs::create_dir_all(path.parent().unwrap_or(path))
                    .and_then(|()| fs::create_dir(path));
                let made = made.and_then(|()| made::result(path));
                return made.map_err(|error| cannot("create the folder", path, &error));
            }
            Action::File {
                path,
                size,
                allocate,
            } => {
                let made = make_file(path, *size, *allocate).and_then(|()| made::result(path));
                return made.map_err(|error| cannot("create the image file", path, &error));
            }
            Action::Device { path, .. } => {
                // Not every device can discard. What remains is overwritten by the new file system.
                let device = word(path).map_err(Diagnostic::error)?;
                let _ = self.run(&["blkdiscard", "--force", &device], limit);
                self.run(&["wipefs", "--all", "--force", &device], limit)?;
            }
            Action::Loop {
                file,
                direct,
                sector,
            } => {
                let file = word(file).map_err(Diagnostic::error)?;
                let direct = format!("--direct-io={}", if *direct { "on" } else { "off" });
                let sector = sector.map(|bytes| format!("--sector-size={bytes}"));
                let mut words = vec!["losetup", "--find", "--show", &direct];
                words.extend(sector.as_deref());
                words.push(&file);
                let device = self.run(&words, limit)?.trim().to_owned();
                let name = device.rsplit('/').next().unwrap_or_default();
                let sequence = self.sequence(name).map(|number| format!(" {number}"));
                return Ok(device + &sequence.unwrap_or_default());
            }
            Action::Zram {
                number,
                size,
                algorithm,
            } => return self.make_zram(*number, *size, algorithm.as_deref()),
            Action::Mount {
                kind,
                source,
                point,
                options,
            } => {
                let point = word(point).map_err(Diagnostic::error)?;
                let options = options.join(",");
                let mut words = vec!["mount", "-t", kind];
                if !options.is_empty() {
                    words.extend(["-o", &options]);
                }
                words.extend([source.as_str(), &point]);
                self.run(&words, limit)?;
                let mounts = self.mounted_at(Path::new(&point)).into_iter();
                let made = mounts.map(|mount| mount.number.to_string()).next();
                return Ok(made.unwrap_or_default());
            }
            Action::Server { command, log, .. } => self.start(command, log)?,
            Action::ZfsFuse { log, pinning } => zfs::start_server(self, log, pinning)?,
            Action::Pool { arguments, .. } => {
                let arguments = arguments.iter().map(String::as_str);
                let words: Vec<&str> = ["zpool", "create"].into_iter().chain(arguments).collect();
                let _alone = zfs::alone(self, self.stop)?;
                self.run(&words, limit)?;
            }
            Action::NfsServer {
                folder,
                asynchronous,
                threads,
            } => nfs::start(self, folder, *asynchronous, *threads)?,
            Action::Array {
                name,
                settings,
                arguments,
                members,
            } => {
                fs::write(settings, mapped::MDADM_SETTINGS)
                    .map_err(|error| cannot("write", settings, &error))?;
                let config = word(settings).map_err(Diagnostic::error)?;
                let (config, device) = (format!("--config={config}"), format!("/dev/md/{name}"));
                let mut words = vec!["mdadm", "--create", &device, &config];
                words.extend(arguments.iter().chain(members).map(String::as_str));
                self.run(&words, limit)?;
            }
            Action::Mapped { name, command, .. } => {
                let words: Vec<&str> = command.iter().map(String::as_str).collect();
                self.run(&words, limit)?;
                let roots = self.host.roots();
                let device = mapped::mapped_device(roots, name).ok_or_else(|| {
                    Diagnostic::error(format!("the kernel has no mapped device `{name}`"))
                })?;
                return Ok(roots.dev.join(device).display().to_string());
            }
            Action::Setting {
                path,
                device,
                value,
                ..
            } => return self.set_and_read(path, device.as_deref(), value),
            Action::Setup {
                command: Some(command),
                ..
            } => drop(self.shell(command, limit)?),
            Action::Setup { .. } => {}
            Action::Run { command } => {
                let words: Vec<&str> = command.iter().map(String::as_str).collect();
                self.run(&words, limit)?;
            }
        }
        Ok(String::new())
    }

    /// Starts a program that goes on.
    pub(crate) fn start(&mut self, command: &[String], log: &Path) -> Result<(), Diagnostic> {
        let invocation = Invocation {
            words: command.to_vec(),
            environment: self.environment.clone(),
            mark: self.mark.clone(),
            limit: Duration::MAX,
        };
        let text = invocation.text();
        self.host
            .start(&invocation, log)
            .map_err(|error| Diagnostic::error(format!("cannot start `{text}`: {error}")))?;
        self.commands.push(CommandRun {
            command: text,
            status: None,
            output: String::new(),
            span_ns: 0,
        });
        Ok(())
    }

    /// Makes a compressed device and returns its number; an empty text if the kernel gave it another number than the
    /// intended one, because another program has made a device meanwhile. Then it is removed again.
    fn make_zram(
        &mut self,
        intended: u32,
        size: u64,
        algorithm: Option<&str>,
    ) -> Result<String, Diagnostic> {
        let control = self.host.roots().sys.join("class/zram-control/hot_add");
        let number = self.host.read(&control);
        let number = number.map_err(|error| cannot("make a device with", &control, &error))?;
        if number != intended.to_string() {
            self.remove_zram(&number)?;
            return Ok(String::new());
        }
        let folder = self.host.roots().sys.join(format!("block/zram{number}"));
        let settings = [
            algorithm.map(|name| ("comp_algorithm", name.to_owned())),
            Some(("disksize", size.to_string())),
        ];
        for (name, value) in settings.into_iter().flatten() {
            self.set(&folder.join(name), None, &value)?;
        }
        let sequence = self.sequence(&format!("zram{number}"));
        Ok(sequence.map_or(number.clone(), |sequence| format!("{number} {sequence}")))
    }

    fn remove_zram(&mut self, number: &str) -> Result<(), Diagnostic> {
        let control = self.host.roots().sys.join("class/zram-control/hot_remove");
        self.patiently(|hands| hands.set(&control, None, number))
    }

    fn set(&mut self, path: &Path, device: Option<&str>, value: &str) -> Result<(), Diagnostic> {
        let text = match device {
            Some(device) => format!("{device} {value}"),
            None => value.to_owned(),
        };
        self.host.write(path, &text).map_err(|error| {
            let message = format!("cannot write `{text}` to `{}`: {error}", path.display());
            Diagnostic::error(message)
        })
    }

    /// Changes a setting. Returns its value as the kernel keeps it.
    fn set_and_read(
        &mut self,
        path: &Path,
        device: Option<&str>,
        value: &str,
    ) -> Result<String, Diagnostic> {
        self.set(path, device, value)?;
        let kept = current(self.host, path, device);
        let kept = kept.map_err(|error| cannot("read", path, &error))?;
        // A negative value stands for the kernel's own one. Limits of devices are read back in another form.
        if device.is_none() && !value.starts_with('-') && !same_value(&kept, value) {
            let message = format!(
                "the kernel keeps `{kept}` in `{}` instead of `{value}`",
                path.display()
            );
            return Err(
                Diagnostic::error(message).hint("set a value that the kernel accepts as it is")
            );
        }
        Ok(kept)
    }

    /// Whether there is something to undo on the host.
    pub(crate) fn in_place(&mut self, action: &Action, result: Option<&str>, by: By) -> bool {
        let roots = self.host.roots().clone();
        let same_boot = by != By::Clean { same_boot: false };
        match action {
            Action::Folder { path, .. } | Action::File { path, .. } => {
                path.symlink_metadata().is_ok() || self.out_of_reach(action).is_some()
            }
            // What others wrote to the device since then must not be mistaken for ours.
            Action::Device { .. } => by == By::Owner,
            Action::Loop { file, .. } => same_boot && !self.loops(file, result).is_empty(),
            Action::Zram { number, size, .. } => {
                let (number, sequence) = zram_of(*number, result);
                let found = text(roots.sys.join(format!("block/zram{number}/disksize")));
                let now = self.sequence(&format!("zram{number}"));
                let same = sequence.is_none() || now.as_deref() == sequence;
                // One with another size belongs to somebody else, as does one that another target's journal names.
                let fits = found.is_some_and(|found| found == "0" || found == size.to_string());
                same_boot && fits && same && (result.is_some() || !self.is_of_another(&number))
            }
            Action::Mount { point, .. } => same_boot && self.has_mounted(action, result, point),
            Action::Server { point, .. } => {
                same_boot && self.has_mounted(action, result, point)
                    || !self.host.marked(&self.mark).is_empty()
            }
            Action::ZfsFuse { .. } => zfs::server_is_idle(self),
            Action::Pool { name, .. } => zfs::is_imported(self, name),
            Action::NfsServer { .. } => same_boot && nfs::runs(&roots),
            Action::Array { name, .. } => roots
                .sys
                .join("block")
                .join(mapped::array_device(name))
                .exists(),
            Action::Mapped { name, .. } => mapped::mapped_device(&roots, name).is_some(),
            Action::Setting {
                path,
                device,
                before,
                value,
            } => {
                let now = current(self.host, path, device.as_deref());
                // A value that somebody else has set in the meantime is kept.
                let ours = |now: &str| match device {
                    Some(_) => now != before,
                    None => same_value(now, value) && !same_value(now, before),
                };
                same_boot && now.is_ok_and(|now| ours(&now))
            }
            Action::Setup { teardown, .. } => teardown.is_some(),
            Action::Run { .. } => false,
        }
    }

    /// Why it is not known whether a folder is still there: its file system is not mounted.
    pub(crate) fn out_of_reach(&self, action: &Action) -> Option<Diagnostic> {
        let Action::Folder {
            path,
            system: Some(system),
            ..
        } = action
        else {
            return None;
        };
        // Without the folder itself, those above it show which file system is mounted.
        let mounted = path.ancestors().skip(1).find_map(system_of);
        if path.symlink_metadata().is_ok() || mounted == Some(*system) {
            return None;
        }
        Some(Diagnostic::error(format!(
            "cannot remove `{}`: its file system is not mounted",
            path.display()
        )))
    }

    /// Undoes an action that is [in place](Hands::in_place).
    ///
    /// # Errors
    /// What remains, and why.
    pub(crate) fn remove(
        &mut self,
        action: &Action,
        result: Option<&str>,
    ) -> Result<(), Diagnostic> {
        match action {
            Action::Folder { path, empty, .. } => {
                if let Some(fault) = self.out_of_reach(action) {
                    return Err(fault);
                }
                if mounts::own(self.host.roots()).is_empty() {
                    let shown = path.display();
                    let message = format!(
                        "cannot read the table of mounts, so `{shown}` is kept: what is mounted in it would be deleted"
                    );
                    return Err(Diagnostic::error(message));
                }
                let failed = |error| cannot("remove", path, &error);
                self.unmount(action, result, path)?;
                let made = Made::open(path, &self.inodes).map_err(failed)?;
                // It may have been moved with what is mounted in it.
                self.unmount(action, result, &made.path().map_err(failed)?)?;
                match empty {
                    true => {
                        self.remove_images(path)?;
                        made.remove_empty_folder().map_err(failed)
                    }
                    false => made.remove_folder().map_err(failed),
                }
            }
            Action::File { path, .. } => Made::open(path, &self.inodes)
                .and_then(|made| made.remove_file())
                .map_err(|error| cannot("remove", path, &error)),
            Action::Device {
                path,
                identity,
                admitted_to,
                started,
            } => {
                let (pid, start) = (*admitted_to, *started);
                self.release(path, identity.as_ref(), Owner { pid, start });
                Ok(())
            }
            Action::Loop { file, .. } => self.detach(file, result),
            Action::Zram { number, .. } => self.remove_zram(&zram_of(*number, result).0),
            Action::Mount { point, .. } => self.unmount(action, result, point),
            Action::Server { point, .. } => {
                self.unmount(action, result, point)?;
                self.end_processes(&self.mark);
                Ok(())
            }
            Action::ZfsFuse { .. } => zfs::stop_server(self),
            Action::Pool { name, .. } => {
                let _alone = zfs::alone(self, &|| false)?;
                self.destroy_pool(name)
            }
            Action::NfsServer { .. } => nfs::stop(self),
            Action::Array { name, members, .. } => self.stop_array(name, members),
            Action::Mapped { name, .. } => {
                self.patiently(|hands| {
                    let removed = hands.undo_by(&["dmsetup", "remove", "--retry", name]);
                    removed.map(drop)
                })?;
                // Without udev it can be left.
                let _ = fs::remove_file(self.host.roots().dev.join("mapper").join(name));
                Ok(())
            }
            Action::Setting {
                path,
                device,
                before,
                ..
            } => self.set(path, device.as_deref(), before),
            Action::Setup { teardown, .. } => match teardown {
                Some(command) => self.undo_by(&["/bin/sh", "-c", command]).map(drop),
                None => Ok(()),
            },
            Action::Run { .. } => Ok(()),
        }
    }

    /// Removes the recorded image files in a folder that are still there: their step counts as undone if the file
    /// system was not mounted at that time.
    fn remove_images(&self, folder: &Path) -> Result<(), Diagnostic> {
        let recorded = self.inodes.keys();
        let inside = recorded.filter(|path| path.parent() == Some(folder));
        for path in inside.filter(|path| path.symlink_metadata().is_ok()) {
            Made::open(path, &self.inodes)
                .and_then(|made| made.remove_file())
                .map_err(|error| cannot("remove", path, &error))?;
        }
        Ok(())
    }

    /// Ends the failures of a device that fails on purpose, so that what is on it can be undone.
    pub(crate) fn calm(&mut self, action: &Action) {
        if let Action::Mapped {
            name,
            calm: Some(table),
            ..
        } = action
            && mapped::mapped_device(self.host.roots(), name).is_some()
        {
            // If it goes on to fail, unmounting reports it.
            let _ = self.undo_by(&["dmsetup", "load", name, "--table", table]);
            let _ = self.undo_by(&["dmsetup", "resume", name]);
        }
    }

    fn stop_array(&mut self, name: &str, members: &[String]) -> Result<(), Diagnostic> {
        let device = self.host.roots().dev.join(mapped::array_device(name));
        let device = word(&device).map_err(Diagnostic::error)?;
        self.patiently(|hands| hands.undo_by(&["mdadm", "--stop", &device]).map(drop))?;
        // Otherwise udev may assemble it again.
        let mut words = vec!["mdadm", "--zero-superblock"];
        words.extend(members.iter().map(String::as_str));
        let _ = self.undo_by(&words);
        // Without udev, mdadm does not remove the link that it made.
        let _ = fs::remove_file(self.host.roots().dev.join("md").join(name));
        Ok(())
    }

    /// Excludes other processes of iodyno, and other threads, from what they share on a host, until the result is
    /// dropped: zfs-fuse, and the next number of a compressed device.
    ///
    /// # Errors
    /// `stop` returned true, or it cannot be locked.
    pub(crate) fn lock(&self, stop: &dyn Fn() -> bool) -> Result<File, Diagnostic> {
        let failed = |error: io::Error| cannot("lock", self.journals, &error);
        let folder = File::open(self.journals).map_err(failed)?;
        let operation = FlockOperation::NonBlockingLockExclusive;
        let locked =
            lock::wait_for(
                self.host,
                self.journals,
                stop,
                self.told,
                || match rustix::fs::flock(&folder, operation) {
                    Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
                    other => other.map(Some),
                },
            );
        match locked.map_err(|error| failed(error.into()))? {
            Some(()) => Ok(folder),
            None => {
                let shown = self.journals.display();
                let message = format!("stopped while another process kept `{shown}` locked");
                Err(Diagnostic::error(message))
            }
        }
    }

    /// The steps of other targets that are not undone.
    pub(crate) fn steps_of_others(&self) -> Vec<Step> {
        let own = self.mark.split('/').next().unwrap_or_default();
        let boot = boot_id(self.host.roots());
        let others = Journal::tokens(self.journals).into_iter();
        let others = others.filter(|token| token != own);
        let found = others.filter_map(|token| Journal::look(self.journals, &token));
        let steps = found.filter(|(header, _)| header.boot == boot);
        steps
            .flat_map(|(_, steps)| steps)
            .filter(|step| !step.undone)
            .collect()
    }

    /// Whether another target has made the compressed device with this number.
    fn is_of_another(&self, number: &str) -> bool {
        self.steps_of_others().iter().any(|step| {
            let made = step.result.as_deref();
            matches!(step.action, Action::Zram { number: intended, .. }
                if made.is_some() && zram_of(intended, made).0 == number)
        })
    }

    /// Destroys a pool. If a process was killed while it used a file, zfs-fuse can take the file for open, and the
    /// pool for busy, for minutes, above all after a forced unmount. The pool is therefore forced only if it stays
    /// busy, and a server that iodyno started and that has this pool alone is ended instead: the pool is not imported
    /// again.
    fn destroy_pool(&mut self, name: &str) -> Result<(), Diagnostic> {
        let own = format!("{name}/");
        let mounts = mounts::own(self.host.roots()).into_iter();
        let points = mounts.filter(|mount| mount.source.starts_with(&own));
        for point in points.map(|mount| mount.point).collect::<Vec<_>>() {
            // Answered after the messages before it.
            let point = word(&point).map_err(Diagnostic::error)?;
            let _ = self.undo_by(&["stat", "-f", &point]);
        }
        let plain = self.patiently(|hands| hands.undo_by(&["zpool", "destroy", name]).map(drop));
        match plain {
            Err(fault) if fault.message.contains("busy") && zfs::serves_only(self, name) => {
                zfs::end_server(self);
                Ok(())
            }
            Err(fault) if fault.message.contains("busy") => {
                self.patiently(|hands| hands.undo_by(&["zpool", "destroy", "-f", name]).map(drop))
            }
            other => other,
        }
    }

    /// Repeats what fails while something is busy, for some seconds.
    pub(crate) fn patiently(
        &mut self,
        attempt: impl FnMut(&mut Self) -> Result<(), Diagnostic>,
    ) -> Result<(), Diagnostic> {
        self.repeat_while_busy(BUSY, attempt)
    }

    /// Repeats what fails while something is busy, at most this number of times, 0.1 s apart.
    pub(crate) fn repeat_while_busy(
        &mut self,
        mut left: u32,
        mut attempt: impl FnMut(&mut Self) -> Result<(), Diagnostic>,
    ) -> Result<(), Diagnostic> {
        loop {
            match attempt(self) {
                Err(fault) if left > 0 && fault.message.contains("busy") => {
                    left -= 1;
                    self.commands.pop();
                    self.host.sleep(PAUSE);
                }
                other => return other,
            }
        }
    }

    /// The mounts at and below a path, the last mounted first.
    fn mounted_at(&self, path: &Path) -> Vec<Mount> {
        let mut mounts = mounts::own(self.host.roots());
        mounts.retain(|mount| mount.point.starts_with(path));
        mounts.reverse();
        mounts
    }

    /// Whether what a step has mounted is still mounted.
    fn has_mounted(&self, action: &Action, result: Option<&str>, point: &Path) -> bool {
        let mut mounts = self.mounted_at(point).into_iter();
        mounts.any(|mount| self.is_made_by(action, result, &mount))
    }

    /// Whether a step has made a mount.
    fn is_made_by(&self, action: &Action, result: Option<&str>, mount: &Mount) -> bool {
        match action {
            Action::Mount {
                kind,
                point,
                source,
                ..
            } => {
                // An interrupted step has not recorded the device.
                let device = result.filter(|device| !device.is_empty());
                let same = device.is_none_or(|device| device == mount.number.to_string());
                // The number of a file system without a device is given again.
                let named = !source.starts_with(TARGET) || mount.source == *source;
                mount.point == *point && mount.file_system == *kind && same && named
            }
            // On its folder, or on a file in it.
            Action::Server { point, .. } => {
                let there = mount.point == *point || mount.point.parent() == Some(point);
                there && mount.file_system.starts_with("fuse")
            }
            // The datasets of a pool whose server was ended.
            _ => {
                let token = self.mark.split('/').next().unwrap_or_default();
                mount.source.split('/').next() == Some(&zfs::pool(token))
            }
        }
    }

    /// Unmounts what a step has mounted at and below a path.
    ///
    /// # Errors
    /// Something else is mounted there, or it is busy.
    fn unmount(
        &mut self,
        action: &Action,
        result: Option<&str>,
        path: &Path,
    ) -> Result<(), Diagnostic> {
        let mounts = self.mounted_at(path);
        let others = mounts
            .iter()
            .find(|mount| !self.is_made_by(action, result, mount));
        // A step mounts once. What is mounted later is of others.
        let once = matches!(action, Action::Mount { .. } | Action::Server { .. });
        let second = mounts.first().filter(|_| once && mounts.len() > 1);
        if let Some(other) = others.or(second) {
            let (kind, point) = (&other.file_system, other.point.display());
            let message =
                format!("`{point}` is kept: iodyno did not mount the {kind} that is mounted there");
            let hint = format!("run `umount {point}`, then `iodyno clean`");
            return Err(Diagnostic::error(message).hint(hint));
        }
        for mount in mounts {
            let point = word(&mount.point).map_err(Diagnostic::error)?;
            let plain = self.patiently(|hands| hands.undo_by(&["umount", &point]).map(drop));
            // A FUSE file system whose server has died cannot be synced.
            let dead = |fault: &Diagnostic| fault.message.contains("endpoint");
            match plain {
                Err(fault) if dead(&fault) => drop(self.undo_by(&["umount", "--lazy", &point])?),
                Err(fault) if fault.message.contains("busy") => {
                    let hint = format!(
                        "end the processes that use it, which `fuser -vm {point}` lists, then run `iodyno clean`"
                    );
                    return Err(fault.hint(hint));
                }
                other => other?,
            }
        }
        Ok(())
    }

    /// The loop device that was `made` on a file, wherever that is by now. If it is not recorded, because iodyno was
    /// killed: the loop devices on this path that can be written to.
    fn loops(&self, file: &Path, made: Option<&str>) -> Vec<String> {
        let roots = self.host.roots();
        let class = roots.sys.join("block");
        let made = made.map(numbered);
        let ours = |name: &str| {
            let about = |what: &str| text(class.join(name).join(what));
            let Some(backing) = about("loop/backing_file") else {
                return false;
            };
            let at_path = Path::new(backing.trim_end_matches(" (deleted)")) == file;
            match made {
                None => at_path && about("ro").as_deref() != Some("1"),
                Some((device, _)) if roots.dev.join(name) != Path::new(device) => false,
                Some((_, Some(sequence))) => self.sequence(name).as_deref() == Some(sequence),
                // Linux has such numbers from version 5.15 on.
                Some((device, None)) => at_path || self.is_on(Path::new(device), file),
            }
        };
        let mut loops = names(&class);
        loops.retain(|name| ours(name));
        loops
    }

    /// The number that the kernel gives to each new disk, and to what is attached to a loop device.
    fn sequence(&self, name: &str) -> Option<String> {
        text(
            self.host
                .roots()
                .sys
                .join("block")
                .join(name)
                .join("diskseq"),
        )
    }

    /// Whether a loop device is on the image that was made at a path.
    fn is_on(&self, device: &Path, file: &Path) -> bool {
        let below = File::open(device).and_then(|device| loop_file(device.as_fd()));
        let known = self.inodes.get(file);
        below.is_ok_and(|below| known.is_some_and(|known| known.number == below.inode))
    }

    fn detach(&mut self, file: &Path, made: Option<&str>) -> Result<(), Diagnostic> {
        let mut left = BUSY;
        loop {
            let loops = self.loops(file, made);
            let Some(first) = loops.first() else {
                return Ok(());
            };
            if loops.len() > 1 {
                let message = format!(
                    "it is not known which loop device on `{}` iodyno made: {}",
                    file.display(),
                    loops.join(", ")
                );
                let hint = "detach them with `losetup --detach`, then run `iodyno clean`";
                return Err(Diagnostic::error(message).hint(hint));
            }
            // A busy device is detached when it is closed.
            if left == 0 {
                let message = format!("`/dev/{first}` is still attached to `{}`", file.display());
                return Err(Diagnostic::error(message).hint("end the processes that use it"));
            }
            if left < BUSY {
                self.host.sleep(PAUSE);
            }
            left -= 1;
            for name in &loops {
                let detached = self.undo_by(&["losetup", "--detach", &format!("/dev/{name}")]);
                // It may have been closed, and so detached, in between.
                if let Err(fault) = detached
                    && self.loops(file, made).contains(name)
                {
                    return Err(fault);
                }
            }
        }
    }

    /// The CPUs on which the processes with this mark may run, each list once: `0-3`.
    pub(crate) fn cpus_of(&self, mark: &str) -> String {
        let proc = &self.host.roots().proc;
        let mut lists: Vec<String> = Vec::new();
        for process in self.host.marked(mark) {
            let status = text(proc.join(process.to_string()).join("status")).unwrap_or_default();
            let mut lines = status.lines();
            let list = lines.find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
            let list = list.unwrap_or_default().trim().to_owned();
            if !list.is_empty() && !lists.contains(&list) {
                lists.push(list);
            }
        }
        lists.join("; ")
    }

    /// Ends the processes with this mark.
    pub(crate) fn end_processes(&self, mark: &str) {
        for (signal, pauses) in [(Signal::TERM, TERMINATED), (Signal::KILL, BUSY)] {
            let mut left = pauses;
            let mut marked = self.host.marked(mark);
            for process in &marked {
                self.host.kill(*process, mark, signal);
            }
            while left > 0 && !marked.is_empty() {
                marked = self.host.marked(mark);
                left -= 1;
                self.host.sleep(PAUSE / 10);
            }
        }
    }

    /// Empties a device after use, so that the next target on it is admitted, and records it as written by iodyno.
    /// Nothing is done to a device that is in use or is another one.
    fn release(&mut self, path: &Path, identity: Option<&Identity>, admitted_to: Owner) {
        let same = identity.is_some() && identify(path, self.host.roots()).as_ref() == identity;
        if same
            && self.guard.uses(path).is_empty()
            && let Ok(device) = word(path)
        {
            let _ = self.undo_by(&["wipefs", "--all", "--force", &device]);
            let _ = self.undo_by(&["blkdiscard", "--force", &device]);
            self.guard.record_after_death(admitted_to);
        }
    }
}

/// What a step made, and its [number](Hands::sequence), from the result of the step.
fn numbered(result: &str) -> (&str, Option<&str>) {
    match result.split_once(' ') {
        Some((made, sequence)) => (made, Some(sequence)),
        None => (result, None),
    }
}

/// The number of a compressed device that was intended, or made; see [`numbered`].
fn zram_of(intended: u32, result: Option<&str>) -> (String, Option<&str>) {
    match result.map(numbered) {
        Some((number, sequence)) => (number.to_owned(), sequence),
        None => (intended.to_string(), None),
    }
}

fn cannot(doing: &str, path: &Path, error: &io::Error) -> Diagnostic {
    Diagnostic::error(format!("cannot {doing} `{}`: {error}", path.display()))
}

/// The last lines of what a command printed, for an error message. A text of usage is left out: a line that begins
/// with `Usage:`, and the indented lines that follow it. cryptsetup prints it before or in place of its error.
fn last_lines(output: &str) -> String {
    let mut usage = false;
    let mut lines: Vec<&str> = Vec::new();
    for line in output.lines().filter(|line| !line.trim().is_empty()) {
        usage = line.starts_with("Usage:") || usage && line.starts_with([' ', '\t']);
        if !usage {
            lines.push(line);
        }
    }
    let last = &lines[lines.len().saturating_sub(3)..];
    match last.is_empty() {
        true => String::new(),
        false => format!("\n  cause: {}", last.join("\n         ")),
    }
}

fn make_file(path: &Path, size: u64, allocate: bool) -> io::Result<()> {
    let file = File::options().write(true).create_new(true).open(path)?;
    match allocate {
        true => rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, size)?,
        false => file.set_len(size)?,
    }
    Ok(())
}

/// The value of a setting now. For a file with a line for each device, the rest of the device's line; without a line,
/// the value that removes the limit.
pub(crate) fn current(host: &dyn Host, path: &Path, device: Option<&str>) -> io::Result<String> {
    let text = host.read(path)?;
    let Some(device) = device else {
        // Of several choices, the current one is in brackets.
        let chosen = text
            .split_once('[')
            .and_then(|(_, rest)| rest.split_once(']'));
        return Ok(chosen
            .map_or(text.as_str(), |(chosen, _)| chosen)
            .to_owned());
    };
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(device)?.strip_prefix(' '));
    let none = match path.ends_with("io.max") {
        true => "rbps=max wbps=max riops=max wiops=max",
        false => "0",
    };
    Ok(line.unwrap_or(none).to_owned())
}

/// Whether two texts of a setting mean the same: the kernel separates numbers with tabs.
pub(super) fn same_value(one: &str, other: &str) -> bool {
    one.split_whitespace().eq(other.split_whitespace())
}

/// The number of a device, `7:3`.
///
/// # Errors
/// The kernel does not know it.
pub(crate) fn number_of(host: &dyn Host, device: &Path) -> Result<String, Diagnostic> {
    let name = device.canonicalize().unwrap_or_else(|_| device.to_owned());
    let name = name
        .file_name()
        .map(|name| name.to_string_lossy().into_owned());
    let number = name.and_then(|name| device_number(host.roots(), &name));
    number.ok_or_else(|| {
        Diagnostic::error(format!("the kernel knows no device `{}`", device.display()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usage_that_a_command_prints_is_not_its_error() {
        let usage = "Usage: cryptsetup [-?VqrvyN] [-?|--help]\n        [--active-name=STRING]\n        [OPTION...] <action>\n";
        let error = "cryptsetup: Unsupported encryption sector size.";
        let cause = format!("\n  cause: {error}");
        assert_eq!(last_lines(&format!("{usage}{error}\n")), cause);
        assert_eq!(last_lines(&format!("{error}\n{usage}")), cause);
        assert_eq!(last_lines(usage), "");
        // Indented lines of an error stay.
        assert_eq!(last_lines("a\n  b\n"), "\n  cause: a\n           b");
    }
}
