//! Properties of the output streams: colours, live line, width.

use std::io::{IsTerminal, stderr, stdout};

use crate::args::When;

/// Width of text that is not written to a terminal, columns.
const WIDTH_ELSEWHERE: usize = 100;

/// The streams at the start of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Terminal {
    /// Whether to use colours on standard output.
    pub(crate) colour_out: bool,
    /// Whether to use colours on standard error.
    pub(crate) colour_err: bool,
    /// Whether standard error is a terminal on which a line can be redrawn in place.
    pub(crate) redraws: bool,
    /// Whether the locale can show characters beyond ASCII.
    pub(crate) unicode: bool,
}

impl Terminal {
    /// Inspects the environment and the streams.
    pub(crate) fn find(when: When) -> Terminal {
        let variable = |name: &str| std::env::var(name).ok();
        let (out, err) = (stdout().is_terminal(), stderr().is_terminal());
        Terminal {
            colour_out: colour(when, variable, out),
            colour_err: colour(when, variable, err),
            redraws: err && variable("TERM").is_some_and(|term| term != "dumb"),
            unicode: unicode(variable),
        }
    }

    /// Current width of standard error, columns.
    pub(crate) fn width_err(self) -> usize {
        columns(stderr())
    }

    /// Current width of standard output if it is a terminal, columns.
    pub(crate) fn columns_out(self) -> Option<usize> {
        stdout().is_terminal().then(|| columns(stdout()))
    }

    /// Current width of standard output, columns.
    pub(crate) fn width_out(self) -> usize {
        columns(stdout())
    }
}

fn columns(stream: impl std::os::fd::AsFd) -> usize {
    match rustix::termios::tcgetwinsize(stream) {
        Ok(size) if size.ws_col > 0 => usize::from(size.ws_col),
        _ => WIDTH_ELSEWHERE,
    }
}

/// <https://no-color.org> and <https://bixense.com/clicolors/>: in this order the flag, NO_COLOR,
/// CLICOLOR_FORCE, and the capabilities of the terminal.
fn colour(when: When, variable: impl Fn(&str) -> Option<String>, terminal: bool) -> bool {
    let set = |name| variable(name).is_some_and(|value| !value.is_empty());
    match when {
        When::Always => true,
        When::Never => false,
        When::Auto if set("NO_COLOR") => false,
        When::Auto
            if set("CLICOLOR_FORCE") && variable("CLICOLOR_FORCE").as_deref() != Some("0") =>
        {
            true
        }
        When::Auto => {
            terminal
                && variable("CLICOLOR").as_deref() != Some("0")
                && variable("TERM").is_some_and(|term| term != "dumb")
        }
    }
}

/// Whether the locale's character set is UTF-8, which is the default without a locale.
fn unicode(variable: impl Fn(&str) -> Option<String>) -> bool {
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"]
        .iter()
        .find_map(|name| variable(name).filter(|value| !value.is_empty()));
    locale.is_none_or(|locale| {
        let locale = locale.to_ascii_lowercase();
        locale.contains("utf-8") || locale.contains("utf8")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colour_follows_the_flag_then_the_environment_then_the_terminal() {
        let term = ("TERM", "xterm");
        for (when, environment, terminal, expected) in [
            (When::Auto, vec![term], true, true),
            (When::Auto, vec![term], false, false),
            (When::Auto, vec![], true, false),
            (When::Auto, vec![("TERM", "dumb")], true, false),
            (When::Auto, vec![term, ("NO_COLOR", "1")], true, false),
            (When::Auto, vec![term, ("NO_COLOR", "")], true, true),
            (When::Auto, vec![term, ("CLICOLOR", "0")], true, false),
            (When::Auto, vec![("CLICOLOR_FORCE", "1")], false, true),
            (When::Auto, vec![("CLICOLOR_FORCE", "0")], false, false),
            (
                When::Auto,
                vec![("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")],
                true,
                false,
            ),
            (When::Always, vec![("NO_COLOR", "1")], false, true),
            (
                When::Never,
                vec![term, ("CLICOLOR_FORCE", "1")],
                true,
                false,
            ),
        ] {
            let variable = |name: &str| {
                environment
                    .iter()
                    .find(|pair| pair.0 == name)
                    .map(|pair| pair.1.to_owned())
            };
            assert_eq!(
                colour(when, variable, terminal),
                expected,
                "{when:?} {environment:?} {terminal}"
            );
        }
    }

    #[test]
    fn a_locale_without_utf_8_means_ascii() {
        for (environment, expected) in [
            (vec![], true),
            (vec![("LANG", "en_GB.UTF-8")], true),
            (vec![("LANG", "de_DE.utf8")], true),
            (vec![("LANG", "C")], false),
            (vec![("LANG", "en_GB.UTF-8"), ("LC_ALL", "C")], false),
            (
                vec![("LANG", "C"), ("LC_ALL", ""), ("LC_CTYPE", "C.UTF-8")],
                true,
            ),
        ] {
            let variable = |name: &str| {
                environment
                    .iter()
                    .find(|pair| pair.0 == name)
                    .map(|pair| pair.1.to_owned())
            };
            assert_eq!(unicode(variable), expected, "{environment:?}");
        }
    }
}
