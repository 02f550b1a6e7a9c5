//! A screen for a terminal: a list of sections, each with as many lines as fit.

use super::choice::Choice;
use super::cpus::Cpus;
use super::line::LineBuilder;
use super::section::Section;
use super::{WatchView, disks, host, interrupts, others};
use crate::style::{Paint, Style};

/// At most `height` lines, each narrower than the terminal. If not everything fits, CPUs, disks, pools and processes
/// are shortened first, and then whole sections are omitted from the last one on.
pub fn screen(view: &WatchView, style: Style, height: usize) -> Vec<String> {
    let sections = sections(view, style, &Choice::default()).into_iter();
    let sections: Vec<Section> = sections.filter_map(|(_, section)| section).collect();
    let foot = remark(view).map_or(String::new(), |remark| {
        let line = LineBuilder::new(style);
        line.paint(Some(Paint::Yellow), &remark).done()
    });
    composed(host::head(view, style), &sections, foot, height, false)
}

/// All sections with their names, from the top; `None`: it has nothing to show.
pub(super) fn sections<'a>(
    view: &'a WatchView<'a>,
    style: Style,
    choice: &Choice,
) -> Vec<(&'static str, Option<Section<'a>>)> {
    vec![
        ("cpu", Cpus::section(view, style)),
        ("disks", disks::section(view, style, choice)),
        ("interrupts", interrupts::section(view, style)),
        ("pressure", host::pressure(view, style)),
        ("memory", host::memory(view, style)),
        ("reclaim", host::reclaim(view, style)),
        ("processes", others::processes(view, style, choice)),
        ("pools", others::pools(view, style, choice)),
        ("arc", host::arc(view, style)),
        ("others", others::others(view, style, choice)),
    ]
}

/// A head, sections and a foot in at most `height` lines. `fills`: each section is filled up with blank lines.
pub(super) fn composed(
    head: String,
    sections: &[Section],
    foot: String,
    height: usize,
    fills: bool,
) -> Vec<String> {
    // The line of the foot is reserved even without a remark.
    let room = height.saturating_sub(2);
    let rooms = shared_out(sections, room);
    let blank = between(sections, room);
    let mut lines = vec![head];
    for (section, room) in sections.iter().zip(rooms).filter(|(_, room)| *room > 0) {
        let drawn = (section.draw)(room);
        // No blank line before a section of one line.
        if blank && section.most > 1 {
            lines.push(String::new());
        }
        let end = lines.len() + room;
        lines.extend(drawn.into_iter().take(room));
        if fills {
            lines.resize(end, String::new());
        }
    }
    if sections.is_empty() {
        lines.push("no samples yet".to_owned());
    }
    lines.truncate(height.saturating_sub(1).max(1));
    if fills {
        // The foot is the last line of the terminal.
        lines.resize(height.saturating_sub(1).max(1), String::new());
    }
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

/// Remarks on subjects that appeared, disappeared or are missing: the last one, and how many there are.
pub(super) fn remark(view: &WatchView) -> Option<String> {
    Some(match view.history.last_remark()? {
        (remark, 1) => format!("! {remark}"),
        (remark, several) => format!("! {remark} (and {} more)", several - 1),
    })
}
