//! `iodyno clean`: undoes storage that iodyno made and whose process has died.

use iodyno_model::printable::on_one_line;
use iodyno_model::{Diagnostic, Severity};
use iodyno_runner::{Cleaned, Node, Orphan, OtherUser, StopFlag};
use iodyno_units::counted;

use crate::args::CleanArgs;
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::screen::write_out;
use crate::targets::local_node;

/// Undoes all such storage, or lists it.
pub(crate) fn clean(args: &CleanArgs, context: &Context) -> Result<Exit, Failure> {
    let node = local_node(context)?;
    let found = node.clean(args.dry_run, &StopFlag::new(), &mut |_| ());
    let found = found.map_err(|faults| Failure {
        exit: Exit::CheckFailed,
        faults,
    })?;
    write_out(text(&found, args.dry_run))?;
    for other in &found.others {
        context.note(&of_another(other));
    }
    let faults = faults(found);
    match faults.is_empty() {
        true => Ok(Exit::Fine),
        false => Err(Failure {
            exit: Exit::CheckFailed,
            faults,
        }),
    }
}

/// Undoes all such storage before a run makes more. What remains is a warning.
pub(crate) fn clean_before_run(node: &dyn Node, stop: &StopFlag, context: &Context) {
    let found = node.clean(false, stop, &mut |_| ());
    let (orphans, faults) = match found {
        Ok(found) => (found.orphans.clone(), faults(found)),
        Err(faults) => (Vec::new(), faults),
    };
    let notes = orphans.iter().map(|orphan| Diagnostic {
        severity: Severity::Note,
        ..Diagnostic::error(format!("undone: {}", headline(orphan)))
    });
    let warnings = faults.into_iter().map(|fault| Diagnostic {
        severity: Severity::Warning,
        ..fault
    });
    context.tell(&notes.chain(warnings).collect::<Vec<_>>());
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
    if found.orphans.is_empty() {
        return "nothing to undo\n".to_owned();
    }
    let verb = if dry_run { "would undo" } else { "undone" };
    let mut text = String::new();
    for orphan in &found.orphans {
        text += &headline(orphan);
        text.push('\n');
        // What failed is reported as an error.
        let done = orphan.undone.len() - orphan.faults.len().min(orphan.undone.len());
        for what in &orphan.undone[..done] {
            text += &format!("  {verb}: {}\n", on_one_line(what));
        }
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
            others: Vec::new(),
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
        let listed = "storage `0a1b` of configuration `ext4`: process 7 has ended\n  \
                      would undo: mount of ext4 at /x\n  would undo: folder /x\n";
        assert_eq!(text(&found(Vec::new()), true), listed);
        let cut = found(vec![Diagnostic::error("cannot remove `/x`")]);
        let listed = "storage `0a1b` of configuration `ext4`: process 7 has ended\n  \
                      undone: mount of ext4 at /x\n";
        assert_eq!(text(&cut, false), listed);
        assert_eq!(
            faults(cut)[0].message,
            "storage `0a1b` is not undone completely: cannot remove `/x`"
        );
    }
}
