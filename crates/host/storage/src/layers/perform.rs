//! How each action is performed.

use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::time::Duration;

use iodyno_model::Diagnostic;
use rustix::fs::FallocateFlags;

use super::action::Action;
use super::host::word;
use super::host_ops::{HostOps, cannot};
use super::settings::{current, same_value};
use super::{mapped, nfs, provisioned, zfs};

impl HostOps<'_> {
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
                let made = made.and_then(|()| provisioned::result(path));
                return made.map_err(|error| cannot("create the folder", path, &error));
            }
            Action::File {
                path,
                size,
                allocate,
            } => {
                let made =
                    make_file(path, *size, *allocate).and_then(|()| provisioned::result(path));
                return made.map_err(|error| cannot("create the image file", path, &error));
            }
            Action::Device { path, .. } => {
                // Not every device can discard. What remains is overwritten by the new file system.
                let device = word(path)?;
                let _ = self.run(&["blkdiscard", "--force", &device], limit);
                self.run(&["wipefs", "--all", "--force", &device], limit)?;
            }
            Action::Loop {
                file,
                direct,
                sector,
            } => return self.attach_loop(file, *direct, *sector, limit),
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
            } => return self.mount((kind, source), point, options, limit),
            Action::Server { command, log, .. } => self.start(command, log)?,
            Action::ZfsFuse { log, pinning } => {
                zfs::start_server(self, log, pinning)?;
                return Ok(zfs::server_mark(self.host));
            }
            Action::Pool { arguments, .. } => {
                let create = ["zpool", "create"].map(str::to_owned);
                let _alone = zfs::alone(self, self.stop)?;
                self.run(&[&create[..], arguments].concat(), limit)?;
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
                let config = word(settings)?;
                let (config, device) = (format!("--config={config}"), format!("/dev/md/{name}"));
                let create = ["mdadm", "--create", &device, &config].map(str::to_owned);
                self.run(&[&create[..], arguments, members].concat(), limit)?;
            }
            Action::Mapped { name, command, .. } => {
                self.run(command, limit)?;
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
            Action::Run { command } => drop(self.run(command, limit)?),
        }
        Ok(String::new())
    }

    /// Attaches a loop device. Returns it, and the number that the kernel gives to what is attached.
    fn attach_loop(
        &mut self,
        file: &Path,
        direct: bool,
        sector: Option<u32>,
        limit: Duration,
    ) -> Result<String, Diagnostic> {
        let file = word(file)?;
        let direct = format!("--direct-io={}", if direct { "on" } else { "off" });
        let sector = sector.map(|bytes| format!("--sector-size={bytes}"));
        let mut words = vec!["losetup", "--find", "--show", &direct];
        words.extend(sector.as_deref());
        words.push(&file);
        let device = self.run(&words, limit)?.trim().to_owned();
        let name = device.rsplit('/').next().unwrap_or_default();
        let sequence = self.sequence(name).map(|number| format!(" {number}"));
        Ok(device + &sequence.unwrap_or_default())
    }

    /// Mounts a file system of this type from this source. Returns its device number.
    fn mount(
        &mut self,
        (kind, source): (&str, &str),
        point: &Path,
        options: &[String],
        limit: Duration,
    ) -> Result<String, Diagnostic> {
        let target = word(point)?;
        let options = options.join(",");
        let mut words = vec!["mount", "-t", kind];
        if !options.is_empty() {
            words.extend(["-o", &options]);
        }
        words.extend([source, &target]);
        self.run(&words, limit)?;
        let mounts = self.mounted_at(point).into_iter();
        let made = mounts.map(|mount| mount.number.to_string()).next();
        Ok(made.unwrap_or_default())
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
}

fn make_file(path: &Path, size: u64, allocate: bool) -> io::Result<()> {
    let file = File::options().write(true).create_new(true).open(path)?;
    match allocate {
        true => rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, size)?,
        false => file.set_len(size)?,
    }
    Ok(())
}
