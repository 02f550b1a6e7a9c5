//! Reads a sampler on a thread of its own, where what it reads may never answer: a file of a daemon's.
//!
//! An answer is awaited for [`BRIEF`]; what comes later is taken up by the sample that follows. A daemon that is slow
//! costs a sample, and one that hangs a gap: the other samplers go on. The thread asks for one reading at a time, and ends when
//! the sampler is closed or, where it hangs, as soon as it gets its answer.

use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::thread;
use std::time::{Duration, Instant};

use iodyno_model::SeriesKind;

use crate::sampler::{Read, Readings, Sampler};
use crate::source::thread_cpu_ns;

/// An answer is awaited for so long.
const BRIEF: Duration = Duration::from_millis(10);
/// When no answer is worth a word.
const PATIENCE: Duration = Duration::from_secs(1);

/// What the thread made of a question.
struct Answer {
    read: Result<Read, String>,
    readings: Readings,
    missed: Vec<String>,
    cpu_ns: u64,
}

/// What a reading came to, and the readings.
type Answered = (Result<Read, String>, Readings);

/// A sampler that is read aside. Of its counts nothing is known but the counts: it has neither a range, nor slack, nor
/// beginnings of its own.
pub(crate) struct Aside {
    kind: SeriesKind,
    thread: Result<Thread, String>,
    /// For the next question.
    room: Readings,
    /// When the question was asked that has not been answered.
    asked: Option<Instant>,
    /// How long an answer is awaited when it was asked for.
    brief: Duration,
    missed: Vec<String>,
    cpu_ns: u64,
}

struct Thread {
    questions: SyncSender<Readings>,
    answers: Receiver<Answer>,
}

impl Aside {
    /// Starts the thread.
    pub(crate) fn of(sampler: impl Sampler + 'static) -> Aside {
        Aside::awaited(BRIEF, sampler)
    }

