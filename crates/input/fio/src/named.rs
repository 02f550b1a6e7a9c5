//! The built-in jobs of reads and writes, which need no job file: `iodyno run randread --on .`.

use std::io;
use std::path::Path;

use crate::{Host, Parsed, SystemHost, parse_files};

/// A built-in job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedJob {
    /// Its name.
    pub name: &'static str,
    /// What it does.
    pub about: &'static str,
    /// Its job file.
    pub text: &'static str,
}

macro_rules! jobs {
    ($($name:literal, $about:literal, $options:literal;)+) => {
        &[$(NamedJob {
            name: $name,
            about: $about,
            text: concat!("[", $name, "]\n", $options, "\nsize=1g\nfilename=data\ntime_based=1\nruntime=5s\n"),
        }),+]
    };
}

/// All of them, in the order of lists.
pub static NAMED_JOBS: &[NamedJob] = jobs! {
    "randread", "random reads of 4 KiB, 32 in flight", "ioengine=io_uring\niodepth=32\ndirect=1\nrw=randread\nbs=4k";
    "randread-1", "random reads of 4 KiB, one at a time", "ioengine=io_uring\niodepth=1\ndirect=1\nrw=randread\nbs=4k";
    "randwrite", "random writes of 4 KiB, 32 in flight", "ioengine=io_uring\niodepth=32\ndirect=1\nrw=randwrite\nbs=4k";
    "randrw", "7 random reads to 3 writes of 4 KiB, 32 in flight",
        "ioengine=io_uring\niodepth=32\ndirect=1\nrw=randrw\nrwmixread=70\nbs=4k";
    "seqread", "sequential reads of 1 MiB, 8 in flight", "ioengine=io_uring\niodepth=8\ndirect=1\nrw=read\nbs=1m";
    "seqwrite", "sequential writes of 1 MiB, 8 in flight", "ioengine=io_uring\niodepth=8\ndirect=1\nrw=write\nbs=1m";
    "synced", "sequential writes of 4 KiB, each with an fdatasync", "ioengine=psync\nrw=write\nbs=4k\nfdatasync=1";
    "buffered", "sequential writes of 1 MiB through the page cache, with an fsync at the end",
        "ioengine=psync\nrw=write\nbs=1m\nend_fsync=1";
};

impl NamedJob {
    /// The one with this name.
    pub fn named(name: &str) -> Option<&'static NamedJob> {
        NAMED_JOBS.iter().find(|job| job.name == name)
    }

    /// Its workload. `overrides` are options that take precedence over its own.
    pub fn parsed(&self, overrides: &[(String, String)]) -> Parsed {
        parse_files(&[self.name.into()], overrides, &BuiltIn(self.text))
    }
}

/// A host with one text in each file.
struct BuiltIn(&'static str);

impl Host for BuiltIn {
    fn read(&self, _: &Path) -> io::Result<String> {
        Ok(self.0.to_owned())
    }

    fn env(&self, _: &str) -> Option<String> {
        None
    }

    fn page_size(&self) -> u64 {
        SystemHost.page_size()
    }

    fn cpus(&self) -> u32 {
        SystemHost.cpus()
    }

    fn memory_mb(&self) -> u64 {
        SystemHost.memory_mb()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_job_can_be_run_and_has_its_name() {
        for job in NAMED_JOBS {
            let parsed = job.parsed(&[("size".to_owned(), "64m".to_owned())]);
            assert!(
                parsed.diagnostics.is_empty(),
                "{}: {:?}",
                job.name,
                parsed.diagnostics
            );
            let workload = parsed.workload.unwrap();
            assert_eq!((workload.name.as_str(), workload.jobs.len()), (job.name, 1));
            assert_eq!(workload.jobs[0].name, job.name);
        }
    }
}
