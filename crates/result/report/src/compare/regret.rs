//! How far each column is from the best one of each cell.

use iodyno_model::{CellRegret, ColumnRegret, Estimated, RatioToBest, Regret, Verdict};
use iodyno_units::{counted, percent};

use super::estimated::EstimatedView;
use super::figures::ratio;
use super::view::Tone;
use super::words::tag;
use crate::csv::{estimated, number};
use crate::json::{list, object, print};
use crate::style::{Paint, Style, sanitize, trimmed};
use crate::table::{Cell, Column, Markup, Table};

/// The legend of the cells' signs.
const SIGNS: &str = "speed relative to the best of each row: - slower, = no difference that matters, ? undecided, * the best by all rounds";

/// A table of the columns over all cells, one of the cells, and remarks. Ends with a newline.
pub fn regret(regret: &Regret, style: Style) -> String {
    let line = format!("{}   {}", regret.name, conditions(regret));
    let mut text = style.paragraph(&line, 2, Paint::Strong);
    if !regret.columns.is_empty() {
        text += &totals(regret).draw(style.columns(), style);
        text += "\n";
        text += &cells(regret).draw(style.columns(), style);
        text += &style.paragraph(SIGNS, 2, Paint::Dim);
    }
    text += &style.warnings(&regret.notes);
    trimmed(&style.plain(&text))
}

/// The same in markup. Ends with a newline.
pub fn regret_markup(regret: &Regret, markup: Markup) -> String {
    let title = markup.strong(&markup.escape(&regret.name));
    let conditions = markup.escape(&conditions(regret));
    let mut blocks = vec![markup.paragraph(&[title, conditions])];
    if !regret.columns.is_empty() {
        blocks.push(totals(regret).markup(markup));
        blocks.push(cells(regret).markup(markup));
        blocks.push(markup.paragraph(&[markup.escape(SIGNS)]));
    }
    blocks.extend(markup.list(&regret.notes));
    blocks.join("\n")
}

/// `distance from the best policy of each of 80 cells, 10 rounds, margin ±3 %`.
fn conditions(regret: &Regret) -> String {
    format!(
        "distance from the best {} in {}, {}, margin ±{}",
        regret.dimension,
        counted(regret.cells.len() as u64, "cell"),
        counted(regret.rounds.into(), "round"),
        percent(regret.margin)
    )
}

fn totals(regret: &Regret) -> Table {
    let level = percent(regret.level);
    let columns = [
        Column::left(&regret.dimension).end(8),
        Column::right(format!("geometric mean [{level}]")),
        Column::right("worst ratio"),
        Column::left("in").wrap(12),
        Column::right("best in"),
        Column::right("slower in"),
    ];
    let mut table = Table::new(columns);
    let estimate = |it: &Option<Estimated>| it.as_ref().map_or("?".to_owned(), ratio);
    for column in &regret.columns {
        let worst_cell = column.worst.map_or("", |_| column.worst_cell.as_str());
        table.row([
            sanitize(&column.column),
            estimate(&column.mean),
            estimate(&column.worst),
            sanitize(worst_cell),
            column.best.to_string(),
            column.slower.to_string(),
        ]);
    }
    table
}

fn cells(regret: &Regret) -> Table {
    let heads = regret.columns.iter();
    let heads = heads.map(|column| Column::right(sanitize(&column.column)));
    let mut table = Table::new([Column::left("").end(16)].into_iter().chain(heads));
    for cell in &regret.cells {
        let name = Cell::from(sanitize(&cell.name.join(" ")));
        let both = cell.ratios.iter().zip(&regret.columns);
        let ratios = both.map(|(ratio, column)| {
            let text = format!(
                "{:.2} {}{}",
                ratio.ratio.value,
                Tone::of(&ratio.verdict).sign(),
                if column.column == cell.best { "*" } else { " " }
            );
            let slower = ratio.verdict == Verdict::Slower;
            Cell::painted(text, slower.then_some(Paint::Red))
        });
        table.row([name].into_iter().chain(ratios));
    }
    table
}

