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
    missed: Vec<String>,
    cpu_ns: u64,
}

struct Thread {
    questions: SyncSender<Readings>,
    answers: Receiver<Answer>,
}

impl Aside {
    /// Starts the thread.
    pub(crate) fn of(mut sampler: impl Sampler + 'static) -> Aside {
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

    fn ask(&mut self) -> Result<(), String> {
        let room = std::mem::take(&mut self.room);
        let thread = self.thread.as_ref().map_err(String::clone)?;
        let asked = thread.questions.send(room);
        self.asked = Some(Instant::now());
        asked.map_err(|_| "its thread panicked".to_owned())
    }
}

impl Sampler for Aside {
    fn kind(&self) -> SeriesKind {
        self.kind
    }

    fn read(&mut self, into: &mut Readings) -> Result<Read, String> {
        let mut answer = match self.asked {
            Some(_) => self.answer(Duration::ZERO)?,
            None => None,
        };
        if self.asked.is_none() {
            self.ask()?;
            answer = self.answer(BRIEF)?.or(answer);
        }
        if let Some((read, readings)) = answer {
            self.room = std::mem::replace(into, readings);
            return read;
        }
        match self.asked {
            Some(asked) if asked.elapsed() >= PATIENCE => Err("does not answer".to_owned()),
            _ => Ok(Read::Nothing),
        }
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
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::mpsc::Sender;

    use iodyno_model::{ARC, SeriesRow};

    use super::*;

    /// Hands out what it is told to, and hangs as long as it is told nothing.
    struct Told {
        words: Receiver<Result<u64, String>>,
        closed: Arc<AtomicBool>,
    }

    impl Sampler for Told {
        fn kind(&self) -> SeriesKind {
            SeriesKind::Arc
        }

        fn read(&mut self, into: &mut Readings) -> Result<Read, String> {
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
            self.closed.store(true, Ordering::Relaxed);
        }
    }

    fn aside() -> (Sender<Result<u64, String>>, Aside, Arc<AtomicBool>) {
        let (tell, words) = mpsc::channel();
        let closed = Arc::new(AtomicBool::new(false));
        let told = Told {
            words,
            closed: Arc::clone(&closed),
        };
        (tell, Aside::of(told), closed)
    }

    /// Reads again and again until there is something.
    fn read(aside: &mut Aside) -> Result<u64, String> {
        let mut readings = Readings::default();
        let end = Instant::now() + Duration::from_secs(20);
        loop {
            match aside.read(&mut readings) {
                Ok(Read::Fresh) => return Ok(readings.values[0].unwrap()),
                Err(error) => return Err(error),
                Ok(Read::Nothing) => assert!(Instant::now() < end, "it never answers"),
            }
            thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn what_answers_at_once_is_read_as_if_it_were_here() {
        let (tell, mut aside, closed) = aside();
        for hits in 1..4 {
            tell.send(Ok(hits)).unwrap();
            assert_eq!(read(&mut aside), Ok(hits));
            assert_eq!(aside.missed(), ["something"]);
        }
        tell.send(Err("no such file".to_owned())).unwrap();
        assert_eq!(read(&mut aside), Err("no such file".to_owned()));
        assert!(aside.cpu_aside_ns() > 0);
        assert_eq!(aside.cpu_aside_ns(), 0);
        aside.close();
        while !closed.load(Ordering::Relaxed) {
            thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn what_hangs_delays_nobody_is_told_and_its_late_answer_taken_up() {
        let (tell, mut aside, closed) = aside();
        let begun = Instant::now();
        let mut readings = Readings::default();
        let mut waited = Duration::ZERO;
        let error = loop {
            let before = Instant::now();
            let read = aside.read(&mut readings);
            waited += before.elapsed();
            match read {
                Err(error) => break error,
                read => assert_eq!(read, Ok(Read::Nothing)),
            }
            thread::sleep(Duration::from_millis(20));
        };
        assert_eq!(error, "does not answer");
        assert!(begun.elapsed() >= PATIENCE);
        // It was waited for once.
        assert!(waited < PATIENCE / 4, "{waited:?}");
        assert!(aside.read(&mut readings).is_err());
        tell.send(Ok(7)).unwrap();
        let late = loop {
            match aside.read(&mut readings) {
                Ok(Read::Fresh) => break readings.values[0],
                _ => thread::sleep(Duration::from_millis(1)),
            }
        };
        assert_eq!(late, Some(7));
        // It hangs in the next question; where it is closed meanwhile, its thread ends with its answer.
        aside.close();
        assert!(aside.read(&mut readings).is_err());
        drop(tell);
        while !closed.load(Ordering::Relaxed) {
            thread::sleep(Duration::from_millis(1));
        }
    }
}
