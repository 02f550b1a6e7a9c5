//! A report as one HTML page that needs no network: text, tables and figures.
//!
//! The template escapes all texts, so that names from outside cannot become markup or code. Figures are SVG and need no
//! script; `figure.js` adds a cursor, zoom and a choice of curves.

use iodyno_model::printable;
use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::figure::scene::{Scene, scenes};
use crate::figure::svg::{css, inline};
use crate::figure::{Figure, points_a_line};

/// A page.
#[derive(Debug, Clone, PartialEq)]
pub struct Page {
    /// Title of the document.
    pub title: String,
    /// Its subject, below the title; empty: none.
    pub about: String,
    /// Facts about the run: names and values.
    pub facts: Vec<(String, String)>,
    /// From top to bottom.
    pub sections: Vec<Section>,
}

/// A section with its entry in the table of contents.
#[derive(Debug, Clone, PartialEq)]
pub struct Section {
    /// Its heading.
    pub title: String,
    /// Its content.
    pub content: Vec<Content>,
}

/// A part of a section.
#[derive(Debug, Clone, PartialEq)]
pub enum Content {
    /// A paragraph.
    Paragraph(String),
    /// A list.
    List(Vec<String>),
    /// Text with its line breaks, as on a terminal.
    Preformatted(String),
    /// A table in HTML, and the same in Markdown for the clipboard.
    Table {
        /// Escaped HTML.
        html: String,
        /// GitHub's Markdown.
        markdown: String,
    },
    /// A figure.
    Figure(Figure),
}

impl Content {
    /// What is drawn as a table.
    pub fn table(drawn: impl Fn(crate::Markup) -> String) -> Content {
        Content::Table {
            html: drawn(crate::Markup::Html),
            markdown: drawn(crate::Markup::Markdown),
        }
    }
}

/// No network.
const POLICY: &str = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'";
const STYLE: &str = include_str!("page.css");
const SCRIPTS: [&str; 2] = [include_str!("figure.js"), include_str!("page.js")];

/// The page. Ends with a newline.
pub fn page(page: &Page) -> String {
    let content = page.sections.iter().flat_map(|section| &section.content);
    let figures = content.filter_map(|content| match content {
        Content::Figure(figure) => Some(figure),
        _ => None,
    });
    let most = points_a_line(figures);
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                meta name="color-scheme" content="light dark";
                title { (page.title) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                nav aria-label="Contents" {
                    ol {
                        @for (number, section) in page.sections.iter().enumerate() {
                            li { a href={ "#section-" (number + 1) } { (section.title) } }
                        }
                    }
                }
                main {
                    h1 { (page.title) }
                    @if !page.about.is_empty() { p.about { (page.about) } }
                    dl { @for (name, value) in &page.facts { dt { (name) } dd { (value) } } }
                    @for (number, section) in page.sections.iter().enumerate() {
                        section id={ "section-" (number + 1) } {
                            h2 { (section.title) }
                            @for content in &section.content { (part(content, most)) }
                        }
                    }
                }
                @for script in SCRIPTS { script { (PreEscaped(script)) } }
            }
        }
    };
    let harmless = |character: char| match character {
        '\n' | '\t' => character,
        other if printable::steers(other) => '?',
        other => other,
    };
    page.into_string().chars().map(harmless).collect::<String>() + "\n"
}

/// `most`: points of a line.
fn part(content: &Content, most: usize) -> Markup {
    match content {
        Content::Paragraph(text) => html! { p { (text) } },
        Content::List(items) => html! { ul { @for item in items { li { (item) } } } },
        Content::Preformatted(text) => html! { pre tabindex="0" { (text) } },
        Content::Table {
            html: table,
            markdown,
        } => html! {
            div.table {
                button.copy type="button" { "Copy as Markdown" }
                template { (markdown) }
                div.scroll tabindex="0" { (PreEscaped(table)) }
            }
        },
        Content::Figure(figure) => chart(figure, most),
    }
}

fn chart(figure: &Figure, most: usize) -> Markup {
    let scenes = scenes(figure, most);
    html! {
        figure.chart data-kind=(figure.kind.name()) data-shared[figure.shared_x] {
            figcaption {
                strong { (figure.title) } " " (figure.caption)
                @if scenes.iter().any(|scene| scene.thinned) {
                    " Of long lines, only the extremes of each period are drawn."
                }
                @if !figure.notes.is_empty() { ul { @for note in &figure.notes { li { (note) } } } }
            }
            @for scene in &scenes { (panel(figure, scene)) }
        }
    }
}

/// A panel with its title and its legend, whose buttons belong to the curves in their order.
fn panel(figure: &Figure, scene: &Scene) -> Markup {
    let panel = scene.panel;
    let title = match figure.shared_x {
        true => panel.y.title_of(&panel.title),
        false => panel.title.clone(),
    };
    let label = format!("{}: {title}", figure.title);
    let shades = panel.cells.is_some();
    html! {
        div.panel {
            div.keys {
                @if !title.is_empty() { h3 { (title) } }
                @for (colour, round, name) in figure.keys(panel) {
                    @let swatch = format!("background:{};border-radius:{}", css(colour), if round { "50%" } else { "0" });
                    @if shades { span.key { i.shade style=(swatch) {} (name) } }
                    @else { button.key type="button" aria-pressed="true" { i style=(swatch) {} (name) } }
                }
            }
            (inline(scene, label.trim_end_matches(": ")))
        }
    }
}
