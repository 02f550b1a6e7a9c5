//! Masks secrets in what is stored, and removes names from what is exported.

use std::borrow::Cow;
use std::path::Path;

use iodyno_model::secret::{mask, masked};
use iodyno_model::{
    Frame, MountInfo, NodeAddress, Outcome, Plan, StackLayer, TelemetryBatch, Trial,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::StoreError;

/// A record without its secrets.
pub(crate) fn without<T: Serialize + DeserializeOwned + Clone>(
    what: &'static str,
    record: &T,
) -> Result<T, StoreError> {
    changed(what, record, &mask)
}

/// A record after a change of its document.
fn changed<T: Serialize + DeserializeOwned + Clone>(
    what: &'static str,
    record: &T,
    change: &dyn Fn(&mut Value),
) -> Result<T, StoreError> {
    let failed = |source| StoreError::NotStorable { what, source };
    let whole = serde_json::to_value(record).map_err(failed)?;
    let mut value = whole.clone();
    change(&mut value);
    match value == whole {
        true => Ok(record.clone()),
        false => serde_json::from_value(value).map_err(failed),
    }
}

/// A plan without its secrets.
pub(crate) fn plan_without(plan: &Plan) -> Result<Plan, StoreError> {
    changed_plan(plan.clone(), &mask)
}

/// A plan after a change of its document. Results of other tools can be many, and are not taken apart all at once.
fn changed_plan(mut plan: Plan, change: &dyn Fn(&mut Value)) -> Result<Plan, StoreError> {
    let trials = plan
        .imported
        .as_mut()
        .map(|it| std::mem::take(&mut it.trials));
    let mut plan = changed("the plan", &plan, change)?;
    if let (Some(imported), Some(mut trials)) = (plan.imported.as_mut(), trials) {
        trials.rewrite(|trial| changed("an imported result", trial, change))?;
        imported.trials = trials;
    }
    Ok(plan)
}

/// Masks the texts of a trial in which commands and their output can be. Its figures have none, and can be large.
pub(crate) fn mask_trial(trial: &mut Trial) -> Result<(), StoreError> {
    let hide = |text: &mut String| {
        if let Cow::Owned(other) = masked(text) {
            *text = other;
        }
    };
    texts(trial, &hide);
    for part in &mut trial.parts {
        part.environment = without("the environment", &part.environment)?;
    }
    Ok(())
}

/// What takes the place of names of users and hosts.
#[derive(Clone, Copy)]
pub(crate) enum Names<'a> {
    /// A pseudonym: a digest of the name and this secret, without which a name cannot be guessed. Equal names have equal
    /// pseudonyms, so that trials of one host are still known as such.
    Hidden(&'a [u8]),
    /// Nothing, to compare plans and trials that may lack the names.
    Erased,
}

impl Names<'_> {
    /// A plan without the command line, and without the names of users and hosts.
    pub(crate) fn plan(self, plan: Plan) -> Result<Plan, StoreError> {
        let mut plan = Plan {
            command: Vec::new(),
            ..plan
        };
        for (from, to) in self.renamed(&plan) {
            rename_in_plan(&mut plan, &from, &to);
        }
        for node in &mut plan.nodes {
            if let Some(rest) = node.at.strip_prefix("ssh://") {
                let (host, end) = match rest.strip_suffix(NodeAddress::FIO) {
                    Some(host) => (host, NodeAddress::FIO),
                    None => (rest, ""),
                };
                node.at = format!("ssh://{}{end}", self.of("host", host));
            }
        }
        for workload in &mut plan.workloads {
            let sources = workload.sources.iter_mut();
            for source in sources.filter(|source| source.name == COMMAND_LINE) {
                source.text.clear();
            }
            let places = workload
                .jobs
                .iter_mut()
                .filter_map(|job| job.place.as_mut());
            for place in places.filter(|place| place.file == Path::new(COMMAND_LINE)) {
                place.text.clear();
            }
        }
        if let Some(imported) = &mut plan.imported {
            imported.trials.rewrite(|trial| {
                let mut trial = trial.clone();
                if let Some(node) = trial.dimensions.get_mut("node") {
                    *node = self.of("host", node);
                }
                Ok::<_, StoreError>(trial)
            })?;
        }
        changed_plan(plan, &|value| each_text(value, &|text| self.homes(text)))
    }

    /// A trial without these names. `plan`: that of its run, with all names.
    pub(crate) fn trial(self, mut trial: Trial, plan: &Plan) -> Result<Trial, StoreError> {
        rename_in_trial(&mut trial, &self.renamed(plan));
        for part in &mut trial.parts {
            let environment = &mut part.environment;
            environment.host = self.of("host", &environment.host);
            environment.boot_id = self.of("boot", &environment.boot_id);
            for target in &mut environment.targets {
                for layer in &mut target.stack {
                    if let StackLayer::Mount(mount) = layer {
                        self.mount(mount);
                    }
                }
            }
        }
        changed("the trial", &trial, &|value| {
            each_text(value, &|text| self.homes(text))
        })
    }

    /// The server of a network file system, and who logs in to it.
    fn mount(self, mount: &mut MountInfo) {
        if let Some((server, path)) = server_of(&mount.source) {
            let server = self.of("host", server);
            mount.source = format!("{server}:{path}");
        }
        let options = mount
            .options
            .split(',')
            .map(|option| match option.split_once('=') {
                Some((name, value)) if NAMED.contains(&name) => {
                    format!("{name}={}", self.of("host", value))
                }
                _ => option.to_owned(),
            });
        mount.options = options.collect::<Vec<_>>().join(",");
    }

    /// The nodes whose names are those of their hosts or users, with other names.
    pub(crate) fn renamed(self, plan: &Plan) -> Vec<(String, String)> {
        if let Names::Erased = self {
            // An import gives them the names that the store knows.
            return Vec::new();
        }
        let nodes = plan.nodes.iter().filter(|node| {
            let address = node.at.strip_prefix("ssh://").unwrap_or_default();
            let (user, host) = address.rsplit_once('@').unwrap_or(("", address));
            let label = host.split(['.', ':', '?']).next().unwrap_or_default();
            let whole = host.split([':', '?']).next().unwrap_or_default();
            [user, label, whole].contains(&node.name.as_str())
        });
        let nodes = nodes.map(|node| (node.name.clone(), self.of("node", &node.name)));
        nodes.filter(|(from, to)| from != to).collect()
    }

    /// Text without the first two parts of paths below the homes of users: the second one is the user if the first is a domain.
    fn homes(self, text: &str) -> String {
        let plain = |c: char| c.is_alphanumeric() || "._-@+".contains(c);
        let (mut done, mut rest) = (String::new(), text);
        while let Some(at) = rest.find(HOMES) {
            let before;
            (before, rest) = rest.split_at(at + HOMES.len());
            done += before;
            for _ in 0..2 {
                // `/home//ada`, `/home/./ada` and `/home/x/../ada`.
                while let Some(step) = ["/", "./", "../"].iter().find(|it| rest.starts_with(**it)) {
                    done += step;
                    rest = &rest[step.len()..];
                }
                let length = rest.find(|c| !plain(c)).unwrap_or(rest.len());
                done += &self.of("user", &rest[..length]);
                rest = &rest[length..];
                if !rest.starts_with('/') {
                    break;
                }
            }
        }
        done + rest
    }

    /// What takes the place of a name. A pseudonym is its own.
    fn of(self, kind: &str, name: &str) -> String {
        let digits = name
            .strip_prefix(kind)
            .and_then(|rest| rest.strip_prefix('-'));
        let known = digits.is_some_and(|digits| {
            digits.len() == DIGITS && digits.bytes().all(|digit| digit.is_ascii_hexdigit())
        });
        match self {
            Names::Erased => String::new(),
            _ if known || name.is_empty() => name.to_owned(),
            Names::Hidden(secret) => {
                let digest = Sha256::new()
                    .chain_update(secret)
                    .chain_update(name)
                    .finalize();
                let digits: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
                format!("{kind}-{}", &digits[..DIGITS])
            }
        }
    }
}

