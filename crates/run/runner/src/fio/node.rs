//! The node as the parent sees it: how its processes are started.

use std::ffi::OsString;
use std::path::Path;
use std::process::{self, Command};
use std::time::Duration;

use iodyno_model::printable::on_one_line;
use iodyno_model::{Diagnostic, SshAddress};

use super::shell::LOADER;
use crate::parent::child::LocalNode;
use crate::parent::process::Launcher;
use crate::parent::ssh::{Master, run_limited};

/// The longest time for the question which fio there is.
const ASKED: Duration = Duration::from_secs(30);
/// The oldest version whose json+ has bins in ns, and whose options this uses.
const OLDEST: (u32, u32) = (3, 0);

/// A host where fio does the I/O.
#[derive(Debug)]
pub struct FioNode {
    /// The processes of this host that speak the protocol.
    here: LocalNode,
    /// The words that start a shell on the host; a script is added to the last one.
    shell: Vec<OsString>,
    to: String,
    /// The connection, which all processes share.
    _master: Option<Master>,
}

impl FioNode {
    /// Connects to a host, or uses this one, and checks that it has fio. `here`: the node of this host.
    ///
    /// # Errors
    /// Why the connection failed, or why fio cannot be used.
    pub fn connect(
        here: LocalNode,
        address: Option<&SshAddress>,
        sudo: bool,
    ) -> Result<FioNode, Diagnostic> {
        let master = address.map(Master::open).transpose()?;
        let node = FioNode {
            here,
            to: address.map_or_else(|| "this host".to_owned(), ToString::to_string),
            shell: match &master {
                Some(master) => words(&master.shell(&by_sudo(LOADER, sudo))),
                None => ["sh", "-c", LOADER].map(OsString::from).to_vec(),
            },
            _master: master,
        };
        let mut command = Command::new(&node.shell[0]);
        command.args(&node.shell[1..]);
        let question = b"fio --version\n.\n".to_vec();
        let output = run_limited(command, Some(question), ASKED).map_err(|error| {
            Diagnostic::error(format!("cannot start a shell on {}: {error}", node.to))
        })?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
        let answer = text(&output.stdout);
        // A login script may print something before.
        let version = answer.lines().last().unwrap_or_default();
        match numbers(version) {
            Some(found) if found >= OLDEST => Ok(node),
            Some(_) => {
                let oldest = format!("fio-{}.{}", OLDEST.0, OLDEST.1);
                let fault = format!("{} has {version}, which is too old", node.to);
                Err(Diagnostic::error(fault).hint(format!("install {oldest} or later there")))
            }
            None => {
                let errors = text(&output.stderr);
                let why = match errors.is_empty() {
                    true => answer,
                    false => errors,
                };
                let fault = format!("{} has no fio: {}", node.to, on_one_line(&why));
                Err(Diagnostic::error(fault)
                    .hint("install fio there, so that `fio --version` works in a POSIX shell"))
            }
        }
    }
}

impl Launcher for FioNode {
    fn program(&self) -> &Path {
        self.here.program()
    }

    fn command(&self, task: &str) -> process::Command {
        let mut command = self.here.command(task);
        command.args(["--fio", &self.to, "--"]).args(&self.shell);
        command
    }
}

/// The script, run by another shell as root.
fn by_sudo(script: &str, sudo: bool) -> String {
    match sudo {
        // The inner shell reads its input.
        true => format!(
            "exec sudo -n sh -c \"{}\"",
            script
                .replace('\\', "\\\\")
                .replace('"', "\\\"")
                .replace('$', "\\$")
        ),
        false => script.to_owned(),
    }
}

fn words(command: &Command) -> Vec<OsString> {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(OsString::from).collect()
}

/// Major and minor number of `fio-3.33`.
fn numbers(version: &str) -> Option<(u32, u32)> {
    let rest = version.trim().strip_prefix("fio-")?;
    let mut numbers = rest.split(|c: char| !c.is_ascii_digit());
    let major = numbers.next()?.parse().ok()?;
    Some((
        major,
        numbers.next().and_then(|one| one.parse().ok()).unwrap_or(0),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_fio_are_compared_by_their_numbers() {
        for (text, expected) in [
            ("fio-3.33", Some((3, 33))),
            ("fio-2.17-12-gabc", Some((2, 17))),
            ("fio-3.37-10-g1234\n", Some((3, 37))),
            ("sh: fio: not found", None),
            ("", None),
        ] {
            assert_eq!(numbers(text), expected, "{text}");
        }
        assert!(numbers("fio-2.99") < Some(OLDEST) && numbers("fio-10.1") > Some(OLDEST));
    }
}
