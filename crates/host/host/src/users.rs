//! The users of a host, according to /etc/passwd.

use std::path::PathBuf;

use crate::Roots;

/// A user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// Its name.
    pub name: String,
    /// Its number.
    pub uid: u32,
    /// The folder of its files.
    pub home: PathBuf,
}

/// All users; none if they cannot be read.
pub fn users(roots: &Roots) -> Vec<User> {
    let text = std::fs::read(roots.root.join("etc/passwd")).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let found = text.lines().filter_map(|line| {
        // name:password:uid:gid:comment:home:shell
        let fields: Vec<&str> = line.split(':').collect();
        Some(User {
            name: (*fields.first()?).to_owned(),
            uid: fields.get(2)?.parse().ok()?,
            home: fields.get(5).copied().unwrap_or_default().into(),
        })
    });
    found.collect()
}
