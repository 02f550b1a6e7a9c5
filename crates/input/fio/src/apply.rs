//! Applies the options of a section to a draft, with diagnostics for each.

use std::collections::HashMap;
use std::path::Path;

use iodyno_model::{Diagnostic, Place, Severity};
use iodyno_options::Problem;

use super::arithmetic;
use super::draft::{Draft, Written};
use super::host::Host;
use super::options::{ADDING, OPTIONS, OptionSpec};
use super::text::{Entry, Report};
use super::value::Value;

pub(super) fn apply(draft: &mut Draft, entries: &[Entry], host: &dyn Host, report: &mut Report) {
    warn_of_repeats(entries, report);
    // As in fio, suffixes anywhere in the section of a file count by its `kb_base`, but those of the command line only
    // after it.
    let (first, then): (Vec<&Entry>, Vec<&Entry>) = entries
        .iter()
        .partition(|entry| entry.key == "kb_base" && !entry.is_argument());
    for entry in first.into_iter().chain(then) {
        match OPTIONS.find(&entry.key) {
            Some(option) => apply_one(draft, option, entry, host, report),
            None => report.push(unknown(entry)),
        }
    }
}

fn warn_of_repeats(entries: &[Entry], report: &mut Report) {
    let mut seen: HashMap<(&str, &Path), u32> = HashMap::new();
    for entry in entries {
        let Some(option) = OPTIONS.find(&entry.key) else {
            continue;
        };
        let place = &entry.key_place;
        let earlier = seen.insert((option.name, &place.file), place.line);
        if let Some(line) = earlier.filter(|_| !ADDING.contains(&option.name)) {
            report.push(
                Diagnostic::warning(format!(
                    "`{}` is set twice in this section, before in line {line}; the last one counts",
                    entry.key
                ))
                .at(place.clone())
                .hint("leave one of them out"),
            );
        }
    }
}

fn unknown(entry: &Entry) -> Diagnostic {
    let diagnostic =
        Diagnostic::error(format!("unknown option `{}`", entry.key)).at(entry.key_place.clone());
    match OPTIONS.suggestion(&entry.key) {
        Some(near) if near.eq_ignore_ascii_case(&entry.key) => {
            diagnostic.hint(format!("options are in small letters: `{near}`"))
        }
        Some(near) => diagnostic.hint(format!("did you mean `{near}`?")),
        None => diagnostic.hint("docs/fio-compatibility.md lists all options"),
    }
}

fn apply_one(
    draft: &mut Draft,
    option: &'static OptionSpec,
    entry: &Entry,
    host: &dyn Host,
    report: &mut Report,
) {
    let substituted = substitute(entry.value.as_deref().unwrap_or_default(), host);
    for name in &substituted.unset {
        report.push(
            Diagnostic::warning(format!(
                "the variable `{name}` is not set: it counts as nothing"
            ))
            .at(entry.value_place.clone())
            .hint(format!("set it, such as `{name}=… iodyno …`")),
        );
    }
    let changed = entry.value.as_deref() != Some(substituted.text.as_str());
    let text = substituted.text.trim();
    let value = Value {
        given: entry.value.is_some(),
        computed: substituted.computed,
        host: Some(host),
        ..Value::new(text, draft.kb_base)
    };
    let outcome = option.apply(&entry.key, text, |effect| {
        if value.given || option.unit.optional() {
            return (effect.set)(draft, &value);
        }
        let form = format!("write {}", option.unit.form(&entry.key));
        Err(Problem::error(format!("`{}` needs a value", entry.key)).hint(form))
    });
    if entry.spaced && text.starts_with(|c: char| c.is_ascii_digit()) {
        let both = format!(
            "write `{}={text}`, which both interpret in the same way",
            entry.key
        );
        value.remark(
            Problem::warning("fio drops the suffix of a number with a space before it").hint(both),
        );
    }
    let computed = value.computed;
    let remarks = value.remarks.into_inner();
    let refused = matches!(&outcome, Err(fault) if fault.severity == Severity::Error);
    draft.unmet.remove(option.name);
    for fault in remarks.into_iter().chain(outcome.err()) {
        if fault.unmet {
            draft.unmet.insert(option.name, fault.message.clone());
        }
        let fault = Problem {
            unmet: false,
            ..fault
        };
        let place = fault_place(entry, &fault, changed);
        let takes = || format!("`{}` takes {}", entry.key, option.unit.describe());
        let hint = fault.hint.clone().or_else(|| Some(takes()));
        say(report, Problem { hint, ..fault }, Some(place));
    }
    match refused {
        true => _ = draft.failed.insert(option.name),
        false => record(draft, option, entry, text, computed),
    }
}

