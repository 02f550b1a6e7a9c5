//! The protocol between parent and node: messages and framing.
//!
//! A frame is a length (u32, little-endian) and that many bytes of JSON. The parent sends [`Command`]s, the node
//! [`Message`]s. Both begin with `Hello`; if the peer has another version, nothing else is exchanged. A length beyond
//! the limit is an error, and no memory is reserved for it.

use std::io::{self, Read, Write};
use std::path::PathBuf;

use iodyno_host::{Owner, Roots, boot_id};
use iodyno_model::{
    BoundPlan, Diagnostic, EngineKind, Environment, Forecast, Frame, Job, KnownTarget, Outcome,
    Part, SeriesKind, Settling, Step, TargetInfo, TelemetryBatch,
};
use iodyno_storage::layers::{Cleaned, ProvisionRequest, Provisioned, StorageChange, TornDown};
use iodyno_storage::settle::Unsettled;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::faults::{self, PrepareError};
use crate::parent::death::Death;

/// The version of the protocol; both ends must have the same.
pub const PROTOCOL: u32 = 17;

/// The largest frame, bytes. A part of a thousand clones with wide histograms takes about 100 MB.
const LONGEST: u32 = 512 << 20;
/// The largest first message, bytes: the sender may not be a node.
const MAX_HELLO_LEN: u32 = 1 << 20;

/// Parent → node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "say")]
pub enum Command {
    /// The first command of a process; sent by the session itself.
    Hello {
        /// [`PROTOCOL`].
        version: u32,
        /// The parent sends a command at least this often, ns. If none arrives for several intervals, it is gone. 0:
        /// only the end of the input shows that.
        #[serde(default)]
        every_ns: u64,
    },
    /// Prepare this trial.
    Prepare {
        /// The trial.
        plan: Box<BoundPlan>,
    },
    /// In place of a trial: settle the host. Answered by [`Message::Settled`].
    Settle {
        /// The actions.
        settling: Settling,
        /// The paths of the I/O.
        targets: Vec<PathBuf>,
    },
    /// In place of a trial: examine paths. Answered by [`Message::Examined`].
    Examine(Examination),
    /// In place of a trial: clean up after a node that died. Answered by [`Event::Progress`] and
    /// [`Message::CleanedUp`]. It continues if the parent ends.
    CleanUp {
        /// The dead node's process, if its writes to devices must be recorded.
        died: Option<Owner>,
        /// The node's process, which may still run because the connection to it was lost. It gets some time to end by
        /// itself, and is then killed.
        lost: Option<Owner>,
        /// The target that contains the trial's folder, and the folder's name.
        folder: Option<(PathBuf, String)>,
    },
    /// In place of a trial: make or undo storage. Answered by [`Message::Storage`].
    Storage {
        /// The work.
        work: StorageWork,
    },
    /// In place of a trial: undo the storage with this token when the parent has ended. May be repeated.
    Keep {
        /// The token.
        token: String,
    },
    /// The answer to [`Event::Admitted`]: its targets may be written from now on.
    Proceed,
    /// Read the clock: answered by [`Message::Clock`].
    Ping {
        /// Returned with the answer.
        number: u32,
    },
    /// Get ready to start at this instant of the node's clock. Answered by [`Message::Armed`].
    Arm {
        /// The instant, ns.
        at_ns: u64,
        /// After the trial, send [`Event::Finished`] and wait for [`Command::Leave`], so that the clock can be read
        /// again.
        stay: bool,
    },
    /// All nodes are armed: start at the instant, or immediately if it has passed.
    Go,
    /// The clock was read after the trial.
    Leave,
    /// The trials of the other nodes have ended: end, as jobs do at `exitall`.
    ExitAll,
    /// End early and keep the results so far.
    Finish,
    /// Cancel the I/O in flight and end.
    Abort,
}

