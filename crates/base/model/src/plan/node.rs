//! Nodes of a plan: their names and where they are.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::printable::on_one_line;
use crate::{VmAddress, closest};

/// A node of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedNode {
    /// Its name, unique in the plan.
    pub name: String,
    /// Where it is: a [`NodeAddress`] as text.
    pub at: String,
    /// Its program is started by `sudo -n`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub sudo: bool,
    /// It has no jobs: it is sampled during each trial.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub only_sampled: bool,
    /// The program that is copied there unless iodyno is installed in this version; `None`: that of this installation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<NodeProgram>,
}

/// A program for a node, of another build of this version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeProgram {
    /// Its path on this host, absolute.
    pub path: PathBuf,
    /// SHA-256 of its content, in hexadecimal digits.
    pub sha256: String,
}

impl PlannedNode {
    /// A node with jobs.
    pub fn new(name: impl Into<String>, at: impl Into<String>) -> PlannedNode {
        PlannedNode {
            name: name.into(),
            at: at.into(),
            sudo: false,
            only_sampled: false,
            program: None,
        }
    }

    /// Whether fio does the I/O there.
    pub fn has_fio(&self) -> bool {
        self.at.trim().ends_with(NodeAddress::FIO)
    }

    /// What prevents this name of a node: the fact.
    pub fn name_fault(name: &str) -> Option<&'static str> {
        let plain = |c: char| c.is_alphanumeric() || "._-".contains(c);
        match name {
            "" => Some("is empty"),
            name if !name.chars().all(plain) => {
                Some("has other characters than letters, digits, `.`, `_` and `-`")
            }
            _ => None,
        }
    }
}

/// Where a node is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NodeAddress {
    /// This host: `local`.
    Local,
    /// A host that is reached by ssh.
    Ssh(SshAddress),
    /// A virtual machine of this host.
    Vm(Box<VmAddress>),
    /// A host where fio does the I/O; `None`: this one.
    Fio(Option<SshAddress>),
}

impl FromStr for NodeAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<NodeAddress, String> {
        match text {
            "local" => Ok(NodeAddress::Local),
            vm if vm.starts_with("vm:") => vm.parse().map(|vm| NodeAddress::Vm(Box::new(vm))),
            "local?fio" => Ok(NodeAddress::Fio(None)),
            fio if fio.ends_with(NodeAddress::FIO) => {
                let host = &fio[..fio.len() - NodeAddress::FIO.len()];
                host.parse().map(|host| NodeAddress::Fio(Some(host)))
            }
            other => other.parse().map(NodeAddress::Ssh).map_err(|why| {
                match closest(other, ["local", "local?fio", "vm:linux"].into_iter()) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => why,
                }
            }),
        }
    }
}

impl NodeAddress {
    /// How an address is written, for hints.
    pub const FORMS: &'static str = "`ssh://[USER@]HOST[:PORT]`, `ssh://HOST?fio` for a host where fio does the I/O, or `local`";
    /// The end of the address of a host where fio does the I/O.
    pub const FIO: &'static str = "?fio";
    /// What to write in an experiment, for hints.
    pub const VM_IN_EXPERIMENT: &'static str = "an experiment has the layer `vm` in its configurations: `target = \"vm on file on FOLDER\"`; `vm.guests` is \
        the number of virtual machines";
}

/// `ssh://[USER@]HOST[:PORT]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SshAddress {
    /// The user; `None`: as ssh is configured.
    pub user: Option<String>,
    /// A name, an address, or a host of ssh's configuration.
    pub host: String,
    /// The port; `None`: as ssh is configured.
    pub port: Option<u16>,
}

