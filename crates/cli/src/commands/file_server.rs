//! `iodyno serve fs`: serves a folder by virtio-fs or FUSE until it is told to stop.

use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use iodyno_fileserver::front::{self, Stop};
use iodyno_fileserver::fuse;
use iodyno_fileserver::{FileServer, Policy, Settings};
use iodyno_model::Diagnostic;
use iodyno_serve::front::Listener;

use super::serve::{NO_IO_URING, leave};
use crate::args::{FuseTransport, SandboxChoice, ServeFsArgs};
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::{Failure, chain, reason};
use crate::signals::{self, Caught};

/// Serves a folder.
pub(crate) fn serve(args: &ServeFsArgs, context: &Context) -> Result<Exit, Failure> {
    let cannot = |what: &str, error: &std::io::Error| {
        Diagnostic::error(format!("cannot {what}: {}", reason(error)))
    };
    let SandboxChoice::None = args.sandbox;
    let settings = Settings {
        folder: args.folder.clone(),
        cache: args.cache.into(),
        read_only: args.readonly,
        xattr: args.xattr,
        writeback: args.writeback,
        direct_io: args.allow_direct_io,
        submounts: !args.no_announce_submounts,
        handles: args.inode_file_handles.into(),
        delay: args.delay.into(),
    };
    let mut faults = Vec::new();
    if let (Some(threads), Policy::Inline | Policy::Pool(_)) = (args.threads, args.dispatch) {
        let fault = format!(
            "`--threads {threads}` has no meaning with `--dispatch {}`",
            args.dispatch
        );
        let hint = "omit it: `inline` has no pool, and `pool:N` names its threads";
        faults.push(Diagnostic::error(fault).hint(hint));
    }
    let server = FileServer::start(settings, args.dispatch, args.threads).map_err(|error| {
        faults.push(cannot(
            &format!("serve `{}`", args.folder.display()),
            &error,
        ));
    });
    let mut listen = |path: &Path| {
        let listener = listener(path);
        listener
            .map_err(|error| {
                let fault = cannot(&format!("listen on `{}`", path.display()), &error);
                faults.push(match error.kind() {
                    std::io::ErrorKind::AddrInUse => fault.hint(
                        "another server listens there, or a file has that name: choose another one",
                    ),
                    _ => fault,
                });
            })
            .ok()
    };
    let clients = args.socket.as_deref().and_then(&mut listen);
    let readers = args.stats.as_deref().and_then(&mut listen);
    let (Ok(server), true) = (server, faults.is_empty()) else {
        return Err(Failure::input(faults));
    };
    let mount = |path: &PathBuf| {
        fuse::mount(path, &args.folder).map_err(|error| {
            let what = format!("mount the folder on `{}`", path.display());
            Failure::input(vec![cannot(&what, &error)])
        })
    };
    let mounted = args.mount.as_ref().map(mount).transpose()?;
    let server = Arc::new(server);
    let stop = Stop::new().map_err(|error| Failure::one(cannot("create an eventfd", &error)))?;
    let stopper = stop.clone();
    let _watch = signals::watch(move |caught| match caught {
        Caught::Stop(_) => stopper.stop(),
        Caught::Exit => leave(),
        Caught::Status => {}
    })
    .map_err(|error| Failure::one(cannot("watch for signals", &error)))?;
    let mut _stats = None;
    if let Some((socket, listener)) = readers {
        _stats = Some(socket);
        (front::tell(listener, &server, &stop))
            .map_err(|error| Failure::one(cannot("start a thread", &error)))?;
    }
    let serving = |place: &Path| {
        let (folder, place) = (args.folder.display(), place.display());
        context.note(&format!("serving {folder} on {place}"));
    };
    let ended = match (&clients, mounted) {
        (Some((_, clients)), _) => {
            args.socket.iter().for_each(|path| serving(path));
            front::serve(clients, &server, &stop, |error| {
                let text = format!("a client was disconnected: {}", chain(&error));
                context.tell(&[Diagnostic::warning(text)]);
            })
        }
        (None, Some(mounted)) => {
            let how = (args.fuse_transport.into(), args.passthrough);
            fuse::serve(mounted, &server, how, &stop, |used| {
                context.note(&format!("FUSE by {used}"));
                args.mount.iter().for_each(|path| serving(path));
            })
        }
        (None, None) => Ok(()),
    };
    ended.map_err(|error| Failure {
        exit: Exit::WorkloadFailed,
        faults: vec![match args.fuse_transport {
            FuseTransport::IoUring => cannot("serve clients", &error).hint(NO_IO_URING),
            _ => cannot("serve clients", &error),
        }],
    })?;
    Ok(Exit::Fine)
}

/// A socket whose file is removed when the first of both is dropped, and a copy that accepts.
fn listener(path: &Path) -> std::io::Result<(Listener, UnixListener)> {
    let listener = Listener::unix(path)?;
    let Listener::Unix(socket, _) = &listener else {
        return Err(std::io::ErrorKind::Unsupported.into());
    };
    let copy = socket.try_clone()?;
    Ok((listener, copy))
}
