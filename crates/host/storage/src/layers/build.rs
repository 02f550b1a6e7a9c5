//! Makes the layers of a target from the bottom up.

use std::io;
use std::path::{Path, PathBuf};

use iodyno_host::identity::identify;
use iodyno_host::{Owner, Roots, mounts, space, text};
use iodyno_model::{Diagnostic, FileSystemKind, Layer, Limits, Pinning, ZfsLayer, ZfsOrigin};

use super::action::{Action, TARGET};
use super::host::{number_of, word};
use super::host_ops::{HostOps, cannot};
use super::maker::admit;
use super::making::{COMMAND, Making, SETUP, Storage, image_name};
use super::mapped::DELAY_UNIT_NS;
use super::settings::{current, same_value, settings_in_force, sysctl_path};
use super::throttle::{self, OneWay};
use super::{fill, mapped, zfs};

impl Making<'_> {
    /// Makes everything on this host. Returns the path for the trials; with virtual machines, their first disk.
    pub(super) fn all(&mut self) -> Result<PathBuf, Diagnostic> {
        let provision = &self.request.provision;
        let roots = self.ops.host.roots();
        let sysctl = provision.sysctl.iter();
        let sysctl = sysctl.map(|(name, value)| (sysctl_path(roots, name), value.as_str()));
        self.settings(&sysctl.collect::<Vec<_>>())?;
        if provision.setup.is_some() || provision.teardown.is_some() {
            self.step(Action::Setup {
                command: provision.setup.clone(),
                teardown: provision.teardown.clone(),
            })?;
        }
        if let Some(command) = &provision.ready {
            self.await_ready(command)?;
        }
        let mut storage = Storage::Nothing;
        let mut lowest = Vec::new();
        for (number, layer) in provision.layers.iter().rev().enumerate() {
            let made = self.layer(number, layer, &storage)?;
            let facts = self.describe(layer, &made);
            self.add_facts(layer.kind(), facts);
            if let Layer::Vm(_) = layer {
                storage = made;
                break;
            }
            if let (Storage::Devices(devices), true) = (&made, lowest.is_empty()) {
                lowest.clone_from(devices);
            }
            storage = made;
        }
        self.queue_settings(&lowest)?;
        for (limits, devices) in std::mem::take(&mut self.throttled) {
            // The check would have to be made in a guest.
            if !self.guests.is_empty() {
                let unchecked = "not checked through the virtual machine".to_owned();
                self.add_facts("throttle", vec![("limits", unchecked)]);
            } else if storage.paths() != devices {
                self.check_through(&storage, &limits, &devices)?;
            }
        }
        let kinds: Vec<&str> = provision.layers.iter().map(Layer::kind).collect();
        self.facts.insert("layers".to_owned(), kinds.join(" on "));
        let zfs_fills =
            |layer: &Layer| matches!(layer, Layer::Zfs(zfs) if zfs.origin != ZfsOrigin::New);
        if provision.fill > 0 && self.guests.is_empty() && !provision.layers.iter().any(zfs_fills) {
            self.fill(&storage, provision.fill)?;
        }
        self.begin_failures()?;
        settings_in_force(self.ops.host, &self.journal)?;
        let paths = storage.paths();
        paths
            .first()
            .cloned()
            .ok_or_else(|| Diagnostic::error("there is no layer"))
    }

    /// Sets the queues of the lowest devices, once everything above is made: file systems, and new sectors of a loop
    /// device, change them. Also sets again what that changed of the host. The scheduler comes first: a new one has its
    /// own defaults.
    fn queue_settings(&mut self, devices: &[PathBuf]) -> Result<(), Diagnostic> {
        let provision = &self.request.provision;
        for (name, value) in &provision.sysctl {
            let path = sysctl_path(self.ops.host.roots(), name);
            if current(self.ops.host, &path, None).is_ok_and(|now| !same_value(&now, value)) {
                self.setting(path, None, value, None)?;
            }
        }
        let (first, rest): (Vec<_>, Vec<_>) = provision
            .queue
            .iter()
            .partition(|(name, _)| *name == "scheduler");
        let (mut wanted, mut kept) = (Vec::new(), Vec::new());
        for device in devices.iter().filter(|_| !provision.queue.is_empty()) {
            let path = queue_path(self.ops.host.roots(), device, READ_AHEAD)?;
            kept.extend(current(self.ops.host, &path, None).map(|now| (path, now)));
            for (name, value) in first.iter().chain(&rest) {
                let path = queue_path(self.ops.host.roots(), device, name)?;
                wanted.push((path, value.as_str()));
            }
        }
        // In the journal before the kernel changes it with another.
        let kept: Vec<_> = kept
            .iter()
            .map(|(path, now)| (path.clone(), now.as_str()))
            .collect();
        self.settings(&kept)?;
        self.settings(&wanted)
    }

    fn await_ready(&mut self, command: &str) -> Result<(), Diagnostic> {
        (self.ops.progress)(&format!("`{command}` until it succeeds"));
        self.ops.mark = format!("{}/ready", self.request.token);
        let ready = self.repeat(&["/bin/sh", "-c", command], SETUP);
        ready.map_err(|fault| fault.hint("`ready` must succeed within 600 s"))
    }

    fn layer(
        &mut self,
        number: usize,
        layer: &Layer,
        below: &Storage,
    ) -> Result<Storage, Diagnostic> {
        let name = number.to_string();
        match layer {
            Layer::Directory { path } => self.directory(path),
            Layer::Device { paths } => self.devices(paths),
            Layer::File {
                size,
                count,
                allocate,
            } => self.files(below, *size, *count, *allocate),
            Layer::Loop { direct, sector } => {
                let mut devices = Vec::new();
                for file in below.paths() {
                    devices.push(self.attach(file, *direct, *sector)?);
                }
                Ok(Storage::Devices(devices))
            }
            Layer::Zram {
                size,
                count,
                algorithm,
            } => self.zram(*size, *count, algorithm.as_ref()),
            Layer::Tmpfs { size } => {
                let source = format!("iodyno-{}", self.request.token);
                self.mount(&name, "tmpfs", source, vec![format!("size={size}")])
            }
            Layer::FileSystem { fs, mkfs, mount } => {
                self.file_system(&name, *fs, mkfs, mount, below)
            }
            Layer::Zfs(zfs) => self.zfs(&name, zfs, below),
            Layer::Overlay { mount } => self.overlay(&name, mount, below),
            Layer::Nfs(nfs) => self.nfs(&name, nfs, below),
            Layer::Throttle(limits) => self.throttle(limits, below),
            Layer::Delay {
                read_ns,
                write_ns,
                disks,
                pinning,
            } => match &disks[..] {
                [] => self.delay(&name, [*read_ns, *write_ns], pinning, below),
                disks => self.simulated_time(&name, disks, pinning, below),
            },
            Layer::Md(md) => self.md(&name, md, below),
            Layer::Dm(target) => self.dm(&name, target, below),
            Layer::Mirror(mirror) => self.mirror(&name, mirror, below),
            Layer::Virtiofs(server) => self.virtiofs(&name, server, below),
            Layer::Fuse(server) => self.fuse(&name, server, below),
            Layer::Vm(vm) => {
                let above = self
                    .request
                    .provision
                    .vm()
                    .map_or(&[][..], |(_, above)| above);
                self.vm(&name, vm, above, below.paths())?;
                let guest = self.guests.first();
                let disks = guest.map_or_else(Vec::new, |guest| guest.disks.clone());
                Ok(match (&vm.share, disks.first()) {
                    (Some(_), Some(folder)) => Storage::Folder(folder.clone()),
                    _ => Storage::Devices(disks),
                })
            }
        }
    }

    fn directory(&mut self, path: &Path) -> Result<Storage, Diagnostic> {
        let found = path.canonicalize();
        let path = found.map_err(|error| cannot("use the folder", path, &error))?;
        let path = path.join(format!("{TARGET}{}", self.request.token));
        // With image files in it, nothing else writes to it; those of a golden image are copied by commands.
        let layers = &self.request.provision.layers;
        let on_it = layers.iter().rev().nth(1);
        let images = matches!(on_it, Some(Layer::File { .. })) && self.request.golden.is_none();
        let folder = Action::outer_folder(path.clone(), images);
        self.step(folder)?;
        Ok(Storage::Folder(path))
    }

    fn devices(&mut self, paths: &[PathBuf]) -> Result<Storage, Diagnostic> {
        let admitted_to = std::process::id();
        let started = Owner::of(self.ops.host.roots(), admitted_to).map_or(0, |own| own.start);
        for path in paths {
            let admitted = admit(self.ops.guard, path, &self.request.destroy)?;
            self.step(Action::Device {
                path: path.clone(),
                identity: identify(path, self.ops.host.roots()),
                admitted_to,
                started,
            })?;
            drop(admitted);
            // Now that it is empty, everything on it is iodyno's own.
            let admitted = admit(self.ops.guard, path, &self.request.destroy)?;
            if let Some(device) = admitted.written_device() {
                // Without the record, the next run on it is refused.
                let _ = device.may_write(std::slice::from_ref(&(0..u64::MAX)));
            }
        }
        Ok(Storage::Devices(paths.to_vec()))
    }

    fn files(
        &mut self,
        below: &Storage,
        size: u64,
        count: u32,
        allocate: bool,
    ) -> Result<Storage, Diagnostic> {
        let folder = below.paths().first().cloned().unwrap_or_default();
        let golden = self.request.golden.as_ref();
        let golden = golden.map(|token| folder.with_file_name(format!("{TARGET}{token}")));
        let mut paths = Vec::new();
        for number in 0..count {
            let path = folder.join(image_name(number));
            if let Some(golden) = &golden {
                self.copied_disk(&golden.join(image_name(0)), &path, allocate)?;
                paths.push(path);
                continue;
            }
            // A clone has it already.
            if path.metadata().is_ok_and(|file| file.len() >= size) {
                paths.push(path);
                continue;
            }
            self.step(Action::File {
                path: path.clone(),
                size,
                allocate,
            })?;
            paths.push(path);
        }
        Ok(Storage::Files(paths))
    }

    fn zram(
        &mut self,
        size: u64,
        count: u32,
        algorithm: Option<&String>,
    ) -> Result<Storage, Diagnostic> {
        let mut devices = Vec::new();
        for _ in 0..count {
            devices.push(self.one_zram(size, algorithm)?);
        }
        Ok(Storage::Devices(devices))
    }

    fn one_zram(&mut self, size: u64, algorithm: Option<&String>) -> Result<PathBuf, Diagnostic> {
        // No other target is given this number.
        let _alone = self.ops.lock(self.ops.stop)?;
        let roots = self.ops.host.roots().clone();
        for _ in 0..ZRAM_TRIES {
            // The kernel gives the lowest free number.
            let block = roots.sys.join("block");
            let mut numbers = 0..;
            let number = numbers.find(|number| !block.join(format!("zram{number}")).exists());
            let made = self.step(Action::Zram {
                number: number.unwrap_or_default(),
                size,
                algorithm: algorithm.cloned(),
            })?;
            if !made.is_empty() {
                let number = made.split(' ').next().unwrap_or_default();
                return Ok(roots.dev.join(format!("zram{number}")));
            }
        }
        let message = "another program takes each new number of a compressed device";
        Err(Diagnostic::error(message).hint("end it, or try again later"))
    }

    fn file_system(
        &mut self,
        name: &str,
        fs: FileSystemKind,
        mkfs: &[String],
        mount: &[String],
        below: &Storage,
    ) -> Result<Storage, Diagnostic> {
        let devices = below.words()?;
        let program = format!("mkfs.{}", fs.name());
        let mut words = vec![program.as_str(), "-q"];
        // Discarding would free the reserved blocks of the files below.
        let reserved = |layer: &Layer| matches!(layer, Layer::File { allocate: true, .. });
        let keep = self.request.provision.layers.iter().any(reserved);
        match (fs, keep) {
            (FileSystemKind::Ext4, _) => {
                // Otherwise the kernel writes the inode tables while trials run.
                let settled = match keep {
                    true => "lazy_itable_init=0,lazy_journal_init=0,nodiscard",
                    false => "lazy_itable_init=0,lazy_journal_init=0",
                };
                words.push("-F");
                if !mkfs.iter().any(|word| word.starts_with("-E")) {
                    words.extend(["-E", settled]);
                }
            }
            (_, true) => words.extend(["-f", "-K"]),
            (_, false) => words.push("-f"),
        }
        words.extend(mkfs.iter().map(String::as_str));
        words.extend(devices.iter().map(String::as_str));
        self.run(&words)?;
        let mut options = mount.to_vec();
        // Without udev, the kernel does not know the other devices of the file system.
        let others = devices.iter().skip(1);
        options.extend(others.map(|device| format!("device={device}")));
        let source = devices.first().cloned().unwrap_or_default();
        let storage = self.mount(name, fs.name(), source, options)?;
        if fs != FileSystemKind::Btrfs {
            return Ok(storage);
        }
        // A subvolume can be replaced by a snapshot.
        let trial = storage.paths()[0].join("trial");
        let path = word(&trial)?;
        self.run(&["btrfs", "subvolume", "create", &path])?;
        Ok(Storage::Folder(trial))
    }

    fn overlay(
        &mut self,
        name: &str,
        mount: &[String],
        below: &Storage,
    ) -> Result<Storage, Diagnostic> {
        let folder = below.words()?.remove(0);
        let mut options = Vec::new();
        for kind in ["lower", "upper", "work"] {
            let path = format!("{folder}/{kind}");
            self.step(Action::folder(PathBuf::from(&path)))?;
            options.push(format!("{kind}dir={path}"));
        }
        options.extend_from_slice(mount);
        let source = format!("iodyno-{}", self.request.token);
        self.mount(name, "overlay", source, options)
    }

    fn zfs(
        &mut self,
        name: &str,
        layer: &ZfsLayer,
        below: &Storage,
    ) -> Result<Storage, Diagnostic> {
        let point = self.mount_point(name)?;
        let devices = self.vdevs(below)?;
        let token = &self.request.token;
        if !zfs::in_kernel(self.ops.host) {
            let log = self.mounts.join("zfs-fuse.log");
            let pinning = layer.pinning.clone();
            self.step(Action::ZfsFuse { log, pinning })?;
        }
        self.step(Action::Pool {
            name: zfs::pool(token),
            arguments: zfs::create(token, layer, &devices),
        })?;
        let data = zfs::dataset(token);
        let mount_point = word(&point)?;
        if layer.origin == ZfsOrigin::New {
            return self.each_data(layer, &point, &|making, name| {
                making.create_data(name, layer, &mount_point)
            });
        }
        let original = format!("{}/original", zfs::pool(token));
        let original_point = self.mount_point("original")?;
        let original_path = word(&original_point)?;
        self.create_data(&original, layer, &original_path)?;
        let source = self.data(layer, &original, &original_point)?;
        self.fill(&source, self.request.provision.fill)?;
        let snapshot = format!("{original}@original");
        self.run(&["zfs", "snapshot", &snapshot])?;
        let place = format!("mountpoint={mount_point}");
        let clone = |making: &mut Self, name: &str| match layer.volume {
            Some(_) => making.run(&["zfs", "clone", &snapshot, name]),
            None => making.run(&["zfs", "clone", "-o", &place, &snapshot, name]),
        };
        if layer.origin == ZfsOrigin::Clone {
            return self.each_data(layer, &point, &clone);
        }
        clone(self, &data)?;
        let made = self.data(layer, &data, &point)?;
        let from = match &made {
            Storage::Folder(folder) => folder.join(image_name(0)),
            other => other.paths()[0].clone(),
        };
        self.copies(layer, &from)
    }

    /// Makes copies of a file or device, each in a dataset of its own.
    fn copies(&mut self, layer: &ZfsLayer, from: &Path) -> Result<Storage, Diagnostic> {
        let plain = ZfsLayer {
            volume: None,
            ..layer.clone()
        };
        let mut made = Vec::new();
        for number in 0..layer.instances() {
            let point = self.mount_point(&zfs::numbered("copy", number))?;
            let name = zfs::numbered(&zfs::copies(&self.request.token), number);
            self.create_data(&name, &plain, &word(&point)?)?;
            let to = point.join(image_name(0));
            let (input, output) = (
                format!("if={}", from.display()),
                format!("of={}", to.display()),
            );
            self.run(&["dd", &input, &output, "bs=1M", "conv=fsync"])?;
            made.push(to);
        }
        Ok(Storage::Files(made))
    }

    /// Makes volumes, or a dataset, under numbered names.
    fn each_data(
        &mut self,
        layer: &ZfsLayer,
        point: &Path,
        make: &dyn Fn(&mut Self, &str) -> Result<(), Diagnostic>,
    ) -> Result<Storage, Diagnostic> {
        let mut devices = Vec::new();
        for number in 0..layer.instances() {
            let name = zfs::numbered(&zfs::dataset(&self.request.token), number);
            make(self, &name)?;
            match self.data(layer, &name, point)? {
                Storage::Devices(volume) => devices.extend(volume),
                folder => return Ok(folder),
            }
        }
        Ok(Storage::Devices(devices))
    }

    fn create_data(&mut self, name: &str, layer: &ZfsLayer, point: &str) -> Result<(), Diagnostic> {
        self.run(&zfs::create_data(name, layer, point))
    }

    /// The devices or files of a pool. In a guest, which has no udev, disks are used by a partition.
    fn vdevs(&mut self, below: &Storage) -> Result<Vec<String>, Diagnostic> {
        let mut devices = below.words()?;
        if let (true, Storage::Devices(paths)) = (self.in_guest(), below) {
            for (device, path) in devices.iter_mut().zip(paths) {
                let found = zfs::partition(self.ops.host.roots(), path);
                let Some((command, partition)) = found else {
                    continue;
                };
                self.step(Action::Run { command })?;
                self.await_path(&partition)?;
                *device = word(&partition)?;
            }
        }
        Ok(devices)
    }

    /// The folder of a dataset, or the device of a volume, which appears when the kernel has made it.
    fn data(&mut self, layer: &ZfsLayer, name: &str, point: &Path) -> Result<Storage, Diagnostic> {
        if layer.volume.is_none() {
            return Ok(Storage::Folder(point.to_owned()));
        }
        let find = |ops: &mut HostOps<'_>| zfs::volume_device(ops.host.roots(), name);
        let device = self.ops.wait_for(find).ok_or_else(|| {
            let message = format!("the device of the volume `{name}` did not appear within 10 s");
            Diagnostic::error(message)
        })?;
        Ok(Storage::Devices(vec![device]))
    }

    fn delay(
        &mut self,
        name: &str,
        spans_ns: [u64; 2],
        pinning: &Pinning,
        below: &Storage,
    ) -> Result<Storage, Diagnostic> {
        let mut devices = Vec::new();
        for (number, path) in below.words()?.into_iter().enumerate() {
            let point = self.mount_point(&format!("{name}-{number}"))?;
            let file = point.join("nbd");
            let [read, write] = spans_ns.map(|ns| ns / DELAY_UNIT_NS);
            let command = [
                "nbdfuse".to_owned(),
                word(&file)?,
                "--command".to_owned(),
                "nbdkit".to_owned(),
                "--single".to_owned(),
                "--exit-with-parent".to_owned(),
                "--threads=64".to_owned(),
                "--filter=delay".to_owned(),
                "file".to_owned(),
                format!("file={path}"),
                format!("rdelay={read}ms"),
                format!("wdelay={write}ms"),
            ];
            let log = point.with_extension("log");
            self.step(Action::Server {
                command: pinning.command(&command),
                point,
                log: log.clone(),
            })?;
            if !pinning.is_none() {
                let cpus = self.ops.cpus_of(&self.ops.mark);
                self.add_facts("delay", vec![("server cpus", cpus)]);
            }
            let log = log.as_path();
            self.await_path(&file).map_err(|fault| {
                let output = text(log).unwrap_or_default();
                let message = format!("{}\n  cause: {output}", fault.message);
                Diagnostic { message, ..fault }
            })?;
            devices.push(self.attach(&file, true, None)?);
        }
        Ok(Storage::Devices(devices))
    }

    fn throttle(&mut self, limits: &Limits, below: &Storage) -> Result<Storage, Diagnostic> {
        for device in below.paths() {
            let number = number_of(self.ops.host, device)?;
            for (path, value) in throttle::settings(self.ops.host.roots(), limits)? {
                self.setting(path, Some(number.clone()), &value, None)?;
            }
        }
        (self.ops.progress)("check of the limits of the devices");
        let achieved = throttle::check(self.ops.host, below.paths(), limits, self.ops.stop)?;
        self.add_facts("throttle", achieved);
        self.throttled.push((*limits, below.paths().to_vec()));
        Ok(below.clone())
    }

    /// Checks limits through the layers above: the kernel thread or server that does their I/O may not be in the
    /// control group.
    fn check_through(
        &mut self,
        top: &Storage,
        limits: &Limits,
        devices: &[PathBuf],
    ) -> Result<(), Diagnostic> {
        let request = self.request;
        let kind = request.provision.layers.first().map_or("", Layer::kind);
        (self.ops.progress)(&format!("check of the limits through {kind}"));
        let (host, stop) = (self.ops.host, self.ops.stop);
        let failed = |error: io::Error| {
            let message = format!("cannot check the limits through `{kind}`: {error}");
            Diagnostic::error(message)
        };
        let mut achieved = Vec::new();
        let file = match top {
            Storage::Folder(folder) => folder.join("iodyno-check"),
            other => other.paths().first().cloned().unwrap_or_default(),
        };
        if let Storage::Folder(folder) = top {
            let free = space::room(folder).map_or(0, |room| room.bytes);
            let bytes = throttle::amount(limits, devices.len(), free);
            let before = throttle::counts(host, devices);
            let span = host.fill(&file, bytes, stop).map_err(failed)?;
            let moved = before.since(host, bytes, span);
            achieved.extend(throttle::holds_through(
                kind,
                OneWay::writes(limits),
                &moved,
            )?);
        }
        self.empty_caches()?;
        let before = throttle::counts(host, devices);
        let (bytes, span) = host
            .read_cold(&file, throttle::SPAN, stop)
            .map_err(failed)?;
        // Without a file of its own, it is not known whether there was anything to read.
        let bytes = match top {
            Storage::Folder(_) => bytes,
            _ => 0,
        };
        let moved = before.since(host, bytes, span);
        achieved.extend(throttle::holds_through(
            kind,
            OneWay::reads(limits),
            &moved,
        )?);
        if let Storage::Folder(_) = top {
            std::fs::remove_file(&file).map_err(failed)?;
        }
        self.add_facts("throttle", achieved);
        Ok(())
    }

    fn empty_caches(&mut self) -> Result<(), Diagnostic> {
        let links = self.mounts.join("devices");
        zfs::empty_caches(&mut self.ops, &self.journal, &links)
    }

    fn fill(&mut self, storage: &Storage, bytes: u64) -> Result<(), Diagnostic> {
        let path = match storage {
            Storage::Folder(folder) => folder.join(image_name(0)),
            other => other.paths().first().cloned().unwrap_or_default(),
        };
        (self.ops.progress)(&format!("random data in {}", path.display()));
        fill::random_data(&path, bytes, self.ops.stop)
            .map_err(|error| cannot("fill", &path, &error))
    }

    /// What is known of a layer that was made.
    fn describe(&mut self, layer: &Layer, made: &Storage) -> Vec<(&'static str, String)> {
        let roots = self.ops.host.roots().clone();
        match layer {
            Layer::FileSystem { .. }
            | Layer::Tmpfs { .. }
            | Layer::Overlay { .. }
            | Layer::Nfs(_)
            | Layer::Fuse(_) => {
                let path = &made.paths()[0];
                let mounts = mounts::own(&roots);
                let found = mounts
                    .iter()
                    .rev()
                    .find(|mount| path.starts_with(&mount.point));
                found
                    .map(|mount| {
                        let options = format!("{},{}", mount.options, mount.super_options);
                        ("options", without_repetitions(&options))
                    })
                    .into_iter()
                    .collect()
            }
            Layer::Loop { .. } => {
                let devices = made.paths().iter();
                let direct = devices.map(|device| {
                    let name = device.file_name().unwrap_or_default();
                    text(roots.sys.join("block").join(name).join("loop/dio")).unwrap_or_default()
                });
                let all = direct.collect::<Vec<_>>().iter().all(|value| value == "1");
                vec![("direct_io", if all { "on" } else { "off" }.to_owned())]
            }
            Layer::Zfs(zfs) => self.describe_zfs(zfs),
            _ => Vec::new(),
        }
    }

    fn describe_zfs(&mut self, layer: &ZfsLayer) -> Vec<(&'static str, String)> {
        let token = &self.request.token;
        let (pool, data) = (
            zfs::pool(token),
            match layer.origin {
                ZfsOrigin::Copy => zfs::copies(token),
                _ => zfs::dataset(token),
            },
        );
        let implementation = match zfs::in_kernel(self.ops.host) {
            true => "kernel",
            false => "zfs-fuse",
        };
        let mut facts = vec![("implementation", implementation.to_owned())];
        if !layer.pinning.is_none() {
            facts.push(("server cpus", zfs::server_cpus(&self.ops)));
        }
        let get = ["zfs", "get", "-H", "-o", "property,value", "all", &data];
        let status = ["zpool", "status", &pool];
        for (name, words) in [("properties", get.as_slice()), ("status", &status)] {
            facts.extend(self.ops.run(words, COMMAND).ok().map(|text| (name, text)));
        }
        facts
    }
}

/// How often a compressed device is made again because another program took its number.
const ZRAM_TRIES: u32 = 50;

/// `rw,noatime,rw` → `rw,noatime`.
fn without_repetitions(options: &str) -> String {
    let mut found: Vec<&str> = Vec::new();
    for option in options.split(',').filter(|option| !option.is_empty()) {
        if !found.contains(&option) {
            found.push(option);
        }
    }
    found.join(",")
}

/// The setting of a queue that the kernel resets with others.
const READ_AHEAD: &str = "read_ahead_kb";

/// The file of a queue setting; partitions share their disk's queue.
fn queue_path(roots: &Roots, device: &Path, name: &str) -> Result<PathBuf, Diagnostic> {
    let block = mapped::block(roots, device)?;
    let disk = block.parent().unwrap_or(block);
    Ok(roots
        .sys
        .join("class/block")
        .join(disk.name)
        .join("queue")
        .join(name))
}
