use proptest::collection::vec;
use proptest::prelude::*;

use super::{Cell, Column, Markup, Table};
use crate::Style;
use crate::style::{Paint, sanitize, width};

const PLAIN: Style = Style {
    color: false,
    width: 80,
    unicode: true,
};

fn runs() -> Table {
    let mut table = Table::new([
        Column::left("name").middle(8),
        Column::right("rate").unit("/s"),
        Column::right("p99").unit("ms").drop(1),
        Column::left("remark").wrap(10),
    ]);
    table.row(["sequential read", "671", "1.19", "the cache was warm"]);
    table.text("writes:", 2, None);
    table.row(["write", "12.3k", "0.4"]);
    table
}

#[track_caller]
fn check(table: &Table, columns: usize, lines: &[&str]) {
    assert_eq!(table.lines(columns, PLAIN), lines);
}

#[test]
fn columns_are_as_wide_as_their_cells() {
    let lines = [
        "name              rate   p99  remark",
        "                    /s    ms",
        "sequential read    671  1.19  the cache was warm",
        "writes:",
        "write            12.3k   0.4",
    ];
    check(&runs(), 48, &lines);
    assert!(runs().fits(48, PLAIN) && !runs().fits(47, PLAIN));
    assert_eq!(runs().free(60, PLAIN), 12);
    assert!(runs().dropped(48, PLAIN).is_empty());
}

#[test]
fn cells_are_narrowed_before_columns_are_dropped() {
    let lines = [
        "name        rate   p99  remark",
        "              /s    ms",
        "sequ…read    671  1.19  the cache",
        "                        was warm",
        "writes:",
        "write      12.3k   0.4",
    ];
    check(&runs(), 34, &lines);
    let lines = [
        "name         rate  remark",
        "               /s",
        "seque…read    671  the cache",
        "                   was warm",
        "writes:",
        "write       12.3k",
    ];
    check(&runs(), 29, &lines);
    assert_eq!(runs().dropped(29, PLAIN), [2]);
}

#[test]
fn a_row_without_room_is_a_block() {
    let lines = [
        "sequential read",
        "  rate 671 /s",
        "  p99 1.19 ms",
        "  remark the cache",
        "  was warm",
        "writes:",
        "write",
        "  rate 12.3k /s",
        "  p99 0.4 ms",
    ];
    check(&runs(), 20, &lines);
    let cut = [
        "name       rate  rem",
        "             /s",
        "sequ…ead    671  the",
        "                 was",
        "writes:",
        "write     12.3k",
    ];
    check(&runs().cut(), 20, &cut);
}

/// Texts that could break a table, a terminal or a markup language.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        Just(String::new()),
        Just("a|b\\|c\\".to_owned()),
        Just("|===".to_owned()),
        Just("two\nlines, \"quoted\"\r".to_owned()),
        Just("\x1b[2J".to_owned()),
        Just("**bold** `code` <b> {attr} [x](y) ~~s~~ a_b _c_ &amp; #+^".to_owned()),
        "[a-z0-9µ×±|*_`~<>{}#+^&\\[\\](),; -]{0,24}",
        "\\PC{0,16}",
    ]
}

fn column() -> impl Strategy<Value = Column> {
    (text(), any::<bool>(), 0usize..12, 0u32..4, 0usize..4).prop_map(
        |(head, left, least, drop, narrow)| {
            let column = if left {
                Column::left(head)
            } else {
                Column::right(head)
            };
            let column = column.at_least(least).drop(drop);
            match narrow {
                0 => column,
                1 => column.middle(6),
                2 => column.end(6),
                _ => column.wrap(6),
            }
        },
    )
}

type Made = (Table, Vec<Vec<String>>);

fn made() -> impl Strategy<Value = Made> {
    let columns = vec(column(), 1..7);
    let parts = (columns, vec(vec(text(), 7), 0..6), 0usize..4, 0usize..6);
    parts.prop_map(|(columns, rows, gap, indent)| {
        let count = columns.len();
        let mut table = Table::new(columns).gap(gap).indent(indent);
        let rows: Vec<Vec<String>> = rows.into_iter().map(|row| row[..count].to_vec()).collect();
        for (number, row) in rows.iter().enumerate() {
            match number % 3 {
                0 => table.row(
                    row.iter()
                        .map(|text| Cell::painted(text.as_str(), Paint::Red)),
                ),
                1 => table.painted_row(row.clone(), Some(Paint::Green)),
                _ => table.row(row.clone()),
            }
        }
        (table, rows)
    })
}

