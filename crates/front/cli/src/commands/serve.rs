//! `iodyno serve`: serves storage until stopped. This module serves a mirror; folders are in [`super::file_server`].

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::path::{PathBuf, absolute};

use iodyno_mirror::assembly::Part;
use iodyno_mirror::core::{Notice, Settings};
use iodyno_mirror::superblock::{Geometry, LegState};
use iodyno_model::Diagnostic;
use iodyno_serve::control::{Control, described};
use iodyno_serve::front::{Front, Listener, Service};
use iodyno_serve::fuse::FuseFront;
use iodyno_serve::legs::{self, Purpose};
use iodyno_serve::nbd::Export;
use iodyno_serve::virtio_blk::Disk as GuestDisk;
use iodyno_serve::{name_process, queue, stay_in_memory};
use iodyno_sim::Disk;

use super::serving::{cannot, cannot_listen, failed, watch};
use crate::args::{ServeArgs, ServeCommand, ServeMirrorArgs};
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::{Failure, chain, reason};
use crate::notify::Manager;

/// The number of unreadable ranges of a leg that get a line each; after these, only those whose number is a power of
/// two.
const RANGES_EACH: u64 = 8;

/// Runs a command of `serve`.
pub(crate) fn serve(args: &ServeArgs, context: &Context) -> Result<Exit, Failure> {
    match &args.command {
        ServeCommand::Mirror(args) => mirror(args, context),
        #[cfg(feature = "fileserver")]
        ServeCommand::Fs(args) => super::file_server::serve(args, context),
    }
}

/// Refuses options that contradict each other.
fn check(args: &ServeMirrorArgs) -> Result<(), Failure> {
    if let Some(address) = args
        .tcp
        .filter(|address| !address.ip().is_loopback() && !args.public)
    {
        let fault = format!("`{address}` is not a loopback address, and NBD has no authentication");
        let hint = "use a loopback address, or add `--public` if every host that reaches it may read and write";
        return Err(Failure::one(Diagnostic::error(fault).hint(hint)));
    }
    if !matches!(args.delay.len(), 0 | 1) && args.delay.len() != args.legs.len() {
        let (disks, legs) = (args.delay.len(), args.legs.len());
        let fault = format!("`--delay` is given {disks} times, and there are {legs} legs");
        let hint = "give it once for all legs, or once for each";
        return Err(Failure::one(Diagnostic::error(fault).hint(hint)));
    }
    Ok(())
}

fn mirror(args: &ServeMirrorArgs, context: &Context) -> Result<Exit, Failure> {
    check(args)?;
    name_process();
    let legs = legs::open(&args.legs, Purpose::Use)?;
    let found = legs::assemble(&legs, args.degraded).map_err(Failure::input)?;
    let mut open = legs::descriptors(&found.assembly, &legs).map_err(Failure::one)?;
    for (number, (leg, part)) in open.iter_mut().zip(&found.assembly.parts).enumerate() {
        let disk = part
            .given
            .and_then(|given| args.delay.get(given))
            .or(args.delay.first());
        leg.delay = disk.map(|disk| Box::new(Disk::of(disk, number as u64 + 1)));
    }
    let geometry = found.assembly.geometry;
    let behind = behind(&found.assembly.parts, &open);
    let export = export(geometry, &open);
    let disk = GuestDisk::new(export, found.assembly.mirror);
    // Bind before clients and commands can know that the mirror is served.
    let bound = Control::bind(found.assembly.mirror);
    if (bound.as_ref()).is_err_and(|error| error.kind() == io::ErrorKind::AddrInUse) {
        return Err(served_already(&args.legs));
    }
    let listeners = listen(args, export, disk)?;
    let mut served: Vec<String> = (listeners.iter())
        .map(|(listener, service)| service.uri(listener))
        .collect();
    let mounted = (args.fuse.as_ref()).map(|path| absolute(path).unwrap_or_else(|_| path.clone()));
    served.extend(mounted.map(|path| path.display().to_string()));
    context.tell(&stay_in_memory(args.vhost_user.is_some()));
    let uuid = found.assembly.mirror;
    let of = |leg: usize| {
        let mut parts = found.assembly.parts.iter();
        let part = parts.find(|part| part.given == Some(leg));
        part.expect("each leg that is given is in the table")
            .member
            .uuid
    };
    let legs = legs.into_iter().enumerate().map(|(at, leg)| (of(at), leg));
    let legs = legs.collect();
    let mirror = found.mirror(Settings::default());
    let (handle, inbox) = queue::channel(args.queues)
        .map_err(|error| Failure::one(cannot("create an eventfd", &error)))?;
    let stopper = handle.clone();
    let control = bound.and_then(|bound| {
        Control::start(bound, uuid, geometry, legs, served.clone(), handle.clone())
    });
    if let Err(error) = &control {
        let text = format!(
            "the mirror cannot be managed while it is served: {}",
            reason(error)
        );
        context.tell(&[Diagnostic::warning(text)]);
    }
    let manager = Manager::find();
    let _watch = watch(&manager, move || stopper.stop(), || ()).map_err(Failure::one)?;
    let mount = |path: &PathBuf| {
        FuseFront::start(path, export, &handle, args.fuse_transport.into()).map_err(|error| {
            let what = format!("mount the mirror on `{}`", path.display());
            Failure::one(args.fuse_transport.explain(cannot(&what, &error)))
        })
    };
    let file = args.fuse.as_ref().map(mount).transpose()?;
    let start = |(listener, service)| Front::start(listener, service, handle.clone());
    let fronts: Vec<Front> = (listeners.into_iter().map(start).collect::<Result<_, _>>())
        .map_err(|error| Failure::one(cannot("start a thread", &error)))?;
    drop(handle);
    for line in behind {
        context.note(&line);
    }
    if let Some(used) = file.as_ref().and_then(FuseFront::transport) {
        context.note(&format!("FUSE by {used}"));
    }
    if !args.delay.is_empty() {
        let disks: Vec<String> = args.delay.iter().map(ToString::to_string).collect();
        context.note(&format!(
            "legs take the time of simulated disks: {}",
            disks.join(", ")
        ));
    }
    let settings = queue::Settings {
        policy: args.policy,
        leg_timeout_ns: args.leg_timeout.0,
        resync_rate: args.resync_rate.0,
        seed: 1,
    };
    let mut halted = false;
    let mut repaired = BTreeMap::new();
    let mut notice = |notice: Notice, names: &[String]| {
        halted |= notice == Notice::Halted;
        // Before that, a missing leg that returned after a crash would be taken for one in sync.
        if notice == Notice::Recorded {
            context.note(&format!("serving {}", served.join(" and ")));
            return manager.ready();
        }
        if let Some(line) = line_of(notice, names, &mut repaired) {
            context.note(&line);
        }
    };
    let ended = queue::run(
        mirror,
        open,
        settings,
        queue::Task::Serve,
        inbox,
        &mut notice,
    );
    fronts.iter().for_each(Front::stop);
    drop(file);
    // Do this before the sockets disappear, which tells others that the mirror has ended.
    if let Ok(control) = &control {
        control.release_legs();
    }
    drop((control, fronts));
    ended.map_err(|error| failed(Diagnostic::error(chain(&error))))?;
    match halted {
        true => Err(failed(Diagnostic::error("the mirror was halted"))),
        false => Ok(Exit::Fine),
    }
}

