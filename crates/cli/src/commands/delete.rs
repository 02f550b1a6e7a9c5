//! `iodyno delete`: deletes runs from the store; and `iodyno name`: gives a run another name.

use iodyno_model::Diagnostic;
use iodyno_model::printable::on_one_line;
use iodyno_store::{SqliteStore, Store};
use iodyno_units::counted;

use crate::args::{DeleteArgs, NameArgs};
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::observations::find_runs;
use crate::screen::write_out;

/// Deletes all of the named runs, or none, and names them.
pub(crate) fn delete(args: &DeleteArgs, context: &Context) -> Result<Exit, Failure> {
    let store = existing(context)?;
    let mut ids = Vec::new();
    let mut told = String::new();
    for id in find_runs(&args.runs, &store)? {
        if ids.contains(&id) {
            continue;
        }
        let run = store.run(id)?.summary;
        told += &format!(
            "deleted run {} `{}`: {}, {}\n",
            run.alias,
            on_one_line(&run.name),
            run.state.name(),
            counted(run.trials_completed + run.imported, "trial"),
        );
        ids.push(id);
    }
    store.delete_runs(&ids)?;
    write_out(told)?;
    Ok(Exit::Fine)
}

/// Gives a run another name.
pub(crate) fn name(args: &NameArgs, context: &Context) -> Result<Exit, Failure> {
    let store = existing(context)?;
    let run = store.run(store.find(&args.run)?)?.summary;
    let name = args.name.trim();
    let taken = name.parse::<u64>().is_ok() || name == "last" || name.starts_with("last~");
    if name.is_empty() || taken {
        let fault = format!("`{}` cannot be the name of a run", on_one_line(name));
        let hint = "a name is not empty, not a number and not `last`, which stand for other runs";
        return Err(Failure::one(Diagnostic::error(fault).hint(hint)));
    }
    store.rename_run(run.id, name)?;
    write_out(format!(
        "run {} `{}` is now `{}`\n",
        run.alias,
        on_one_line(&run.name),
        on_one_line(name)
    ))?;
    Ok(Exit::Fine)
}

/// The store, to change what it has: an error if it does not exist or cannot be written.
fn existing(context: &Context) -> Result<SqliteStore, Failure> {
    context.store_to_read()?;
    context.store()
}