impl FromStr for SshAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<SshAddress, String> {
        let rest = text
            .strip_prefix("ssh://")
            .ok_or("it does not begin with `ssh://`")?;
        let (user, rest) = match rest.rsplit_once('@') {
            Some((user, rest)) => (Some(user), rest),
            None => (None, rest),
        };
        // An IPv6 address is in brackets.
        let (host, port) = match rest.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((host, "")) => (host, None),
            Some((host, port)) => (
                host,
                Some(port.strip_prefix(':').ok_or("text follows `]`")?),
            ),
            None => match rest.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (rest, None),
            },
        };
        let port = port.map(|port| match port.parse::<u16>() {
            Ok(port) if port > 0 => Ok(port),
            _ => Err(format!("`{port}` is not a port")),
        });
        for (what, part) in [("host", Some(host)), ("user", user)] {
            let Some(part) = part else { continue };
            let plain = |c: char| c.is_ascii_alphanumeric() || "._-:%".contains(c);
            if part.is_empty() {
                return Err(format!("the {what} is empty"));
            }
            if part.starts_with('-') {
                return Err(format!("the {what} begins with `-`"));
            }
            if let Some(other) = part.chars().find(|c| !plain(*c)) {
                return Err(format!(
                    "the {what} contains `{}`",
                    on_one_line(&other.to_string())
                ));
            }
        }
        Ok(SshAddress {
            user: user.map(str::to_owned),
            host: host.to_owned(),
            port: port.transpose()?,
        })
    }
}

impl fmt::Display for SshAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ssh://")?;
        if let Some(user) = &self.user {
            write!(f, "{user}@")?;
        }
        match self.host.contains(':') {
            true => write!(f, "[{}]", self.host)?,
            false => f.write_str(&self.host)?,
        }
        match self.port {
            Some(port) => write!(f, ":{port}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_a_host_and_may_have_a_user_and_a_port() {
        let address = |user: Option<&str>, host: &str, port| SshAddress {
            user: user.map(str::to_owned),
            host: host.to_owned(),
            port,
        };
        for (text, expected) in [
            ("ssh://10.0.0.1", address(None, "10.0.0.1", None)),
            ("ssh://ada@h", address(Some("ada"), "h", None)),
            ("ssh://ada@h:2222", address(Some("ada"), "h", Some(2222))),
            (
                "ssh://[fe80::1%eth0]:22",
                address(None, "fe80::1%eth0", Some(22)),
            ),
            ("ssh://[::1]", address(None, "::1", None)),
        ] {
            let parsed: SshAddress = text.parse().unwrap();
            assert_eq!(parsed, expected, "{text}");
            assert_eq!(parsed.to_string(), text);
        }
    }

    #[test]
    fn no_part_of_an_address_becomes_an_option_or_a_command() {
        for (text, words) in [
            ("h", "ssh://"),
            ("ssh://", "host is empty"),
            ("ssh://@h", "user is empty"),
            ("ssh://-oProxyCommand=x", "begins with `-`"),
            ("ssh://-l@h", "user begins with `-`"),
            ("ssh://h;reboot", "contains `;`"),
            ("ssh://h x", "contains ` `"),
            ("ssh://$(x)", "contains `$`"),
            ("ssh://a'b@h", "contains `'`"),
            ("ssh://h:0", "not a port"),
            ("ssh://h:70000", "not a port"),
            ("ssh://h:", "not a port"),
            ("ssh://[::1]x", "follows"),
        ] {
            let error = text.parse::<SshAddress>().unwrap_err();
            assert!(error.contains(words), "{text}: {error}");
        }
    }

    #[test]
    fn an_address_may_ask_for_fio() {
        let host: SshAddress = "ssh://ada@h:2222".parse().unwrap();
        for (text, expected) in [
            ("local?fio", Ok(NodeAddress::Fio(None))),
            ("ssh://ada@h:2222?fio", Ok(NodeAddress::Fio(Some(host)))),
            ("ssh://h?fi", Err("the host contains `?`".to_owned())),
            ("local?foi", Err("did you mean `local?fio`?".to_owned())),
            ("locl", Err("did you mean `local`?".to_owned())),
            ("vm;linux", Err("did you mean `vm:linux`?".to_owned())),
            ("ssh://?fio", Err("the host is empty".to_owned())),
        ] {
            assert_eq!(text.parse::<NodeAddress>(), expected, "{text}");
        }
    }

    #[test]
    fn a_name_is_a_word() {
        for (name, good) in [
            ("a", true),
            ("db-1.left_x", true),
            ("", false),
            ("a b", false),
            ("a=b", false),
        ] {
            assert_eq!(PlannedNode::name_fault(name).is_none(), good, "{name}");
        }
    }
}
