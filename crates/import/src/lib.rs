//! Others' results: any text that holds measurements → `Imported`.
//!
//! A source is read as its writer left it: a tool's file, a terminal's transcript, or a write-up with several
//! forms in it, Markdown or AsciiDoc around them. Every reader looks at the whole text and says which lines
//! it understood; where two understand the same lines, the one that stands first in [`readers`] has them.
//! What must stay true: reading never fails and never loses a result in silence. What looks like one and
//! was not understood is listed with its line.

mod benchstat;
mod clean;
mod context;
mod fio;
mod found;
mod fsbench;
mod interrupts;
mod label;
mod lines;
mod read;
mod sysbench;
mod table;
mod unread;
mod zpool;

use std::str::FromStr;

pub use label::{Label, LabelError, LabelErrors, LabelPattern};
pub use read::read;
pub use table::{ColumnMap, ColumnMapError};

use found::Found;
use lines::Lines;

/// One source.
#[derive(Debug, Clone, Copy)]
pub struct Text<'a> {
    /// What it is called in places and remarks: its path, as given.
    pub source: &'a str,
    /// What it holds.
    pub text: &'a str,
}

/// What is known of the sources beforehand.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// What the paths of the sources say: configuration, workload, loop, further dimensions.
    pub label: Option<LabelPattern>,
    /// What the parts of plain tables say; `None`: as their form suggests, where it does.
    pub table: Option<ColumnMap>,
    /// Read this form alone; `None`: whatever there is.
    pub form: Option<Form>,
}

/// A family of forms that one reader knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// fio's JSON, json+, terse and normal output.
    Fio,
    /// Tables of file operations and `fsbench/…` lines.
    Fsbench,
    /// sysbench 1.0's fileio output.
    Sysbench,
    /// Go's benchmark format, and the tables that benchstat prints.
    Benchstat,
    /// `zpool iostat`.
    Zpool,
    /// `/proc/interrupts`.
    Interrupts,
    /// Plain tables.
    Table,
}

impl Form {
    /// Each with the name it goes by on the command line.
    pub const ALL: [(&'static str, Form); 7] = [
        ("fio", Form::Fio),
        ("fsbench", Form::Fsbench),
        ("sysbench", Form::Sysbench),
        ("benchstat", Form::Benchstat),
        ("zpool", Form::Zpool),
        ("interrupts", Form::Interrupts),
        ("table", Form::Table),
    ];
}

impl FromStr for Form {
    type Err = String;

    fn from_str(text: &str) -> Result<Form, String> {
        Form::ALL
            .iter()
            .find(|(name, _)| *name == text)
            .map(|&(_, form)| form)
            .ok_or_else(|| {
                let known: Vec<&str> = Form::ALL.iter().map(|&(name, _)| name).collect();
                format!("`{text}` is no form; there are: {}", known.join(", "))
            })
    }
}

/// Looks through a whole text for what it knows.
type Reader = Box<dyn Fn(&Lines<'_>) -> Vec<Found>>;

/// All readers, the surest first: it is they who get a line that several understand.
fn readers(options: &Options) -> Vec<(Form, Reader)> {
    let map = options.table.clone();
    vec![
        (Form::Fio, Box::new(fio::read)),
        (Form::Fsbench, Box::new(fsbench::read)),
        (Form::Sysbench, Box::new(sysbench::read)),
        (Form::Benchstat, Box::new(benchstat::read)),
        (Form::Zpool, Box::new(zpool::read)),
        (Form::Interrupts, Box::new(interrupts::read)),
        (
            Form::Table,
            Box::new(move |lines| table::read(lines, map.as_ref())),
        ),
    ]
}
