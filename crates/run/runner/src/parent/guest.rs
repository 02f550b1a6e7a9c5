//! Nodes within virtual machines.
//!
//! The process started here passes bytes between this process and a node in the guest, over a serial port of the
//! virtual machine. The guest belongs to a provisioned target, and ends when the target is undone.

use std::path::{Path, PathBuf};
use std::process::Command;

use iodyno_model::{Layer, Provision, ZfsOrigin};
use iodyno_storage::guest::ANSWER_LIMIT;
use iodyno_storage::layers::{Guest, ProvisionRequest};

use crate::parent::process::{Connection, Launcher};

/// The interval of keepalive messages, ns. The CPUs of an emulated guest can be busy for long on a busy host.
const EVERY_NS: u64 = 4_000_000_000;

/// A node within a virtual machine of another node.
#[derive(Debug)]
pub(crate) struct GuestNode<'a> {
    host: &'a dyn Launcher,
    socket: PathBuf,
    connection: Connection,
}

impl<'a> GuestNode<'a> {
    /// `None`: the host cannot reach it.
    pub(crate) fn new(host: &'a dyn Launcher, guest: &Guest) -> Option<GuestNode<'a>> {
        host.in_guest("", &guest.socket)?;
        Some(GuestNode {
            host,
            socket: guest.socket.clone(),
            connection: Connection {
                to: guest.name.clone(),
                hello_ns: ANSWER_LIMIT.as_nanos() as u64,
                every_ns: EVERY_NS,
            },
        })
    }
}

impl Launcher for GuestNode<'_> {
    fn program(&self) -> &Path {
        self.host.program()
    }

    fn command(&self, task: &str) -> Command {
        let command = self.host.in_guest(task, &self.socket);
        // An empty name cannot be started. The host's own command would do on the host what belongs in the guest.
        command.unwrap_or_else(|| Command::new(""))
    }

    fn connection(&self) -> Option<&Connection> {
        Some(&self.connection)
    }
}

/// The part of this target made in a guest: the layers above the virtual machines, on all its disks. `None`: nothing.
pub(crate) fn request(target: &ProvisionRequest, guest: &Guest) -> Option<ProvisionRequest> {
    let provision = &target.provision;
    let (_, above) = provision.vm()?;
    let below = &provision.layers[above.len() + 1..];
    // The host's own devices got these settings.
    let queue = match below.iter().any(Layer::gives_devices) {
        true => Default::default(),
        false => provision.queue.clone(),
    };
    // A golden disk, and the original of a clone or copy below, were filled on the host.
    let filled = |layer: &Layer| matches!(layer, Layer::Zfs(zfs) if zfs.origin != ZfsOrigin::New);
    let fill = match provision.golden().is_some() || below.iter().any(filled) {
        true => 0,
        false => provision.fill,
    };
    if above.is_empty() && fill == 0 && queue.is_empty() {
        return None;
    }
    let mut layers = above.to_vec();
    layers.push(match (guest.shared, guest.disks.first()) {
        (true, Some(folder)) => Layer::Directory {
            path: folder.clone(),
        },
        _ => Layer::Device {
            paths: guest.disks.clone(),
        },
    });
    Some(ProvisionRequest {
        provision: Provision {
            layers,
            fill,
            queue,
            env: provision.env.clone(),
            ..Provision::default()
        },
        destroy: guest.disks.clone(),
        protected: Vec::new(),
        golden: None,
        ..target.clone()
    })
}

#[cfg(test)]
mod tests {
    use iodyno_model::{DiskOrigin, FileSystemKind, VmDisk, VmLayer, ZfsLayer};

    use super::*;

    fn target(layers: Vec<Layer>) -> ProvisionRequest {
        ProvisionRequest {
            token: "t".to_owned(),
            configuration: "c".to_owned(),
            provision: Provision {
                layers,
                ..Provision::default()
            },
            destroy: vec!["/dev/sdb".into()],
            protected: vec!["/store".into()],
            golden: Some("g".to_owned()),
        }
    }

    #[test]
    fn only_the_layers_above_are_made_in_a_guest_and_only_its_disks_may_be_overwritten() {
        let guest = Guest {
            name: "guest1".to_owned(),
            socket: "/run/node".into(),
            disks: vec!["/dev/iodyno-t/disk0".into()],
            shared: false,
        };
        let vm = Layer::Vm(VmLayer::default());
        let folder = Layer::Directory { path: "/d".into() };
        let ext4 = Layer::FileSystem {
            fs: FileSystemKind::Ext4,
            mkfs: Vec::new(),
            mount: Vec::new(),
        };
        let plain = target(vec![vm.clone(), folder.clone()]);
        assert_eq!(request(&plain, &guest), None);
        let filled = ProvisionRequest {
            provision: Provision {
                fill: 1,
                ..plain.provision.clone()
            },
            ..plain
        };
        let disks = Layer::Device {
            paths: guest.disks.clone(),
        };
        let made = request(&filled, &guest).unwrap();
        assert_eq!(made.provision.layers, std::slice::from_ref(&disks));
        let made = request(&target(vec![ext4.clone(), vm, folder]), &guest).unwrap();
        assert_eq!(made.provision.layers, [ext4, disks]);
        assert_eq!(
            (made.destroy, made.protected),
            (guest.disks.clone(), Vec::new())
        );
        assert_eq!((made.token.as_str(), made.golden), ("t", None));
        let clone = VmDisk {
            origin: DiskOrigin::Clone,
            ..VmDisk::default()
        };
        let clones = Layer::Vm(VmLayer {
            disks: vec![clone],
            ..VmLayer::default()
        });
        let mut golden = target(vec![clones, Layer::Directory { path: "/d".into() }]);
        golden.provision.fill = 1;
        assert_eq!(request(&golden, &guest), None);
        // Steps done on the host are not repeated in the guest.
        let zram = |count| Layer::Zram {
            size: 1,
            count,
            algorithm: None,
        };
        let vm = || Layer::Vm(VmLayer::default());
        let mut queued = target(vec![vm(), zram(1)]);
        queued.provision.queue = [("scheduler".to_owned(), "none".to_owned())].into();
        assert_eq!(request(&queued, &guest), None);
        queued.provision.layers = vec![zram(1), vm(), Layer::Directory { path: "/d".into() }];
        assert!(request(&queued, &guest).is_some_and(|it| !it.provision.queue.is_empty()));
        let clone = Layer::Zfs(ZfsLayer {
            origin: ZfsOrigin::Clone,
            volume: Some(1 << 20),
            ..ZfsLayer::default()
        });
        let mut cloned = target(vec![vm(), clone, zram(1)]);
        cloned.provision.fill = 1;
        assert_eq!(request(&cloned, &guest), None);
    }
}
