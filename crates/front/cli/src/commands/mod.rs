//! The commands, one per file.

mod check;
mod clean;
mod compare;
mod completions;
mod delete;
mod doctor;
mod experiments;
mod explain;
mod export;
#[cfg(feature = "fileserver")]
mod file_server;
mod fileio;
mod fio;
mod fs;
mod history;
mod import;
mod list;
mod man;
mod mirror;
mod node;
#[cfg(feature = "charts")]
mod report;
mod run;
mod schema;
mod series;
mod serve;
mod serving;
mod show;
mod watch;

pub(crate) use check::check;
pub(crate) use clean::{clean, clean_before_run};
pub(crate) use compare::{closing, compare, exit_of, judge, result_text, searches_of};
pub(crate) use completions::completions;
pub(crate) use delete::{delete, name};
pub(crate) use doctor::doctor;
pub(crate) use experiments::experiments;
pub(crate) use explain::{Costed, explain, limits, reasons};
pub(crate) use export::export;
pub(crate) use fileio::fileio;
pub(crate) use fio::fio;
pub(crate) use fs::fs;
pub(crate) use history::history;
pub(crate) use import::import;
pub(crate) use list::list;
pub(crate) use man::man;
pub(crate) use mirror::mirror;
pub(crate) use node::node;
#[cfg(feature = "charts")]
pub(crate) use report::{plot, report};
pub(crate) use run::run;
pub(crate) use schema::schema;
pub(crate) use serve::serve;
pub(crate) use show::show;
pub(crate) use watch::watch;
