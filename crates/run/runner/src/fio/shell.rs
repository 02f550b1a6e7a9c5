//! A shell on the node, which executes the lines sent to it.

use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::clock;
use crate::parent::process::keep_lines;

/// Reads the script from standard input up to a line with a dot, and executes it. On one line and without single
/// quotes, so that every login shell passes it on as it is.
pub(super) const LOADER: &str =
    r#"t=$(while IFS= read -r l && [ "$l" != . ]; do printf "%s\n" "$l"; done); eval "$t""#;

/// The script.
const SCRIPT: &str = include_str!("script.sh");

/// The longest line that is read, bytes.
const MAX_LINE_LEN: u64 = 64 << 10;
/// The longest results that are read, bytes.
const MAX_RESULTS_LEN: u64 = 256 << 20;

/// Output of the shell.
#[derive(Debug)]
pub(super) enum ShellOutput {
    /// A line, and when it arrived, ns.
    Line(u64, String),
    /// fio's output.
    Results(String),
    /// Its output has ended.
    End,
}

/// A running shell. Dropping it closes its input.
#[derive(Debug)]
pub(super) struct Shell {
    child: Child,
    input: Option<ChildStdin>,
    errors: Arc<Mutex<Vec<String>>>,
}

impl Shell {
    /// Starts it with these words, the last of which are [`LOADER`]'s. `output` gets its output.
    ///
    /// # Errors
    /// It cannot be started.
    pub(super) fn start<T: Send + 'static>(
        words: &[OsString],
        output: Sender<T>,
        as_signal: impl Fn(ShellOutput) -> T + Send + 'static,
    ) -> io::Result<Shell> {
        let (program, arguments) = words.split_first().ok_or(io::ErrorKind::InvalidInput)?;
        let mut child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()?;
        let errors = Arc::default();
        if let Some(stderr) = child.stderr.take() {
            let errors = Arc::clone(&errors);
            thread::Builder::new()
                .name("shell-errors".to_owned())
                .spawn(move || keep_lines(stderr, &errors))?;
        }
        if let Some(stdout) = child.stdout.take() {
            thread::Builder::new()
                .name("shell-reader".to_owned())
                .spawn(move || read_all(stdout, &|one| output.send(as_signal(one)).is_ok()))?;
        }
        let input = child.stdin.take();
        let mut shell = Shell {
            child,
            input,
            errors,
        };
        shell.send(SCRIPT.trim_end());
        shell.send(".");
        Ok(shell)
    }

    /// Sends lines. Undeliverable ones are dropped: the end of its output follows.
    pub(super) fn send(&mut self, lines: &str) {
        if let Some(input) = &mut self.input {
            let _ = input.write_all(format!("{lines}\n").as_bytes());
        }
    }

    /// The last standard error output of the shell or of the connection to it.
    pub(super) fn errors(&self) -> String {
        let lines = self.errors.lock().unwrap_or_else(PoisonError::into_inner);
        lines.join("; ")
    }

    /// Closes its input: it ends fio, and removes its files. Waits for that, at most for this time.
    pub(super) fn close(&mut self, limit: Duration) {
        drop(self.input.take());
        let begun = Instant::now();
        while matches!(self.child.try_wait(), Ok(None)) {
            if begun.elapsed() >= limit {
                let _ = self.child.kill();
                let _ = self.child.wait();
                return;
            }
            thread::sleep(Duration::from_millis(5));
        }
    }
}

fn read_all(stdout: impl Read, output: &dyn Fn(ShellOutput) -> bool) {
    let mut stdout = BufReader::with_capacity(1 << 16, stdout);
    loop {
        let mut line = Vec::new();
        match (&mut stdout)
            .take(MAX_LINE_LEN)
            .read_until(b'\n', &mut line)
        {
            Ok(count) if count > 0 => {}
            _ => break,
        }
        let now = clock::now();
        let line = String::from_utf8_lossy(&line).trim_end().to_owned();
        let size = line.strip_prefix("size ").map(|size| size.trim().parse());
        let one = match size {
            Some(Ok(size)) if size <= MAX_RESULTS_LEN => {
                let mut results = Vec::new();
                match (&mut stdout).take(size).read_to_end(&mut results) {
                    Ok(read) if read as u64 == size => {}
                    _ => break,
                }
                ShellOutput::Results(String::from_utf8_lossy(&results).into_owned())
            }
            Some(_) => break,
            None => ShellOutput::Line(now, line),
        };
        if !output(one) {
            return;
        }
    }
    output(ShellOutput::End);
}