/// Node → parent. The last message of a trial's session is `Ended`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "say")]
pub enum Message {
    /// The first message.
    Hello(Hello),
    /// The answer to [`Command::Ping`].
    Clock {
        /// The number of the ping.
        number: u32,
        /// The node's clock when it read the ping, ns.
        now_ns: u64,
    },
    /// The answer to [`Command::Arm`].
    Armed,
    /// An event of the running trial.
    Event(Event),
    /// The trial has ended.
    Ended(TrialEnd),
    /// The answer to [`Command::Settle`].
    Settled {
        /// The actions that failed.
        unsettled: Vec<Unsettled>,
    },
    /// The answer to [`Command::Examine`].
    Examined(Examined),
    /// The answer to [`Command::CleanUp`]: whether there was a folder, or the reason why it remains.
    CleanedUp(Result<bool, String>),
    /// The answer to [`Command::Storage`]; the last one is not [`StorageAnswer::Told`].
    Storage {
        /// The answer.
        answer: StorageAnswer,
    },
}

impl Message {
    /// Reads one message, as a parent reads it from a node; waits for it.
    ///
    /// # Errors
    /// The input ended, or it is not a message.
    pub fn read(from: &mut impl Read) -> io::Result<Message> {
        read(from).map_err(io::Error::other)
    }
}

/// Work on storage that iodyno makes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StorageWork {
    /// Find out whether these targets can be made.
    Check(Vec<ProvisionRequest>),
    /// Make a target for the trials of this process.
    Provision(Box<ProvisionRequest>, Owner),
    /// Change the target with this token.
    Change(String, StorageChange),
    /// Undo the targets with these tokens.
    TearDown(Vec<String>),
    /// Undo the targets whose process has died.
    Clean {
        /// Only list them.
        dry_run: bool,
    },
}

/// The outcome of a [`StorageWork`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StorageAnswer {
    /// This begins now.
    Told(String),
    /// All faults.
    Checked(Vec<Diagnostic>),
    /// The target.
    Provisioned(Result<Provisioned, Vec<Diagnostic>>),
    /// Whether the target was changed.
    Changed(Result<(), Vec<Diagnostic>>),
    /// The work done, for each token.
    TornDown(Vec<TornDown>),
    /// The targets found and undone.
    Cleaned(Result<Cleaned, Vec<Diagnostic>>),
}

/// Questions about a node's files and devices.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Examination {
    /// Paths to identify.
    pub identify: Vec<PathBuf>,
    /// Trials: the files that their jobs would open now are identified as well, including those with generated names.
    pub plans: Vec<BoundPlan>,
    /// Paths whose storage stack is described.
    pub describe: Vec<PathBuf>,
    /// Paths to be found.
    pub find: Vec<PathBuf>,
    /// Whether to find out what the folders among them have room for, see [`Room`].
    #[serde(default)]
    pub room_of_found: bool,
    /// Trials whose targets the guard checks.
    pub forecast: Vec<BoundPlan>,
    /// Trials of one run whose space is checked.
    pub room: Vec<BoundPlan>,
    /// Whether to find out if requests at block devices can be traced.
    #[serde(default)]
    pub block_trace: bool,
    /// Trials whose traces are read.
    #[serde(default)]
    pub replays: Vec<BoundPlan>,
}

/// The result of an [`Examination`].
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Examined {
    /// The identities of the paths, each path once; paths with unknown identity are missing.
    pub targets: Vec<KnownTarget>,
    /// The storage stacks, in order.
    pub stacks: Vec<TargetInfo>,
    /// The targets of the requested paths, in order, or why they are unknown.
    pub found: Vec<Result<FoundPath, String>>,
    /// What the trials would do to their targets, in order.
    pub forecasts: Vec<Forecast>,
    /// The space and inodes that the trials lack now, each with the index of its trial; without one if only all trials
    /// together lack them.
    pub shortages: Vec<(Option<usize>, Diagnostic)>,
    /// Why requests at block devices cannot be traced, or traces cannot be replayed, if that was asked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub no_traces: Vec<Diagnostic>,
}

/// An existing file, folder or device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FoundPath {
    /// Its path without symlinks.
    pub path: PathBuf,
    /// Whether it is a folder.
    pub folder: bool,
    /// What a folder has room for, if that was asked.
    #[serde(default)]
    pub room: Option<Room>,
}

/// What a folder has room for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Room {
    /// Free space for this user, bytes.
    pub free: u64,
    /// Whether its file system refuses direct I/O.
    pub buffered_only: bool,
}

