//! `--node NAME=vm:linux`: virtual machines of this host as the nodes of a run.
//!
//! They are the layer `vm` of each configuration, whose target is the disk that `--on` names. So they are made,
//! recorded and undone as the virtual machines of an experiment.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use iodyno_host::StateFolders;
use iodyno_model::{
    Configuration, Diagnostic, DiskBackend, Layer, NodeAddress, PlannedNode, Provision, Target,
    VmAddress, VmDisk, VmLayer, VmStorage,
};

use crate::configurations::configurations;
use crate::failure::Failure;

/// The paths of a guest's disks, without their letter.
const DISK: &str = "/dev/vd";
/// The size of a disk that only reserves a name, bytes.
const UNUSED: u64 = 1 << 20;

/// Whether any of these nodes is a virtual machine.
pub(crate) fn any(nodes: &[PlannedNode]) -> bool {
    nodes.iter().any(|node| address(node).is_some())
}

fn address(node: &PlannedNode) -> Option<VmAddress> {
    match node.at.parse() {
        Ok(NodeAddress::Vm(vm)) => Some(*vm),
        _ => None,
    }
}

/// The configurations of the `--on` flags on these virtual machines. `folder`: the start of relative paths.
///
/// # Errors
/// Every error of every flag.
pub(crate) fn on_guests(
    nodes: &[PlannedNode],
    on: &[OsString],
    folder: &Path,
) -> Result<Vec<Configuration>, Vec<Diagnostic>> {
    let mut faults = Vec::new();
    let below = below(nodes, folder, &mut faults);
    let configurations = configurations(on, folder, |_| None).unwrap_or_else(|found| {
        faults.extend(found);
        Vec::new()
    });
    let mut found = Vec::new();
    for configuration in configurations {
        let path = match &configuration.target {
            Target::Path(path) => path.clone(),
            _ => {
                let message = "no disk of the virtual machines is named";
                faults.push(Diagnostic::error(message).hint("add `--on disk=/dev/vda`"));
                continue;
            }
        };
        let Some(place) = place_of(&path) else {
            let (name, path) = (&configuration.name, path.display());
            let message = format!(
                "`--on {name}={path}` is not a disk of the virtual machines, which have no other storage"
            );
            let hint = format!(
                "write `--on {name}={DISK}a`; an experiment with the layer `vm` makes file systems on it"
            );
            faults.push(Diagnostic::error(message).hint(hint));
            continue;
        };
        if let Some((vm, layers)) = &below {
            let unused = VmDisk {
                backend: DiskBackend::Null { size: UNUSED },
                ..VmDisk::default()
            };
            let mut vm = vm.clone();
            vm.disks.splice(0..0, vec![unused; place]);
            let mut layers = layers.clone();
            layers.insert(0, Layer::Vm(vm));
            let provision = Provision {
                layers,
                ..Provision::default()
            };
            found.push(Configuration {
                target: Target::Made(Box::new(provision)),
                ..configuration
            });
        }
    }
    match faults.is_empty() {
        true => Ok(found),
        false => Err(faults),
    }
}

/// The faults of a run with virtual machines, in terms of `--node` instead of those of experiments.
pub(crate) fn in_words_of_flags(failure: Failure) -> Failure {
    const WORDS: [(&str, &str); 8] = [
        (
            "`vm.memory` or `vm.guests`",
            "`memory` of the virtual machines or their number",
        ),
        ("`vm.disk.cache`", "`cache`"),
        ("`vm.disk.aio`", "`aio`"),
        ("`vm.memory`", "`memory`"),
        ("`vm.accel`", "`accel`"),
        ("`vm.kernel`", "`kernel`"),
        ("`vm.cpus`", "`cpus`"),
        ("`vm.guests`", "the number of virtual machines"),
    ];
    let reworded = |fault: Diagnostic| {
        let hint = fault.hint.as_ref().map(|hint| {
            let new = WORDS
                .iter()
                .fold(hint.clone(), |hint, (old, new)| hint.replace(old, new));
            match new == *hint {
                true => new,
                false => format!("{new}, in `--node NAME=vm:linux,KEY=VALUE`"),
            }
        });
        Diagnostic { hint, ..fault }
    };
    Failure {
        faults: failure.faults.into_iter().map(reworded).collect(),
        ..failure
    }
}

/// The number of disks before this one: 1 for `/dev/vdb`.
fn place_of(path: &Path) -> Option<usize> {
    match path.to_str()?.strip_prefix(DISK)?.as_bytes() {
        [letter @ b'a'..=b'z'] => Some(usize::from(letter - b'a')),
        _ => None,
    }
}

