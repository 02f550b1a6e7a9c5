//! Whether targets can be made on this host, before anything is changed.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use iodyno_guard::Guard;
use iodyno_host::space::{self, Need};
use iodyno_host::text;
use iodyno_model::{
    Diagnostic, DmTarget, FileSystemKind, Layer, Pinning, Provision, Shape, ZfsLayer, ZfsOrigin,
    number_list,
};
use iodyno_units::{Bytes, Nanos};
use rustix::fs::Access;

use super::host::word;
use super::host_ops::HostOps;
use super::maker::{Maker, admit};
use super::mapped::DELAY_UNIT_NS;
use super::request::ProvisionRequest;
use super::settings::sysctl_path;
use super::tools::{kernel, not_installed, tools};
use super::{mapped, served, throttle, vm, zfs};

/// The smallest device or file of a ZFS pool, bytes.
const MIN_VDEV: u64 = 64 << 20;

/// What a layer gives, in words.
/// Whether a name cannot lead out of its folder.
fn is_plain(name: &str) -> bool {
    let mut parts = name.split('/');
    !name.is_empty() && parts.all(|part| !part.is_empty() && part != "." && part != "..")
}

/// Whether the order of the layers makes sense: all faults.
pub(super) fn shapes(layers: &[Layer]) -> Vec<Diagnostic> {
    let mut faults = Vec::new();
    let mut below = Shape::Nothing;
    for layer in layers.iter().rev() {
        let kind = layer.kind();
        let (needs, fits) = match (layer, below) {
            (
                Layer::Directory { .. }
                | Layer::Device { .. }
                | Layer::Zram { .. }
                | Layer::Tmpfs { .. },
                below,
            ) => ("to be the lowest layer", below == Shape::Nothing),
            (
                Layer::File { .. }
                | Layer::Overlay { .. }
                | Layer::Nfs(_)
                | Layer::Virtiofs(_)
                | Layer::Fuse(_),
                below,
            ) => ("a folder below it", below == Shape::Folder),
            (Layer::Loop { .. }, below) => (
                "files below it, as in `loop on file`",
                matches!(below, Shape::Files(_)),
            ),
            (
                Layer::FileSystem {
                    fs: FileSystemKind::Btrfs,
                    ..
                }
                | Layer::Throttle(_),
                below,
            ) => ("devices below it", matches!(below, Shape::Devices(_))),
            (Layer::FileSystem { .. }, below) => {
                ("one device below it", below == Shape::Devices(1))
            }
            (Layer::Zfs(_) | Layer::Delay { .. } | Layer::Mirror(_), below) => (
                "devices or files below it",
                matches!(below, Shape::Devices(_) | Shape::Files(_)),
            ),
            (Layer::Md(_), below) => (
                "at least two devices below it",
                matches!(below, Shape::Devices(2..)),
            ),
            (Layer::Dm(DmTarget::LogWrites), below) => (
                "pairs of devices below it, one for the data and one for the log",
                matches!(below, Shape::Devices(count) if count.is_multiple_of(2)),
            ),
            (Layer::Dm(_), below) => ("devices below it", matches!(below, Shape::Devices(_))),
            (Layer::Vm(_), below) => (
                "storage below it, as in `vm on file`",
                below != Shape::Nothing,
            ),
        };
        if let (Layer::Delay { disks, .. }, Shape::Files(count) | Shape::Devices(count)) =
            (layer, below)
            && !matches!(disks.len(), 0 | 1)
            && disks.len() != count as usize
        {
            let named = disks.len();
            let message =
                format!("`delay.disk` names {named} disks, and there are {count} below it");
            faults.push(Diagnostic::error(message).hint("name one disk for all, or one for each"));
        }
        if !fits {
            let message = format!(
                "`{kind}` needs {needs}, and there is {} below it",
                below.words()
            );
            faults.push(Diagnostic::error(message));
        }
        below = layer.shape(below);
        if let Shape::Files(0) | Shape::Devices(0) = below {
            faults.push(Diagnostic::error(format!(
                "`{kind}` needs at least one path or device"
            )));
        }
    }
    match below {
        Shape::Files(2..) | Shape::Devices(2..) => {
            let kind = layers.first().map_or("", Layer::kind);
            let message = format!(
                "the top layer `{kind}` gives {}, and trials use one",
                below.words()
            );
            let hint = "put a file system or a pool on top, or lower `count`";
            faults.push(Diagnostic::error(message).hint(hint));
        }
        Shape::Nothing => faults.push(Diagnostic::error("there is no layer")),
        _ => {}
    }
    faults
}

