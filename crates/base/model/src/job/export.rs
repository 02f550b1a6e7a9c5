//! Names of exports of servers.
//!
//! Source: the NBD project's `uri.md`: `nbd://HOST[:PORT]/EXPORT` and `nbd+unix:///EXPORT?socket=PATH`. The forms
//! `vhost-user-blk:///PATH` and `virtiofs:///PATH` are our own.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::EngineKind;

/// What a URI of an unknown kind lacks.
const SCHEMES: &str =
    "it does not begin with `nbd://`, `nbd+unix://`, `vhost-user-blk://` or `virtiofs://`";
/// The port of servers that name none.
const PORT: u16 = 10809;

/// Where a server listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExportServer {
    /// NBD on a Unix socket.
    Unix(PathBuf),
    /// vhost-user-blk on a Unix socket, which has one disk without a name.
    VhostUser(PathBuf),
    /// virtio-fs on a Unix socket, which shares one folder without a name.
    Virtiofs(PathBuf),
    /// NBD by TCP.
    Tcp {
        /// Name or address, without brackets.
        host: String,
        /// Port.
        port: u16,
    },
}

/// The scheme of a text that begins as a URL, such as `postgres` of `postgres://host/db`. A file of such a name is
/// written with a folder before it: `./postgres://host/db`.
pub fn url_scheme(text: &str) -> Option<&str> {
    let (scheme, _) = text.split_once("://")?;
    let named = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c));
    named.then_some(scheme)
}

/// An export of a server. Its text is the URI, which is also its stored form.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct ExportUri {
    /// The server.
    pub server: ExportServer,
    /// Name of the export; often empty.
    pub export: String,
}

/// The schemes of sockets of vhost-user.
const VHOST_USER: &str = "vhost-user-blk";
const VIRTIOFS: &str = "virtiofs";

impl ExportUri {
    /// The folder that the server of virtio-fs with this socket shares.
    pub fn of_share(socket: &Path) -> ExportUri {
        ExportUri {
            server: ExportServer::Virtiofs(socket.to_owned()),
            export: String::new(),
        }
    }

    /// The disk of the server of vhost-user-blk with this socket.
    pub fn of_disk(socket: &Path) -> ExportUri {
        ExportUri {
            server: ExportServer::VhostUser(socket.to_owned()),
            export: String::new(),
        }
    }

    /// The engine that uses it.
    pub fn engine(&self) -> EngineKind {
        match self.server {
            ExportServer::VhostUser(_) => EngineKind::VhostUserBlk,
            ExportServer::Virtiofs(_) => EngineKind::Virtiofs,
            ExportServer::Unix(_) | ExportServer::Tcp { .. } => EngineKind::Nbd,
        }
    }

    /// Whether a text is meant as such a URI, right or wrong.
    pub fn is_meant(text: &str) -> bool {
        let schemes = ["nbd", "nbd+unix", "nbds", "nbds+unix", VHOST_USER, VIRTIOFS];
        schemes.iter().any(|scheme| {
            let rest = text.strip_prefix(scheme);
            rest.is_some_and(|rest| rest.starts_with("://"))
        })
    }
}

impl FromStr for ExportUri {
    type Err = String;

    fn from_str(text: &str) -> Result<ExportUri, String> {
        let wrong = |why: &str| format!("`{text}` is not the URI of an export: {why}");
        let (scheme, rest) = text.split_once("://").ok_or_else(|| wrong(SCHEMES))?;
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, export) = rest.split_once('/').unwrap_or((rest, ""));
        let export = decoded(export).ok_or_else(|| wrong("a `%` needs two hexadecimal digits"))?;
        match scheme {
            "nbd+unix" => {
                let socket = query.split('&').find_map(|one| one.strip_prefix("socket="));
                let socket = socket
                    .filter(|socket| !socket.is_empty())
                    .ok_or_else(|| wrong("`?socket=PATH` is missing"))?;
                if !authority.is_empty() {
                    return Err(wrong("a Unix socket has no host: write `nbd+unix:///`"));
                }
                let socket =
                    decoded(socket).ok_or_else(|| wrong("a `%` needs two hexadecimal digits"))?;
                if !socket.starts_with('/') {
                    return Err(wrong("the path of the socket is not absolute"));
                }
                Ok(ExportUri {
                    server: ExportServer::Unix(socket.into()),
                    export,
                })
            }
            "nbd" => {
                let (host, port) = host_and_port(authority).map_err(wrong)?;
                Ok(ExportUri {
                    server: ExportServer::Tcp { host, port },
                    export,
                })
            }
            "nbds" | "nbds+unix" => Err(wrong("TLS is not supported")),
            VHOST_USER | VIRTIOFS if !authority.is_empty() || export.is_empty() => Err(wrong(
                &format!("the path of its socket is not absolute: write `{scheme}:///PATH`"),
            )),
            VHOST_USER | VIRTIOFS => {
                let socket = format!("/{export}").into();
                Ok(ExportUri {
                    server: match scheme {
                        VIRTIOFS => ExportServer::Virtiofs(socket),
                        _ => ExportServer::VhostUser(socket),
                    },
                    export: String::new(),
                })
            }
            _ => Err(wrong(SCHEMES)),
        }
    }
}