/// The text without escape sequences of colours.
fn uncoloured(text: &str) -> String {
    let mut pieces = text.split("\x1b[");
    let first = pieces.next().unwrap_or_default().to_owned();
    pieces.fold(first, |text, piece| {
        text + piece.split_once('m').expect("a colour").1
    })
}

/// The text without blanks: wrapping moves them.
fn ink(text: &str) -> String {
    text.chars().filter(|it| !it.is_whitespace()).collect()
}

/// Whether the characters of one text occur in their order in another.
fn is_within(part: &str, whole: &str) -> bool {
    let mut characters = whole.chars();
    part.chars()
        .all(|wanted| characters.any(|found| found == wanted))
}

/// Removes one level of a markup language's escapes.
fn unescaped(markup: Markup, text: &str) -> String {
    match markup {
        Markup::Markdown => {
            let mut read = String::new();
            let mut characters = text.chars();
            while let Some(character) = characters.next() {
                read.extend(match character {
                    '\\' => characters.next(),
                    character => Some(character),
                });
            }
            read
        }
        Markup::Html => [
            ("&lt;", "<"),
            ("&gt;", ">"),
            ("&quot;", "\""),
            ("&#39;", "'"),
            ("&amp;", "&"),
        ]
        .iter()
        .fold(text.to_owned(), |text, (escape, character)| {
            text.replace(escape, character)
        }),
        Markup::AsciiDoc => [
            ("{vbar}", "|"),
            ("{asterisk}", "*"),
            ("{backtick}", "`"),
            ("{tilde}", "~"),
            ("{caret}", "^"),
            ("{plus}", "+"),
            ("&#123;", "{"),
            ("&#35;", "#"),
            ("&#60;", "<"),
            ("&#91;", "["),
            ("&#38;", "&"),
        ]
        .iter()
        .fold(text.to_owned(), |text, (escape, character)| {
            text.replace(escape, character)
        }),
    }
}

/// The cells of a line of Markdown: separated by pipes that are not escaped by a backslash.
fn cells(line: &str) -> Vec<String> {
    let mut cells = vec![String::new()];
    let mut escaped = false;
    for character in line.chars() {
        if character == '|' && !escaped {
            cells.push(String::new());
        } else if let Some(cell) = cells.last_mut() {
            cell.push(character);
        }
        escaped = character == '\\' && !escaped;
    }
    // There is no cell before the first pipe and after the last one.
    cells[1..cells.len() - 1]
        .iter()
        .map(|cell| cell[1..cell.len() - 1].to_owned())
        .collect()
}

