//! NFS in a guest: the kernel's server exports the folder below, and the kernel's client mounts it again.
//!
//! The server is set up by its files in /proc, without rpc.mountd and rpcbind: the kernel gets beforehand what it
//! would ask them for. See `Documentation/admin-guide/nfs/nfsd-admin-interfaces.rst` and `rpc-cache` of the kernel. A
//! host may have a server of its own, which is not touched: the layer is made in guests only.

use std::path::Path;

use iodyno_host::{Roots, text};
use iodyno_model::{Diagnostic, NfsLayer};

use super::action::Action;
use super::host::word;
use super::host_ops::HostOps;
use super::making::{Making, Storage};

/// Where the server and the client meet.
const ADDRESS: &str = "127.0.0.1";
const PORT: u32 = 2049;
/// Where the server keeps the names of its clients.
const CLIENTS: &str = "var/lib/nfs/v4recovery";
/// The name of the clients in the kernel's tables.
const DOMAIN: &str = "iodyno";
/// An entry of the kernel's tables that does not expire.
const NEVER: u32 = 0x7fff_ffff;
/// Nobody.
const ANONYMOUS: u32 = 65534;

/// Flags of an export, from `linux/nfsd/export.h`.
mod flag {
    /// From any port.
    pub(super) const INSECURE_PORT: u32 = 0x2;
    /// A write is acknowledged before it is stored.
    pub(super) const ASYNC: u32 = 0x10;
    /// Writes wait for others nearby, as by default.
    pub(super) const GATHERED_WRITES: u32 = 0x20;
    pub(super) const NO_SUBTREE_CHECK: u32 = 0x400;
    /// It has the number 0: it is the root.
    pub(super) const NUMBERED: u32 = 0x2000;
}

/// A file of the server.
fn control(roots: &Roots, name: &str) -> std::path::PathBuf {
    roots.proc.join("fs/nfsd").join(name)
}

/// Starts the server of a folder.
pub(super) fn start(
    ops: &HostOps<'_>,
    folder: &Path,
    asynchronous: bool,
    threads: u32,
) -> Result<(), Diagnostic> {
    let roots = ops.host.roots();
    let folder = word(folder)?;
    let flags = flag::INSECURE_PORT
        | flag::GATHERED_WRITES
        | flag::NO_SUBTREE_CHECK
        | flag::NUMBERED
        | if asynchronous { flag::ASYNC } else { 0 };
    let channel = |name: &str| roots.proc.join("net/rpc").join(name).join("channel");
    for (path, line) in [
        // The shortest that the kernel accepts: clients of an earlier server are waited for.
        (control(roots, "nfsv4gracetime"), "10".to_owned()),
        (control(roots, "versions"), "-2 -3 +4 +4.1 +4.2".to_owned()),
        (
            channel("auth.unix.ip"),
            format!("nfsd {ADDRESS} {NEVER} {DOMAIN}"),
        ),
        (
            channel("nfsd.export"),
            format!("{DOMAIN} {folder} {NEVER} {flags} {ANONYMOUS} {ANONYMOUS} 0"),
        ),
        (
            channel("nfsd.fh"),
            format!("{DOMAIN} 1 \\x00000000 {NEVER} {folder}"),
        ),
        (control(roots, "portlist"), format!("tcp {PORT}")),
        (control(roots, "threads"), threads.to_string()),
        // There are no earlier clients.
        (control(roots, "v4_end_grace"), "Y".to_owned()),
    ] {
        ops.host
            .write(&path, &format!("{line}\n"))
            .map_err(|error| {
                let message = format!("cannot write `{line}` to `{}`: {error}", path.display());
                Diagnostic::error(message)
            })?;
    }
    Ok(())
}

/// Whether the server runs.
pub(super) fn runs(roots: &Roots) -> bool {
    text(control(roots, "threads")).is_some_and(|threads| threads != "0")
}

/// Ends the server.
pub(super) fn stop(ops: &HostOps<'_>) -> Result<(), Diagnostic> {
    let path = control(ops.host.roots(), "threads");
    ops.host.write(&path, "0\n").map_err(|error| {
        Diagnostic::error(format!(
            "cannot end the server of NFS by `{}`: {error}",
            path.display()
        ))
    })
}

impl Making<'_> {
    /// Exports the folder below, and mounts it.
    pub(super) fn nfs(
        &mut self,
        name: &str,
        nfs: &NfsLayer,
        below: &Storage,
    ) -> Result<Storage, Diagnostic> {
        if !self.in_guest() {
            let message = "`nfs` is made in virtual machines only";
            return Err(Diagnostic::error(message).hint("put it above `vm`"));
        }
        let roots = self.ops.host.roots().clone();
        self.run(&["ip", "link", "set", "lo", "up"])?;
        let path = roots.root.join(CLIENTS);
        self.step(Action::folder(path))?;
        self.step(Action::Mount {
            kind: "nfsd".to_owned(),
            source: "nfsd".to_owned(),
            point: roots.proc.join("fs/nfsd"),
            options: Vec::new(),
        })?;
        let folder = below.paths().first().cloned().unwrap_or_default();
        self.step(Action::NfsServer {
            folder,
            asynchronous: !nfs.sync,
            threads: nfs.threads,
        })?;
        let known = |name| Some((name, text(control(&roots, name))?));
        self.add_facts(
            "nfs",
            ["threads", "exports"]
                .into_iter()
                .filter_map(known)
                .collect(),
        );
        let mut options = vec![
            format!("addr={ADDRESS}"),
            format!("clientaddr={ADDRESS}"),
            format!("port={PORT}"),
            "proto=tcp".to_owned(),
            format!("vers={}", nfs.version),
        ];
        options.extend(nfs.rsize.map(|bytes| format!("rsize={bytes}")));
        options.extend(nfs.wsize.map(|bytes| format!("wsize={bytes}")));
        options.extend_from_slice(&nfs.mount);
        self.mount(name, "nfs4", format!("{ADDRESS}:/"), options)
    }
}
