//! Masks secrets in text that is stored: passwords, tokens and keys in command lines, environments and URLs.
//!
//! A rule looks at the name before a value, at the user part of a URL, or at the form of a known kind of key. Text
//! without such a name or form is not changed.

use std::borrow::Cow;
use std::sync::OnceLock;

use serde_json::Value;

/// What replaces a secret.
pub const MASK: &str = "*****";

/// Secrets that neither a name nor their form shows.
static VALUES: OnceLock<Vec<String>> = OnceLock::new();

/// The least length of such a secret, bytes: shorter ones are also words and parts of words.
const LEAST: usize = 6;

/// Masks these values in all texts of this process, from now on. To be called once.
pub fn mask_values(values: impl Iterator<Item = String>) {
    let long = values.filter(|value| value.len() >= LEAST && value != MASK);
    let _ = VALUES.set(long.collect());
}

fn known_values() -> impl Iterator<Item = &'static String> {
    VALUES.get().into_iter().flatten()
}

/// Endings of names whose values are secrets, in lower case, without `_` and `-`.
const NAMES: [&str; 26] = [
    "password",
    "passwd",
    "passphrase",
    "passcode",
    "sshpass",
    "secret",
    "secretkey",
    "token",
    "apikey",
    "accesskey",
    "privatekey",
    "accountkey",
    "authkey",
    "encryptionkey",
    "masterkey",
    "signingkey",
    "sharedkey",
    "storagekey",
    "sessionkey",
    "customerkey",
    "s3key",
    "passkey",
    "deploykey",
    "bearer",
    "cookie",
    AUTHORIZATION,
];

/// Last words of names whose values are secrets: `DB_PW`, but not `author` or `design`.
const WORDS: [&str; 12] = [
    "pass",
    "pwd",
    "pw",
    "bindpw",
    "askpass",
    "userpass",
    "sig",
    "signature",
    "auth",
    "oauth",
    "creds",
    "psk",
];

/// Parts of names whose values are secrets: `SECRET_KEY_BASE`.
const PARTS: [&str; 5] = ["password", "passwd", "passphrase", "secret", "credential"];

/// Endings of names with such parts whose values are not: the path of a file with a key is not the key.
const NOT_SECRET: [&str; 4] = ["file", "path", "dir", "length"];

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

const PROGRAMS: [Program; 13] = [
    Program {
        names: &[
            "mysql",
            "mysqldump",
            "mysqladmin",
            "mysqlimport",
            "mysqlslap",
            "mysqlcheck",
            "mysqlpump",
            "mysqlsh",
            "mariadb",
            "mariadb-dump",
            "mariadb-admin",
        ],
        flags: &["-p"],
        next: false,
        others: "DehOPrSTuw",
    },
    Program {
        names: &["7z", "7za", "7zr", "rar", "unrar"],
        flags: &["-p"],
        next: false,
        others: "abdfhilmnorstuvwxy",
    },
    Program {
        names: &[
            "sshpass",
            "mongo",
            "mongosh",
            "mongodump",
            "mongorestore",
            // Of docker and others.
            "login",
        ],
        flags: &["-p"],
        next: true,
        others: "cdfhoPqu",
    },
    Program {
        names: &["curl"],
        flags: &[
            "-u",
            "--user",
            "-U",
            "--proxy-user",
            "--oauth2-bearer",
            "--tlsuser",
            "-E",
            "--cert",
            "-b",
        ],
        next: true,
        others: "AcCdDeFHKmoPQrtTwxXyYz",
    },
    Program {
        names: &["http", "https", "redis-cli"],
        flags: &["-a", "--auth"],
        next: true,
        others: "Adhinoprsux",
    },
    Program {
        names: &[
            "ldapsearch",
            "ldapadd",
            "ldapmodify",
            "ldapdelete",
            "ldapwhoami",
        ],
        flags: &["-w", "--bindpw"],
        next: true,
        others: "abdDeEfFhHloOpPRsSTUXyYz",
    },
    Program {
        names: &["smbclient", "rpcclient", "lftp"],
        flags: &["-U", "--user", "-u"],
        next: true,
        others: "bcdDfiIlmMnOpRsStTW",
    },
    Program {
        names: &[
            "zip",
            "unzip",
            "sqlcmd",
            "ipmitool",
            "bcp",
            "mosquitto_pub",
            "mosquitto_sub",
        ],
        flags: &["-P"],
        next: true,
        others: "bdHInStU",
    },
    Program {
        names: &["openssl"],
        flags: &["-passin", "-passout", "-pass", "-k", "-K"],
        next: true,
        others: LETTERS,
    },
    Program {
        names: &["twine", "cqlsh", "sqlplus"],
        flags: &["-p"],
        next: true,
        others: "cdeFfku",
    },
    Program {
        names: &["nvme"],
        flags: &["-S", "--dhchap-secret", "-C", "--dhchap-ctrl-secret"],
        next: true,
        others: "adfghiklnqrstwxDGHIPQTW",
    },
    Program {
        names: &["snmpget", "snmpwalk", "snmpset"],
        flags: &["-A", "-X", "-c"],
        next: true,
        others: "adehlmnrtuvxCDEILMOPYZ",
    },
    Program {
        names: &["cryptsetup", "ceph-fuse", "ceph"],
        flags: &["--key"],
        next: true,
        others: LETTERS,
    },
];

