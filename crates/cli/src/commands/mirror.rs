//! `iodyno mirror`: makes mirrors, shows their state, changes their legs and compares them.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use iodyno_mirror::PolicyKind;
use iodyno_mirror::assembly::Assembly;
use iodyno_mirror::core::{Notice, Settings};
use iodyno_mirror::superblock::{Geometry, LegState, Superblock};
use iodyno_model::Diagnostic;
use iodyno_serve::format::{self, Change};
use iodyno_serve::legs::{self, Leg, Purpose, Refused};
use iodyno_serve::queue;
use iodyno_units::{Bytes, counted};
use serde::Serialize;

use crate::args::{
    MirrorAddArgs, MirrorArgs, MirrorCommand, MirrorCreateArgs, MirrorRemoveArgs,
    MirrorReplaceArgs, MirrorScrubArgs, MirrorStatusArgs,
};
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::{Failure, chain, reason};
use crate::screen::write_out;
use crate::signals::{self, Caught};

/// Runs a command of `mirror`.
pub(crate) fn mirror(args: &MirrorArgs, context: &Context) -> Result<Exit, Failure> {
    match &args.command {
        MirrorCommand::Create(args) => create(args),
        MirrorCommand::Status(args) => status(args, context),
        MirrorCommand::Add(args) => add(args),
        MirrorCommand::Remove(args) => remove(args),
        MirrorCommand::Replace(args) => replace(args),
        MirrorCommand::Scrub(args) => scrub(args, context),
    }
}

impl From<Refused> for Failure {
    fn from(refused: Refused) -> Failure {
        Failure {
            exit: if refused.by_guard {
                Exit::Refused
            } else {
                Exit::BadInput
            },
            faults: refused.faults,
        }
    }
}

fn create(args: &MirrorCreateArgs) -> Result<Exit, Failure> {
    let created = format::create(&args.legs, &args.destroy, args.assume_clean)?;
    let superblock = &created.superblock;
    let copied = match created.equal || args.legs.len() < 2 {
        true => String::new(),
        false => format!(
            "when it is served, `{}` is copied to the other legs\n",
            args.legs[0].display()
        ),
    };
    let legs = counted(superblock.members.len() as u64, "leg");
    let Geometry { length, region, .. } = superblock.geometry;
    let (length, region) = (Bytes(length), Bytes(region));
    let mirror = superblock.mirror;
    write_out(format!(
        "mirror {mirror}   {length} on {legs}, regions of {region}\n{copied}"
    ))?;
    Ok(Exit::Fine)
}

fn add(args: &MirrorAddArgs) -> Result<Exit, Failure> {
    let change = Change::Add { new: &args.new };
    changed(&format::change(&args.legs, change, &args.destroy)?)
}

fn remove(args: &MirrorRemoveArgs) -> Result<Exit, Failure> {
    let change = Change::Remove { old: &args.old };
    changed(&format::change(&args.legs, change, &[])?)
}

fn replace(args: &MirrorReplaceArgs) -> Result<Exit, Failure> {
    let change = Change::Replace {
        old: &args.old,
        new: &args.new,
    };
    changed(&format::change(&args.legs, change, &args.destroy)?)
}

fn changed(superblock: &Superblock) -> Result<Exit, Failure> {
    let in_sync = |member: &&_| {
        matches!(
            member,
            iodyno_mirror::superblock::Member {
                state: LegState::InSync,
                ..
            }
        )
    };
    let behind = superblock.members.len() - superblock.members.iter().filter(in_sync).count();
    let (mirror, legs) = (
        superblock.mirror,
        counted(superblock.members.len() as u64, "leg"),
    );
    write_out(format!("mirror {mirror}   {legs}, {behind} behind\n"))?;
    Ok(Exit::Fine)
}

// ---- Status ----

/// The state of a mirror, for people and as JSON.
#[derive(Debug, Serialize)]
struct State {
    mirror: String,
    generation: u64,
    bytes: u64,
    region_bytes: u64,
    unit_bytes: u32,
    /// Regions that the write-intent log marks; `None`: unknown without a leg in sync.
    marked_regions: Option<usize>,
    redundant: bool,
    legs: Vec<LegLine>,
}

#[derive(Debug, Serialize)]
struct LegLine {
    uuid: String,
    /// `None`: it was not given.
    path: Option<PathBuf>,
    /// `in sync` or `behind`.
    state: &'static str,
    /// Bytes that were copied to a leg that is behind.
    copied_bytes: Option<u64>,
}

