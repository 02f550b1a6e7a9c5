//! The node's side of the protocol: hello, prepare, arm, and the part at the end.

use std::fs::File;
use std::io::{self, BufReader};
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use iodyno_guard::WrittenDevice;
use iodyno_host::{Owner, Roots, stack};
use iodyno_model::{BoundPlan, Diagnostic, EngineKind, Outcome, Step, StopRequest};
use iodyno_storage::settle::settle;
use iodyno_units::Nanos;
use rustix::process::{Pid, kill_process};

use crate::files;
use crate::files::operations::OrphanFolder;
use crate::node::control::{self, Control};
use crate::node::examine::examine;
use crate::node::message_writer::{MessageSender, MessageWriter};
use crate::node::prepare::prepare;
use crate::node::storage;
use crate::node::stuck::StuckGuard;
use crate::node::timeline::Timeline;
use crate::node::trial::{Remains, Trial};
use crate::node::worker::Signal;
use crate::protocol::{Command, EngineSupport, Event, Hello, Message, PROTOCOL, TrialEnd};

/// How long a node whose connection was lost may take to end by itself: it notices the end of its input, and cleans up.
const BY_ITSELF: Duration = Duration::from_secs(5);

/// The main function of a node process: speaks the protocol on stdin and stdout until the trial has ended. Returns the
/// exit code.
///
/// From here on stdout is used for the protocol only: other output to it goes to stderr.
pub fn serve() -> u8 {
    // `ps` and `perf` would otherwise show the name of the link through which the program was started.
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
pub(crate) fn streams() -> io::Result<(File, File)> {
    let input: OwnedFd = io::stdin().as_fd().try_clone_to_owned()?;
    let output: OwnedFd = io::stdout().as_fd().try_clone_to_owned()?;
    rustix::stdio::dup2_stdin(File::open("/dev/null")?)?;
    rustix::stdio::dup2_stdout(io::stderr())?;
    Ok((File::from(input), File::from(output)))
}

/// Returns `false` if the parent ended before the last message.
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
    let commands = {
        let answers = Some(messages.clone());
        control::read_commands(input, control.clone(), sender.clone(), answers)
    };
    if commands.is_err() {
        return false;
    }
    let timeline = Timeline::real(sender, signals);
    let ended = match await_task(&timeline) {
        None => {
            writer.close();
            return false;
        }
        Some(Command::Prepare { plan }) => trial(&plan, &control, &messages, timeline),
        Some(Command::Finish | Command::Abort) => Ended::of(TrialEnd::withdrawn(), Vec::new()),
        Some(Command::Keep { token }) => {
            keep(token, &timeline, writer);
            return true;
        }
        Some(task) => {
            carry_out(task, &control, &messages);
            writer.close();
            return true;
        }
    };
    messages.send(Message::Ended(ended.end));
    writer.close();
    if ended.stuck {
        control::release_stderr();
    }
    if let Some(remains) = ended.remains {
        remains.remove(&messages);
    }
    // After the last message, because this can block on a device that hangs. If it fails, or the parent kills this
    // process, the next run on the device is refused.
    for device in ended.written {
        if let Err(error) = device.record() {
            tracing::warn!(%error, "what was written to a device is not recorded");
        }
    }
    !control.is_parent_gone()
}

/// Carries out a task other than a trial, and answers.
fn carry_out(task: Command, control: &Control, messages: &MessageSender) {
    messages.send(match task {
        Command::Settle { settling, targets } => {
            let stopped = || control.stop.is_set();
            let unsettled = settle(&Roots::host(), &settling, &targets, &stopped);
            Message::Settled { unsettled }
        }
        Command::Examine(wanted) => Message::Examined(examine(wanted)),
        Command::CleanUp { died, lost, folder } => {
            if let Some(lost) = lost {
                end_process(lost);
            }
            Message::CleanedUp(clean_up(died, folder, messages))
        }
        Command::Storage { work } => Message::Storage {
            answer: storage::carry_out(work, control, messages),
        },
        _ => return,
    });
}

/// Owns the storage with this token, and with those that follow, until the parent has ended; then undoes it.
fn keep(token: String, timeline: &Timeline, writer: MessageWriter) {
    let mut tokens = vec![token];
    while let Some(signal) = timeline.next() {
        match signal {
            Signal::Command(Command::Keep { token }) => tokens.push(token),
            Signal::ParentGone => break,
            _ => {}
        }
    }
    writer.close();
    control::release_stderr();
    storage::undo_kept(&tokens);
}

/// The engines that this host supports.
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

