//! Interleavings of few threads, with all values that the orderings permit each load to return: `make interleavings`.

use loom::sync::{Condvar, Mutex};
use loom::thread;

use super::*;

const GEOMETRY: Geometry = Geometry {
    length: 1 << 20,
    region: 1 << 20,
    unit: 512,
};

/// Checks all interleavings in which threads are interrupted at most this often, apart from where they wait.
fn check(preemptions: usize, run: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(preemptions);
    model.check(run);
}

/// An eventfd: a waiter continues after a write, and consumes it.
#[derive(Default)]
struct Event {
    written: Mutex<bool>,
    changed: Condvar,
}

impl Event {
    fn write(&self) {
        *self.written.lock().unwrap() = true;
        self.changed.notify_one();
    }

    fn wait(&self) {
        let mut written = self.written.lock().unwrap();
        while !std::mem::take(&mut *written) {
            written = self.changed.wait(written).unwrap();
        }
    }
}

/// As a region is written on one leg only, the other leg is dropped, the region unmarked, and the leg copied to and
/// taken back.
#[test]
fn a_queue_that_sees_an_unmarked_region_chooses_a_leg_that_has_it() {
    check(5, || {
        let published = Arc::new(Published::new(GEOMETRY));
        published.publish(legs(&[0, 1]), false, [].into_iter());
        // Whether leg 1 has the data of leg 0.
        let equal = Arc::new(AtomicBool::new(true));
        let (own, content) = (Arc::clone(&published), Arc::clone(&equal));
        let mirror = thread::spawn(move || {
            own.publish(legs(&[0, 1]), false, [(0, true)].into_iter());
            content.store(false, Ordering::Release);
            own.publish(legs(&[0]), false, [(0, false)].into_iter());
            content.store(true, Ordering::Release);
            own.publish(legs(&[0, 1]), false, [].into_iter());
        });
        // A read from leg 1 is correct if the legs were equal at any moment between the request and the read.
        let before = equal.load(Ordering::Acquire);
        let chosen = published.readable(0, 512).has(1);
        assert!(!chosen || before || equal.load(Ordering::Acquire));
        mirror.join().unwrap();
    });
}

#[test]
fn the_thread_of_a_mirror_finds_each_message_without_a_needless_wait() {
    const MESSAGES: u32 = 2;
    check(3, || {
        let alarm = Arc::new(Alarm::default());
        let event = Arc::new(Event::default());
        // The alarm orders them: the counter does not.
        let sent = Arc::new(AtomicU32::new(0));
        let senders: Vec<_> = (0..MESSAGES)
            .map(|_| {
                let (alarm, event) = (Arc::clone(&alarm), Arc::clone(&event));
                let sent = Arc::clone(&sent);
                thread::spawn(move || {
                    sent.fetch_add(1, Ordering::Relaxed);
                    if alarm.raise() {
                        event.write();
                    }
                })
            })
            .collect();
        loop {
            alarm.listen();
            if sent.load(Ordering::Relaxed) == MESSAGES {
                break;
            }
            // Loom detects that the event is never written again.
            event.wait();
            alarm.mute();
        }
        for sender in senders {
            sender.join().unwrap();
        }
    });
}

#[test]
fn a_queue_that_waits_for_a_place_gets_it_and_nobody_else_has_it() {
    check(3, || {
        let board = Arc::new(Board::new(2, 1));
        let events = Arc::new([Event::default(), Event::default()]);
        let holders = Arc::new(AtomicU32::new(0));
        let (own, wakes, held) = (
            Arc::clone(&board),
            Arc::clone(&events),
            Arc::clone(&holders),
        );
        let run = |board: &Board, events: &[Event; 2], holders: &AtomicU32, queue: usize| {
            while !board.take(queue, 0) {
                events[queue].wait();
            }
            assert_eq!(holders.fetch_add(1, Ordering::Relaxed), 0);
            holders.fetch_sub(1, Ordering::Relaxed);
            if let Some(next) = board.give_back(queue, 0) {
                events[next].write();
            }
        };
        let other = thread::spawn(move || run(&own, &wakes, &held, 1));
        run(&board, &events, &holders, 0);
        other.join().unwrap();
    });
}
