//! Parses the arguments: options into the draft, and the command, with diagnostics for both.

use std::path::PathBuf;

use iodyno_model::printable::shell_word;
use iodyno_model::{Diagnostic, Place, Source, closest};
use iodyno_options::{Problem, Unit};

use super::draft::Draft;
use super::options::{OPTIONS, OptionSpec, dashed, defaults};

/// The command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Create the files.
    Prepare,
    /// Run the test.
    Run,
    /// Remove the files.
    Cleanup,
    /// Print [`help`].
    Help,
    /// Print the program's version.
    Version,
}

/// The name of the arguments as a source.
const COMMAND_LINE: &str = "<command line>";

const COMMANDS: [(&str, Action); 4] = [
    ("prepare", Action::Prepare),
    ("run", Action::Run),
    ("cleanup", Action::Cleanup),
    ("help", Action::Help),
];

/// The other tests of sysbench, by name.
const OTHER_TESTS: [&str; 5] = ["cpu", "memory", "threads", "mutex", "oltp"];

/// The arguments as one line that a shell would split again, with the position of each.
pub(super) struct Line {
    text: String,
    /// Start (in characters, from 0) and length of each argument.
    words: Vec<(u32, u32)>,
}

impl Line {
    pub(super) fn new(arguments: &[String]) -> Line {
        let mut text = String::new();
        let mut column = 0;
        let mut words = Vec::with_capacity(arguments.len());
        for argument in arguments {
            if column > 0 {
                text.push(' ');
                column += 1;
            }
            let word = shell_word(argument);
            let length = word.chars().count() as u32;
            words.push((column, length));
            column += length;
            text.push_str(&word);
        }
        Line { text, words }
    }

    /// The location of an argument.
    fn place(&self, index: usize) -> Place {
        let (column, length) = self.words[index];
        Place {
            file: PathBuf::from(COMMAND_LINE),
            line: 1,
            column: column + 1,
            length: length.max(1),
            text: self.text.clone(),
        }
    }

    pub(super) fn source(&self) -> Source {
        Source {
            name: COMMAND_LINE.to_owned(),
            text: self.text.clone(),
        }
    }
}

/// The parsed arguments, before they are checked against each other.
pub(super) struct Parsed<'a> {
    pub(super) draft: Draft,
    /// The commands among the words, with their places.
    commands: Vec<(usize, Action)>,
    pub(super) diagnostics: Vec<Diagnostic>,
    /// Index of each option's arguments, in order.
    written_at: Vec<(&'static str, usize)>,
    /// Options with invalid values.
    invalid: Vec<&'static str>,
    line: &'a Line,
    test_named: bool,
    /// Whether another test is named, so that the options of this one do not matter.
    pub(super) another_test: bool,
    /// Whether there is an unknown word in place of the command.
    unknown_command: bool,
}

/// Parses all arguments.
pub(super) fn parse<'a>(arguments: &[String], line: &'a Line) -> Parsed<'a> {
    let mut parsed = Parsed {
        draft: defaults(),
        commands: Vec::new(),
        diagnostics: Vec::new(),
        written_at: Vec::new(),
        invalid: Vec::new(),
        line,
        test_named: false,
        another_test: false,
        unknown_command: false,
    };
    let mut index = 0;
    while index < arguments.len() {
        let argument = arguments[index].as_str();
        index += match argument.strip_prefix("--") {
            Some(option) => {
                let next = arguments.get(index + 1).map(String::as_str);
                parsed.option(index, option, next)
            }
            None => {
                parsed.word(index, argument);
                1
            }
        };
    }
    parsed
}

