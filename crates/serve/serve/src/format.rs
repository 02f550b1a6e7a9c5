//! Makes mirrors and changes the legs of mirrors that are not running.
//!
//! An update writes one copy of each superblock durably, and then the other one, so that a crash leaves the mirror of
//! before or of after it.

use std::path::{Path, PathBuf};

use iodyno_mirror::assembly::{Assembly, Part};
use iodyno_mirror::intent::Bits;
use iodyno_mirror::superblock::{
    BLOCK, COPIES, DATA, Geometry, LOG, LegState, MAX_LEGS, Member, Superblock,
};
use iodyno_model::Diagnostic;
use iodyno_units::Bytes;
use uuid::Uuid;

use crate::legs::{self, Leg, Purpose, Refused};

/// A mirror that was made.
#[derive(Debug)]
pub struct Created {
    /// The superblock of its first leg.
    pub superblock: Superblock,
    /// Whether all legs are equal and need no copy.
    pub equal: bool,
}

/// Makes a mirror of these files and devices. Its content is that of the first leg. The first run of the server copies
/// it to the other legs, unless they are blank or `assumed` to be equal.
///
/// # Errors
/// All problems that prevent it. Nothing was written then, unless a leg failed.
pub fn create(paths: &[PathBuf], destroy: &[PathBuf], assumed: bool) -> Result<Created, Refused> {
    if !(1..=MAX_LEGS).contains(&paths.len()) {
        let fault = format!(
            "a mirror has 1 to {MAX_LEGS} legs, and {} are given",
            paths.len()
        );
        return Err(Diagnostic::error(fault).into());
    }
    let legs = legs::open(paths, Purpose::Create(destroy))?;
    let blank = |leg: &Leg| !leg.device() && legs::blank(leg.file());
    let equal = assumed || legs.iter().all(blank);
    let shortest = legs.iter().map(Leg::length).min().unwrap_or_default();
    let unit = unit(&legs)?;
    let geometry = Geometry::on_legs(shortest, unit).ok_or_else(|| {
        let least = Bytes(DATA + BLOCK as u64);
        let short = legs.iter().filter(|leg| leg.length() < least.0);
        let short = short.map(|leg| {
            let text = format!(
                "`{}` is too short: a leg needs at least {least}",
                leg.path.display()
            );
            Diagnostic::error(text).hint("make it longer, with `truncate -s SIZE` if it is a file")
        });
        Refused::from(short.collect::<Vec<_>>())
    })?;
    let members: Vec<Member> = (0..legs.len())
        .map(|index| Member {
            uuid: Uuid::now_v7(),
            seen: 0,
            state: match index == 0 || equal {
                true => LegState::InSync,
                false => LegState::Behind { copied: 0 },
            },
        })
        .collect();
    let mirror = Uuid::now_v7();
    let superblock = |leg: usize| Superblock {
        mirror,
        leg: members[leg].uuid,
        generation: 1,
        complete: 0,
        line: mirror.as_u128() as u64,
        forks: Vec::new(),
        unwritten: false,
        source: None,
        geometry,
        members: members.clone(),
    };
    // An older superblock must be invalid before its log is overwritten.
    for leg in &legs {
        wipe(leg)?;
    }
    for (index, leg) in legs.iter().enumerate() {
        clear_log(leg, mirror, geometry)?;
        for copy in COPIES {
            leg.write(copy, &superblock(index).encode())?;
            leg.sync()?;
        }
    }
    Ok(Created {
        superblock: superblock(0),
        equal,
    })
}

fn unit(legs: &[Leg]) -> Result<u32, Refused> {
    let wrong = legs.iter().filter(|leg| leg.alignment() > 4096);
    let faults: Vec<Diagnostic> = wrong
        .map(|leg| {
            let (path, bytes) = (leg.path.display(), leg.alignment());
            Diagnostic::error(format!(
                "`{path}` needs I/O aligned to {bytes} bytes; at most 4096 are supported"
            ))
        })
        .collect();
    let largest = legs.iter().map(Leg::alignment).max().unwrap_or(512);
    match faults.is_empty() {
        true => Ok(if largest <= 512 { 512 } else { 4096 }),
        false => Err(faults.into()),
    }
}