/// Records a valid option as written. `computed`: its value is arithmetic.
fn record(
    draft: &mut Draft,
    option: &'static OptionSpec,
    entry: &Entry,
    text: &str,
    computed: bool,
) {
    draft.failed.remove(option.name);
    let result = computed.then(|| arithmetic::result(text)).flatten();
    let pair = ONE_SETTING.iter().find(|pair| pair.contains(&option.name));
    let replaced = |name: &String| pair.is_some_and(|pair| pair.contains(&name.as_str()));
    let job = &mut draft.job;
    job.options.retain(|name, _| !replaced(name));
    let value = result.unwrap_or_else(|| text.to_owned());
    job.options.insert(option.name.to_owned(), value);
    job.inherited.remove(option.name);
    let written = Written {
        place: entry.key_place.clone(),
        value: text.to_owned(),
    };
    draft.written.insert(option.name, written);
}

/// Pairs of options that are one setting: the last of both counts.
const ONE_SETTING: [[&str; 2]; 2] = [["direct", "buffered"], ["rwmixread", "rwmixwrite"]];

/// Location of an error: the part of the value, the value, or the line if variables changed it.
fn fault_place(entry: &Entry, fault: &Problem, changed: bool) -> Place {
    let mut place = entry.value_place.clone();
    if let (Some((start, length)), false, Some(value)) = (fault.span, changed, &entry.value) {
        let before = value.get(..start).map_or(0, |text| text.chars().count());
        let inside = value.get(start..start + length);
        place.column += before as u32;
        place.length = inside.map_or(1, |text| text.chars().count()).max(1) as u32;
    }
    place
}

/// Adds an error to the report.
pub(super) fn say(report: &mut Report, fault: Problem, place: Option<Place>) {
    report.refusals += usize::from(fault.refusal);
    if fault.unmet {
        report.fatal_warnings.insert(fault.message.clone());
    }
    report.push(fault.diagnostic(place));
}

/// A value with its variables replaced.
#[derive(Debug, Default, PartialEq, Eq)]
struct Substituted {
    text: String,
    /// Names of the variables that are not set.
    unset: Vec<String>,
    /// Whether a keyword became a number, so that arithmetic may follow.
    computed: bool,
}

fn substitute(text: &str, host: &dyn Host) -> Substituted {
    let mut out = Substituted::default();
    let mut rest = text;
    while let Some(start) = rest.find("${") {
        out.text.push_str(&rest[..start]);
        let Some(length) = rest[start + 2..].find('}') else {
            rest = &rest[start..];
            break;
        };
        let name = &rest[start + 2..start + 2 + length];
        match host.env(name) {
            Some(value) => out.text.push_str(&value),
            None => out.unset.push(name.to_owned()),
        }
        rest = &rest[start + 3 + length..];
    }
    out.text.push_str(rest);
    if out.text.contains('$') {
        for (keyword, number) in [
            ("$pagesize", host.page_size()),
            ("$mb_memory", host.memory_mb()),
            ("$ncpus", u64::from(host.cpus())),
        ] {
            if out.text.contains(keyword) {
                out.text = out.text.replace(keyword, &number.to_string());
                out.computed = true;
            }
        }
    }
    out
}
