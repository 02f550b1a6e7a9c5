//! TOML texts: values with their locations, typed reading key by key, and errors with line and column.
//!
//! The common part of the languages that iodyno defines itself. All errors of a text are collected in a [`Report`].

mod report;
mod section;
mod tree;

pub use report::Report;
pub use section::{LARGEST, Located, Section, instead, listed, wrong};
pub use tree::{Entry, Node, Table, Value, parse};
