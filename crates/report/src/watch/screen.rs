//! A picture for a terminal.

use super::WatchView;
use crate::style::{Style, cut};

/// At most `height` lines, none wider than the style's width.
pub fn screen(view: &WatchView, style: Style, height: usize) -> Vec<String> {
    let head = cut(&format!("{} {}", view.host, view.kernel), style.columns());
    let mut lines = vec![style.plain(&head)];
    lines.truncate(height);
    lines
}
