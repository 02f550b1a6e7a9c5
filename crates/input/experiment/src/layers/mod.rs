//! The target of a configuration: layers of storage and how they fit together.

mod options;
mod stack;
mod wanted;
mod words;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::{Path, PathBuf};

use crate::document::{Report, Table};
use iodyno_model::{Diagnostic, EngineKind, Layer, Provision, Target};

use crate::check::{Keyed, layers};
use crate::keys::kinds;
use crate::simulated;

use self::stack::built;
use self::words::{Word, words};

/// The target of a configuration; `folder` is the start of relative paths. Its options are added to
/// those of its section. Faults are reported; `None` if there is no target.
pub(crate) fn target(
    configuration: &Keyed<'_>,
    folder: &Path,
    options: &mut Options,
    report: &mut Report<'_>,
) -> Option<Target> {
    let nothing = Table::default();
    if let (Some(text), None) = (
        configuration.text("target", report),
        configuration.value("layers"),
    ) && simulated::is_simulated(&text.value)
    {
        options.add_simulated(configuration);
        return simulated::target(&text, configuration, report);
    }
    let message = "`sim` has no effect: `target` is not simulated";
    let hint = "leave it out, or write `sim:hdd` in `target`";
    configuration.refuse("sim", message, hint, report);
    let (words, at) = written_layers(configuration, &nothing, options, report)?;
    if let [Word::Path(path)] = words.as_slice() {
        return Some(on_path(folder.join(path), at, configuration, report));
    }
    let layers = built(&words, &at, folder, report)?;
    queue_without_devices(&layers, configuration, report);
    if let Some(kind) = existing(&layers) {
        let message = format!("`precondition` would fill the file system below `{kind}`");
        let hint =
            "precondition storage with a size of its own, such as `ext4 on loop on file on /PATH`";
        configuration.refuse("precondition", message, hint, report);
    }
    let provision = provision(layers, configuration, report);
    if provision.client_engine() == Some(EngineKind::VhostUserBlk) {
        for key in ["fill", "precondition"] {
            let message = format!("`{key}` cannot be used with `mirror.queues`");
            let hint = "write by a workload, or leave `mirror.queues` out";
            configuration.refuse(key, message, hint, report);
        }
    }
    for (message, hint) in provision.golden_faults() {
        report.error(configuration.whole(), message, hint);
    }
    Some(Target::Made(Box::new(provision)))
}

/// The layers of a configuration with their location: the text of `target`, or the list `layers`.
fn written_layers<'d>(
    configuration: &Keyed<'d>,
    nothing: &'d Table,
    options: &mut Options,
    report: &mut Report<'_>,
) -> Option<(Vec<Word<'d>>, Range<usize>)> {
    match (
        configuration.text("target", report),
        configuration.value("layers"),
    ) {
        (Some(text), None) => {
            let at = text.at.clone();
            let words = words(&text.value, at.clone(), configuration, nothing, report)?;
            options.add(&words, false, configuration);
            Some((words, at))
        }
        (None, Some(node)) => {
            let words = layers(node, report)?.into_iter();
            let words: Vec<Word<'_>> = words.map(|(kind, keyed)| Word::Kind(kind, keyed)).collect();
            options.add(&words, true, configuration);
            Some((words, node.at.clone()))
        }
        (Some(_), Some(node)) => {
            let message = "there are both `target` and `layers`";
            report.error(node.at.clone(), message, "give the layers in one of them");
            None
        }
        (None, None) => {
            if configuration.value("target").is_none() && !report.broken {
                let hint = "add `target = \"ext4 on loop on file on FOLDER\"`, or the path of existing storage";
                report.error(
                    configuration.whole(),
                    "a configuration lacks `target`",
                    hint,
                );
            }
            None
        }
    }
}

/// Existing storage, or a new folder in it if a setting has to be made.
fn on_path(
    path: PathBuf,
    at: Range<usize>,
    configuration: &Keyed<'_>,
    report: &mut Report<'_>,
) -> Target {
    let message = "existing storage is not preconditioned: its content would be overwritten";
    let hint = "name a layer on the path, such as `device on /dev/sdb`";
    configuration.refuse("precondition", message, hint, report);
    let provision = provision(Vec::new(), configuration, report);
    if provision == Provision::default() {
        return Target::Path(path);
    }
    queue_without_devices(&[], configuration, report);
    let mut settings = ["fill", "host", "env", "sample"].into_iter();
    let set = settings.find(|key| configuration.value(key).is_some());
    if let (Some(key), None) = (set, &provision.setup) {
        let message = format!(
            "with `{key}`, the trials use a new folder in `{}`, which is made as `fresh` says",
            path.display()
        );
        let hint = "write `directory on PATH` if it is meant";
        report.add(at, Diagnostic::warning(message).hint(hint));
    }
    Target::Made(Box::new(Provision {
        layers: vec![Layer::Directory { path }],
        ..provision
    }))
}

/// Reports settings of queues if no layer has a device.
fn queue_without_devices(layers: &[Layer], configuration: &Keyed<'_>, report: &mut Report<'_>) {
    let host = configuration.inner("host");
    if let Some(queue) = host.and_then(|host| host.value("queue"))
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
        let given = kinds().into_iter();
        let given = given.filter_map(|kind| Some((kind, configuration.at(kind)?)));
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

/// The settings of a configuration besides its layers.
fn provision(layers: Vec<Layer>, keyed: &Keyed<'_>, report: &mut Report<'_>) -> Provision {
    let host = keyed.inner("host");
    let settings = |name: &str, report: &mut Report<'_>| match &host {
        Some(host) => host.settings(name, report),
        None => BTreeMap::new(),
    };
    for (entry, _) in keyed.scalars("env", report) {
        if entry.key.is_empty() || entry.key.contains(['=', ' ', '\t', '\0']) {
            let message = format!("`{}` is not a name of an environment variable", entry.key);
            let hint = "use letters, digits and `_`";
            report.error(entry.key_at.clone(), message, hint);
        }
    }
    let sample = keyed.texts("sample", report);
    for name in sample.iter().filter(|name| name.value.trim().is_empty()) {
        let message = "an empty name of a server process matches none";
        let hint = "write its name, such as `qemu-system-x86`";
        report.error(name.at.clone(), message, hint);
    }
    let mut command = |name: &str| keyed.text(name, report).map(|text| text.value);
    let (setup, ready, teardown) = (command("setup"), command("ready"), command("teardown"));
    Provision {
        layers,
        fill: keyed.size("fill", report).unwrap_or(0),
        precondition_ns: keyed.time("precondition", report).unwrap_or_default().0,
        sysctl: settings("sysctl", report),
        queue: settings("queue", report),
        env: keyed.settings("env", report),
        setup,
        ready,
        teardown,
        sample: sample.into_iter().map(|text| text.value).collect(),
    }
}
