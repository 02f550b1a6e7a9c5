//! `iodyno delete`: deletes runs from the store; and `iodyno name`: renames a run.

use iodyno_model::printable::on_one_line;
use iodyno_model::{Diagnostic, RunSummary};
use iodyno_store::{SqliteStore, Store};
use iodyno_units::{counted, list};

use crate::args::{DeleteArgs, NameArgs};
use crate::begun;
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::observations::{find_runs, name_fault};
use crate::screen::write_out;

/// Deletes all of the named runs, or none, and names them.
pub(crate) fn delete(args: &DeleteArgs, context: &Context) -> Result<Exit, Failure> {
    let store = existing(context)?;
    let stored = store.runs(usize::MAX, 0)?;
    // Damage can concern anything but a run's number.
    let is_damaged = |name: &String| {
        let mut damaged = stored.iter().filter(|run| run.damaged.is_some());
        damaged.any(|run| run.alias.to_string() == name.trim())
    };
    let (damaged, whole): (Vec<String>, Vec<String>) =
        args.runs.iter().cloned().partition(is_damaged);
    let ids = find_runs(&whole, &store)?;
    let named = |run: &&RunSummary| {
        ids.contains(&run.id)
            || damaged
                .iter()
                .any(|name| run.alias.to_string() == name.trim())
    };
    let (mut aliases, mut deleted, mut output) = (Vec::new(), Vec::new(), String::new());
    for run in stored.iter().rev().filter(named) {
        aliases.push(run.alias);
        deleted.push(run.id);
        output += &format!(
            "deleted run {} `{}`: {}, {}\n",
            run.alias,
            on_one_line(&run.name),
            match run.damaged {
                Some(_) => "damaged",
                None => run.state.name(),
            },
            counted(run.trials_completed + run.imported, "trial"),
        );
    }
    store.delete_runs(&aliases)?;
    deleted.into_iter().for_each(begun::forget);
    write_out(output)?;
    Ok(Exit::Fine)
}

/// Renames a run.
pub(crate) fn name(args: &NameArgs, context: &Context) -> Result<Exit, Failure> {
    let store = existing(context)?;
    let run = store.run(store.find(&args.run)?)?.summary;
    let name = args.name.trim();
    if let Some(fault) = name_fault(name) {
        return Err(Failure::one(fault));
    }
    store.rename_run(run.id, name)?;
    let runs = store.runs(usize::MAX, 0)?.into_iter();
    let namesakes = runs.filter(|other| other.name == name && other.id != run.id);
    let mut namesakes: Vec<u64> = namesakes.map(|other| other.alias).collect();
    namesakes.sort_unstable();
    if !namesakes.is_empty() {
        let noun = if namesakes.len() > 1 { "runs" } else { "run" };
        let (name, which) = (on_one_line(name), list(&namesakes));
        let fault = format!("the name `{name}` is also that of {noun} {which}");
        let hint = "a command that gets this name does not know which run is meant: use the number, or another name";
        context.tell(&[Diagnostic::warning(fault).hint(hint)]);
    }
    write_out(format!(
        "run {} `{}` is now `{}`\n",
        run.alias,
        on_one_line(&run.name),
        on_one_line(name)
    ))?;
    Ok(Exit::Fine)
}

/// Opens the store for changes. An error if it does not exist or cannot be written.
fn existing(context: &Context) -> Result<SqliteStore, Failure> {
    context.store_to_read()?;
    context.store()
}
