//! The text of a target: `ext4 on loop on file on FOLDER`.

use std::ops::Range;
use std::path::PathBuf;

use iodyno_model::{closest, url_scheme};

use crate::check::Keyed;
use crate::document::{Report, Table, listed};
use crate::keys::{kinds, layer};

/// A layer of a text: its kind with its options, or a path.
pub(super) enum Word<'d> {
    Kind(&'static str, Keyed<'d>),
    Path(PathBuf),
}

/// The parts of `A on B on C`.
pub(super) fn words<'d>(
    text: &str,
    at: Range<usize>,
    configuration: &Keyed<'d>,
    nothing: &'d Table,
    report: &mut Report<'_>,
) -> Option<Vec<Word<'d>>> {
    let (mut found, mut failed): (Vec<Word<'d>>, bool) = Default::default();
    let parts: Vec<&str> = text.split(" on ").map(str::trim).collect();
    for (index, part) in parts.iter().enumerate() {
        let last = index + 1 == parts.len();
        if let Some(kind) = kinds().into_iter().find(|kind| kind == part) {
            let twice = found
                .iter()
                .any(|word| matches!(word, Word::Kind(other, _) if *other == kind));
            if twice {
                let hint = match kind {
                    "vm" => "virtual machines cannot be made in virtual machines: name `vm` once",
                    _ => "list them as `layers = [{ kind = … }, …]`, each with its options",
                };
                report.error(at, format!("`{kind}` is twice in the target"), hint);
                return None;
            }
            let none = || Keyed::within(nothing, at.clone(), kind, layer(kind).1);
            let options = configuration.inner(kind).unwrap_or_else(none);
            found.push(Word::Kind(kind, options));
        } else if let Some(scheme) = url_scheme(part).filter(|_| last) {
            let hint =
                "give a folder, file or device; for a file of this name, write `./` before it";
            report.error(at.clone(), format!("`{scheme}://` is not a path"), hint);
            failed = true;
        } else if last && is_path(part) {
            found.push(Word::Path(PathBuf::from(part)));
        } else if part.is_empty() && report.errors() > 0 {
            // What should be here is unknown, and that was reported.
            return None;
        } else {
            let message = match part.is_empty() {
                true => "`target` lacks a layer".to_owned(),
                false => format!("`{part}` is not a kind of layer"),
            };
            let separators = |c: char| c.is_whitespace() || c == ',';
            let first = part.split(separators).next().unwrap_or_default();
            let hint = match closest(part, kinds().into_iter()) {
                Some(near) if last => {
                    format!("did you mean `{near}`? a path has a slash: `./{part}`")
                }
                Some(near) => format!("did you mean `{near}`?"),
                None if part.is_empty() || first != *part => {
                    "write the layers from the top down, with ` on ` between them, as in `ext4 on loop on file on /PATH`; a path has a slash".to_owned()
                }
                None => format!("the kinds are {}", listed(&kinds())),
            };
            report.error(at.clone(), message, hint);
            failed = true;
        }
    }
    (!failed).then_some(found)
}

/// Whether the last part of a target is a path: it has a slash, or is a single word that does not resemble a kind.
fn is_path(part: &str) -> bool {
    let word = !part.contains(|c: char| c.is_whitespace() || c == ',');
    part.contains('/') || !part.is_empty() && word && closest(part, kinds().into_iter()).is_none()
}
