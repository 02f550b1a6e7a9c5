//! A screen for a terminal: a list of sections, each with as many lines as fit.

use super::cpus::Cpus;
use super::line::LineBuilder;
use super::{WatchView, disks, host, interrupts, others};
use crate::style::{Paint, Style};

/// A part of the screen.
pub(super) struct Section<'a> {
    /// Minimum number of lines; the section is omitted if they do not fit.
    least: usize,
    /// Number of lines of the complete section.
    most: usize,
    draw: Box<dyn Fn(usize) -> Vec<String> + 'a>,
}

impl<'a> Section<'a> {
    /// `draw` produces at most the requested number of lines, from `least` to `most`.
    pub(super) fn new(
        least: usize,
        most: usize,
        draw: impl Fn(usize) -> Vec<String> + 'a,
    ) -> Section<'a> {
        Section {
            least: least.min(most),
            most,
            draw: Box::new(draw),
        }
    }
}

/// At most `height` lines, each narrower than the terminal. If not everything fits, CPUs, disks, pools and processes
/// are shortened first, and then whole sections are omitted from the last one on.
pub fn screen(view: &WatchView, style: Style, height: usize) -> Vec<String> {
    let head = host::head(view, style);
    let foot = foot(view, style);
    // The line of the foot is reserved even without a remark.
    let room = height.saturating_sub(2);
    let sections: Vec<Section> = [
        Cpus::section(view, style),
        disks::section(view, style),
        interrupts::section(view, style),
        host::pressure(view, style),
        host::memory(view, style),
        host::reclaim(view, style),
        others::processes(view, style),
        others::pools(view, style),
        host::arc(view, style),
        others::others(view, style),
    ]
    .into_iter()
    .flatten()
    .collect();
    let rooms = shared_out(&sections, room);
    let blank = between(&sections, room);
    let mut lines = vec![head];
    for (section, room) in sections.iter().zip(rooms).filter(|(_, room)| *room > 0) {
        let drawn = (section.draw)(room);
        // No blank line before a section of one line.
        if blank && section.most > 1 {
            lines.push(String::new());
        }
        lines.extend(drawn.into_iter().take(room));
    }
    if sections.is_empty() {
        lines.push("no samples yet".to_owned());
    }
    lines.truncate(height.saturating_sub(1).max(1));
    lines.push(foot);
    while lines.last().is_some_and(String::is_empty) {
        lines.pop();
    }
    lines.truncate(height);
    lines
}

/// Whether everything fits with blank lines between the sections.
fn between(sections: &[Section], room: usize) -> bool {
    let blanks = sections.iter().filter(|section| section.most > 1).count();
    let needed: usize = sections.iter().map(|section| section.most).sum();
    needed + blanks <= room
}

/// The number of lines of each section: first the minimum of each, in their order, then the rest line by line.
fn shared_out(sections: &[Section], mut room: usize) -> Vec<usize> {
    let mut rooms: Vec<usize> = sections
        .iter()
        .map(|section| match section.least <= room {
            true => {
                room -= section.least;
                section.least
            }
            false => 0,
        })
        .collect();
    loop {
        let before = room;
        for (section, lines) in sections.iter().zip(&mut rooms) {
            if room > 0 && *lines > 0 && *lines < section.most {
                *lines += 1;
                room -= 1;
            }
        }
        if room == before || room == 0 {
            return rooms;
        }
    }
}

/// Remarks on subjects that appeared, disappeared or are missing.
fn foot(view: &WatchView, style: Style) -> String {
    match view.history.last_remark() {
        None => String::new(),
        Some((remark, 1)) => LineBuilder::new(style)
            .paint(Some(Paint::Yellow), &format!("! {remark}"))
            .done(),
        Some((remark, several)) => {
            let more = format!("! {remark} (and {} more)", several - 1);
            LineBuilder::new(style)
                .paint(Some(Paint::Yellow), &more)
                .done()
        }
    }
}
