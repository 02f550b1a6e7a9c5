//! System calls of a run, as strace prints them.

use std::collections::HashMap;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use crate::case::Through;

/// The system calls that are looked at.
const TRACED: &str = "open,openat,close,dup,read,write,lseek,pread64,pwrite64,preadv2,pwritev2,fsync,fdatasync,sync_file_range,\
    fallocate,ftruncate,fadvise64,mmap,madvise,msync,io_setup,io_submit,io_getevents,io_uring_setup,io_uring_enter,io_uring_register,\
    unlink,unlinkat,mkdir,mkdirat,rmdir,newfstatat,statx,ioctl,nanosleep,clock_nanosleep,connect,ioprio_set,setpriority,sched_setaffinity,set_mempolicy,mbind";

/// System calls on folders, and the one that names threads.
const OF_FOLDERS: &str = "renameat,renameat2,statfs,fstatfs,getdents64,syncfs,prctl";

/// A system call.
#[derive(Debug)]
pub(crate) struct Call {
    /// The thread.
    pub(crate) thread: u32,
    pub(crate) name: String,
    /// Without paths of descriptors.
    pub(crate) arguments: Vec<String>,
    /// The file of the folder that the first argument or the result stands for.
    pub(crate) file: Option<String>,
}

/// Why system calls cannot be traced here.
pub(crate) fn missing() -> Option<&'static str> {
    static WORKS: OnceLock<bool> = OnceLock::new();
    let works = WORKS.get_or_init(|| {
        let mut probe = Command::new("strace");
        probe.args(["-f", "--seccomp-bpf", "-o", "/dev/null", "true"]);
        let status = probe.stdout(Stdio::null()).stderr(Stdio::null()).status();
        status.is_ok_and(|status| status.success())
    });
    (!works).then_some("strace is not installed, or may not trace processes")
}

/// A command that runs another and writes its system calls to a file.
pub(crate) fn around(command: &Command, record: &Path, through: Through) -> Command {
    let mut around = Command::new("strace");
    let (traced, letters) = match through {
        Through::Folders => (format!("trace={TRACED},{OF_FOLDERS}"), "65536"),
        _ => (format!("trace={TRACED}"), "8"),
    };
    around
        .args(["-f", "-y", "-qq", "-s", letters, "--seccomp-bpf", "-e"])
        .arg(traced)
        .args(match through {
            Through::Addresses => &["-e", "raw=pread64,pwrite64"][..],
            _ => &[],
        })
        .args(["-e", "signal=none", "-o"])
        .arg(record)
        .arg(command.get_program())
        .args(command.get_args());
    around
        .env_clear()
        .envs(
            command
                .get_envs()
                .filter_map(|(name, value)| Some((name, value?))),
        )
        .current_dir(command.get_current_dir().unwrap_or(Path::new(".")))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    around
}

/// The calls of a record of strace, in the order in which they began.
pub(crate) fn read(text: &str, folder: &Path) -> Vec<Call> {
    // A short name replaces it, because paths can contain the separators of arguments.
    let text = text.replace(&escaped(folder), FOLDER);
    let folder = format!("{FOLDER}/");
    let mut lines: Vec<(u32, String)> = Vec::new();
    let mut unfinished: HashMap<u32, usize> = HashMap::new();
    for line in text.lines() {
        let Some((thread, rest)) = line.split_once(' ') else {
            continue;
        };
        let (Ok(thread), rest) = (thread.parse(), rest.trim_start()) else {
            continue;
        };
        if let Some(begun) = rest.strip_suffix(" <unfinished ...>") {
            unfinished.insert(thread, lines.len());
            lines.push((thread, begun.to_owned()));
        } else if rest.starts_with("<... ") {
            let ended = rest.split_once(" resumed>").map_or("", |(_, ended)| ended);
            if let Some(index) = unfinished.remove(&thread) {
                lines[index].1.push_str(ended);
            }
        } else {
            lines.push((thread, rest.to_owned()));
        }
    }
    let call = |(thread, line): (u32, String)| call(thread, &line, &folder);
    lines.into_iter().filter_map(call).collect()
}

/// Stands for the folder in which commands run.
pub(crate) const FOLDER: &str = "@folder";

/// A path as strace prints it.
fn escaped(path: &Path) -> String {
    let letter = |byte: &u8| match byte {
        b'"' | b'\\' => format!("\\{}", char::from(*byte)),
        b' '..=b'~' => char::from(*byte).to_string(),
        byte => format!("\\{byte:o}"),
    };
    path.as_os_str().as_bytes().iter().map(letter).collect()
}

fn call(thread: u32, line: &str, folder: &str) -> Option<Call> {
    let (name, rest) = line.split_once('(')?;
    let end = rest.rfind(") ")?;
    let result = rest[end + 2..].trim_start().strip_prefix("= ")?;
    let file = |text: &str| {
        let (_, path) = text.split_once('<')?;
        let (path, _) = path.rsplit_once('>')?;
        path.strip_prefix(folder).map(str::to_owned)
    };
    let all = split(&rest[..end]);
    let named = all
        .iter()
        .find_map(|argument| match argument.strip_prefix('"') {
            Some(path) => path
                .trim_end_matches('"')
                .strip_prefix(folder)
                .map(str::to_owned),
            None => file(argument),
        });
    Some(Call {
        thread,
        name: name.to_owned(),
        file: named.or_else(|| file(result)),
        arguments: all.iter().map(|argument| plain(argument)).collect(),
    })
}

/// Without the paths of descriptors.
fn plain(text: &str) -> String {
    let mut plain = String::new();
    let mut depth = 0_usize;
    for letter in text.chars() {
        match letter {
            '<' => depth += 1,
            '>' => depth = depth.saturating_sub(1),
            letter if depth == 0 => plain.push(letter),
            _ => {}
        }
    }
    plain
}

/// The arguments of a call.
fn split(text: &str) -> Vec<String> {
    let mut arguments = vec![String::new()];
    let (mut depth, mut quoted) = (0, false);
    let mut escaped = false;
    for letter in text.chars() {
        match letter {
            '"' if !escaped => quoted = !quoted,
            '{' | '[' | '(' if !quoted => depth += 1,
            '}' | ']' | ')' if !quoted => depth -= 1,
            ',' if depth == 0 && !quoted => {
                arguments.push(String::new());
                continue;
            }
            _ => {}
        }
        escaped = letter == '\\' && !escaped;
        arguments.last_mut().unwrap().push(letter);
    }
    arguments.iter().map(|it| it.trim().to_owned()).collect()
}
