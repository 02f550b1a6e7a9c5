//! A simulated host consisting of texts, and helpers for parsing.

#![allow(dead_code, unreachable_pub, reason = "each test file uses some of it")]

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use iodyno_fio::{self as fio, CommandLine, Host, Parsed};
use iodyno_model::{Diagnostic, Job, Severity};

/// Files and variables in memory; 4 CPUs, 4 KiB pages, 8 GiB.
#[derive(Default)]
pub struct FakeHost {
    pub files: BTreeMap<String, String>,
    pub variables: BTreeMap<String, String>,
}

impl FakeHost {
    pub fn with(files: &[(&str, &str)]) -> FakeHost {
        FakeHost {
            files: files
                .iter()
                .map(|(name, text)| ((*name).to_owned(), (*text).to_owned()))
                .collect(),
            variables: BTreeMap::new(),
        }
    }

    pub fn variable(mut self, name: &str, value: &str) -> FakeHost {
        self.variables.insert(name.to_owned(), value.to_owned());
        self
    }
}

impl Host for FakeHost {
    fn read(&self, path: &Path) -> io::Result<String> {
        let text = path.to_str().and_then(|path| self.files.get(path));
        text.cloned().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn files_below(&self, folder: &Path) -> io::Result<Vec<PathBuf>> {
        let files = self.files.keys().map(PathBuf::from);
        Ok(files.filter(|file| file.starts_with(folder)).collect())
    }

    fn env(&self, name: &str) -> Option<String> {
        self.variables.get(name).cloned()
    }

    fn page_size(&self) -> u64 {
        4096
    }

    fn cpus(&self) -> u32 {
        4
    }

    fn memory_mb(&self) -> u64 {
        8192
    }
}

/// Parses one job file named `test.fio`.
pub fn parse(text: &str) -> Parsed {
    parse_on(&FakeHost::with(&[("test.fio", text)]))
}

/// Parses `test.fio` of this host.
pub fn parse_on(host: &FakeHost) -> Parsed {
    fio::parse_files(&["test.fio".into()], &[], host)
}

/// The jobs of a text without errors.
pub fn jobs(text: &str) -> Vec<Job> {
    jobs_of(parse(text), text)
}

pub fn jobs_of(parsed: Parsed, text: &str) -> Vec<Job> {
    match parsed.workload {
        Some(workload) => workload.jobs,
        None => panic!("{text}\n{:#?}", parsed.diagnostics),
    }
}

/// The only job with these options; size and null engine are defaults.
pub fn job(options: &str) -> Job {
    let text = format!("[j]\n{}\n{options}", defaults(options));
    let mut jobs = jobs(&text);
    assert_eq!(jobs.len(), 1, "{text}");
    jobs.remove(0)
}

/// The diagnostics for the only job with these options.
pub fn said(options: &str) -> Vec<Diagnostic> {
    parse(&format!("[j]\n{}\n{options}", defaults(options))).diagnostics
}

fn defaults(options: &str) -> String {
    let has = |name: &str| {
        options
            .lines()
            .any(|line| line.trim_start().starts_with(name))
    };
    let mut text = String::new();
    if !has("size") && !has("filename=") {
        text.push_str("size=16m ");
    }
    text.trim_end().to_owned()
}

/// Each diagnostic as `line:column length severity message`.
pub fn brief(diagnostics: &[Diagnostic]) -> Vec<String> {
    diagnostics
        .iter()
        .map(|said| {
            let severity = match said.severity {
                Severity::Error => "error",
                Severity::Warning => "warning",
                Severity::Note => "note",
            };
            match &said.place {
                Some(at) => format!(
                    "{}:{}+{} {severity} {}",
                    at.line, at.column, at.length, said.message
                ),
                None => format!("{severity} {}", said.message),
            }
        })
        .collect()
}

/// Parses a command, split at spaces without quoting.
pub fn command(text: &str, host: &FakeHost) -> CommandLine {
    let args: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
    fio::parse_command_line(&args, host)
}