fn status(args: &MirrorStatusArgs, context: &Context) -> Result<Exit, Failure> {
    let legs = legs::open(&args.legs, Purpose::Look)?;
    // Legs may be missing here: the others are shown, and those that are behind as well.
    let found = legs::assemble(&legs, true);
    let complete = legs::assemble(&legs, false).err().unwrap_or_default();
    let Some(recorded) = newest(&legs) else {
        return Err(failed(found.err().unwrap_or_default()));
    };
    let marked = found.ok().map(|found| found.marked());
    let state = State {
        mirror: recorded.mirror.to_string(),
        generation: recorded.generation,
        bytes: recorded.geometry.length,
        region_bytes: recorded.geometry.region,
        unit_bytes: recorded.geometry.unit,
        marked_regions: marked,
        redundant: complete.is_empty()
            && marked == Some(0)
            && recorded.members.len() > 1
            && recorded
                .members
                .iter()
                .all(|member| member.state == LegState::InSync),
        legs: lines(&recorded, &legs),
    };
    match args.json {
        true => write_out(context.json(&state))?,
        false => write_out(text(&state))?,
    }
    context.tell(&complete);
    Ok(if state.redundant {
        Exit::Fine
    } else {
        Exit::CheckFailed
    })
}

fn failed(faults: Vec<Diagnostic>) -> Failure {
    Failure {
        exit: Exit::CheckFailed,
        faults,
    }
}

/// The superblock that counts: the newest of those that call themselves in sync; if none does, the newest.
fn newest(legs: &[Leg]) -> Option<Superblock> {
    let stored = || legs.iter().filter_map(|leg| Some(leg.superblock().ok()?.0));
    let newer = |one: Superblock, other: Superblock| match one.precedes(&other) {
        true => other,
        false => one,
    };
    let claims = stored().filter(Superblock::claims).reduce(newer);
    claims.or_else(|| stored().reduce(newer))
}

fn lines(recorded: &Superblock, legs: &[Leg]) -> Vec<LegLine> {
    let of = |leg: &&Leg, uuid| (leg.superblock()).is_ok_and(|(found, _)| found.leg == uuid);
    let members = recorded.members.iter();
    members
        .map(|member| {
            let given = legs.iter().find(|leg| of(leg, member.uuid));
            let (state, copied_bytes) = match member.state {
                LegState::InSync => ("in sync", None),
                LegState::Behind { copied } => ("behind", Some(copied)),
            };
            LegLine {
                uuid: member.uuid.to_string(),
                path: given.map(|leg| leg.path.clone()),
                state,
                copied_bytes,
            }
        })
        .collect()
}

fn text(state: &State) -> String {
    let mut text = format!(
        "mirror {}   {}, generation {}, {} of {} marked\n",
        state.mirror,
        Bytes(state.bytes),
        state.generation,
        match state.marked_regions {
            Some(marked) => counted(marked as u64, "region"),
            None => "an unknown number of regions".to_owned(),
        },
        Bytes(state.region_bytes),
    );
    for leg in &state.legs {
        let path = match &leg.path {
            Some(path) => path.display().to_string(),
            None => "not given".to_owned(),
        };
        let copied = match leg.copied_bytes {
            Some(bytes) if bytes < state.bytes => format!(" from byte {bytes}"),
            Some(_) => " in the marked regions".to_owned(),
            None => String::new(),
        };
        text += &format!("  {}  {}{copied}  {path}\n", leg.uuid, leg.state);
    }
    text
}

// ---- Scrub ----

