//! Virtual machines on the files or devices below.
//!
//! Each is a server process: qemu. The layers above are not made here but by the nodes within the guests, which are
//! reached through [`Guest::socket`]. Invariant: a guest that was made has answered.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::guest::port::PortError;
use crate::guest::{
    ACCELERATION_LIMIT, Boot, GuestError, Image, Kernel, Machine, ModuleTree, disk_path,
    modules_of, share_path, ssh,
};
use iodyno_host::{meminfo_bytes, text};
use iodyno_model::{
    Acceleration, Diagnostic, DiskBackend, DiskCache, DiskInterface, DiskOrigin, Layer, Provision,
    Shape, VmDisk, VmLayer, server_program,
};
use iodyno_units::Bytes;
use rustix::fs::Access;

use super::action::Action;
use super::host::{Host, this_program, word};
use super::host_ops::cause;
use super::making::{Making, NotBooted};
use super::request::Guest;
use super::served::{self, MAX_SOCKET_LEN, is_installed, meant_or};
use super::tools::{not_installed, tools};
use super::vm_image::{self, Overlay, QEMU_IMG};
use super::zfs;

/// The module of OpenZFS.
const ZFS: &str = "zfs";

/// How often a guest that boots too slowly is started again.
const MAX_RESTARTS: u32 = 2;

/// A kernel with an initramfs of this program.
#[derive(Debug, Clone)]
struct OwnBoot {
    kernel: Kernel,
    initramfs: PathBuf,
    /// See [`Boot::Initramfs`].
    counter_khz: Option<u64>,
}

impl OwnBoot {
    fn boot(&self) -> Boot<'_> {
        Boot::Initramfs {
            kernel: &self.kernel.image,
            initramfs: &self.initramfs,
            counter_khz: self.counter_khz,
        }
    }
}

/// What the host lacks to start these virtual machines. `below`: what is below them.
pub(super) fn faults(
    host: &dyn Host,
    provision: &Provision,
    mounts: &Path,
    below: Shape,
) -> Vec<Diagnostic> {
    let Some((vm, above)) = provision.vm() else {
        return Vec::new();
    };
    let lower = provision.layers.get(above.len() + 1);
    let mut faults = layout_faults(vm, above, lower.map_or("", Layer::kind), below);
    let each = (below.count() / vm.guests.max(1)) as usize;
    for command in vm.servers().filter(|command| !is_installed(host, command)) {
        let program = server_program(command);
        let message = format!("`{program}`, a server of the virtual machines, is not installed");
        let hint = "install it: Debian has the packages `virtiofsd` and `qemu-system-common` \
                    (`/usr/lib/qemu/virtiofsd`, `qemu-storage-daemon`)";
        faults.push(Diagnostic::error(message).hint(meant_or(program, hint)));
    }
    if disks_with_storage(vm, each).count() > VmDisk::MAX_SERVED
        && vm.disk().interface == DiskInterface::VhostUserBlk
    {
        let most = VmDisk::MAX_SERVED;
        let message = format!("a guest has at most {most} disks with `vhost-user-blk`");
        faults.push(Diagnostic::error(message).hint("lower `file.count`"));
    }
    faults.extend(golden_faults(host, provision, vm.disk().origin));
    faults.extend(host_faults(host, vm, mounts));
    if let Some(image) = &vm.image {
        faults.extend(vm_image::faults(host, image));
        return faults;
    }
    // What is in the guest is not known without a kernel.
    match kernel(host, vm).and_then(|kernel| ModuleTree::read(&kernel.modules)) {
        Ok(tree) => {
            let mut modules = modules_of(vm, each, above);
            if above.iter().any(is_zfs) && !(has_zfs(host, vm) && tree.has(ZFS)) {
                let message = format!(
                    "there is no OpenZFS for the guests' kernel {}",
                    tree.release()
                );
                let hint = "build it with `make guest-zfs`, or put `zfs` below `vm`";
                faults.push(Diagnostic::error(message).hint(hint));
                modules.retain(|name| *name != ZFS);
            }
            let order = tree.load_order(&modules);
            faults.extend(order.err().map(|error| diagnostic(&error)));
        }
        Err(error) => faults.push(diagnostic(&error)),
    }
    faults
}

