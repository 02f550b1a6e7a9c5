//! Tables as Markdown, AsciiDoc, HTML and CSV. The text of a cell cannot break the table.

use super::{Align, Cell, Table};
use crate::csv;
use crate::style::{Paint, safe_text, sanitize};

/// A markup language, with functions for texts, lists and tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Markup {
    /// GitHub's Markdown.
    Markdown,
    /// AsciiDoc.
    AsciiDoc,
    /// A part of the body of a page.
    Html,
}

impl Markup {
    /// The text with all characters escaped that have a meaning in the language.
    pub(crate) fn escape(self, text: &str) -> String {
        let text = sanitize(text);
        match self {
            Markup::Markdown => markdown(&text),
            Markup::AsciiDoc => ascii_doc(&text),
            Markup::Html => html(&text),
        }
    }

    /// The same outside of tables: what is between backticks is code.
    pub(crate) fn prose(self, text: &str) -> String {
        let pieces: Vec<&str> = text.split('`').collect();
        if pieces.len().is_multiple_of(2)
            || pieces.iter().skip(1).step_by(2).any(|it| it.is_empty())
        {
            return self.escape(text);
        }
        let pieces = pieces.into_iter().enumerate();
        pieces
            .map(|(place, piece)| match place % 2 {
                0 => self.escape(piece),
                _ => self.code(&sanitize(piece)),
            })
            .collect()
    }

    /// What was between backticks.
    fn code(self, text: &str) -> String {
        match self {
            Markup::Markdown => format!("`{text}`"),
            Markup::AsciiDoc => format!("`{}`", ascii_doc(text)),
            Markup::Html => format!("<code>{}</code>", html(text)),
        }
    }

    /// Escaped text in bold.
    pub(crate) fn strong(self, text: &str) -> String {
        match self {
            _ if text.is_empty() => String::new(),
            Markup::Markdown => format!("**{text}**"),
            Markup::AsciiDoc => format!("*{text}*"),
            Markup::Html => format!("<strong>{text}</strong>"),
        }
    }

    /// Escaped lines, with a line break after each.
    pub(crate) fn paragraph(self, lines: &[String]) -> String {
        let line_break = match self {
            Markup::Markdown => "  \n",
            Markup::AsciiDoc => " +\n",
            Markup::Html => return format!("<p>{}</p>\n", lines.join("<br>\n")),
        };
        lines.join(line_break) + "\n"
    }

    /// Lines unchanged, in a block that they cannot end.
    pub fn block(self, text: &str) -> String {
        let text = safe_text(text, false);
        let text = text.trim_end_matches('\n');
        let longest = |mark: char| {
            let runs = text.split(|c| c != mark).map(str::len);
            runs.max().unwrap_or(0)
        };
        match self {
            Markup::Markdown => {
                let fence = "`".repeat(longest('`').max(2) + 1);
                format!("{fence}\n{text}\n{fence}\n")
            }
            Markup::AsciiDoc => {
                let fence = "-".repeat(longest('-').max(3) + 1);
                // Directives count in each kind of block.
                let is_directive = |line: &str| {
                    let name = line.trim_start_matches('\\').split_once("::");
                    name.is_some_and(|(name, _)| DIRECTIVES.contains(&name))
                };
                let lines = text.split('\n').map(|line| match is_directive(line) {
                    true => format!("\\{line}\n"),
                    false => format!("{line}\n"),
                });
                format!("{fence}\n{}{fence}\n", lines.collect::<String>())
            }
            Markup::Html => format!("<pre>{}</pre>\n", html(text)),
        }
    }

    /// Texts as a list, escaped; `None` without any.
    pub(crate) fn list(self, items: impl IntoIterator<Item = impl AsRef<str>>) -> Option<String> {
        let items = items.into_iter().map(|item| self.prose(item.as_ref()));
        let items: String = match self {
            Markup::Markdown => items.map(|item| format!("- {item}\n")).collect(),
            Markup::AsciiDoc => items.map(|item| format!("* {item}\n")).collect(),
            Markup::Html => items.map(|item| format!("<li>{item}</li>\n")).collect(),
        };
        (!items.is_empty()).then(|| match self {
            Markup::Html => format!("<ul>\n{items}</ul>\n"),
            _ => items,
        })
    }
}

/// AsciiDoc directives that take effect at the beginning of any line.
const DIRECTIVES: [&str; 5] = ["include", "ifdef", "ifndef", "ifeval", "endif"];

/// The longest text of a column of numbers that is not wrapped, characters.
const NUMBER: usize = 12;

