//! Reads results of other tools from any text into [`Imported`](iodyno_model::Imported).
//!
//! A source can be a tool's output file, a terminal transcript, or a write-up that contains several forms in Markdown
//! or AsciiDoc. Each reader reads the whole text and reports which lines it understood; a line that several readers
//! understand belongs to the first of them in [`readers`]. Invariants: reading never fails and never drops a result
//! silently. Lines that look like a result and were not understood are listed with their numbers.

mod benchstat;
mod clean;
mod command;
mod context;
mod contradictions;
mod extract;
mod fio;
mod fsbench;
mod interrupts;
mod label;
mod lines;
mod measure;
mod number;
mod printed;
mod read;
mod sysbench;
mod table;
mod unread;
mod zpool;

use std::str::FromStr;

pub use fio::{FioJob, fio_jobs};
pub use label::{Label, LabelErrors, LabelPattern};
pub use read::read;
pub use table::{ColumnMap, ColumnMapError};

use extract::Extract;
use lines::Lines;

/// One source.
#[derive(Debug, Clone, Copy)]
pub struct Text<'a> {
    /// Its name in references and remarks: the path as given.
    pub source: &'a str,
    /// Its contents, less than 4 GiB.
    pub text: &'a str,
}

/// How to read the sources.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// How paths of sources give configuration, workload, loop and further dimensions.
    pub label: Option<LabelPattern>,
    /// The meaning of the columns of plain tables; `None`: guessed if it is unambiguous.
    pub table: Option<ColumnMap>,
    /// Read this form only; `None`: all.
    pub form: Option<Form>,
}

/// A group of formats with a common reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// fio's JSON, json+, terse and normal output.
    Fio,
    /// Tables of file operations and `fsbench/…` lines.
    Fsbench,
    /// sysbench 1.0's fileio output.
    Sysbench,
    /// IOR's results.
    Ior,
    /// mdtest's summary.
    Mdtest,
    /// elbencho's results.
    Elbencho,
    /// pgbench's report.
    Pgbench,
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
    /// Each form with its name on the command line.
    pub const ALL: [(&'static str, Form); 11] = [
        ("fio", Form::Fio),
        ("fsbench", Form::Fsbench),
        ("sysbench", Form::Sysbench),
        ("ior", Form::Ior),
        ("mdtest", Form::Mdtest),
        ("elbencho", Form::Elbencho),
        ("pgbench", Form::Pgbench),
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
                format!(
                    "`{text}` is not a known form; the forms are: {}",
                    known.join(", ")
                )
            })
    }
}

/// What a reader finds. A text can contain a million results: a reader of short results makes one at a time.
type Found<'l> = Box<dyn Iterator<Item = Extract> + 'l>;

/// Finds results of its form in a whole text.
type Reader = Box<dyn for<'l> Fn(&'l Lines<'l>) -> Found<'l>>;

/// All readers, the most specific first: it gets a line that several readers understand.
fn readers(options: &Options) -> Vec<(Form, Reader)> {
    fn all(read: impl Fn(&Lines<'_>) -> Vec<Extract> + 'static) -> Reader {
        Box::new(move |lines| Box::new(read(lines).into_iter()))
    }
    let map = options.table.clone();
    vec![
        (Form::Fio, Box::new(|lines| Box::new(fio::read(lines)))),
        (Form::Fsbench, all(fsbench::read)),
        (Form::Sysbench, all(sysbench::read)),
        (Form::Ior, all(printed::ior)),
        (Form::Mdtest, all(printed::mdtest)),
        (Form::Elbencho, all(printed::elbencho)),
        (Form::Pgbench, all(printed::pgbench)),
        (
            Form::Benchstat,
            Box::new(|lines| Box::new(benchstat::read(lines))),
        ),
        (Form::Zpool, all(zpool::read)),
        (Form::Interrupts, all(interrupts::read)),
        (
            Form::Table,
            all(move |lines| table::read(lines, map.as_ref())),
        ),
    ]
}
