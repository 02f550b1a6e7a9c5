//! Storage that iodyno makes: a helper process does the work.
//!
//! Invariants: the parent never does any of it, because it may block in the kernel. Once the user has stopped the run,
//! the parent waits only briefly. The helper is not killed, but continues to undo what it made, even after the parent
//! has ended.

use std::cell::Cell;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use iodyno_model::Diagnostic;
use iodyno_storage::layers::{
    Cleaned, Guest, ProvisionRequest, Provisioned, StorageChange, TornDown,
};

use crate::parent::guest::{self, GuestNode};
use crate::parent::process::{Connection, Launcher, NodeProcess};
use crate::parent::session::{Node, POLL, StorageNode};
use crate::protocol::{Command, Message, StorageAnswer, StorageWork};
use crate::stop::StopFlag;

/// The name of the helper's process.
const NAME: &str = "iodyno-storage";
/// From a stop request to leaving the helper alone. A run has one such wait at most, and one of the next kind.
const AFTER_STOP: Duration = Duration::from_millis(2000);
/// The same for work that begins after the request.
const BEGUN_AFTER_STOP: Duration = Duration::from_millis(2000);
/// The longest wait for the helper's next message: longer than any command may take.
const SILENCE: Duration = Duration::from_secs(2000);

impl<L: Launcher> StorageNode for L {
    fn check_provision(&self, requests: &[ProvisionRequest], stop: &StopFlag) -> Vec<Diagnostic> {
        if requests.is_empty() {
            return Vec::new();
        }
        let guests = |request: &&ProvisionRequest| request.provision.vm().is_some();
        let unreachable = || self.in_guest(NAME, Path::new("")).is_none();
        if let (Some(request), true) = (requests.iter().find(guests), unreachable()) {
            let name = &request.configuration;
            let message =
                format!("configuration `{name}`: virtual machines cannot be made on this node");
            let hint = "leave `vm` out, or put it once in a target";
            return vec![Diagnostic::error(message).hint(hint)];
        }
        let work = StorageWork::Check(requests.to_vec());
        let answer = |answer| match answer {
            StorageAnswer::Checked(faults) => Some(Ok(faults)),
            _ => None,
        };
        ask(self, work, stop, &mut |_| (), answer).unwrap_or_else(|faults| faults)
    }

    fn provision(
        &self,
        request: &ProvisionRequest,
        stop: &StopFlag,
        progress: &mut dyn FnMut(&str),
    ) -> Result<Provisioned, Vec<Diagnostic>> {
        let owner = self.owner(&request.token).map_err(|fault| vec![fault])?;
        let work = StorageWork::Provision(Box::new(request.clone()), owner);
        let made = ask(self, work, stop, progress, |answer| match answer {
            StorageAnswer::Provisioned(result) => Some(result),
            _ => None,
        })?;
        if made.guests.is_empty() {
            return Ok(made);
        }
        within_guests(self, request, made, stop, progress).map_err(|mut faults| {
            let undone = self.tear_down(std::slice::from_ref(&request.token), stop, progress);
            faults.extend(undone.into_iter().flat_map(|one| one.faults));
            faults
        })
    }

    fn guest(&self, guest: &Guest) -> Option<Box<dyn Node + '_>> {
        Some(Box::new(GuestNode::new(self, guest)?))
    }

    fn change(
        &self,
        token: &str,
        change: StorageChange,
        stop: &StopFlag,
        progress: &mut dyn FnMut(&str),
    ) -> Result<(), Vec<Diagnostic>> {
        let work = StorageWork::Change(token.to_owned(), change);
        ask(self, work, stop, progress, |answer| match answer {
            StorageAnswer::Changed(result) => Some(result),
            _ => None,
        })
    }

    fn tear_down(
        &self,
        tokens: &[String],
        stop: &StopFlag,
        progress: &mut dyn FnMut(&str),
    ) -> Vec<TornDown> {
        if tokens.is_empty() {
            return Vec::new();
        }
        let work = StorageWork::TearDown(tokens.to_vec());
        let answer = ask(self, work, stop, progress, |answer| match answer {
            StorageAnswer::TornDown(ended) => Some(Ok(ended)),
            _ => None,
        });
        let unknown = |faults: Vec<Diagnostic>| TornDown {
            faults,
            ..TornDown::default()
        };
        answer.unwrap_or_else(|faults| tokens.iter().map(|_| unknown(faults.clone())).collect())
    }

    fn clean(
        &self,
        dry_run: bool,
        stop: &StopFlag,
        progress: &mut dyn FnMut(&str),
    ) -> Result<Cleaned, Vec<Diagnostic>> {
        let work = StorageWork::Clean { dry_run };
        ask(self, work, stop, progress, |answer| match answer {
            StorageAnswer::Cleaned(result) => Some(result),
            _ => None,
        })
    }
}

