//! The target of a configuration: layers of storage and how they fit together.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::{Path, PathBuf};

use crate::document::{Node, Report, Table, listed};
use iodyno_mirror::PolicyKind;
use iodyno_model::{
    Acceleration, Diagnostic, DiskAio, DiskCache, DiskInterface, DiskOrigin, DmTarget, EngineKind,
    FileSystemKind, FlakeyFault, FolderServer, Layer, Limits, MdLayer, MdLevel, MirrorLayer,
    NfsLayer, Pinning, Provision, SimDisk, Target, VdevGroup, VmDisk, VmImage, VmLayer, ZfsLayer,
    ZfsOrigin, closest, server_command_fault, url_scheme,
};
use iodyno_units::Bytes;

use crate::check::{Keyed, layers};
use crate::keys::{KINDS, VM_DISK, VM_IMAGE, ZFS_OWN, layer_keys};
use crate::simulated;

/// Legs of a mirror, if nothing names a number.
const LEGS: u32 = 2;
/// Queues of a real mirror; its own thread has another one.
const REAL_QUEUES: u32 = iodyno_mirror::shared::MOST_QUEUES as u32 - 1;
/// The largest sector of a loop device, bytes.
const SECTOR: u64 = 4096;

/// What a layer consists of, as the layer above it sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Gives {
    Folder,
    Files,
    Devices,
}

/// What is below a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Needs {
    /// Nothing: it is the lowest layer.
    Nothing,
    /// A path that the user names.
    Path,
    Folder,
    Files,
    Devices,
    DevicesOrFiles,
    /// Any layer.
    Any,
}

fn needs(kind: &str) -> Needs {
    match kind {
        "directory" | "device" => Needs::Path,
        "zram" | "tmpfs" => Needs::Nothing,
        "file" | "overlay" | "nfs" | "virtiofs" | "fuse" => Needs::Folder,
        "loop" => Needs::Files,
        "ext4" | "xfs" | "btrfs" | "md" | "dm" => Needs::Devices,
        "zfs" | "delay" | "mirror" => Needs::DevicesOrFiles,
        _ => Needs::Any,
    }
}

/// A layer of a text: its kind with its options, or a path.
enum Word<'d> {
    Kind(&'static str, Keyed<'d>),
    Path(PathBuf),
}

/// The target of a configuration; `folder` is the start of relative paths. Its options are added to
/// those of its section. Faults are reported; `None` if there is no target.
pub(crate) fn target(
    configuration: &Keyed<'_>,
    folder: &Path,
    options: &mut Options,
    report: &mut Report<'_>,
) -> Option<Target> {
    let nothing = Table::default();
    let written = configuration.text("target", report);
    let listed_layers = configuration.value("layers");
    if let (Some(text), None) = (&written, listed_layers)
        && simulated::is_simulated(&text.value)
    {
        options.add_simulated(configuration);
        return simulated::target(text, configuration, report);
    }
    if let Some(at) = configuration.at("sim") {
        let message = "`sim` has no effect: `target` is not simulated";
        report.error(at, message, "leave it out, or write `sim:hdd` in `target`");
    }
    let (words, at) = match (written, listed_layers) {
        (Some(text), None) => {
            let words = words(
                &text.value,
                text.at.clone(),
                configuration,
                &nothing,
                report,
            )?;
            options.add(&words, false, configuration);
            (words, text.at)
        }
        (None, Some(node)) => {
            let words = layers(node, report)?.into_iter();
            let words: Vec<Word<'_>> = words.map(|(kind, keyed)| Word::Kind(kind, keyed)).collect();
            options.add(&words, true, configuration);
            (words, node.at.clone())
        }
        (Some(_), Some(node)) => {
            let hint = "give the layers in one of them";
            report.error(
                node.at.clone(),
                "there are both `target` and `layers`",
                hint,
            );
            return None;
        }
        (None, None) => {
            if configuration.value("target").is_none() && !report.broken {
                report.error(
                    configuration.whole(),
                    "a configuration lacks `target`",
                    "add `target = \"ext4 on loop on file on FOLDER\"`, or the path of existing storage",
                );
            }
            return None;
        }
    };
    if let [Word::Path(path)] = words.as_slice() {
        let path = folder.join(path);
        if let Some(at) = configuration.at("precondition") {
            let message =
                "existing storage is not preconditioned: its content would be overwritten";
            let hint = "name a layer on the path, such as `device on /dev/sdb`";
            report.error(at, message, hint);
        }
        let provision = provision(Vec::new(), configuration, report);
        if provision == Provision::default() {
            return Some(Target::Path(path));
        }
        queue_without_devices(&[], configuration, report);
        let settings = ["fill", "host", "env", "sample"];
        let set = settings
            .into_iter()
            .find(|key| configuration.value(key).is_some());
        if let (Some(key), None) = (set, &provision.setup) {
            let message = format!(
                "with `{key}`, the trials use a new folder in `{}`, which is made as `fresh` says",
                path.display()
            );
            let hint = "write `directory on PATH` if it is meant";
            report.add(at, Diagnostic::warning(message).hint(hint));
        }
        return Some(Target::Made(Box::new(Provision {
            layers: vec![Layer::Directory { path }],
            ..provision
        })));
    }
    let layers = built(&words, &at, folder, report)?;
    queue_without_devices(&layers, configuration, report);
    if let (Some(kind), Some(at)) = (existing(&layers), configuration.at("precondition")) {
        let message = format!("`precondition` would fill the file system below `{kind}`");
        let hint =
            "precondition storage with a size of its own, such as `ext4 on loop on file on /PATH`";
        report.error(at, message, hint);
    }
    let provision = provision(layers, configuration, report);
    if provision.client_engine() == Some(EngineKind::VhostUserBlk) {
        for key in ["fill", "precondition"] {
            if let Some(at) = configuration.at(key) {
                let message = format!("`{key}` cannot be used with `mirror.queues`");
                let hint = "write by a workload, or leave `mirror.queues` out";
                report.error(at, message, hint);
            }
        }
    }
    for (message, hint) in provision.golden_faults() {
        report.error(configuration.whole(), message, hint);
    }
    Some(Target::Made(Box::new(provision)))
}

