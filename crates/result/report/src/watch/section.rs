//! A part of the screen, with a variable number of lines.

/// A part of the screen.
pub(super) struct Section<'a> {
    /// Minimum number of lines; the section is omitted if they do not fit.
    pub(super) least: usize,
    /// Number of lines of the complete section.
    pub(super) most: usize,
    pub(super) draw: Box<dyn Fn(usize) -> Vec<String> + 'a>,
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

    /// The same with other numbers of lines.
    pub(super) fn with_lines(self, least: usize, most: usize) -> Section<'a> {
        Section {
            least,
            most,
            ..self
        }
    }

    /// Nothing.
    pub(super) fn blank() -> Section<'a> {
        Section::new(0, 0, |_| Vec::new())
    }
}
