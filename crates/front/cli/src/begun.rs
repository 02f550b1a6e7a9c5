//! Which runs this user began on this host: one record for each, in iodyno's state folder.
//!
//! A store and the runs in it can come from other users. So the evidence that a plan is this user's own is outside of
//! the store: a record under the run's identity with the digest of its plan, in a file that only this user can write.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use iodyno_model::{Plan, RunId};
use rustix::fs::OFlags;

/// Length of a record that is read, at most.
const LONGEST: u64 = 256;

/// The records; `None` if neither `$XDG_STATE_HOME` nor `$HOME` has an absolute path.
fn folder() -> Option<PathBuf> {
    Some(iodyno_host::state_folder()?.join("runs"))
}

/// Records that this user has begun a run. Without the record, the run can be resumed as that of another user.
pub(crate) fn record(run: RunId, plan: &Plan) {
    let (Some(folder), Some(digest)) = (folder(), iodyno_lab::fingerprint(plan)) else {
        return;
    };
    if let Err(error) = write(&folder, run, &digest) {
        tracing::warn!(%run, %error, "the begin of the run is not recorded");
    }
}

fn write(folder: &Path, run: RunId, digest: &str) -> io::Result<()> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)?;
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(folder.join(run.to_string()))?;
    file.write_all(digest.as_bytes())
}

/// The digest of the plan with which this user began a run.
pub(crate) fn recorded(run: RunId) -> Option<String> {
    let path = folder()?.join(run.to_string());
    let file = OpenOptions::new()
        .read(true)
        .custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed())
        .open(path)
        .ok()?;
    own(&file).then_some(())?;
    let mut digest = String::new();
    file.take(LONGEST).read_to_string(&mut digest).ok()?;
    Some(digest)
}

/// Whether only this user can have written a file: with `sudo`, the state folder can be that of another user.
fn own(file: &File) -> bool {
    let user = rustix::process::geteuid().as_raw();
    file.metadata()
        .is_ok_and(|it| it.is_file() && it.uid() == user && it.mode() & 0o022 == 0)
}

/// Removes the record of a run that was deleted.
pub(crate) fn forget(run: RunId) {
    if let Some(folder) = folder() {
        let _ = fs::remove_file(folder.join(run.to_string()));
    }
}
