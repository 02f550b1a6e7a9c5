//! The child's end of the protocol: hello, prepare, start, and the part at the end.

use std::fs::File;
use std::io::{self, BufReader};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::mpsc;

use iodyno_model::BoundPlan;

use crate::control::{self, Control};
use crate::message_writer::{MessageSender, MessageWriter};
use crate::prepare::{Unready, prepare};
use crate::protocol::{FromNode, PROTOCOL, ToNode};
use crate::timeline::Timeline;
use crate::trial::Trial;
use crate::worker::Signal;

/// The child's main: speaks the protocol on stdin and stdout until the trial has ended. The exit code.
///
/// stdout belongs to the protocol from here on: whatever else is printed there goes to stderr.
pub fn serve() -> u8 {
    // The name that `ps` and `perf` show; started by a link, it would be the link's.
    let _ = rustix::thread::set_name(c"iodyno-node");
    tracing::debug!(protocol = PROTOCOL, "node started");
    let code = match streams() {
        Ok((input, output)) => u8::from(!session(input, output)),
        Err(_) => 1,
    };
    tracing::debug!(code, "node exits");
    code
}

/// The protocol's own descriptors; the standard ones lead nowhere.
fn streams() -> io::Result<(File, File)> {
    let input: OwnedFd = io::stdin().as_fd().try_clone_to_owned()?;
    let output: OwnedFd = io::stdout().as_fd().try_clone_to_owned()?;
    rustix::stdio::dup2_stdin(File::open("/dev/null")?)?;
    rustix::stdio::dup2_stdout(io::stderr())?;
    Ok((File::from(input), File::from(output)))
}

/// `false`: the parent was gone before the last word.
fn session(input: File, output: File) -> bool {
    let (sender, signals) = mpsc::channel();
    let control = Control::default();
    let broken = {
        let (control, sender) = (control.clone(), sender.clone());
        move || {
            control.tell(control::Told::Gone);
            let _ = sender.send(Signal::Gone);
        }
    };
    let Ok(writer) = MessageWriter::open(output, broken) else {
        return false;
    };
    let messages = writer.sender();
    messages.send(FromNode::Hello {
        version: PROTOCOL,
        iodyno: env!("CARGO_PKG_VERSION").to_owned(),
        pid: std::process::id(),
    });
    let input = BufReader::with_capacity(1 << 16, input);
    if control::listen(input, control.clone(), sender.clone()).is_err() {
        return false;
    }
    let timeline = Timeline::real(sender, signals);
    let last = plan(&timeline).map(|plan| trial(&plan, &control, &messages, timeline));
    let said = last.is_some();
    if let Some(last) = last {
        messages.send(last);
    }
    writer.close();
    said && control.told() != control::Told::Gone
}

/// Carries a trial out; the last message of it.
pub(crate) fn trial(
    plan: &BoundPlan,
    control: &Control,
    messages: &MessageSender,
    timeline: Timeline,
) -> FromNode {
    let unready = |unready| match unready {
        Unready::Refused(diagnostics) => FromNode::Refused { diagnostics },
        Unready::Unprepared(diagnostics) => FromNode::Unprepared { diagnostics },
        Unready::Withdrawn => FromNode::Withdrawn,
    };
    let prepared = match prepare(plan, control, messages) {
        Ok(prepared) => prepared,
        Err(error) => return unready(error),
    };
    let mut trial = match Trial::new(plan, prepared, control, messages, timeline) {
        Ok(trial) => trial,
        Err(error) => return unready(error),
    };
    messages.send(trial.ready());
    let instant = match trial.await_start() {
        Ok(instant) => instant,
        Err(error) => return unready(error),
    };
    let (part, outcome) = trial.run(instant);
    FromNode::Part {
        part: Box::new(part),
        outcome,
    }
}

/// Waits for the plan. `None`: the parent is gone, or speaks another version.
fn plan(timeline: &Timeline) -> Option<Box<BoundPlan>> {
    loop {
        match timeline.next()? {
            Signal::Said(ToNode::Hello { version }) if version != PROTOCOL => return None,
            Signal::Said(ToNode::Prepare { plan }) => return Some(plan),
            Signal::Gone => return None,
            _ => {}
        }
    }
}
