//! Writes the results of a trial to the store, and keeps those that cannot be stored yet, to write them later.
//!
//! Invariant: the writes of a trial reach the store in order, and none is dropped before the end of the trial. A
//! store that is full or locked for some time costs only memory.

use std::collections::VecDeque;

use iodyno_model::{Environment, Frame, KnownTarget, TelemetryBatch, Trial, TrialKey};
use iodyno_store::{Appended, Store, StoreError};

/// While the store fails, every tenth write tries again; there are two writes per second. An attempt on a locked
/// store takes seconds.
const RETRY_EVERY: u32 = 10;

enum Write {
    Begin {
        configuration: String,
        workload: String,
        started_unix_ms: u64,
    },
    Environment(String, Box<Environment>),
    Targets(Vec<KnownTarget>),
    Frame(Box<Frame>),
    Telemetry(TelemetryBatch),
}

impl Write {
    /// The data to append together with its neighbours.
    fn appended(&self) -> Option<Appended<'_>> {
        match self {
            Write::Frame(frame) => Some(Appended::Frame(frame)),
            Write::Telemetry(batch) => Some(Appended::Telemetry(batch)),
            _ => None,
        }
    }
}

/// Whether a write changed the state of the store.
#[derive(Debug)]
pub(crate) enum StoreHealth {
    /// The state did not change.
    Unchanged,
    /// Writes have begun to fail.
    Fails(StoreError),
    /// Writes succeed again, and all results are stored.
    Recovered,
}

/// The writes of one trial.
pub(crate) struct StoreWriter<'a> {
    store: &'a dyn Store,
    key: TrialKey,
    waiting: VecDeque<Write>,
    failing: bool,
    skipped: u32,
    /// Frames and telemetry wait for [`StoreWriter::store`].
    pub(crate) collects: bool,
}

