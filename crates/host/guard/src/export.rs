//! The guard's rules for exports of servers: NBD and vhost-user-blk.
//!
//! It is not known what an export contains or who uses it. It is therefore changed only if `--destroy` names it,
//! whether it is blank or not. Nothing is ever created on a server.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use iodyno_model::printable::shell_word;
use iodyno_model::{Diagnostic, ExportServer, ExportUri};
use iodyno_sys::BackendError;
use iodyno_sys::nbd::{self, wire};
use iodyno_sys::vhost_user;

/// The longest time of each step of connecting.
pub(crate) const WITHIN: Duration = Duration::from_secs(10);

/// What a job does with an export.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Use {
    /// Writes.
    pub writes: bool,
    /// Discards ranges.
    pub trims: bool,
    /// Asks the server to make writes durable.
    pub flushes: bool,
    /// Each write is durable when it completes.
    pub fua: bool,
    /// The shortest op, bytes. Offsets are multiples of it.
    pub smallest: u64,
    /// The longest op, bytes.
    pub longest: u64,
}

impl Use {
    /// Whether the content of the export may change.
    pub fn changes(&self) -> bool {
        self.writes || self.trims
    }
}

/// What a server offers.
#[derive(Debug, Clone, Copy)]
struct Offer {
    length: u64,
    read_only: bool,
    trims: bool,
    flushes: bool,
    fua: bool,
    /// Requests are multiples of it, bytes.
    smallest: u64,
    /// The longest request, bytes.
    longest: u64,
}

impl From<nbd::Export> for Offer {
    fn from(export: nbd::Export) -> Offer {
        Offer {
            length: export.length,
            read_only: export.has(wire::READ_ONLY),
            trims: export.has(wire::SEND_TRIM),
            flushes: export.has(wire::SEND_FLUSH),
            fua: export.has(wire::SEND_FUA),
            smallest: export.smallest.into(),
            longest: export.longest.into(),
        }
    }
}

impl From<vhost_user::Disk> for Offer {
    fn from(disk: vhost_user::Disk) -> Offer {
        Offer {
            length: disk.length,
            read_only: disk.read_only,
            trims: disk.discards,
            flushes: disk.flushes,
            // Only all writes of a disk can be durable when they complete.
            fua: false,
            smallest: disk.smallest.into(),
            longest: disk.longest,
        }
    }
}

fn offer(uri: &ExportUri) -> Result<Offer, Diagnostic> {
    match &uri.server {
        ExportServer::VhostUser(socket) => {
            let connection = vhost_user::Connection::new(socket, WITHIN);
            connection.map(|it| it.disk.into())
        }
        ExportServer::Virtiofs(_) => return Err(no_disk(uri)),
        ExportServer::Unix(_) | ExportServer::Tcp { .. } => {
            nbd::connect(uri, WITHIN).map(|connection| {
                let export = connection.export;
                connection.close();
                export.into()
            })
        }
    }
    .map_err(|error| described(&error))
}

fn no_disk(uri: &ExportUri) -> Diagnostic {
    Diagnostic::error(format!("`{uri}` shares a folder, and is not a disk"))
        .hint("use `ioengine=virtiofs`")
}

/// The length of an export in bytes, if it is suitable.
///
/// # Errors
/// It cannot be connected to, or everything that the server does not offer.
pub fn look(uri: &ExportUri, wanted: &Use) -> Result<u64, Vec<Diagnostic>> {
    let offer = offer(uri).map_err(|fault| vec![fault])?;
    let faults = unsuitable(uri, &offer, wanted);
    match faults.is_empty() {
        true => Ok(offer.length),
        false => Err(faults),
    }
}

fn unsuitable(uri: &ExportUri, offer: &Offer, wanted: &Use) -> Vec<Diagnostic> {
    let mut faults = Vec::new();
    let mut fault = |wrong: bool, what: String, hint: String| {
        if wrong {
            faults.push(Diagnostic::error(format!("`{uri}` {what}")).hint(hint));
        }
    };
    fault(
        wanted.changes() && offer.read_only,
        "is read-only".to_owned(),
        "start the server for writing, or only read".to_owned(),
    );
    fault(
        wanted.trims && !offer.trims,
        "does not offer trims".to_owned(),
        "leave trims out".to_owned(),
    );
    fault(
        wanted.flushes && !offer.flushes,
        "does not offer flushes".to_owned(),
        "leave `fsync` and `fdatasync` out; the server may write durably anyway".to_owned(),
    );
    fault(
        wanted.fua && !offer.fua,
        "does not offer writes with FUA".to_owned(),
        "use `fsync=1` in place of `sync`".to_owned(),
    );
    let unit = offer.smallest;
    fault(
        !wanted.smallest.is_multiple_of(unit),
        format!("needs requests of a multiple of {unit} bytes"),
        format!("set `bs` to a multiple of {unit}"),
    );
    let longest = offer.longest;
    fault(
        wanted.longest > longest,
        format!("accepts requests of at most {longest} bytes"),
        format!("lower `bs` to {longest}"),
    );
    faults
}

