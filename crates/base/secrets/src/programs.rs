//! Flags of programs whose values are secrets.

use crate::shell::word_end;

/// Programs with flags of a letter or a word for secrets.
struct Program {
    names: &'static [&'static str],
    flags: &'static [&'static str],
    /// The next word can be the value; otherwise it is only what follows the flag in its word.
    next: bool,
    /// The letters of other flags with values: what follows them in their word is not a flag.
    others: &'static str,
}

impl Program {
    /// Where the secret begins in a word; at its end: it is the next word.
    fn secret_in(&self, word: &str) -> Option<usize> {
        for flag in self.flags {
            match word.strip_prefix(flag) {
                Some("") => return Some(word.len()),
                Some(rest) if rest.starts_with('=') => return Some(flag.len() + 1),
                _ => {}
            }
        }
        if self.others == LETTERS {
            return None;
        }
        // `-sua:b` is `-s -u a:b`.
        for (at, letter) in word.strip_prefix('-')?.char_indices() {
            let is_letter = |flag: &&str| flag.strip_prefix('-').is_some_and(|it| it.len() == 1);
            let mut flags = self.flags.iter().filter(|flag| is_letter(flag));
            if flags.any(|flag| flag.ends_with(letter)) {
                return Some(at + 2);
            }
            let is_flag = letter.is_ascii_alphanumeric() || letter == '#';
            if !is_flag || self.others.contains(letter) {
                return None;
            }
        }
        None
    }
}

#[rustfmt::skip]
const PROGRAMS: [Program; 13] = [
    program(
        &["mysql", "mysqldump", "mysqladmin", "mysqlimport", "mysqlslap", "mysqlcheck", "mysqlpump",
          "mysqlsh", "mariadb", "mariadb-dump", "mariadb-admin"],
        &["-p"], false, "DehOPrSTuw",
    ),
    program(&["7z", "7za", "7zr", "rar", "unrar"], &["-p"], false, "abdfhilmnorstuvwxy"),
    program(
        &["sshpass", "mongo", "mongosh", "mongodump", "mongorestore", "login"],
        &["-p"], true, "cdfhoPqu",
    ),
    program(
        &["curl"],
        &["-u", "--user", "-U", "--proxy-user", "--oauth2-bearer", "--tlsuser", "-E", "--cert", "-b"],
        true, "AcCdDeFHKmoPQrtTwxXyYz",
    ),
    program(&["http", "https", "redis-cli"], &["-a", "--auth"], true, "Adhinoprsux"),
    program(
        &["ldapsearch", "ldapadd", "ldapmodify", "ldapdelete", "ldapwhoami"],
        &["-w", "--bindpw"], true, "abdDeEfFhHloOpPRsSTUXyYz",
    ),
    program(&["smbclient", "rpcclient", "lftp"], &["-U", "--user", "-u"], true, "bcdDfiIlmMnOpRsStTW"),
    program(
        &["zip", "unzip", "sqlcmd", "ipmitool", "bcp", "mosquitto_pub", "mosquitto_sub"],
        &["-P"], true, "bdHInStU",
    ),
    program(&["openssl"], &["-passin", "-passout", "-pass", "-k", "-K"], true, LETTERS),
    program(&["twine", "cqlsh", "sqlplus"], &["-p"], true, "cdeFfku"),
    program(&["nvme"], &["-S", "--dhchap-secret", "-C", "--dhchap-ctrl-secret"], true, "adfghiklnqrstwxDGHIPQTW"),
    program(&["snmpget", "snmpwalk", "snmpset"], &["-A", "-X", "-c"], true, "adehlmnrtuvxCDEILMOPYZ"),
    program(&["cryptsetup", "ceph-fuse", "ceph"], &["--key"], true, LETTERS),
];

const fn program(
    names: &'static [&'static str],
    flags: &'static [&'static str],
    next: bool,
    others: &'static str,
) -> Program {
    Program {
        names,
        flags,
        next,
        others,
    }
}

/// All letters: the flags of the program are words, also behind one dash.
const LETTERS: &str = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";

/// The words of a command, one after the other.
#[derive(Default)]
pub(crate) struct CommandLine {
    programs: Vec<&'static Program>,
    follows: bool,
}

impl CommandLine {
    /// Where the secret begins in the next word.
    pub(crate) fn secret_in(&mut self, word: &str) -> Option<usize> {
        if std::mem::take(&mut self.follows) {
            return Some(0);
        }
        // Also `exec_prerun=mysql`.
        let name = word.rsplit(['/', '=']).next().unwrap_or_default();
        let known = PROGRAMS.iter().filter(|it| it.names.contains(&name));
        for program in known {
            if self.programs.iter().all(|it| it.names != program.names) {
                self.programs.push(program);
            }
        }
        for program in &self.programs {
            match program.secret_in(word) {
                Some(at) if at < word.len() => return Some(at),
                Some(_) => self.follows |= program.next,
                None => {}
            }
        }
        None
    }
}

/// The most quotes around a command in which secrets are found.
pub(crate) const MAX_QUOTES: usize = 16;

/// The values of flags of [`PROGRAMS`], also of commands in quotes within this many others.
pub(crate) fn of_programs(text: &str, depth: usize) -> Vec<(usize, usize)> {
    const SEPARATORS: &[u8] = b";&|()`";
    let bytes = text.as_bytes();
    let (mut found, mut at) = (Vec::new(), 0);
    let mut command = CommandLine::default();
    while let Some(byte) = bytes.get(at) {
        if byte.is_ascii_whitespace() || SEPARATORS.contains(byte) {
            if !matches!(byte, b' ' | b'\t') {
                command = CommandLine::default();
            }
            at += 1;
            continue;
        }
        let end = word_end(text, at, SEPARATORS, None);
        let word = &text[at..end];
        match command.secret_in(word) {
            Some(start) => found.push((at + start, end)),
            // A command in quotes: `sh -c "mysql -pX"`.
            None if word.starts_with(['"', '\'']) && word.len() > 2 && depth > 0 => {
                let inner = of_programs(word[1..].trim_end_matches(['"', '\'']), depth - 1);
                found.extend(
                    inner
                        .iter()
                        .map(|(start, stop)| (at + 1 + start, at + 1 + stop)),
                );
            }
            None => {}
        }
        at = end;
    }
    found
}