/// All letters: the flags of the program are words, also behind one dash.
const LETTERS: &str = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";

/// Its value has several words.
const AUTHORIZATION: &str = "authorization";

/// Beginnings of keys of known services, and the least number of letters and digits that follow.
const KEYS: [(&str, usize); 21] = [
    ("AIza", 30),
    ("dckr_pat_", 20),
    ("eyJ", 30),
    ("hf_", 30),
    ("npm_", 30),
    ("sk-", 20),
    ("sk_live_", 16),
    ("xoxp-", 20),
    ("AKIA", 16),
    ("ASIA", 16),
    ("ghp_", 30),
    ("gho_", 30),
    ("ghs_", 30),
    ("github_pat_", 30),
    ("glpat-", 20),
    ("xoxb-", 20),
    ("pypi-", 30),
    ("ya29.", 30),
    ("dop_v1_", 30),
    ("AGE-SECRET-KEY-1", 30),
    ("DHHC-1:", 30),
];

/// The most quotes around a command in which secrets are found.
const DEEPEST: usize = 16;

/// Text without its secrets.
pub fn masked(text: &str) -> Cow<'_, str> {
    match within_quotes(text) {
        Some(other) => Cow::Owned(masked_spans(&other).into_owned()),
        None => masked_spans(text),
    }
}

/// Text whose parts in single quotes are without secrets, if one of them contains a single quote, quoted for a shell.
/// The rules for words do not see the words inside.
fn within_quotes(text: &str) -> Option<String> {
    const QUOTE: &str = r"'\''";
    text.find(QUOTE)?;
    let (mut done, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(at) = rest.find('\'') {
        let (before, quoted) = rest.split_at(at + 1);
        done += before;
        let mut end = 0;
        let closing = loop {
            match quoted[end..].find('\'') {
                Some(next) if quoted[end + next..].starts_with(QUOTE) => end += next + QUOTE.len(),
                Some(next) => break end + next,
                None => break quoted.len(),
            }
        };
        let (inner, after) = quoted.split_at(closing);
        match masked(&inner.replace(QUOTE, "'")) {
            Cow::Borrowed(_) => done += inner,
            Cow::Owned(other) => done += &other.replace('\'', QUOTE),
        }
        let length = usize::from(!after.is_empty());
        done += &after[..length];
        rest = &after[length..];
    }
    Some(done + rest)
}

fn masked_spans(text: &str) -> Cow<'_, str> {
    let mut spans = values(text);
    spans.extend(of_urls(text));
    spans.extend(known_keys(text));
    spans.extend(private_keys(text));
    spans.extend(of_programs(text, DEEPEST));
    for value in known_values() {
        let found = text.match_indices(value.as_str());
        spans.extend(found.map(|(at, _)| (at, at + value.len())));
    }
    spans.retain(|(start, end)| start < end && &text[*start..*end] != MASK);
    if spans.is_empty() {
        return Cow::Borrowed(text);
    }
    spans.sort_unstable();
    let (mut result, mut at) = (String::with_capacity(text.len()), 0);
    for (start, end) in spans {
        if end <= at {
            continue;
        }
        if start >= at {
            result.push_str(&text[at..start]);
            result.push_str(MASK);
        }
        at = end;
    }
    result.push_str(&text[at..]);
    Cow::Owned(result)
}