impl Maker<'_> {
    /// All faults of these requests.
    pub(super) fn check(&self, requests: &[ProvisionRequest]) -> Vec<Diagnostic> {
        // Each with the configurations that have it.
        let mut faults: Vec<(Diagnostic, Vec<String>)> = Vec::new();
        for request in requests {
            let name = format!("`{}`", request.configuration);
            for fault in self.faults(request) {
                match faults.iter_mut().find(|(known, _)| *known == fault) {
                    Some((_, names)) if names.contains(&name) => {}
                    Some((_, names)) => names.push(name.clone()),
                    None => faults.push((fault, vec![name.clone()])),
                }
            }
        }
        let of = |(fault, names): (Diagnostic, Vec<String>)| {
            let word = match names.len() {
                1 => "configuration",
                _ => "configurations",
            };
            let message = format!("{word} {}: {}", names.join(", "), fault.message);
            Diagnostic { message, ..fault }
        };
        faults.into_iter().map(of).collect()
    }

    fn faults(&self, request: &ProvisionRequest) -> Vec<Diagnostic> {
        let provision = &request.provision;
        let roots = self.host.roots();
        let mut faults = shapes(&provision.layers);
        let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if request.token.is_empty()
            || request.token.len() > 32
            || !request.token.chars().all(allowed)
        {
            let message = format!("`{}` cannot be the token of a target", request.token);
            faults.push(Diagnostic::error(message));
        }
        faults.extend(self.needs_root(provision));
        let guard = self.guard(&request.protected);
        let mut ops = HostOps {
            host: self.host,
            guard: &guard,
            journals: &self.folders.journals,
            environment: provision.env.clone(),
            mark: format!("{}/check", request.token),
            inodes: BTreeMap::new(),
            stop: self.stop,
            progress: &|_| (),
            commands: Vec::new(),
        };
        let mut below = Shape::Nothing;
        let above = provision.vm().map_or(0, |(_, above)| above.len());
        for (place, layer) in provision.layers.iter().enumerate().rev() {
            // The image of a guest has its own.
            let in_image =
                place < above && provision.vm().is_some_and(|(vm, _)| vm.image.is_some());
            for (program, package) in tools(layer) {
                if !in_image {
                    faults.extend(not_installed(self.host, program, layer.kind(), package));
                }
            }
            if place >= above
                && let Some((file, hint)) = kernel(layer, roots)
                && !file.exists()
            {
                let message = format!(
                    "`{}` needs `{}`, which does not exist",
                    layer.kind(),
                    file.display()
                );
                faults.push(Diagnostic::error(message).hint(hint));
            } else if place >= above {
                faults.extend(mapped::lacking(&mut ops, layer));
            }
            let in_guest = place < above;
            faults.extend(self.layer_faults(layer, in_guest, below, request, &mut ops));
            if place < above {
                continue;
            }
            below = layer.shape(below);
        }
        for name in provision.sysctl.keys() {
            let path = sysctl_path(roots, name);
            if !is_plain(name) || !path.is_file() {
                let message = format!("the kernel has no setting `{name}`");
                faults.push(Diagnostic::error(message).hint("`sysctl -a` lists all"));
            }
        }
        for name in provision.queue.keys() {
            if !is_plain(name) || name.contains('/') {
                faults.push(Diagnostic::error(format!(
                    "`{name}` is not a setting of a queue"
                )));
            }
        }
        faults
    }

    fn needs_root(&self, provision: &Provision) -> Option<Diagnostic> {
        let privileged = |layer: &&Layer| match layer {
            Layer::Directory { .. } | Layer::File { .. } | Layer::Virtiofs(_) | Layer::Vm(_) => {
                false
            }
            Layer::Mirror(mirror) => mirror.queues.is_none(),
            _ => true,
        };
        // In a guest, everyone is root.
        let above = provision.vm().map_or(0, |(_, above)| above.len());
        let here = provision.layers[above..].iter();
        let mut what: Vec<String> = here
            .filter(privileged)
            .map(|layer| format!("`{}`", layer.kind()))
            .collect();
        let settings =
            !provision.sysctl.is_empty() || !provision.queue.is_empty() && provision.vm().is_none();
        what.extend(settings.then(|| "changing settings of the host".to_owned()));
        (!what.is_empty() && !self.host.is_root()).then(|| {
            let message = format!("only root can make it: {}", what.join(", "));
            Diagnostic::error(message)
                .hint("run iodyno as root, or use `directory` or `file on directory`")
        })
    }

    fn layer_faults(
        &self,
        layer: &Layer,
        in_guest: bool,
        below: Shape,
        request: &ProvisionRequest,
        ops: &mut HostOps<'_>,
    ) -> Vec<Diagnostic> {
        let provision = &request.provision;
        match layer {
            // The command makes it.
            Layer::Directory { .. } if provision.setup.is_some() => Vec::new(),
            Layer::Directory { path } => self.folder_faults(path, request, ops.guard),
            Layer::Device { paths } => {
                let faults = paths.iter();
                let faults = faults.map(|path| device_fault(path, &request.destroy, ops.guard));
                faults.flatten().collect()
            }
            // What the guest's ZFS lacks is found in the guest.
            Layer::Zfs(zfs) if in_guest => {
                let mut faults = zfs_faults(zfs, provision);
                faults.extend(zfs::unpinned(zfs));
                faults
            }
            Layer::Zfs(zfs) => {
                let mut faults = zfs::check(ops, zfs, below.count() as usize);
                faults.extend(zfs_faults(zfs, provision));
                faults.extend(self.pinning_faults(&zfs.pinning));
                faults
            }
            Layer::Overlay { .. } => {
                let special = |path: &Path| path.to_string_lossy().contains([',', ':', '\\']);
                let lowest = provision.layers.last();
                match lowest {
                    Some(Layer::Directory { path }) if special(path) => {
                        let message = format!(
                            "`overlay` cannot use `{}`: its name contains a comma, a colon or a backslash",
                            path.display()
                        );
                        vec![Diagnostic::error(message)]
                    }
                    _ => Vec::new(),
                }
            }
            Layer::Delay {
                read_ns,
                write_ns,
                pinning,
                ..
            } => {
                let spans = [read_ns, write_ns].into_iter();
                let broken = spans.filter(|ns| *ns % DELAY_UNIT_NS != 0).map(|ns| {
                    let message = format!("`delay` cannot wait for {}", Nanos(*ns));
                    Diagnostic::error(message).hint("use whole milliseconds: nbdkit has no others")
                });
                broken.chain(self.pinning_faults(pinning)).collect()
            }
            Layer::Mirror(mirror) => {
                let mounts = self.folders.mounts.join(&request.token);
                let mut faults = served::faults(self.host, layer, provision, &mounts);
                faults.extend(self.pinning_faults(&mirror.pinning));
                faults
            }
            Layer::Virtiofs(server) | Layer::Fuse(server) => {
                let mounts = self.folders.mounts.join(&request.token);
                let mut faults = served::faults(self.host, layer, provision, &mounts);
                faults.extend(self.pinning_faults(&server.pinning));
                faults
            }
            Layer::Vm(vm) => {
                let mounts = self.folders.mounts.join(&request.token);
                let mut faults = vm::faults(self.host, provision, &mounts, below);
                faults.extend(self.pinning_faults(&vm.pinning));
                faults
            }
            Layer::Md(_) | Layer::Dm(_) => mapped::faults(layer, &request.token),
            Layer::Throttle(limits) => throttle::settings(self.host.roots(), limits)
                .err()
                .into_iter()
                .collect(),
            _ => Vec::new(),
        }
    }

    /// What the host lacks to run server processes on these CPUs and nodes.
    fn pinning_faults(&self, pinning: &Pinning) -> Vec<Diagnostic> {
        let mut faults = Vec::new();
        let system = self.host.roots().sys.join("devices/system");
        for (list, what, online, (program, package)) in [
            (
                &pinning.cpus,
                "CPU",
                "cpu/online",
                ("taskset", "util-linux"),
            ),
            (
                &pinning.numa,
                "NUMA node",
                "node/online",
                ("numactl", "numactl"),
            ),
        ] {
            let Some(list) = list else { continue };
            let there = text(system.join(online)).unwrap_or_default();
            let there_numbers = number_list(&there).unwrap_or_default();
            let wanted = number_list(list).unwrap_or_default();
            let mut missing = wanted.iter().filter(|it| !there_numbers.contains(it));
            if let Some(number) = missing.next() {
                let others = match missing.count() {
                    0 => String::new(),
                    others => format!(" (and {others} more of `{list}`)"),
                };
                let message = format!("the host has no {what} {number}{others}");
                faults.push(Diagnostic::error(message).hint(format!("it has {there}")));
            }
            faults.extend(not_installed(self.host, program, list, package));
        }
        faults
    }

    fn folder_faults(
        &self,
        path: &Path,
        request: &ProvisionRequest,
        guard: &Guard,
    ) -> Vec<Diagnostic> {
        let provision = &request.provision;
        let fault = |message| vec![Diagnostic::error(message)];
        if let Err(why) = word(path) {
            return vec![why];
        }
        if matches!(path.symlink_metadata(), Err(error) if error.kind() == io::ErrorKind::NotFound)
        {
            let path = path.display();
            let message = format!("the folder `{path}` does not exist");
            let hint = format!("check the name, or make it with `mkdir -p {path}`");
            return vec![Diagnostic::error(message).hint(hint)];
        }
        match admit(guard, path, &[]) {
            Err(refused) => return vec![refused],
            Ok(_) if !path.is_dir() => {
                return fault(format!("`{}` is not a folder", path.display()));
            }
            Ok(_) => {}
        }
        if rustix::fs::access(path, Access::WRITE_OK).is_err() {
            let message = format!("`{}` cannot be written", path.display());
            return vec![Diagnostic::error(message).hint("check its permissions")];
        }
        self.shortages(path, provision, request.golden.is_some())
    }

    /// Whether the image files fit into the folder.
    fn shortages(&self, folder: &Path, provision: &Provision, golden: bool) -> Vec<Diagnostic> {
        let Some([Layer::File { size, count, .. }, _]) = provision.layers.last_chunk() else {
            return Vec::new();
        };
        // A clone can become as large as the golden image.
        let files = match provision.golden() {
            Some(_) if !golden => u64::from(*count) + 1,
            _ => u64::from(*count),
        };
        let need = Need {
            folder: folder.to_owned(),
            bytes: size.saturating_mul(files),
            inodes: u64::from(*count) + 1,
            longest: *size,
        };
        let shortages = space::check(self.host.roots(), &[need]);
        let text = shortages.iter().map(ToString::to_string);
        text.map(|text| {
            let fault = Diagnostic::of_text(&text);
            fault.hint("lower `file.size` or `file.count`, or free space")
        })
        .collect()
    }
}

