//! Workloads of file operations: TOML format, named workloads, and changes by the command line.
//!
//! A named workload is a TOML text in the program, parsed like a user's own. A [`Described`] contains
//! everything in the text: [`write`] prints it, and `read(write(x))` is `x`.

mod amounts;
mod check;
mod cycle;
mod names;
mod overrides;
mod page;
mod read;
mod sets;
mod settings;
mod write;

use iodyno_model::{Job, Needs, Operations, Source, Workload, Writing};

pub use names::{Named, named, names, suggest, text};
pub use overrides::{Overrides, with_all};
pub use page::keys;
pub(crate) use read::new_job;
pub use read::{read, read_table};
pub use settings::{Counted, SETTINGS, Sized, size};
pub use write::write;

/// A workload of file operations, with all defaults filled in.
#[derive(Debug, Clone, PartialEq)]
pub struct Described {
    /// Its name: letters, digits, `_`, `.` and `-`.
    pub name: String,
    /// One line of description: what is done and what is timed.
    pub about: String,
    /// The job; its work is file operations.
    pub job: Job,
}

impl Described {
    /// The workload for a plan. Its source is the text with the overrides applied.
    pub fn workload(&self) -> Workload {
        let source = Source {
            name: format!("{}.toml", self.name),
            text: write(self),
        };
        Workload::new(self.name.clone(), vec![source], vec![self.job.clone()])
    }

    /// The space and the number of files that all threads together need in the folder.
    pub fn needs(&self) -> Needs {
        self.operations().needs(self.job.clones)
    }

    /// Number and size of the files of each set, and what a cycle writes: `files 10000 × 2 MiB`.
    pub fn amounts(&self) -> String {
        amounts::amounts(self.operations())
    }

    fn operations(&self) -> &Operations {
        self.job.work.file_operations().unwrap_or(&NOTHING)
    }
}

/// For a job without file operations.
static NOTHING: Operations = Operations {
    about: String::new(),
    sets: Vec::new(),
    cycle: Vec::new(),
    own_folders: false,
    drain: false,
    writing: Writing {
        chunk: Writing::CHUNK,
        threads: None,
    },
    fio: None,
    command: None,
};
