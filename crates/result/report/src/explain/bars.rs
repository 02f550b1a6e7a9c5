//! Stacks as bars: in text, and as SVG in a page.

use iodyno_model::TimePart;

use super::words::with_unit;
use crate::style::{Style, cut, left};
use iodyno_model::SeriesUnit;

/// A bar: the name of a side, the parts with their sizes, and the text at its end.
pub(super) struct Bar<'a> {
    pub(super) side: &'a str,
    pub(super) parts: Vec<(TimePart, f64)>,
    pub(super) end: String,
}

/// Two bars of parts in ns.
pub(super) fn of_sides<'a>(
    (one, other): (&'a str, &'a str),
    parts: &[(TimePart, iodyno_model::Quantity)],
) -> [Bar<'a>; 2] {
    let bar = |side, of: fn(&(f64, f64)) -> f64| {
        let parts: Vec<_> = parts
            .iter()
            .map(|(part, it)| (*part, of(&it.sides)))
            .collect();
        let whole = parts.iter().map(|(_, ns)| ns).sum();
        Bar {
            side,
            parts,
            end: with_unit(whole, SeriesUnit::Nanos),
        }
    };
    [bar(one, |sides| sides.0), bar(other, |sides| sides.1)]
}

/// The character of a part in bars of text.
pub(super) fn mark(part: TimePart, style: Style) -> char {
    let (block, ascii) = match part {
        TimePart::Device | TimePart::Requests(0) => ('█', 'D'),
        TimePart::Queue => ('▓', 'Q'),
        TimePart::Layers => ('▒', 'L'),
        TimePart::Server => ('%', '%'),
        TimePart::KernelCpu => ('#', '#'),
        TimePart::UserCpu => ('=', '='),
        TimePart::CpuWait => ('~', '~'),
        TimePart::Unknown
        | TimePart::Above
        | TimePart::AsleepOrDevice
        | TimePart::DeviceAndAbove => ('░', '.'),
        TimePart::SyncDevice | TimePart::Requests(1) => ('▄', 'S'),
        TimePart::SyncAbove | TimePart::Syncs => ('▁', 's'),
        TimePart::Requests(_) => ('▀', 'F'),
        TimePart::Step(_) => (' ', ' '),
    };
    if style.unicode { block } else { ascii }
}

/// The length of a side's name beside its bar, at most.
const MAX_NAME: usize = 16;

/// A line for each bar, on one scale.
pub(super) fn lines(bars: &[Bar], columns: usize, style: Style) -> String {
    let names = bars
        .iter()
        .map(|bar| crate::style::width(bar.side))
        .max()
        .unwrap_or(0)
        .min(MAX_NAME);
    let ends = bars
        .iter()
        .map(|bar| crate::style::width(&bar.end))
        .max()
        .unwrap_or(0);
    let room = columns.saturating_sub(names + ends + 5).min(60);
    let whole = |bar: &Bar| bar.parts.iter().map(|(_, size)| size).sum::<f64>();
    let largest = bars.iter().map(whole).fold(f64::MIN_POSITIVE, f64::max);
    let line = |bar: &Bar| {
        let (mut text, mut sum) = (String::new(), 0.0);
        let mut drawn = 0;
        for (part, size) in &bar.parts {
            sum += size;
            // The sum is rounded, so that the length of the bar is right.
            let until = (sum / largest * room as f64).round() as usize;
            text.extend(std::iter::repeat_n(
                mark(*part, style),
                until.saturating_sub(drawn),
            ));
            drawn = drawn.max(until);
        }
        let side = cut(&crate::style::sanitize(bar.side), names);
        format!(
            "  {}  {text} {}\n",
            left(&side, names),
            style.plain(&bar.end)
        )
    };
    bars.iter().map(line).collect()
}

/// The same as SVG with a legend.
#[cfg(feature = "charts")]
pub(super) fn svg(bars: &[Bar]) -> String {
    use crate::figure::css;
    use maud::html;
    const WIDTH: f64 = 640.0;
    let whole = |bar: &Bar| bar.parts.iter().map(|(_, size)| size).sum::<f64>();
    let largest = bars.iter().map(whole).fold(f64::MIN_POSITIVE, f64::max);
    let rectangles = |bar: &Bar| -> Vec<(TimePart, f64, f64, f64)> {
        let mut from = 0.0;
        let each = bar.parts.iter().map(|(part, size)| {
            let width = size / largest * WIDTH;
            from += width;
            (*part, from - width, width, *size)
        });
        each.collect()
    };
    let height = 28 * bars.len();
    let legend = bars
        .first()
        .map(|bar| bar.parts.as_slice())
        .unwrap_or_default();
    let drawn = html! {
        div.keys {
            @for (part, _) in legend {
                span.key { i.shade style={ "background:" (css(colour(*part))) } {} (part.words()) }
            }
        }
        svg.bars role="img" viewBox={ "0 0 900 " (height) } style="width:100%;max-width:900px" {
            @for (row, bar) in bars.iter().enumerate() {
                @let y = 28 * row;
                text x="150" y=(y + 17) text-anchor="end" fill="currentColor" font-size="13" { (cut(bar.side, 20)) }
                @for (part, x, width, size) in rectangles(bar) {
                    rect x=(format!("{:.1}", 160.0 + x)) y=(y + 2) width=(format!("{width:.1}")) height="22"
                        fill=(css(colour(part))) {
                        title { (part.words()) ": " (with_unit(size, SeriesUnit::Nanos)) }
                    }
                }
                text x=(format!("{:.1}", 168.0 + whole(bar) / largest * WIDTH)) y=(y + 17) fill="currentColor"
                    font-size="13" { (bar.end) }
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

/// The colour of a part in bars of a page.
#[cfg(feature = "charts")]
fn colour(part: TimePart) -> crate::figure::Colour {
    use crate::figure::COLOURS;
    match part {
        TimePart::Queue | TimePart::Requests(3) => COLOURS[5],
        TimePart::Device | TimePart::Requests(_) | TimePart::Step(_) => COLOURS[0],
        TimePart::Layers => COLOURS[2],
        TimePart::Server => COLOURS[3],
        TimePart::KernelCpu | TimePart::SyncDevice => COLOURS[1],
        TimePart::UserCpu | TimePart::SyncAbove | TimePart::Syncs => COLOURS[4],
        TimePart::CpuWait => (140, 86, 75),
        TimePart::Unknown
        | TimePart::Above
        | TimePart::AsleepOrDevice
        | TimePart::DeviceAndAbove => (150, 150, 150),
    }
}
