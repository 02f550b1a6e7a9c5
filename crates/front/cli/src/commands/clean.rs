//! `iodyno clean`: undoes storage that iodyno made and whose process has died.

use iodyno_lab::LabNode;
use iodyno_model::printable::on_one_line;
use iodyno_model::{Diagnostic, Severity};
use iodyno_runner::{Cleaned, Orphan, OtherUser, StopFlag};
use iodyno_units::counted;

use crate::args::CleanArgs;
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::nodes::{planned, with_program};
use crate::screen::write_out;

/// Undoes all such storage on this host or the given nodes, or lists it.
pub(crate) fn clean(args: &CleanArgs, context: &Context) -> Result<Exit, Failure> {
    let planned = planned(&args.node).map_err(Failure::input)?;
    context.connect(&with_program(planned, args.node_binary.as_deref())?)?;
    let mut all = Vec::new();
    for node in context.nodes()?.list() {
        match node.node.clean(args.dry_run, &StopFlag::new(), &mut |_| ()) {
            Ok(found) => {
                let text = text(&found, args.dry_run);
                write_out(match node.name.as_str() {
                    "" => text,
                    name => text
                        .lines()
                        .map(|line| format!("{name}: {line}\n"))
                        .collect(),
                })?;
                for other in &found.others {
                    context.note(&node.prefix_text(&of_another(other)));
                }
                all.extend(prefixed(&node, faults(found)));
            }
            Err(faults) => all.extend(prefixed(&node, faults)),
        }
    }
    match all.is_empty() {
        true => Ok(Exit::Fine),
        false => Err(Failure {
            exit: Exit::CheckFailed,
            faults: all,
        }),
    }
}

/// The messages with the name of the node.
fn prefixed(node: &LabNode<'_>, faults: Vec<Diagnostic>) -> Vec<Diagnostic> {
    faults
        .into_iter()
        .map(|fault| node.prefix_fault(fault))
        .collect()
}

/// Undoes all such storage before a run makes more on this node. Failures become warnings.
pub(crate) fn clean_before_run(node: &LabNode<'_>, stop: &StopFlag, context: &Context) {
    let found = node.node.clean(false, stop, &mut |_| ());
    let diagnostics = match found {
        Ok(found) => remarks(found, context.verbose > 0),
        Err(faults) => warnings(faults),
    };
    context.tell(&prefixed(node, diagnostics));
}

/// A run's messages on leftover storage: storage undone, and storage that remains. Unless `verbose`, each kind is one
/// message.
fn remarks(mut found: Cleaned, verbose: bool) -> Vec<Diagnostic> {
    let whole = found
        .orphans
        .iter()
        .filter(|orphan| orphan.faults.is_empty());
    let whole = whole.map(headline);
    let sockets = found.sockets.iter();
    let sockets = sockets.map(|path| format!("socket {} of a mirror", path.display()));
    let notes = whole.chain(sockets).map(|what| Diagnostic {
        severity: Severity::Note,
        ..Diagnostic::error(format!("undone: {what}"))
    });
    let notes: Vec<Diagnostic> = notes.collect();
    let others = std::mem::take(&mut found.faults);
    let remains = warnings(faults(found));
    let mut diagnostics = match verbose {
        true => [notes, remains].concat(),
        false => [
            first_of(notes, "`-v` prints such messages one by one"),
            first_of(remains, "`iodyno clean --dry-run` lists all of it"),
        ]
        .concat(),
    };
    diagnostics.extend(warnings(others));
    diagnostics
}

/// The first of several messages of a kind, with the number of the others. `hint`: how to see all of them.
fn first_of(all: Vec<Diagnostic>, hint: &str) -> Vec<Diagnostic> {
    let others = all.len().saturating_sub(1);
    let first = all.into_iter().next();
    let first = first.map(|first| match others {
        0 => first,
        _ => Diagnostic {
            message: format!("{} (and {others} more)", first.message),
            hint: Some(match &first.hint {
                Some(own) => format!("{own}; {hint}"),
                None => hint.to_owned(),
            }),
            ..first
        },
    });
    first.into_iter().collect()
}

fn warnings(faults: Vec<Diagnostic>) -> Vec<Diagnostic> {
    let faults = faults.into_iter();
    let warnings = faults.map(|fault| Diagnostic {
        severity: Severity::Warning,
        ..fault
    });
    warnings.collect()
}

fn of_another(user: &OtherUser) -> String {
    let name = on_one_line(&user.name);
    let count = counted(user.journals, "journal");
    format!(
        "{count} of the user {name} in {} not looked at: run `runuser -u {name} -- iodyno clean`",
        on_one_line(&user.folder.display().to_string())
    )
}

