//! A series as a line of bars.

use crate::style::Style;

const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
const ASCII: [char; 8] = ['_', '.', ':', '-', '=', '+', '*', '#'];

/// One character for each value, or for the mean of several values if there are more than `columns`. The scale begins
/// at zero, so that heights can be compared.
pub(crate) fn line(values: &[f64], columns: usize, style: Style) -> String {
    let marks = if style.unicode { BLOCKS } else { ASCII };
    let count = values.len().min(columns.max(1));
    let means: Vec<f64> = (0..count)
        .map(|column| {
            let from = column * values.len() / count;
            let to = (column + 1) * values.len() / count;
            values[from..to].iter().sum::<f64>() / (to - from) as f64
        })
        .collect();
    let largest = means.iter().copied().fold(0.0, f64::max);
    means
        .iter()
        .map(|mean| match largest > 0.0 {
            true => marks[((mean / largest * 8.0).ceil() as usize).clamp(1, 8) - 1],
            false => marks[0],
        })
        .collect()
}

/// One character for each value on a scale from zero to `largest`; a blank for an unknown value.
pub(crate) fn scaled(values: &[Option<f64>], largest: f64, style: Style) -> String {
    let marks = if style.unicode { BLOCKS } else { ASCII };
    let mark = |value: &Option<f64>| match value {
        Some(value) if largest > 0.0 => {
            marks[((value / largest * 8.0).ceil() as usize).clamp(1, 8) - 1]
        }
        Some(_) => marks[0],
        None => ' ',
    };
    values.iter().map(mark).collect()
}

#[cfg(test)]
mod tests {
    use super::{line, scaled};
    use crate::Style;

    #[test]
    fn heights_begin_at_zero_and_long_series_are_averaged() {
        let style = Style::default();
        assert_eq!(line(&[8.0, 4.0, 1.0, 0.0], 40, style), "█▄▁▁");
        assert_eq!(line(&[4.0, 4.0, 8.0, 8.0], 2, style), "▄█");
        assert_eq!(line(&[0.0, 0.0], 40, style), "▁▁");
        let ascii = Style {
            unicode: false,
            ..style
        };
        assert_eq!(line(&[8.0, 4.0, 1.0], 40, ascii), "#-_");
        assert_eq!(line(&[1.0; 1000], 30, style).chars().count(), 30);
    }

    #[test]
    fn on_a_fixed_scale_unknown_values_are_blank() {
        let style = Style::default();
        let values = [Some(100.0), None, Some(50.0), Some(0.0), Some(250.0)];
        assert_eq!(scaled(&values, 100.0, style), "█ ▄▁█");
        assert_eq!(scaled(&[Some(0.0), None], 0.0, style), "▁ ");
    }
}
