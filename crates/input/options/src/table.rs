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

    /// A compatibility page: a Markdown text in which names in double braces are replaced: `{{all}}`, `{{honoured}}`,
    /// `{{ignored}}` and `{{refused}}` by numbers of options, `{{supported options}}`, `{{ignored options}}` and
    /// `{{refused options}}` by tables, and `own` names by their texts.
    pub fn page(&self, template: &str, own: &[(&str, String)]) -> String {
        let count = |is: fn(&Status<S>) -> bool| self.with(is).count();
        let honoured = count(Status::is_honoured);
        let (ignored, refused) = (count(Status::is_ignored), count(Status::is_refused));
        let mut text = template.to_owned();
        let mut replace =
            |name: &str, by: &str| text = text.replace(&format!("{{{{{name}}}}}"), by);
        replace("all", &(honoured + ignored + refused).to_string());
        replace("honoured", &honoured.to_string());
        replace("ignored", &ignored.to_string());
        replace("refused", &refused.to_string());
        replace("supported options", &self.supported());
        replace("ignored options", &self.reasons(Status::is_ignored));
        replace("refused options", &self.reasons(Status::is_refused));
        for (name, by) in own {
            replace(name, by);
        }
        text
    }

    /// The supported options by topic.
    fn supported(&self) -> String {
        let mut text = String::from("| topic | options |\n|---|---|\n");
        for (topic, options) in self.topics {
            let honoured = options.iter().filter(|option| option.honoured());
            let names: Vec<String> = honoured.map(|option| self.names(option)).collect();
            if !names.is_empty() {
                let _ = writeln!(text, "| {topic} | {} |", names.join(", "));
            }
        }
        text
    }

    /// The options with this status by reason.
    fn reasons(&self, is: fn(&Status<S>) -> bool) -> String {
        let options = self.with(is);
        by_reason(options.map(|option| (self.names(option), option.status.reason())))
    }

    fn with(&self, is: fn(&Status<S>) -> bool) -> impl Iterator<Item = &'static OptionSpec<S>> {
        self.options().filter(move |option| is(&option.status))
    }

    fn names(&self, option: &OptionSpec<S>) -> String {
        let names: Vec<String> = option
            .names()
            .map(|name| format!("`{}{name}`", self.dashes))
            .collect();
        names.join(", ")
    }
}

/// A Markdown table of names with a reason: those with the same one share a row.
pub fn by_reason(items: impl Iterator<Item = (String, String)>) -> String {
    let mut rows: Vec<(String, String)> = Vec::new();
    for (names, reason) in items {
        match rows.iter_mut().find(|(_, known)| *known == reason) {
            Some((row, _)) => row.extend([", ", &names]),
            None => rows.push((names, reason)),
        }
    }
    let rows: String = rows
        .iter()
        .map(|(names, reason)| format!("| {names} | {reason} |\n"))
        .collect();
    format!("| name | reason |\n|---|---|\n{rows}")
}