/// Whether a job may use an export.
///
/// # Errors
/// It is changed, and `destroy` does not name it.
pub fn permitted(uri: &ExportUri, changes: bool, destroy: &[PathBuf]) -> Result<(), Diagnostic> {
    let named = |path: &PathBuf| {
        let text = path.to_str();
        text.and_then(|text| text.parse().ok()).as_ref() == Some(uri)
    };
    match changes && !destroy.iter().any(named) {
        true => Err(Diagnostic::error(format!(
            "refusing to write to `{uri}`: it is not known what it contains"
        ))
        .hint(format!(
            "if it may be overwritten, add `--destroy {}`",
            shell_word(&uri.to_string())
        ))),
        false => Ok(()),
    }
}

/// The process at the other end of a socket. `None`: it is not on this host, or not known.
pub fn server(socket: BorrowedFd<'_>) -> Option<u32> {
    iodyno_sys::host::peer(socket)
}

/// A connection for the ops of a job.
#[derive(Debug)]
pub enum Connected {
    /// A socket of NBD, which does not block.
    Nbd(OwnedFd),
    /// A connection that has a queue for each clone.
    VhostUser(Arc<vhost_user::Connection>),
}

/// A connection for the ops of a job.
///
/// # Errors
/// As [`look`]; or the export has changed its length, bytes.
pub fn connect(uri: &ExportUri, length: u64) -> Result<Connected, Diagnostic> {
    let (now, connected) = match &uri.server {
        ExportServer::VhostUser(socket) => {
            let connection = vhost_user::Connection::new(socket, WITHIN);
            let connection = connection.map_err(|error| described(&error))?;
            (
                connection.disk.length,
                Connected::VhostUser(Arc::new(connection)),
            )
        }
        ExportServer::Virtiofs(_) => return Err(no_disk(uri)),
        ExportServer::Unix(_) | ExportServer::Tcp { .. } => {
            let connection = nbd::connect(uri, WITHIN).map_err(|error| described(&error))?;
            (connection.export.length, Connected::Nbd(connection.socket))
        }
    };
    match now == length {
        true => Ok(connected),
        false => Err(Diagnostic::error(format!(
            "`{uri}` has {now} bytes, and had {length} before"
        ))),
    }
}

pub(crate) fn described(error: &BackendError) -> Diagnostic {
    let fault = Diagnostic::error(format!("{error}\n  cause: {}", error.source));
    match error.hint {
        Some(hint) => fault.hint(hint),
        None => fault,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uri() -> ExportUri {
        "nbd://host/disk".parse().unwrap()
    }

    #[test]
    fn only_an_export_that_is_named_is_changed() {
        for (changes, destroy, permission) in [
            (false, "/dev/sdx", true),
            (true, "/dev/sdx", false),
            (true, "nbd://host/", false),
            (true, "nbd://host/disk", true),
            (true, "nbd://host:10809/disk", true),
        ] {
            let answer = permitted(&uri(), changes, &[destroy.into()]);
            assert_eq!(answer.is_ok(), permission, "{changes} {destroy}");
        }
        let why = permitted(&uri(), true, &[]).unwrap_err();
        assert!(why.hint.unwrap().contains("--destroy nbd://host/disk"));
    }

    #[test]
    fn everything_that_a_server_lacks_is_named() {
        let export = nbd::Export {
            length: 1 << 20,
            flags: wire::HAS_FLAGS | wire::READ_ONLY,
            smallest: 4096,
            longest: 1 << 20,
        };
        let wanted = Use {
            writes: true,
            trims: true,
            flushes: true,
            fua: true,
            smallest: 512,
            longest: 2 << 20,
        };
        let faults = unsuitable(&uri(), &export.into(), &wanted);
        let fault: Vec<&str> = faults.iter().map(|fault| fault.message.as_str()).collect();
        for (fault, part) in fault.iter().zip([
            "read-only",
            "trims",
            "flushes",
            "FUA",
            "multiple of 4096 bytes",
            "at most 1048576 bytes",
        ]) {
            assert!(fault.contains(part), "{fault}");
        }
        assert_eq!(faults.len(), 6);
        let all = wire::SEND_FLUSH | wire::SEND_FUA | wire::SEND_TRIM;
        let able = nbd::Export {
            flags: all,
            smallest: 1,
            longest: 32 << 20,
            ..export
        };
        assert_eq!(unsuitable(&uri(), &able.into(), &wanted), []);
        let reader = Use {
            smallest: 4096,
            longest: 4096,
            ..Use::default()
        };
        assert_eq!(unsuitable(&uri(), &export.into(), &reader), []);
    }
}