/// The legs that are not in sync.
fn behind(parts: &[Part], open: &[queue::OpenLeg]) -> Vec<String> {
    let behind = parts.iter().zip(open);
    behind
        .filter(|(part, _)| part.member.state != LegState::InSync)
        .map(|(part, leg)| match part.given {
            Some(_) => format!("{} is behind and is copied to", leg.name),
            None => format!("{} is missing", leg.name),
        })
        .collect()
}

fn export(geometry: Geometry, open: &[queue::OpenLeg]) -> Export {
    Export {
        length: geometry.length,
        unit: geometry.unit,
        rotational: open.iter().any(|leg| {
            leg.delay
                .as_ref()
                .map_or(leg.rotational, |disk| disk.rotational())
        }),
        // Otherwise trims would write zeros, which take as long as other writes.
        trims: open.iter().all(|leg| leg.zeroes),
    }
}

/// The line for a notice. `repaired`: the number of unreadable ranges by leg; not each of them has a line.
fn line_of(
    notice: Notice,
    names: &[String],
    repaired: &mut BTreeMap<usize, u64>,
) -> Option<String> {
    let line = described(notice, names);
    let Notice::Repaired { leg, .. } = notice else {
        return Some(line);
    };
    let count = repaired.entry(leg).or_default();
    *count += 1;
    match *count {
        ..=RANGES_EACH => Some(line),
        count if count.is_power_of_two() => Some(format!("{line} ({count} ranges so far)")),
        _ => None,
    }
}

/// A mirror has one server. These may be the same legs under other paths, or copies of them.
fn served_already(legs: &[PathBuf]) -> Failure {
    let fault = format!(
        "the mirror of `{}` is served already, perhaps by other paths of the same legs",
        legs[0].display()
    );
    let hint = "`iodyno mirror status` of any leg shows its server: stop that one first";
    Failure {
        exit: Exit::Refused,
        faults: vec![Diagnostic::error(fault).hint(hint)],
    }
}

fn listen(
    args: &ServeMirrorArgs,
    export: Export,
    disk: GuestDisk,
) -> Result<Vec<(Listener, Service)>, Failure> {
    let unix = |path: &PathBuf| (path.display().to_string(), Listener::unix(path));
    let tcp = |address: SocketAddr| (address.to_string(), Listener::tcp(address));
    let (nbd, guests) = (Service::Nbd(export), Service::VhostUser(disk));
    let wanted = (args
        .socket
        .as_ref()
        .map(|path| (unix(path), nbd))
        .into_iter())
    .chain(args.tcp.map(|address| (tcp(address), nbd)))
    .chain((args.vhost_user.as_ref()).map(|path| (unix(path), guests)));
    let (mut listeners, mut faults) = (Vec::new(), Vec::new());
    for ((name, listener), service) in wanted {
        match listener {
            Ok(listener) => listeners.push((listener, service)),
            Err(error) => faults.push(cannot_listen(&name, &error)),
        }
    }
    match faults.is_empty() {
        true => Ok(listeners),
        false => Err(Failure::input(faults)),
    }
}