/// Reports settings of queues if no layer has a device.
fn queue_without_devices(layers: &[Layer], configuration: &Keyed<'_>, report: &mut Report<'_>) {
    let host = configuration.value("host").and_then(Node::as_table);
    if let Some(queue) = host.and_then(|host| host.get("queue"))
        && !layers.iter().any(Layer::gives_devices)
    {
        let message = "`host.queue` has no effect: no layer of the target is a device";
        let hint = "leave it out, or name a layer such as `loop` or `device`";
        report.error(queue.at.clone(), message, hint);
    }
}

/// The top layer, if the trials use an existing file system through it.
fn existing(layers: &[Layer]) -> Option<&'static str> {
    let mut above = layers.iter().filter(|layer| {
        let passes_on = matches!(
            layer,
            Layer::Throttle(_) | Layer::Virtiofs(_) | Layer::Fuse(_)
        );
        !passes_on
    });
    match (above.next()?, above.next()) {
        (top @ Layer::Directory { .. }, _) => Some(top.kind()),
        (top @ Layer::Overlay { .. }, Some(Layer::Directory { .. })) => Some(top.kind()),
        _ => None,
    }
}

/// The parts of `A on B on C`.
fn words<'d>(
    text: &str,
    at: Range<usize>,
    configuration: &Keyed<'d>,
    nothing: &'d Table,
    report: &mut Report<'_>,
) -> Option<Vec<Word<'d>>> {
    let (mut found, mut failed): (Vec<Word<'d>>, bool) = Default::default();
    let parts: Vec<&str> = text.split(" on ").map(str::trim).collect();
    for (index, part) in parts.iter().enumerate() {
        let last = index + 1 == parts.len();
        if let Some(kind) = KINDS.into_iter().find(|kind| kind == part) {
            let twice = found
                .iter()
                .any(|word| matches!(word, Word::Kind(other, _) if *other == kind));
            if twice {
                let hint = match kind {
                    "vm" => "virtual machines cannot be made in virtual machines: name `vm` once",
                    _ => "list them as `layers = [{ kind = … }, …]`, each with its options",
                };
                report.error(at, format!("`{kind}` is twice in the target"), hint);
                return None;
            }
            let keys = layer_keys(kind);
            let options = configuration.value(kind).and_then(|node| {
                let table = node.as_table()?;
                Some(Keyed::within(table, node.at.clone(), kind, keys))
            });
            let options = options.unwrap_or_else(|| Keyed::within(nothing, at.clone(), kind, keys));
            found.push(Word::Kind(kind, options));
        } else if let Some(scheme) = url_scheme(part).filter(|_| last) {
            let hint =
                "give a folder, file or device; for a file of this name, write `./` before it";
            report.error(at.clone(), format!("`{scheme}://` is not a path"), hint);
            failed = true;
        } else if last && is_path(part) {
            found.push(Word::Path(PathBuf::from(part)));
        } else if part.is_empty() && report.errors() > 0 {
            // What should be here is unknown, and that was reported.
            return None;
        } else {
            let message = match part.is_empty() {
                true => "`target` lacks a layer".to_owned(),
                false => format!("`{part}` is not a kind of layer"),
            };
            let separators = |c: char| c.is_whitespace() || c == ',';
            let first = part.split(separators).next().unwrap_or_default();
            let hint = match closest(part, KINDS.into_iter()) {
                Some(near) if last => {
                    format!("did you mean `{near}`? a path has a slash: `./{part}`")
                }
                Some(near) => format!("did you mean `{near}`?"),
                None if part.is_empty() || first != *part => {
                    "write the layers from the top down, with ` on ` between them, as in `ext4 on loop on file on /PATH`; a path has a slash".to_owned()
                }
                None => format!("the kinds are {}", listed(&KINDS)),
            };
            report.error(at.clone(), message, hint);
            failed = true;
        }
    }
    (!failed).then_some(found)
}

/// Whether the last part of a target is a path: it has a slash, or is a single word that does not resemble a kind.
fn is_path(part: &str) -> bool {
    let word = !part.contains(|c: char| c.is_whitespace() || c == ',');
    part.contains('/') || !part.is_empty() && word && closest(part, KINDS.into_iter()).is_none()
}

/// The options of layers of a section of configurations.
#[derive(Debug, Default)]
pub(crate) struct Options {
    /// The kinds whose options have an effect in some target.
    used: BTreeSet<&'static str>,
    /// Where there are options of a kind.
    given: BTreeMap<&'static str, Range<usize>>,
}