impl Table {
    /// Headings and rows in a markup language; units and texts between rows are left out. Ends with a newline.
    pub(crate) fn markup(&self, markup: Markup) -> String {
        let heads = self.columns.iter();
        let heads: Vec<String> = heads.map(|it| markup.escape(&it.head)).collect();
        let escaped = |cells: &[Cell]| -> Vec<String> {
            let cells = cells.iter();
            cells.map(|cell| markup.escape(&cell.text)).collect()
        };
        let rows = self.rows().map(escaped);
        let aligns = self.columns.iter().map(|column| column.align);
        match markup {
            Markup::Markdown => {
                let rule = aligns.map(|align| match align {
                    Align::Left => "---".to_owned(),
                    Align::Right => "--:".to_owned(),
                });
                let lines = [heads, rule.collect()].into_iter().chain(rows);
                lines
                    .map(|cells| format!("| {} |\n", cells.join(" | ")))
                    .collect()
            }
            Markup::AsciiDoc => {
                let aligns = aligns.map(|align| match align {
                    Align::Left => "<",
                    Align::Right => ">",
                });
                let aligns: Vec<&str> = aligns.collect();
                let mut text =
                    format!("[cols=\"{}\",options=\"header\"]\n|===\n", aligns.join(","));
                let rows: Vec<String> = std::iter::once(heads)
                    .chain(rows)
                    // Each cell is on a separate line: letters and digits before a pipe would be read as a format
                    // specifier.
                    .map(|cells| cells.iter().map(|cell| format!("|{cell}\n")).collect())
                    .collect();
                text += &rows.join("\n");
                text + "|===\n"
            }
            Markup::Html => {
                let classes = aligns.map(|align| match align {
                    Align::Left => "",
                    Align::Right => " class=\"number\"",
                });
                let classes: Vec<&str> = classes.collect();
                let heads = heads.iter().zip(&classes);
                let head: String = heads
                    .map(|(head, class)| format!("<th{class}>{head}</th>"))
                    .collect();
                let row = |cells: &[Cell]| {
                    let cells = cells.iter().zip(&classes);
                    let cells = cells.map(|(cell, class)| {
                        let text = markup.escape(&cell.text);
                        // A number is not separated from its unit.
                        let text = match !class.is_empty() && text.chars().count() <= NUMBER {
                            true => text.replace(' ', "&nbsp;"),
                            false => text,
                        };
                        let text = match cell.paint.and_then(class_of) {
                            Some(color) => format!("<span class=\"{color}\">{text}</span>"),
                            None => text,
                        };
                        format!("<td{class}>{text}</td>")
                    });
                    format!("<tr>{}</tr>\n", cells.collect::<String>())
                };
                let head = format!("<tr>{head}</tr>\n");
                let rows: String = self.rows().map(row).collect();
                format!("<table>\n<thead>\n{head}</thead>\n<tbody>\n{rows}</tbody>\n</table>\n")
            }
        }
    }

    /// Headings and rows as comma-separated values, as [`csv::record`] writes them.
    pub(crate) fn csv(&self) -> String {
        let heads = self.columns.iter().map(|column| column.head.as_str());
        let mut text = csv::record(heads);
        for cells in self.rows() {
            text += &csv::record(cells.iter().map(|cell| cell.text.as_str()));
        }
        text
    }
}

/// The class of a colour in a page; `None`: it is that of text.
fn class_of(paint: Paint) -> Option<&'static str> {
    match paint {
        Paint::Green => Some("good"),
        Paint::Red => Some("bad"),
        Paint::Cyan => Some("settled"),
        Paint::Yellow => Some("open"),
        Paint::Strong | Paint::Dim => None,
    }
}

fn markdown(text: &str) -> String {
    let mut escaped = String::new();
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        let next = characters.peek();
        let special = match character {
            '\\' | '|' | '*' | '`' | '<' | '~' => true,
            // Only such brackets form or define a link; those of intervals are not escaped.
            ']' => matches!(next, Some('(' | '[' | ':')),
            // Within words they have no meaning.
            '_' => escaped.is_empty() || next.is_none(),
            _ => false,
        };
        if special {
            escaped.push('\\');
        }
        escaped.push(character);
    }
    escaped
}

fn html(text: &str) -> String {
    let mut escaped = String::new();
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            character => escaped.push(character),
        }
    }
    escaped
}

fn ascii_doc(text: &str) -> String {
    let mut escaped = String::new();
    for character in text.chars() {
        match character {
            // A backslash before the pipe does not work after another backslash.
            '|' => escaped.push_str("{vbar}"),
            '*' => escaped.push_str("{asterisk}"),
            '`' => escaped.push_str("{backtick}"),
            '~' => escaped.push_str("{tilde}"),
            '^' => escaped.push_str("{caret}"),
            '+' => escaped.push_str("{plus}"),
            '{' => escaped.push_str("&#123;"),
            '#' => escaped.push_str("&#35;"),
            '<' => escaped.push_str("&#60;"),
            '&' => escaped.push_str("&#38;"),
            // After a word it begins the text of a macro, after another bracket an anchor.
            '[' if !escaped.is_empty() && !escaped.ends_with(' ') => escaped.push_str("&#91;"),
            character => escaped.push(character),
        }
    }
    escaped
}
