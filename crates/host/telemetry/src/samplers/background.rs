//! Reads a sampler on a background thread, for sources that may block: files that a daemon provides.
//!
//! A sample waits at most [`WAIT`] for a reading; a later one is used by the next sample. A slow daemon costs one
//! sample and one that hangs causes a gap, but the other samplers continue. The thread handles one reading at a time.
//! It ends when the sampler is closed or, if it is blocked, as soon as its reading returns.

use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::thread;
use std::time::{Duration, Instant};

use iodyno_model::SeriesKind;

use crate::sampler::{Read, Readings, Sampler};
use crate::source::thread_cpu_ns;

/// The longest wait of a sample for a reading.
const WAIT: Duration = Duration::from_millis(10);
/// After this time without a reading, the source counts as hanging.
const HANGS_AFTER: Duration = Duration::from_secs(1);

/// A reading of the thread.
struct Answer {
    read: Result<Read, String>,
    readings: Readings,
    missed: Vec<String>,
    cpu_ns: u64,
}

/// The outcome of a reading, and the readings.
type Answered = (Result<Read, String>, Readings);

/// A sampler on a background thread. Its counts have 64 bits and no slack.
pub(crate) struct BackgroundSampler {
    kind: SeriesKind,
    thread: Result<Thread, String>,
    /// Reused memory for the next reading.
    buffer: Readings,
    /// When the outstanding reading was requested.
    requested: Option<Instant>,
    /// The longest wait of a sample for the reading that it requests.
    wait: Duration,
    missed: Vec<String>,
    cpu_ns: u64,
}

struct Thread {
    requests: SyncSender<Readings>,
    answers: Receiver<Answer>,
}

impl BackgroundSampler {
    /// Starts the thread.
    pub(crate) fn of(sampler: impl Sampler + 'static) -> BackgroundSampler {
        BackgroundSampler::with_wait(WAIT, sampler)
    }

    /// As [`BackgroundSampler::of`], with this wait of a sample for a reading.
    pub(crate) fn with_wait(
        wait: Duration,
        mut sampler: impl Sampler + 'static,
    ) -> BackgroundSampler {
        let kind = sampler.kind();
        // At most one request is outstanding, so sending never blocks.
        let (requests, requested) = mpsc::sync_channel::<Readings>(1);
        let (answer, answers) = mpsc::sync_channel(1);
        let run = move || {
            for mut readings in requested {
                let before = thread_cpu_ns();
                let read = sampler.read(&mut readings);
                let missed = sampler.missed();
                let cpu_ns = thread_cpu_ns().saturating_sub(before);
                let answered = answer.send(Answer {
                    read,
                    readings,
                    missed,
                    cpu_ns,
                });
                if answered.is_err() {
                    break;
                }
            }
            sampler.close();
        };
        let thread = thread::Builder::new().name(format!("sample-{}", kind.name()));
        let thread = match thread.spawn(run) {
            Ok(_) => Ok(Thread { requests, answers }),
            Err(error) => Err(format!("cannot start a thread: {error}")),
        };
        BackgroundSampler {
            kind,
            thread,
            buffer: Readings::default(),
            requested: None,
            wait,
            missed: Vec::new(),
            cpu_ns: 0,
        }
    }

    /// The requested reading, if it arrives within that time.
    fn answer(&mut self, within: Duration) -> Result<Option<Answered>, String> {
        let thread = self.thread.as_ref().map_err(String::clone)?;
        match thread.answers.recv_timeout(within) {
            Ok(answer) => {
                self.requested = None;
                self.cpu_ns += answer.cpu_ns;
                self.missed.extend(answer.missed);
                Ok(Some((answer.read, answer.readings)))
            }
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err("its thread panicked".to_owned()),
        }
    }

    fn request(&mut self, now: Instant) -> Result<(), String> {
        let buffer = std::mem::take(&mut self.buffer);
        let thread = self.thread.as_ref().map_err(String::clone)?;
        let sent = thread.requests.send(buffer);
        self.requested = Some(now);
        sent.map_err(|_| "its thread panicked".to_owned())
    }

    /// As [`Sampler::read`], at an instant.
    fn read_at(&mut self, now: Instant, into: &mut Readings) -> Result<Read, String> {
        let mut answer = match self.requested {
            Some(_) => self.answer(Duration::ZERO)?,
            None => None,
        };
        if self.requested.is_none() {
            self.request(now)?;
            answer = self.answer(self.wait)?.or(answer);
        }
        if let Some((read, readings)) = answer {
            self.buffer = std::mem::replace(into, readings);
            return read;
        }
        match self.requested {
            Some(requested) if now >= requested + HANGS_AFTER => Err("does not respond".to_owned()),
            _ => Ok(Read::Nothing),
        }
    }
}

impl Sampler for BackgroundSampler {
    fn kind(&self) -> SeriesKind {
        self.kind
    }

