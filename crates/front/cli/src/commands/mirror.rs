//! `iodyno mirror`: makes mirrors, shows their state, changes their legs and compares them.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use iodyno_mirror::PolicyKind;
use iodyno_mirror::assembly::Assembly;
use iodyno_mirror::core::{Notice, Settings};
use iodyno_mirror::superblock::{Geometry, LegState, Member, Superblock};
use iodyno_model::Diagnostic;
use iodyno_serve::control::{Client, ControlReply, LegLine, Request, State, described, state_of};
use iodyno_serve::format::{self, Change};
use iodyno_serve::legs::{self, Leg, Purpose, Refused};
use iodyno_serve::queue;
use iodyno_units::{Bytes, counted};

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
        MirrorCommand::Add(args) => add(args, context),
        MirrorCommand::Remove(args) => remove(args, context),
        MirrorCommand::Replace(args) => replace(args, context),
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

fn add(args: &MirrorAddArgs, context: &Context) -> Result<Exit, Failure> {
    let request = Request::Add {
        new: absolute(&args.new),
        destroy: all_absolute(&args.destroy),
    };
    let change = Change::Add { new: &args.new };
    with_server(
        &args.legs,
        |server| served(server, &request, context),
        || changed(&format::change(&args.legs, change, &args.destroy, false)?),
    )
}

fn remove(args: &MirrorRemoveArgs, context: &Context) -> Result<Exit, Failure> {
    let request = Request::Remove {
        old: absolute(&args.old),
    };
    let change = Change::Remove { old: &args.old };
    with_server(
        &args.legs,
        |server| served(server, &request, context),
        || changed(&format::change(&args.legs, change, &[], args.degraded)?),
    )
}

fn replace(args: &MirrorReplaceArgs, context: &Context) -> Result<Exit, Failure> {
    let request = Request::Replace {
        old: absolute(&args.old),
        new: absolute(&args.new),
        destroy: all_absolute(&args.destroy),
    };
    let change = Change::Replace {
        old: &args.old,
        new: &args.new,
    };
    with_server(
        &args.legs,
        |server| served(server, &request, context),
        || {
            let changed_to = format::change(&args.legs, change, &args.destroy, args.degraded)?;
            changed(&changed_to)
        },
    )
}

/// Sends a request to the server of a mirror, if it runs. It may have started just now and locked the legs.
fn with_server(
    legs: &[PathBuf],
    served: impl Fn(Client) -> Result<Exit, Failure>,
    stopped: impl FnOnce() -> Result<Exit, Failure>,
) -> Result<Exit, Failure> {
    if let Some(server) = Client::of_legs(legs) {
        return served(server);
    }
    let done = stopped();
    match &done {
        Err(failure) if failure.exit == Exit::Refused => match Client::of_legs(legs) {
            Some(server) => served(server),
            None => done,
        },
        _ => done,
    }
}

// ---- Mirrors that are served ----

/// The server has another current folder.
fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

fn all_absolute(paths: &[PathBuf]) -> Vec<PathBuf> {
    paths.iter().map(|path| absolute(path)).collect()
}

/// Sends a change to the server of a mirror.
fn served(server: Client, request: &Request, context: &Context) -> Result<Exit, Failure> {
    let mut notes = String::new();
    asked(server, request, |said| match said {
        ControlReply::Note(note) => notes += &format!("{note}\n"),
        ControlReply::Progress(done, all) => context.note(&copied(done, all)),
        _ => {}
    })?;
    write_out(notes)?;
    Ok(Exit::Fine)
}

fn copied(done: u64, all: u64) -> String {
    format!("{} of {}", Bytes(done), Bytes(all))
}

/// Sends a request to the server of a mirror, and passes on its replies before the last.
fn asked(
    server: Client,
    request: &Request,
    mut said: impl FnMut(ControlReply),
) -> Result<(), Failure> {
    let mut failure = None;
    let asked = server.request(request, |answer| match answer {
        ControlReply::Failed { faults, by_guard } => {
            failure = Some(Failure::from(Refused { faults, by_guard }));
        }
        answer => said(answer),
    });
    asked.map_err(|error| {
        let fault = format!(
            "the server of the mirror does not answer: {}",
            reason(&error)
        );
        let hint = "it may have been stopped: `iodyno mirror status` shows what was done";
        Failure::one(Diagnostic::error(fault).hint(hint))
    })?;
    failure.map_or(Ok(()), Err)
}

