//! Masks secrets in what is stored, and removes names from what is exported.

use std::borrow::Cow;
use std::mem::take;
use std::ops::Range;
use std::path::Path;

use iodyno_model::{
    CloneResult, Frame, MountInfo, NodeAddress, Outcome, Plan, Run, StackLayer, TelemetryBatch,
    Trial,
};
use iodyno_secrets::{mask, mask_within, masked};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::StoreError;
use crate::blob::{document, of_document};

/// A record without its secrets.
pub(crate) fn without<T: Serialize + DeserializeOwned + Clone>(
    what: &'static str,
    record: &T,
) -> Result<T, StoreError> {
    each_way(|change| changed(what, record, change))
}

/// A secret can be a word of the format, such as the state of a trial: then texts that are such a word stay.
fn each_way<T>(
    attempt: impl Fn(&dyn Fn(&mut Value)) -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    attempt(&mask).or_else(|_| attempt(&mask_within))
}

/// A record after a change of its document.
fn changed<T: Serialize + DeserializeOwned + Clone>(
    what: &'static str,
    record: &T,
    change: &dyn Fn(&mut Value),
) -> Result<T, StoreError> {
    let failed = |source| StoreError::NotStorable { what, source };
    let whole = document(record).map_err(failed)?;
    let mut value = whole.clone();
    change(&mut value);
    match value == whole {
        true => Ok(record.clone()),
        false => of_document(&value).map_err(failed),
    }
}

/// A plan without its secrets.
pub(crate) fn plan_without(plan: &Plan) -> Result<Plan, StoreError> {
    each_way(|change| changed_plan(plan.clone(), change))
}

/// A plan after a change of its document. Results of other tools can be many, and are not taken apart all at once.
fn changed_plan(mut plan: Plan, change: &dyn Fn(&mut Value)) -> Result<Plan, StoreError> {
    let trials = plan.imported.as_mut().map(|it| take(&mut it.trials));
    let mut plan = changed("the plan", &plan, change)?;
    if let (Some(imported), Some(mut trials)) = (plan.imported.as_mut(), trials) {
        trials.rewrite(|trial| changed("an imported result", trial, change))?;
        imported.trials = trials;
    }
    Ok(plan)
}

/// Masks every text of a trial. The figures of its clones have none, and can be large.
pub(crate) fn mask_trial(trial: &mut Trial) -> Result<(), StoreError> {
    fn clones(trial: &mut Trial) -> impl Iterator<Item = &mut CloneResult> {
        trial.parts.iter_mut().flat_map(|part| &mut part.clones)
    }
    let figures = clones(trial).map(|it| (take(&mut it.directions), it.verify_reads.take()));
    let figures: Vec<_> = figures.collect();
    let masked = without("the trial", trial);
    if let Ok(masked) = &masked {
        trial.clone_from(masked);
    }
    for (clone, figures) in clones(trial).zip(figures) {
        (clone.directions, clone.verify_reads) = figures;
    }
    masked.map(drop)
}

/// A frame without secrets.
pub(crate) fn frame_without(frame: &Frame) -> Cow<'_, Frame> {
    match masked(&frame.node) {
        Cow::Borrowed(_) => Cow::Borrowed(frame),
        Cow::Owned(node) => Cow::Owned(Frame {
            node,
            ..frame.clone()
        }),
    }
}

/// Telemetry without secrets.
pub(crate) fn telemetry_without(
    batch: &TelemetryBatch,
) -> Result<Cow<'_, TelemetryBatch>, StoreError> {
    let own = &batch.telemetry;
    let shapes = without("telemetry", &own.shapes)?;
    let gaps = without("telemetry", &own.gaps)?;
    if shapes == own.shapes && gaps == own.gaps {
        return Ok(Cow::Borrowed(batch));
    }
    let mut batch = batch.clone();
    (batch.telemetry.shapes, batch.telemetry.gaps) = (shapes, gaps);
    Ok(Cow::Owned(batch))
}

