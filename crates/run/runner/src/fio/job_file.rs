//! A workload as a job file for the fio of a node.

use std::fmt::Write as _;
use std::path::Path;

use iodyno_model::printable::{on_one_line, steers};
use iodyno_model::{BoundPlan, Diagnostic, EngineKind, Job, Target};

use crate::faults::{fault, of_job};

/// Options with a value of a fixed form that still name files, change the host, or are required for the start.
const REFUSED: [&str; 13] = [
    "allow_mounted_write",
    "cgroup_nodelete",
    "cgroup_weight",
    "gid",
    "lockmem",
    "mem",
    "per_job_logs",
    "uid",
    "verify_dump",
    "verify_state_load",
    "verify_state_save",
    "zone_reset_threshold",
    "zonemode",
];

/// Options with texts that name only files in the folder of the trial, and jobs.
const TEXTS: [&str; 2] = ["filename_format", "wait_for"];

/// Options that are written in another way, or that concern reports only.
const LEFT_OUT: [&str; 7] = [
    "description",
    "directory",
    "filename",
    "group_reporting",
    "name",
    "thread",
    "unique_filename",
];

/// Whether fio takes a text in its job files literally: on one line, without comments, variables or quoted file names.
fn plain(text: &str) -> bool {
    text.trim() == text && !text.chars().any(|c| steers(c) || ";#$\\'".contains(c))
}

/// The location of the jobs' files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Place {
    /// In this folder, which is the trial's own.
    Folder(String),
    /// This file or device.
    Only(String),
}

/// The path of the target, if known and usable in a job file.
pub(super) fn target(plan: &BoundPlan) -> Result<&str, Diagnostic> {
    let Target::Path(path) = &plan.configuration.target else {
        return Err(fault(
            "a node with fio needs a folder, file or device as its target",
            "add `--on NAME=PATH` with a path of the node",
        ));
    };
    let usable = |text: &&str| path.is_absolute() && plain(text) && !text.contains('"');
    path.to_str().filter(usable).ok_or_else(|| {
        fault(
            format!(
                "fio's job files cannot contain the path `{}`",
                path.display()
            ),
            "use an absolute path without control characters, quotes, `;`, `#`, `$` and `\\`, and without a blank at its end",
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
    let name = job.name.as_str();
    if !plain(name)
        || name.is_empty()
        || name.contains(['[', ']', '/'])
        || name.starts_with("global")
    {
        faults.push(fault(
            "fio cannot have a job of this name",
            "leave out brackets, quotes, `/`, `;`, `#`, `$`, `\\` and blanks at the ends, and do not begin it with `global`",
        ));
    }
    let options = job.options.iter();
    for (name, value) in options.filter(|(name, _)| !LEFT_OUT.contains(&name.as_str())) {
        let known = TEXTS.contains(&name.as_str()) || iodyno_fio::has_fixed_form(name);
        if !known || REFUSED.contains(&name.as_str()) {
            faults.push(fault(
                format!("`{}` cannot be used on a node with fio", on_one_line(name)),
                "leave it out, or use a node with iodyno",
            ));
        } else if name == "filename_format" && value.contains('/') {
            faults.push(fault(
                "`filename_format` leads out of the trial's folder",
                "leave out `/`",
            ));
        } else if !plain(&match name.as_str() {
            // fio's own variables, but not environment variables.
            "filename_format" if !value.contains("${") => value.replace('$', ""),
            _ => value.clone(),
        }) {
            faults.push(fault(
                format!("fio's job files cannot contain the value of `{name}`"),
                "leave out control characters, `;`, `#`, `$`, `\\`, `'` and blanks at the ends",
            ));
        }
    }
    // A plan from another host can name a different engine than that of its work, which decides what is examined.
    let engine = job.options.get("ioengine").map_or("psync", String::as_str);
    if iodyno_fio::backend(engine) != Some(blocks.engine.kind) {
        faults.push(fault(
            format!(
                "`ioengine={}` cannot be used on a node with fio",
                on_one_line(engine)
            ),
            "choose another `ioengine=`",
        ));
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
    name.replace(|c: char| steers(c) || ";#$\\\"'".contains(c), "_")
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

    #[test]
    fn only_plain_options_reach_fio() {
        let mut bases = vec![
            ("bs", "4k\nexec_postrun=x"),
            ("bs", "4k ; x"),
            ("bs", "'/f'"),
        ];
        bases.extend([
            ("exec_postrun ", "x"),
            (" exec_prerun", "x"),
            ("exec_prerun", "x"),
            ("bs=4k\nexec_postrun", "x"),
            ("include /etc/fio", ""),
            ("include", "/etc/fio"),
            ("[global]", ""),
            ("[evil]\nexec_postrun", "x"),
            ("EXEC_POSTRUN", "x"),
            ("blocksize", "4k"),
            ("program", "/evil"),
            ("arguments", "x"),
            ("ioengine", "exec"),
            ("ioengine", "external:/evil.so"),
            ("ioengine", "/evil.so"),
            ("ioengine", "libaio"),
            ("ioengine", "filecreate"),
            ("ioengine", "net"),
            ("hostname", "evil"),
            ("uri", "nbd://evil/x"),
            ("opendir", "/etc"),
            ("write_lat_log", "/etc/x"),
            ("write_hist_log", "x"),
            ("write_iolog", "/etc/x"),
            ("read_iolog", "/etc/x"),
            ("read_iolog", "`x`"),
            ("replay_redirect", "/dev/x"),
            ("merge_blktrace_file", "/etc/x"),
            ("verify_state_save", "1"),
            ("verify_dump", "1"),
            ("filename_format", "../x"),
            ("filename_format", "${HOME}"),
            ("buffer_pattern", "'/etc/shadow'"),
            ("cgroup", "x"),
            ("cgroup_nodelete", "1"),
            ("ioscheduler", "none"),
            ("mem", "mmaphuge:/evil"),
            ("lockmem", "1g"),
            ("uid", "0"),
            ("gid", "0"),
            ("allow_mounted_write", "1"),
            ("wait_for", "a$b"),
            ("profile", "x"),
            ("dp_scheme", "/etc/x"),
            ("comm", "x"),
        ]);
        for (name, value) in bases {
            let mut own = job("a");
            own.options.insert(name.to_owned(), value.to_owned());
            let found = faults(&on("/mnt", vec![own]));
            assert_eq!(found.len(), 1, "{name:?}={value:?}: {found:?}");
        }
        for (name, value) in [
            ("filename_format", "$jobname.$filenum"),
            ("buffer_pattern", "0xdead"),
            ("bssplit", "4k/60:64k/40"),
            ("hugepage-size", "2m"),
            ("stonewall", ""),
        ] {
            let mut own = job("a");
            own.options.insert(name.to_owned(), value.to_owned());
            assert_eq!(faults(&on("/mnt", vec![own])), [], "{name}={value}");
        }
        // The engine of its work is another one.
        let mut own = job("a");
        own.options
            .insert("ioengine".to_owned(), "psync".to_owned());
        own.work.engine_mut().unwrap().kind = EngineKind::Null;
        assert_eq!(faults(&on("/mnt", vec![own])).len(), 1);
        for name in [
            "",
            " a",
            "a ",
            "../../etc/x",
            "/dev/sda",
            "a$b",
            "a\u{202e}b",
        ] {
            assert_eq!(faults(&on("/mnt", vec![job(name)])).len(), 1, "{name:?}");
        }
        for path in ["/mnt ", "/${HOME}", "/m'n", "/m\nt", "mnt"] {
            assert_eq!(faults(&on(path, vec![job("a")])).len(), 1, "{path:?}");
        }
    }
}
