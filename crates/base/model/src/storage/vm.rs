//! Virtual machines that iodyno starts for a target.

use std::path::PathBuf;
use std::time::Duration;

use iodyno_units::Bytes;
use serde::{Deserialize, Serialize};

use crate::named::named;

use crate::{Limits, Pinning, Shape};

/// Virtual machines of one kind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VmLayer {
    /// Number of virtual machines, which share the files and devices below equally.
    pub guests: u32,
    /// Number of processors of each.
    pub cpus: u32,
    /// Memory of each, bytes.
    pub memory: u64,
    /// How it executes instructions.
    pub accel: Acceleration,
    /// A folder with a kernel and its modules; `None`: iodyno looks for one.
    pub kernel: Option<PathBuf>,
    /// A user's disk image that they boot; `None`: an initramfs of iodyno.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<Box<VmImage>>,
    /// The disks of each, in order. Files and devices below that none of them uses are disks with the settings of the
    /// last one.
    pub disks: Vec<VmDisk>,
    /// The command of a virtio-fs server, which shares the folder below with a guest: see [`server_command`], with
    /// `{socket}` and `{folder}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<String>,
    /// The CPUs and memory of the host that their processes use.
    #[serde(default, skip_serializing_if = "Pinning::is_none")]
    pub pinning: Pinning,
    /// They exist beside other configurations, so that they are not started anew for each trial.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub side_by_side: bool,
    /// Their names as nodes; empty: `guest1`, `guest2`, …
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
    /// See [`VmLayer::boot_timeout`], ns; `None`: the default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boot_timeout_ns: Option<u64>,
}

impl Default for VmLayer {
    fn default() -> VmLayer {
        VmLayer {
            guests: 1,
            cpus: 1,
            memory: 512 << 20,
            accel: Acceleration::Auto,
            kernel: None,
            image: None,
            disks: Vec::new(),
            share: None,
            pinning: Pinning::default(),
            side_by_side: false,
            names: Vec::new(),
            boot_timeout_ns: None,
        }
    }
}

impl VmLayer {
    /// All disks, if there are this many files and devices below.
    pub fn backed(&self, below: usize) -> Vec<VmDisk> {
        let mut disks = self.disks.clone();
        let last = VmDisk {
            backend: DiskBackend::Below,
            ..disks.last().cloned().unwrap_or_default()
        };
        let used = self.uses();
        disks.extend(vec![last; below.saturating_sub(used)]);
        disks
    }

    /// The longest time from the start of a virtual machine until it answers. A user's image boots a distribution.
    pub fn boot_timeout(&self) -> Duration {
        let usual = match self.image {
            None => Duration::from_secs(120),
            Some(_) => Duration::from_secs(900),
        };
        self.boot_timeout_ns.map_or(usual, Duration::from_nanos)
    }

    const ONE_FOR_EACH: &'static str = "put a layer that makes one for each guest directly below `vm`: \
        `file`, `loop on file`, `zram`, or `zfs` with `volume` or `origin = \"copy\"`";

    /// Why a layer of this kind cannot be made in virtual machines, and the remedy; `None`: it can.
    pub fn refused_above(kind: &str) -> Option<(String, &'static str)> {
        let hint = match kind {
            "vm" => "name `vm` once",
            "virtiofs" => "to share a folder with guests, use `vm.share`",
            "delay" | "mirror" | "throttle" | "fuse" => "put it below `vm`, or leave it out",
            _ => return None,
        };
        Some((
            format!("`{kind}` cannot be made in a virtual machine"),
            hint,
        ))
    }

    /// What is wrong with sharing, or not sharing, what is below, and the remedy: folders are shared, and nothing else.
    pub fn share_fault(shared: bool, below: Shape) -> Option<(&'static str, &'static str)> {
        match (shared, below) {
            (false, Shape::Folder) => Some((
                "`vm` is on a folder, and no server shares it with the guests",
                "put `file` between them, or add \
                 `vm.share = \"virtiofsd --socket-path={socket} --shared-dir={folder}\"`",
            )),
            (true, Shape::Files(_) | Shape::Devices(_)) => Some((
                "`vm.share` shares folders, and there are devices or files below `vm`",
                "leave it out, or put a file system or `directory` below `vm`",
            )),
            _ => None,
        }
    }