/// The names of the host that exports a run.
#[derive(Debug, Clone, Default)]
pub struct OwnNames {
    /// Without it, names cannot be guessed from their pseudonyms. With the same one, a name has the same pseudonym.
    pub secret: Vec<u8>,
    /// The host.
    pub hosts: Vec<String>,
    /// Its user.
    pub users: Vec<String>,
}

/// Replaces names of users and hosts by pseudonyms. Equal names have equal pseudonyms, so that trials of one host are
/// still known as such.
pub(crate) struct Names<'a> {
    secret: &'a [u8],
    /// Names that are replaced in every text, in lower case, and their pseudonyms; the longest first.
    known: Vec<(String, String)>,
}

impl<'a> Names<'a> {
    /// The names of this run and of this host.
    pub(crate) fn of_run(own: &'a OwnNames, run: &Run) -> Names<'a> {
        let (mut hosts, mut users) = (own.hosts.clone(), own.users.clone());
        for trial in &run.trials {
            let listed = trial.host.iter().flat_map(|it| it.split(", "));
            hosts.extend(listed.map(str::to_owned));
        }
        for node in &run.plan.nodes {
            let address = node.at.strip_prefix("ssh://").unwrap_or_default();
            let (user, host) = address.rsplit_once('@').unwrap_or(("", address));
            users.push(user.to_owned());
            hosts.push(host.split([':', '?']).next().unwrap_or_default().to_owned());
        }
        // The host of `db1.example.com` is also called `db1`.
        let labels = hosts.iter().filter_map(|host| host.split('.').next());
        let labels: Vec<String> = labels.map(str::to_owned).collect();
        hosts.extend(labels);
        let mut names = Names {
            secret: &own.secret,
            known: Vec::new(),
        };
        for (kind, list) in [("host", hosts), ("user", users)] {
            for name in list.iter().map(|name| name.to_ascii_lowercase()) {
                let number = name.bytes().all(|byte| byte.is_ascii_digit());
                let common = COMMON.contains(&name.as_str()) || name.len() < 3 || number;
                if !common && names.known.iter().all(|(known, _)| *known != name) {
                    let pseudonym = names.of(kind, &name);
                    names.known.push((name, pseudonym));
                }
            }
        }
        names
            .known
            .sort_by_key(|(name, _)| std::cmp::Reverse(name.len()));
        names
    }

    /// A plan without the command line, and without the names of users and hosts.
    pub(crate) fn plan(&self, plan: Plan) -> Result<Plan, StoreError> {
        let mut plan = without_command_line(plan);
        for node in &mut plan.nodes {
            if let Some(rest) = node.at.strip_prefix("ssh://") {
                let (host, end) = match rest.strip_suffix(NodeAddress::FIO) {
                    Some(host) => (host, NodeAddress::FIO),
                    None => (rest, ""),
                };
                node.at = format!("ssh://{}{end}", self.of("host", host));
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
        either(|whole| changed_plan(plan.clone(), &|value| self.hide(value, whole)))
    }

    /// A trial without these names.
    pub(crate) fn trial(&self, mut trial: Trial) -> Result<Trial, StoreError> {
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
        either(|whole| changed("the trial", &trial, &|value| self.hide(value, whole)))
    }

    /// A frame without these names.
    pub(crate) fn frame(&self, frame: &mut Frame) {
        frame.node = self.text(&frame.node);
    }

    /// Telemetry without these names.
    pub(crate) fn telemetry(&self, batch: &mut TelemetryBatch) -> Result<(), StoreError> {
        let telemetry = &mut batch.telemetry;
        (telemetry.shapes, telemetry.gaps) = either(|whole| {
            let hide = |value: &mut Value| self.hide(value, whole);
            let shapes = changed("telemetry", &telemetry.shapes, &hide)?;
            Ok((shapes, changed("telemetry", &telemetry.gaps, &hide)?))
        })?;
        Ok(())
    }

    /// The server of a network file system, and who logs in to it.
    fn mount(&self, mount: &mut MountInfo) {
        let shared = mount.source.strip_prefix("//");
        if let Some((server, path)) = shared.and_then(|rest| rest.split_once('/')) {
            mount.source = format!("//{}/{path}", self.of("host", server));
        } else if let Some((server, path)) = mount.source.rsplit_once(':')
            && !server.contains('/')
        {
            mount.source = format!("{}:{path}", self.of("host", server));
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

    /// Replaces the names in every text of a document, or only in those that contain more than a name.
    fn hide(&self, value: &mut Value, whole: bool) {
        let is_name = |text: &str| {
            let mut known = self.known.iter();
            known.any(|(name, _)| name.eq_ignore_ascii_case(text))
        };
        each_text(value, &|text| match !whole && is_name(text) {
            true => text.to_owned(),
            false => self.text(text),
        });
    }

    fn text(&self, text: &str) -> String {
        let mut text = self.homes(text);
        for (name, pseudonym) in &self.known {
            text = replaced(text, name, pseudonym);
        }
        text
    }

    /// Text without the first two parts of paths below the homes of users: the second one is the user if the first is
    /// a domain.
    fn homes(&self, text: &str) -> String {
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
    fn of(&self, kind: &str, name: &str) -> String {
        if name.is_empty() || pseudonyms(name).next() == Some(0..name.len()) {
            return name.to_owned();
        }
        let digest = Sha256::new()
            .chain_update(self.secret)
            .chain_update(name)
            .finalize();
        let digits: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{kind}-{}", &digits[..DIGITS])
    }
}

/// A host can be called like a word of the format, such as the kind of a layer: then texts that are such a name stay.
fn either<T>(attempt: impl Fn(bool) -> Result<T, StoreError>) -> Result<T, StoreError> {
    attempt(true).or_else(|_| attempt(false))
}

/// A plan without its command line, also as the text of a workload.
fn without_command_line(mut plan: Plan) -> Plan {
    plan.command.clear();
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
    plan
}

/// Text with another name wherever `name`, in lower case, is a word of its own.
fn replaced(text: String, name: &str, other: &str) -> String {
    let in_word = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
    let lower = text.to_ascii_lowercase();
    let (mut done, mut from) = (String::new(), 0);
    for (at, _) in lower.match_indices(name) {
        let end = at + name.len();
        if !text[..at].ends_with(in_word) && !text[end..].starts_with(in_word) {
            done += &text[from..at];
            done += other;
            from = end;
        }
    }
    match from {
        0 => text,
        _ => done + &text[from..],
    }
}

/// The places of pseudonyms in a text.
fn pseudonyms(text: &str) -> impl Iterator<Item = Range<usize>> + '_ {
    let hyphens = text.match_indices('-').map(|(at, _)| at);
    hyphens.filter_map(|at| {
        let kind = KINDS.iter().find(|kind| text[..at].ends_with(**kind))?;
        let digits = text.get(at + 1..at + 1 + DIGITS)?;
        let known = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        known.then_some(at - kind.len()..at + 1 + DIGITS)
    })
}

/// Whether two plans are the same, except for the command line and for names where one of them has a pseudonym.
pub(crate) fn same_plan(one: &Plan, other: &Plan) -> Result<bool, StoreError> {
    let apart = |plan: &Plan| {
        let mut plan = without_command_line(plan.clone());
        let imported = plan.imported.as_mut();
        let trials = imported.map(|it| std::mem::take(&mut it.trials));
        (plan, trials.unwrap_or_default())
    };
    let ((one, results), (other, others)) = (apart(one), apart(other));
    if !same("the plan", &one, &other)? || results.len() != others.len() {
        return Ok(false);
    }
    for (result, other) in results.iter().zip(others.iter()) {
        if !same("an imported result", &result, &other)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether two records are the same, except for names where one of them has a pseudonym.
pub(crate) fn same<T: Serialize + PartialEq>(
    what: &'static str,
    one: &T,
    other: &T,
) -> Result<bool, StoreError> {
    let of =
        |record: &T| document(record).map_err(|source| StoreError::NotStorable { what, source });
    Ok(one == other || alike(&of(one)?, &of(other)?))
}

fn alike(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::String(one), Value::String(other)) => {
            one == other || stands_for(one, other) || stands_for(other, one)
        }
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| alike(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            let member = |(name, value)| other.get(name).is_some_and(|other| alike(value, other));
            one.len() == other.len() && one.iter().all(member)
        }
        _ => one == other,
    }
}

/// Whether a text is another one after names in it were replaced by pseudonyms.
fn stands_for(text: &str, other: &str) -> bool {
    let (mut from, mut rest) = (0, other);
    for place in pseudonyms(text) {
        let before = &text[from..place.start];
        let found = match from {
            0 => rest.starts_with(before).then_some(0),
            _ => rest.find(before),
        };
        let Some(at) = found else {
            return false;
        };
        rest = &rest[at + before.len()..];
        from = place.end;
    }
    from > 0 && rest.ends_with(&text[from..])
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
/// The kinds of names, with which pseudonyms begin.
const KINDS: [&str; 4] = ["host", "user", "node", "boot"];
/// Names that do not identify a person or host, and are words of plans and results.
const COMMON: [&str; 16] = [
    "root",
    "localhost",
    "admin",
    "user",
    "guest",
    "test",
    "host",
    "node",
    "local",
    "disk",
    "data",
    "read",
    "write",
    "fio",
    "iodyno",
    "sysbench",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn names(secret: &'static str, known: &[&str]) -> Names<'static> {
        let mut names = Names {
            secret: secret.as_bytes(),
            known: Vec::new(),
        };
        let pseudonym = |name: &&str| ((*name).to_owned(), names.of("host", name));
        names.known = known.iter().map(pseudonym).collect();
        names
    }

    #[test]
    fn a_pseudonym_is_the_same_for_the_same_name_and_stays() {
        let (names, other) = (names("secret", &[]), names("other", &[]));
        let one = names.of("host", "ada@db1");
        assert!(one.starts_with("host-") && one.len() == 13, "{one}");
        assert_eq!(one, names.of("host", "ada@db1"));
        assert_ne!(one, names.of("host", "ada@db2"));
        assert_ne!(one, other.of("host", "ada@db1"));
        assert_eq!(names.of("host", &one), one);
        assert_eq!(names.of("host", ""), "");
    }

    #[test]
    fn known_names_are_replaced_where_they_are_words() {
        let names = names("secret", &["db1.example", "db1", "ada"]);
        let [whole, db1, ada] = ["db1.example", "db1", "ada"].map(|name| names.of("host", name));
        for (text, expected) in [
            ("scp x ada@db1:/x", format!("scp x {ada}@{db1}:/x")),
            ("of DB1.example, Ada's", format!("of {whole}, {ada}'s")),
            ("db1", db1.clone()),
            ("db1.other=\"ada\"", format!("{db1}.other=\"{ada}\"")),
            (
                "db12 my-db1 db1_x Canada ädb1",
                "db12 my-db1 db1_x Canada ädb1".to_owned(),
            ),
        ] {
            assert_eq!(names.text(text), expected);
            assert_eq!(names.text(&expected), expected);
        }
    }

    #[test]
    fn a_pseudonym_stands_for_any_name() {
        let check = |one: &str, other: &str, expected: bool| {
            let [one, other] = [one, other].map(|text| serde_json::json!({ "a": [text, 1] }));
            let (found, back) = (alike(&one, &other), alike(&other, &one));
            assert_eq!((found, back), (expected, expected), "{one} {other}");
        };
        check("a ada b db1", "a user-01234567 b host-89abcdef", true);
        check(
            "a user-76543210 b db1",
            "a user-01234567 b host-89abcdef",
            true,
        );
        check("ada", "user-01234567", true);
        check("ada b", "user-01234567 c", false);
        check("x ada", "user-01234567 ada", true);
        check("ab", "a user-01234567", false);
        check("ada", "user-0123456", false);
        check("ada", "bob", false);
    }

    #[test]
    fn names_of_users_and_servers_are_found_in_paths_and_mounts() {
        let names = names("secret", &[]);
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
                format!("//{nas}/share username={nas}"),
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