/// A header line, a line for each column over all cells (`cell` is empty, and `mean` the geometric mean), then a line
/// for each column of each cell. Missing values are empty.
pub fn regret_csv(regret: &Regret) -> String {
    let heads = "cell,column,metric,mean,mean_low,mean_high,worst,worst_low,worst_high,worst_cell,best,slower,ratio,\
                 ratio_low,ratio_high,adjusted_p,verdict,level";
    let mut table = Table::new(heads.split(',').map(Column::left));
    let none = || [const { String::new() }; 3];
    for column in &regret.columns {
        let names = [String::new(), column.column.clone(), String::new()];
        let counts = [
            column.worst_cell.clone(),
            column.best.to_string(),
            column.slower.to_string(),
        ];
        let ends = [String::new(), String::new(), number(Some(regret.level))];
        let groups = [
            names,
            estimated(column.mean.as_ref()),
            estimated(column.worst.as_ref()),
            counts,
            none(),
            ends,
        ];
        table.row(groups.into_iter().flatten());
    }
    for cell in &regret.cells {
        for (column, ratio) in regret.columns.iter().zip(&cell.ratios) {
            let names = [
                cell.name.join(" "),
                column.column.clone(),
                cell.metric.name.clone(),
            ];
            let best = u32::from(column.column == cell.best);
            let slower = u32::from(ratio.verdict == Verdict::Slower);
            let counts = [String::new(), best.to_string(), slower.to_string()];
            let ends = [
                number(Some(ratio.adjusted_p)),
                tag(&ratio.verdict).to_owned(),
                number(Some(ratio.ratio.level)),
            ];
            let groups = [
                names,
                none(),
                none(),
                counts,
                estimated(Some(&ratio.ratio)),
                ends,
            ];
            table.row(groups.into_iter().flatten());
        }
    }
    table.csv()
}

/// `schema` = `iodyno.regret/1`. Ends with a newline.
pub fn regret_json(regret: &Regret) -> String {
    print(&RegretView(regret))
}

object!(RegretView<'a>(regret in &'a Regret) {
    schema: "iodyno.regret/1",
    name: regret.name,
    // The dimension of the columns, such as `configuration`.
    dimension: regret.dimension,
    // Rounds in which all cells have all columns.
    rounds: regret.rounds,
    margin: regret.margin,
    columns: list(&regret.columns, ColumnView),
    cells: list(&regret.cells, CellView),
    notes: regret.notes,
});

object!(ColumnView<'a>(column in &'a ColumnRegret) {
    column: column.column,
    // Ratios of speed to the best of each cell.
    // Null: the rounds are too few.
    mean: column.mean.as_ref().map(EstimatedView),
    worst: column.worst.as_ref().map(EstimatedView),
    worst_cell: column.worst_cell,
    // Number of cells.
    best: column.best,
    slower: column.slower,
});

object!(CellView<'a>(cell in &'a CellRegret) {
    name: cell.name,
    metric: cell.metric.name,
    best: cell.best,
    // In the order of the columns.
    ratios: list(&cell.ratios, RatioView),
});

object!(RatioView<'a>(ratio in &'a RatioToBest) {
    ratio: EstimatedView(&ratio.ratio),
    adjusted_p: ratio.adjusted_p,
    verdict: tag(&ratio.verdict),
});

#[cfg(test)]
mod tests {
    use iodyno_model::Metric;

    use super::*;

    fn estimated(low: f64, value: f64, high: f64) -> Estimated {
        Estimated {
            value,
            interval: Some((low, high)),
            level: 0.96,
        }
    }