/// The identity and the capabilities of a node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Hello {
    /// [`PROTOCOL`].
    pub version: u32,
    /// iodyno's version.
    pub iodyno: String,
    /// The node's process.
    pub pid: u32,
    /// When that process started, in clock ticks since boot; 0: unknown.
    #[serde(default)]
    pub process_start: u64,
    /// The instruction set, as Rust names it: `x86_64`.
    #[serde(default)]
    pub architecture: String,
    /// The C library that the program uses: `gnu`, `musl`. POSIX AIO is implemented in it.
    #[serde(default)]
    pub libc: String,
    /// The id of the host's current boot. Processes of one boot have one clock.
    #[serde(default)]
    pub boot_id: String,
    /// Its trials run in virtual time, which begins with the trial, so clocks are not compared.
    #[serde(default)]
    pub virtual_time: bool,
    /// Every engine that it has.
    #[serde(default)]
    pub engines: Vec<EngineSupport>,
    /// The series it can sample.
    #[serde(default)]
    pub sampling: Vec<SeriesKind>,
    /// Files of a trial are removed even if its process was killed. File operations require this.
    #[serde(default)]
    pub removes_orphans: bool,
}

/// Whether a node can use an engine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EngineSupport {
    /// The engine.
    pub engine: EngineKind,
    /// The reason why it cannot be used, with the remedy; `None`: it can be used.
    pub unusable: Option<Diagnostic>,
}

/// The C library of this program.
const LIBC: &str = match (cfg!(target_env = "gnu"), cfg!(target_env = "musl")) {
    (true, _) => "gnu",
    (_, true) => "musl",
    _ => "",
};

impl Hello {
    /// This program, as a node that uses these engines.
    pub(crate) fn new(engines: Vec<EngineSupport>) -> Hello {
        Hello {
            version: PROTOCOL,
            iodyno: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            process_start: Owner::of(&Roots::host(), std::process::id()).map_or(0, |own| own.start),
            architecture: std::env::consts::ARCH.to_owned(),
            libc: LIBC.to_owned(),
            boot_id: boot_id(&Roots::host()),
            virtual_time: false,
            engines,
            sampling: SeriesKind::ALL.to_vec(),
            removes_orphans: true,
        }
    }

    /// A node about which nothing is known yet.
    pub(crate) fn unknown() -> Hello {
        Hello {
            version: 0,
            iodyno: String::new(),
            pid: 0,
            process_start: 0,
            architecture: String::new(),
            libc: String::new(),
            boot_id: String::new(),
            virtual_time: false,
            engines: Vec::new(),
            sampling: Vec::new(),
            removes_orphans: false,
        }
    }

    /// All requirements of a trial that this node does not fulfil.
    pub fn faults(&self, plan: &BoundPlan) -> Vec<Diagnostic> {
        let mut faults = Vec::new();
        for job in &plan.workload.jobs {
            faults.extend(self.fault(job).map(|fault| faults::of_job(fault, job)));
        }
        let sampling = &plan.sampling;
        if sampling.every_ns > 0
            && !sampling.processes.is_empty()
            && !self.sampling.contains(&SeriesKind::Process)
        {
            let fault = Diagnostic::error("the node cannot sample processes");
            faults.push(fault.hint("leave out the names of processes"));
        }
        faults
    }

    fn fault(&self, job: &Job) -> Option<Diagnostic> {
        let Some(kind) = job.work.engine().map(|engine| engine.kind) else {
            let fault = "the node cannot remove the files of a killed trial";
            return (!self.removes_orphans)
                .then(|| Diagnostic::error(fault).hint("use another node"));
        };
        match self.engines.iter().find(|one| one.engine == kind) {
            Some(support) => support.unusable.clone(),
            None => Some(
                Diagnostic::error(format!(
                    "the node does not have the engine `{}`",
                    kind.name()
                ))
                .hint("choose another `ioengine=`"),
            ),
        }
    }
}

