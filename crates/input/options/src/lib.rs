//! Tables of options, for languages whose options have the form `name=value`: job files and command lines.
//!
//! An option is one [`OptionSpec`]: names, type of its value, description, and [`Status`]. An honoured
//! option has a setter; an ignored or refused one is data only. A [`Table`] contains them by topic: it
//! finds options by name, suggests names, and prints the tables of a compatibility page.

mod problem;
mod spec;
mod table;
mod text;

pub use problem::Problem;
pub use spec::{OptionSpec, Status, Unit, differs, ignored, refused};
pub use table::{Table, by_reason};
pub use text::{one_of, switch, value_of};