fn scrub(args: &MirrorScrubArgs, context: &Context) -> Result<Exit, Failure> {
    let legs = legs::open(&args.legs, Purpose::Use)?;
    let found = legs::assemble(&legs, false).map_err(Failure::input)?;
    let from = args
        .from
        .as_deref()
        .map(|from| right_leg(from, &legs, &found.assembly))
        .transpose()?;
    let names = names(&found.assembly, &legs);
    let in_sync = |part: &&iodyno_mirror::assembly::Part| part.member.state == LegState::InSync;
    if found.assembly.parts.iter().filter(in_sync).count() < 2 {
        let fault = "there is nothing to compare: fewer than two legs are in sync";
        return Err(failed(vec![
            Diagnostic::error(fault).hint("serve the mirror until all are"),
        ]));
    }
    let open = legs::descriptors(&found.assembly, &legs).map_err(Failure::one)?;
    let mirror = found.mirror(Settings::default());
    let (handle, inbox) = queue::channel().map_err(no_ring)?;
    let interrupted = Arc::new(Mutex::new(false));
    let seen = Arc::clone(&interrupted);
    let _watch = signals::watch(move |caught| {
        if let Caught::Stop(_) = caught {
            *seen.lock().unwrap_or_else(PoisonError::into_inner) = true;
            handle.stop();
        }
    })
    .map_err(|error| {
        Failure::one(Diagnostic::error(format!(
            "cannot watch for signals: {}",
            reason(&error)
        )))
    })?;
    let settings = queue::Settings {
        policy: PolicyKind::RoundRobin,
        leg_timeout_ns: 30_000_000_000,
        resync_rate: u64::MAX / 2,
        seed: 0,
    };
    let mut bad = false;
    let mut ended = None;
    let mut notice = |notice: Notice| {
        bad |= !matches!(
            notice,
            Notice::Scrubbed { .. } | Notice::InSync(_) | Notice::Repaired { .. }
        );
        if let Notice::Scrubbed { differ, unread } = notice {
            ended = Some((differ, unread));
        } else {
            context.note(&described(notice, &names));
        }
    };
    let run = queue::run(
        mirror,
        open,
        settings,
        queue::Task::Scrub(from),
        inbox,
        &mut notice,
    );
    run.map_err(|error| Failure::one(Diagnostic::error(chain(&error))))?;
    let Some((differ, unread)) =
        ended.filter(|_| !*interrupted.lock().unwrap_or_else(PoisonError::into_inner))
    else {
        let fault = Diagnostic::error("the scrub was interrupted: not everything was compared");
        return Err(Failure {
            exit: Exit::Interrupted,
            faults: vec![fault],
        });
    };
    let differing = counted(differ, "range");
    write_out(match (differ, unread) {
        (0, 0) => "all legs in sync are equal\n".to_owned(),
        (differ, unread) => {
            let repaired = if differ > 0 && from.is_some() {
                ", overwritten"
            } else {
                ""
            };
            format!(
                "{differing} of at most 256 KiB differ{repaired}; {unread} could not be read from a leg\n"
            )
        }
    })?;
    Ok(if bad || unread > 0 {
        Exit::CheckFailed
    } else {
        Exit::Fine
    })
}

fn no_ring(error: std::io::Error) -> Failure {
    Failure::one(Diagnostic::error(format!(
        "cannot create an eventfd: {}",
        reason(&error)
    )))
}

/// The index in the table of the leg at this path; it has to be in sync.
fn right_leg(from: &Path, legs: &[Leg], assembly: &Assembly) -> Result<usize, Failure> {
    let given = legs.iter().position(|leg| leg.path == from);
    let leg = given.and_then(|given| {
        assembly
            .parts
            .iter()
            .position(|part| part.given == Some(given))
    });
    match leg {
        Some(leg) if assembly.parts[leg].member.state == LegState::InSync => Ok(leg),
        Some(_) => Err(Failure::one(Diagnostic::error(format!(
            "`{}` is not in sync: it cannot be the leg that is right",
            from.display()
        )))),
        None => Err(Failure::one(
            Diagnostic::error(format!(
                "`{}` is not one of the legs that are given",
                from.display()
            ))
            .hint("write its path as in the list of legs"),
        )),
    }
}

/// The name of each leg of the table for messages.
pub(crate) fn names(assembly: &Assembly, legs: &[Leg]) -> Vec<String> {
    let name = |part: &iodyno_mirror::assembly::Part| match part.given {
        Some(given) => format!("`{}`", legs[given].path.display()),
        None => format!("leg {}", part.member.uuid),
    };
    assembly.parts.iter().map(name).collect()
}

/// A notice of a running mirror, in one line.
pub(crate) fn described(notice: Notice, names: &[String]) -> String {
    let range = |offset: u64, length: u32| format!("{length} bytes at byte {offset}");
    match notice {
        Notice::Dropped(leg) => format!("warning: {} failed and is behind: it gets no more I/O", names[leg]),
        Notice::InSync(leg) => format!("{} is in sync", names[leg]),
        Notice::Repaired { leg, offset, length } => {
            format!("{} failed to read {} and was rewritten", names[leg], range(offset, length))
        }
        Notice::Unreadable { offset, length } => {
            format!("warning: no leg in sync can read {}", range(offset, length))
        }
        Notice::Differs { offset, length, repaired } => {
            let repaired = if repaired { ", overwritten" } else { "" };
            format!("legs differ in {}{repaired}", range(offset, length))
        }
        Notice::Scrubbed { differ, unread } => format!("compared: {differ} ranges differ, {unread} could not be read"),
        Notice::Halted => {
            "error: no leg accepts the record that another one failed: every request fails until the mirror is started again".to_owned()
        }
    }
}
