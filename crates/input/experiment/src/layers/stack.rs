//! The layers of a target, each on what it needs.

use std::ops::Range;
use std::path::{Path, PathBuf};

use iodyno_model::{Layer, MirrorLayer, Shape, VmLayer};

use super::options;
use super::wanted::{wanted, wanted_devices};
use super::words::Word;
use crate::check::Keyed;
use crate::document::Report;
use crate::keys::{Needs, layer};

/// The layers, each on what it needs. Faults are reported.
pub(super) fn built(
    words: &[Word<'_>],
    at: &Range<usize>,
    folder: &Path,
    report: &mut Report<'_>,
) -> Option<Vec<Layer>> {
    let before = report.errors();
    // Errors of a layout are reported even if the layers do not fit.
    for word in words {
        if let Word::Kind("zfs", keyed) = word {
            wanted_devices(keyed, report);
        }
    }
    // From the lowest up; `below` is what the layers so far give.
    let mut layers: Vec<Layer> = Vec::new();
    let mut below = Shape::Nothing;
    for (index, word) in words.iter().enumerate().rev() {
        let Word::Kind(kind, keyed) = word else {
            continue;
        };
        let path = match words.get(index + 1) {
            Some(Word::Path(path)) => Some(folder.join(path)),
            _ => None,
        };
        let (needs, _) = layer(kind);
        if let Some(path) = path.clone().filter(|_| needs != Needs::Path) {
            if needs == Needs::Nothing {
                let message = format!("`{kind}` has nothing below it");
                report.error(at.clone(), message, "leave the path out");
                return None;
            }
            layers.push(match is_folder(&words[..=index]) {
                true => Layer::Directory { path },
                false => Layer::Device { paths: vec![path] },
            });
            below = layers[0].shape(below);
        }
        if matches!(layers.last(), Some(Layer::Mirror(mirror)) if mirror.queues.is_some()) {
            let (message, hint) = MirrorLayer::NOT_ON_TOP;
            report.error(at.clone(), message, hint);
            return None;
        }
        let existing = match needs {
            Needs::Path => Some(lowest(kind, keyed, path, folder, at, report)?),
            _ => None,
        };
        if !needs.fits(below) {
            let (message, hint) = misfit(kind, needs);
            report.error(at.clone(), message, hint);
            return None;
        }
        check_vm(kind, (keyed, at), &layers, below, report);
        let layer = existing.unwrap_or_else(|| {
            let wanted = wanted(&words[..index], report);
            options::layer(kind, keyed, folder, wanted, report)
        });
        if let (Layer::Vm(vm), Some(lower)) = (&layer, layers.last())
            && report.errors() == before
            && let Some((message, hint)) = vm.guests_fault(lower.kind(), below)
        {
            keyed.refuse("guests", message, hint, report);
        }
        below = layer.shape(below);
        layers.push(layer);
    }
    layers.reverse();
    check_order(&layers, at, report);
    zones_below(&layers, at, report);
    (report.errors() == before).then_some(layers)
}

/// Whether the path below these layers is that of a folder, not of a device: that follows from the layers on it.
fn is_folder(above: &[Word<'_>]) -> bool {
    let shared =
        |word: &Word<'_>| matches!(word, Word::Kind("vm", keyed) if keyed.value("share").is_some());
    let mut kinds = above.iter().filter_map(|word| match word {
        Word::Kind(kind, _) => Some(layer(kind).0),
        Word::Path(_) => None,
    });
    kinds.any(|needs| needs == Needs::Folder) || above.last().is_some_and(shared)
}

/// A layer that exists: its path follows it in the text, or is among its options.
fn lowest(
    kind: &str,
    keyed: &Keyed<'_>,
    path: Option<PathBuf>,
    folder: &Path,
    at: &Range<usize>,
    report: &mut Report<'_>,
) -> Option<Layer> {
    let own = match kind {
        "directory" => keyed.text("path", report).into_iter().collect(),
        _ => keyed.texts("paths", report),
    };
    let own = own.into_iter().map(|text| folder.join(text.value));
    let mut paths: Vec<PathBuf> = match path {
        Some(path) => vec![path],
        None => own.collect(),
    };
    if paths.is_empty() {
        let message = format!("`{kind}` lacks its path");
        let hint = format!("end the target with it: `{kind} on /PATH`");
        report.error(at.clone(), message, hint);
        return None;
    }
    Some(match kind {
        "directory" => Layer::Directory {
            path: paths.swap_remove(0),
        },
        _ => Layer::Device { paths },
    })
}

/// Reports a layer that cannot be made in virtual machines, and virtual machines that share the wrong thing.
fn check_vm(
    kind: &str,
    (keyed, at): (&Keyed<'_>, &Range<usize>),
    layers: &[Layer],
    below: Shape,
    report: &mut Report<'_>,
) {
    let in_guest = layers.iter().any(|layer| matches!(layer, Layer::Vm(_)));
    let refused = VmLayer::refused_above(kind).filter(|_| in_guest);
    if let Some((message, hint)) = refused {
        report.error(at.clone(), message, hint);
    }
    let share = keyed.at("share");
    let fault = VmLayer::share_fault(share.is_some(), below).filter(|_| kind == "vm");
    if let Some((message, hint)) = fault {
        report.error(share.unwrap_or_else(|| at.clone()), message, hint);
    }
}

/// Reports layers that have to be on top, or above virtual machines.
fn check_order(layers: &[Layer], at: &Range<usize>, report: &mut Report<'_>) {
    let mut below_top = layers.iter().skip(1);
    if below_top.any(|layer| matches!(layer, Layer::Virtiofs(_))) {
        let message = "`virtiofs` is not the top layer of the target";
        let hint = "put it first: jobs use its socket; `fuse` gives a folder for other layers, and `vm.share` shares one with guests";
        report.error(at.clone(), message, hint);
    }
    let mut from_nfs = layers
        .iter()
        .skip_while(|layer| !matches!(layer, Layer::Nfs(_)));
    if from_nfs.next().is_some() && !from_nfs.any(|layer| matches!(layer, Layer::Vm(_))) {
        let hint = "put it above `vm`: `nfs on ext4 on vm on file on /PATH`";
        report.error(at.clone(), "`nfs` is made in virtual machines only", hint);
    }
}

/// Reports a file system on the zoned disks of virtual machines that cannot use them.
fn zones_below(layers: &[Layer], at: &Range<usize>, report: &mut Report<'_>) {
    let mut places = layers.iter().enumerate();
    let zoned = places.find_map(|(place, layer)| match layer {
        Layer::Vm(vm) if vm.disk().zone.is_some() => Some(place),
        _ => None,
    });
    let mut above = layers[..zoned.unwrap_or_default()].iter().rev();
    let first = above.find(|layer| matches!(layer, Layer::FileSystem { .. } | Layer::Zfs(_)));
    if let Some(above) = first.filter(|layer| layer.kind() != "btrfs") {
        let message = format!("`{}` cannot use disks with zones", above.kind());
        let hint = "leave out `vm.disk.zone`, or put `vm` on top and write with `zonemode=zbd`";
        report.error(at.clone(), message, hint);
    }
}

fn misfit(kind: &str, needs: Needs) -> (String, String) {
    let (what, example) = match needs {
        Needs::Nothing | Needs::Path => {
            return (
                format!("`{kind}` is the lowest layer"),
                "put it at the end of the target".to_owned(),
            );
        }
        Needs::Folder => ("a folder", "/PATH"),
        Needs::Files => ("files", "file on /PATH"),
        Needs::Devices => ("devices", "loop on file on /PATH"),
        Needs::DevicesOrFiles => ("devices or files", "file on /PATH"),
        Needs::Any => ("a layer", "loop on file on /PATH"),
    };
    let example = match kind {
        "nfs" => "ext4 on vm on file on /PATH",
        _ => example,
    };
    (
        format!("`{kind}` needs {what} below it"),
        format!("such as `{kind} on {example}`"),
    )
}
