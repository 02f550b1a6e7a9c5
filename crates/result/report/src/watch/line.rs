//! A line of the screen, cut at the screen's width.

use crate::style::{Paint, Style, cut, left, right, sanitize, shortened, width};

/// Builds a line piece by piece.
pub(super) struct LineBuilder {
    style: Style,
    text: String,
    /// Columns in use.
    taken: usize,
    room: usize,
}

impl LineBuilder {
    /// An empty line. The terminal's last column is not used, because some terminals wrap there.
    pub(super) fn new(style: Style) -> LineBuilder {
        LineBuilder {
            style,
            text: String::new(),
            taken: 0,
            room: columns(style),
        }
    }

    /// Adds as much of the text as fits.
    pub(super) fn push(mut self, text: &str) -> LineBuilder {
        self.add(text, None);
        self
    }

    /// Adds text in a colour.
    pub(super) fn paint(mut self, paint: Option<Paint>, text: &str) -> LineBuilder {
        self.add(text, paint);
        self
    }

    /// Text aligned left in this number of columns, truncated if it is longer.
    pub(super) fn left(self, text: &str, columns: usize) -> LineBuilder {
        let text = shortened(&sanitize(text), columns, self.style);
        self.push(&left(&text, columns))
    }

    /// Text aligned right in this number of columns; a longer number is not truncated.
    pub(super) fn right(self, paint: Option<Paint>, text: &str, columns: usize) -> LineBuilder {
        self.paint(paint, &right(text, columns))
    }

    /// Columns that are left.
    pub(super) fn free(&self) -> usize {
        self.room.saturating_sub(self.taken)
    }

    /// Text at the end of the line, if there is room for it and for two blanks.
    pub(super) fn at_end(self, text: &str) -> LineBuilder {
        let free = self.free();
        match free >= width(text) + 2 {
            true => self.push(&right(text, free)),
            false => self,
        }
    }

    fn add(&mut self, text: &str, paint: Option<Paint>) {
        let plain = self.style.plain(&sanitize(text));
        let fits = cut(&plain, self.free());
        self.taken += width(&fits);
        self.text += &match paint {
            Some(paint) => self.style.paint(paint, &fits),
            None => fits,
        };
    }

    pub(super) fn done(self) -> String {
        self.text.trim_end().to_owned()
    }
}

/// Columns that a line may have.
pub(super) fn columns(style: Style) -> usize {
    style.columns() - 1
}

/// The colour of a share in percent.
pub(super) fn level(percent: Option<f64>) -> Option<Paint> {
    match percent {
        Some(percent) if percent >= 90.0 => Some(Paint::Red),
        Some(percent) if percent >= 70.0 => Some(Paint::Yellow),
        _ => None,
    }
}

/// A share with one decimal; `-` if it is unknown.
pub(super) fn share(percent: Option<f64>) -> String {
    percent.map_or("-".to_owned(), |percent| match percent {
        percent if percent >= 99.95 => format!("{percent:.0}"),
        percent => format!("{percent:.1}"),
    })
}
