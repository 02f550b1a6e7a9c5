//! The guard's rules for files of a folder that a server shares by virtio-fs: those for files of the host, as far as a
//! guest can follow them.
//!
//! A named or generated file may be overwritten, unless it contains a disk image or a file system; `--destroy` permits
//! that. Links are never followed. A guest cannot see whether the host uses a file, for example as a loop device.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use iodyno_model::printable::shell_path;
use iodyno_model::{Diagnostic, ExportServer, ExportUri};
pub use iodyno_sys::vhost_user::{Found, OpenFile, Share, ShareFlags};

use crate::export::{WITHIN, described};
use crate::signatures;

/// Connects to the server of a share.
///
/// # Errors
/// It cannot be reached, does not speak the protocols as needed, or the URI is that of another kind of server.
pub fn connect(uri: &ExportUri) -> Result<Arc<Share>, Diagnostic> {
    let ExportServer::Virtiofs(socket) = &uri.server else {
        return Err(
            Diagnostic::error(format!("`{uri}` does not share a folder"))
                .hint("write `uri=virtiofs:///SOCKET`"),
        );
    };
    let share = Share::new(socket, WITHIN).map_err(|error| described(&error))?;
    Ok(Arc::new(share))
}

/// A file of a share as messages name it, and as `--destroy` does: `virtiofs:///SOCKET:/PATH`.
pub fn name(uri: &ExportUri, path: &Path) -> PathBuf {
    let path = path.strip_prefix("/").unwrap_or(path);
    PathBuf::from(format!("{uri}:/{}", path.display()))
}

/// Whether the content of a file may be changed.
///
/// # Errors
/// It contains a disk image or a file system, and `destroy` does not name it; or it cannot be read.
pub fn permitted(
    file: &OpenFile,
    length: u64,
    name: &Path,
    destroy: &[PathBuf],
) -> Result<Vec<String>, Diagnostic> {
    let shown = name.display();
    if length == 0 {
        return Ok(Vec::new());
    }
    let found = signatures::probe_reads(length, |into, offset| read_exact(file, into, offset));
    let found = found.map_err(|error| {
        Diagnostic::error(format!("cannot read `{shown}`: {error}"))
            .hint("its content has to be known before it is overwritten")
    })?;
    let mut images = found.into_iter().filter(|found| !found.weak());
    let Some(image) = images.next() else {
        return Ok(Vec::new());
    };
    match destroy.iter().any(|path| path == name) {
        true => Ok(vec![format!(
            "overwritten because `--destroy` was given: `{shown}` contains {image}"
        )]),
        false => Err(Diagnostic::error(format!(
            "refusing to write to `{shown}`: it contains {image}"
        ))
        .hint(format!(
            "to overwrite its content, add `--destroy {}`",
            shell_path(name)
        ))),
    }
}

fn read_exact(file: &OpenFile, into: &mut [u8], offset: u64) -> io::Result<()> {
    let most = file.share().longest().min(1 << 20) as usize;
    let mut done = 0;
    while done < into.len() {
        let end = into.len().min(done + most);
        match file.read_at(&mut into[done..end], offset + done as u64)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            read => done += read,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_a_share_have_one_name() {
        let uri: ExportUri = "virtiofs:///run/s".parse().unwrap();
        for path in ["/a/b", "a/b"] {
            let name = name(&uri, Path::new(path));
            assert_eq!(name, Path::new("virtiofs:///run/s:/a/b"));
        }
    }

    #[test]
    fn a_server_of_another_kind_is_not_connected() {
        let uri: ExportUri = "vhost-user-blk:///run/s".parse().unwrap();
        let why = connect(&uri).unwrap_err();
        assert!(why.message.contains("does not share a folder"));
    }
}