/// The virtual machines, and the layers below them.
fn below(
    nodes: &[PlannedNode],
    folder: &Path,
    faults: &mut Vec<Diagnostic>,
) -> Option<(VmLayer, Vec<Layer>)> {
    let mut fault = |message: String, hint: &str| {
        faults.push(Diagnostic::error(message).hint(hint));
    };
    let first = nodes.iter().find_map(address)?;
    let mut devices: Vec<PathBuf> = Vec::new();
    for node in nodes {
        let (name, at) = (&node.name, &node.at);
        if name == VmLayer::HOST {
            let message = format!(
                "a virtual machine cannot be named `{name}`: this is the name of their host"
            );
            fault(message, "give it another name");
        }
        let Some(own) = address(node) else {
            let message =
                format!("`--node {name}={at}` is not a virtual machine, as other nodes are");
            fault(message, "use virtual machines alone, or none");
            continue;
        };
        let same = match (&own.storage, &first.storage) {
            (VmStorage::Device(_), VmStorage::Device(_)) => true,
            (own, first) => own == first,
        };
        if !same || own.vm != first.vm {
            let message =
                format!("`--node {name}={at}` has other settings than the first virtual machine");
            fault(message, "give all the same, except devices");
        }
        if let VmStorage::Device(path) = own.storage {
            let path = folder.join(path);
            let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
            if devices.iter().any(|other| real(other) == real(&path)) {
                let message =
                    format!("`--node {name}={at}` has the device of another virtual machine");
                fault(message, "give each its own");
            }
            devices.push(path);
        }
    }
    let lower = match first.storage {
        VmStorage::Device(_) => vec![Layer::Device { paths: devices }],
        VmStorage::Image {
            size,
            folder: given,
        } => {
            let path = match given {
                Some(given) => folder.join(given),
                None => own_folder().unwrap_or_else(|why| {
                    fault(why, "name a folder for the disks: `vm:linux,folder=PATH`");
                    PathBuf::new()
                }),
            };
            let file = Layer::File {
                size,
                count: nodes.len() as u32,
                allocate: true,
            };
            vec![file, Layer::Directory { path }]
        }
    };
    let vm = VmLayer {
        guests: nodes.len() as u32,
        names: nodes.iter().map(|node| node.name.clone()).collect(),
        kernel: first.vm.kernel.as_ref().map(|kernel| folder.join(kernel)),
        ..first.vm
    };
    Some((vm, lower))
}

/// The folder for disks, created if missing.
fn own_folder() -> Result<PathBuf, String> {
    let folders = StateFolders::of_this_user().ok_or("the folder for disks is not known")?;
    let folder = folders.journals.with_file_name("guests");
    match fs::create_dir_all(&folder) {
        Ok(()) => Ok(folder),
        Err(error) => Err(format!("cannot create `{}`: {error}", folder.display())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(nodes: &[&str], on: &[&str]) -> Result<Vec<Configuration>, Vec<String>> {
        let nodes: Vec<PlannedNode> = nodes
            .iter()
            .map(|node| node.split_once('=').unwrap())
            .map(|(name, at)| PlannedNode::new(name, at))
            .collect();
        let on: Vec<OsString> = on.iter().map(OsString::from).collect();
        on_guests(&nodes, &on, Path::new("/here"))
            .map_err(|faults| faults.into_iter().map(|fault| fault.message).collect())
    }

    #[test]
    fn the_named_disk_of_each_virtual_machine_has_storage_of_its_own() {
        let at = "vm:linux,disk=1MiB,folder=images,cpus=2";
        let nodes = [format!("a={at}"), format!("b={at}")];
        let nodes = nodes.each_ref().map(String::as_str);
        let made = made(&nodes, &["x=/dev/vda", "y=/dev/vdb"]).unwrap();
        let layers: Vec<_> = made
            .iter()
            .map(|one| &one.provision().unwrap().layers)
            .collect();
        for (layers, unused) in layers.iter().zip([0, 1]) {
            let [
                Layer::Vm(vm),
                Layer::File { size, count, .. },
                Layer::Directory { path },
            ] = &layers[..]
            else {
                panic!("{layers:?}");
            };
            assert_eq!(
                (*size, *count, path.to_str().unwrap()),
                (1 << 20, 2, "/here/images")
            );
            assert_eq!(
                (vm.guests, vm.cpus, vm.names()),
                (2, 2, vec!["a".into(), "b".into()])
            );
            assert_eq!((vm.disks.len(), vm.uses()), (unused + 1, 1));
        }
        let devices = ["a=vm:linux,disk=/dev/x", "b=vm:linux,disk=/dev/y"];
        let made = super::tests::made(&devices, &["x=/dev/vda"]).unwrap();
        let device = Layer::Device {
            paths: vec!["/dev/x".into(), "/dev/y".into()],
        };
        assert_eq!(made[0].provision().unwrap().layers[1], device);
    }

    #[test]
    fn hints_name_the_settings_of_the_flag() {
        let failure = |hint: &str| Failure::one(Diagnostic::error("x").hint(hint));
        for (hint, expected) in [
            (
                "lower `vm.memory` or `vm.guests`",
                "lower `memory` of the virtual machines or their number, in `--node NAME=vm:linux,KEY=VALUE`",
            ),
            (
                "install it: Debian's package is `qemu-system-x86`",
                "install it: Debian's package is `qemu-system-x86`",
            ),
        ] {
            assert_eq!(in_words_of_flags(failure(hint)), failure(expected));
        }
    }

    #[test]
    fn every_fault_of_virtual_machines_is_named() {
        let image = "vm:linux,folder=/d";
        let nodes = [
            format!("host={image}"),
            format!("b={image},cpus=2"),
            "c=ssh://h".to_owned(),
        ];
        let nodes = nodes.each_ref().map(String::as_str);
        let faults = made(&nodes, &["x=/mnt/x", "y=/dev/vdb1"]).unwrap_err();
        for words in [
            "cannot be named `host`",
            "`--node b=vm:linux,folder=/d,cpus=2` has other settings",
            "`--node c=ssh://h` is not a virtual machine",
            "`--on x=/mnt/x` is not a disk",
            "`--on y=/dev/vdb1` is not a disk",
        ] {
            let found = faults.iter().filter(|fault| fault.contains(words)).count();
            assert_eq!(found, 1, "{words}: {faults:?}");
        }
        assert_eq!(faults.len(), 5, "{faults:?}");
        let faults = made(
            &[
                "a=vm:linux,disk=/dev/null",
                "b=vm:linux,disk=/dev/../dev/null",
            ],
            &[],
        );
        let faults = faults.unwrap_err();
        assert!(faults[0].contains("device of another"), "{faults:?}");
        assert!(faults[1].contains("no disk"), "{faults:?}");
    }
}