/// Makes both copies of a superblock invalid.
fn wipe(leg: &Leg) -> Result<(), Diagnostic> {
    for copy in COPIES {
        leg.write(copy, &[0; BLOCK])?;
    }
    leg.sync()
}

/// Invalidates the superblock copies of this leg. Other content written there stays.
pub(crate) fn wipe_own(leg: &Leg, mirror: Uuid, uuid: Uuid) -> Result<(), Diagnostic> {
    let own = leg.own_superblocks(mirror, uuid);
    for (copy, _) in COPIES.into_iter().zip(own).filter(|(_, own)| own.is_some()) {
        leg.write(copy, &[0; BLOCK])?;
    }
    leg.sync()
}

fn clear_log(leg: &Leg, mirror: Uuid, geometry: Geometry) -> Result<(), Diagnostic> {
    let blocks = geometry.regions().div_ceil(iodyno_mirror::intent::REGIONS);
    for index in 0..blocks {
        let block = Bits::none().encode(mirror, index, 0);
        leg.write(LOG + index * BLOCK as u64, &block)?;
    }
    leg.sync()
}

/// A change of the legs of a mirror.
#[derive(Debug, Clone, Copy)]
pub enum Change<'a> {
    /// A new leg, not yet in sync.
    Add {
        /// The file or device.
        new: &'a PathBuf,
    },
    /// A leg leaves the mirror.
    Remove {
        /// Its path, or its UUID if it is missing.
        old: &'a PathBuf,
    },
    /// A new leg instead of another one.
    Replace {
        /// The old one: its path, or its UUID if it is missing.
        old: &'a PathBuf,
        /// The new file or device.
        new: &'a PathBuf,
    },
}

/// Changes the legs of a mirror that is not running. `paths` are its legs; one that is removed need not be among them.
/// If it is in sync and missing, it is only removed if `degraded`. Returns the changed superblock.
///
/// # Errors
/// Everything that prevents it; nothing was written then, unless a leg failed.
pub fn change(
    paths: &[PathBuf],
    change: Change<'_>,
    destroy: &[PathBuf],
    degraded: bool,
) -> Result<Superblock, Refused> {
    let (old, new) = match change {
        Change::Add { new } => (None, Some(new)),
        Change::Remove { old } => (Some(old), None),
        Change::Replace { old, new } => (Some(old), Some(new)),
    };
    let missing: Option<Uuid> = old.and_then(|old| old.to_str()?.parse().ok());
    let mut paths = paths.to_vec();
    if let Some(old) = old.filter(|old| missing.is_none() && !paths.contains(old)) {
        paths.push(old.clone());
    }
    let mut given = legs::open(&paths, Purpose::Use)?;
    let mut assembly = assembled(&given, missing, degraded)?;
    let removed = match (old, missing) {
        (None, _) => None,
        (Some(_), Some(uuid)) => Some(part(&assembly.0, uuid)?),
        (Some(old), None) => {
            let given = given.iter().position(|leg| leg.path == *old);
            assembly.0.parts.iter().position(|part| part.given == given)
        }
    };
    let (assembly, valid) = (&mut assembly.0, &mut assembly.1);
    let removed_leg = removed.and_then(|removed| {
        valid.remove(removed);
        assembly.parts.remove(removed).given
    });
    let in_sync = |part: &Part| part.member.state == LegState::InSync && part.given.is_some();
    if !assembly.parts.iter().any(in_sync) {
        let fault = "the mirror would have no leg that is in sync";
        return Err(Diagnostic::error(fault)
            .hint("serve it until the others were copied to, and then remove this one")
            .into());
    }
    let geometry = assembly.geometry;
    if let Some(new) = new {
        if assembly.parts.len() == MAX_LEGS {
            let fault = format!("the mirror has {MAX_LEGS} legs already");
            return Err(Diagnostic::error(fault).into());
        }
        let leg = new_leg(new, destroy, &given, (assembly.mirror, geometry))?;
        assembly.parts.push(Part {
            member: Member {
                uuid: Uuid::now_v7(),
                state: LegState::Behind { copied: 0 },
                seen: 0,
            },
            given: Some(given.len()),
        });
        valid.push(1);
        given.push(leg);
    }
    assembly.fork(legs::new_line());
    assembly.unwritten = false;
    write_superblocks(assembly, valid, &given)?;
    if let Some(leg) = removed_leg {
        wipe(&given[leg])?;
    }
    let first = assembly.parts.iter().position(in_sync).unwrap_or(0);
    Ok(assembly.superblock(first))
}

