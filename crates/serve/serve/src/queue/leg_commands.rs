//! The commands of one queue of a mirror to one leg.

use std::sync::Arc;

use iodyno_mirror::{Command, LegQueue, QueueSettings, Transfer};

use super::shared::Queues;

/// The requests of a queue that wait for a leg, and its commands in flight. A command takes one of the places of the
/// leg, which all queues share (`Board`); the board also knows the number of the requests.
#[derive(Debug)]
pub(crate) struct LegCommands {
    queues: Arc<Queues>,
    /// The number of the queue.
    number: usize,
    leg: usize,
    own: LegQueue,
}

impl LegCommands {
    pub(crate) fn new(queues: &Arc<Queues>, number: usize, leg: usize) -> LegCommands {
        let settings = QueueSettings {
            // The limit is that of all queues.
            active: u32::MAX,
            ..QueueSettings::default()
        };
        let new = LegCommands {
            queues: Arc::clone(queues),
            number,
            leg,
            own: LegQueue::sharing(settings, 1024, queues.board().marks(leg)),
        };
        new.counted();
        new
    }

    fn counted(&self) {
        let board = self.queues.board();
        board.counted(self.number, self.leg, &self.own);
    }

    /// Whether requests wait.
    pub(crate) fn waits(&self) -> bool {
        self.own.waits()
    }

    /// Adds a request that begins at this byte of the data at `now`, ns.
    pub(crate) fn push(&mut self, request: u32, transfer: Transfer, range: (u64, u64), now: u64) {
        self.own.push(request, transfer, range.0, range.1, now);
        self.counted();
    }

    /// The next command, whose requests are appended to the list. `None`: nothing waits, or the leg has no place.
    pub(crate) fn issue(&mut self, now: u64, requests: &mut Vec<u32>) -> Option<Command> {
        if !self.own.waits() || !self.queues.board().take(self.number, self.leg) {
            return None;
        }
        let command = self.own.issue(now).expect("one waits");
        self.counted();
        let following = |request: &u32| self.own.next_request(*request);
        requests.extend(std::iter::successors(Some(command.first), following));
        Some(command)
    }

    /// A command has ended at `now`, ns, unless the queue was cleared since: its place is given back.
    pub(crate) fn complete(&mut self, first: u32, now: u64) {
        self.own.complete(first, now);
        self.counted();
        self.give_back();
    }

    /// Removes a waiting request.
    pub(crate) fn withdraw(&mut self) -> Option<u32> {
        let withdrawn = self.own.withdraw();
        self.counted();
        withdrawn
    }

    /// Forgets all requests and commands. Commands in flight keep their places.
    pub(crate) fn clear(&mut self) {
        *self = LegCommands::new(&self.queues, self.number, self.leg);
    }

    /// Gives back a place of the leg.
    pub(crate) fn give_back(&self) {
        let next = self.queues.board().give_back(self.number, self.leg);
        // The thread of this queue looks at its legs in any case.
        if let Some(next) = next.filter(|next| *next != self.number) {
            self.queues.wake_thread(next);
        }
    }

    /// Gives back the places that other queues passed on, if no request waits.
    pub(crate) fn give_back_unneeded(&self) {
        let board = self.queues.board();
        while !self.own.waits() && board.take_granted(self.number, self.leg) {
            self.give_back();
        }
    }
}