    /// Why they cannot use what the layer of the kind `lower` gives equally, and the remedy.
    pub fn guests_fault(&self, lower: &str, below: Shape) -> Option<(String, &'static str)> {
        let guests = self.guests;
        if guests > 0 && below.count().is_multiple_of(guests) {
            return None;
        }
        let given = below.words();
        let message = format!("`vm.guests` is {guests}, and `{lower}` below gives {given}");
        Some((message, VmLayer::ONE_FOR_EACH))
    }

    /// The name of the virtual machines' host as a node, which is sampled during their trials.
    pub const HOST: &'static str = "host";
    /// The name of the processes of qemu.
    pub const PROCESS: &'static str = "iodyno-guest";

    /// The names of the virtual machines as nodes.
    pub fn names(&self) -> Vec<String> {
        let given = self.names.iter().cloned();
        let numbers = self.names.len() + 1..=self.guests as usize;
        given
            .chain(numbers.map(|number| format!("guest{number}")))
            .collect()
    }

    /// The commands of servers: of shared folders and of disks.
    pub fn servers(&self) -> impl Iterator<Item = &str> {
        let disks = self.disks.iter().filter_map(|disk| disk.command.as_deref());
        self.share.as_deref().into_iter().chain(disks)
    }

    /// The settings of the disks that have storage below.
    pub fn disk(&self) -> VmDisk {
        let mut below = self
            .disks
            .iter()
            .filter(|disk| disk.backend == DiskBackend::Below);
        below.next().cloned().unwrap_or_default()
    }

    /// The number of disks that need a file or device below.
    pub fn uses(&self) -> usize {
        let backends = self.disks.iter().map(|disk| disk.backend);
        backends.filter(|one| *one == DiskBackend::Below).count()
    }
}

/// A user's disk image, which virtual machines boot. They write to overlays.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct VmImage {
    /// The image.
    pub path: PathBuf,
    /// Its format, as qemu calls it; `None`: as its name ends, see [`VmImage::format`].
    pub format: Option<String>,
    /// Who logs in by ssh: root, or a user who may use `sudo -n`.
    pub user: String,
    /// The private key.
    pub key: Option<PathBuf>,
    /// A kernel to boot in place of the image's boot loader.
    pub kernel: Option<PathBuf>,
    /// The initrd of that kernel.
    pub initrd: Option<PathBuf>,
    /// The command line of that kernel.
    pub append: Option<String>,
    /// The program that is copied to the guest; `None`: the one that runs on the host.
    pub program: Option<PathBuf>,
}

impl Default for VmImage {
    fn default() -> VmImage {
        VmImage {
            path: PathBuf::new(),
            format: None,
            user: "root".to_owned(),
            key: None,
            kernel: None,
            initrd: None,
            append: None,
            program: None,
        }
    }
}

impl VmImage {
    /// The format of the image: that which was given, `qcow2` if its name ends so, or `raw`.
    pub fn format(&self) -> &str {
        let qcow2 = self.path.extension().is_some_and(|end| end == "qcow2");
        self.format
            .as_deref()
            .unwrap_or(if qcow2 { "qcow2" } else { "raw" })
    }
}

/// In the command of a server of a folder or disk: the path of a socket for what it counted.
pub const SERVER_STATS: &str = "{stats}";

/// What is wrong with the names in the command of a server, and what to do. `key`: that of the command, which needs all
/// of `needed`; `usual`: such a command.
pub fn server_command_fault(
    key: &str,
    text: &str,
    needed: [&str; 2],
    usual: &str,
) -> Option<(String, String)> {
    let known = [needed[0], needed[1], SERVER_STATS];
    if let Some(name) = names_in(text).find(|name| !known.contains(name)) {
        let [one, other, last] = known;
        return Some((
            format!("unknown name `{name}` in `{key}`: `{text}`"),
            format!("known are `{one}`, `{other}` and `{last}`"),
        ));
    }
    let lacking = needed.iter().find(|name| !text.contains(**name))?;
    Some((
        format!("`{key}` lacks `{lacking}`: `{text}`"),
        format!("write `{usual}`"),
    ))
}