/// An event of a running trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "event", content = "is")]
pub enum Event {
    /// The progress of a long step in bytes, or in files for a step without bytes (tear-down); 0 of 0 if the progress
    /// is unknown.
    Progress {
        /// The step.
        step: Step,
        /// Done.
        done: u64,
        /// Total amount.
        total: u64,
    },
    /// The targets that the trial has opened to write or read, in their original state. To be stored immediately:
    /// nothing is written before [`Command::Proceed`]. Trials without files do not send this.
    Admitted {
        /// Each file and device that can be identified.
        targets: Vec<KnownTarget>,
    },
    /// Everything is ready to start.
    Ready {
        /// The environment of the trial.
        environment: Box<Environment>,
        /// Facts that affect the figures.
        notes: Vec<String>,
    },
    /// The jobs start.
    Started {
        /// Wall clock, ms since 1970.
        unix_ms: u64,
    },
    /// About one second of the trial, to be stored immediately.
    Frame(Frame),
    /// About one second of telemetry, to be stored immediately.
    Telemetry(TelemetryBatch),
    /// The trial has ended; its part follows after the clock was read. Only if [`Command::Arm`] requests it.
    Finished,
    /// The node's process on this host has been stopped, as by SIGSTOP. The session reports this, not the node.
    Halted {
        /// The process.
        pid: u32,
    },
}

impl Event {
    /// The fault of the message, if a node of this version does not send it during a trial of this plan.
    pub(crate) fn fault(&self, plan: &BoundPlan) -> Option<String> {
        let jobs = plan.workload.jobs.len();
        match self {
            Event::Frame(frame) if frame.end_ns < frame.start_ns => {
                Some(format!("frame {} ends before it begins", frame.number))
            }
            Event::Frame(frame) => unknown_job(frame.jobs.iter().map(|job| job.job), jobs),
            _ => None,
        }
    }
}

/// The first job index outside the plan.
fn unknown_job(mut named: impl Iterator<Item = u32>, jobs: usize) -> Option<String> {
    let unknown = named.find(|job| *job as usize >= jobs)?;
    Some(format!("a result of job {unknown}; there are {jobs}"))
}

/// How a trial ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "end", content = "is")]
pub enum TrialEnd {
    /// It has a part; the outcome says whether it completed, was interrupted or its workload failed.
    Done(Box<Part>, Outcome),
    /// The guard refused a target: all reasons. Nothing was changed.
    Refused(Vec<Diagnostic>),
    /// It could not be prepared: all faults. No job began.
    Unprepared(Vec<Diagnostic>),
    /// Without a part; only the frames sent before exist.
    Failed {
        /// Interrupted before it began or by a kill, or failed by a crash.
        outcome: Outcome,
        /// How the node's process died; `None` if it ended in order.
        death: Option<Death>,
    },
}

impl TrialEnd {
    /// As [`Event::fault`].
    pub(crate) fn fault(&self, plan: &BoundPlan) -> Option<String> {
        let TrialEnd::Done(part, _) = self else {
            return None;
        };
        let jobs = part.clones.iter().map(|clone| clone.job);
        let steps = part.steps.iter().filter_map(|step| step.job);
        unknown_job(jobs.chain(steps), plan.workload.jobs.len())
    }

    /// It was stopped before it began.
    pub(crate) fn withdrawn() -> TrialEnd {
        TrialEnd::Failed {
            outcome: Outcome::Interrupted("ended before it began".to_owned()),
            death: None,
        }
    }
}

impl From<PrepareError> for TrialEnd {
    fn from(unready: PrepareError) -> TrialEnd {
        match unready {
            PrepareError::Refused(faults) => TrialEnd::Refused(faults),
            PrepareError::Unprepared(faults) => TrialEnd::Unprepared(faults),
            PrepareError::Withdrawn => TrialEnd::withdrawn(),
        }
    }
}

/// Why a message could not be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReadError {
    /// The input ended between two messages.
    #[error("end of input")]
    End,
    /// The input ended within a message.
    #[error("the input ends within a message")]
    CutOff,
    /// No message has this length.
    #[error("the length of a message is {0} bytes; the limit is {1}")]
    Length(u32, u32),
    /// It is not a message.
    #[error("a message cannot be read: {0}")]
    Json(#[from] serde_json::Error),
    /// The pipe broke.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Writes one message and flushes.
pub(crate) fn write<T: Serialize>(to: &mut impl Write, message: &T) -> io::Result<()> {
    let body = serde_json::to_vec(message)?;
    let length = u32::try_from(body.len())
        .ok()
        .filter(|length| *length <= LONGEST)
        .ok_or_else(|| {
            io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("a message of {} bytes is too long", body.len()),
            )
        })?;
    tracing::trace!(kind = kind(&body), bytes = length, "sent");
    to.write_all(&length.to_le_bytes())?;
    to.write_all(&body)?;
    to.flush()
}

