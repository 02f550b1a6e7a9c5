//! The options of a language, by topic.

use std::fmt::Write;

use iodyno_model::closest;

use super::spec::{OptionSpec, Status};

/// All options of a language.
#[derive(Debug)]
pub struct Table<S: 'static> {
    /// The options by topic, in the order of the documentation.
    pub topics: &'static [(&'static str, &'static [OptionSpec<S>])],
    /// Prefix of an option's name: empty, or `--`.
    pub dashes: &'static str,
}

impl<S: Copy> Table<S> {
    /// All options, in the order of the documentation.
    pub fn options(&self) -> impl Iterator<Item = &'static OptionSpec<S>> + use<S> {
        self.topics.iter().flat_map(|(_, options)| options.iter())
    }

    /// The names of the supported options, without aliases.
    pub fn honoured(&self) -> impl Iterator<Item = &'static str> + use<S> {
        let honoured = self.options().filter(|option| option.honoured());
        honoured.map(|option| option.name)
    }

    /// The option of this name or alias.
    pub fn find(&self, name: &str) -> Option<&'static OptionSpec<S>> {
        self.options()
            .find(|option| option.names().any(|known| known == name))
    }

    /// Why an option has no effect; `None` if it has one, is refused, or is not an option.
    pub fn ignored(&self, name: &str) -> Option<&'static str> {
        match self.find(name)?.status {
            Status::Ignored { why, .. } => Some(why),
            _ => None,
        }
    }

    /// The name that was most likely intended.
    pub fn suggestion(&self, name: &str) -> Option<&'static str> {
        closest(name, self.options().flat_map(OptionSpec::names))
    }

    /// Number of honoured, ignored and refused options.
    pub fn counts(&self) -> [usize; 3] {
        let mut counts = [0; 3];
        for option in self.options() {
            counts[match option.status {
                Status::Honoured(_) => 0,
                Status::Ignored { .. } => 1,
                Status::Refused { .. } => 2,
            }] += 1;
        }
        counts
    }

    /// The options as Markdown: a heading and a table for each topic.
    ///
    /// `effects`: lines of the form `NAME: WHERE`, for supported options whose effect a test shows.
    pub fn markdown(&self, effects: &str) -> String {
        let mut text = String::new();
        for (topic, options) in self.topics {
            let _ = write!(
                text,
                "## {topic}\n\n| option | value | default | status | description |\n|---|---|---|---|---|\n"
            );
            for option in options.iter() {
                let _ = writeln!(text, "{}", self.row(option, effects));
            }
            text.push('\n');
        }
        text
    }

    fn row(&self, option: &OptionSpec<S>, effects: &str) -> String {
        let names: Vec<String> = option
            .names()
            .map(|name| format!("`{}{name}`", self.dashes))
            .collect();
        let default = match option.default {
            "" => String::new(),
            default => format!("`{default}`"),
        };
        let cells = [
            names.join(", "),
            option.unit.describe(),
            default,
            option.described(effects),
            option.text.to_owned(),
        ];
        // A bar would end the table cell.
        let cells = cells.map(|cell| cell.replace('|', "\\|"));
        format!("| {} |", cells.join(" | "))
    }
}
