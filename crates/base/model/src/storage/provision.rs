//! How storage is made, and how often.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::{DiskOrigin, EngineKind, FileSystemKind, FolderServer, Layer, VmLayer};

/// The storage of a configuration: how to make it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Provision {
    /// From the top down.
    pub layers: Vec<Layer>,
    /// Bytes written with random data before the first trial on a new target; 0: none.
    #[serde(default)]
    pub fill: u64,
    /// Precondition a new target for at most this time, ns; 0: do not.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub precondition_ns: u64,
    /// Kernel settings while it exists: `vm.dirty_ratio` → `10`.
    #[serde(default)]
    pub sysctl: BTreeMap<String, String>,
    /// Queue settings of its lowest devices while it exists: `scheduler` → `none`.
    #[serde(default)]
    pub queue: BTreeMap<String, String>,
    /// Environment of the commands.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Command that makes storage that iodyno does not know. It prints nothing that iodyno reads.
    #[serde(default)]
    pub setup: Option<String>,
    /// Command that succeeds once the target can be used; repeated until then.
    #[serde(default)]
    pub ready: Option<String>,
    /// Command that undoes `setup`.
    #[serde(default)]
    pub teardown: Option<String>,
    /// Names of processes to sample: servers.
    #[serde(default)]
    pub sample: Vec<String>,
}

impl Provision {
    /// Whether it changes settings of the host, which other programs may change as well.
    pub fn has_settings(&self) -> bool {
        !self.sysctl.is_empty() || !self.queue.is_empty()
    }

    /// The existing folders and devices that it uses.
    pub fn paths(&self) -> Vec<PathBuf> {
        let mut paths = Vec::new();
        for layer in &self.layers {
            match layer {
                Layer::Directory { path } => paths.push(path.clone()),
                Layer::Device { paths: devices } => paths.extend(devices.iter().cloned()),
                _ => {}
            }
        }
        paths
    }

    /// The existing folders that it uses.
    pub fn folders(&self) -> impl Iterator<Item = &PathBuf> {
        let layers = self.layers.iter();
        layers.filter_map(|layer| match layer {
            Layer::Directory { path } => Some(path),
            _ => None,
        })
    }

    /// The existing devices that it uses alone while it exists.
    pub fn devices(&self) -> impl Iterator<Item = &PathBuf> {
        let layers = self.layers.iter();
        let devices = layers.filter_map(|layer| match layer {
            Layer::Device { paths } => Some(paths),
            _ => None,
        });
        devices.flatten()
    }

    /// Its virtual machines, with the layers that are made in each of them.
    pub fn vm(&self) -> Option<(&VmLayer, &[Layer])> {
        let mut layers = self.layers.iter().enumerate();
        layers.find_map(|(place, layer)| match layer {
            Layer::Vm(vm) => Some((vm, &self.layers[..place])),
            _ => None,
        })
    }

    /// The image from which the disks of its virtual machines are made, once for a run; `None`: they are new.
    pub fn golden(&self) -> Option<Provision> {
        let (vm, above) = self.vm()?;
        let mut layers = self.layers[above.len() + 1..].to_vec();
        if let Some(Layer::File { count, .. }) = layers.first_mut() {
            *count = 1;
        }
        (vm.disk().origin != DiskOrigin::New).then(|| Provision {
            layers,
            fill: self.fill,
            env: self.env.clone(),
            ..Provision::default()
        })
    }

    /// Why there is nothing to copy for [`Provision::golden`], each with what to do.
    pub fn golden_faults(&self) -> Vec<(String, &'static str)> {
        let (Some(golden), Some((vm, _))) = (self.golden(), self.vm()) else {
            return Vec::new();
        };
        let mut faults = Vec::new();
        if !matches!(
            golden.layers[..],
            [Layer::File { .. }, Layer::Directory { .. }]
        ) {
            let origin = vm.disk().origin.name();
            let message = format!("`vm.disk.origin = \"{origin}\"` needs image files");
            faults.push((message, "put `file on FOLDER` below `vm`"));
        }
        if golden.fill == 0 {
            let message =
                "`vm.disk.origin` has no effect: a clone or copy of an empty disk has no content";
            let hint = "set `fill` to the number of bytes to write to the golden disk";
            faults.push((message.to_owned(), hint));
        }
        faults
    }

    /// The engine by which its jobs are clients of its top layer; `None`: they use files or devices.
    pub fn client_engine(&self) -> Option<EngineKind> {
        match self.layers.first()? {
            Layer::Virtiofs(_) => Some(EngineKind::Virtiofs),
            Layer::Mirror(mirror) if mirror.queues.is_some() => Some(EngineKind::VhostUserBlk),
            _ => None,
        }
    }

    /// The server of virtio-fs whose clients its jobs are.
    pub fn virtiofs(&self) -> Option<&FolderServer> {
        match self.layers.first() {
            Some(Layer::Virtiofs(server)) => Some(server),
            _ => None,
        }
    }

    /// Whether it can be returned to a snapshot: its top layer takes them.
    pub fn has_snapshots(&self) -> bool {
        let btrfs = FileSystemKind::Btrfs;
        matches!(self.layers.first(), Some(Layer::Zfs(_)))
            || matches!(self.layers.first(), Some(Layer::FileSystem { fs, .. }) if *fs == btrfs)
    }

    /// `ext4 on loop on file on /data`.
    pub fn words(&self) -> String {
        let layers: Vec<String> = self.layers.iter().map(Layer::words).collect();
        match (layers.is_empty(), &self.setup) {
            (false, _) => layers.join(" on "),
            (true, Some(setup)) => setup.clone(),
            (true, None) => String::new(),
        }
    }
}

/// How often a target is made anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fresh {
    /// For each round, so that a verdict does not depend on one instance of a file system.
    #[default]
    Round,
    /// For each trial.
    Trial,
    /// Once.
    Experiment,
}

/// A command that was run while storage was made or undone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandRun {
    /// The command line.
    pub command: String,
    /// Its exit status; `None`: it was ended by a signal, or could not be started.
    pub status: Option<i32>,
    /// The last part of what it printed, at most 16 KiB.
    pub output: String,
    /// From start to end, ns.
    pub span_ns: u64,
}