/// Writes both copies of the superblock of each given leg. `valid`: the copy of each that is valid now.
fn write_superblocks(
    assembly: &mut Assembly,
    valid: &[usize],
    given: &[Leg],
) -> Result<(), Diagnostic> {
    // The new leg first: the others name it.
    for copy in [0, 1] {
        assembly.generation += 1;
        for (index, part) in assembly.parts.iter().enumerate().rev() {
            let Some(leg) = part.given.map(|at| &given[at]) else {
                continue;
            };
            // The valid copy last.
            let at = COPIES[(1 - valid[index]) ^ copy];
            leg.write(at, &assembly.superblock(index).encode())?;
            leg.sync()?;
        }
        assembly.complete = assembly.generation;
    }
    Ok(())
}

/// Opens a file or device that becomes a leg of this mirror, and clears its superblocks and its log.
pub(crate) fn new_leg<'a>(
    path: &Path,
    destroy: &[PathBuf],
    others: impl IntoIterator<Item = &'a Leg>,
    (mirror, geometry): (Uuid, Geometry),
) -> Result<Leg, Refused> {
    let opened = legs::open(&[path.to_owned()], Purpose::Create(destroy))?;
    let leg = opened.into_iter().next().expect("one was opened");
    legs::check_distinct(&leg, others)?;
    fits(&leg, geometry)?;
    wipe(&leg)?;
    clear_log(&leg, mirror, geometry)?;
    Ok(leg)
}

/// Assembles the mirror with the valid copies of its legs. With `degraded`, one leg in sync may be missing if it is the
/// one to remove.
fn assembled(
    given: &[Leg],
    missing: Option<Uuid>,
    degraded: bool,
) -> Result<(Assembly, Vec<usize>), Refused> {
    let complete = legs::assemble(given, false);
    let found = match (complete, missing) {
        (Err(faults), Some(uuid)) => {
            let found = legs::assemble(given, true)?;
            let others = found.assembly.parts.iter();
            let superblock = |leg: &Leg| leg.superblock().ok().map(|(superblock, _)| superblock);
            let known = given.iter().filter_map(superblock);
            let in_sync = |part: &Part| {
                known
                    .clone()
                    .any(|one| one.state(part.member.uuid) == Some(LegState::InSync))
            };
            let permitted = |part: &Part| degraded && part.member.uuid == uuid;
            let mut lacking = others.filter(|part| part.given.is_none() && !permitted(part));
            if lacking.any(in_sync) {
                return Err(faults.into());
            }
            found
        }
        (found, _) => found?,
    };
    let valid = (0..found.assembly.parts.len()).map(|leg| found.valid(leg));
    let valid = valid.collect();
    Ok((found.assembly, valid))
}

fn part(assembly: &Assembly, uuid: Uuid) -> Result<usize, Diagnostic> {
    let part = assembly
        .parts
        .iter()
        .position(|part| part.member.uuid == uuid);
    part.ok_or_else(|| {
        let legs: Vec<String> = (assembly.parts.iter())
            .map(|part| part.member.uuid.to_string())
            .collect();
        Diagnostic::error(format!("the mirror has no leg {uuid}"))
            .hint(format!("its legs are {}", legs.join(", ")))
    })
}

pub(crate) fn fits(leg: &Leg, geometry: Geometry) -> Result<(), Diagnostic> {
    let (path, needed) = (leg.path.display(), DATA + geometry.length);
    if leg.length() < needed {
        let text = format!(
            "`{path}` is too short: it has {} bytes, and the mirror needs {needed}",
            leg.length()
        );
        return Err(Diagnostic::error(text));
    }
    leg.takes(geometry.unit)
}
