//! A workload as a job file for the fio of a node.

use std::fmt::Write as _;
use std::path::Path;

use iodyno_model::{BoundPlan, Diagnostic, EngineKind, Job, Target};

use crate::faults::{fault, of_job};

/// Options that name files outside the folder of the trial, change the host, or are needed for the start.
const REFUSED: [&str; 22] = [
    "cgroup",
    "exec_postrun",
    "exec_prerun",
    "iolog",
    "ioscheduler",
    "merge_blktrace_file",
    "opendir",
    "per_job_logs",
    "read_iolog",
    "replay_redirect",
    "verify_dump",
    "verify_state_load",
    "verify_state_save",
    "write_bw_log",
    "write_hist_log",
    "write_iolog",
    "write_iops_log",
    "write_lat_log",
    "zone_reset_threshold",
    "zonemode",
    "cgroup_weight",
    "mem",
];

/// Options that are written in another way, or that concern reports only.
const LEFT_OUT: [&str; 8] = [
    "description",
    "directory",
    "exec_prerun",
    "filename",
    "group_reporting",
    "name",
    "thread",
    "unique_filename",
];

/// Where the files of the jobs are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Place {
    /// In this folder, which is the trial's own.
    Folder(String),
    /// This file or device.
    Only(String),
}

/// The path of the target, if it can be written into a job file and is known.
pub(super) fn target(plan: &BoundPlan) -> Result<&str, Diagnostic> {
    let Target::Path(path) = &plan.configuration.target else {
        return Err(fault(
            "a node with fio needs a folder, file or device as its target",
            "add `--on NAME=PATH` with a path of the node",
        ));
    };
    let plain = |text: &&str| {
        path.is_absolute() && !text.chars().any(|c| c.is_control() || ";#\\\"".contains(c))
    };
    path.to_str().filter(plain).ok_or_else(|| {
        fault(
            format!(
                "fio's job files cannot contain the path `{}`",
                path.display()
            ),
            "use an absolute path without control characters, `;`, `#`, `\\` and `\"`",
        )
    })
}

/// Whether any job writes or trims.
pub(super) fn writes(plan: &BoundPlan) -> bool {
    let mut jobs = plan.workload.jobs.iter();
    jobs.any(|job| {
        let access = &job.work.as_blocks().access;
        access.writes || access.trims
    })
}

/// Everything that a node with fio cannot do for this trial.
pub(super) fn faults(plan: &BoundPlan) -> Vec<Diagnostic> {
    let mut faults: Vec<Diagnostic> = target(plan).err().into_iter().collect();
    if plan.workload.search.is_some() {
        faults.push(fault(
            "a search cannot be run on a node with fio",
            "use a node with iodyno, or a fixed load",
        ));
    }
    if plan.workload.jobs.is_empty() {
        faults.push(fault(
            "a node with fio cannot be sampled only",
            "leave out `jobs = false`",
        ));
    }
    for job in &plan.workload.jobs {
        faults.extend(faults_of(job).into_iter().map(|fault| of_job(fault, job)));
    }
    faults
}

fn faults_of(job: &Job) -> Vec<Diagnostic> {
    let Some(blocks) = job.work.blocks() else {
        let message = "a node with fio runs only jobs of fio";
        return vec![fault(message, "use a node with iodyno")];
    };
    let mut faults = Vec::new();
    if blocks.engine.kind.without_files() && blocks.engine.kind != EngineKind::Null {
        let name = blocks.engine.kind.name();
        faults.push(fault(
            format!("`ioengine={name}` cannot be used on a node with fio"),
            "choose another `ioengine=`",
        ));
    }
    if job.delay.max.0 > 0 {
        faults.push(fault(
            "`startdelay` cannot be kept on a node with fio: fio counts it from its own start",
            "leave it out, or use `stonewall`",
        ));
    }
    let plain = |text: &str| !text.chars().any(|c| c.is_control() || ";#".contains(c));
    if !plain(&job.name) || job.name.contains(['[', ']']) || job.name.starts_with("global") {
        faults.push(fault(
            "fio cannot have a job of this name",
            "leave out `;`, `#` and brackets, and do not begin it with `global`",
        ));
    }
    for (name, value) in &job.options {
        if REFUSED.contains(&name.as_str()) {
            faults.push(fault(
                format!("`{name}` cannot be used on a node with fio"),
                "leave it out, or use a node with iodyno",
            ));
        } else if name == "filename_format" && value.contains('/') {
            faults.push(fault(
                "`filename_format` leads out of the trial's folder",
                "leave out `/`",
            ));
        } else if !plain(value) && !LEFT_OUT.contains(&name.as_str()) {
            faults.push(fault(
                format!("fio's job files cannot contain the value of `{name}`"),
                "leave out control characters, `;` and `#`",
            ));
        }
    }
    faults
}