impl Parsed<'_> {
    /// Parses an option; returns the number of arguments used.
    fn option(&mut self, index: usize, text: &str, next: Option<&str>) -> usize {
        let (name, value) = match text.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (text, None),
        };
        if name == "test" {
            self.old_test(index, value.unwrap_or_default());
            return 1;
        }
        let known = dashed(name);
        let Some(option) = OPTIONS.find(&known) else {
            let diagnostic = unknown(name);
            self.say(index, diagnostic);
            return 1;
        };
        let ignored = option.status.is_ignored();
        if known != option.name && !ignored {
            let note = format!("`--{known}` is an old name of `--{}`", option.name);
            self.note(index, &note, &format!("write `--{}`", option.name));
        }
        let given = value.unwrap_or_default();
        if given.is_empty() && !option.unit.optional() && option.unit != Unit::Text {
            return self.without_value(index, option, next);
        }
        let given = match (value, option.unit) {
            (None, Unit::Switch) => "on",
            _ => given,
        };
        self.apply(index, option, given);
        1
    }

    fn apply(&mut self, index: usize, option: &'static OptionSpec, value: &str) {
        if self.draft.has(option.name) {
            let message = format!("`--{}` is given again", option.name);
            self.note(index, &message, "the last one counts");
        }
        // An option without effect may have its default value, and `--report-checkpoints=` requests none.
        let honoured = option.honoured();
        if honoured || value != option.default {
            let written = format!("--{}", option.name);
            let outcome = option.apply(&written, value, |set| {
                set(&mut self.draft, value).map_err(|fault| Problem {
                    message: format!("`{written}`: {}", fault.message),
                    ..fault
                })
            });
            if let Err(fault) = outcome {
                if honoured {
                    self.invalid.push(option.name);
                }
                self.say(index, fault.diagnostic(None));
            }
        }
        self.draft
            .written
            .insert(option.name.to_owned(), value.to_owned());
        self.written_at.push((option.name, index));
    }

    /// Reports a value that is separated from its name by a space: sysbench would parse it as the command.
    fn without_value(
        &mut self,
        index: usize,
        option: &'static OptionSpec,
        next: Option<&str>,
    ) -> usize {
        self.invalid.push(option.name);
        let diagnostic = Diagnostic::error(format!("`--{}` needs a value", option.name));
        let apart = next.filter(|next| !next.starts_with('-') && command(next).is_none());
        let hint = match apart {
            Some(value) => format!("a value follows `=`: `--{}={value}`", option.name),
            None => format!("write {}", option.unit.form(&format!("--{}", option.name))),
        };
        self.say(index, diagnostic.hint(hint));
        1 + usize::from(apart.is_some())
    }

    /// Parses `--test=fileio` of release 0.4.
    fn old_test(&mut self, index: usize, test: &str) {
        if test == "fileio" && !self.test_named {
            self.test_named = true;
            self.note(
                index,
                "`--test` is an old way of naming the test",
                "leave it out: the test is always fileio",
            );
            return;
        }
        self.other_test(index, test);
    }

    fn other_test(&mut self, index: usize, test: &str) {
        self.another_test |= test != "fileio";
        let diagnostic = match test {
            "fileio" => Diagnostic::error("the test is named twice").hint("leave one of them out"),
            _ => Diagnostic::error(format!("the test `{test}` is not supported"))
                .hint("only fileio is"),
        };
        self.say(index, diagnostic);
    }

    /// Parses an argument that is not an option.
    fn word(&mut self, index: usize, word: &str) {
        if let Some(action) = command(word) {
            self.commands.push((index, action));
            return;
        }
        if word == "sysbench" && index == 0 {
            return;
        }
        if word == "fileio" && !self.test_named {
            self.test_named = true;
            return;
        }
        if word == "fileio" || OTHER_TESTS.iter().any(|test| word.starts_with(test)) {
            self.other_test(index, word);
            return;
        }
        let diagnostic = Diagnostic::error(format!("`{word}` is neither an option nor a command"));
        let names = COMMANDS.iter().map(|(name, _)| *name);
        let hint = match word.strip_prefix('-').filter(|name| !name.is_empty()) {
            Some(name) => format!("options begin with two dashes: `--{name}`"),
            None => {
                self.unknown_command = true;
                match closest(word, names) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => "the commands are prepare, run, cleanup and help".to_owned(),
                }
            }
        };
        self.say(index, diagnostic.hint(hint));
    }

    /// The command, of which there must be exactly one.
    pub(super) fn action(&mut self) -> Option<Action> {
        if self.draft.help || self.commands.iter().any(|(_, a)| *a == Action::Help) {
            return Some(Action::Help);
        }
        if self.draft.version {
            return Some(Action::Version);
        }
        match self.commands.as_slice() {
            [] if self.unknown_command => None,
            [] => {
                let missing = Diagnostic::error("there is no command")
                    .hint("end with prepare, run, cleanup or help");
                self.diagnostics.push(missing);
                None
            }
            [(_, action)] => Some(*action),
            [_, (index, _), ..] => {
                let index = *index;
                let second = Diagnostic::error("there is more than one command")
                    .hint("give one after the other, each with all options");
                self.say(index, second);
                None
            }
        }
    }

    fn note(&mut self, index: usize, message: &str, hint: &str) {
        self.say(index, Diagnostic::note(message).hint(hint));
    }

    fn say(&mut self, index: usize, diagnostic: Diagnostic) {
        self.diagnostics.push(diagnostic.at(self.line.place(index)));
    }

    /// Whether none of these options has an invalid value.
    pub(super) fn are_valid(&self, options: &[&str]) -> bool {
        !self.invalid.iter().any(|name| options.contains(name))
    }

    /// Adds a diagnostic about an option, at its location if it was given.
    pub(super) fn about(&mut self, option: &str, diagnostic: Diagnostic) {
        let last = self.written_at.iter().rfind(|(name, _)| *name == option);
        match last {
            Some(&(_, index)) => self.say(index, diagnostic),
            None => self.diagnostics.push(diagnostic),
        }
    }
}

fn command(word: &str) -> Option<Action> {
    let found = COMMANDS.iter().find(|(name, _)| *name == word);
    found.map(|(_, action)| *action)
}

fn unknown(name: &str) -> Diagnostic {
    let diagnostic = Diagnostic::error(format!("unknown option `--{name}`"));
    let negated = name
        .strip_prefix("no-")
        .and_then(|name| OPTIONS.find(&dashed(name)));
    let hint = match (negated, OPTIONS.suggestion(&dashed(name))) {
        (Some(option), _) => format!("write `--{}=off`", option.name),
        (None, Some(near)) => format!("did you mean `--{near}`?"),
        (None, None) if ["store", "color"].contains(&name) => {
            format!("`--{name}` belongs before `fileio`")
        }
        (None, None) => "`iodyno fileio help` lists all options".to_owned(),
    };
    diagnostic.hint(hint)
}