/// The words in braces, with these. Braces around anything else, such as JSON, are not names.
fn names_in(text: &str) -> impl Iterator<Item = &str> {
    text.match_indices('{').filter_map(|(start, _)| {
        let word = &text[start + 1..][..text[start..].find('}')?.saturating_sub(1)];
        let named = !word.is_empty() && word.chars().all(|it| it.is_ascii_lowercase() || it == '_');
        named.then(|| &text[start..start + word.len() + 2])
    })
}

/// The words of a server's command, with `{socket}` and another name replaced by paths.
pub fn server_command(text: &str, values: &[(&str, &str)]) -> Vec<String> {
    let replaced = |word: &str| {
        values.iter().fold(word.to_owned(), |word, (name, value)| {
            word.replace(name, value)
        })
    };
    text.split_whitespace().map(replaced).collect()
}

/// The program of a server's command: the first word, or what `env` starts.
pub fn server_program(text: &str) -> &str {
    let mut words = text.split_whitespace();
    let first = words.next().unwrap_or_default();
    match first {
        "env" => words.find(|word| !word.contains('=')).unwrap_or_default(),
        first => first,
    }
}

/// A fault of a disk's settings, whatever the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiskFault {
    /// The key in question.
    pub key: &'static str,
    /// What is wrong.
    pub message: String,
    /// What to do.
    pub hint: String,
}

/// A disk of a virtual machine.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct VmDisk {
    /// Where its blocks are.
    pub backend: DiskBackend,
    /// What it is in the guest.
    pub interface: DiskInterface,
    /// The host's page cache, and flushes.
    pub cache: DiskCache,
    /// How qemu accesses it.
    pub aio: DiskAio,
    /// A thread of its own in qemu.
    pub iothread: bool,
    /// Limits that qemu enforces.
    pub throttle: Limits,
    /// The length of a zone, bytes: the disk is a zoned namespace of an NVMe device.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone: Option<u64>,
    /// What its image file is at the start.
    pub origin: DiskOrigin,
    /// The command of its server: see [`server_command`], with `{socket}` and `{file}`. Only for
    /// [`DiskInterface::VhostUserBlk`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
}

impl VmDisk {
    /// The most disks of [`DiskInterface::VhostUserBlk`] that a guest can have: their slots are numbered.
    pub const MAX_SERVED: usize = 14;

    /// What qemu cannot do with these settings.
    pub fn faults(&self) -> Vec<DiskFault> {
        let mut faults = Vec::new();
        let mut fault = |key, message: String, hint: &str| {
            faults.push(DiskFault {
                key,
                message,
                hint: hint.to_owned(),
            });
        };
        let (interface, cache) = (self.interface.name(), self.cache.name());
        let served = self.interface == DiskInterface::VhostUserBlk;
        if self.zone.is_some() && self.interface != DiskInterface::Nvme {
            let hint = "set `vm.disk.interface` to `nvme`, or leave `vm.disk.zone` out";
            fault(
                "zone",
                format!("a disk with `interface={interface}` has no zones"),
                hint,
            );
        }
        if let Some(bytes) = self.zone
            && !bytes.is_power_of_two()
        {
            let hint = "set `vm.disk.zone` to a power of two, such as `\"4MiB\"`";
            fault("zone", format!("zones cannot have {}", Bytes(bytes)), hint);
        }
        if self.aio == DiskAio::Native && !self.cache.is_direct() && !served {
            let hint =
                "set `vm.disk.cache` to `none` or `directsync`, or `vm.disk.aio` to `threads`";
            fault(
                "aio",
                format!("qemu has no `aio=native` with `cache={cache}`"),
                hint,
            );
        }
        match &self.command {
            None if served => {
                let message =
                    "`vm.disk.interface = \"vhost-user-blk\"` lacks the command of its server";
                let hint = "add `vm.disk.command`, with `{socket}` and `{file}` where the server gets their paths";
                fault("interface", message.to_owned(), hint);
            }
            Some(_) if !served => {
                let message =
                    format!("`vm.disk.command` has no effect with `interface={interface}`");
                let hint = "leave it out, or set `vm.disk.interface` to `vhost-user-blk`";
                fault("command", message, hint);
            }
            Some(text) => {
                let names = ["{socket}", "{file}"];
                let usual = "PROGRAM --socket-path={socket} {file}";
                let found = server_command_fault("vm.disk.command", text, names, usual);
                if let Some((message, hint)) = found {
                    fault("command", message, &hint);
                }
            }
            None => {}
        }
        faults
    }
}

