//! The lines above a table.

use iodyno_model::Workload;

use crate::style::sanitize;

/// `Running benchmark: NAME` and `Description: …`, each with a newline.
pub fn opening(workload: &Workload) -> String {
    let about = workload.jobs.iter().find_map(|job| {
        let operations = job.work.file_operations()?;
        (!operations.about.is_empty()).then(|| sanitize(&operations.about))
    });
    let about = about.map_or(String::new(), |about| format!("Description: {about}\n"));
    format!("Running benchmark: {}\n{about}", sanitize(&workload.name))
}
