//! Makes, changes and undoes storage, in the helper process.

use std::time::Duration;

use iodyno_model::Diagnostic;
use iodyno_storage::layers;

use crate::node::control::Control;
use crate::node::message_writer::MessageSender;
use crate::protocol::{Message, StorageAnswer, StorageWork};

/// Interval between attempts to undo storage after the parent has ended: trials that use it end meanwhile.
const AGAIN: Duration = Duration::from_secs(1);
/// The number of attempts.
const ATTEMPTS: u32 = 60;

/// Undoes remaining storage whose parent has ended.
pub(crate) fn undo_kept(tokens: &[String]) {
    for attempt in 1..=ATTEMPTS {
        let faults: Vec<Diagnostic> = layers::tear_down(tokens, &|_| ())
            .into_iter()
            .flat_map(|torn_down| torn_down.faults)
            .collect();
        let Some(fault) = faults.first() else { return };
        tracing::warn!(attempt, fault.message, "storage is not undone completely");
        std::thread::sleep(AGAIN);
    }
}

/// Does the work, in the helper process.
pub(crate) fn carry_out(
    work: StorageWork,
    control: &Control,
    messages: &MessageSender,
) -> StorageAnswer {
    let stop = || control.stop.is_set();
    let progress = |what: &str| {
        let answer = StorageAnswer::Told(what.to_owned());
        messages.send(Message::Storage { answer });
    };
    match work {
        StorageWork::Check(requests) => StorageAnswer::Checked(layers::check(&requests, &stop)),
        StorageWork::Provision(request, owner) => {
            StorageAnswer::Provisioned(layers::provision(&request, owner, &stop, &progress))
        }
        StorageWork::Change(token, change) => {
            StorageAnswer::Changed(layers::change(&token, change, &stop, &progress))
        }
        StorageWork::TearDown(tokens) => {
            StorageAnswer::TornDown(layers::tear_down(&tokens, &progress))
        }
        StorageWork::Clean { dry_run } => StorageAnswer::Cleaned(layers::clean(dry_run, &progress)),
    }
}
