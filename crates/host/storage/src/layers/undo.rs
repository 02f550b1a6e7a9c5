//! How each action is undone.
//!
//! Invariant: undoing an action depends on the action and on the state of the host only. It may therefore be undone
//! whether it was completed, was interrupted, was already undone, or never began. Everything that is removed bears the
//! token of its target in its name, or is identified by what the intent says.

use std::fs::{self, File};
use std::os::fd::AsFd;
use std::path::Path;

use iodyno_host::identity::identify;
use iodyno_host::mounts::{self, Mount};
use iodyno_host::{Owner, names, text};
use iodyno_model::printable::{shell_path, shell_word};
use iodyno_model::{Diagnostic, Identity};
use iodyno_sys::host::loop_file;

use crate::journal::{Journal, not_recorded};

use super::action::{Action, TARGET, system_of};
use super::host::word;
use super::host_ops::{BUSY, Cause, Failure, HostOps, PAUSE, cannot};
use super::provisioned::{self, ProvisionedInode};
use super::settings::{current, keeping_others, same_value};
use super::{mapped, nfs, zfs};

/// Who undoes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum By {
    /// The process that uses the target.
    Owner,
    /// `clean`, in the boot in which it was made, or in a later one: then all that the kernel keeps in memory is gone.
    Clean { same_boot: bool },
}

/// Undoes all steps of a journal in reverse order, and removes the journal. After a failure, only settings of the host
/// are undone, and the journal is kept.
pub(super) fn undo(ops: &mut HostOps<'_>, mut journal: Journal, by: By) -> Undone {
    ops.inodes = provisioned::inodes(&journal.steps);
    let left = (0..journal.steps.len()).filter(|number| !journal.steps[*number].undone);
    let left: Vec<usize> = left.collect();
    if let Some(last) = left.last() {
        // Only the last one can have been interrupted.
        ops.mark = journal.mark(*last);
        ops.end_commands(journal.steps[*last].result.is_none());
    }
    for number in &left {
        ops.mark = journal.mark(*number);
        ops.calm(&journal.steps[*number].action);
    }
    let mut undone = Undone::default();
    for number in left.into_iter().rev() {
        let step = journal.steps[number].clone();
        // What is below the step that failed is in use. Settings of the host are not.
        let of_host = matches!(step.action, Action::Setting { device: None, .. });
        if !undone.faults.is_empty() && !of_host {
            continue;
        }
        ops.mark = journal.mark(number);
        let result = step.result.as_deref();
        if ops.in_place(&step.action, result, by) {
            let what = step.action.to_string();
            (ops.progress)(&what);
            let remove = |ops: &mut HostOps<'_>| ops.remove(&step.action, result);
            if let Err(fault) = keeping_others(ops, &journal.steps, &step.action, remove) {
                let mut hint = "remove the cause, then run `iodyno clean`".to_owned();
                if matches!(
                    step.action,
                    Action::Setup { .. } | Action::Folder { .. } | Action::File { .. }
                ) {
                    let file = journal.path.display();
                    hint += &format!("; if all of the storage is gone, remove the file `{file}`");
                }
                undone.faults.push(match fault.hint {
                    Some(_) => fault,
                    None => fault.hint(hint),
                });
                continue;
            }
            undone.done.push(what);
        }
        if let Err(error) = journal.undone(number, ops.host) {
            undone.faults.push(not_recorded(&error.to_string()));
            return undone;
        }
    }
    if undone.faults.is_empty()
        && let Err(error) = journal.remove()
    {
        undone.faults.push(not_recorded(&error.to_string()));
    }
    undone
}

/// What was undone of a target, in this order, and what remains.
#[derive(Debug, Default)]
pub(super) struct Undone {
    pub(super) done: Vec<String>,
    pub(super) faults: Vec<Diagnostic>,
}

