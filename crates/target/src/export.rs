//! The guard's rules for exports of NBD servers.
//!
//! It is not known what an export contains or who uses it. It is therefore changed only if `--destroy` names it, whether it is blank or
//! not. Nothing is ever created on a server.

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::Duration;

use iodyno_model::{Diagnostic, NbdUri};
use iodyno_sys::BackendError;
use iodyno_sys::nbd::{self, wire};

/// The longest time of each step of connecting.
const WITHIN: Duration = Duration::from_secs(10);

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

/// The length of an export in bytes, if it is suitable.
///
/// # Errors
/// It cannot be connected to, or everything that the server does not offer.
pub fn look(uri: &NbdUri, wanted: &Use) -> Result<u64, Vec<Diagnostic>> {
    let connection = nbd::connect(uri, WITHIN).map_err(|error| vec![described(&error)])?;
    let export = connection.export;
    connection.close();
    let faults = unsuitable(uri, &export, wanted);
    match faults.is_empty() {
        true => Ok(export.length),
        false => Err(faults),
    }
}

/// The shortest request of an export, bytes.
///
/// # Errors
/// It cannot be connected to.
pub fn unit(uri: &NbdUri) -> Result<u32, Diagnostic> {
    let connection = nbd::connect(uri, WITHIN).map_err(|error| described(&error))?;
    let unit = connection.export.smallest;
    connection.close();
    Ok(unit)
}

fn unsuitable(uri: &NbdUri, export: &nbd::Export, wanted: &Use) -> Vec<Diagnostic> {
    let mut faults = Vec::new();
    let mut fault = |wrong: bool, what: String, hint: String| {
        if wrong {
            faults.push(Diagnostic::error(format!("`{uri}` {what}")).hint(hint));
        }
    };
    let lacks = |flag: u16| !export.has(flag);
    fault(
        wanted.changes() && export.has(wire::READ_ONLY),
        "is read-only".to_owned(),
        "start the server for writing, or only read".to_owned(),
    );
    fault(
        wanted.trims && lacks(wire::SEND_TRIM),
        "does not offer trims".to_owned(),
        "leave trims out".to_owned(),
    );
    fault(
        wanted.flushes && lacks(wire::SEND_FLUSH),
        "does not offer flushes".to_owned(),
        "leave `fsync` and `fdatasync` out; the server may write durably anyway".to_owned(),
    );
    fault(
        wanted.fua && lacks(wire::SEND_FUA),
        "does not offer writes with FUA".to_owned(),
        "use `fsync=1` in place of `sync`".to_owned(),
    );
    let unit = u64::from(export.smallest);
    fault(
        !wanted.smallest.is_multiple_of(unit),
        format!("needs requests of a multiple of {unit} bytes"),
        format!("set `bs` to a multiple of {unit}"),
    );
    let longest = u64::from(export.longest);
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
pub fn permitted(uri: &NbdUri, changes: bool, destroy: &[PathBuf]) -> Result<(), Diagnostic> {
    let named = |path: &PathBuf| {
        let text = path.to_str();
        text.and_then(|text| text.parse().ok()).as_ref() == Some(uri)
    };
    match changes && !destroy.iter().any(named) {
        true => Err(Diagnostic::error(format!(
            "refusing to write to `{uri}`: it is not known what it contains"
        ))
        .hint(format!("if it may be overwritten, add `--destroy '{uri}'`"))),
        false => Ok(()),
    }
}

/// A connection for the ops of a job, which does not block.
///
/// # Errors
/// As [`look`]; or the export has changed its length, bytes.
pub fn connect(uri: &NbdUri, length: u64) -> Result<OwnedFd, Diagnostic> {
    let connection = nbd::connect(uri, WITHIN).map_err(|error| described(&error))?;
    let now = connection.export.length;
    match now == length {
        true => Ok(connection.socket),
        false => Err(Diagnostic::error(format!(
            "`{uri}` has {now} bytes, and had {length} before"
        ))),
    }
}

fn described(error: &BackendError) -> Diagnostic {
    let said = Diagnostic::error(format!("{error}\n  cause: {}", error.source));
    match error.hint {
        Some(hint) => said.hint(hint),
        None => said,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uri() -> NbdUri {
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
        assert!(why.hint.unwrap().contains("--destroy 'nbd://host/disk'"));
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
        let faults = unsuitable(&uri(), &export, &wanted);
        let said: Vec<&str> = faults.iter().map(|fault| fault.message.as_str()).collect();
        for (said, part) in said.iter().zip([
            "read-only",
            "trims",
            "flushes",
            "FUA",
            "multiple of 4096 bytes",
            "at most 1048576 bytes",
        ]) {
            assert!(said.contains(part), "{said}");
        }
        assert_eq!(faults.len(), 6);
        let all = wire::SEND_FLUSH | wire::SEND_FUA | wire::SEND_TRIM;
        let able = nbd::Export {
            flags: all,
            smallest: 1,
            longest: 32 << 20,
            ..export
        };
        assert_eq!(unsuitable(&uri(), &able, &wanted), []);
        let reader = Use {
            smallest: 4096,
            longest: 4096,
            ..Use::default()
        };
        assert_eq!(unsuitable(&uri(), &export, &reader), []);
    }
}
