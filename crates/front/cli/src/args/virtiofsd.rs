//! Accepts the options of virtiofsd, both QEMU's up to 7 (C) and its successor (Rust), as those of `iodyno serve fs`. A
//! link named `virtiofsd` replaces it in the command lines of qemu and libvirt.
//!
//! Unknown options are passed on, so that clap reports them.

use std::ffi::OsString;

/// Options whose effect `serve fs` always has, or that only select virtiofsd's output.
const WITHOUT_EFFECT: [&str; 22] = [
    "-f",
    "-d",
    "--foreground",
    "--syslog",
    "--no-killpriv-v2",
    "--no-readdirplus",
    "--announce-submounts",
    "-o announce_submounts",
    "-o no_flock",
    "-o no_killpriv_v2",
    "-o no_posix_acl",
    "-o no_posix_lock",
    "-o no_readdirplus",
    "-o no_writeback",
    "-o no_xattr",
    "-o no_allow_direct_io",
    "-o no_security_label",
    "-o readdirplus",
    "-o log_level",
    "-o norace",
    "--log-level",
    "--rlimit-nofile",
];

/// Options with a value that `serve fs` has under the same names.
const PASSED_ON: &[&str] = &[
    "--fd",
    "--seccomp",
    "--uid-map",
    "--gid-map",
    "--translate-uid",
    "--translate-gid",
    "--migration-mode",
    "--migration-on-error",
];

/// Translates the arguments of virtiofsd to those of `serve fs`, without the program's own name.
pub(super) fn translated(words: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut words = words.into_iter().peekable();
    let mut serve = Serve::default();
    while let Some(word) = words.next() {
        let Some(text) = word.to_str() else {
            serve.more.push(word);
            continue;
        };
        if let Some(list) = text.strip_prefix("-o") {
            let list = match list {
                "" => words.next().unwrap_or_default(),
                list => list.into(),
            };
            for option in list.to_string_lossy().split(',') {
                let (name, value) = option.split_once('=').unwrap_or((option, ""));
                serve.set(&format!("-o {name}"), value.into(), option);
            }
            continue;
        }
        let (name, given) = match text.split_once('=') {
            Some((name, value)) => (name, Some(OsString::from(value))),
            None => (text, None),
        };
        let takes = matches!(
            name,
            "--shared-dir"
                | "--socket-path"
                | "--cache"
                | "--sandbox"
                | "--thread-pool-size"
                | "--thread-pool-threshold"
                | "--log-level"
                | "--rlimit-nofile"
                | "--inode-file-handles"
                | "--socket"
        ) || PASSED_ON.contains(&name);
        let value = match (given, takes) {
            (Some(value), _) => value,
            (None, true) => words.next().unwrap_or_default(),
            (None, false) => OsString::new(),
        };
        serve.set(name, value, text);
    }
    serve.words()
}

#[derive(Debug, Default)]
struct Serve {
    folder: Option<OsString>,
    threads: Option<u32>,
    threshold: Option<OsString>,
    more: Vec<OsString>,
}

impl Serve {
    /// `text` is the option as given.
    fn set(&mut self, name: &str, value: OsString, text: &str) {
        match name {
            "--shared-dir" | "-o source" => self.folder = Some(value),
            "--socket-path" | "--socket" => self.more.extend(["--socket".into(), value]),
            _ if PASSED_ON.contains(&name) => self.more.extend([name.into(), value]),
            "--print-capabilities" | "--migration-verify-handles" | "--migration-confirm-paths" => {
                self.more.push(name.into());
            }
            "--posix-acl" if value.is_empty() => self.more.push(name.into()),
            "-o posix_acl" => self.more.push("--posix-acl".into()),
            "--cache" | "-o cache" => {
                let value = if value == "none" {
                    "never".into()
                } else {
                    value
                };
                self.more.extend(["--cache".into(), value]);
            }
            "--sandbox" | "-o sandbox" => self.more.extend(["--sandbox".into(), value]),
            "--xattr" | "-o xattr" => self.more.push("--xattr".into()),
            "--writeback" | "-o writeback" => self.more.push("--writeback".into()),
            "--no-announce-submounts" | "-o no_announce_submounts" => {
                self.more.push("--no-announce-submounts".into());
            }
            "--inode-file-handles" => self.more.extend([name.into(), value]),
            "--readonly" => self.more.push("--readonly".into()),
            "--allow-direct-io" | "-o allow_direct_io" => {
                self.more.push("--allow-direct-io".into());
            }
            "--thread-pool-size" => match value.to_str().and_then(|text| text.parse().ok()) {
                Some(threads) => self.threads = Some(threads),
                None => self.more.extend(["--threads".into(), value]),
            },
            "--thread-pool-threshold" => self.threshold = Some(value),
            name if WITHOUT_EFFECT.contains(&name) => {}
            _ if name.starts_with("-o ") => self.more.extend(["-o".into(), text.into()]),
            _ => self.more.push(text.into()),
        }
    }