/// What is wrong with the layers above, and with how the guests share what is below.
fn layout_faults(vm: &VmLayer, above: &[Layer], lower: &str, below: Shape) -> Vec<Diagnostic> {
    let mut faults = Vec::new();
    let mut fault = |message: String, hint: &str| {
        faults.push(Diagnostic::error(message).hint(hint));
    };
    for layer in above {
        if let Some((message, hint)) = VmLayer::refused_above(layer.kind()) {
            fault(message, hint);
        }
    }
    if let Some((message, hint)) = VmLayer::share_fault(vm.share.is_some(), below) {
        fault(message.to_owned(), hint);
    }
    if let Some((message, hint)) = vm.guests_fault(lower, below) {
        fault(message, hint);
    }
    for disk in &vm.disks {
        for wrong in disk.faults() {
            fault(wrong.message, &wrong.hint);
        }
    }
    faults
}

/// The programs, devices and memory that the host lacks.
fn host_faults(host: &dyn Host, vm: &VmLayer, mounts: &Path) -> Vec<Diagnostic> {
    let mut faults = Vec::new();
    let mut fault = |message: String, hint: &str| {
        faults.push(Diagnostic::error(message).hint(hint));
    };
    if std::env::consts::ARCH != "x86_64" {
        let message = "virtual machines need a host of the architecture x86_64".to_owned();
        fault(message, "leave `vm` out");
    }
    faults.extend(not_installed(
        host,
        Machine::PROGRAM,
        "vm",
        "qemu-system-x86",
    ));
    let mut fault = |message: String, hint: &str| {
        faults.push(Diagnostic::error(message).hint(hint));
    };
    let kvm = host.roots().dev.join("kvm");
    if vm.accel == Acceleration::Kvm && !usable(&kvm) {
        let message = format!("`{}` cannot be used", kvm.display());
        fault(message, "join the group `kvm`, or set `vm.accel` to `tcg`");
    }
    let socket = Machine::socket(&mounts.join("99-99"));
    if socket.as_os_str().len() > MAX_SOCKET_LEN {
        let message = format!(
            "the path of the socket `{}` is longer than {MAX_SOCKET_LEN} bytes",
            socket.display()
        );
        fault(message, "set XDG_STATE_HOME to a shorter path");
    }
    let wanted = vm.memory.saturating_mul(u64::from(vm.guests));
    let memory = text(host.roots().proc.join("meminfo")).unwrap_or_default();
    if let Some(free) = meminfo_bytes(&memory, "MemAvailable")
        && wanted > free
    {
        let message = format!(
            "the virtual machines have {} of memory, and {} are available",
            Bytes(wanted),
            Bytes(free)
        );
        fault(message, "lower `vm.memory` or `vm.guests`");
    }
    faults
}

fn usable(device: &Path) -> bool {
    rustix::fs::access(device, Access::READ_OK | Access::WRITE_OK).is_ok()
}

fn diagnostic(error: &GuestError) -> Diagnostic {
    Diagnostic {
        hint: error.hint(),
        ..Diagnostic::error(error.to_string())
    }
}

fn kernel(host: &dyn Host, vm: &VmLayer) -> Result<Kernel, GuestError> {
    let cache = host.cache().unwrap_or_default();
    let release = text(host.roots().proc.join("sys/kernel/osrelease")).unwrap_or_default();
    Kernel::find(vm.kernel.as_deref(), &cache, &host.roots().root, &release)
}

fn is_zfs(layer: &Layer) -> bool {
    matches!(layer, Layer::Zfs(_))
}

/// The program of this name for a kernel of guests: its own, or that of the host, if it is the host's kernel.
fn tool_of(host: &dyn Host, kernel: &Kernel, name: &str) -> Option<PathBuf> {
    match kernel.tools {
        Some(_) => kernel.tool(name),
        None => host.program(name),
    }
}

