//! `iodyno experiments`: lists the ready-made experiments, or prints one.

use iodyno_experiment::{READY_MADE, ReadyMade};
use iodyno_model::{Diagnostic, closest};
use iodyno_report::experiments::{ListRow, list, list_json};

use crate::args::ExperimentsArgs;
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::screen::write_out;

/// Prints the list, or the text of one.
pub(crate) fn experiments(args: &ExperimentsArgs, context: &Context) -> Result<Exit, Failure> {
    let text = match &args.name {
        Some(name) => match ReadyMade::named(name) {
            Some(found) => found.text.to_owned(),
            None => return Err(Failure::one(unknown(name))),
        },
        None => {
            let rows: Vec<ListRow> = READY_MADE.iter().map(row).collect();
            match args.json {
                true => list_json(&rows),
                false => list("iodyno run …", &rows, context.style_out()),
            }
        }
    };
    write_out(text)?;
    Ok(Exit::Fine)
}

fn row(experiment: &ReadyMade) -> ListRow {
    ListRow {
        name: experiment.name.to_owned(),
        about: experiment.about(),
        parameters: experiment.required(),
    }
}

fn unknown(name: &str) -> Diagnostic {
    let near = closest(name, READY_MADE.iter().map(|it| it.name));
    let near = near.map_or(String::new(), |near| format!("did you mean `{near}`? "));
    Diagnostic::error(format!("unknown experiment `{name}`"))
        .hint(format!("{near}`iodyno experiments` lists the names"))
}
