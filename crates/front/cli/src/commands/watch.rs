//! `iodyno watch`: live statistics of the host.

use std::collections::BTreeMap;
use std::io::{IsTerminal, Write, stdin, stdout};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use crossterm::{cursor, execute, queue, style, terminal};
use iodyno_host::{Roots, environment};
use iodyno_judge::figures;
use iodyno_model::{Diagnostic, FigureTable, SeriesKind, SeriesShape, Telemetry};
use iodyno_report::safe_text;
use iodyno_report::watch::{self, History, Key, Live, WatchView};
use iodyno_telemetry::{Collector, Devices, Pools, Scope};

use crate::args::{WatchArgs, each_once};
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::{Failure, reason};
use crate::screen::write_on;
use crate::signals;

/// How often keys and signals are polled.
const LOOK: Duration = Duration::from_millis(100);

/// Shows the statistics of each interval until the user quits.
pub(crate) fn watch(args: &WatchArgs, context: &Context) -> Result<Exit, Failure> {
    let ended = Arc::new(AtomicBool::new(false));
    let stop = Arc::clone(&ended);
    let _signals = signals::watch(move |_| stop.store(true, Ordering::Relaxed))
        .map_err(|error| cannot("watch for signals", &error))?;
    let mut monitor = Monitor::open(args, context);
    let live = !args.once && !args.json && stdin().is_terminal() && stdout().is_terminal();
    if live {
        return AlternateScreen::enter()
            .and_then(|screen| screen.run(&mut monitor, &ended))
            .map(|()| Exit::Fine)
            .map_err(|error| cannot("draw on the terminal", &error));
    }
    // Without a terminal, print one interval, unless JSON lines were requested.
    let once = args.once || !args.json;
    loop {
        let due = monitor.due();
        if !wait_until(due, &ended, || Ok(true)).map_err(|error| cannot("wait", &error))? {
            return Ok(Exit::Fine);
        }
        monitor.sample();
        let read_on = write_on(match args.json {
            true => watch::json(&monitor.view()),
            false => {
                let lines = watch::screen(&monitor.view(), context.style_out(), usize::MAX);
                lines.join("\n") + "\n"
            }
        })?;
        if once || !read_on {
            return Ok(Exit::Fine);
        }
    }
}

fn cannot(what: &str, error: &std::io::Error) -> Failure {
    Failure {
        exit: Exit::CheckFailed,
        faults: vec![Diagnostic::error(format!(
            "cannot {what}: {}",
            reason(error)
        ))],
    }
}

/// Samples the host, and keeps the statistics of the latest interval.
struct Monitor<'a> {
    context: &'a Context,
    every: Duration,
    begun: Instant,
    /// Number of intervals that have begun.
    intervals: u32,
    collector: Option<Collector>,
    host: String,
    kernel: String,
    /// Samples and gaps of the latest interval, with the shapes that are still in use.
    latest: Telemetry,
    tables: Vec<FigureTable>,
    history: History,
}

impl<'a> Monitor<'a> {
    fn open(args: &WatchArgs, context: &'a Context) -> Monitor<'a> {
        let roots = Roots::host();
        let environment = environment::read(&roots, env!("CARGO_PKG_VERSION"), &[]);
        let every = Duration::from_nanos(args.every.0);
        let mut collector = Collector::open(
            &roots,
            &Scope {
                block_trace: false,
                every,
                devices: Devices::All,
                pools: Pools::All,
                processes: each_once(&args.sample)
                    .into_iter()
                    .map(Into::into)
                    .collect(),
                servers: Vec::new(),
                stats: Vec::new(),
                own: vec![std::process::id()],
            },
        );
        collector.begin(0);
        Monitor {
            context,
            every,
            begun: Instant::now(),
            intervals: 0,
            collector: Some(collector),
            host: environment.host,
            kernel: environment.kernel,
            latest: Telemetry::default(),
            tables: Vec::new(),
            history: History::default(),
        }
    }

    /// The end of the interval that begins now.
    fn due(&mut self) -> Instant {
        // Intervals that were missed are skipped.
        let passed = self.begun.elapsed().as_nanos() / self.every.as_nanos();
        self.intervals = u32::try_from(passed).unwrap_or(u32::MAX).saturating_add(1);
        self.begun + self.every * self.intervals
    }

    /// Samples the host.
    fn sample(&mut self) {
        let now_ns = self.begun.elapsed().as_nanos() as i64;
        let Some(collector) = &mut self.collector else {
            return;
        };
        self.latest.samples.clear();
        self.latest.gaps.clear();
        keep_latest(&mut self.latest.shapes);
        self.latest.extend(collector.sample(now_ns));
        // Other processes appear and disappear all the time; this is not reported.
        let shapes = self.latest.shapes.iter_mut();
        for shape in shapes.filter(|shape| shape.kind == SeriesKind::Others) {
            shape.because = None;
        }
        self.latest
            .gaps
            .sort_by_key(|gap| gap.kind != SeriesKind::Process);
        let kinds = self.latest.kinds();
        self.tables = kinds
            .into_iter()
            .map(|kind| figures(&self.latest, kind, None))
            .collect();
        self.history.push(&self.tables);
    }

    fn view(&self) -> WatchView<'_> {
        let unix_ms = self.context.now_unix_ms();
        let interrupts = self.latest.of(SeriesKind::Interrupts).last();
        WatchView {
            host: &self.host,
            kernel: &self.kernel,
            unix_ms,
            utc_offset_s: self.context.utc_offset_s(unix_ms),
            every_ns: self.every.as_nanos() as u64,
            tables: &self.tables,
            sources: interrupts.map_or(&[], |(shape, _)| &shape.subjects),
            history: &self.history,
        }
    }
}

