//! The command line of qemu for a guest.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::Duration;

use iodyno_model::{
    Acceleration, DiskAio, DiskBackend, DiskInterface, DiskOrigin, DmTarget, Layer, VmDisk,
    VmImage, VmLayer,
};

use crate::guest::port;

/// The longest time until a guest that has booted answers.
pub const ANSWER_LIMIT: Duration = Duration::from_secs(120);
/// The longest time of a boot with KVM if it may be replaced: a KVM device that does not work makes qemu hang.
pub const ACCELERATION_LIMIT: Duration = Duration::from_secs(10);
/// The start of the disks' serial numbers; their number follows.
pub(crate) const SERIAL: &str = "iodyno";
/// The tag of the shared folder.
pub(crate) const SHARE: &str = "iodyno";
/// The serial number of the disk that contains this program, for a guest that boots a user's image.
pub(crate) const PROGRAM_SERIAL: &str = "iodyno-program";
/// The argument of the guest's kernel with the token and the number of disks: `iodyno.disks=TOKEN,2`. `,share` follows
/// if a folder is shared.
pub(crate) const TOKEN_ARGUMENT: &str = "iodyno.disks=";

/// Parts of names of ciphers that are modules of the kernel. It would load them by modprobe(8), which a guest lacks.
const CIPHERS: [&str; 7] = ["aes", "xts", "cbc", "ctr", "ecb", "essiv", "sha256"];

/// The path of a disk in the guest. It contains the token, so that it cannot be mistaken for a device of the host.
pub fn disk_path(token: &str, number: usize) -> PathBuf {
    PathBuf::from(format!("/dev/iodyno-{token}/disk{number}"))
}

/// The folder in the guest at which the shared folder is mounted.
pub fn share_path(token: &str) -> PathBuf {
    PathBuf::from(format!("/mnt/iodyno-{token}"))
}

/// What a virtual machine boots.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Boot<'a> {
    /// A kernel with an initramfs of this program.
    Initramfs {
        /// The kernel's image.
        kernel: &'a Path,
        /// The initramfs.
        initramfs: &'a Path,
        /// The rate of the time stamp counter of an emulated guest, which is that of the host, kHz; `None`: not known.
        counter_khz: Option<u64>,
    },
    /// A user's disk image.
    Image {
        /// Its settings.
        image: &'a VmImage,
        /// The overlay that takes what is written to it (qcow2).
        overlay: &'a Path,
        /// This program, which is copied to the guest.
        program: &'a Path,
        /// The port of the host's loopback interface that leads to the guest's sshd.
        port: u16,
    },
}

/// A virtual machine to start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Machine<'a> {
    /// Its settings.
    pub vm: &'a VmLayer,
    /// Part of its name and of those of its disks.
    pub token: &'a str,
    /// Its number among the guests with this token.
    pub number: u32,
    /// How it executes instructions: [`Acceleration::Kvm`] or [`Acceleration::Tcg`].
    pub acceleration: Acceleration,
    /// What it boots.
    pub boot: Boot<'a>,
    /// A folder for its sockets and its console's log.
    pub folder: &'a Path,
    /// Files and devices of the host, for the disks that are backed by the layer below.
    pub below: &'a [PathBuf],
    /// The socket of the server that shares a folder with it.
    pub share: Option<&'a Path>,
    /// Whether discarding in the guest frees blocks on the host.
    pub discard: bool,
}

/// The most of a log that is part of an error, bytes, and lines.
const LOG_END: u64 = 4 << 10;
const LOG_LINES: usize = 6;

/// The last lines of a log; `None` if it cannot be read.
pub fn end_of(log: &Path) -> Option<Vec<String>> {
    let mut file = File::open(log).ok()?;
    let length = file.metadata().ok()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(LOG_END)))
        .ok()?;
    let mut bytes = Vec::new();
    file.take(LOG_END).read_to_end(&mut bytes).ok()?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let lines: Vec<&str> = text
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect();
    let last = &lines[lines.len().saturating_sub(LOG_LINES)..];
    Some(last.iter().map(|line| (*line).to_owned()).collect())
}