impl HostOps<'_> {
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
                // A device of another size was made by another program; one in another journal belongs to that target.
                let fits = found.is_some_and(|found| found == "0" || found == size.to_string());
                same_boot && fits && same && (result.is_some() || !self.is_of_another(&number))
            }
            Action::Mount { point, .. } => same_boot && self.has_mounted(action, result, point),
            Action::Server { point, .. } => {
                same_boot && self.has_mounted(action, result, point)
                    || !self.host.marked(&self.mark).is_empty()
            }
            Action::ZfsFuse { .. } => {
                zfs::server_is_idle(self)
                    || same_boot && zfs::is_left_behind(self, result.unwrap_or_default())
            }
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
                // A value that another program has set meanwhile is kept. If the value was not to change, the kernel
                // changed it together with another setting.
                let kept = same_value(value, before);
                let ours = |now: &str| match device {
                    Some(_) => now != before,
                    None => (kept || same_value(now, value)) && !same_value(now, before),
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

    /// Undoes an action that is [in place](HostOps::in_place).
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
                let made = ProvisionedInode::open(path, &self.inodes).map_err(failed)?;
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
            Action::File { path, .. } => ProvisionedInode::open(path, &self.inodes)
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
            Action::ZfsFuse { .. } => zfs::stop_server(self, result.unwrap_or_default()),
            Action::Pool { name, .. } => {
                let _alone = zfs::alone(self, &|| false)?;
                self.destroy_pool(name)
            }
            Action::NfsServer { .. } => nfs::stop(self),
            Action::Array { name, members, .. } => self.stop_array(name, members),
            Action::Mapped { name, .. } => {
                self.patiently(|ops| {
                    let removed = ops.undo_by(&["dmsetup", "remove", "--retry", name]);
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
            } => self
                .set(path, device.as_deref(), before)
                .map_err(Diagnostic::from),
            Action::Setup { teardown, .. } => match teardown {
                Some(command) => {
                    self.undo_by(&["/bin/sh", "-c", command])?;
                    Ok(())
                }
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
            ProvisionedInode::open(path, &self.inodes)
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
            // If I/O still fails, unmounting reports it.
            let _ = self.undo_by(&["dmsetup", "load", name, "--table", table]);
            let _ = self.undo_by(&["dmsetup", "resume", name]);
        }
    }

    fn stop_array(&mut self, name: &str, members: &[String]) -> Result<(), Diagnostic> {
        let device = self.host.roots().dev.join(mapped::array_device(name));
        let device = word(&device)?;
        self.patiently(|ops| ops.undo_by(&["mdadm", "--stop", &device]).map(drop))?;
        // Otherwise udev may assemble it again.
        let mut words = vec!["mdadm", "--zero-superblock"];
        words.extend(members.iter().map(String::as_str));
        let _ = self.undo_by(&words);
        // Without udev, mdadm does not remove the link that it made.
        let _ = fs::remove_file(self.host.roots().dev.join("md").join(name));
        Ok(())
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
    /// busy, and a server that iodyno started and that has only pools to be destroyed is ended instead: they are not
    /// imported again.
    fn destroy_pool(&mut self, name: &str) -> Result<(), Diagnostic> {
        let own = format!("{name}/");
        let mounts = mounts::own(self.host.roots()).into_iter();
        let points = mounts.filter(|mount| mount.source.starts_with(&own));
        for point in points.map(|mount| mount.point).collect::<Vec<_>>() {
            // Answered after the messages before it.
            let point = word(&point)?;
            let _ = self.undo_by(&["stat", "-f", &point]);
        }
        let plain = self.patiently(|ops| ops.undo_by(&["zpool", "destroy", name]).map(drop));
        let destroyed = match plain {
            // Its server was ended for another target meanwhile.
            Err(_) if !zfs::is_imported(self, name) => Ok(()),
            Err(failure) if failure.cause == Cause::Busy && zfs::can_end_server(self) => {
                zfs::end_server(self);
                Ok(())
            }
            Err(failure) if failure.cause == Cause::Busy => {
                self.patiently(|ops| ops.undo_by(&["zpool", "destroy", "-f", name]).map(drop))
            }
            other => other,
        };
        destroyed.map_err(Diagnostic::from)
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
            let hint = format!(
                "run `umount {}`, then `iodyno clean`",
                shell_path(&other.point)
            );
            return Err(Diagnostic::error(message).hint(hint));
        }
        for mount in mounts {
            let point = word(&mount.point)?;
            let plain = self.patiently(|ops| ops.undo_by(&["umount", &point]).map(drop));
            let Err(Failure { fault, cause }) = plain else {
                continue;
            };
            match cause {
                // A FUSE file system whose server has died cannot be synced.
                Cause::DeadServer => drop(self.undo_by(&["umount", "--lazy", &point])?),
                Cause::Busy => {
                    let hint = format!(
                        "end the processes that use it, which `fuser -vm {}` lists, then run `iodyno clean`",
                        shell_word(&point)
                    );
                    return Err(fault.hint(hint));
                }
                Cause::Other => return Err(*fault),
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
                if let Err(failure) = detached
                    && self.loops(file, made).contains(name)
                {
                    return Err(failure.into());
                }
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

/// What a step made, and its [number](HostOps::sequence), from the result of the step.
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
