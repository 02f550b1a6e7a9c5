//! Stacks as bars: in text, and as SVG in a page.

use iodyno_model::{Quantity, SeriesUnit, Stack, TimePart};

use crate::series::with_unit;
use crate::style::{Style, cut, left, sanitize, width};

/// A bar: the name of a side, its parts in ns, and their sum.
pub(super) struct Bar<'a> {
    side: &'a str,
    parts: Vec<(TimePart, f64)>,
    whole: f64,
}

/// The bars of both sides.
pub(super) fn of_sides<'a>((one, other): &'a (String, String), stack: &Stack) -> [Bar<'a>; 2] {
    let bar = |side, of: fn(&Quantity) -> f64| {
        let parts = stack.parts.iter().map(|(part, it)| (*part, of(it)));
        let parts: Vec<(TimePart, f64)> = parts.collect();
        let whole = parts.iter().map(|(_, ns)| ns).sum();
        Bar { side, parts, whole }
    };
    [bar(one, |it| it.sides.0), bar(other, |it| it.sides.1)]
}

/// How a part is drawn: its character in Unicode and ASCII, and its place among the colours.
fn look(part: TimePart) -> (char, char, usize) {
    match part {
        TimePart::Device | TimePart::Requests(0) => ('█', 'D', 0),
        TimePart::Queue => ('▓', 'Q', 5),
        TimePart::Layers => ('▒', 'L', 2),
        TimePart::Server => ('%', '%', 3),
        TimePart::KernelCpu => ('#', '#', 1),
        TimePart::UserCpu => ('=', '=', 4),
        TimePart::CpuWait => ('~', '~', 6),
        TimePart::SyncDevice => ('▄', 'S', 1),
        TimePart::Requests(1) => ('▄', 'S', 0),
        TimePart::SyncAbove | TimePart::Syncs => ('▁', 's', 4),
        TimePart::Requests(kind) => ('▀', 'F', if kind == 3 { 5 } else { 0 }),
        TimePart::Step(_) => (' ', ' ', 0),
        TimePart::Unknown
        | TimePart::OutsideServer
        | TimePart::Asleep
        | TimePart::Above
        | TimePart::AsleepOrDevice
        | TimePart::DeviceAndAbove => ('░', '.', 7),
    }
}

/// The character of a part in bars of text.
pub(super) fn mark(part: TimePart, style: Style) -> char {
    let (block, ascii, _) = look(part);
    if style.unicode { block } else { ascii }
}

/// Parts with this many characters for each unit.
pub(super) fn characters(parts: &[(TimePart, f64)], scale: f64, style: Style) -> String {
    let (mut text, mut sum, mut drawn) = (String::new(), 0.0, 0);
    for (part, size) in parts {
        sum += size;
        // The sum is rounded, so that the length of the bar is right.
        let until = ((sum * scale).round() as usize).max(drawn);
        text.extend(std::iter::repeat_n(mark(*part, style), until - drawn));
        drawn = until;
    }
    text
}

/// The length of a side's name beside its bar, at most.
const MAX_NAME: usize = 16;

fn largest(bars: &[Bar]) -> f64 {
    let wholes = bars.iter().map(|bar| bar.whole);
    wholes.fold(f64::MIN_POSITIVE, f64::max)
}

/// A line for each bar, on one scale.
pub(super) fn lines(bars: &[Bar], columns: usize, style: Style) -> String {
    let names = bars.iter().map(|bar| width(bar.side)).max().unwrap_or(0);
    let names = names.min(MAX_NAME);
    let end = |bar: &Bar| with_unit(bar.whole, SeriesUnit::Nanos);
    let ends = bars.iter().map(|bar| width(&end(bar))).max().unwrap_or(0);
    let room = columns.saturating_sub(names + ends + 5).min(60);
    let line = |bar: &Bar| {
        let side = left(&cut(&sanitize(bar.side), names), names);
        let text = characters(&bar.parts, room as f64 / largest(bars), style);
        format!("  {side}  {text} {}\n", style.plain(&end(bar)))
    };
    bars.iter().map(line).collect()
}

/// The same as SVG with a legend.
#[cfg(feature = "charts")]
pub(super) fn svg(bars: &[Bar]) -> String {
    use crate::figure::{COLOURS, css};
    use maud::html;
    let colour = |part: TimePart| match look(part).2 {
        6 => css((140, 86, 75)),
        7 => css((150, 150, 150)),
        place => css(COLOURS[place]),
    };
    let scale = 640.0 / largest(bars);
    // Where each part begins.
    let placed = |bar: &Bar| {
        let mut from = 0.0;
        let each = bar.parts.iter().map(|(part, ns)| {
            from += ns;
            (*part, *ns, 160.0 + (from - ns) * scale)
        });
        each.collect::<Vec<(TimePart, f64, f64)>>()
    };
    let with_unit = |ns: f64| with_unit(ns, SeriesUnit::Nanos);
    let legend = bars.first().into_iter().flat_map(|bar| &bar.parts);
    let drawn = html! {
        div.keys {
            @for (part, _) in legend {
                span.key { i.shade style={ "background:" (colour(*part)) } {} (part.words()) }
            }
        }
        svg.bars role="img" viewBox={ "0 0 900 " (28 * bars.len()) } style="width:100%;max-width:900px" {
            @for (row, bar) in bars.iter().enumerate() {
                @let y = 28 * row;
                text x="150" y=(y + 17) text-anchor="end" fill="currentColor" font-size="13" { (cut(bar.side, 20)) }
                @for (part, ns, x) in placed(bar) {
                    rect x=(format!("{x:.1}")) y=(y + 2) width=(format!("{:.1}", ns * scale)) height="22"
                        fill=(colour(part)) {
                        title { (part.words()) ": " (with_unit(ns)) }
                    }
                }
                text x=(format!("{:.1}", 168.0 + bar.whole * scale)) y=(y + 17) fill="currentColor"
                    font-size="13" { (with_unit(bar.whole)) }
            }
        }
    };
    drawn.into_string()
}

/// Without `charts`, there is no page.
#[cfg(not(feature = "charts"))]
pub(super) fn svg(_: &[Bar]) -> String {
    String::new()
}