    fn words(self) -> Vec<OsString> {
        let mut words: Vec<OsString> = vec!["serve".into(), "fs".into()];
        words.extend(self.folder);
        let dispatch = match (self.threads, self.threshold) {
            (Some(0), _) => Some("inline".into()),
            (Some(threads), None) => Some(OsString::from(format!("pool:{threads}"))),
            (threads, Some(threshold)) => {
                if let Some(threads) = threads {
                    words.extend(["--threads".into(), threads.to_string().into()]);
                }
                let mut policy = OsString::from("threshold:");
                policy.push(threshold);
                Some(policy)
            }
            (None, None) => None,
        };
        if let Some(policy) = dispatch {
            words.extend(["--dispatch".into(), policy]);
        }
        words.extend(self.more);
        words
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_options_of_both_virtiofsds_are_those_of_serve_fs() {
        for (given, expected) in [
            (
                "--socket-path=/s --shared-dir /d",
                "serve fs /d --socket /s",
            ),
            (
                "--socket-path /s --shared-dir=/d --cache=never --xattr --readonly --allow-direct-io --sandbox none",
                "serve fs /d --socket /s --cache never --xattr --readonly --allow-direct-io --sandbox none",
            ),
            (
                "--socket-path=/s -o source=/d,cache=none,no_xattr,allow_direct_io -osandbox=chroot -f",
                "serve fs /d --socket /s --cache never --allow-direct-io --sandbox chroot",
            ),
            (
                "--socket-path=/s -o source=/d --thread-pool-size=0",
                "serve fs /d --dispatch inline --socket /s",
            ),
            (
                "--socket-path=/s -o source=/d --thread-pool-size=16",
                "serve fs /d --dispatch pool:16 --socket /s",
            ),
            (
                "--shared-dir=/d --thread-pool-size=8 --thread-pool-threshold=3",
                "serve fs /d --threads 8 --dispatch threshold:3",
            ),
            (
                "--shared-dir=/d --announce-submounts --inode-file-handles=prefer",
                "serve fs /d --inode-file-handles prefer",
            ),
            (
                "-o source=/d,no_announce_submounts",
                "serve fs /d --no-announce-submounts",
            ),
            // As libvirt starts it.
            (
                "--fd=31 --shared-dir /d --cache always --sandbox chroot --posix-acl --uid-map :0:100000:65536:",
                "serve fs /d --fd 31 --cache always --sandbox chroot --posix-acl --uid-map :0:100000:65536:",
            ),
            (
                "--fd 31 -o source=/d,posix_acl,xattr --seccomp=log --posix-acl=auto --translate-gid=map:0:5:1",
                "serve fs /d --fd 31 --posix-acl --xattr --seccomp log --posix-acl=auto --translate-gid map:0:5:1",
            ),
            ("--print-capabilities", "serve fs --print-capabilities"),
            (
                "--fd=3 --shared-dir=/d --migration-mode=file-handles --migration-on-error guest-error --migration-confirm-paths",
                "serve fs /d --fd 3 --migration-mode file-handles --migration-on-error guest-error --migration-confirm-paths",
            ),
            // Unknown options.
            (
                "--shared-dir=/d --tag=t -o modcaps=+sys_admin --thread-pool-size=x",
                "serve fs /d --tag=t -o modcaps=+sys_admin --threads x",
            ),
        ] {
            let words = given.split_whitespace().map(OsString::from);
            let found: Vec<String> = translated(words)
                .into_iter()
                .map(|word| word.into_string().unwrap())
                .collect();
            assert_eq!(found.join(" "), expected, "{given}");
        }
    }
}