/// Where the blocks of a disk are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DiskBackend {
    /// In the next file or device below.
    #[default]
    Below,
    /// Nowhere: reads return zeros. Trials do not use it; the names of the disks after it depend on it.
    Null {
        /// Its size, bytes.
        size: u64,
    },
}

named! {
    /// How a virtual machine executes instructions.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    pub enum Acceleration in ALL {
        /// With KVM if a guest boots with it within 10 s, otherwise by emulation.
        #[default]
        Auto = "auto",
        /// On the processor, by KVM.
        Kvm = "kvm",
        /// By emulation: qemu's TCG.
        Tcg = "tcg",
    }
}

named! {
    /// What a disk is in the guest.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum DiskInterface in ALL {
        /// A virtio block device.
        #[default]
        VirtioBlk = "virtio-blk",
        /// A SCSI disk of a virtio adapter.
        VirtioScsi = "virtio-scsi",
        /// An emulated NVMe device.
        Nvme = "nvme",
        /// A virtio block device that another process serves.
        VhostUserBlk = "vhost-user-blk",
    }
}

named! {
    /// The host's page cache below a disk, and what becomes of flushes.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    pub enum DiskCache in ALL {
        /// Without the page cache; the guest sees a write cache and flushes it.
        #[default]
        None = "none",
        /// With the page cache; the guest sees a write cache and flushes it.
        Writeback = "writeback",
        /// With the page cache; each write is durable when it completes.
        Writethrough = "writethrough",
        /// Without the page cache; each write is durable when it completes.
        DirectSync = "directsync",
        /// With the page cache; flushes are ignored.
        Unsafe = "unsafe",
    }
}

impl DiskCache {
    /// The name of the fact that contains [`DiskCache::seen`], of a target with virtual machines.
    pub const SEEN_FACT: &'static str = "write cache";

    /// The fact of a disk that another process serves.
    pub const NOT_KNOWN: &'static str = "not known";

    /// What the guest has to see as its device's `write_cache`.
    pub fn seen(self) -> &'static str {
        match self {
            DiskCache::None | DiskCache::Writeback | DiskCache::Unsafe => "write back",
            DiskCache::Writethrough | DiskCache::DirectSync => "write through",
        }
    }

    /// Whether it bypasses the host's page cache. Linux AIO and io_uring need this to be asynchronous.
    pub fn is_direct(self) -> bool {
        matches!(self, DiskCache::None | DiskCache::DirectSync)
    }
}

named! {
    /// What the image file of a disk is at the start.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    pub enum DiskOrigin in ALL {
        /// A new file.
        #[default]
        New = "new",
        /// An overlay (qcow2) of a golden image: it contains the blocks that were written since.
        Clone = "clone",
        /// A copy of a golden image that shares its blocks, on a file system that can do so.
        Reflink = "reflink",
        /// A full copy of a golden image.
        Copy = "copy",
    }
}

named! {
    /// How qemu accesses a file or device.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum DiskAio in ALL {
        /// By threads with synchronous calls.
        #[default]
        Threads = "threads",
        /// By Linux AIO.
        Native = "native",
        /// By io_uring.
        IoUring = "io_uring",
    }
}