fn changed(superblock: &Superblock) -> Result<Exit, Failure> {
    let in_sync = |member: &&Member| member.state == LegState::InSync;
    let behind = superblock.members.len() - superblock.members.iter().filter(in_sync).count();
    let (mirror, legs) = (
        superblock.mirror,
        counted(superblock.members.len() as u64, "leg"),
    );
    write_out(format!("mirror {mirror}   {legs}, {behind} behind\n"))?;
    Ok(Exit::Fine)
}

// ---- Status ----

fn status(args: &MirrorStatusArgs, context: &Context) -> Result<Exit, Failure> {
    if let Some(mut state) = live(args)? {
        if state.served.as_ref().is_some_and(|served| served.halted) {
            tell_recorded(&mut state);
        }
        match args.json {
            true => write_out(context.json(&state))?,
            false => write_out(text(&state))?,
        }
        return Ok(if state.redundant {
            Exit::Fine
        } else {
            Exit::CheckFailed
        });
    }
    let legs = legs::open(&args.legs, Purpose::Look)?;
    // Legs may be missing here: the others are shown, including those out of sync.
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
        served: None,
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

/// The state from the server of the mirror; `None`: it is not served.
fn live(args: &MirrorStatusArgs) -> Result<Option<State>, Failure> {
    let mut state = None;
    if let Some(server) = Client::of_legs(&args.legs) {
        asked(server, &Request::Status, |said| {
            if let ControlReply::State(told) = said {
                state = Some(told);
            }
        })?;
    }
    Ok(state)
}

/// The server of a halted mirror could not record its state. The next start will use the stored state.
fn tell_recorded(state: &mut State) {
    let paths = state.legs.iter().filter_map(|leg| leg.path.clone());
    let open = |path: PathBuf| legs::open(&[path], Purpose::Look).ok()?.pop();
    let open: Vec<Leg> = paths.filter_map(open).collect();
    let Some(recorded) = newest(&open) else {
        return;
    };
    state.generation = recorded.generation;
    for leg in &mut state.legs {
        let is_leg = |member: &&Member| member.uuid.to_string() == leg.uuid;
        let recorded = recorded.members.iter().find(is_leg);
        if let Some(member) = recorded {
            (leg.state, leg.copied_bytes) = state_of(member.state);
        }
    }
}

fn failed(faults: Vec<Diagnostic>) -> Failure {
    Failure {
        exit: Exit::CheckFailed,
        faults,
    }
}

/// The authoritative superblock: the newest of those marked in sync; if none is, the newest.
fn newest(legs: &[Leg]) -> Option<Superblock> {
    let stored = || legs.iter().filter_map(|leg| Some(leg.superblock().ok()?.0));
    let newer = |one: Superblock, other: Superblock| match one.is_older(&other) {
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
            let (state, copied_bytes) = state_of(member.state);
            LegLine {
                uuid: member.uuid.to_string(),
                path: given.map(|leg| leg.path.clone()),
                state,
                copied_bytes,
                online: None,
                in_flight: None,
                problem: None,
            }
        })
        .collect()
}

/// The hint for a halted mirror.
const HALTED: &str = "\
halted: no leg accepted the record that another one failed, or the last leg in sync was overwritten. Every request fails,
and the states above are those that are stored.
  Stop the server, and start it again when the legs can be written. A leg that became shorter has lost data although it is
  stored as in sync: start without it (`--degraded`), and make it longer only then. If all legs in sync became shorter or
  were overwritten, restore from a backup
