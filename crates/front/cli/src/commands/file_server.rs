//! `iodyno serve fs`: serves a folder by virtio-fs or FUSE until stopped.

use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use iodyno_fileserver::Stop;
use iodyno_fileserver::front::{self, ClientEvent};
use iodyno_fileserver::sandbox::{self, Ended, SandboxParent, Side};
use iodyno_fileserver::{FileServer, Handles, Migration, Policy, Settings, fuse, seccomp};
use iodyno_model::Diagnostic;
use iodyno_serve::front::Listener;

use super::serving::{cannot, cannot_listen, failed, watch};
use crate::args::{AclChoice, MigrationModeChoice, SandboxChoice, ServeFsArgs};
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::{Failure, chain};
use crate::notify::Manager;
use crate::screen::write_out;
use crate::signals;

/// The supported features of libvirt's description of vhost-user back ends.
const CAPABILITIES: &str = r#"{
  "type": "fs",
  "features": [
    "migrate-precopy",
    "posix-acl-negotiation-mode",
    "separate-options"
  ]
}
"#;

/// With fewer files, the limit is reported to the user.
const ENOUGH_FILES: u64 = 1_000_000;

/// Serves a folder.
pub(crate) fn serve(args: &ServeFsArgs, context: &Context) -> Result<Exit, Failure> {
    let Some(folder) = args.folder.as_ref().filter(|_| !args.print_capabilities) else {
        write_out(CAPABILITIES)?;
        return Ok(Exit::Fine);
    };
    let sandbox = match (args.sandbox, &args.mount) {
        (Some(choice), _) => choice,
        (None, None) => SandboxChoice::Namespace,
        (None, Some(_)) => SandboxChoice::None,
    };
    let mut settings = settings(args, folder);
    let mut faults = contradictions(args, sandbox);
    if let Err(error) = settings.check() {
        let what = format!("serve `{}`", folder.display());
        faults.push(cannot(&what, &error));
    }
    let mut listen = |path: &Path| {
        let listener = listener(path);
        listener
            .map_err(|error| faults.push(cannot_listen(&path.display().to_string(), &error)))
            .ok()
    };
    let (socket, mut clients) = args.socket.as_deref().and_then(&mut listen).unzip();
    let (told, readers) = args.stats.as_deref().and_then(&mut listen).unzip();
    if let Some(number) = args.fd {
        match inherited(number) {
            Ok(listener) => clients = Some(listener),
            Err(error) => {
                let fault = cannot(&format!("accept clients on `--fd {number}`"), &error);
                let hint = "give the number of a descriptor that is a Unix socket and listens";
                faults.push(fault.hint(hint));
            }
        }
    }
    if !faults.is_empty() {
        return Err(Failure::input(faults));
    }
    let sockets = (socket, told);
    let mut link = None;
    if let (Some(clients), true) = (&clients, sandbox != SandboxChoice::None) {
        match sandbox::split().map_err(|error| Failure::one(cannot("start a process", &error)))? {
            Side::Outside(outside) => return wait(&outside, args, context),
            Side::Inside(inside) => link = Some(inside),
        }
        // Dropping them in the sandbox would remove files of the folder with the same paths.
        std::mem::forget(sockets);
        let maps = (args.uid_map.clone(), args.gid_map.clone());
        let entered = sandbox::enter(sandbox.into(), folder, maps, clients);
        settings.inside = Some(Arc::new(entered.map_err(not_entered)?));
        sandbox::drop_capabilities(settings.opens_by_handle())
            .map_err(|error| Failure::one(cannot("give up capabilities", &error)))?;
    }
    let server = FileServer::start(settings, args.dispatch, args.threads).map_err(|error| {
        let what = format!("serve `{}`", folder.display());
        Failure::input(vec![cannot(&what, &error)])
    })?;
    let mount = |path: &PathBuf| {
        fuse::mount(path, folder).map_err(|error| {
            let what = format!("mount the folder on `{}`", path.display());
            Failure::input(vec![cannot(&what, &error)])
        })
    };
    let mounted = args.mount.as_ref().map(mount).transpose()?;
    let server = Arc::new(server);
    let stop = Stop::new().map_err(|error| Failure::one(cannot("create an eventfd", &error)))?;
    // In a sandbox, the process outside notifies the manager.
    let manager = match link {
        None => Manager::find(),
        Some(_) => Manager::default(),
    };
    let (stopper, mountpoint) = (stop.clone(), args.mount.clone());
    // The process cannot end while one of its threads waits for a reply of this process.
    let abandon = move || {
        mountpoint
            .iter()
            .for_each(|path| iodyno_serve::fuse::abandon(path))
    };
    let _watch = watch(&manager, move || stopper.stop(), abandon).map_err(Failure::one)?;
    let no_thread = |error: std::io::Error| Failure::one(cannot("start a thread", &error));
    if let Some(link) = &link {
        link.follow(stop.clone()).map_err(no_thread)?;
    }
    if let Some(listener) = readers {
        front::serve_stats(listener, &server, &stop).map_err(no_thread)?;
    }
    restrict(args, &server)?;
    let ended = match (&clients, mounted) {
        (Some(clients), _) => {
            match &link {
                Some(link) => link.is_ready(),
                None => serving(args, &manager, context),
            }
            front::serve(clients, &server, &stop, |told| {
                let text = match told {
                    ClientEvent::Disconnected(error) => {
                        format!("a client was disconnected: {}", chain(&error))
                    }
                    ClientEvent::State(text) => text,
                };
                context.tell(&[Diagnostic::warning(text)]);
            })
        }
        (None, Some(mounted)) => {
            let how = (args.fuse_transport.into(), args.passthrough);
            fuse::serve(mounted, &server, how, &stop, |used| {
                context.note(&format!("FUSE by {used}"));
                serving(args, &manager, context);
            })
        }
        (None, None) => Ok(()),
    };
    ended.map_err(|error| failed(args.fuse_transport.explain(cannot("serve clients", &error))))?;
    Ok(Exit::Fine)
}