    fn sample() -> Regret {
        let column = |column: &str, worst, slower| ColumnRegret {
            column: column.to_owned(),
            worst: Some(worst),
            worst_cell: "tmpfs randread-psync".to_owned(),
            mean: Some(estimated(0.91, 0.95, 0.98)),
            slower,
            best: 2 - slower,
        };
        let ratio = |value: f64, verdict| RatioToBest {
            ratio: estimated(value - 0.1, value, value + 0.01),
            adjusted_p: 0.004,
            verdict,
        };
        let cell = |name: &str, best: &str, ratios| CellRegret {
            name: vec!["tmpfs".to_owned(), name.to_owned()],
            metric: Metric::iops("iops"),
            best: best.to_owned(),
            ratios,
        };
        Regret {
            name: "policies, run 3".to_owned(),
            dimension: "policy".to_owned(),
            rounds: 10,
            margin: 0.03,
            level: 0.96,
            columns: vec![
                column("adaptive", estimated(0.9, 0.99, 1.0), 0),
                column("pool:16", estimated(0.61, 0.7, 0.75), 1),
            ],
            cells: vec![
                cell(
                    "seqread-psync",
                    "adaptive",
                    vec![
                        ratio(1.0, Verdict::Equivalent),
                        ratio(0.99, Verdict::inconclusive(None)),
                    ],
                ),
                cell(
                    "randread-psync",
                    "adaptive",
                    vec![ratio(1.0, Verdict::Equivalent), ratio(0.7, Verdict::Slower)],
                ),
            ],
            notes: vec!["1 round without values of all cells left out".to_owned()],
        }
    }

    /// The words of a text that may have been wrapped.
    fn words(text: &str) -> String {
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_column_has_its_mean_its_worst_cell_and_the_cells_it_loses() {
        for width in [80, 120] {
            let style = Style {
                color: false,
                width,
                unicode: true,
            };
            let text = regret(&sample(), style);
            for part in [
                "policies, run 3 distance from the best policy in 2 cells, 10 rounds, margin ±3 %",
                "geometric mean [96 %]",
                "0.70× [0.61, 0.75]",
                "0.70 -",
                "0.99 ?",
                "1.00 =*",
                "! 1 round without values of all cells left out",
            ] {
                assert!(words(&text).contains(&words(part)), "{part}: {text}");
            }
            let longest = text.lines().map(|line| line.chars().count()).max();
            assert!(longest <= Some(width), "{text}");
        }
    }

    #[test]
    fn too_few_rounds_have_no_figure_that_the_cells_contradict() {
        let mut few = sample();
        for column in &mut few.columns {
            (column.mean, column.worst) = (None, None);
        }
        let style = Style {
            color: false,
            width: 120,
            unicode: true,
        };
        let text = regret(&few, style);
        let totals: Vec<&str> = text.lines().filter(|line| line.contains(" ? ")).collect();
        assert!(totals[0].starts_with("adaptive"), "{text}");
        assert!(!text.contains("×"), "{text}");
        let json: serde_json::Value = serde_json::from_str(&regret_json(&few)).unwrap();
        assert!(json["columns"][1]["worst"].is_null());
        assert!(regret_csv(&few).contains(",pool:16,,,,,,,,tmpfs"));
    }

    #[test]
    fn the_distance_has_the_same_numbers_in_all_formats() {
        let markdown = regret_markup(&sample(), Markup::Markdown);
        assert!(markdown.contains("| pool:16 |"), "{markdown}");
        assert!(regret_markup(&sample(), Markup::AsciiDoc).contains("|===\n|policy\n"));
        assert!(regret_markup(&sample(), Markup::Html).contains("0.70× [0.61, 0.75]"));
        let csv = regret_csv(&sample());
        let lines: Vec<&str> = csv.lines().collect();
        assert_eq!(lines.len(), 1 + 2 + 4);
        assert_eq!(
            lines[2],
            ",pool:16,,0.95,0.91,0.98,0.7,0.61,0.75,tmpfs randread-psync,1,1,,,,,,0.96"
        );
        assert!(lines[6].starts_with("tmpfs randread-psync,pool:16,iops,,,,,,,,0,1,0.7,"));
        let json: serde_json::Value = serde_json::from_str(&regret_json(&sample())).unwrap();
        assert_eq!(json["columns"][1]["worst"]["low"], 0.61);
        assert_eq!(json["cells"][1]["ratios"][1]["verdict"], "slower");
    }
}
