//! Workloads of file operations: the TOML they are written in, those that have a name, and what a command
//! line changes of them.
//!
//! A named workload is a TOML text within the program, read by the reader that reads a user's own. What a
//! text says is kept in a [`Described`] alone: [`write`] gives it back as text, and `read(write(x))` is `x`.

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
    /// As a plan has it. Its source is the text of what is really run, whatever was overridden.
    pub fn workload(&self) -> Workload {
        let source = Source {
            name: format!("{}.toml", self.name),
            text: write(self),
        };
        Workload::new(self.name.clone(), vec![source], vec![self.job.clone()])
    }

    /// The space and files it needs in the one folder, all threads together.
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

/// What a job without file operations does of them.
static NOTHING: Operations = Operations {
    about: String::new(),
    sets: Vec::new(),
    cycle: Vec::new(),
    own_folders: false,
    drain: false,
};