/// The job file.
pub(super) fn text(plan: &BoundPlan, place: &Place) -> String {
    let mut text = String::from("[global]\n");
    // Otherwise fio's processes would survive it. Latencies with bins include the submission.
    text += "thread=1\nlat_percentiles=1\nclat_percentiles=1\n";
    for (number, job) in plan.workload.jobs.iter().enumerate() {
        let _ = writeln!(text, "[{}]", job.name);
        // The clones wait here for the start.
        let _ = writeln!(text, "exec_prerun=sh gate {number}");
        if !job.options.contains_key("randseed") {
            let _ = writeln!(text, "randseed={}", plan.seed >> 2);
        }
        let kept = job.options.iter();
        for (name, value) in kept.filter(|(name, _)| !LEFT_OUT.contains(&name.as_str())) {
            let _ = match value.is_empty() {
                true => writeln!(text, "{name}"),
                false => writeln!(text, "{name}={value}"),
            };
        }
        let names: Vec<String> = match place {
            Place::Only(path) => vec![escaped(path)],
            Place::Folder(folder) => {
                let _ = writeln!(text, "directory={}", escaped(folder));
                let blocks = job.work.as_blocks();
                let names = blocks.files.names.iter();
                names.map(|name| escaped(&inside(name))).collect()
            }
        };
        if !names.is_empty() {
            let _ = writeln!(text, "filename={}", names.join(":"));
        }
    }
    text
}

/// The name of a file within the trial's folder.
fn inside(name: &Path) -> String {
    let name = name.to_string_lossy();
    let name = name.trim_start_matches('/').replace('/', "_");
    name.replace(|c: char| c.is_control() || ";#\\\"".contains(c), "_")
}

/// fio's lists of paths are separated by colons.
fn escaped(path: &str) -> String {
    path.replace(':', "\\:")
}

/// The number of clones that start with the trial.
pub(super) fn first_wave(plan: &BoundPlan) -> usize {
    let jobs = plan.workload.jobs.iter();
    let first = jobs.filter(|job| job.after == iodyno_model::After::Start);
    first.map(|job| job.clones as usize).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::{job, plan};
    use iodyno_units::Nanos;

    fn on(path: &str, jobs: Vec<Job>) -> BoundPlan {
        let mut plan = plan("/", jobs);
        plan.configuration.target = Target::Path(path.into());
        plan
    }

    #[test]
    fn jobs_keep_their_options_and_use_only_the_place_of_the_trial() {
        let mut own = job("a");
        own.work.blocks_mut().unwrap().files.names = vec!["/etc/x".into(), "y:z".into()];
        for (name, value) in [
            ("bs", "4k"),
            ("stonewall", ""),
            ("filename", "/etc/x:y\\:z"),
            ("directory", "/etc"),
            ("thread", "0"),
            ("group_reporting", "1"),
        ] {
            own.options.insert(name.to_owned(), value.to_owned());
        }
        let plan = on("/mnt", vec![own]);
        let job_lines = |place| {
            let text = text(&plan, &place);
            let (_, own) = text.split_once("[a]\n").unwrap();
            own.to_owned()
        };
        assert_eq!(
            job_lines(Place::Folder("/mnt/iodyno-fio.7".to_owned())),
            "exec_prerun=sh gate 0\nrandseed=1\nbs=4k\nstonewall\n\
             directory=/mnt/iodyno-fio.7\nfilename=etc_x:y\\:z\n"
        );
        let device = job_lines(Place::Only("/dev/sdz".to_owned()));
        assert!(
            device.ends_with("stonewall\nfilename=/dev/sdz\n"),
            "{device}"
        );
    }

    #[test]
    fn what_fio_cannot_do_or_would_do_elsewhere_is_refused_at_once() {
        let mut late = job("late");
        late.delay.max = Nanos::SECOND;
        let mut logs = job("logs");
        let options = [("write_bw_log", "/etc/x"), ("bs", "4k\nfilename=/dev/sda")];
        for (name, value) in options {
            logs.options.insert(name.to_owned(), value.to_owned());
        }
        let found = faults(&on("/m;t", vec![late, logs, job("x]\n[y")]));
        let found: Vec<String> = found.into_iter().map(|fault| fault.message).collect();
        assert_eq!(found.len(), 5, "{found:?}");
        for (fault, words) in found.iter().zip([
            "the path `/m;t`",
            "job `late`: `startdelay`",
            "job `logs`: fio's job files cannot contain the value of `bs`",
            "job `logs`: `write_bw_log`",
            "fio cannot have a job of this name",
        ]) {
            assert!(fault.contains(words), "{fault}");
        }
        assert_eq!(faults(&on("/mnt", vec![job("a")])), []);
    }
}