/// Reads the first message; waits for it.
pub(crate) fn read_first<T: DeserializeOwned>(from: &mut impl Read) -> Result<T, ReadError> {
    read_up_to(MAX_HELLO_LEN, from)
}

/// Reads one message; waits for it.
pub(crate) fn read<T: DeserializeOwned>(from: &mut impl Read) -> Result<T, ReadError> {
    read_up_to(LONGEST, from)
}

fn read_up_to<T: DeserializeOwned>(longest: u32, from: &mut impl Read) -> Result<T, ReadError> {
    let mut length = [0; 4];
    match fill(from, &mut length)? {
        0 => return Err(ReadError::End),
        4 => {}
        _ => return Err(ReadError::CutOff),
    }
    let length = u32::from_le_bytes(length);
    if length == 0 || length > longest {
        return Err(ReadError::Length(length, longest));
    }
    // Memory grows with the received bytes, not with the announced length.
    let mut body = Vec::new();
    from.take(length.into()).read_to_end(&mut body)?;
    if body.len() < length as usize {
        return Err(ReadError::CutOff);
    }
    tracing::trace!(kind = kind(&body), bytes = length, "received");
    Ok(serde_json::from_slice(&body)?)
}

/// The kind of a message, for the log: the value of its first key.
fn kind(body: &[u8]) -> &str {
    let text = str::from_utf8(body).unwrap_or_default();
    text.split('"').nth(3).unwrap_or_default()
}