fn device_fault(path: &Path, destroy: &[PathBuf], guard: &Guard) -> Option<Diagnostic> {
    match admit(guard, path, destroy) {
        Ok(admitted) => match admitted.written_device() {
            // Nothing was written: its record stays as it was.
            Some(device) => {
                let _ = device.record();
                None
            }
            None => {
                let message = format!("`{}` is not a block device", path.display());
                Some(Diagnostic::error(message))
            }
        },
        Err(fault) => Some(fault),
    }
}

/// What a pool lacks in the other settings of its target.
fn zfs_faults(layer: &ZfsLayer, provision: &Provision) -> Vec<Diagnostic> {
    let mut faults = Vec::new();
    if layer.origin != ZfsOrigin::New && provision.fill == 0 {
        let message = "a clone or copy of an empty dataset or volume has no content";
        let hint = "set `fill` to the number of bytes to write before the snapshot";
        faults.push(Diagnostic::error(message).hint(hint));
    }
    // Files on the pool may have any size.
    let is_pool = |one: &&Layer| !matches!(one, Layer::Zfs(zfs) if zfs == layer);
    let below = provision.layers.iter().skip_while(is_pool);
    faults.extend(below.filter_map(|one| match one {
        Layer::File { size, .. } if *size < MIN_VDEV => {
            let message = format!("a file of {} is too small for a ZFS pool", Bytes(*size));
            Some(Diagnostic::error(message).hint("set `file.size` to 64 MiB or more"))
        }
        _ => None,
    }));
    faults
}
