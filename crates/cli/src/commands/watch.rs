//! `iodyno watch`: the host live.

use std::collections::BTreeMap;
use std::io::{IsTerminal, Write, stdin, stdout};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crossterm::event::{self, Event, KeyCode, KeyModifiers};
use crossterm::{cursor, execute, queue, style, terminal};
use iodyno_judge::figures;
use iodyno_model::{Diagnostic, FigureTable, SeriesKind, SeriesShape, Telemetry};
use iodyno_report::watch::{self, History, WatchView};
use iodyno_target::{Roots, environment};
use iodyno_telemetry::{Devices, Pools, Scope, Station};

use crate::args::{WatchArgs, each_once};
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::{Failure, reason};
use crate::screen::write_on;
use crate::signals;

/// How often keys and signals are looked at.
const LOOK: Duration = Duration::from_millis(100);

/// Shows pictures of the host until it is told to end.
pub(crate) fn watch(args: &WatchArgs, context: &Context) -> Result<Exit, Failure> {
    let ended = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&ended);
    let _signals = signals::watch(move |_| told.store(true, Ordering::Relaxed))
        .map_err(|error| cannot("watch for signals", &error))?;
    let mut lens = Lens::open(args, context);
    let live = !args.once && !args.json && stdin().is_terminal() && stdout().is_terminal();
    if live {
        return Stage::open()
            .and_then(|stage| stage.play(&mut lens, &ended))
            .map(|()| Exit::Fine)
            .map_err(|error| cannot("draw on the terminal", &error));
    }
    // Without a terminal nobody can end it but by a signal: one picture, unless lines were asked for.
    let once = args.once || !args.json;
    loop {
        if !lens
            .wait(&ended, || Ok(false))
            .map_err(|error| cannot("wait", &error))?
        {
            return Ok(Exit::Fine);
        }
        lens.look();
        let read_on = write_on(match args.json {
            true => watch::json(&lens.view()),
            false => {
                let lines = watch::screen(&lens.view(), context.style_out(), usize::MAX);
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

/// The host, as seen in the latest stretch of time.
struct Lens<'a> {
    context: &'a Context,
    every: Duration,
    begun: Instant,
    pictures: u32,
    station: Option<Station>,
    host: String,
    kernel: String,
    /// Samples and gaps of the latest stretch, with the shapes that samples may still have.
    seen: Telemetry,
    tables: Vec<FigureTable>,
    history: History,
}

impl<'a> Lens<'a> {
    fn open(args: &WatchArgs, context: &'a Context) -> Lens<'a> {
        let roots = Roots::host();
        let environment = environment::read(&roots, env!("CARGO_PKG_VERSION"), &[]);
        let every = Duration::from_nanos(args.every.0);
        let mut station = Station::open(
            &roots,
            &Scope {
                every,
                devices: Devices::All,
                pools: Pools::All,
                processes: each_once(&args.sample),
                own: vec![std::process::id()],
            },
        );
        station.begin(0);
        Lens {
            context,
            every,
            begun: Instant::now(),
            pictures: 0,
            station: Some(station),
            host: environment.host,
            kernel: environment.kernel,
            seen: Telemetry::default(),
            tables: Vec::new(),
            history: History::default(),
        }
    }

    /// Waits until the next picture is due. `asked` says whether somebody wants to leave; `false`: they do.
    fn wait(
        &mut self,
        ended: &AtomicBool,
        mut asked: impl FnMut() -> std::io::Result<bool>,
    ) -> std::io::Result<bool> {
        // Pictures that were missed are left out.
        let passed = self.begun.elapsed().as_nanos() / self.every.as_nanos();
        self.pictures = u32::try_from(passed).unwrap_or(u32::MAX).saturating_add(1);
        let due = self.begun + self.every * self.pictures;
        loop {
            if ended.load(Ordering::Relaxed) || asked()? {
                return Ok(false);
            }
            let left = due.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(true);
            }
            std::thread::sleep(left.min(LOOK));
        }
    }

    /// Takes the next picture.
    fn look(&mut self) {
        let now_ns = self.begun.elapsed().as_nanos() as i64;
        let Some(station) = &mut self.station else {
            return;
        };
        self.seen.samples.clear();
        self.seen.gaps.clear();
        keep_latest(&mut self.seen.shapes);
        self.seen.extend(station.sample(now_ns));
        // Strangers come and go all the time; servers that were named do not.
        let shapes = self.seen.shapes.iter_mut();
        for shape in shapes.filter(|shape| shape.kind == SeriesKind::Others) {
            shape.because = None;
        }
        self.seen
            .gaps
            .sort_by_key(|gap| gap.kind != SeriesKind::Process);
        let kinds = self.seen.kinds();
        self.tables = kinds
            .into_iter()
            .map(|kind| figures(&self.seen, kind, None))
            .collect();
        self.history.push(&self.tables);
    }

    fn view(&self) -> WatchView<'_> {
        let unix_ms = self.context.now_unix_ms();
        let interrupts = self.seen.of(SeriesKind::Interrupts).last();
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

/// Keeps the latest shape of each series, without what was told of it in the picture in which it came about: in days of watching there
/// are many.
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

impl Drop for Lens<'_> {
    fn drop(&mut self) {
        if let Some(station) = self.station.take() {
            station.close();
        }
    }
}

/// The terminal's other screen, left as it was found.
struct Stage;

impl Stage {
    fn open() -> std::io::Result<Stage> {
        terminal::enable_raw_mode()?;
        // From here on whatever happens leaves it.
        let stage = Stage;
        execute!(stdout(), terminal::EnterAlternateScreen, cursor::Hide)?;
        Ok(stage)
    }

    fn play(self, lens: &mut Lens<'_>, ended: &AtomicBool) -> std::io::Result<()> {
        self.draw(lens)?;
        while lens.wait(ended, asked)? {
            lens.look();
            self.draw(lens)?;
        }
        Ok(())
    }

    /// Draws in one write, so that nothing flickers.
    fn draw(&self, lens: &Lens<'_>) -> std::io::Result<()> {
        let height = terminal::size().map_or(24, |(_, rows)| usize::from(rows.max(1)));
        let lines = watch::screen(&lens.view(), lens.context.style_out(), height);
        let mut picture = Vec::new();
        queue!(
            picture,
            terminal::BeginSynchronizedUpdate,
            cursor::MoveTo(0, 0)
        )?;
        for (row, line) in lines.iter().take(height).enumerate() {
            if row > 0 {
                queue!(picture, style::Print("\r\n"))?;
            }
            queue!(
                picture,
                style::Print(line),
                terminal::Clear(terminal::ClearType::UntilNewLine)
            )?;
        }
        queue!(
            picture,
            terminal::Clear(terminal::ClearType::FromCursorDown),
            terminal::EndSynchronizedUpdate
        )?;
        let mut out = stdout().lock();
        out.write_all(&picture)?;
        out.flush()
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        let _ = execute!(stdout(), cursor::Show, terminal::LeaveAlternateScreen);
        let _ = terminal::disable_raw_mode();
    }
}

/// A key that ends it was pressed.
fn asked() -> std::io::Result<bool> {
    while event::poll(Duration::ZERO)? {
        if let Event::Key(key) = event::read()? {
            let control = key.modifiers.contains(KeyModifiers::CONTROL);
            match key.code {
                KeyCode::Char('q') | KeyCode::Esc => return Ok(true),
                KeyCode::Char('c' | 'd') if control => return Ok(true),
                _ => {}
            }
        }
    }
    Ok(false)
}
