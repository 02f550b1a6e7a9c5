//! A report as one HTML page that needs no network: text, tables and interactive charts.
//!
//! All texts are escaped by the template, and charts are passed to the script as data, so that names from outside
//! cannot become markup or code.

use iodyno_model::printable;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use serde_json::{Value, json};

use crate::figure::Figure;
use crate::figure::plotly::{Chart, charts, script};

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
    /// A table in HTML, as [`crate::compare::html`] writes it, and the same in Markdown for the clipboard.
    Table {
        /// Escaped HTML.
        html: String,
        /// GitHub's Markdown.
        markdown: String,
    },
    /// A figure.
    Figure(Figure),
}

const STYLE: &str = include_str!("page.css");
const CODE: &str = include_str!("page.js");

/// The page. Ends with a newline.
pub fn page(page: &Page) -> String {
    let mut drawn: Vec<Value> = Vec::new();
    let sections: Vec<Markup> = page
        .sections
        .iter()
        .enumerate()
        .map(|(number, section)| {
            html! {
                section id={ "section-" (number + 1) } {
                    h2 { (section.title) }
                    @for content in &section.content { (part(content, &mut drawn)) }
                }
            }
        })
        .collect();
    // `<` cannot end the element.
    let data = Value::from(drawn).to_string().replace('<', "\\u003c");
    let data = printable::json(&data);
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta http-equiv="Content-Security-Policy" content="default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:";
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
                    @for section in &sections { (section) }
                }
                script id="charts" type="application/json" { (PreEscaped(data)) }
                script { (PreEscaped(script())) }
                script { (PreEscaped(CODE)) }
            }
        }
    };
    let text = page.into_string();
    // Our own scripts come last. Texts of users contain no `<`.
    let (shown, scripts) = text.split_at(text.find("<script id=").unwrap_or(text.len()));
    let harmless = |character: char| match character {
        '\n' | '\t' => character,
        other if printable::steers(other) => '?',
        other => other,
    };
    shown.chars().map(harmless).collect::<String>() + scripts + "\n"
}

fn part(content: &Content, drawn: &mut Vec<Value>) -> Markup {
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
        Content::Figure(figure) => html! {
            figure.chart {
                figcaption {
                    strong { (figure.title) } " " (figure.caption)
                    @if !figure.notes.is_empty() { ul { @for note in &figure.notes { li { (note) } } } }
                }
                @for chart in charts(figure) { (place(&chart, figure, drawn)) }
            }
        },
    }
}

/// The place where the script draws a chart.
fn place(chart: &Chart, figure: &Figure, drawn: &mut Vec<Value>) -> Markup {
    let number = drawn.len();
    drawn.push(json!({ "kind": figure.kind.name(), "chart": chart.json }));
    let label = match chart.title.as_str() {
        "" => figure.title.clone(),
        title => format!("{}: {title}", figure.title),
    };
    html! {
        @if !chart.title.is_empty() { h3 { (chart.title) } }
        div.plot id={ "chart-" (number) } style={ "height: " (chart.height) "px" } role="img" aria-label=(label) tabindex="0" {}
    }
}
