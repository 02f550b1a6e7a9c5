//! Waits for locks of other processes of iodyno.

use std::fs::File;
use std::path::Path;
use std::time::Duration;

use iodyno_host::locks::holder;

use super::host::Host;

/// From one attempt to the next.
const PAUSE: Duration = Duration::from_millis(100);
/// Number of attempts before the holder of the lock is reported: about 5 s.
const SILENT: u32 = 50;

/// Attempts to get the lock of a file until that succeeds; `None`: `stop` returned true. A process that holds it ends
/// its work in a bounded time, because every command has a limit. After about 5 s, `progress` receives the name of that process.
///
/// # Errors
/// Those of `attempt`, which returns `None` as long as another process has the lock.
pub(super) fn wait_for<T, E>(
    host: &dyn Host,
    path: &Path,
    stop: &dyn Fn() -> bool,
    progress: &dyn Fn(&str),
    mut attempt: impl FnMut() -> Result<Option<T>, E>,
) -> Result<Option<T>, E> {
    let mut attempts = 0_u32;
    loop {
        if let Some(locked) = attempt()? {
            return Ok(Some(locked));
        }
        if stop() {
            return Ok(None);
        }
        attempts = attempts.saturating_add(1);
        if attempts == SILENT {
            let file = File::open(path).ok();
            let who = match file.and_then(|file| holder(host.roots(), &file)) {
                Some((process, command)) => format!("process {process} ({command})"),
                // Of this process, or of one that is not visible here.
                None => "another target".to_owned(),
            };
            progress(&format!(
                "waiting for {who}, which keeps `{}` locked",
                path.display()
            ));
        }
        host.sleep(PAUSE);
    }
}