impl<'a> StoreWriter<'a> {
    pub(crate) fn new(store: &'a dyn Store, key: TrialKey) -> StoreWriter<'a> {
        StoreWriter {
            store,
            key,
            waiting: VecDeque::new(),
            failing: false,
            skipped: 0,
            collects: false,
        }
    }

    pub(crate) fn begin(
        &mut self,
        configuration: &str,
        workload: &str,
        started_unix_ms: u64,
    ) -> StoreHealth {
        self.write(Write::Begin {
            configuration: configuration.to_owned(),
            workload: workload.to_owned(),
            started_unix_ms,
        })
    }

    pub(crate) fn environment(&mut self, node: &str, environment: &Environment) -> StoreHealth {
        let environment = Box::new(environment.clone());
        self.write(Write::Environment(node.to_owned(), environment))
    }

    pub(crate) fn targets(&mut self, targets: Vec<KnownTarget>) -> StoreHealth {
        self.write(Write::Targets(targets))
    }

    pub(crate) fn frame(&mut self, frame: &Frame) -> StoreHealth {
        self.write(Write::Frame(Box::new(frame.clone())))
    }

    pub(crate) fn telemetry(&mut self, batch: &TelemetryBatch) -> StoreHealth {
        self.write(Write::Telemetry(batch.clone()))
    }

    /// Stores the end of the trial, after all pending writes.
    pub(crate) fn finish(mut self, trial: &Trial) -> Result<(), StoreError> {
        self.drain()?;
        self.store.finish_trial(trial)
    }

    fn write(&mut self, write: Write) -> StoreHealth {
        let waits = self.collects && write.appended().is_some();
        self.waiting.push_back(write);
        match waits {
            true => StoreHealth::Unchanged,
            false => self.store(),
        }
    }

    /// Writes the pending data, frames and telemetry in one transaction.
    pub(crate) fn store(&mut self) -> StoreHealth {
        if self.failing && self.skipped + 1 < RETRY_EVERY {
            self.skipped += 1;
            return StoreHealth::Unchanged;
        }
        self.skipped = 0;
        match (self.drain(), std::mem::replace(&mut self.failing, false)) {
            (Ok(()), true) => {
                tracing::warn!("the store can be written again");
                StoreHealth::Recovered
            }
            (Ok(()), false) => StoreHealth::Unchanged,
            (Err(error), failed_before) => {
                self.failing = true;
                tracing::warn!(%error, waiting = self.waiting.len(), "cannot write to the store");
                match failed_before {
                    true => StoreHealth::Unchanged,
                    false => StoreHealth::Fails(error),
                }
            }
        }
    }

    fn drain(&mut self) -> Result<(), StoreError> {
        while let Some(write) = self.waiting.front() {
            match write {
                Write::Begin {
                    configuration,
                    workload,
                    started_unix_ms,
                } => {
                    self.store
                        .begin_trial(self.key, configuration, workload, *started_unix_ms)?;
                }
                Write::Environment(node, environment) => {
                    self.store.set_environment(self.key, node, environment)?;
                }
                Write::Targets(targets) => self.store.set_targets(self.key, targets)?,
                Write::Frame(_) | Write::Telemetry(_) => {
                    let results: Vec<Appended<'_>> =
                        self.waiting.iter().map_while(Write::appended).collect();
                    self.store.append(self.key, &results)?;
                    let count = results.len();
                    self.waiting.drain(..count);
                    continue;
                }
            }
            self.waiting.pop_front();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{FakeStore, batch, frame, key, trial};

    #[test]
    fn a_store_that_fails_for_some_time_contains_everything_in_order() {
        let store = FakeStore::default();
        let mut writer = StoreWriter::new(&store, key());
        assert!(matches!(writer.begin("c", "w", 1), StoreHealth::Unchanged));
        assert!(matches!(writer.frame(&frame(0)), StoreHealth::Unchanged));
        store.full(true);
        assert!(matches!(writer.frame(&frame(1)), StoreHealth::Fails(_)));
        for number in 2..12 {
            let health = [
                writer.telemetry(&batch(number)),
                writer.frame(&frame(number)),
            ];
            assert!(
                health
                    .iter()
                    .all(|one| matches!(one, StoreHealth::Unchanged))
            );
        }
        store.full(false);
        let recovered = (12..20)
            .flat_map(|number| {
                [
                    writer.telemetry(&batch(number)),
                    writer.frame(&frame(number)),
                ]
            })
            .filter(|health| matches!(health, StoreHealth::Recovered))
            .count();
        assert_eq!(recovered, 1);
        writer.finish(&trial(key())).unwrap();
        let mut expected = ["begin c w", "frame 0", "frame 1"]
            .map(str::to_owned)
            .to_vec();
        for number in 2..20 {
            expected.push(format!("telemetry {number}"));
            expected.push(format!("frame {number}"));
        }
        expected.push("finish".to_owned());
        assert_eq!(store.log(), expected);
    }

    #[test]
    fn collected_results_are_stored_together() {
        let store = FakeStore::default();
        let mut writer = StoreWriter::new(&store, key());
        writer.collects = true;
        writer.begin("c", "w", 1);
        writer.frame(&frame(0));
        writer.telemetry(&batch(0));
        writer.frame(&frame(1));
        assert_eq!(store.log(), ["begin c w"]);
        assert!(matches!(writer.store(), StoreHealth::Unchanged));
        assert_eq!(
            store.log(),
            ["begin c w", "frame 0", "telemetry 0", "frame 1"]
        );
        assert_eq!(store.appends.get(), 1);
    }

    #[test]
    fn the_end_stores_pending_writes() {
        let store = FakeStore::default();
        store.full(true);
        let mut writer = StoreWriter::new(&store, key());
        assert!(matches!(writer.begin("c", "w", 1), StoreHealth::Fails(_)));
        writer.frame(&frame(0));
        writer.telemetry(&batch(0));
        store.full(false);
        writer.finish(&trial(key())).unwrap();
        assert_eq!(
            store.log(),
            ["begin c w", "frame 0", "telemetry 0", "finish"]
        );
    }

    #[test]
    fn a_store_that_stays_full_is_an_error_only_at_the_end() {
        let store = FakeStore::default();
        store.full(true);
        let mut writer = StoreWriter::new(&store, key());
        writer.begin("c", "w", 1);
        writer.frame(&frame(0));
        assert!(writer.finish(&trial(key())).is_err());
        assert!(store.log().is_empty());
    }
}