/// Fills the buffer; returns less than its length only at the end of the input.
fn fill(from: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match from.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::{job, plan};
    use iodyno_model::{Admission, Identity, Operations, TargetUse, Work};
    use proptest::prelude::*;

    fn bytes(messages: &[Message]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for message in messages {
            write(&mut bytes, message).unwrap();
        }
        bytes
    }

    fn samples() -> Vec<Message> {
        vec![
            Message::Hello(Hello {
                engines: vec![EngineSupport {
                    engine: EngineKind::IoUring,
                    unusable: Some(Diagnostic::error("cannot").hint("do")),
                }],
                ..Hello::new(Vec::new())
            }),
            Message::Clock {
                number: 3,
                now_ns: u64::MAX,
            },
            Message::Event(Event::Progress {
                step: Step::LayOut,
                done: 1,
                total: 2,
            }),
            Message::Event(Event::Frame(Frame {
                node: String::new(),
                number: 3,
                start_ns: 0,
                end_ns: u64::MAX,
                step: Step::Measure,
                cpu_ns: 9,
                jobs: Vec::new(),
            })),
            Message::Ended(TrialEnd::Refused(vec![Diagnostic::error("no").hint("do")])),
            Message::Ended(TrialEnd::Failed {
                outcome: Outcome::Failed("it died".to_owned()),
                death: Some(Death::Stuck { pid: 7 }),
            }),
            Message::Ended(TrialEnd::withdrawn()),
            Message::Settled {
                unsettled: vec![Unsettled::CachesKept {
                    why: "no".to_owned(),
                }],
            },
            Message::Examined(Examined {
                targets: vec![KnownTarget {
                    node: String::new(),
                    path: "/x".into(),
                    identity: Identity::Absent,
                }],
                stacks: vec![TargetInfo::default()],
                found: vec![Err("no".to_owned())],
                forecasts: vec![Forecast {
                    targets: vec![("/x".into(), Admission::Granted(TargetUse::Create))],
                    faults: Vec::new(),
                    traces: Vec::new(),
                }],
                no_traces: Vec::new(),
                shortages: vec![(None, Diagnostic::error("no"))],
            }),
            Message::CleanedUp(Ok(true)),
            Message::CleanedUp(Err("no".to_owned())),
            Message::Storage {
                answer: StorageAnswer::Changed(Ok(())),
            },
            Message::Storage {
                answer: StorageAnswer::Provisioned(Err(vec![Diagnostic::error("no")])),
            },
        ]
    }

    #[test]
    fn the_hello_of_another_version_can_be_read() {
        let old = br#"{"say":"hello","version":2,"iodyno":"0.1.0","pid":7}"#;
        let mut bytes = (old.len() as u32).to_le_bytes().to_vec();
        bytes.extend(old);
        let read = read::<Message>(&mut bytes.as_slice()).unwrap();
        assert!(matches!(read, Message::Hello(hello) if hello.version == 2));
    }

    #[test]
    fn a_plan_is_checked_against_all_that_a_node_can_do() {
        let mut jobs = [job("ring"), job("aio"), job("calls"), job("files")];
        jobs[0].work.blocks_mut().unwrap().engine.kind = EngineKind::IoUring;
        jobs[1].work.blocks_mut().unwrap().engine.kind = EngineKind::Libaio;
        jobs[3].work = Work::FileOperations(Operations {
            about: String::new(),
            sets: Vec::new(),
            cycle: Vec::new(),
            own_folders: false,
            drain: false,
            writing: Default::default(),
            fio: None,
            command: None,
        });
        let mut plan = plan("/", jobs.to_vec());
        plan.sampling.processes = vec!["server".to_owned()];
        let forbidden = Diagnostic::error("cannot create a ring").hint("allow it");
        let support = |engine, unusable| EngineSupport { engine, unusable };
        let mut hello = Hello::new(vec![
            support(EngineKind::IoUring, Some(forbidden)),
            support(EngineKind::Psync, None),
        ]);
        (hello.sampling, hello.removes_orphans) = (vec![SeriesKind::Cpu], false);
        let messages: Vec<String> = hello.faults(&plan).into_iter().map(|f| f.message).collect();
        assert_eq!(
            messages,
            [
                "job `ring`: cannot create a ring",
                "job `aio`: the node does not have the engine `libaio`",
                "job `files`: the node cannot remove the files of a killed trial",
                "the node cannot sample processes",
            ]
        );
        let able = Hello::new(EngineKind::ALL.map(|kind| support(kind, None)).to_vec());
        assert_eq!(able.faults(&plan), []);
    }

    #[test]
    fn messages_follow_one_another_and_then_the_input_ends() {
        let bytes = bytes(&samples());
        let mut rest = bytes.as_slice();
        for message in samples() {
            assert_eq!(read::<Message>(&mut rest).unwrap(), message);
        }
        assert!(matches!(read::<Message>(&mut rest), Err(ReadError::End)));
    }

    #[test]
    fn an_impossible_length_allocates_no_memory() {
        for length in [0, LONGEST + 1, u32::MAX] {
            let mut input = length.to_le_bytes().to_vec();
            input.extend([b'{'; 64]);
            let error = read::<Message>(&mut input.as_slice()).unwrap_err();
            assert!(matches!(error, ReadError::Length(found, LONGEST) if found == length));
        }
        let mut input = LONGEST.to_le_bytes().to_vec();
        input.extend(b"{}");
        let error = read::<Message>(&mut input.as_slice()).unwrap_err();
        assert!(matches!(error, ReadError::CutOff));
    }

    proptest! {
        #[test]
        fn a_cut_message_is_an_error(cut in 1usize..60) {
            let whole = bytes(&samples()[..1]);
            let cut = cut.min(whole.len() - 1);
            let error = read::<Message>(&mut &whole[..cut]).unwrap_err();
            prop_assert!(matches!(error, ReadError::CutOff));
        }

        #[test]
        fn damage_gives_an_error_or_another_message_but_never_a_panic(
            place in 0usize..500, value in any::<u8>()
        ) {
            let mut damaged = bytes(&samples());
            let place = place % damaged.len();
            damaged[place] = value;
            let mut rest = damaged.as_slice();
            for _ in 0..samples().len() {
                if read::<Message>(&mut rest).is_err() {
                    break;
                }
            }
        }

        #[test]
        fn noise_is_refused(noise in prop::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(read::<Command>(&mut noise.as_slice()).is_err());
        }
    }
}