impl Machine<'_> {
    /// The program.
    pub const PROGRAM: &'static str = "qemu-system-x86_64";

    /// The name of qemu's own log in the folder.
    pub const LOG: &'static str = "qemu.log";

    /// The socket of the port through which its nodes are reached.
    pub fn socket(folder: &Path) -> PathBuf {
        folder.join("node")
    }

    /// The log of its console.
    pub fn console(folder: &Path) -> PathBuf {
        folder.join("console.log")
    }

    /// The last lines that qemu and the console of its guest have printed.
    pub fn last_words(folder: &Path) -> Vec<String> {
        let logs = [folder.join(Self::LOG), Self::console(folder)];
        logs.iter()
            .filter_map(|log| end_of(log))
            .flatten()
            .collect()
    }

    /// The program and its arguments.
    pub fn command(&self) -> Vec<String> {
        let shown = |path: &Path| path.display().to_string();
        let disks = self.vm.backed(self.below.len());
        let processor = match self.acceleration {
            Acceleration::Kvm => "host",
            _ => "max",
        };
        let mut words: Vec<String> = [
            Self::PROGRAM,
            "-name",
            &format!(
                "iodyno-{}-{},process={}",
                self.token,
                self.number,
                VmLayer::PROCESS
            ),
            "-M",
            "q35",
            "-accel",
            self.acceleration.name(),
            "-cpu",
            processor,
            "-smp",
            &self.vm.cpus.to_string(),
            "-m",
            &format!("{}M", self.vm.memory >> 20),
            "-nodefaults",
            "-no-user-config",
            "-display",
            "none",
            "-no-reboot",
            "-serial",
            &format!("file:{}", escaped(&shown(&Self::console(self.folder)))),
        ]
        .map(str::to_owned)
        .into();
        words.extend(self.boot_words(disks.len()));
        let served = |disk: &VmDisk| disk.interface == DiskInterface::VhostUserBlk;
        if self.share.is_some() || disks.iter().any(served) {
            // The servers map the memory of the guest.
            let memory = format!(
                "memory-backend-memfd,id=memory,size={}M,share=on",
                self.vm.memory >> 20
            );
            words.extend(
                ["-object", &memory, "-machine", "memory-backend=memory"].map(str::to_owned),
            );
        }
        if let Some(socket) = self.share {
            let socket = format!("socket,id=share,path={}", escaped(&shown(socket)));
            let device = format!("vhost-user-fs-pci,chardev=share,tag={SHARE}");
            let share = ["-chardev", &socket, "-device", &device];
            words.extend(share.map(str::to_owned));
        }
        let mut below = self.below.iter();
        for (number, disk) in disks.iter().enumerate() {
            let source = match disk.backend {
                DiskBackend::Below => below.next().map(|path| shown(path)),
                DiskBackend::Null { .. } => None,
            };
            words.extend(disk_words(number, disk, source.as_deref(), self.discard));
        }
        words
    }

    /// What it boots, and how its nodes are reached.
    fn boot_words(&self, disks: usize) -> Vec<String> {
        let shown = |path: &Path| path.display().to_string();
        match self.boot {
            Boot::Initramfs {
                kernel,
                initramfs,
                counter_khz,
            } => {
                // An emulated guest counts the host's ticks. Its kernel would measure their rate with an emulated
                // timer: on a busy host the result can be several times too low, and the clock as much too fast. The
                // kernel corrects at most 1 %.
                let clock = match (self.acceleration, counter_khz) {
                    (Acceleration::Kvm, _) => "tsc=reliable".to_owned(),
                    (_, Some(khz)) => format!("tsc=reliable tsc_early_khz={khz}"),
                    (_, None) => "clocksource=hpet".to_owned(),
                };
                // The kernel's test of the timer fails, and it panics, if a busy host delays the interrupts of an
                // emulated guest.
                let append = format!(
                    "console=ttyS0 quiet panic=-1 {clock} no_timer_check hostname={} {TOKEN_ARGUMENT}{},{}{}",
                    self.vm.names()[self.number as usize - 1],
                    self.token,
                    disks,
                    match self.share {
                        Some(_) => ",share",
                        None => "",
                    }
                );
                [
                    "-kernel",
                    &shown(kernel),
                    "-initrd",
                    &shown(initramfs),
                    "-append",
                    &append,
                    "-device",
                    "virtio-serial-pci,id=ports",
                    "-chardev",
                    &format!(
                        "socket,id=node,path={},server=on,wait=off",
                        escaped(&shown(&Self::socket(self.folder)))
                    ),
                    "-device",
                    &format!(
                        "virtserialport,bus=ports.0,chardev=node,name={}",
                        port::NAME
                    ),
                ]
                .map(str::to_owned)
                .into()
            }
            Boot::Image {
                image,
                overlay,
                program,
                port,
            } => {
                let mut words: Vec<String> = Vec::new();
                let mut add =
                    |option: &str, value: String| words.extend([option.to_owned(), value]);
                if let Some(kernel) = &image.kernel {
                    add("-kernel", shown(kernel));
                    add("-append", image.append.clone().unwrap_or_default());
                }
                if let Some(initrd) = &image.initrd {
                    add("-initrd", shown(initrd));
                }
                let file = |path: &Path| escaped(&shown(path));
                // Its content is discarded at the end.
                add(
                    "-drive",
                    format!(
                        "if=none,id=image,file={},format=qcow2,cache=unsafe",
                        file(overlay)
                    ),
                );
                // A kernel of its own has this place in the order.
                let first = match image.kernel {
                    None => ",bootindex=0",
                    Some(_) => "",
                };
                add(
                    "-device",
                    format!("virtio-blk-pci,drive=image,serial={SERIAL}-image{first}"),
                );
                add(
                    "-drive",
                    format!(
                        "if=none,id=program,file={},format=raw,readonly=on",
                        file(program)
                    ),
                );
                add(
                    "-device",
                    format!("virtio-blk-pci,drive=program,serial={PROGRAM_SERIAL}"),
                );
                // The guest reaches nothing but its own DHCP server.
                add(
                    "-netdev",
                    format!("user,id=net,restrict=on,hostfwd=tcp:127.0.0.1:{port}-:22"),
                );
                add("-device", "virtio-net-pci,netdev=net,romfile=".to_owned());
                add("-device", "virtio-rng-pci".to_owned());
                words
            }
        }
    }
}