proptest! {
    #[test]
    fn no_line_is_longer_than_the_width_and_colours_do_not_change_the_text(
        (table, _) in made(), columns in 20usize..160, unicode in any::<bool>(), cut in any::<bool>()
    ) {
        let table = if cut { table.cut() } else { table };
        let plain = Style { unicode, ..PLAIN };
        let lines = table.lines(columns, plain);
        for line in &lines {
            prop_assert!(width(line) <= columns, "{} of {columns}: {line:?}", width(line));
            prop_assert!(!line.chars().any(char::is_control), "{line:?}");
        }
        let coloured = table.lines(columns, Style { color: true, ..plain });
        let coloured: Vec<String> = coloured.iter().map(|line| uncoloured(line)).collect();
        prop_assert_eq!(coloured, lines);
    }

    #[test]
    fn every_text_is_shown_if_there_is_room((table, rows) in made()) {
        let lines = table.lines(10_000, PLAIN);
        for (row, line) in rows.iter().rev().zip(lines.iter().rev()) {
            let texts: String = row.iter().map(|text| ink(&sanitize(text))).collect();
            prop_assert_eq!(texts, ink(line));
        }
    }

    #[test]
    fn a_block_has_every_text((table, rows) in made(), columns in 20usize..60) {
        // Wider than any line: the first cell keeps its width.
        let mut table = table;
        let long = "x".repeat(columns + 1);
        table.add_column(Column::left("long"), rows.iter().map(|_| Cell::from(long.as_str())));
        let text = ink(&table.draw(columns, PLAIN));
        let texts = rows.iter().flatten().map(|text| ink(&sanitize(text)));
        prop_assert!(is_within(&texts.collect::<String>(), &text), "{text}");
    }

    #[test]
    fn markup_can_be_parsed((table, rows) in made()) {
        let expected: Vec<Vec<String>> = rows
            .iter()
            .map(|row| row.iter().map(|text| sanitize(text)).collect())
            .collect();
        let markdown = table.markup(Markup::Markdown);
        let read: Vec<Vec<String>> = markdown
            .split_terminator('\n')
            .skip(2)
            .map(|line| {
                let cells = cells(line);
                cells.iter().map(|cell| unescaped(Markup::Markdown, cell)).collect()
            })
            .collect();
        prop_assert_eq!(&read, &expected);
        let ascii_doc = table.markup(Markup::AsciiDoc);
        let (_, body) = ascii_doc.split_once("\n|===\n").unwrap();
        let body = body.strip_suffix("|===\n").unwrap();
        let blocks = body.split("\n\n").skip(1);
        let read: Vec<Vec<String>> = blocks
            .map(|block| {
                let cells = block.trim_end_matches('\n').split('\n');
                cells.map(|cell| unescaped(Markup::AsciiDoc, &cell[1..])).collect()
            })
            .collect();
        prop_assert_eq!(&read, &expected);
    }

    #[test]
    fn comma_separated_values_can_be_parsed((table, rows) in made()) {
        let read = crate::csv::parse(&table.csv());
        let expected: Vec<Vec<String>> = rows
            .iter()
            .map(|row| row.iter().map(|text| crate::csv::text(text)).collect())
            .collect();
        prop_assert_eq!(&read[1..], &expected[..]);
    }
}

#[test]
fn html_is_escaped_and_numbers_are_marked() {
    let mut table = Table::new([Column::left("name"), Column::right("a & b")]);
    table.row(["<b>'x'</b>", "\"1\""]);
    let expected = "<table>\n<thead>\n<tr><th>name</th><th class=\"number\">a &amp; b</th></tr>\n</thead>\n<tbody>\n\
                    <tr><td>&lt;b&gt;&#39;x&#39;&lt;/b&gt;</td><td class=\"number\">&quot;1&quot;</td></tr>\n</tbody>\n</table>\n";
    assert_eq!(table.markup(Markup::Html), expected);
}

#[test]
fn lines_do_not_end_their_block() {
    let text = "a\n```\n<img>\n-----\ninclude::/etc/passwd[]\n\\include::x[]\n\u{1b}[2J";
    assert_eq!(
        Markup::Markdown.block(text),
        "````\na\n```\n<img>\n-----\ninclude::/etc/passwd[]\n\\include::x[]\n?[2J\n````\n"
    );
    assert_eq!(
        Markup::AsciiDoc.block(text),
        "------\na\n```\n<img>\n-----\n\\include::/etc/passwd[]\n\\\\include::x[]\n?[2J\n------\n"
    );
    assert_eq!(
        Markup::Html.block("a</pre><b>"),
        "<pre>a&lt;/pre&gt;&lt;b&gt;</pre>\n"
    );
    assert_eq!(Markup::Markdown.block("a"), "```\na\n```\n");
    assert_eq!(Markup::AsciiDoc.block("a\n"), "----\na\n----\n");
    let prose = "see `a_b|<c>` and *d*";
    for (markup, expected) in [
        (Markup::Markdown, "see `a_b|<c>` and \\*d\\*"),
        (
            Markup::AsciiDoc,
            "see `a_b{vbar}&#60;c>` and {asterisk}d{asterisk}",
        ),
        (Markup::Html, "see <code>a_b|&lt;c&gt;</code> and *d*"),
    ] {
        assert_eq!(markup.prose(prose), expected);
        for text in ["a ` b", "``", ""] {
            assert_eq!(markup.prose(text), markup.escape(text));
        }
    }
    assert_eq!(Markup::Markdown.escape("[x]: http://e"), "[x\\]: http://e");
}