/// The server and the rest of a source such as `nas:/export`, `user@nas:` and `//nas/share`.
fn server_of(source: &str) -> Option<(&str, &str)> {
    let shared = source
        .strip_prefix("//")
        .and_then(|rest| rest.split_once('/'));
    shared.or_else(|| {
        source
            .rsplit_once(':')
            .filter(|(server, _)| !server.contains('/'))
    })
}

/// Gives nodes of a plan the names that they have in another one.
pub(crate) fn rename_in_plan(plan: &mut Plan, from: &str, to: &str) {
    let nodes = plan.nodes.iter_mut().map(|node| &mut node.name);
    let configurations = plan.configurations.iter_mut().flat_map(|it| &mut it.nodes);
    let workloads = plan.workloads.iter_mut().flat_map(|it| &mut it.nodes);
    let question = &mut plan.question;
    let chosen = question.only.iter_mut().map(|(_, value)| value);
    let floor = question.floor.iter_mut().map(|(_, value)| value);
    let all = nodes
        .chain(configurations)
        .chain(workloads)
        .chain(chosen)
        .chain(floor);
    for name in all
        .chain(&mut question.baseline)
        .filter(|name| *name == from)
    {
        to.clone_into(name);
    }
}

/// The same for a trial. Guests are named after the node on which they are.
pub(crate) fn rename_in_trial(trial: &mut Trial, renamed: &[(String, String)]) {
    for part in &mut trial.parts {
        rename(&mut part.node, renamed);
    }
    texts(trial, &|text| {
        for (from, to) in renamed {
            *text = text.replace(&format!("`{from}`"), &format!("`{to}`"));
        }
    });
}

