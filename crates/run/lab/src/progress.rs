//! The events of a run.

use std::path::PathBuf;

use iodyno_model::{Comparison, Configuration, Diagnostic, Settling, Trial, Workload};
use iodyno_runner::Event;
use iodyno_store::{RunHandle, StoreError};

/// A trial that has ended.
#[derive(Debug)]
pub struct Ended<'a> {
    /// From 1, in the order of the trials.
    pub number: u32,
    /// The workload.
    pub workload: &'a Workload,
    /// The result. Its frames are without histograms, which are only in the store.
    pub trial: &'a Trial,
    /// All reasons why it was refused or could not be prepared.
    pub faults: &'a [Diagnostic],
    /// Why it could not be stored.
    pub unstored: Option<&'a StoreError>,
    /// Whether it failed and is repeated: another attempt follows, which counts instead.
    pub repeated: bool,
}

/// An event of a run.
#[derive(Debug)]
pub enum Progress<'a> {
    /// The plan is stored, or the run is resumed; the first trial follows.
    Begun(RunHandle),
    /// Brings the host into the same state before the next trial, which can take some time.
    Settling {
        /// The current step or wait.
        settling: Settling,
        /// The paths whose devices must become idle.
        targets: &'a [PathBuf],
    },
    /// The storage of a configuration is being made or prepared, which can take minutes.
    Storage {
        /// The configuration.
        configuration: &'a Configuration,
        /// The current step.
        step: &'a str,
    },
    /// A cell is tried out before the first round.
    Probe {
        /// The configuration.
        configuration: &'a Configuration,
        /// The workload.
        workload: &'a Workload,
    },
    /// A trial begins.
    Trial {
        /// From 1; includes the trials of earlier sessions of a resumed run.
        number: u32,
        /// Cells × rounds.
        of: u32,
        /// The configuration.
        configuration: &'a Configuration,
        /// The workload.
        workload: &'a Workload,
        /// The load of a search, in the unit of its axis.
        load: Option<f64>,
    },
    /// An event of the trial's node.
    Node(&'a Event),
    /// The store fails; results are kept in memory and written later.
    StoreFails(&'a StoreError),
    /// The store works again; no results are missing.
    StoreRecovered,
    /// A trial has ended.
    Ended(Ended<'a>),
    /// A message for the user: caches are not dropped, a cell is given up. Reported once.
    Note(&'a str),
    /// Storage that was made is not undone completely, and why. Reported once.
    NotUndone(&'a str),
    /// A round is complete.
    Round {
        /// Complete rounds.
        done: u32,
        /// The maximum number of rounds.
        of: u32,
        /// The estimated time of the remaining rounds, ns; less if a stopping rule ends the run. `None` after the last
        /// round.
        left_ns: Option<u64>,
        /// The comparison of all trials so far; `None` if nothing can be compared.
        comparison: Option<&'a Comparison>,
    },
}
