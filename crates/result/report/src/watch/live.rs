//! Successive screens of a terminal: the user's choices by keys, and lines that keep their places.

use std::collections::BTreeMap;

use iodyno_model::{FigureTable, SeriesKind};

use super::choice::Choice;
use super::line::LineBuilder;
use super::screen;
use super::section::Section;
use super::{WatchView, cpus, host};
use crate::style::{Paint, Style, ended, width};

/// A key that was pressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    /// A character.
    Char(char),
    /// Accepts the typed text.
    Enter,
    /// Rejects the typed text, or quits.
    Escape,
    /// Removes the last character.
    Backspace,
}

/// The state of a live display.
#[derive(Debug, Clone, PartialEq)]
pub struct Live {
    choice: Choice,
    paused: bool,
    helps: bool,
    /// The filter is being typed.
    types: bool,
    /// Columns and lines of the last picture.
    size: (usize, usize),
    /// The least and the most lines of each section in the pictures of this size.
    most: BTreeMap<&'static str, (usize, usize)>,
    /// Other processes at their last scan: they are not scanned in every interval.
    others: Option<FigureTable>,
}

impl Default for Live {
    fn default() -> Live {
        Live {
            choice: Choice {
                hides_idle: true,
                ..Choice::default()
            },
            paused: false,
            helps: false,
            types: false,
            size: (0, 0),
            most: BTreeMap::new(),
            others: None,
        }
    }
}

impl Live {
    /// Handles a key. `false`: the display ends.
    pub fn press(&mut self, key: Key) -> bool {
        if self.types {
            match key {
                Key::Char(typed) => self.choice.filter.push(typed),
                Key::Backspace => {
                    self.choice.filter.pop();
                }
                Key::Enter => self.types = false,
                Key::Escape => {
                    self.types = false;
                    self.choice.filter.clear();
                }
            }
            return true;
        }
        if self.helps {
            // Any key but that which quits closes the help.
            self.helps = false;
            return key != Key::Char('q');
        }
        match key {
            Key::Char('q') | Key::Escape => return false,
            Key::Char('h' | '?') => self.helps = true,
            Key::Char('p' | ' ') => self.paused = !self.paused,
            Key::Char('s') => self.choice.sort = self.choice.sort.next(),
            Key::Char('i') => self.choice.hides_idle = !self.choice.hides_idle,
            Key::Char('/' | 'f') => self.types = true,
            Key::Char(_) | Key::Enter | Key::Backspace => {}
        }
        true
    }

    /// Whether to keep the current picture.
    pub fn is_paused(&self) -> bool {
        self.paused
    }

    /// At most `height` lines, none as wide as the terminal, like [`super::screen`]. Sections never shrink, so that
    /// those below stay in place; the last line has the state and the keys.
    pub fn screen(&mut self, view: &WatchView, style: Style, height: usize) -> Vec<String> {
        if self.helps {
            let mut lines = help(style);
            lines.truncate(height);
            return lines;
        }
        if view.tables.is_empty() {
            return screen::screen(view, style, height);
        }
        if self.size != (style.columns(), height) {
            self.size = (style.columns(), height);
            // Sections that appear and disappear have reserved places from the start.
            self.most = [("reclaim", (1, 1)), ("others", (2, most_others(height)))].into();
        }
        let tables = self.with_others(view.tables);
        let view = &WatchView {
            tables: &tables,
            ..view.clone()
        };
        let sections = screen::sections(view, style, &self.choice);
        let sections = sections.into_iter().map(|(name, section)| {
            let section = section.unwrap_or_else(Section::blank);
            let seen = self.most.entry(name).or_default();
            let needs = (section.least, section.most);
            *seen = match name {
                "others" => *seen,
                _ => (seen.0.max(needs.0), seen.1.max(needs.1)),
            };
            section.with_lines(seen.0, seen.1)
        });
        let sections: Vec<Section> = sections.collect();
        let foot = self.foot(view, style);
        screen::composed(host::head(view, style), &sections, foot, height, true)
    }

    /// The tables, with the other processes at their last scan.
    fn with_others(&mut self, tables: &[FigureTable]) -> Vec<FigureTable> {
        let others = |table: &&FigureTable| table.kind == SeriesKind::Others;
        let scanned = tables.iter().find(others);
        if let Some(table) = scanned.filter(|table| !table.rows.is_empty()) {
            self.others = Some(table.clone());
        }
        let tables = tables.iter().filter(|table| !others(table)).cloned();
        tables.chain(self.others.clone()).collect()
    }

    /// The state, or appeared, disappeared or missing subjects, and the keys.
    fn foot(&self, view: &WatchView, style: Style) -> String {
        let line = LineBuilder::new(style);
        let filter = self.choice.filter.as_str();
        if self.types {
            let line = line.paint(Some(Paint::Strong), "filter: ").push(filter);
            return line.push("_").at_end("Enter accepts, Esc removes").done();
        }
        let line = match self.paused {
            true => line.paint(Some(Paint::Yellow), "PAUSED  "),
            false => line,
        };
        let filter = match filter {
            "" => "/ filter".to_owned(),
            filter => format!("/ filter: {filter}"),
        };
        let sort = self.choice.sort.name();
        let keys = format!("h help  p pause  s sort: {sort}  {filter}  q quit");
        let Some(remark) = screen::remark(view) else {
            return line.at_end(&keys).done();
        };
        // A long remark leaves the key that explains the others, and the filter that hides rows.
        let keys = match line.free() >= width(&remark) + 2 + width(&keys) {
            true => keys,
            false if self.choice.filter.is_empty() => "h help".to_owned(),
            false => format!("{filter}  h help"),
        };
        let room = line.free().saturating_sub(width(&keys) + 2);
        let remark = ended(&remark, room, style);
        let line = line.paint(Some(Paint::Yellow), &remark);
        line.at_end(&keys).done()
    }
}

/// Lines of the processes with their own I/O.
fn most_others(height: usize) -> usize {
    (height / 6).clamp(4, 12)
}

/// The keys, the bars, and the columns.
fn help(style: Style) -> Vec<String> {
    let strong = |text: &str| {
        let line = LineBuilder::new(style).paint(Some(Paint::Strong), text);
        line.done()
    };
    let plain = |text: &str| LineBuilder::new(style).push(text).done();
    let mut lines = vec![strong("iodyno watch: keys")];
    lines.extend(
        [
            "  q, Esc, Ctrl-C  quit",
            "  p, Space        pause, or go on: the next screen covers the pause",
            "  s               sort disks and processes: recently busiest, bytes, name",
            "  /, f            show only disks, pools and processes with a text in the name",
            "  i               show or hide loop devices without I/O",
            "  h, ?            this help; any key closes it",
        ]
        .map(plain),
    );
    lines.push(String::new());
    lines.push(strong("CPU bars"));
    lines.extend(cpus::legend(style));
    lines.push(String::new());
    lines.push(strong("other marks"));
    lines.extend(
        [
            "  beside cpu and disks  CPU time and utilisation before, the latest right",
            "  by CPU                interrupts, relative to the CPU with the most",
            "  balance               1: all CPUs handle the same number; 1 / CPUs: one does",
            "  pressure              share of the time in which some (all) tasks stalled",
            "  rKiB, r ms            size and time of a read, queueing included; w: writes",
        ]
        .map(plain),
    );
    lines
}