    fn read(&mut self, into: &mut Readings) -> Result<Read, String> {
        self.read_at(Instant::now(), into)
    }

    fn missed(&mut self) -> Vec<String> {
        std::mem::take(&mut self.missed)
    }

    fn background_cpu_ns(&mut self) -> u64 {
        std::mem::take(&mut self.cpu_ns)
    }

    fn close(&mut self) {
        self.thread = Err("it is closed".to_owned());
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::Sender;

    use iodyno_model::{ARC, SeriesRow};

    use super::*;

    /// Ends a test that hangs.
    const WATCHDOG: Duration = Duration::from_secs(120);

    /// Returns the readings that the test sends, and blocks until there is one.
    struct Scripted {
        words: Receiver<Result<u64, String>>,
        closed: Sender<()>,
    }

    impl Sampler for Scripted {
        fn kind(&self) -> SeriesKind {
            SeriesKind::Arc
        }

        fn read(&mut self, into: &mut Readings) -> Result<Read, String> {
            // Uses CPU time until the clock advances, which may have a coarse resolution.
            let begun_ns = thread_cpu_ns();
            while thread_cpu_ns() == begun_ns {}
            let hits = self
                .words
                .recv()
                .unwrap_or(Err("the test is over".into()))?;
            let mut fill = into.fill(ARC);
            fill.row(|_| true, SeriesRow::default, [Some(hits); ARC.len()]);
            fill.done();
            Ok(Read::Fresh)
        }

        fn missed(&mut self) -> Vec<String> {
            vec!["something".to_owned()]
        }

        fn close(&mut self) {
            let _ = self.closed.send(());
        }
    }

    type Words = Sender<Result<u64, String>>;

    /// A sampler, the sender of its readings, and a receiver that is notified when it is closed.
    fn background(wait: Duration) -> (Words, BackgroundSampler, Receiver<()>) {
        let (tell, words) = mpsc::channel();
        let (close, closed) = mpsc::channel();
        let told = Scripted {
            words,
            closed: close,
        };
        (tell, BackgroundSampler::with_wait(wait, told), closed)
    }

    #[test]
    fn a_prompt_source_is_read_as_if_without_a_thread() {
        let (tell, mut sampler, closed) = background(WATCHDOG);
        let mut readings = Readings::default();
        for hits in 1..4 {
            tell.send(Ok(hits)).unwrap();
            assert_eq!(sampler.read(&mut readings), Ok(Read::Fresh));
            assert_eq!(readings.values[0], Some(hits));
            assert_eq!(sampler.missed(), ["something"]);
        }
        tell.send(Err("no such file".to_owned())).unwrap();
        let error = sampler.read(&mut readings).unwrap_err();
        assert_eq!(error, "no such file");
        assert!(sampler.background_cpu_ns() > 0);
        assert_eq!(sampler.background_cpu_ns(), 0);
        sampler.close();
        closed.recv_timeout(WATCHDOG).unwrap();
    }

    #[test]
    fn a_hanging_source_is_reported_and_its_late_reading_is_used() {
        let (tell, mut sampler, closed) = background(WAIT);
        let mut readings = Readings::default();
        let begin = Instant::now();
        let late = begin + HANGS_AFTER;
        let nearly = late - Duration::from_nanos(1);
        let silent = Err("does not respond".to_owned());
        assert_eq!(sampler.read_at(begin, &mut readings), Ok(Read::Nothing));
        assert_eq!(sampler.read_at(nearly, &mut readings), Ok(Read::Nothing));
        assert_eq!(sampler.read_at(late, &mut readings), silent);
        assert_eq!(sampler.read_at(late, &mut readings), silent);
        tell.send(Ok(7)).unwrap();
        let begun = Instant::now();
        while sampler.read_at(late, &mut readings) != Ok(Read::Fresh) {
            assert!(begun.elapsed() < WATCHDOG, "the late reading is never used");
            thread::yield_now();
        }
        assert_eq!(readings.values[0], Some(7));
        // It blocks in the next reading. Meanwhile it is closed, and its thread ends with that reading.
        sampler.close();
        assert!(sampler.read(&mut readings).is_err());
        assert!(closed.try_recv().is_err(), "it cannot have ended");
        drop(tell);
        closed.recv_timeout(WATCHDOG).unwrap();
    }

    #[test]
    fn a_sample_waits_for_a_hanging_source_only_once() {
        let (_tell, mut sampler, _) = background(WAIT);
        let mut readings = Readings::default();
        assert_eq!(sampler.read(&mut readings), Ok(Read::Nothing));
        // A second wait would not end.
        sampler.wait = Duration::MAX;
        let (answer, answered) = mpsc::channel();
        thread::spawn(move || {
            let begin = sampler.requested.unwrap();
            answer.send(sampler.read_at(begin, &mut readings)).unwrap();
        });
        assert_eq!(answered.recv_timeout(WATCHDOG), Ok(Ok(Read::Nothing)));
    }
}