impl Options {
    fn add(&mut self, words: &[Word<'_>], listed: bool, configuration: &Keyed<'_>) {
        self.add_given(configuration);
        let ends_with_path = matches!(words.last(), Some(Word::Path(_)));
        // Listed layers have their options with them.
        let words = words.iter().filter(|_| !listed);
        self.used.extend(words.filter_map(|word| match word {
            Word::Kind("directory" | "device", _) if ends_with_path => None,
            Word::Kind(kind, _) => Some(*kind),
            Word::Path(_) => None,
        }));
    }

    /// Of a simulated target, which reports on `mirror` itself.
    fn add_simulated(&mut self, configuration: &Keyed<'_>) {
        self.add_given(configuration);
        self.used.insert("mirror");
    }

    fn add_given(&mut self, configuration: &Keyed<'_>) {
        let given = KINDS.iter();
        let given = given.filter_map(|kind| Some((*kind, configuration.at(kind)?)));
        self.given.extend(given);
    }

    /// Reports options that have no effect in any target of the section.
    pub(crate) fn check(&self, report: &mut Report<'_>) {
        let unused = self
            .given
            .iter()
            .filter(|(kind, _)| !self.used.contains(*kind));
        for (kind, at) in unused {
            let (message, hint) = match *kind {
                "directory" | "device" => (
                    format!("`{kind}` has no effect: `target` is not `{kind}` without a path"),
                    "leave it out: the path is the end of `target`",
                ),
                _ => (
                    format!("`{kind}` has no effect: it is not a layer of `target`"),
                    "leave it out, or name the layer in `target`",
                ),
            };
            report.error(at.clone(), message, hint);
        }
    }
}

/// The layers, each on what it needs. Faults are reported.
fn built(
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
    // From the lowest up; `given` is what the layers so far give.
    let mut layers: Vec<Layer> = Vec::new();
    let mut given: Option<Gives> = None;
    let mut path: Option<PathBuf> = None;
    for (index, word) in words.iter().enumerate().rev() {
        let (kind, keyed) = match word {
            Word::Path(found) => {
                path = Some(folder.join(found));
                continue;
            }
            Word::Kind(kind, keyed) => (*kind, keyed),
        };
        let needs = needs(kind);
        if let (Some(lowest), false) = (path.take(), needs == Needs::Path) {
            // What a path is follows from the layer on it.
            let folder = matches!(needs, Needs::Folder)
                || (kind == "vm" && keyed.value("share").is_some())
                || words[..=index].iter().rev().any(|word| {
                    matches!(word, Word::Kind(kind, _) if self::needs(kind) == Needs::Folder)
                });
            match (needs, folder) {
                (Needs::Nothing, _) => {
                    let message = format!("`{kind}` has nothing below it");
                    report.error(at.clone(), message, "leave the path out");
                    return None;
                }
                (_, true) => {
                    layers.push(Layer::Directory { path: lowest });
                    given = Some(Gives::Folder);
                }
                _ => {
                    layers.push(Layer::Device {
                        paths: vec![lowest],
                    });
                    given = Some(Gives::Devices);
                }
            }
        } else if needs == Needs::Path {
            let own: Vec<PathBuf> = match kind {
                "directory" => keyed
                    .text("path", report)
                    .into_iter()
                    .map(|text| text.value)
                    .map(PathBuf::from)
                    .collect(),
                _ => keyed
                    .texts("paths", report)
                    .into_iter()
                    .map(|text| PathBuf::from(text.value))
                    .collect(),
            };
            let paths: Vec<PathBuf> = match words.get(index + 1) {
                Some(Word::Path(path)) => vec![folder.join(path)],
                _ => own.iter().map(|path| folder.join(path)).collect(),
            };
            if paths.is_empty() {
                let message = format!("`{kind}` lacks its path");
                let hint = format!("end the target with it: `{kind} on /PATH`");
                report.error(at.clone(), message, hint);
                return None;
            }
            let mut paths = paths;
            layers.push(match kind {
                "directory" => Layer::Directory {
                    path: paths.swap_remove(0),
                },
                _ => Layer::Device { paths },
            });
            given = Some(match kind {
                "directory" => Gives::Folder,
                _ => Gives::Devices,
            });
            continue;
        }
        if matches!(layers.last(), Some(Layer::Mirror(mirror)) if mirror.queues.is_some()) {
            let (message, hint) = MirrorLayer::NOT_ON_TOP;
            report.error(at.clone(), message, hint);
            return None;
        }
        let fits = match needs {
            Needs::Nothing | Needs::Path => given.is_none(),
            Needs::Folder => given == Some(Gives::Folder),
            Needs::Files => given == Some(Gives::Files),
            Needs::Devices => given == Some(Gives::Devices),
            Needs::DevicesOrFiles => matches!(given, Some(Gives::Devices | Gives::Files)),
            Needs::Any => given.is_some(),
        };
        if !fits {
            let (message, hint) = misfit(kind, needs);
            report.error(at.clone(), message, hint);
            return None;
        }
        let in_guest = layers.iter().any(|below| matches!(below, Layer::Vm(_)));
        if in_guest && ["delay", "mirror", "throttle", "virtiofs", "fuse", "vm"].contains(&kind) {
            let message = format!("`{kind}` cannot be made in a virtual machine");
            let hint = match kind {
                "vm" => "name `vm` once",
                "virtiofs" => "to share a folder with guests, use `vm.share`",
                _ => "put it below `vm`, or leave it out",
            };
            report.error(at.clone(), message, hint);
        }
        if kind == "vm" {
            let shares = keyed.at("share");
            match (&shares, given == Some(Gives::Folder)) {
                (None, true) => {
                    let message = "`vm` is on a folder, and no server shares it with the guests";
                    let hint = "put `file` between them, or add `vm.share = \"virtiofsd --socket-path={socket} --shared-dir={folder}\"`";
                    report.error(at.clone(), message, hint);
                }
                (Some(key), false) => {
                    let message =
                        "`vm.share` shares folders, and there are devices or files below `vm`";
                    let hint = "leave it out, or put a file system or `directory` below `vm`";
                    report.error(key.clone(), message, hint);
                }
                _ => {}
            }
        }
        let wanted = wanted(&words[..index], report);
        let layer = layer(kind, keyed, folder, wanted, report)?;
        given = Some(match &layer {
            layer if layer.gives_devices() => Gives::Devices,
            Layer::File { .. } => Gives::Files,
            Layer::Throttle(_) => given.unwrap_or(Gives::Devices),
            _ => Gives::Folder,
        });
        layers.push(layer);
    }
    layers.reverse();
    let below_top = layers.iter().skip(1);
    if below_top
        .clone()
        .any(|layer| matches!(layer, Layer::Virtiofs(_)))
    {
        let message = "`virtiofs` is not the top layer of the target";
        let hint = "put it first: jobs use its socket; `fuse` gives a folder for other layers, and `vm.share` shares one with guests";
        report.error(at.clone(), message, hint);
    }
    zones_below(&layers, at, report);
    let nfs = layers
        .iter()
        .position(|layer| matches!(layer, Layer::Nfs(_)));
    let in_guest = |place: usize| {
        layers[place..]
            .iter()
            .any(|layer| matches!(layer, Layer::Vm(_)))
    };
    if nfs.is_some_and(|place| !in_guest(place)) {
        let hint = "put it above `vm`: `nfs on ext4 on vm on file on /PATH`";
        report.error(at.clone(), "`nfs` is made in virtual machines only", hint);
    }
    (report.errors() == before).then_some(layers)
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

fn texts(keyed: &Keyed<'_>, name: &str, report: &mut Report<'_>) -> Vec<String> {
    let found = keyed.texts(name, report).into_iter();
    // Several arguments in one string.
    let words = found.flat_map(|text| {
        let words: Vec<String> = text.value.split_whitespace().map(str::to_owned).collect();
        words
    });
    words.collect()
}

/// How many devices or files the layers above need.
#[derive(Debug, Clone, Copy)]
struct Wanted {
    /// How many sets of them: one for each virtual machine, for instance.
    sets: u32,
    /// The number of virtual machines.
    guests: u32,
    /// The size of a set.
    each: SetSize,
}

/// The number of devices or files that a layer uses together.
#[derive(Debug, Clone, Copy)]
enum SetSize {
    Any,
    Exactly(u32, &'static str),
    AtLeast { least: u32, usual: u32 },
}

impl Wanted {
    fn usual(self) -> u32 {
        self.sets
            * match self.each {
                SetSize::Any => 1,
                SetSize::Exactly(number, _) => number,
                SetSize::AtLeast { usual, .. } => usual,
            }
    }

    /// Why the layers above cannot use this number, and the remedy.
    fn misfit(self, kind: &str, count: u32) -> Option<(String, &'static str)> {
        if !count.is_multiple_of(self.sets) {
            let message = match self.sets == self.guests {
                true => format!(
                    "`vm.guests` is {}, and `{kind}.count` is {count}: not a multiple of it",
                    self.guests
                ),
                false => format!(
                    "the layers above need a multiple of {}, and `{kind}.count` is {count}",
                    self.sets
                ),
            };
            return Some((message, "leave `count` out, for the smallest number"));
        }
        match self.each {
            SetSize::Exactly(wanted, key) if wanted * self.sets != count => {
                let message = match self.sets {
                    1 => {
                        format!("`{key}` has {wanted} devices, and `{kind}.count` is {count}")
                    }
                    _ => format!(
                        "the layers above need {}, and `{kind}.count` is {count}",
                        wanted * self.sets
                    ),
                };
                Some((message, "leave `count` out"))
            }
            SetSize::AtLeast { least, .. } if count < least * self.sets => {
                let message = format!(
                    "`md` needs at least {}, and `{kind}.count` is {count}",
                    least * self.sets
                );
                Some((message, "leave `count` out, for the smallest usual number"))
            }
            _ => None,
        }
    }
}

/// What the layers above need of this one.
fn wanted(above: &[Word<'_>], report: &mut Report<'_>) -> Wanted {
    let mut wanted = Wanted {
        sets: 1,
        guests: 1,
        each: SetSize::Any,
    };
    for word in above.iter().rev() {
        match word {
            Word::Kind("loop" | "delay" | "throttle", _) => {}
            Word::Kind("dm", keyed) => {
                if keyed.word("target", report) == Some("log-writes") {
                    wanted.sets *= DmTarget::LogWrites.consumes();
                }
            }
            Word::Kind("vm", keyed) => {
                let guests = keyed.count("guests", report);
                wanted.guests = guests.map_or(1, |guests| guests as u32);
                wanted.sets *= wanted.guests;
            }
            Word::Kind("zfs", keyed) => {
                if let Some(devices) = wanted_devices(keyed, report) {
                    wanted.each = SetSize::Exactly(devices, "zfs.layout");
                }
                break;
            }
            Word::Kind("mirror", keyed) => {
                wanted.each = match keyed.count("legs", report) {
                    Some(legs) => SetSize::Exactly(legs as u32, "mirror.legs"),
                    None => SetSize::AtLeast {
                        least: 1,
                        usual: LEGS,
                    },
                };
                break;
            }
            Word::Kind("md", keyed) => {
                let usual = match keyed.word("level", report) {
                    Some("raid10") => 4,
                    _ => 2,
                };
                wanted.each = SetSize::AtLeast { least: 2, usual };
                break;
            }
            _ => break,
        }
    }
    wanted
}

/// A layer with its options. `folder`: the start of relative paths; `wanted`: what the layers above need.
fn layer(
    kind: &str,
    keyed: &Keyed<'_>,
    folder: &Path,
    wanted: Wanted,
    report: &mut Report<'_>,
) -> Option<Layer> {
    let size = |report: &mut Report<'_>| {
        let size = keyed.size("size", report);
        if keyed.value("size").is_none() && !keyed.has_unknown() && !report.broken {
            let message = format!("`{kind}` lacks `size`");
            report.error(
                keyed.whole(),
                message,
                format!("add `{kind}.size = \"4GiB\"`"),
            );
        }
        size.unwrap_or(1)
    };
    let count = |report: &mut Report<'_>| {
        let count = keyed.count("count", report).map(|count| count as u32);
        let at = keyed.at("count").unwrap_or_default();
        if let Some((message, hint)) = count.and_then(|count| wanted.misfit(kind, count)) {
            report.error(at, message, hint);
        }
        count.unwrap_or_else(|| wanted.usual())
    };
    Some(match kind {
        "file" => Layer::File {
            // Of whole sectors: a loop device lacks the rest.
            size: size(report).next_multiple_of(SECTOR),
            count: count(report),
            allocate: keyed.switch("allocate", report).unwrap_or(true),
        },
        "loop" => Layer::Loop {
            direct: keyed.switch("direct", report).unwrap_or(true),
            sector: keyed.sector("sector", report),
        },
        "zram" => Layer::Zram {
            size: size(report),
            count: count(report),
            algorithm: keyed.text("algorithm", report).map(|text| text.value),
        },
        "tmpfs" => Layer::Tmpfs { size: size(report) },
        "ext4" | "xfs" | "btrfs" => Layer::FileSystem {
            fs: match kind {
                "ext4" => FileSystemKind::Ext4,
                "xfs" => FileSystemKind::Xfs,
                _ => FileSystemKind::Btrfs,
            },
            mkfs: texts(keyed, "mkfs", report),
            mount: texts(keyed, "mount", report)
                .iter()
                .flat_map(|text| text.split(','))
                .map(str::to_owned)
                .collect(),
        },
        "zfs" => Layer::Zfs(zfs(keyed, report)),
        "nfs" => Layer::Nfs(NfsLayer {
            version: keyed.word("version", report).unwrap_or("4.2").to_owned(),
            sync: keyed.switch("sync", report).unwrap_or(true),
            threads: keyed.count("threads", report).unwrap_or(8) as u32,
            rsize: keyed.size("rsize", report),
            wsize: keyed.size("wsize", report),
            mount: texts(keyed, "mount", report),
        }),
        "overlay" => Layer::Overlay {
            mount: texts(keyed, "mount", report),
        },
        "throttle" => {
            let limits = Limits {
                read_iops: keyed.count("read_iops", report).unwrap_or(0),
                write_iops: keyed.count("write_iops", report).unwrap_or(0),
                read_bandwidth: keyed.size("read_bandwidth", report).unwrap_or(0),
                write_bandwidth: keyed.size("write_bandwidth", report).unwrap_or(0),
            };
            if limits == Limits::default() {
                let hint = "add `throttle.read_bandwidth = \"100MiB\"` or another limit";
                report.error(keyed.whole(), "`throttle` has no limit", hint);
            }
            Layer::Throttle(limits)
        }
        "md" => Layer::Md(md(keyed, report)),
        "dm" => Layer::Dm(dm(keyed, report)),
        "mirror" => {
            let queues = keyed.count("queues", report).map(|queues| queues as u32);
            if queues.is_some_and(|queues| queues > REAL_QUEUES)
                && let Some(at) = keyed.at("queues")
            {
                let message = format!("a real mirror has at most {REAL_QUEUES} queues");
                report.error(at, message, "write a lower number");
            }
            Layer::Mirror(MirrorLayer {
                policy: keyed
                    .word("policy", report)
                    .unwrap_or(PolicyKind::Adaptive.name())
                    .to_owned(),
                delay: disks(keyed, "delay", keyed.count("legs", report), report),
                queues,
                pinning: pinning(keyed, ["cpus", "numa"], report),
            })
        }
        "virtiofs" => {
            let names = ["{folder}", "{socket}"];
            Layer::Virtiofs(server(keyed, FolderServer::VIRTIOFS, names, report))
        }
        "fuse" => {
            let names = ["{folder}", "{mount}"];
            Layer::Fuse(server(keyed, FolderServer::FUSE, names, report))
        }
        "vm" => Layer::Vm(vm(keyed, folder, report)),
        "delay" => Layer::Delay {
            read_ns: whole(keyed, "read", MILLISECOND, report).unwrap_or_default(),
            write_ns: whole(keyed, "write", MILLISECOND, report).unwrap_or_default(),
            disks: {
                for key in ["read", "write"] {
                    if let (Some(at), Some(_)) = (keyed.at(key), keyed.at("disk")) {
                        let message = format!("`delay.{key}` has no effect with `delay.disk`");
                        report.error(at, message, "leave one of them out");
                    }
                }
                disks(keyed, "disk", None, report)
            },
            pinning: pinning(keyed, ["cpus", "numa"], report),
        },
        _ => return None,
    })
}

/// The server of a folder: its command, by default `usual`, which has these names.
fn server(
    keyed: &Keyed<'_>,
    usual: &str,
    names: [&str; 2],
    report: &mut Report<'_>,
) -> FolderServer {
    let command = keyed.text("server", report);
    if let Some(text) = &command
        && let Some((message, hint)) =
            server_command_fault(&keyed.full("server"), &text.value, names, usual)
    {
        report.error(text.at.clone(), message, hint);
    }
    FolderServer {
        command: command.map_or_else(|| usual.to_owned(), |text| text.value),
        pinning: pinning(keyed, ["cpus", "numa"], report),
    }
}

/// The simulated disks that a key names: one for all devices, or one for each of `count`, if that is known.
fn disks(
    keyed: &Keyed<'_>,
    key: &'static str,
    count: Option<u64>,
    report: &mut Report<'_>,
) -> Vec<String> {
    let Some(text) = keyed.text(key, report) else {
        return Vec::new();
    };
    let disks: Result<Vec<SimDisk>, String> = text
        .value
        .split('+')
        .map(|disk| disk.trim().parse())
        .collect();
    let wrong = match (disks, count) {
        (Err(message), _) => message,
        (Ok(disks), Some(count)) if disks.len() > 1 && disks.len() as u64 != count => {
            format!(
                "`{}` names {} disks, and `mirror.legs` is {count}",
                keyed.full(key),
                disks.len()
            )
        }
        (Ok(disks), _) => return disks.iter().map(ToString::to_string).collect(),
    };
    let hint = "write `\"hdd\"` for all, or a disk for each: `\"hdd + hdd*2\"`";
    report.error(text.at.clone(), wrong, hint);
    Vec::new()
}

/// Units of times in layers, ns.
const MILLISECOND: u64 = 1_000_000;
const SECOND: u64 = 1_000_000_000;

/// A time in whole units, ns.
fn whole(
    keyed: &Keyed<'_>,
    name: &'static str,
    unit_ns: u64,
    report: &mut Report<'_>,
) -> Option<u64> {
    let span = keyed.time(name, report)?;
    if !span.0.is_multiple_of(unit_ns)
        && let Some(at) = keyed.at(name)
    {
        let units = match unit_ns {
            SECOND => "seconds",
            _ => "milliseconds",
        };
        let message = format!("`{}` cannot be {span}", keyed.full(name));
        report.error(at, message, format!("use whole {units}"));
    }
    Some(span.0)
}

fn md(keyed: &Keyed<'_>, report: &mut Report<'_>) -> MdLayer {
    let level = match keyed.word("level", report) {
        Some("raid10") => MdLevel::Raid10,
        _ => MdLevel::Raid1,
    };
    for name in ["layout", "chunk"] {
        if let (MdLevel::Raid1, Some(at)) = (level, keyed.at(name)) {
            let message = format!("`md.{name}` has no effect with `raid1`");
            report.error(at, message, "leave it out, or set `md.level` to `raid10`");
        }
    }
    let layout = keyed.text("layout", report).and_then(|text| {
        let (kind, copies) = text.value.split_at_checked(1)?;
        let valid = ["n", "f", "o"].contains(&kind) && copies.parse().is_ok_and(|n: u8| n > 0);
        if !valid {
            let message = format!("`md.layout` cannot be {:?}", text.value);
            let hint = "write `n2` (near), `f2` (far) or `o2` (offset), with the number of copies";
            report.error(text.at, message, hint);
        }
        valid.then_some(text.value)
    });
    let chunk = keyed.size("chunk", report);
    if let (Some(at), Some(bytes)) = (keyed.at("chunk"), chunk)
        && !bytes.is_power_of_two()
    {
        let message = format!("`md.chunk` cannot be {}", Bytes(bytes));
        report.error(at, message, "use a power of two, such as `\"512KiB\"`");
    }
    MdLayer {
        level,
        layout,
        chunk,
        bitmap: keyed.switch("bitmap", report).unwrap_or_default(),
        assume_clean: keyed.switch("assume_clean", report).unwrap_or_default(),
    }
}

/// The keys of `dm` that belong to one of its targets.
const OF_DM_TARGETS: [(&str, &str); 9] = [
    ("read", "delay"),
    ("write", "delay"),
    ("flush", "delay"),
    ("up", "flakey"),
    ("down", "flakey"),
    ("fault", "flakey"),
    ("cipher", "crypt"),
    ("key_bits", "crypt"),
    ("sector", "crypt"),
];

fn dm(keyed: &Keyed<'_>, report: &mut Report<'_>) -> DmTarget {
    let target = keyed.word("target", report).unwrap_or("linear");
    for (name, owner) in OF_DM_TARGETS {
        if let (false, Some(at)) = (owner == target, keyed.at(name)) {
            let message = format!("`dm.{name}` has no effect with the target `{target}`");
            let hint = format!("leave it out, or set `dm.target` to `{owner}`");
            report.error(at, message, hint);
        }
    }
    match target {
        "delay" => {
            let mut time = |name| whole(keyed, name, MILLISECOND, report);
            let write_ns = time("write").unwrap_or_default();
            let read_ns = time("read").unwrap_or_default();
            let flush_ns = time("flush").unwrap_or(write_ns);
            if read_ns.max(write_ns).max(flush_ns) == 0 && !keyed.has_unknown() {
                let message = "`dm.target = \"delay\"` delays nothing";
                let hint = "add `dm.read = \"2ms\"` or `dm.write`, or use `linear`";
                report.error(keyed.whole(), message, hint);
            }
            DmTarget::Delay {
                read_ns,
                write_ns,
                flush_ns,
            }
        }
        "flakey" => {
            let mut time = |name| whole(keyed, name, SECOND, report);
            let (up_ns, down_ns) = (time("up"), time("down"));
            let mut needed = ["up", "down"].into_iter();
            let lacks = needed.any(|name| keyed.value(name).is_none());
            if lacks && !keyed.has_unknown() && !report.broken {
                let message = "`dm.target = \"flakey\"` lacks `dm.up` or `dm.down`";
                let hint = "add `dm.up = \"30s\"` and `dm.down = \"5s\"`";
                report.error(keyed.whole(), message, hint);
            }
            DmTarget::Flakey {
                up_ns: up_ns.unwrap_or_default(),
                down_ns: down_ns.unwrap_or_default(),
                fault: match keyed.word("fault", report) {
                    Some("error_writes") => FlakeyFault::ErrorWrites,
                    Some("drop_writes") => FlakeyFault::DropWrites,
                    _ => FlakeyFault::Errors,
                },
            }
        }
        "crypt" => {
            let cipher = keyed.text("cipher", report).map(|text| text.value);
            let cipher = cipher.unwrap_or_else(|| "aes-xts-plain64".to_owned());
            let bits = keyed.count("key_bits", report).unwrap_or(512);
            let at = keyed.at("key_bits").or_else(|| keyed.at("cipher"));
            if let (Some(at), Some(lengths)) = (at, wrong_key(&cipher, bits)) {
                let message = format!("`{cipher}` has no keys of {bits} bits");
                report.error(at, message, format!("set `dm.key_bits` to {lengths}"));
            }
            DmTarget::Crypt {
                key_bits: bits as u32,
                cipher,
                sector: keyed.sector("sector", report),
            }
        }
        "log-writes" => DmTarget::LogWrites,
        _ => DmTarget::Linear,
    }
}

/// The lengths of keys that a cipher has, if this one is not among them. Of ciphers other than AES, only that it is a
/// whole number of bytes is known.
fn wrong_key(cipher: &str, bits: u64) -> Option<&'static str> {
    let (lengths, words): (&[u64], _) = match cipher {
        // XTS has two keys.
        xts if xts.starts_with("aes-xts-") => (&[256, 384, 512], "256, 384 or 512"),
        aes if aes.starts_with("aes-") => (&[128, 192, 256], "128, 192 or 256"),
        _ if !bits.is_multiple_of(8) => (&[], "a multiple of 8"),
        _ => return None,
    };
    (!lengths.contains(&bits)).then_some(words)
}

/// Whether the disks have threads of their own. qemu 7.2 has none for NVMe.
fn iothread(disk: &Keyed<'_>, interface: DiskInterface, report: &mut Report<'_>) -> bool {
    let wanted = disk.switch("iothread", report).unwrap_or_default();
    if let (true, DiskInterface::Nvme, Some(at)) = (wanted, interface, disk.at("iothread")) {
        let hint = "leave it out, or set `vm.disk.interface` to `virtio-blk` or `virtio-scsi`";
        report.error(at, "`vm.disk.iothread` has no effect with `nvme`", hint);
    }
    wanted
}

/// The image that virtual machines boot.
fn image(keyed: &Keyed<'_>, folder: &Path, report: &mut Report<'_>) -> Option<VmImage> {
    let node = keyed.value("image")?;
    let image = Keyed::within(node.as_table()?, node.at.clone(), "image", VM_IMAGE);
    if image.value("path").is_none() && !image.has_unknown() && !report.broken {
        let hint = "add `path = \"debian.qcow2\"`";
        report.error(image.whole(), "`vm.image` lacks `path`", hint);
    }
    for name in ["initrd", "append"] {
        if let (Some(at), None) = (image.at(name), image.value("kernel")) {
            let message = format!("`vm.image.{name}` has no effect without `vm.image.kernel`");
            report.error(at, message, "leave it out, or add `kernel`");
        }
    }
    if let Some(at) = keyed.at("kernel") {
        let message = "`vm.kernel` has no effect with `vm.image`";
        report.error(at, message, "use `vm.image.kernel`, or leave it out");
    }
    let user = image.text("user", report);
    if let Some(user) = &user
        && (user.value.is_empty()
            || user.value.starts_with('-')
            || user.value.contains(char::is_whitespace))
    {
        let message = format!("`{}` is not the name of a user", user.value);
        report.error(
            user.at.clone(),
            message,
            "write it as `ssh USER@HOST` takes it",
        );
    }
    let mut path = |name: &str| {
        let text = image.text(name, report)?;
        Some(folder.join(text.value))
    };
    Some(VmImage {
        path: path("path").unwrap_or_default(),
        key: path("key"),
        kernel: path("kernel"),
        initrd: path("initrd"),
        program: path("program"),
        format: image.word("format", report).map(str::to_owned),
        user: user.map_or_else(|| VmImage::default().user, |text| text.value),
        append: image.text("append", report).map(|text| text.value),
    })
}

fn vm(keyed: &Keyed<'_>, folder: &Path, report: &mut Report<'_>) -> VmLayer {
    let default = VmLayer::default();
    let count = |name: &str, report: &mut Report<'_>| keyed.count(name, report).map(|it| it as u32);
    let disk = keyed.value("disk").and_then(|node| {
        let disk = Keyed::within(node.as_table()?, node.at.clone(), "disk", VM_DISK);
        let zone = disk.size("zone", report);
        let mut word = |name: &str| disk.word(name, report);
        let interface = word("interface")
            .and_then(DiskInterface::named)
            .unwrap_or_default();
        Some(VmDisk {
            interface,
            cache: word("cache").and_then(DiskCache::named).unwrap_or_default(),
            aio: word("aio").and_then(DiskAio::named).unwrap_or_default(),
            origin: word("origin")
                .and_then(DiskOrigin::named)
                .unwrap_or_default(),
            iothread: iothread(&disk, interface, report),
            zone,
            command: disk.text("command", report).map(|text| text.value),
            ..VmDisk::default()
        })
    });
    let served = |disk: &&VmDisk| disk.interface == DiskInterface::VhostUserBlk;
    if let (Some(_), Some(node)) = (disk.as_ref().filter(served), keyed.value("disk"))
        && let Some(table) = node.as_table()
    {
        let table = Keyed::within(table, node.at.clone(), "disk", VM_DISK);
        for name in ["cache", "aio", "iothread"] {
            if let Some(at) = table.at(name) {
                let message = format!("`vm.disk.{name}` has no effect with `vhost-user-blk`");
                let hint = "leave it out, and set what the server has in `vm.disk.command`";
                report.error(at, message, hint);
            }
        }
    }
    for fault in disk.iter().flat_map(VmDisk::faults) {
        let table = keyed.value("disk");
        let own = table.and_then(|node| {
            let table = node.as_table()?;
            Keyed::within(table, node.at.clone(), "disk", VM_DISK).at(fault.key)
        });
        let at = own.unwrap_or_else(|| keyed.whole());
        report.error(at, fault.message, fault.hint);
    }
    let share = keyed.text("share", report);
    let usual = "virtiofsd --socket-path={socket} --shared-dir={folder}";
    let names = ["{folder}", "{socket}"];
    if let Some(text) = &share
        && let Some((message, hint)) = server_command_fault("vm.share", &text.value, names, usual)
    {
        report.error(text.at.clone(), message, hint);
    }
    VmLayer {
        guests: count("guests", report).unwrap_or(default.guests),
        cpus: count("cpus", report).unwrap_or(default.cpus),
        memory: keyed.size("memory", report).unwrap_or(default.memory),
        accel: keyed
            .word("accel", report)
            .and_then(Acceleration::named)
            .unwrap_or_default(),
        kernel: keyed
            .text("kernel", report)
            .map(|text| folder.join(text.value)),
        image: image(keyed, folder, report).map(Box::new),
        disks: disk.into_iter().collect(),
        share: share.map(|text| text.value),
        pinning: pinning(keyed, ["host_cpus", "host_numa"], report),
        side_by_side: keyed.switch("side_by_side", report).unwrap_or_default(),
        names: Vec::new(),
    }
}

fn zfs(keyed: &Keyed<'_>, report: &mut Report<'_>) -> ZfsLayer {
    let scalars = |name: &str, report: &mut Report<'_>| {
        let found = keyed.scalars(name, report).into_iter();
        found.map(|(entry, text)| (entry.key, text)).collect()
    };
    let mut properties: std::collections::BTreeMap<String, String> = scalars("properties", report);
    for key in layer_keys("zfs") {
        if !ZFS_OWN.contains(&key.name)
            && let Some(text) = keyed.text(key.name, report)
        {
            properties.insert(key.name.to_owned(), text.value);
        }
    }
    let (what, foreign): (&str, &[&str]) = match keyed.value("volume") {
        Some(_) => ("a volume", &["recordsize", "atime", "xattr"]),
        None => ("a dataset", &["volblocksize"]),
    };
    for name in foreign {
        if let Some(at) = keyed.at(name) {
            let message = format!("`zfs.{name}` has no effect: {what} does not have this property");
            report.error(
                at,
                message,
                "leave it out; an axis of tables can set it together with `volume`",
            );
        }
    }
    ZfsLayer {
        layout: layout(keyed, report),
        pool: scalars("pool", report),
        properties,
        volume: keyed.size("volume", report),
        origin: match keyed.word("origin", report) {
            Some("clone") => ZfsOrigin::Clone,
            Some("copy") => ZfsOrigin::Copy,
            _ => ZfsOrigin::New,
        },
        pinning: pinning(keyed, ["cpus", "numa"], report),
    }
}