/// The same for a frame.
pub(crate) fn rename_in_frame(frame: &mut Frame, renamed: &[(String, String)]) {
    rename(&mut frame.node, renamed);
}

/// The same for telemetry.
pub(crate) fn rename_in_telemetry(batch: &mut TelemetryBatch, renamed: &[(String, String)]) {
    let telemetry = &mut batch.telemetry;
    let shapes = telemetry.shapes.iter_mut().map(|shape| &mut shape.node);
    let gaps = telemetry.gaps.iter_mut().map(|gap| &mut gap.node);
    shapes.chain(gaps).for_each(|node| rename(node, renamed));
}

fn rename(node: &mut String, renamed: &[(String, String)]) {
    for (from, to) in renamed {
        match node.strip_prefix(from.as_str()) {
            Some(rest) if rest.is_empty() || rest.starts_with('.') => {
                *node = format!("{to}{rest}");
                return;
            }
            _ => {}
        }
    }
}

/// The texts of a trial for people.
fn texts(trial: &mut Trial, change: &dyn Fn(&mut String)) {
    if let Outcome::Interrupted(why) | Outcome::Failed(why) | Outcome::Refused(why) =
        &mut trial.outcome
    {
        change(why);
    }
    let notes = trial.parts.iter_mut().flat_map(|part| &mut part.notes);
    notes.for_each(change);
    trial
        .findings
        .iter_mut()
        .for_each(|finding| change(&mut finding.text));
}

fn each_text(value: &mut Value, change: &dyn Fn(&str) -> String) {
    match value {
        Value::String(text) => *text = change(text),
        Value::Array(values) => values.iter_mut().for_each(|value| each_text(value, change)),
        Value::Object(members) => members
            .values_mut()
            .for_each(|value| each_text(value, change)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// The name of the source of a workload that was given on the command line.
const COMMAND_LINE: &str = "<command line>";
/// Where the homes of users are.
const HOMES: &str = "/home/";
/// Options of mounts whose values name a host or a user.
const NAMED: [&str; 6] = [
    "addr",
    "clientaddr",
    "mountaddr",
    "username",
    "user",
    "domain",
];
/// Number of digits of a pseudonym.
const DIGITS: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pseudonym_is_the_same_for_the_same_name_and_stays() {
        let names = Names::Hidden(b"secret");
        let one = names.of("host", "ada@db1");
        assert!(one.starts_with("host-") && one.len() == 13, "{one}");
        assert_eq!(one, names.of("host", "ada@db1"));
        assert_ne!(one, names.of("host", "ada@db2"));
        assert_ne!(one, Names::Hidden(b"other").of("host", "ada@db1"));
        assert_eq!(names.of("host", &one), one);
        assert_eq!(Names::Erased.of("host", &one), "");
    }

    #[test]
    fn names_of_users_and_servers_are_found_in_paths_and_mounts() {
        let names = Names::Hidden(b"secret");
        let (ada, x) = (names.of("user", "ada"), names.of("user", "x"));
        assert_eq!(
            names.homes("cp /home/ada/x/y '/home/ada' /home /srv/home"),
            format!("cp /home/{ada}/{x}/y '/home/{ada}' /home /srv/home")
        );
        for (path, expected) in [
            ("/home//ada", format!("/home//{ada}")),
            ("/home/./ada", format!("/home/./{ada}")),
            ("/home/x/../ada/y", format!("/home/{x}/../{ada}/y")),
            ("/home/x/ada/y", format!("/home/{x}/{ada}/y")),
            ("/home/x//ada", format!("/home/{x}//{ada}")),
        ] {
            assert_eq!(names.homes(path), expected);
        }
        assert_eq!(
            names.homes(&names.homes("/home/ada/x")),
            names.homes("/home/ada/x")
        );
        let nas = names.of("host", "nas1");
        for (source, options, expected) in [
            (
                "nas1:/export",
                "rw,addr=nas1",
                format!("{nas}:/export rw,addr={nas}"),
            ),
            (
                "//nas1/share",
                "username=nas1",
                format!("{nas}:share username={nas}"),
            ),
            ("/dev/sda1", "rw", "/dev/sda1 rw".to_owned()),
            ("pool/data", "", "pool/data ".to_owned()),
        ] {
            let mut mount = MountInfo {
                source: source.to_owned(),
                options: options.to_owned(),
                ..MountInfo::default()
            };
            names.mount(&mut mount);
            assert_eq!(format!("{} {}", mount.source, mount.options), expected);
        }
    }
}
