//! What a run tells while it goes.

use iodyno_model::{Comparison, Configuration, Diagnostic, Trial, Workload};
use iodyno_runner::Event;
use iodyno_store::{RunHandle, StoreError};

/// A trial that has ended.
#[derive(Debug)]
pub struct Ended<'a> {
    /// From 1, in the order in which the trials are made.
    pub number: u32,
    /// What was done.
    pub workload: &'a Workload,
    /// What came of it. Its frames are without histograms: the store has those.
    pub trial: &'a Trial,
    /// Why it was refused or could not be made ready: every reason.
    pub faults: &'a [Diagnostic],
    /// Why it could not be stored, if it could not.
    pub unstored: Option<&'a StoreError>,
}

/// What a run tells while it goes.
#[derive(Debug)]
pub enum Progress<'a> {
    /// The plan is stored, or the run taken over; the first trial is next.
    Begun(RunHandle),
    /// The host is to come to rest before the next trial; it may take a while.
    Settling,
    /// A trial begins.
    Trial {
        /// From 1; of a resumed run, those made before are counted.
        number: u32,
        /// Cells × rounds.
        of: u32,
        /// On what.
        configuration: &'a Configuration,
        /// What is done.
        workload: &'a Workload,
    },
    /// What its node tells.
    Node(&'a Event),
    /// The store fails; results are kept in memory and tried again.
    StoreFails(&'a StoreError),
    /// … and works again; nothing is missing.
    StoreRecovered,
    /// A trial has ended.
    Ended(Ended<'a>),
    /// Something that the user should know, once: caches are not dropped, a cell is given up.
    Note(&'a str),
    /// A round is whole.
    Round {
        /// Rounds that are whole.
        done: u32,
        /// Rounds there are to be, at most.
        of: u32,
        /// What the others may take, judged by those measured; less if a rule to stop ends the run,
        /// ns. `None` after the last of them.
        left_ns: Option<u64>,
        /// What the trials say until now; `None` where there is nothing to compare.
        comparison: Option<&'a Comparison>,
    },
}
