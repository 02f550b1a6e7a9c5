//! Arguments that are paths: a URL is not one, although it would be the name of a file.

use std::any::TypeId;
use std::ffi::OsStr;
use std::path::PathBuf;

use clap::builder::{PathBufValueParser, TypedValueParser};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, Command};
use iodyno_model::{ExportUri, url_scheme};

/// The command with its subcommands, modified so that path arguments refuse URLs.
pub(super) fn without_urls(command: Command) -> Command {
    let command = command.mut_args(|argument| {
        let path = argument.get_value_parser().type_id() == TypeId::of::<PathBuf>();
        match path {
            true => argument.value_parser(PathParser),
            false => argument,
        }
    });
    command.mut_subcommands(without_urls)
}

#[derive(Clone)]
struct PathParser;

impl TypedValueParser for PathParser {
    type Value = PathBuf;

    fn parse_ref(
        &self,
        command: &Command,
        argument: Option<&Arg>,
        value: &OsStr,
    ) -> Result<PathBuf, clap::Error> {
        // The only path for which an export of a server can be named.
        let destroy = argument.is_some_and(|argument| argument.get_id() == "destroy");
        let export = destroy && value.to_str().is_some_and(ExportUri::is_meant);
        let Some(scheme) = value.to_str().and_then(url_scheme).filter(|_| !export) else {
            return PathBufValueParser::new().parse_ref(command, argument, value);
        };
        let mut error = clap::Error::new(ErrorKind::ValueValidation).with_cmd(command);
        if let Some(argument) = argument {
            let name = ContextValue::String(argument.to_string());
            error.insert(ContextKind::InvalidArg, name);
        }
        let text = ContextValue::String(value.to_string_lossy().into_owned());
        error.insert(ContextKind::InvalidValue, text);
        let why =
            format!("`{scheme}://` is not a path; for a file of this name, write `./` before it");
        error.insert(
            ContextKind::Suggested,
            ContextValue::StyledStrs(vec![why.into()]),
        );
        Err(error)
    }
}