/// The settings of the server of this folder.
fn settings(args: &ServeFsArgs, folder: &Path) -> Settings {
    Settings {
        folder: folder.to_owned(),
        cache: args.cache.into(),
        read_only: args.readonly,
        xattr: args.xattr,
        writeback: args.writeback,
        direct_io: args.allow_direct_io,
        submounts: !args.no_announce_submounts,
        handles: args.inode_file_handles.into(),
        posix_acl: args.posix_acl.into(),
        uids: args.translate_uid.clone(),
        gids: args.translate_gid.clone(),
        migration: Migration {
            mode: args.migration_mode.into(),
            on_error: args.migration_on_error.into(),
            verify_handles: args.migration_verify_handles,
            confirm_paths: args.migration_confirm_paths,
        },
        inside: None,
        delay: args.delay.into(),
    }
}

/// Restricts the system calls of this process.
fn restrict(args: &ServeFsArgs, server: &FileServer) -> Result<(), Failure> {
    let Some(violation) = args.seccomp.violation() else {
        return Ok(());
    };
    let mounted = args.mount.is_some();
    let needs = seccomp::Needs {
        mounted,
        io_uring: mounted || server.transfers(),
    };
    seccomp::restrict(violation, needs).map_err(|error| {
        let fault = cannot("restrict system calls", &error);
        Failure::one(fault.hint("use `--seccomp none`"))
    })
}

/// Options that cannot be combined.
fn contradictions(args: &ServeFsArgs, sandbox: SandboxChoice) -> Vec<Diagnostic> {
    let mut faults = Vec::new();
    let mut fault = |text: String, hint: &str| faults.push(Diagnostic::error(text).hint(hint));
    if let (Some(threads), Policy::Inline | Policy::Pool(_)) = (args.threads, args.dispatch) {
        fault(
            format!(
                "`--threads {threads}` has no effect with `--dispatch {}`",
                args.dispatch
            ),
            "omit it: `inline` does not use a pool, and `pool:N` states its number of threads",
        );
    }
    if args.mount.is_some() && sandbox != SandboxChoice::None {
        fault(
            "a server with `--mount` cannot be in a sandbox: it has to unmount the folder at its end".to_owned(),
            "omit `--sandbox`, or serve a socket with `--socket`",
        );
    }
    let root = rustix::process::geteuid().is_root();
    if sandbox == SandboxChoice::Chroot && !root {
        fault(
            "`--sandbox chroot` needs root".to_owned(),
            "use `--sandbox namespace`",
        );
    }
    let maps = !args.uid_map.is_empty() || !args.gid_map.is_empty();
    if maps && (root || sandbox != SandboxChoice::Namespace) {
        fault(
            "`--uid-map` and `--gid-map` are for users other than root, with `--sandbox namespace`"
                .to_owned(),
            "use `--translate-uid` and `--translate-gid`, which need no namespace",
        );
    }
    let by_handle = args.migration_mode == MigrationModeChoice::FileHandles;
    if by_handle && (args.migration_verify_handles || args.migration_confirm_paths) {
        fault(
            "`--migration-verify-handles` and `--migration-confirm-paths` have no effect with `--migration-mode file-handles`"
                .to_owned(),
            "omit them: file handles name the files themselves",
        );
    }
    let translated = !args.translate_uid.is_empty() || !args.translate_gid.is_empty();
    if translated && args.posix_acl != AclChoice::Never {
        fault(
            "`--translate-uid` and `--translate-gid` cannot be combined with `--posix-acl`: the ids within ACLs are not translated".to_owned(),
            "omit one of them",
        );
    }
    faults
}