/// The CPUs and NUMA nodes of a layer's server processes, which have these keys.
fn pinning(keyed: &Keyed<'_>, keys: [&str; 2], report: &mut Report<'_>) -> Pinning {
    let list = |name: &str| {
        let text = keyed.text(name, report)?;
        if Pinning::numbers(&text.value).is_none() {
            let message = format!("`{}` is not a list of numbers", text.value);
            report.error(text.at, message, "write `0-3,8`");
            return None;
        }
        Some(text.value)
    };
    let [cpus, numa] = keys.map(list);
    Pinning { cpus, numa }
}

/// The number of devices that a layout names; `None` without one.
fn wanted_devices(keyed: &Keyed<'_>, report: &mut Report<'_>) -> Option<u32> {
    let layout = layout(keyed, report);
    let devices = layout.iter().map(|group| group.devices).sum();
    (!layout.is_empty()).then_some(devices)
}

/// `2 x mirror 3 + raidz1 4`.
fn layout(keyed: &Keyed<'_>, report: &mut Report<'_>) -> Vec<VdevGroup> {
    let Some(text) = keyed.text("layout", report) else {
        return Vec::new();
    };
    let groups: Option<Vec<Vec<VdevGroup>>> = text.value.split('+').map(group).collect();
    let total: u32 = groups
        .iter()
        .flatten()
        .flatten()
        .map(|group| group.devices)
        .sum();
    match groups.filter(|_| total <= 64) {
        Some(groups) => groups.concat(),
        None => {
            let message = format!("`zfs.layout` cannot be {:?}", text.value);
            let hint = "write `stripe 2`, `mirror 2`, `2 x mirror 3`, `raidz1 4`, or several with ` + `; at most 64 devices";
            report.error(text.at, message, hint);
            Vec::new()
        }
    }
}