/// Makes the layers above the virtual machines, in each of them.
fn within_guests(
    node: &dyn Launcher,
    request: &ProvisionRequest,
    mut made: Provisioned,
    stop: &StopFlag,
    progress: &mut dyn FnMut(&str),
) -> Result<Provisioned, Vec<Diagnostic>> {
    for guest in made.guests.clone() {
        let Some(request) = guest::request(request, &guest) else {
            continue;
        };
        let Some(launcher) = GuestNode::new(node, &guest) else {
            let fault = Diagnostic::error("a virtual machine of this node cannot be reached");
            return Err(vec![
                fault.hint("set XDG_STATE_HOME there to a path of letters and digits"),
            ]);
        };
        let named = |text: &str| format!("in {}: {text}", guest.name);
        let inner = launcher.provision(&request, stop, &mut |step| progress(&named(step)));
        let inner = inner.map_err(|faults| {
            let faults = faults.into_iter().map(|fault| Diagnostic {
                message: named(&fault.message),
                ..fault
            });
            faults.collect::<Vec<_>>()
        })?;
        made.path = inner.path;
        made.commands.extend(inner.commands);
        // All guests have the same layers, so the first one's facts stand for all.
        for (name, value) in inner.facts {
            made.facts.entry(name).or_insert(value);
        }
    }
    Ok(made)
}

/// Has a helper process do the work, and waits for the answer that `expected` accepts.
fn ask<T>(
    node: &dyn Launcher,
    work: StorageWork,
    stop: &StopFlag,
    progress: &mut dyn FnMut(&str),
    expected: impl Fn(StorageAnswer) -> Option<Result<T, Vec<Diagnostic>>>,
) -> Result<T, Vec<Diagnostic>> {
    let mut process = NodeProcess::start(node, NAME, Stdio::null())
        .map_err(|error| vec![Diagnostic::error(error.to_string())])?;
    // Undoing begins even if the user has stopped the run.
    let begun_after_stop = stop.is_set();
    process.send(Command::Storage { work });
    let last_message = Cell::new(Instant::now());
    let mut stopped: Option<Instant> = None;
    let answer = |message| {
        let Message::Storage { answer } = message else {
            return None;
        };
        last_message.set(Instant::now());
        match answer {
            StorageAnswer::Told(what) => {
                progress(&what);
                None
            }
            answer => expected(answer),
        }
    };
    let clean = || Connection::clean_command(node.connection());
    let waiting = || {
        if stop.is_set() && stopped.is_none() {
            stopped = Some(Instant::now());
            process.send(Command::Abort);
        }
        let patience = match begun_after_stop {
            true => BEGUN_AFTER_STOP,
            false => AFTER_STOP,
        };
        let silent = last_message.get().elapsed() >= SILENCE;
        if !silent && stopped.is_none_or(|since| since.elapsed() < patience) {
            return Ok(());
        }
        let pid = process.pid();
        let message = format!("process {pid} continues to undo the storage, and then ends");
        let hint = format!("if it is killed, {} undoes the rest", clean());
        Err(vec![Diagnostic::warning(message).hint(hint)])
    };
    let answer = process.answer(answer, waiting)?.unwrap_or_else(|| {
        let message = "the process that makes storage ended without an answer";
        let hint = format!("{} undoes what remains", clean());
        Err(vec![Diagnostic::error(message).hint(hint)])
    });
    // It normally exits at once. Otherwise it is reaped when this process ends.
    process.await_exit(POLL);
    answer
}