/// Waits, and calls `goes_on` meanwhile. Returns `false` if that returns false or a signal arrives.
fn wait_until(
    due: Instant,
    ended: &AtomicBool,
    mut goes_on: impl FnMut() -> std::io::Result<bool>,
) -> std::io::Result<bool> {
    loop {
        if ended.load(Ordering::Relaxed) || !goes_on()? {
            return Ok(false);
        }
        let left = due.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(true);
        }
        std::thread::sleep(left.min(LOOK));
    }
}

/// Keeps only the latest shape of each series, without the reason for the change: over days there are many.
fn keep_latest(shapes: &mut Vec<SeriesShape>) {
    let latest: BTreeMap<SeriesKind, u32> = shapes
        .iter()
        .map(|shape| (shape.kind, shape.number))
        .collect();
    shapes.retain(|shape| latest.get(&shape.kind) == Some(&shape.number));
    for shape in shapes {
        shape.because = None;
    }
}

impl Drop for Monitor<'_> {
    fn drop(&mut self) {
        if let Some(collector) = self.collector.take() {
            collector.close();
        }
    }
}

/// The terminal's alternate screen; dropping it restores the terminal.
struct AlternateScreen;

impl AlternateScreen {
    fn enter() -> std::io::Result<AlternateScreen> {
        terminal::enable_raw_mode()?;
        // Dropping it leaves the alternate screen on every return path.
        let screen = AlternateScreen;
        restore_on_panic();
        execute!(stdout(), terminal::EnterAlternateScreen, cursor::Hide)?;
        Ok(screen)
    }

    fn run(self, monitor: &mut Monitor<'_>, ended: &AtomicBool) -> std::io::Result<()> {
        let mut live = Live::default();
        self.draw(monitor, &mut live)?;
        while self.wait(monitor, &mut live, ended)? {
            // Changes during a pause appear in the first picture after it.
            if !live.is_paused() {
                monitor.sample();
                self.draw(monitor, &mut live)?;
            }
        }
        Ok(())
    }

    /// Waits for the end of the interval; redraws when a key was pressed or the terminal was resized.
    fn wait(
        &self,
        monitor: &mut Monitor<'_>,
        live: &mut Live,
        ended: &AtomicBool,
    ) -> std::io::Result<bool> {
        let due = monitor.due();
        wait_until(due, ended, || {
            let changed = match handle_events(live)? {
                Handled::Nothing => return Ok(true),
                Handled::Quit => return Ok(false),
                Handled::Something => self.draw(monitor, live),
            };
            changed.map(|()| true)
        })
    }

    /// Draws with a single write, to avoid flicker.
    fn draw(&self, monitor: &Monitor<'_>, live: &mut Live) -> std::io::Result<()> {
        let height = terminal::size().map_or(24, |(_, rows)| usize::from(rows.max(1)));
        let style_out = monitor.context.style_out();
        let lines = live.screen(&monitor.view(), style_out, height);
        let mut output = Vec::new();
        queue!(
            output,
            terminal::BeginSynchronizedUpdate,
            cursor::MoveTo(0, 0)
        )?;
        for (row, line) in lines.iter().take(height).enumerate() {
            if row > 0 {
                queue!(output, style::Print("\r\n"))?;
            }
            queue!(
                output,
                style::Print(safe_text(line, style_out.color)),
                terminal::Clear(terminal::ClearType::UntilNewLine)
            )?;
        }
        queue!(
            output,
            terminal::Clear(terminal::ClearType::FromCursorDown),
            terminal::EndSynchronizedUpdate
        )?;
        let mut out = stdout().lock();
        out.write_all(&output)?;
        out.flush()
    }
}

impl Drop for AlternateScreen {
    fn drop(&mut self) {
        restore();
    }
}

/// Restores the terminal.
fn restore() {
    let _ = execute!(stdout(), cursor::Show, terminal::LeaveAlternateScreen);
    let _ = terminal::disable_raw_mode();
}

/// The message of a panic would disappear with the alternate screen.
fn restore_on_panic() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        restore();
        usual(info);
    }));
}

/// The effect of the events since the last call.
enum Handled {
    Nothing,
    /// Draw again.
    Something,
    Quit,
}

fn handle_events(live: &mut Live) -> std::io::Result<Handled> {
    let mut handled = Handled::Nothing;
    while event::poll(Duration::ZERO)? {
        match event::read()? {
            Event::Key(key) if key.kind != KeyEventKind::Release => {
                let control = key.modifiers.contains(KeyModifiers::CONTROL);
                let pressed = match key.code {
                    KeyCode::Char('c' | 'd') if control => return Ok(Handled::Quit),
                    KeyCode::Char(_) if control => continue,
                    KeyCode::Char(typed) => Key::Char(typed),
                    KeyCode::Enter => Key::Enter,
                    KeyCode::Esc => Key::Escape,
                    KeyCode::Backspace => Key::Backspace,
                    _ => continue,
                };
                if !live.press(pressed) {
                    return Ok(Handled::Quit);
                }
            }
            Event::Resize(..) => {}
            _ => continue,
        }
        handled = Handled::Something;
    }
    Ok(handled)
}