/// Whether there are programs of OpenZFS for the kernel of the guests.
fn has_zfs(host: &dyn Host, vm: &VmLayer) -> bool {
    let found = kernel(host, vm);
    found.is_ok_and(|kernel| {
        let mut tools = zfs::TOOLS.iter();
        tools.all(|name| tool_of(host, &kernel, name).is_some())
    })
}

/// The numbers of the disks that trials can use.
fn disks_with_storage(vm: &VmLayer, below: usize) -> impl Iterator<Item = usize> {
    let disks = vm.backed(below).into_iter().enumerate();
    disks
        .filter(|(_, disk)| disk.backend == DiskBackend::Below)
        .map(|(number, _)| number)
}

/// What is wrong with disks that are made of golden images.
fn golden_faults(host: &dyn Host, provision: &Provision, origin: DiskOrigin) -> Vec<Diagnostic> {
    let found = provision.golden_faults().into_iter();
    let found = found.map(|(message, hint)| Diagnostic::error(message).hint(hint));
    let mut faults: Vec<Diagnostic> = found.collect();
    if origin == DiskOrigin::Clone {
        faults.extend(not_installed(
            host,
            QEMU_IMG,
            "vm.disk.origin",
            "qemu-utils",
        ));
    }
    faults
}

/// What the host's page cache and flushes mean for durability.
fn durability(cache: DiskCache) -> &'static str {
    match cache {
        DiskCache::None => "no page cache of the host; flushes are passed on",
        DiskCache::Writeback => "page cache of the host; flushes are passed on",
        DiskCache::Writethrough => "page cache of the host; each write is flushed",
        DiskCache::DirectSync => "no page cache of the host; each write is flushed",
        DiskCache::Unsafe => "page cache of the host; flushes are ignored",
    }
}