/// Reports to the user and the service manager that requests are served.
fn serving(args: &ServeFsArgs, manager: &Manager, context: &Context) {
    let folder = (args.folder.as_deref()).unwrap_or(Path::new("")).display();
    let place = match (args.socket.as_ref().or(args.mount.as_ref()), args.fd) {
        (Some(path), _) => path.display().to_string(),
        (None, number) => format!("descriptor {}", number.unwrap_or(-1)),
    };
    context.note(&format!("serving {folder} on {place}"));
    let files = Handles::from(args.inode_file_handles).most_files();
    if let Some(files) = files.filter(|files| *files < ENOUGH_FILES) {
        context.note(&format!(
            "a client can use {files} files at a time (limit of open files: `ulimit -Hn`); as root, `--inode-file-handles prefer` \
             counts open files only"
        ));
    }
    manager.ready();
}

/// Waits for a server in a sandbox, from outside of it.
fn wait(outside: &SandboxParent, args: &ServeFsArgs, context: &Context) -> Result<Exit, Failure> {
    let stop = outside
        .stopper()
        .map_err(|error| failed(cannot("copy a descriptor", &error)))?;
    let manager = Manager::find();
    let _watch = watch(&manager, stop, || ()).map_err(failed)?;
    let ready = outside.is_ready();
    if ready {
        serving(args, &manager, context);
    }
    let ended = outside
        .wait()
        .map_err(|error| failed(cannot("wait for the server", &error)))?;
    match ended {
        Ended::Exited(0) => Ok(Exit::Fine),
        // It has reported the cause, or could not: the process that maps ids prints nothing.
        Ended::Exited(code) if !ready && !args.uid_map.is_empty() | !args.gid_map.is_empty() => {
            let fault = format!("the server in the sandbox ended (exit code {code})");
            let hint = "if nothing else was said, newuidmap(1) or newgidmap(1) is missing or refused the map: see /etc/subuid and /etc/subgid";
            Err(failed(Diagnostic::error(fault).hint(hint)))
        }
        Ended::Exited(code) => Ok([Exit::BadInput, Exit::Interrupted]
            .into_iter()
            .find(|exit| exit.code() == code)
            .unwrap_or(Exit::WorkloadFailed)),
        Ended::Killed(signal) => {
            let fault = Diagnostic::error(format!(
                "the server was killed by {}",
                signals::name(signal)
            ));
            Err(failed(match signal {
                signals::FILTERED => fault.hint(
                    "a system call was made that the filter does not allow: `--seccomp log` has the kernel log it; please report it",
                ),
                _ => fault,
            }))
        }
    }
}

/// The failure of a process that cannot enter its sandbox.
fn not_entered(error: std::io::Error) -> Failure {
    let fault = cannot("enter the sandbox", &error);
    Failure::one(fault.hint(
        "use `--sandbox chroot` as root, or `--sandbox none` in a container: others may forbid namespaces",
    ))
}

/// A copy of an inherited socket that listens.
fn inherited(number: i32) -> std::io::Result<UnixListener> {
    let socket = UnixListener::from(iodyno_fileserver::inherited(number)?);
    // Fails unless it is a Unix socket.
    socket.local_addr()?;
    Ok(socket)
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