    fn awaited(brief: Duration, mut sampler: impl Sampler + 'static) -> Aside {
        let kind = sampler.kind();
        // One question at most is open: neither side ever waits to be heard.
        let (questions, asked) = mpsc::sync_channel::<Readings>(1);
        let (answer, answers) = mpsc::sync_channel(1);
        let run = move || {
            for mut readings in asked {
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
        let thread = thread::Builder::new().name(format!("{} aside", kind.name()));
        let thread = match thread.spawn(run) {
            Ok(_) => Ok(Thread { questions, answers }),
            Err(error) => Err(format!("cannot start a thread: {error}")),
        };
        Aside {
            kind,
            thread,
            room: Readings::default(),
            asked: None,
            brief,
            missed: Vec::new(),
            cpu_ns: 0,
        }
    }

    /// The answer to the question that is open, if it comes within that time.
    fn answer(&mut self, within: Duration) -> Result<Option<Answered>, String> {
        let thread = self.thread.as_ref().map_err(String::clone)?;
        match thread.answers.recv_timeout(within) {
            Ok(answer) => {
                self.asked = None;
                self.cpu_ns += answer.cpu_ns;
                self.missed.extend(answer.missed);
                Ok(Some((answer.read, answer.readings)))
            }
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err("its thread panicked".to_owned()),
        }
    }

    fn ask(&mut self, now: Instant) -> Result<(), String> {
        let room = std::mem::take(&mut self.room);
        let thread = self.thread.as_ref().map_err(String::clone)?;
        let asked = thread.questions.send(room);
        self.asked = Some(now);
        asked.map_err(|_| "its thread panicked".to_owned())
    }

    /// As [`Sampler::read`], at an instant.
    fn read_at(&mut self, now: Instant, into: &mut Readings) -> Result<Read, String> {
        let mut answer = match self.asked {
            Some(_) => self.answer(Duration::ZERO)?,
            None => None,
        };
        if self.asked.is_none() {
            self.ask(now)?;
            answer = self.answer(self.brief)?.or(answer);
        }
        if let Some((read, readings)) = answer {
            self.room = std::mem::replace(into, readings);
            return read;
        }
        match self.asked {
            Some(asked) if now >= asked + PATIENCE => Err("does not answer".to_owned()),
            _ => Ok(Read::Nothing),
        }
    }
}

impl Sampler for Aside {
    fn kind(&self) -> SeriesKind {
        self.kind
    }

    fn read(&mut self, into: &mut Readings) -> Result<Read, String> {
        self.read_at(Instant::now(), into)
    }

    fn missed(&mut self) -> Vec<String> {
        std::mem::take(&mut self.missed)
    }

    fn cpu_aside_ns(&mut self) -> u64 {
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

    /// Hands out what it is told to, and hangs as long as it is told nothing.
    struct Told {
        words: Receiver<Result<u64, String>>,
        closed: Sender<()>,
    }

    impl Sampler for Told {
        fn kind(&self) -> SeriesKind {
            SeriesKind::Arc
        }

        fn read(&mut self, into: &mut Readings) -> Result<Read, String> {
            // As much CPU time as the clock can tell, however coarse it is.
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

    /// A sampler with what tells its readings, and what is told when it is closed.
    fn aside(brief: Duration) -> (Words, Aside, Receiver<()>) {
        let (tell, words) = mpsc::channel();
        let (close, closed) = mpsc::channel();
        let told = Told {
            words,
            closed: close,
        };
        (tell, Aside::awaited(brief, told), closed)
    }

    #[test]
    fn what_answers_at_once_is_read_as_if_it_were_here() {
        let (tell, mut aside, closed) = aside(WATCHDOG);
        let mut readings = Readings::default();
        for hits in 1..4 {
            tell.send(Ok(hits)).unwrap();
            assert_eq!(aside.read(&mut readings), Ok(Read::Fresh));
            assert_eq!(readings.values[0], Some(hits));
            assert_eq!(aside.missed(), ["something"]);
        }
        tell.send(Err("no such file".to_owned())).unwrap();
        let error = aside.read(&mut readings).unwrap_err();
        assert_eq!(error, "no such file");
        assert!(aside.cpu_aside_ns() > 0);
        assert_eq!(aside.cpu_aside_ns(), 0);
        aside.close();
        closed.recv_timeout(WATCHDOG).unwrap();
    }

    #[test]
    fn what_hangs_is_told_when_patience_ends_and_its_late_answer_taken_up() {
        let (tell, mut aside, closed) = aside(BRIEF);
        let mut readings = Readings::default();
        let begin = Instant::now();
        let late = begin + PATIENCE;
        let nearly = late - Duration::from_nanos(1);
        let silent = Err("does not answer".to_owned());
        assert_eq!(aside.read_at(begin, &mut readings), Ok(Read::Nothing));
        assert_eq!(aside.read_at(nearly, &mut readings), Ok(Read::Nothing));
        assert_eq!(aside.read_at(late, &mut readings), silent);
        assert_eq!(aside.read_at(late, &mut readings), silent);
        tell.send(Ok(7)).unwrap();
        let begun = Instant::now();
        while aside.read_at(late, &mut readings) != Ok(Read::Fresh) {
            assert!(begun.elapsed() < WATCHDOG, "it is never taken up");
            thread::yield_now();
        }
        assert_eq!(readings.values[0], Some(7));
        // It hangs in the next question; where it is closed meanwhile, its thread ends with its answer.
        aside.close();
        assert!(aside.read(&mut readings).is_err());
        assert!(closed.try_recv().is_err(), "it cannot have ended");
        drop(tell);
        closed.recv_timeout(WATCHDOG).unwrap();
    }

    #[test]
    fn what_hangs_is_waited_for_once() {
        let (_tell, mut aside, _) = aside(BRIEF);
        let mut readings = Readings::default();
        assert_eq!(aside.read(&mut readings), Ok(Read::Nothing));
        // To wait again would take for ever.
        aside.brief = Duration::MAX;
        let (answer, answered) = mpsc::channel();
        thread::spawn(move || {
            let begin = aside.asked.unwrap();
            answer.send(aside.read_at(begin, &mut readings)).unwrap();
        });
        assert_eq!(answered.recv_timeout(WATCHDOG), Ok(Ok(Read::Nothing)));
    }
}
