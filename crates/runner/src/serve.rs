//! The node's end of the protocol: hello, prepare, arm, and the part at the end.

use std::fs::File;
use std::io::{self, BufReader};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::mpsc;

use iodyno_model::{BoundPlan, Diagnostic, EngineKind};
use iodyno_target::WrittenDevice;

use crate::control::{self, Control};
use crate::message_writer::{MessageSender, MessageWriter};
use crate::prepare::prepare;
use crate::protocol::{Command, EngineSupport, Hello, Message, PROTOCOL, TrialEnd};
use crate::timeline::Timeline;
use crate::trial::Trial;
use crate::worker::Signal;

/// The main function of a node process: speaks the protocol on stdin and stdout until the trial has ended. Returns the
/// exit code.
///
/// From here on stdout belongs to the protocol: whatever else is printed there goes to stderr.
pub fn serve() -> u8 {
    // `ps` and `perf` would otherwise show the name of the link that the program was started by.
    let _ = rustix::thread::set_name(c"iodyno-node");
    tracing::debug!(protocol = PROTOCOL, "node started");
    let code = match streams() {
        Ok((input, output)) => u8::from(!session(input, output)),
        Err(_) => 1,
    };
    tracing::debug!(code, "node exits");
    code
}

/// The protocol's own descriptors. The standard ones are redirected.
fn streams() -> io::Result<(File, File)> {
    let input: OwnedFd = io::stdin().as_fd().try_clone_to_owned()?;
    let output: OwnedFd = io::stdout().as_fd().try_clone_to_owned()?;
    rustix::stdio::dup2_stdin(File::open("/dev/null")?)?;
    rustix::stdio::dup2_stdout(io::stderr())?;
    Ok((File::from(input), File::from(output)))
}

/// `false`: the parent went away before the last message.
fn session(input: File, output: File) -> bool {
    let (sender, signals) = mpsc::channel();
    let control = Control::default();
    let broken = {
        let (control, sender) = (control.clone(), sender.clone());
        move || {
            control.parent_has_gone();
            let _ = sender.send(Signal::ParentGone);
        }
    };
    let Ok(writer) = MessageWriter::open(output, broken) else {
        return false;
    };
    let messages = writer.sender();
    messages.send(Message::Hello(Hello::new(engines())));
    let input = BufReader::with_capacity(1 << 16, input);
    let commands = control::read_commands(input, control.clone(), sender.clone(), messages.clone());
    if commands.is_err() {
        return false;
    }
    let timeline = Timeline::real(sender, signals);
    let mut devices = Vec::new();
    let end = match await_plan(&timeline) {
        Plan::Trial(plan) => {
            let (end, written) = trial(&plan, &control, &messages, timeline);
            devices = written;
            Some(end)
        }
        Plan::Withdrawn => Some(TrialEnd::withdrawn()),
        Plan::NoParent => None,
    };
    let ended = end.is_some();
    if let Some(end) = end {
        messages.send(Message::Ended(end));
    }
    writer.close();
    // After the last message: on a device that hangs this may hang too. If it fails, or the parent kills this process
    // meanwhile, the next run on the device is refused.
    for device in devices {
        if let Err(error) = device.record() {
            tracing::warn!(%error, "what was written to a device is not recorded");
        }
    }
    ended && !control.is_parent_gone()
}

/// Which engines this host allows.
fn engines() -> Vec<EngineSupport> {
    let support = |engine| EngineSupport {
        engine,
        unusable: iodyno_engine::unusable(engine).map(|error| Diagnostic {
            hint: error.hint,
            ..Diagnostic::error(format!("cannot {}\n  cause: {}", error.what, error.cause))
        }),
    };
    EngineKind::ALL.map(support).to_vec()
}

/// Carries out a trial. Returns how it ended, and the devices that it may have written to.
pub(crate) fn trial(
    plan: &BoundPlan,
    control: &Control,
    messages: &MessageSender,
    timeline: Timeline,
) -> (TrialEnd, Vec<WrittenDevice>) {
    let prepared = match prepare(plan, control, messages, &timeline) {
        Ok(prepared) => prepared,
        Err(unready) => return (unready.into(), Vec::new()),
    };
    let devices = prepared.files.written_devices();
    let mut trial = match Trial::new(plan, prepared, control, messages, timeline) {
        Ok(trial) => trial,
        Err(unready) => return (unready.into(), devices),
    };
    messages.event(trial.ready());
    let instant = match trial.await_start() {
        Ok(instant) => instant,
        Err(unready) => return (unready.into(), devices),
    };
    let (part, outcome) = trial.run(instant);
    (TrialEnd::Done(Box::new(part), outcome), devices)
}

enum Plan {
    Trial(Box<BoundPlan>),
    /// The trial was ended before its plan came.
    Withdrawn,
    /// The parent has gone, or speaks another version.
    NoParent,
}

fn await_plan(timeline: &Timeline) -> Plan {
    loop {
        match timeline.next() {
            Some(Signal::Command(Command::Hello { version })) if version != PROTOCOL => {
                return Plan::NoParent;
            }
            Some(Signal::Command(Command::Prepare { plan })) => return Plan::Trial(plan),
            Some(Signal::Command(Command::Finish | Command::Abort)) => return Plan::Withdrawn,
            Some(Signal::ParentGone) | None => return Plan::NoParent,
            Some(_) => {}
        }
    }
}
