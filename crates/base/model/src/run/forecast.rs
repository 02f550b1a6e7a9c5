//! What trials would do with their targets, determined without changing anything.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::Diagnostic;

/// How a trial would use a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TargetUse {
    /// It is only read.
    Read,
    /// It does not exist and is created.
    Create,
    /// It is a folder in which files are created.
    CreateIn,
    /// It exists and is written to.
    Overwrite,
}

/// The guard's answer for a target.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Admission {
    /// It would be admitted.
    Granted(TargetUse),
    /// It would be refused, for this reason, unless `--destroy` names it.
    NeedsDestroy(Diagnostic),
    /// It would be refused, or could not be opened, for this reason.
    Refused(Diagnostic),
}

impl Admission {
    /// The reason against it.
    pub fn refusal(&self) -> Option<&Diagnostic> {
        match self {
            Admission::Granted(_) => None,
            Admission::NeedsDestroy(why) | Admission::Refused(why) => Some(why),
        }
    }
}

/// What trials would do with their targets.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Forecast {
    /// The files, folders and devices that they would open, each once.
    pub targets: Vec<(PathBuf, Admission)>,
    /// Other reasons why they could not begin.
    pub faults: Vec<Diagnostic>,
    /// The traces that are replayed at their own times, with the time of the last op, ns.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub traces: Vec<(PathBuf, u64)>,
}

impl Forecast {
    /// Adds what further trials would do. A target that any trial would not get keeps that answer.
    pub fn add(&mut self, other: Forecast) {
        for (path, admission) in other.targets {
            match self.targets.iter_mut().find(|(known, _)| *known == path) {
                Some((_, known)) => {
                    let read = *known == Admission::Granted(TargetUse::Read);
                    if read || (known.refusal().is_none() && admission.refusal().is_some()) {
                        *known = admission;
                    }
                }
                None => self.targets.push((path, admission)),
            }
        }
        for trace in other.traces {
            if !self.traces.contains(&trace) {
                self.traces.push(trace);
            }
        }
        for fault in other.faults {
            if !self.faults.contains(&fault) {
                self.faults.push(fault);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_has_its_strongest_use_and_its_refusal_remains() {
        let read = Admission::Granted(TargetUse::Read);
        let write = Admission::Granted(TargetUse::Overwrite);
        let refused = Admission::Refused(Diagnostic::error("in use"));
        for (one, other, expected) in [
            (&read, &read, &read),
            (&read, &write, &write),
            (&write, &read, &write),
            (&write, &refused, &refused),
            (&refused, &write, &refused),
            (&refused, &read, &refused),
        ] {
            let of = |admission: &Admission| Forecast {
                targets: vec![("/t".into(), admission.clone())],
                faults: vec![Diagnostic::error("no")],
                traces: Vec::new(),
            };
            let mut both = of(one);
            both.add(of(other));
            assert_eq!(both, of(expected));
        }
    }
}