/// A value in a list of qemu: a comma is written twice.
fn escaped(value: &str) -> String {
    value.replace(',', ",,")
}

/// The PCI slot of a disk that another process serves: such a server names all its disks alike, so that the serial
/// number does not identify one. The slots from 1 are those that qemu gives to other devices.
pub(crate) fn served_slot(number: usize) -> usize {
    16 + number
}

fn disk_words(number: usize, disk: &VmDisk, source: Option<&str>, discard: bool) -> Vec<String> {
    if disk.interface == DiskInterface::VhostUserBlk {
        let socket = escaped(source.unwrap_or_default());
        let slot = served_slot(number);
        return [
            "-chardev",
            &format!("socket,id=disk{number},path={socket}"),
            "-device",
            &format!("vhost-user-blk-pci,chardev=disk{number},num-queues=1,addr={slot:#x}"),
        ]
        .map(str::to_owned)
        .into();
    }
    let mut drive = format!("if=none,id=disk{number},");
    match (disk.backend, source) {
        (DiskBackend::Null { size }, _) => {
            drive +=
                &format!("file.driver=null-co,file.size={size},file.read-zeroes=on,format=raw");
        }
        (_, source) => {
            let discard = if discard { "unmap" } else { "ignore" };
            drive += &format!(
                "file={},format={},discard={discard},aio={}",
                escaped(source.unwrap_or_default()),
                match disk.origin {
                    DiskOrigin::Clone => "qcow2",
                    _ => "raw",
                },
                disk.aio.name()
            );
        }
    }
    drive += &format!(",cache={}", disk.cache.name());
    let limits = [
        ("iops-read", disk.throttle.read_iops),
        ("iops-write", disk.throttle.write_iops),
        ("bps-read", disk.throttle.read_bandwidth),
        ("bps-write", disk.throttle.write_bandwidth),
    ];
    for (name, limit) in limits.iter().filter(|(_, limit)| *limit > 0) {
        drive += &format!(",throttling.{name}={limit}");
    }
    let mut words = Vec::new();
    let mut add = |option: &str, value: String| words.extend([option.to_owned(), value]);
    add("-drive", drive);
    let mut thread = String::new();
    if disk.iothread {
        // Polling takes the CPU that the guest needs when they share it.
        let polling = match disk.aio {
            DiskAio::Native => ",poll-max-ns=0",
            _ => "",
        };
        add("-object", format!("iothread,id=io{number}{polling}"));
        thread = format!(",iothread=io{number}");
    }
    let serial = format!("drive=disk{number},serial={SERIAL}{number}");
    match disk.interface {
        DiskInterface::VirtioBlk => {
            add("-device", format!("virtio-blk-pci,{serial}{thread}"));
        }
        DiskInterface::VirtioScsi => {
            add(
                "-device",
                format!("virtio-scsi-pci,id=scsi{number}{thread}"),
            );
            add("-device", format!("scsi-hd,bus=scsi{number}.0,{serial}"));
        }
        DiskInterface::VhostUserBlk => {}
        DiskInterface::Nvme => match disk.zone {
            None => add("-device", format!("nvme,{serial}")),
            Some(bytes) => {
                add(
                    "-device",
                    format!("nvme,id=nvme{number},serial={SERIAL}{number}"),
                );
                add(
                    "-device",
                    format!(
                        "nvme-ns,bus=nvme{number},drive=disk{number},zoned=true,zoned.zone_size={bytes}"
                    ),
                );
            }
        },
    }
    words
}