fn group(text: &str) -> Option<Vec<VdevGroup>> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let (times, words) = match words.as_slice() {
        [times, "x" | "×", rest @ ..] => (times.parse::<u32>().ok()?, rest),
        words => (1, words),
    };
    let (kind, devices) = match words {
        [kind, devices] => (*kind, devices.parse::<u32>().ok()?),
        [devices] => ("stripe", devices.parse::<u32>().ok()?),
        _ => return None,
    };
    let least = match kind {
        "stripe" => 1,
        "mirror" | "raidz" | "raidz1" => 2,
        "raidz2" => 3,
        "raidz3" => 4,
        _ => return None,
    };
    let redundancy = (kind != "stripe").then(|| kind.to_owned());
    let group = VdevGroup {
        redundancy,
        devices,
    };
    ((1..=64).contains(&times) && (least..=64).contains(&devices))
        .then(|| vec![group; times as usize])
}

/// The settings of a configuration besides its layers.
fn provision(layers: Vec<Layer>, keyed: &Keyed<'_>, report: &mut Report<'_>) -> Provision {
    let texts = |found: Vec<(crate::document::Entry, String)>| {
        let found = found.into_iter();
        found.map(|(entry, text)| (entry.key, text)).collect()
    };
    let host = keyed.value("host").and_then(|node| {
        let table = node.as_table()?;
        let keys = match crate::keys::CONFIGURATION
            .iter()
            .find(|key| key.name == "host")?
            .kind
        {
            crate::keys::Kind::Table(keys) => keys,
            _ => return None,
        };
        Some(Keyed::within(table, node.at.clone(), "host", keys))
    });
    let settings = |name: &str, report: &mut Report<'_>| match &host {
        Some(host) => texts(host.scalars(name, report)),
        None => Default::default(),
    };
    for (entry, _) in keyed.scalars("env", report) {
        if entry.key.is_empty() || entry.key.contains(['=', ' ', '\t', '\0']) {
            let message = format!("`{}` is not a name of an environment variable", entry.key);
            let hint = "use letters, digits and `_`";
            report.error(entry.key_at.clone(), message, hint);
        }
    }
    for name in keyed.texts("sample", report) {
        if name.value.trim().is_empty() {
            let message = "an empty name of a server process matches none";
            report.error(
                name.at,
                message,
                "write its name, such as `qemu-system-x86`",
            );
        }
    }
    let mut command = |name: &str| keyed.text(name, report).map(|text| text.value);
    let (setup, ready, teardown) = (command("setup"), command("ready"), command("teardown"));
    Provision {
        layers,
        fill: keyed.size("fill", report).unwrap_or(0),
        precondition_ns: keyed.time("precondition", report).unwrap_or_default().0,
        sysctl: settings("sysctl", report),
        queue: settings("queue", report),
        env: texts(keyed.scalars("env", report)),
        setup,
        ready,
        teardown,
        sample: keyed
            .texts("sample", report)
            .into_iter()
            .map(|text| text.value)
            .collect(),
    }
}