";

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
        let dropped = match leg.online {
            Some(false) => ", gets no I/O",
            _ => "",
        };
        let problem = leg.problem.as_ref();
        let problem = problem.map_or(String::new(), |problem| format!(" ({problem})"));
        let state = &leg.state;
        text += &format!(
            "  {}  {state}{copied}{dropped}{problem}  {path}\n",
            leg.uuid
        );
    }
    if state.served.is_none() && state.marked_regions.is_some_and(|marked| marked > 0) {
        text += "not served by this user; the marked regions may differ between the legs, and are copied when it is started\n";
    }
    if let Some(served) = &state.served {
        text += &format!(
            "served by process {} at {}\n",
            served.pid,
            served.uris.join(", ")
        );
        if served.halted {
            text += HALTED;
        }
        if served.to_copy_bytes > 0 && !served.halted {
            text += &format!("  {} to be copied\n", Bytes(served.to_copy_bytes));
        }
        if let Some(bytes) = served.scrubbed_bytes {
            text += &format!("  scrub: {} compared\n", copied(bytes, state.bytes));
        }
    }
    text
}

// ---- Scrub ----

/// Compares the legs of a mirror that is served.
fn scrub_served(
    server: Client,
    args: &MirrorScrubArgs,
    context: &Context,
) -> Result<Exit, Failure> {
    let from = args.from.as_deref().map(absolute);
    let mut ended = (0, 0);
    let mut found = false;
    asked(server, &Request::Scrub { from }, |said| match said {
        ControlReply::Found(line) => {
            found = true;
            context.note(&line);
        }
        ControlReply::Progress(done, all) => context.note(&copied(done, all)),
        ControlReply::Scrubbed(differ, unread) => ended = (differ, unread),
        _ => {}
    })?;
    scrubbed(ended, args)?;
    Ok(if found || ended != (0, 0) {
        Exit::CheckFailed
    } else {
        Exit::Fine
    })
}

/// Prints the result of a scrub.
fn scrubbed((differ, unread): (u64, u64), args: &MirrorScrubArgs) -> Result<(), Failure> {
    let differing = counted(differ, "range");
    write_out(match (differ, unread) {
        (0, 0) => "all legs in sync are equal\n".to_owned(),
        (differ, unread) => {
            let repaired = if differ > 0 && args.from.is_some() {
                ", overwritten"
            } else {
                ""
            };
            format!(
                "{differing} of at most 256 KiB differ{repaired}; {unread} could not be read from a leg\n"
            )
        }
    })
}

fn scrub(args: &MirrorScrubArgs, context: &Context) -> Result<Exit, Failure> {
    with_server(
        &args.legs,
        |server| scrub_served(server, args, context),
        || scrub_stopped(args, context),
    )
}

/// Compares the legs of a mirror that is not served.
fn scrub_stopped(args: &MirrorScrubArgs, context: &Context) -> Result<Exit, Failure> {
    let legs = legs::open(&args.legs, Purpose::Use)?;
    let found = legs::assemble(&legs, false).map_err(Failure::input)?;
    let from = args
        .from
        .as_deref()
        .map(|from| right_leg(from, &legs, &found.assembly))
        .transpose()?;
    let in_sync = |part: &&iodyno_mirror::assembly::Part| part.member.state == LegState::InSync;
    if found.assembly.parts.iter().filter(in_sync).count() < 2 {
        let fault = "there is nothing to compare: fewer than two legs are in sync";
        return Err(failed(vec![
            Diagnostic::error(fault).hint("serve the mirror until all are"),
        ]));
    }
    let open = legs::descriptors(&found.assembly, &legs).map_err(Failure::one)?;
    let mirror = found.mirror(Settings::default());
    let (handle, inbox) = queue::channel(0).map_err(no_ring)?;
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
    let mut notice = |notice: Notice, names: &[String]| {
        match notice {
            Notice::Recorded => return,
            Notice::Scrubbed { differ, unread } => return ended = Some((differ, unread)),
            Notice::InSync(_) | Notice::Repaired { .. } => {}
            _ => bad = true,
        }
        context.note(&described(notice, names));
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
    scrubbed((differ, unread), args)?;
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

/// The index in the table of the leg at this path, which must be in sync.
fn right_leg(from: &Path, legs: &[Leg], assembly: &Assembly) -> Result<usize, Failure> {
    let given = legs.iter().position(|leg| legs::same(&leg.path, from));
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