/// How a trial ended.
pub(crate) struct Ended {
    pub(crate) end: TrialEnd,
    /// The devices that it may have written to.
    written: Vec<WrittenDevice>,
    /// What to remove after the end was sent.
    remains: Option<Remains>,
    /// Whether its storage is stuck.
    stuck: bool,
}

impl Ended {
    /// Without anything to remove.
    fn of(end: impl Into<TrialEnd>, written: Vec<WrittenDevice>) -> Ended {
        Ended {
            end: end.into(),
            written,
            remains: None,
            stuck: false,
        }
    }
}

/// Runs a trial.
pub(crate) fn trial(
    plan: &BoundPlan,
    control: &Control,
    messages: &MessageSender,
    timeline: Timeline,
) -> Ended {
    let guard = (!timeline.is_virtual()).then(|| guard_preparation(plan, control, messages));
    let prepared = match prepare(plan, control, messages, &timeline) {
        Ok(prepared) => prepared,
        Err(unready) => return Ended::of(unready, Vec::new()),
    };
    let written = prepared.files.written_devices();
    let mut trial = match Trial::new(plan, prepared, control, messages, timeline) {
        Ok(trial) => trial,
        Err(unready) => return Ended::of(unready, written),
    };
    drop(guard);
    messages.event(trial.ready());
    let (instant, stay) = match trial.await_start() {
        Ok(start) => start,
        Err(unready) => return Ended::of(unready, written),
    };
    let finished = trial.run(instant);
    if stay && control.stop.requested() < StopRequest::Finish {
        messages.event(Event::Finished);
        control.await_leave();
    }
    Ended {
        end: TrialEnd::Done(Box::new(finished.part), finished.outcome),
        written,
        remains: finished.remains,
        stuck: finished.stuck,
    }
}

/// Ends the trial if its preparation gets stuck: the kernel blocks when a file is created, opened or laid out.
fn guard_preparation(plan: &BoundPlan, control: &Control, messages: &MessageSender) -> StuckGuard {
    let place = plan.configuration.target.path().to_owned();
    let limit_ns = plan.stuck_after_ns;
    let fail = {
        let (messages, place) = (messages.clone(), place.clone());
        move || {
            let why = format!(
                "the storage is stuck: the preparation of the trial's files on `{}` made no progress for {}",
                place.display(),
                Nanos(limit_ns)
            );
            messages.send(Message::Ended(TrialEnd::Failed {
                outcome: Outcome::Failed(why),
                death: None,
            }));
            control::release_stderr();
        }
    };
    let targets = move || vec![stack::describe(&place, &Roots::host())];
    StuckGuard::watch(limit_ns, false, (control, messages), targets, fail)
}

/// Waits until a node's process has ended, and kills it if it has not in time: it may be stopped, or blocked.
fn end_process(lost: Owner) {
    let lives = || lost.lives(&Roots::host());
    let waited = |span: Duration| {
        let begun = Instant::now();
        while lives() && begun.elapsed() < span {
            thread::sleep(Duration::from_millis(20));
        }
    };
    waited(BY_ITSELF);
    if lives()
        && let Some(pid) = i32::try_from(lost.pid).ok().and_then(Pid::from_raw)
    {
        tracing::warn!(pid = lost.pid, "killing a node whose connection was lost");
        let _ = kill_process(pid, rustix::process::Signal::KILL);
        waited(BY_ITSELF);
    }
}

/// Cleans up after a node that died, even if the parent ends meanwhile. `false`: there was no folder.
fn clean_up(
    died: Option<Owner>,
    folder: Option<(PathBuf, String)>,
    messages: &MessageSender,
) -> Result<bool, String> {
    if let Some(process) = died {
        files::guard().record_after_death(process);
    }
    let Some((at, name)) = folder else {
        return Ok(false);
    };
    OrphanFolder::new(at, name).remove(&mut |done, total| {
        let step = Step::TearDown;
        messages.event(Event::Progress { step, done, total });
    })
}

/// The first command with a task. `None`: the parent has ended, or uses another version.
fn await_task(timeline: &Timeline) -> Option<Command> {
    loop {
        match timeline.next()? {
            Signal::ParentGone => return None,
            Signal::Command(Command::Hello { version, .. }) if version != PROTOCOL => return None,
            Signal::Command(
                task @ (Command::Prepare { .. }
                | Command::Settle { .. }
                | Command::Examine(_)
                | Command::CleanUp { .. }
                | Command::Storage { .. }
                | Command::Keep { .. }
                | Command::Finish
                | Command::Abort),
            ) => return Some(task),
            _ => {}
        }
    }
}