/// The words of a command line without secrets. A word such as `--password` masks the next one.
pub fn masked_words(words: &[String]) -> Vec<String> {
    let mut follows = false;
    let mut command = CommandLine::default();
    let masked_word = |word: &String| {
        let hidden = std::mem::replace(&mut follows, word.starts_with('-') && is_secret(word));
        match command.secret_in(word) {
            _ if hidden && !word.starts_with('-') => MASK.to_owned(),
            Some(at) => format!("{}{MASK}", &word[..at]),
            None => masked(word).into_owned(),
        }
    };
    words.iter().map(masked_word).collect()
}

/// Masks every text of a document. The value of a member with a secret's name is masked completely, also in the form
/// `{"name": …, "value": …}`. Lists of words are command lines.
pub fn mask(value: &mut Value) {
    mask_texts(value, true);
}

/// [`mask`], except for texts that are completely one of the values of [`mask_values`].
pub fn mask_within(value: &mut Value) {
    mask_texts(value, false);
}

fn mask_texts(value: &mut Value, whole: bool) {
    match value {
        Value::String(text) if !whole && known_values().any(|known| known == text) => {}
        Value::String(text) => {
            if let Cow::Owned(other) = masked(text) {
                *text = other;
            }
        }
        Value::Array(values) => {
            let words: Option<Vec<String>> = values
                .iter()
                .map(|value| value.as_str().map(str::to_owned))
                .collect();
            match words {
                Some(words) => {
                    let words = masked_words(&words).into_iter();
                    *values = words.map(Value::String).collect();
                }
                None => values.iter_mut().for_each(|value| mask_texts(value, whole)),
            }
        }
        Value::Object(members) => {
            let named = members.get("name").and_then(Value::as_str);
            let named = named.is_some_and(is_secret);
            for (name, value) in members {
                let hidden = is_secret(name) || (named && name == "value");
                match value {
                    Value::String(text) if hidden && !text.is_empty() => MASK.clone_into(text),
                    other => mask_texts(other, whole),
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"_-".contains(&byte)
}

/// Whether a name is that of a secret: `password`, `--db-password`, `AWS_SECRET_ACCESS_KEY`.
pub fn is_secret(name: &str) -> bool {
    let plain: String = name
        .chars()
        .filter(|c| !"_-".contains(*c))
        .map(|c| c.to_ascii_lowercase())
        .collect();
    let last = name.rsplit(['_', '-']).next().unwrap_or_default();
    WORDS.iter().any(|known| last.eq_ignore_ascii_case(known))
        || NAMES.iter().any(|known| plain.ends_with(known))
        || PARTS.iter().any(|known| plain.contains(known))
            && !NOT_SECRET.iter().any(|known| plain.ends_with(known))
}

/// The values after `NAME=`, `NAME:` and `--NAME `.
fn values(text: &str) -> Vec<(usize, usize)> {
    let bytes = text.as_bytes();
    let (mut found, mut at) = (Vec::new(), 0);
    let mut quotes = Quotes::default();
    while at < bytes.len() {
        if !is_name(bytes[at]) {
            at += 1;
            continue;
        }
        let start = at;
        while at < bytes.len() && is_name(bytes[at]) {
            at += 1;
        }
        let name = &text[start..at];
        if !is_secret(name) {
            continue;
        }
        // JSON has a quote between a name and its colon, with a backslash if it is in a string.
        let escaped = usize::from(text[at..].starts_with("\\\""));
        let quoted = escaped + usize::from(matches!(bytes.get(at + escaped), Some(b'"' | b'\'')));
        let blanks = |from: usize| text.len() - from - without_blanks(&text[from..]).len();
        let after = at + quoted;
        let sign = after + blanks(after);
        let value = match bytes.get(sign) {
            Some(b'=' | b':') => sign + 1 + blanks(sign + 1),
            _ if name.starts_with('-') && quoted == 0 && sign > after => sign,
            _ => continue,
        };
        let words = name.to_ascii_lowercase().ends_with(AUTHORIZATION);
        let flag = name.starts_with('-') && value == sign;
        if flag && text[value..].starts_with('-') {
            continue;
        }
        let (start, end) = value_at(text, value, words, &mut quotes);
        let end = with_scheme(text, start, end, &mut quotes);
        found.push((start, end));
        at = end.max(at);
    }
    found
}

/// The end of a value, with the word after it if the value is a scheme of HTTP: `Bearer TOKEN`.
fn with_scheme(text: &str, start: usize, end: usize, quotes: &mut Quotes) -> usize {
    let schemes = ["bearer", "basic", "token"].iter();
    let mut schemes = schemes.filter(|scheme| text[start..end].eq_ignore_ascii_case(scheme));
    match (schemes.next(), text[end..].strip_prefix(' ')) {
        (Some(_), Some(_)) => value_at(text, end + 1, false, quotes).1,
        _ => end,
    }
}

/// Text after its first blanks, and the line breaks that a shell leaves out.
fn without_blanks(text: &str) -> &str {
    let blank = |text: &str| match text.strip_prefix("\\\n") {
        Some(rest) => text.len() - rest.len(),
        None => usize::from(text.starts_with([' ', '\t'])),
    };
    let mut rest = text;
    while blank(rest) > 0 {
        rest = &rest[blank(rest)..];
    }
    rest
}

/// The value that begins here: in quotes, or up to a separator; `words`: to the end of the line. A value of several
/// parts, as a shell joins them, is one.
fn value_at(text: &str, at: usize, words: bool, quotes: &mut Quotes) -> (usize, usize) {
    let bytes = text.as_bytes();
    if words && !matches!(bytes.get(at), Some(b'"' | b'\'')) {
        let length = bytes[at..].iter().position(|byte| b"\"'\n".contains(byte));
        return (at, length.map_or(bytes.len(), |length| at + length));
    }
    if let Some(rest) = text[at..].strip_prefix("\\\"") {
        // A string of JSON in a string.
        let length = rest.find("\\\"").unwrap_or(rest.len());
        return (at + 2, at + 2 + length);
    }
    let end = word_end(text, at, b",;&|)}]>", quotes.open_at(text, at));
    match bytes.get(at) {
        // The quotes stay around a single part.
        Some(quote @ (b'"' | b'\'')) if quote_end(text, at) == end => {
            let closed = end > at + 1 && bytes[end - 1] == *quote;
            (at + 1, end - usize::from(closed))
        }
        _ => (at, end),
    }
}

/// The quotes of a text, for a shell, up to a place. Each place is read once: texts of others can be long.
#[derive(Default)]
struct Quotes {
    at: usize,
    open: Option<u8>,
    escaped: bool,
}

impl Quotes {
    /// The quote in which this place is. Places must ascend.
    fn open_at(&mut self, text: &str, at: usize) -> Option<u8> {
        for byte in text.as_bytes()[self.at..at].iter().copied() {
            match (byte, self.open) {
                _ if self.escaped => self.escaped = false,
                (b'\\', _) if self.open != Some(b'\'') => self.escaped = true,
                (b'"' | b'\'', None) => self.open = Some(byte),
                (quote, Some(opened)) if quote == opened => self.open = None,
                _ => {}
            }
        }
        self.at = at;
        self.open
    }
}

/// The end of a word of a shell that begins here: a blank or one of these outside of quotes, or the quote in which it
/// is.
fn word_end(text: &str, mut at: usize, separators: &[u8], outer: Option<u8>) -> usize {
    let bytes = text.as_bytes();
    while let Some(byte) = bytes.get(at) {
        at = match byte {
            quote if Some(*quote) == outer => break,
            b'"' | b'\'' => quote_end(text, at),
            b'\\' if at + 1 < bytes.len() => at + 2,
            byte if byte.is_ascii_whitespace() || separators.contains(byte) => break,
            _ => at + 1,
        };
    }
    // A backslash may be before a character of several bytes.
    (at..bytes.len())
        .find(|at| text.is_char_boundary(*at))
        .unwrap_or(bytes.len())
}

/// The end of a part in quotes that begins here.
fn quote_end(text: &str, at: usize) -> usize {
    let bytes = text.as_bytes();
    let (quote, mut end) = (bytes[at], at + 1);
    while let Some(byte) = bytes.get(end) {
        match byte {
            b'\\' if quote == b'"' => end += 2,
            byte if *byte == quote => return end + 1,
            _ => end += 1,
        }
    }
    bytes.len()
}

/// The words of a command, one after the other.
#[derive(Default)]
struct CommandLine {
    programs: Vec<&'static Program>,
    follows: bool,
}

impl CommandLine {
    /// Where the secret begins in the next word.
    fn secret_in(&mut self, word: &str) -> Option<usize> {
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

/// The values of flags of [`PROGRAMS`], also of commands in quotes within this many others.
fn of_programs(text: &str, depth: usize) -> Vec<(usize, usize)> {
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

/// The bodies of private keys in PEM.
fn private_keys(text: &str) -> Vec<(usize, usize)> {
    const KEY: &str = "PRIVATE KEY-----";
    let mut known = 0;
    let found = text.match_indices(KEY).filter_map(|(at, mark)| {
        let line = known + text.get(known..at)?.rfind("-----")?;
        if !text[line..at].starts_with("-----BEGIN") {
            return None;
        }
        let body = at + mark.len();
        let length = text[body..].find("-----END");
        known = length.map_or(text.len(), |length| body + length);
        Some((body, known))
    });
    found.collect()
}

/// The passwords of `scheme://user:password@host`.
fn of_urls(text: &str) -> Vec<(usize, usize)> {
    let found = text.match_indices("://").filter_map(|(at, mark)| {
        let start = at + mark.len();
        let rest = &text[start..];
        let length = rest.find(|c: char| c.is_whitespace() || "/?#\"'<>".contains(c));
        let authority = &rest[..length.unwrap_or(rest.len())];
        let user = &authority[..authority.rfind('@')?];
        let colon = user.find(':')?;
        Some((start + colon + 1, start + user.len()))
    });
    found.collect()
}

/// Keys of known services, wherever they are.
fn known_keys(text: &str) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    for (begin, least) in KEYS {
        let mut known = 0;
        for (at, _) in text.match_indices(begin) {
            let apart = at == 0 || !text.as_bytes()[at - 1].is_ascii_alphanumeric();
            if at < known || !apart {
                continue;
            }
            let body = at + begin.len();
            let length = text.as_bytes()[body..]
                .iter()
                .take_while(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(byte));
            let length = length.count();
            known = body + length;
            if length >= least {
                found.push((at, known));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn secrets_are_masked_and_other_text_is_not() {
        for (text, expected) in [
            (
                "mount -o user=a,password=hunter2,ro x",
                "mount -o user=a,password=*****,ro x",
            ),
            (
                "tool --password hunter2 --fast",
                "tool --password ***** --fast",
            ),
            ("tool --db-password=hunter2", "tool --db-password=*****"),
            ("tool --api_key 'a b' c", "tool --api_key '*****' c"),
            ("PGPASSWORD=x psql", "PGPASSWORD=***** psql"),
            (
                "AWS_SECRET_ACCESS_KEY=abc/def aws s3",
                "AWS_SECRET_ACCESS_KEY=***** aws s3",
            ),
            ("AWS_SESSION_TOKEN: abc", "AWS_SESSION_TOKEN: *****"),
            ("id AKIAIOSFODNN7EXAMPLE here", "id ***** here"),
            (
                "push https://me:s3cr:et@host/x",
                "push https://me:*****@host/x",
            ),
            ("nbd://u:p@h?x", "nbd://u:*****@h?x"),
            (
                "{\"token\":\"abc\",\"n\":1}",
                "{\"token\":\"*****\",\"n\":1}",
            ),
            (
                "env = { PASSWORD = \"a b\" }",
                "env = { PASSWORD = \"*****\" }",
            ),
            ("https://h/?token=abc&x=1", "https://h/?token=*****&x=1"),
            (
                "git clone https://github_pat_11AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA@h/x",
                "git clone https://*****@h/x",
            ),
            (
                "HTTP_AUTH=X PROXY_CREDENTIAL=X",
                "HTTP_AUTH=***** PROXY_CREDENTIAL=*****",
            ),
            (
                "AWS_CREDENTIALS_V2=X bearer=X",
                "AWS_CREDENTIALS_V2=***** bearer=*****",
            ),
            ("t --auth X --fast", "t --auth ***** --fast"),
            ("-H 'X-Auth: Bearer a.b/c' -v", "-H 'X-Auth: *****' -v"),
            ("key password = öffnen", "key password = *****"),
            (
                "curl -H 'Authorization: Bearer a.b' h",
                "curl -H 'Authorization: *****' h",
            ),
            ("PASS=x DB_PWD=y z", "PASS=***** DB_PWD=***** z"),
            ("t --password=\"a\\\"b\" c", "t --password=\"*****\" c"),
            ("t --password='a'\"b c\"d e", "t --password=***** e"),
            ("t --password=a\\ b c", "t --password=***** c"),
            ("t password='a", "t password='*****"),
            (
                "echo \"{\\\"password\\\": \\\"a b\\\"}\"",
                "echo \"{\\\"password\\\": \\\"*****\\\"}\"",
            ),
            ("mysql -uroot -pX db", "mysql -uroot -p***** db"),
            (
                "/usr/bin/mysqldump -p'a b' db",
                "/usr/bin/mysqldump -p***** db",
            ),
            (
                r"/bin/sh -c 'mysql -p'\''a b'\'' db' x",
                r"/bin/sh -c 'mysql -p***** db' x",
            ),
            (
                r"/bin/sh -c 't '\''--password=a b c'\'' d'",
                r"/bin/sh -c 't '\''--password=***** b c'\'' d'",
            ),
            (
                r"/bin/sh -c 'PASS='\''a b'\''; API_TOKEN='\''c d'\'' t'",
                r"/bin/sh -c 'PASS='\''*****'\''; API_TOKEN='\''*****'\'' t'",
            ),
            (
                r"sh -c 'sh -c '\''mysql -p'\''\'\'''\''a b'\''\'\'''\'' db'\'''",
                r"sh -c 'sh -c '\''mysql -p***** db'\'''",
            ),
            ("exec_prerun=mysql -pX db", "exec_prerun=mysql -p***** db"),
            ("sh -c \"mysql -pX\" y", "sh -c \"mysql -p*****\" y"),
            (
                "sshpass -p X ssh -p 22 h",
                "sshpass -p ***** ssh -p ***** h",
            ),
            ("sshpass -pX ssh h", "sshpass -p***** ssh h"),
            ("true; curl -u a:b h", "true; curl -u ***** h"),
            (
                "sh -c \"t --password=a b\" \"c\"",
                "sh -c \"t --password=***** b\" \"c\"",
            ),
            ("t --password=a'b c'd e", "t --password=***** e"),
            (
                "docker run -p 80:80 x; docker login -p X r",
                "docker run -p 80:80 x; docker login -p ***** r",
            ),
            ("curl -ua:b h", "curl -u***** h"),
            ("curl -sSu a:b h", "curl -sSu ***** h"),
            ("curl -#sua:b h", "curl -#su***** h"),
            ("curl -ksSu'a:b c' h", "curl -ksSu***** h"),
            ("zip -r9PX a b", "zip -r9P***** a b"),
            ("smbclient -NUa%b //h/s", "smbclient -NU***** //h/s"),
            ("mysql -NBpX db", "mysql -NBp***** db"),
            ("ldapsearch -xZwX -b c", "ldapsearch -xZw***** -b c"),
            ("sshpass -vpX ssh h", "sshpass -vp***** ssh h"),
            ("http_s3_key=X", "http_s3_key=*****"),
            (
                "http_s3_sse_customer_key=X",
                "http_s3_sse_customer_key=*****",
            ),
            ("curl --user=a:b h", "curl --user=***** h"),
            ("curl --proxy-user 'a:b c' h", "curl --proxy-user ***** h"),
            ("redis-cli -a X ping", "redis-cli -a ***** ping"),
            ("t --password\tX y", "t --password\t***** y"),
            ("t --password \\\n  X y", "t --password \\\n  ***** y"),
            ("openssl enc -k X -in f", "openssl enc -k ***** -in f"),
            ("mysqlpump -pX db", "mysqlpump -p***** db"),
            ("unrar x -pX f", "unrar x -p***** f"),
            ("mosquitto_pub -P X -t t", "mosquitto_pub -P ***** -t t"),
            ("cryptsetup open --key X d", "cryptsetup open --key ***** d"),
            ("t --pw X --fast", "t --pw ***** --fast"),
            ("h/?X-Amz-Signature=X&a=b", "h/?X-Amz-Signature=*****&a=b"),
            (
                "nvme connect -a 1.2.3.4 -S DHHC-1:00:X: -n n",
                "nvme connect -a 1.2.3.4 -S ***** -n n",
            ),
            ("ldapsearch -w X -b c", "ldapsearch -w ***** -b c"),
            ("openssl rsa -passin pass:X", "openssl rsa -passin *****"),
            (
                "SECRET_KEY=x SECRET_KEY_BASE=y",
                "SECRET_KEY=***** SECRET_KEY_BASE=*****",
            ),
            (
                "SSHPASS=x sshpass -e ssh h",
                "SSHPASS=***** sshpass -e ssh h",
            ),
            (
                "AccountName=a;AccountKey=b==;x",
                "AccountName=a;AccountKey=*****;x",
            ),
            (
                "https://h/?sv=1&sig=a%2B&x=1",
                "https://h/?sv=1&sig=*****&x=1",
            ),
            ("curl -H 'Cookie: a=b' h", "curl -H 'Cookie: *****' h"),
            (
                "-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----",
                "-----BEGIN RSA PRIVATE KEY-----*****-----END RSA PRIVATE KEY-----",
            ),
        ] {
            assert_eq!(masked(text), expected, "{text}");
            assert_eq!(masked(expected), expected, "{text}: again");
        }
        for text in [
            "iodyno run --on token-ring=/mnt/token",
            "passes=3 bypass tokens=4 compass",
            "http://host:80/x@y",
            "ssh://me@host:22",
            "rw=randread,bs=4k,bypass=1",
            "password",
            "",
            "AKIA",
            "mysql -p db; ssh -p 22 h",
            "mkdir -p /srv/mysql && ls -p",
            "--password-file=/x secret_path=/y key_file=/z credential_file=/z",
            "author=ada authority=x auth_type=y forbearance=z authors: a",
            "server --auth --port 5",
            "fio --design=a signal=9 cosig=1",
            "task-id sk-12",
            "openssl req -key server.key -keyout k",
            "cryptsetup open --key-file=/x d",
            "curl -sXPUT -ofoo-u -HUser:b h; 7z -spf a; mysql -uapp -hpg",
            "http_s3_keyid=a",
        ] {
            assert_eq!(masked(text), text);
        }
    }

    /// Texts of others can be long. With work for each pair of places, each of these would take minutes; quotes that
    /// are followed without a limit would need more stack than there is.
    #[test]
    fn each_place_of_a_long_text_is_read_a_few_times_only() {
        let key = "-----BEGIN PRIVATE KEY-----\n";
        for (part, end, expected) in [
            ("mysql ", "-pX", "mysql -p*****".to_owned()),
            ("eyJ-", " b", "***** b".to_owned()),
            ("eyJ", " b", "***** b".to_owned()),
            ("password=X ", "b", "password=***** b".to_owned()),
            (key, "b", format!("{}*****", key.trim_end())),
            ("PRIVATE KEY-----", "b", "PRIVATE KEY-----b".to_owned()),
            // Deeper than [`DEEPEST`].
            ("\"'", "mysql -pX", "\"'mysql -pX".to_owned()),
        ] {
            let long = part.repeat((1 << 19) / part.len()) + end;
            let done = masked(&long);
            let seen = done.char_indices().rev().nth(40).map_or(0, |(at, _)| at);
            assert!(done.ends_with(&expected), "{part}: {}", &done[seen..]);
        }
    }

    #[test]
    fn documents_are_masked_by_names_and_by_words() {
        let mut document = json!({
            "env": { "PASSWORD": "x y", "HOME": "/root", "TOKEN": "" },
            "command": ["tool", "--password", "x", "--token=y", "-v"],
            "n": 1, "list": [{ "url": "a://b:c@d" }, 2],
            "facts": [{ "class": "workload", "name": "http_pass", "value": "x" }, { "name": "bs", "value": "x" }],
        });
        mask(&mut document);
        assert_eq!(
            document,
            json!({
                "env": { "PASSWORD": MASK, "HOME": "/root", "TOKEN": "" },
                "command": ["tool", "--password", MASK, "--token=*****", "-v"],
                "n": 1, "list": [{ "url": "a://b:*****@d" }, 2],
                "facts": [{ "class": "workload", "name": "http_pass", "value": MASK }, { "name": "bs", "value": "x" }],
            })
        );
    }
    #[test]
    fn values_without_a_name_are_masked_once_they_are_known() {
        let values = ["q7Xw98dk", "a/\"\u{e4}z9", "no"].map(str::to_owned);
        let text = "true q7Xw98dk -pq7Xw98dkm 'a/\"\u{e4}z9' no";
        assert_eq!(masked(text), text);
        mask_values(values.into_iter());
        assert_eq!(masked(text), "true ***** -p*****m '*****' no");
    }
}
