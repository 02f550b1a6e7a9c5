//! Events of the targets of a node, passed on in the thread of the run.

use iodyno_model::{CommandRun, Plan, TrialKey};

use crate::{Lab, Progress};

/// An event of the targets of a node.
pub(crate) enum TargetEvent {
    /// A step of making the target of this configuration begins.
    Step(usize, String),
    /// See [`Progress::Note`].
    Note(String),
    /// See [`Progress::NotUndone`].
    NotUndone(String),
    /// The commands that undid a target, which belong to its latest trial.
    Undone {
        latest: TrialKey,
        configuration: usize,
        node: String,
        commands: Vec<CommandRun>,
    },
}

/// Receives events in the thread of the node.
pub(crate) type Tell<'t> = dyn FnMut(TargetEvent) + 't;

/// Passes on the events of the targets of a node, in the thread of the run.
pub(crate) fn pass_on(
    event: TargetEvent,
    lab: &Lab<'_>,
    plan: &Plan,
    observer: &mut dyn FnMut(Progress<'_>),
) {
    match event {
        TargetEvent::Step(configuration, step) => observer(Progress::Storage {
            configuration: &plan.configurations[configuration],
            step: &step,
        }),
        TargetEvent::Note(text) => observer(Progress::Note(&text)),
        TargetEvent::NotUndone(text) => observer(Progress::NotUndone(&text)),
        TargetEvent::Undone {
            latest,
            configuration,
            node,
            commands,
        } => {
            if let Err(error) = lab.store.add_commands(latest, &node, &commands) {
                let name = &plan.configurations[configuration].name;
                observer(Progress::Note(&format!(
                    "the commands that undid the storage of {name} are not stored: {error}"
                )));
            }
        }
    }
}
