//! `iodyno schema`: prints the JSON Schema of experiments.

use crate::exit::Exit;
use crate::failure::Failure;
use crate::screen::write_out;

/// Prints the schema.
pub(crate) fn schema() -> Result<Exit, Failure> {
    let schema = iodyno_experiment::schema();
    write_out(format!("{schema:#}\n"))?;
    Ok(Exit::Fine)
}