fn host_and_port(authority: &str) -> Result<(String, u16), &'static str> {
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest.split_once(']').ok_or("a `]` is missing")?;
            (host, port.strip_prefix(':').unwrap_or(port))
        }
        None => authority.split_once(':').unwrap_or((authority, "")),
    };
    if host.is_empty() || host.contains('@') {
        return Err("its host is missing or has a user");
    }
    let port = match port {
        "" => PORT,
        port => port.parse().map_err(|_| "its port is not a number")?,
    };
    Ok((host.to_owned(), port))
}

/// `a%20b` → `a b`. `None`: it is not valid.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
                (digit(rest.next())? * 16 + digit(rest.next())?) as u8
            }
            other => other,
        });
    }
    String::from_utf8(bytes).ok()
}

/// `a b` → `a%20b`.
fn encoded(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~/:".contains(&byte);
    text.bytes()
        .map(|byte| match plain(byte) {
            true => char::from(byte).to_string(),
            false => format!("%{byte:02X}"),
        })
        .collect()
}

impl fmt::Display for ExportUri {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let export = encoded(&self.export);
        match &self.server {
            ExportServer::Unix(path) => {
                let path = encoded(&path.to_string_lossy());
                write!(formatter, "nbd+unix:///{export}?socket={path}")
            }
            ExportServer::VhostUser(path) | ExportServer::Virtiofs(path) => {
                let scheme = match self.server {
                    ExportServer::Virtiofs(_) => VIRTIOFS,
                    _ => VHOST_USER,
                };
                let path = encoded(&path.to_string_lossy());
                write!(formatter, "{scheme}://{path}")
            }
            ExportServer::Tcp { host, port } => {
                match host.contains(':') {
                    true => write!(formatter, "nbd://[{host}]")?,
                    false => write!(formatter, "nbd://{host}")?,
                }
                if *port != PORT {
                    write!(formatter, ":{port}")?;
                }
                write!(formatter, "/{export}")
            }
        }
    }
}

impl From<ExportUri> for String {
    fn from(uri: ExportUri) -> String {
        uri.to_string()
    }
}

impl TryFrom<String> for ExportUri {
    type Error = String;

    fn try_from(text: String) -> Result<ExportUri, String> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_begins_with_a_scheme() {
        for (text, scheme) in [
            ("postgres://h/db", Some("postgres")),
            ("s3+x://b", Some("s3+x")),
            ("https://", Some("https")),
            ("./postgres://h", None),
            ("/a://b", None),
            ("a:/b", None),
            ("nvme-1:2", None),
            ("://x", None),
            ("1://x", None),
        ] {
            assert_eq!(url_scheme(text), scheme, "{text}");
        }
    }

    #[test]
    fn uris_are_read_and_printed_in_one_form() {
        for (text, printed) in [
            (
                "nbd+unix:///?socket=/run/m.sock",
                "nbd+unix:///?socket=/run/m.sock",
            ),
            (
                "nbd+unix:///a%20b?x=1&socket=/s%2Ft",
                "nbd+unix:///a%20b?socket=/s/t",
            ),
            ("nbd://host", "nbd://host/"),
            ("nbd://host:10809/disk", "nbd://host/disk"),
            ("nbd://10.0.0.1:99/", "nbd://10.0.0.1:99/"),
            ("nbd://[::1]:99/x", "nbd://[::1]:99/x"),
            ("nbd://[fe80::1]", "nbd://[fe80::1]/"),
            (
                "vhost-user-blk:///run/d.sock",
                "vhost-user-blk:///run/d.sock",
            ),
            ("vhost-user-blk:///a%20b", "vhost-user-blk:///a%20b"),
            ("virtiofs:///run/f.sock", "virtiofs:///run/f.sock"),
        ] {
            let uri: ExportUri = text.parse().unwrap();
            assert_eq!(uri.to_string(), printed);
            assert_eq!(printed.parse::<ExportUri>().unwrap(), uri);
        }
    }

    #[test]
    fn what_is_wrong_with_a_uri_is_named() {
        for (text, why) in [
            ("host:10809", "does not begin"),
            ("http://host", "does not begin"),
            ("nbd+unix:///", "socket=PATH"),
            ("nbd+unix:///?socket=", "socket=PATH"),
            ("nbd+unix:///?socket=m.sock", "not absolute"),
            ("nbd+unix://h/?socket=/m", "no host"),
            ("nbd+unix:///%g0?socket=/m", "two hexadecimal"),
            ("nbd://", "host is missing"),
            ("nbd://me@host/", "host is missing or has a user"),
            ("nbd://host:x/", "not a number"),
            ("nbd://[::1/", "`]` is missing"),
            ("nbds://host/", "TLS"),
            ("vhost-user-blk://d.sock", "not absolute"),
            ("vhost-user-blk:///", "not absolute"),
            ("virtiofs://f.sock", "write `virtiofs:///PATH`"),
        ] {
            let error = text.parse::<ExportUri>().unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
