//! Workloads of file operations: their TOML format, the named workloads, and changes by the command line.
//!
//! A named workload is a TOML text within the program, parsed like a user's own. A [`Described`] holds
//! the whole text: [`write`] prints it, and `read(write(x))` is `x`.

mod amounts;
mod check;
mod cycle;
mod names;
mod overrides;
mod page;
mod read;
mod report;
mod section;
mod sets;
mod write;

use iodyno_model::{Job, Needs, Operations, Source, Workload};

pub use names::{Named, named, names, suggest, text};
pub use overrides::Overrides;
pub use page::names_markdown;
pub use read::read;
pub use write::write;

/// A workload of file operations, with every default filled in.
#[derive(Debug, Clone, PartialEq)]
pub struct Described {
    /// Its name: letters, digits, `_`, `.` and `-`.
    pub name: String,
    /// One line that says what is done and what is timed.
    pub about: String,
    /// The job; its work is file operations.
    pub job: Job,
}

impl Described {
    /// As a workload of a plan. Its source is the text of what is run, including overrides.
    pub fn workload(&self) -> Workload {
        let source = Source {
            name: format!("{}.toml", self.name),
            text: write(self),
        };
        Workload::new(self.name.clone(), vec![source], vec![self.job.clone()])
    }

    /// The space and files that all threads together need in the folder.
    pub fn needs(&self) -> Needs {
        self.operations().needs(self.job.clones)
    }

    /// How many files of which size are made before, and how much a cycle writes: `files 10000 × 2 MiB`.
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
};