impl Making<'_> {
    /// Starts the virtual machines on these files or devices, and waits until all have booted. `name`: that of the
    /// layer.
    pub(super) fn vm(
        &mut self,
        name: &str,
        vm: &VmLayer,
        above: &[Layer],
        below: &[PathBuf],
    ) -> Result<(), Diagnostic> {
        let token = self.request.token.clone();
        let each = match vm.share {
            Some(_) => 0,
            None => below.len() / (vm.guests.max(1) as usize),
        };
        let own = match vm.image {
            None => Some(self.own_boot(vm, each, above)?),
            Some(_) => None,
        };
        let reserved = |layer: &Layer| matches!(layer, Layer::File { allocate: true, .. });
        let discard = !self.request.provision.layers.iter().any(reserved);
        let folders: Vec<PathBuf> = (0..vm.guests)
            .map(|guest| self.mount_point(&format!("{name}-{guest}")))
            .collect::<Result<_, _>>()?;
        let bare = VmLayer {
            share: None,
            disks: Vec::new(),
            ..vm.clone()
        };
        // Before the servers of its disks, which end with a guest.
        let (acceleration, why) = match &own {
            Some(own) => self.acceleration(&bare, &folders[0], own)?,
            None => self.acceleration_of_image(&bare, &folders[0])?,
        };
        let overlays = match &vm.image {
            Some(image) => self.image_overlays(image, folders.len())?,
            None => Vec::new(),
        };
        let (shares, below) = match vm.share {
            Some(_) => (self.shares(vm, &folders, &below[0])?, Vec::new()),
            None => (Vec::new(), self.served(vm, &folders, below)?),
        };
        let boots: Vec<Boot<'_>> = match &vm.image {
            Some(image) => overlays.iter().map(|one| one.boot(image)).collect(),
            None => own
                .iter()
                .flat_map(|own| vec![own.boot(); folders.len()])
                .collect(),
        };
        let machine = |number: usize| Machine {
            share: shares.get(number).map(PathBuf::as_path),
            vm,
            token: &token,
            number: number as u32 + 1,
            acceleration,
            boot: boots[number],
            folder: &folders[number],
            below: &below[number * each..(number + 1) * each],
            discard,
        };
        let marks: Vec<String> = (0..folders.len())
            .map(|number| self.start_machine(&machine(number)))
            .collect::<Result<_, _>>()?;
        self.await_guests(vm, each, &overlays, &folders, &marks)?;
        let release = own.map(|own| own.kernel.release);
        let cpus = match vm.pinning.is_none() {
            true => None,
            false => marks.first().map(|mark| self.ops.cpus_of(mark)),
        };
        let facts = self.vm_facts(vm, each, (acceleration, why), release, cpus);
        self.add_facts("vm", facts);
        Ok(())
    }

    /// Waits until all guests have booted, and records them. `marks`: those of their machines.
    fn await_guests(
        &mut self,
        vm: &VmLayer,
        each: usize,
        overlays: &[Overlay],
        folders: &[PathBuf],
        marks: &[String],
    ) -> Result<(), Diagnostic> {
        let token = self.request.token.clone();
        let names = vm.names();
        for (number, (folder, mark)) in folders.iter().zip(marks).enumerate() {
            let overlay = overlays.get(number);
            let socket = self.await_boot(vm, each, &names[number], overlay, folder, mark)?;
            self.guests.push(Guest {
                name: names[number].clone(),
                socket,
                disks: match vm.share {
                    Some(_) => vec![share_path(&token)],
                    None => disks_with_storage(vm, each)
                        .map(|disk| disk_path(&token, disk))
                        .collect(),
                },
                shared: vm.share.is_some(),
            });
        }
        Ok(())
    }

    /// Waits until a guest has booted, and starts it again if it is too slow. Returns the socket of its nodes.
    pub(super) fn await_boot(
        &mut self,
        vm: &VmLayer,
        each: usize,
        name: &str,
        overlay: Option<&Overlay>,
        folder: &Path,
        mark: &str,
    ) -> Result<PathBuf, Diagnostic> {
        let limit = vm.boot_timeout();
        let seconds = limit.as_secs_f64();
        for attempt in 0.. {
            (self.ops.progress)(&format!("boot of {name}"));
            let booted = match (&vm.image, overlay) {
                (Some(image), Some(overlay)) => {
                    self.await_image(vm, image, overlay, folder, mark, each)
                }
                _ => self.await_machine(folder, mark, limit),
            };
            match booted {
                Ok(()) if attempt > 0 => {
                    let note =
                        format!("{name} did not boot within {seconds} s, and was started again");
                    self.add_facts(
                        "vm",
                        vec![("boot", format!("{note} (starts: {})", attempt + 1))],
                    );
                    self.notes.push(note);
                    break;
                }
                Ok(()) => break,
                Err(NotBooted { slow: true, .. })
                    if attempt < MAX_RESTARTS && !(self.ops.stop)() =>
                {
                    self.restart(vm, overlay, folder, mark)?;
                }
                Err(NotBooted { fault, slow }) => {
                    let hint = format!(
                        "{name} was started {} times; raise `vm.boot_timeout`, or lower `vm.guests`",
                        attempt + 1
                    );
                    return Err(match slow && !(self.ops.stop)() {
                        true => fault.hint(hint),
                        false => *fault,
                    });
                }
            }
        }
        Ok(match vm.image {
            None => Machine::socket(folder),
            Some(_) => ssh::socket(folder),
        })
    }

    /// Ends qemu and the servers of a guest, and starts them anew.
    fn restart(
        &mut self,
        vm: &VmLayer,
        overlay: Option<&Overlay>,
        folder: &Path,
        mark: &str,
    ) -> Result<(), Diagnostic> {
        self.ops.end_processes(mark);
        let _ = std::fs::remove_file(Machine::socket(folder));
        if let (Some(image), Some(overlay)) = (&vm.image, overlay) {
            self.make_overlay(image, overlay)?;
        }
        let of_guest = |point: &Path| point.starts_with(folder);
        served::start_again(&mut self.ops, &self.journal, &of_guest)
    }

    fn vm_facts(
        &self,
        vm: &VmLayer,
        each: usize,
        (acceleration, why): (Acceleration, Option<&str>),
        kernel: Option<String>,
        cpus: Option<String>,
    ) -> Vec<(&'static str, String)> {
        let accelerated = match why {
            Some(why) => format!("{} ({why})", acceleration.name()),
            None => acceleration.name().to_owned(),
        };
        let mut facts = vec![("acceleration", accelerated)];
        facts.extend(kernel.map(|release| ("kernel", release)));
        if let Some(image) = &vm.image {
            let shown = format!("copy-on-write overlay of {}", image.path.display());
            facts.push(("image", shown));
        }
        facts.extend(cpus.map(|cpus| ("server cpus", cpus)));
        if each > 0 {
            let disk = vm.disk();
            let cache = match disk.command {
                Some(_) => DiskCache::NOT_KNOWN,
                None => disk.cache.seen(),
            };
            facts.push((DiskCache::SEEN_FACT, cache.to_owned()));
            let disk = match &disk.command {
                Some(command) => format!("{}, served by `{command}`", disk.interface.name()),
                None => format!(
                    "{}, aio={}, cache={}: {}",
                    disk.interface.name(),
                    disk.aio.name(),
                    disk.cache.name(),
                    durability(disk.cache)
                ),
            };
            facts.push(("disks", disk));
            facts.extend(self.disk_file(vm.disk().origin).map(|file| ("file", file)));
        }
        facts.extend(vm.share.clone().map(|share| ("share", share)));
        facts
    }

    /// Makes a folder for each guest in this one, and starts the servers that share them. Returns their sockets.
    fn shares(
        &mut self,
        vm: &VmLayer,
        folders: &[PathBuf],
        below: &Path,
    ) -> Result<Vec<PathBuf>, Diagnostic> {
        let Some(text) = &vm.share else {
            return Ok(Vec::new());
        };
        let mut sockets = Vec::new();
        for (name, folder) in vm.names().iter().zip(folders) {
            let path = below.join(name);
            self.step(Action::folder(path.clone()))?;
            let socket = Self::share_socket(folder);
            self.serve_socket(text, &vm.pinning, &socket, ("{folder}", &path))?;
            sockets.push(socket);
        }
        Ok(sockets)
    }

    /// Starts the servers of the guests' disks: one for each file or device. Returns what qemu opens for each disk: the
    /// socket of its server, or the file or device itself.
    fn served(
        &mut self,
        vm: &VmLayer,
        folders: &[PathBuf],
        below: &[PathBuf],
    ) -> Result<Vec<PathBuf>, Diagnostic> {
        let disk = vm.disk();
        let Some(text) = disk.command else {
            return Ok(below.to_vec());
        };
        let each = below.len() / folders.len().max(1);
        let mut sockets = Vec::new();
        for (number, path) in below.iter().enumerate() {
            let folder = &folders[number / each.max(1)];
            let socket = folder.join(format!("disk{}", number % each.max(1)));
            self.serve_socket(&text, &vm.pinning, &socket, ("{file}", path))?;
            sockets.push(socket);
        }
        Ok(sockets)
    }

    /// Makes the image file of a disk from a golden one, as the virtual machines' layer says.
    pub(super) fn copied_disk(
        &mut self,
        golden: &Path,
        path: &Path,
        allocate: bool,
    ) -> Result<(), Diagnostic> {
        let origin = self.request.provision.vm().map(|(vm, _)| vm.disk().origin);
        let (from, to) = (word(golden)?, word(path)?);
        let sparse = match allocate {
            true => "--sparse=never",
            false => "--sparse=auto",
        };
        let words: &[&str] = match origin.unwrap_or_default() {
            DiskOrigin::Clone => &[
                QEMU_IMG, "create", "-q", "-f", "qcow2", "-b", &from, "-F", "raw", &to,
            ],
            DiskOrigin::Reflink => &["cp", "--reflink=always", &from, &to],
            DiskOrigin::New | DiskOrigin::Copy => &["cp", "--reflink=never", sparse, &from, &to],
        };
        self.run(words).map_err(|fault| match origin {
            Some(DiskOrigin::Reflink) => fault
                .hint("`reflink` needs a folder on XFS, Btrfs or another file system with reflinks; `copy` works on all"),
            _ => fault,
        })?;
        // Otherwise it would be written while the trial runs.
        self.run(&["sync", &to])
    }

    /// The image files of the disks: their format, and whether their blocks are reserved or shared.
    fn disk_file(&self, origin: DiskOrigin) -> Option<String> {
        let mut layers = self.request.provision.layers.iter();
        let reserved = layers.find_map(|layer| match layer {
            Layer::File { allocate, .. } => Some(*allocate),
            _ => None,
        })?;
        let blocks = match reserved {
            true => "blocks reserved",
            false => "sparse",
        };
        Some(match origin {
            DiskOrigin::New => format!("raw, {blocks}"),
            DiskOrigin::Clone => {
                format!("qcow2, copy-on-write overlay of a golden image ({blocks})")
            }
            DiskOrigin::Reflink => "raw, shares its blocks with a golden image".to_owned(),
            DiskOrigin::Copy => format!("raw, copy of a golden image, {blocks}"),
        })
    }

    /// The file of the initramfs, for which the guest has enough memory.
    fn initramfs(
        &mut self,
        kernel: &Kernel,
        vm: &VmLayer,
        below: usize,
        above: &[Layer],
        cache: &Path,
    ) -> Result<PathBuf, Diagnostic> {
        (self.ops.progress)("initramfs of the guest");
        let program = this_program()?;
        let host = self.ops.host;
        // A device is emptied before a layer is made on it.
        let devices = [Layer::Device { paths: Vec::new() }];
        let tools = above.iter().chain(&devices).flat_map(tools);
        let mut programs: Vec<PathBuf> = tools.filter_map(|(name, _)| host.program(name)).collect();
        if above.iter().any(is_zfs) {
            let tools = zfs::TOOLS.iter();
            programs.extend(tools.filter_map(|name| tool_of(host, kernel, name)));
            programs.extend(host.program(zfs::ADD_PARTITION));
        }
        programs.sort();
        programs.dedup();
        let image = || -> Result<PathBuf, GuestError> {
            let tree = ModuleTree::read(&kernel.modules)?;
            let image = Image {
                program,
                modules: tree.load_order(&modules_of(vm, below, above))?,
                programs,
                tools: kernel.tools.clone(),
            };
            image.build(cache)
        };
        let path = image().map_err(|error| diagnostic(&error))?;
        let size = std::fs::metadata(&path).map_or(0, |file| file.len());
        match memory_needed(size) {
            needed if vm.memory < needed => {
                let message = format!(
                    "a guest with {} of memory has no space for its initramfs of {}",
                    Bytes(vm.memory),
                    Bytes(size)
                );
                let hint = format!(
                    "set `vm.memory` to at least {} MiB",
                    needed.div_ceil(1 << 20)
                );
                Err(Diagnostic::error(message).hint(hint))
            }
            _ => Ok(path),
        }
    }

    /// The kernel and the initramfs of guests with these layers above.
    fn own_boot(
        &mut self,
        vm: &VmLayer,
        below: usize,
        above: &[Layer],
    ) -> Result<OwnBoot, Diagnostic> {
        let Some(cache) = self.ops.host.cache() else {
            let message = "the folder for the kernel and the initramfs of guests is not known";
            let hint = "set HOME or XDG_CACHE_HOME to an absolute path";
            return Err(Diagnostic::error(message).hint(hint));
        };
        let kernel = kernel(self.ops.host, vm).map_err(|error| diagnostic(&error))?;
        let initramfs = self.initramfs(&kernel, vm, below, above, &cache)?;
        // Otherwise its rate changes, or differs between the CPUs.
        let sources = "devices/system/clocksource/clocksource0/available_clocksource";
        let sources = text(self.ops.host.roots().sys.join(sources)).unwrap_or_default();
        let constant = sources.split_whitespace().any(|source| source == "tsc");
        Ok(OwnBoot {
            kernel,
            initramfs,
            counter_khz: constant.then(iodyno_sys::counter_khz).flatten(),
        })
    }

    /// The same as [`Making::acceleration`] for guests that boot an image: a guest that boots iodyno's own initramfs is
    /// tried first, if there is a kernel for it.
    fn acceleration_of_image(
        &mut self,
        bare: &VmLayer,
        folder: &Path,
    ) -> Result<(Acceleration, Option<&'static str>), Diagnostic> {
        let kvm = self.ops.host.roots().dev.join("kvm");
        match (bare.accel, usable(&kvm)) {
            (Acceleration::Tcg, _) => return Ok((Acceleration::Tcg, None)),
            (Acceleration::Auto, false) => {
                return Ok((Acceleration::Tcg, Some("no usable /dev/kvm")));
            }
            _ => {}
        }
        match self.own_boot(bare, 0, &[]) {
            Ok(own) => self.acceleration(bare, folder, &own),
            Err(_) => Ok((
                Acceleration::Kvm,
                Some("not tried before, without a kernel for guests"),
            )),
        }
    }

    /// How the machines execute instructions; why not with KVM, if that was to be found out by a machine without disks.
    fn acceleration(
        &mut self,
        bare: &VmLayer,
        folder: &Path,
        own: &OwnBoot,
    ) -> Result<(Acceleration, Option<&'static str>), Diagnostic> {
        let kvm = self.ops.host.roots().dev.join("kvm");
        let wanted = bare.accel;
        match wanted {
            Acceleration::Tcg => return Ok((Acceleration::Tcg, None)),
            Acceleration::Auto if !usable(&kvm) => {
                return Ok((Acceleration::Tcg, Some("no usable /dev/kvm")));
            }
            _ => {}
        }
        // A device that does not work makes qemu hang, so it has to be tried.
        (self.ops.progress)("boot of a guest with KVM, for at most 10 s");
        let token = self.request.token.clone();
        let probe = Machine {
            vm: bare,
            token: &token,
            number: 1,
            acceleration: Acceleration::Kvm,
            boot: own.boot(),
            folder,
            share: None,
            below: &[],
            discard: true,
        };
        let mark = self.start_machine(&probe)?;
        let booted = self
            .await_machine(probe.folder, &mark, ACCELERATION_LIMIT)
            .map_err(|it| *it.fault);
        self.ops.end_processes(&mark);
        match (booted, wanted) {
            (Ok(()), _) => Ok((Acceleration::Kvm, None)),
            (Err(fault), _) if (self.ops.stop)() => Err(fault),
            (Err(fault), Acceleration::Kvm) => {
                Err(fault.hint("set `vm.accel` to `tcg`, or to `auto` to use KVM only if it works"))
            }
            (Err(_), _) => Ok((
                Acceleration::Tcg,
                Some("with KVM, no guest booted within 10 s"),
            )),
        }
    }

    /// Starts qemu. Returns the mark of its process.
    fn start_machine(&mut self, machine: &Machine<'_>) -> Result<String, Diagnostic> {
        let point = machine.folder.to_owned();
        // That of a process that was killed would be taken for the new one.
        let _ = std::fs::remove_file(Machine::socket(&point));
        self.step(Action::Server {
            command: machine.vm.pinning.command(&machine.command()),
            log: point.join(Machine::LOG),
            point,
        })?;
        Ok(self.ops.mark.clone())
    }

    /// Waits until the guest of this folder, whose qemu has this mark, answers.
    fn await_machine(
        &mut self,
        folder: &Path,
        mark: &str,
        limit: Duration,
    ) -> Result<(), NotBooted> {
        let socket = Machine::socket(folder);
        let (host, stop) = (self.ops.host, self.ops.stop);
        let ended = || !socket.exists() && host.marked(mark).is_empty();
        let booted = host.await_guest(&socket, limit, &|| stop() || ended());
        booted.map_err(|error| {
            let slow = matches!(error, PortError::Silent(_));
            let error = match error {
                PortError::Stopped if !stop() => "qemu ended".to_owned(),
                other => other.to_string(),
            };
            let cause = cause(&Machine::last_words(folder));
            NotBooted {
                fault: Box::new(Diagnostic::error(format!(
                    "cannot boot a guest: {error}{cause}"
                ))),
                slow,
            }
        })
    }
}

/// The least memory of a guest with an initramfs of this size, bytes. It is unpacked into a file system that takes at
/// most half of the memory; otherwise the kernel leaves out files without a message that the console shows. Debian's
/// kernel 6.1 left out the last file with 50 MiB beside three times this size.
fn memory_needed(initramfs: u64) -> u64 {
    initramfs.saturating_mul(3).saturating_add(64 << 20)
}