fn faults(found: Cleaned) -> Vec<Diagnostic> {
    let remains = found.orphans.into_iter().flat_map(|orphan| {
        let token = orphan.token;
        orphan.faults.into_iter().map(move |fault| Diagnostic {
            message: format!(
                "storage `{token}` is not undone completely: {}",
                fault.message
            ),
            ..fault
        })
    });
    remains.chain(found.faults).collect()
}

fn headline(orphan: &Orphan) -> String {
    format!(
        "storage `{}` of configuration `{}`: {}",
        orphan.token,
        on_one_line(&orphan.configuration),
        orphan.why
    )
}

fn text(found: &Cleaned, dry_run: bool) -> String {
    if *found
        == (Cleaned {
            others: found.others.clone(),
            ..Cleaned::default()
        })
    {
        return "nothing to undo\n".to_owned();
    }
    let verb = if dry_run { "would undo" } else { "undone" };
    let mut text = String::new();
    for orphan in &found.orphans {
        text += &headline(orphan);
        text.push('\n');
        for what in &orphan.undone {
            text += &format!("  {verb}: {}\n", on_one_line(what));
        }
    }
    for socket in &found.sockets {
        let path = on_one_line(&socket.display().to_string());
        text += &format!("socket of a mirror whose server has ended\n  {verb}: socket {path}\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(faults: Vec<Diagnostic>) -> Cleaned {
        Cleaned {
            orphans: vec![Orphan {
                token: "0a1b".to_owned(),
                configuration: "ext4".to_owned(),
                why: "process 7 has ended".to_owned(),
                undone: vec!["mount of ext4 at /x".to_owned(), "folder /x".to_owned()],
                faults,
            }],
            faults: Vec::new(),
            ..Cleaned::default()
        }
    }

    #[test]
    fn the_command_for_the_journals_of_another_user_is_told() {
        let other = OtherUser {
            name: "ada".to_owned(),
            folder: "/home/ada/.local/state/iodyno/journal".into(),
            journals: 2,
        };
        assert_eq!(
            of_another(&other),
            "2 journals of the user ada in /home/ada/.local/state/iodyno/journal not looked at: run \
             `runuser -u ada -- iodyno clean`"
        );
    }

    #[test]
    fn what_was_undone_is_listed_and_what_remains_is_an_error() {
        assert_eq!(text(&Cleaned::default(), false), "nothing to undo\n");
        // Remaining storage is reported.
        let fault = Cleaned {
            faults: vec![Diagnostic::error("process 7 still undoes the target")],
            ..Cleaned::default()
        };
        assert_eq!(text(&fault, false), "");
        let listed = "storage `0a1b` of configuration `ext4`: process 7 has ended\n  \
                      would undo: mount of ext4 at /x\n  would undo: folder /x\n";
        assert_eq!(text(&found(Vec::new()), true), listed);
        let socket = Cleaned {
            sockets: vec!["/run/iodyno/mirror-1.sock".into()],
            ..Cleaned::default()
        };
        let listed = "socket of a mirror whose server has ended\n  undone: socket /run/iodyno/mirror-1.sock\n";
        assert_eq!(text(&socket, false), listed);
        let cut = || found(vec![Diagnostic::error("cannot remove `/x`")]);
        let why = "storage `0a1b` is not undone completely: cannot remove `/x`";
        assert_eq!(faults(cut())[0].message, why);
        let diagnostics = |found| {
            let diagnostics = remarks(found, false).into_iter();
            diagnostics
                .map(|diagnostics| diagnostics.message)
                .collect::<Vec<_>>()
        };
        let whole = "undone: storage `0a1b` of configuration `ext4`: process 7 has ended";
        assert_eq!(diagnostics(found(Vec::new())), [whole]);
        assert_eq!(diagnostics(cut()), [why]);
    }

    #[test]
    fn a_run_reports_many_leftovers_of_a_kind_by_one_message() {
        let orphan = |token: &str, faults| Orphan {
            token: token.to_owned(),
            ..found(faults).orphans.remove(0)
        };
        let fault = || vec![Diagnostic::error("in use").hint("end the process")];
        let many = || Cleaned {
            orphans: vec![
                orphan("a", Vec::new()),
                orphan("b", fault()),
                orphan("c", Vec::new()),
                orphan("d", fault()),
                orphan("e", fault()),
            ],
            ..Cleaned::default()
        };
        let told: Vec<(String, Option<String>)> = (remarks(many(), false).into_iter())
            .map(|it| (it.message, it.hint))
            .collect();
        let expected = [
            (
                "undone: storage `a` of configuration `ext4`: process 7 has ended (and 1 more)",
                "`-v` prints such messages one by one",
            ),
            (
                "storage `b` is not undone completely: in use (and 2 more)",
                "end the process; `iodyno clean --dry-run` lists all of it",
            ),
        ];
        let expected = expected.map(|(message, hint)| (message.to_owned(), Some(hint.to_owned())));
        assert_eq!(told, expected);
        assert_eq!(remarks(many(), true).len(), 5);
    }
}
