//! The experiment that is read.

use std::collections::BTreeMap;
use std::path::Path;

use iodyno_fio::Host;
use iodyno_model::{Place, PlannedNode};

use crate::document::Report;
use crate::params::Variables;

/// What a text is read with.
pub struct Context<'a> {
    /// The name of the text in messages; job files are relative to its folder.
    pub source: &'a str,
    /// The current folder: relative targets start here.
    pub folder: &'a Path,
    /// `--set NAME=VALUE`: parameters, and `scale` for a preset.
    pub settings: &'a [(String, String)],
    /// `--node NAME=ADDRESS`: the nodes, or the addresses of those of the text.
    pub nodes: &'a [PlannedNode],
    /// Reads job files.
    pub host: &'a dyn Host,
}

/// An experiment with what is known of it so far.
pub(super) struct File<'c, 'r, 't> {
    pub(super) context: &'c Context<'c>,
    pub(super) report: &'r mut Report<'t>,
    /// The parameters.
    pub(super) variables: Variables,
    /// The metrics that commands of the text print.
    pub(super) printed: Vec<String>,
    /// As in [`Experiment::places`].
    pub(super) places: BTreeMap<String, Place>,
}
