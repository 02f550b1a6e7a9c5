//! Virtual machines that iodyno starts for a target.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::{Limits, Pinning};

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
    /// The disks of each, in order. Files and devices below that none of them uses are disks with the settings of the last one.
    pub disks: Vec<VmDisk>,
    /// The CPUs and memory of the host that their processes use.
    #[serde(default, skip_serializing_if = "Pinning::is_none")]
    pub pinning: Pinning,
    /// Their names as nodes; empty: `guest1`, `guest2`, …
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
}

impl Default for VmLayer {
    fn default() -> VmLayer {
        VmLayer {
            guests: 1,
            cpus: 1,
            memory: 512 << 20,
            accel: Acceleration::Auto,
            kernel: None,
            disks: Vec::new(),
            pinning: Pinning::default(),
            names: Vec::new(),
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

/// A disk of a virtual machine.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
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
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<u64>,
    /// What its image file is at the start.
    #[serde(default)]
    pub origin: DiskOrigin,
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

/// Defines an enum whose variants have the names that qemu and experiments use.
macro_rules! named {
    ($(#[$about:meta])* $kind:ident { $($(#[$doc:meta])* $variant:ident = $name:literal,)* }) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
        pub enum $kind {
            $($(#[$doc])* #[serde(rename = $name)] $variant,)*
        }

        impl $kind {
            /// All names.
            pub const NAMES: &'static [&'static str] = &[$($name,)*];

            /// Its name.
            pub fn name(self) -> &'static str {
                match self {
                    $($kind::$variant => $name,)*
                }
            }

            /// The one with this name.
            pub fn named(name: &str) -> Option<$kind> {
                match name {
                    $($name => Some($kind::$variant),)*
                    _ => None,
                }
            }
        }
    };
}

named! {
    /// How a virtual machine executes instructions.
    Acceleration {
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
    DiskInterface {
        /// A virtio block device.
        #[default]
        VirtioBlk = "virtio-blk",
        /// A SCSI disk of a virtio adapter.
        VirtioScsi = "virtio-scsi",
        /// An emulated NVMe device.
        Nvme = "nvme",
    }
}

named! {
    /// The host's page cache below a disk, and what becomes of flushes.
    DiskCache {
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
    DiskOrigin {
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
    DiskAio {
        /// By threads with synchronous calls.
        #[default]
        Threads = "threads",
        /// By Linux AIO.
        Native = "native",
        /// By io_uring.
        IoUring = "io_uring",
    }
}