/// The kernel modules that a guest needs: for its port, its disks, and the layers that are made in it.
pub fn modules_of(vm: &VmLayer, below: usize, above: &[Layer]) -> Vec<&'static str> {
    let mut names = vec!["virtio_pci", "virtio_console"];
    names.extend(vm.share.as_ref().map(|_| "virtiofs"));
    for disk in vm.backed(below) {
        names.extend(match disk.interface {
            DiskInterface::VirtioBlk | DiskInterface::VhostUserBlk => ["virtio_blk"].as_slice(),
            DiskInterface::VirtioScsi => &["virtio_scsi", "sd_mod"],
            DiskInterface::Nvme => &["nvme"],
        });
    }
    for layer in above {
        if let Layer::Nfs(_) = layer {
            // The server names its clients by this sum.
            names.extend(["nfsd", "nfsv4", "md5"]);
        }
        names.extend(match layer {
            Layer::FileSystem { fs, .. } => Some(fs.name()),
            Layer::Loop { .. } => Some("loop"),
            Layer::Zram { .. } => Some("zram"),
            Layer::Overlay { .. } => Some("overlay"),
            Layer::Md(md) => Some(md.level.name()),
            Layer::Dm(target) => Some(target.module()),
            Layer::Zfs(_) => Some("zfs"),
            _ => None,
        });
        if let Layer::Dm(DmTarget::Crypt { cipher, .. }) = layer {
            let words: Vec<&str> = cipher.split(['-', ':']).collect();
            names.extend(CIPHERS.into_iter().filter(|name| words.contains(name)));
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use iodyno_model::{DiskCache, Limits};

    use super::*;

    fn check(disks: Vec<VmDisk>, below: &[&str], expected: &[&str]) {
        let vm = VmLayer {
            disks,
            ..VmLayer::default()
        };
        let below: Vec<PathBuf> = below.iter().map(PathBuf::from).collect();
        let machine = Machine {
            vm: &vm,
            token: "0a1b",
            number: 1,
            acceleration: Acceleration::Tcg,
            boot: Boot::Initramfs {
                kernel: Path::new("/k"),
                initramfs: Path::new("/i"),
                counter_khz: None,
            },
            folder: Path::new("/run/a,b"),
            below: &below,
            share: None,
            discard: true,
        };
        let command = machine.command();
        let start = command
            .iter()
            .position(|word| word.contains("virtserialport"));
        assert_eq!(command[start.unwrap() + 1..], *expected);
    }

    #[test]
    fn each_file_below_is_a_disk_with_the_default_settings() {
        check(
            Vec::new(),
            &["/d/disk0.img", "/d/a,b"],
            &[
                "-drive",
                "if=none,id=disk0,file=/d/disk0.img,format=raw,discard=unmap,aio=threads,cache=none",
                "-device",
                "virtio-blk-pci,drive=disk0,serial=iodyno0",
                "-drive",
                "if=none,id=disk1,file=/d/a,,b,format=raw,discard=unmap,aio=threads,cache=none",
                "-device",
                "virtio-blk-pci,drive=disk1,serial=iodyno1",
            ],
        );
    }

    #[test]
    fn interfaces_caches_threads_and_limits_are_passed_on() {
        let disks = vec![
            VmDisk {
                interface: DiskInterface::VirtioScsi,
                cache: DiskCache::DirectSync,
                aio: DiskAio::Native,
                iothread: true,
                origin: DiskOrigin::Clone,
                ..VmDisk::default()
            },
            VmDisk {
                backend: DiskBackend::Null { size: 1 << 30 },
                interface: DiskInterface::Nvme,
                throttle: Limits {
                    read_iops: 500,
                    write_bandwidth: 1 << 20,
                    ..Limits::default()
                },
                ..VmDisk::default()
            },
        ];
        check(
            disks,
            &["/d/overlay"],
            &[
                "-drive",
                "if=none,id=disk0,file=/d/overlay,format=qcow2,discard=unmap,aio=native,cache=directsync",
                "-object",
                "iothread,id=io0,poll-max-ns=0",
                "-device",
                "virtio-scsi-pci,id=scsi0,iothread=io0",
                "-device",
                "scsi-hd,bus=scsi0.0,drive=disk0,serial=iodyno0",
                "-drive",
                "if=none,id=disk1,file.driver=null-co,file.size=1073741824,file.read-zeroes=on,format=raw,cache=none,throttling.iops-read=500,throttling.bps-write=1048576",
                "-device",
                "nvme,drive=disk1,serial=iodyno1",
            ],
        );
    }

    #[test]
    fn an_emulated_guest_does_not_measure_the_rate_of_its_clock() {
        let vm = VmLayer::default();
        for (acceleration, counter_khz, expected) in [
            (
                Acceleration::Tcg,
                Some(2_596_125),
                "tsc=reliable tsc_early_khz=2596125",
            ),
            (Acceleration::Tcg, None, "clocksource=hpet"),
            (Acceleration::Kvm, Some(2_596_125), "tsc=reliable"),
        ] {
            let machine = Machine {
                vm: &vm,
                token: "0a1b",
                number: 1,
                acceleration,
                boot: Boot::Initramfs {
                    kernel: Path::new("/k"),
                    initramfs: Path::new("/i"),
                    counter_khz,
                },
                folder: Path::new("/run/x"),
                below: &[],
                share: None,
                discard: true,
            };
            let command = machine.command().join(" ");
            let words = format!("panic=-1 {expected} no_timer_check");
            assert!(command.contains(&words), "{command}");
        }
    }

    #[test]
    fn an_image_is_booted_from_its_overlay_without_a_network() {
        let vm = VmLayer::default();
        let command = |image: &VmImage| {
            let machine = Machine {
                vm: &vm,
                token: "0a1b",
                number: 1,
                acceleration: Acceleration::Tcg,
                boot: Boot::Image {
                    image,
                    overlay: Path::new("/o,1"),
                    program: Path::new("/p"),
                    port: 4022,
                },
                folder: Path::new("/run/x"),
                below: &["/d".into()],
                share: None,
                discard: true,
            };
            machine.command().join(" ")
        };
        let own = command(&VmImage::default());
        for words in [
            "file=/o,,1,format=qcow2,cache=unsafe -device virtio-blk-pci,drive=image,serial=iodyno-image,bootindex=0",
            "file=/p,format=raw,readonly=on",
            "user,id=net,restrict=on,hostfwd=tcp:127.0.0.1:4022-:22",
            "file=/d,format=raw",
        ] {
            assert!(own.contains(words), "{own}");
        }
        assert!(
            !own.contains("-kernel") && !own.contains("virtserialport"),
            "{own}"
        );
        let direct = command(&VmImage {
            kernel: Some("/k".into()),
            append: Some("root=/dev/vda".to_owned()),
            ..VmImage::default()
        });
        assert!(
            direct.contains("-kernel /k -append root=/dev/vda "),
            "{direct}"
        );
        assert!(!direct.contains("bootindex"), "{direct}");
    }

    #[test]
    fn a_zoned_disk_is_a_namespace_of_an_nvme_device() {
        let disk = VmDisk {
            interface: DiskInterface::Nvme,
            zone: Some(4 << 20),
            ..VmDisk::default()
        };
        check(
            vec![disk],
            &["/d/disk0.img"],
            &[
                "-drive",
                "if=none,id=disk0,file=/d/disk0.img,format=raw,discard=unmap,aio=threads,cache=none",
                "-device",
                "nvme,id=nvme0,serial=iodyno0",
                "-device",
                "nvme-ns,bus=nvme0,drive=disk0,zoned=true,zoned.zone_size=4194304",
            ],
        );
    }

    #[test]
    fn modules_are_those_of_the_disks_and_of_the_layers_above() {
        let above = [Layer::FileSystem {
            fs: iodyno_model::FileSystemKind::Xfs,
            mkfs: Vec::new(),
            mount: Vec::new(),
        }];
        let names = modules_of(&VmLayer::default(), 1, &above);
        assert_eq!(names, ["virtio_pci", "virtio_console", "virtio_blk", "xfs"]);
        let crypt = Layer::Dm(DmTarget::Crypt {
            cipher: "aes-cbc-essiv:sha256".to_owned(),
            key_bits: 256,
            sector: None,
        });
        let names = modules_of(&VmLayer::default(), 0, &[crypt]);
        assert_eq!(names[2..], ["dm_crypt", "aes", "cbc", "essiv", "sha256"]);
    }
}
