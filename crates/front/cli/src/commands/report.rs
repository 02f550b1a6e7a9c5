//! `iodyno report` and `iodyno plot`: runs as a page or a text, and their figures as pictures.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{IsTerminal, Write, stdout};
use std::mem::take;
use std::path::{Path, PathBuf};

use iodyno_judge::{CompareResult, figures};
use iodyno_model::{
    ClaimCheck, Comparison, Contradiction, Diagnostic, Direction, Explanation, FilledTable,
    Histogram, Observation, Run, SeriesKind, Trial, TrialKey, TrialState,
};
use iodyno_report::compare::ComparisonFormat;
use iodyno_report::figure::kinds::{self, Course, Distribution, MAX_PANELS};
use iodyno_report::figure::{Content, Figure, Format as Picture, Kind, Page, Section, picture};
use iodyno_report::{Markup, Style, compare as draw};
use iodyno_store::{SqliteStore, Store, StoreError};
use iodyno_units::{Nanos, counted, grouped};

use crate::args::{PlotArgs, ReportArgs, ReportFormat};
use crate::commands::compare::{filled, judge, layout_in, own_layout, result_text, shown};
use crate::commands::explain;
use crate::commands::export::write_file;
use crate::commands::history::histories;
use crate::commands::searches_of;
use crate::commands::series::{telemetry, trials as numbered};
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::interleaved::again;
use crate::observations::{default_question, name_runs, runs};
use crate::plan_view::plan_view;
use crate::screen::write_out;
use crate::targets::FoundPaths;
use crate::trials::{Drawn, Series, load};

/// Trials whose latency and telemetry a report draws, at most.
const MAX_TRIALS: usize = 6;

/// The section that an import begins with.
const STATEMENTS: &str = "Checked statements";

/// Width of preformatted text, columns.
const COLUMNS: usize = 110;

/// Writes a report.
pub(crate) fn report(args: &ReportArgs, context: &Context) -> Result<Exit, Failure> {
    let store = context.store_to_read()?;
    let mut results = Results::read(&args.runs, &store)?;
    results.fill(args.table.as_deref(), &store)?;
    let text = match args.format {
        ReportFormat::Html => iodyno_report::figure::page(&results.page(&store, context)?),
        ReportFormat::Markdown => results.text(Markup::Markdown, &store)?,
        ReportFormat::Asciidoc => results.text(Markup::AsciiDoc, &store)?,
    };
    let on_terminal = args.format == ReportFormat::Html && stdout().is_terminal();
    let path = match (&args.output, on_terminal) {
        (Some(path), _) => path.clone(),
        (None, true) => page_name(&results.names()),
        (None, false) => {
            write_out(text)?;
            return Ok(Exit::Fine);
        }
    };
    write(&path, text.as_bytes())?;
    context.note(&format!(
        "report of {} written to {}",
        results.names().join(" and "),
        path.display()
    ));
    Ok(Exit::Fine)
}

/// The first free name in the current folder for the page of some runs: `iodyno-run-1.html`, `iodyno-run-1.2.html`.
fn page_name(runs: &[String]) -> PathBuf {
    let name = format!("iodyno {}", runs.join(" "));
    let name = name.replace(|c: char| !c.is_ascii_alphanumeric(), "-");
    let numbered = (2..).map(|number| PathBuf::from(format!("{name}.{number}.html")));
    let mut names = std::iter::once(PathBuf::from(format!("{name}.html"))).chain(numbered);
    let free = names.find(|path| path.symlink_metadata().is_err());
    free.expect("there are endless names")
}

/// Writes one figure.
pub(crate) fn plot(args: &PlotArgs, context: &Context) -> Result<Exit, Failure> {
    let ending = args.output.extension().and_then(|ending| ending.to_str());
    let format = match ending.map(str::to_ascii_lowercase).as_deref() {
        Some("svg") => Picture::Svg,
        Some("png") => Picture::Png,
        _ => {
            let path = args.output.display();
            let fault =
                Diagnostic::error(format!("`{path}` is not the name of an SVG or PNG file"))
                    .hint("let it end in `.svg` or `.png`");
            return Err(Failure::input(vec![fault]));
        }
    };
    let store = context.store_to_read()?;
    let results = Results::read(std::slice::from_ref(&args.run), &store)?;
    let figure = results.figure(args.kind, args.trial, &store)?;
    let drawn = picture(&figure, format)
        .map_err(|error| Failure::one(Diagnostic::error(error.to_string())))?;
    write(&args.output, &drawn)?;
    context.note(&format!("figure written to {}", args.output.display()));
    Ok(Exit::Fine)
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    write_file(path, |file| {
        file.write_all(bytes).map_err(StoreError::ExportWrite)
    })
}

/// The runs of a report with data of their trials.
struct Results {
    runs: Vec<Run>,
    /// Observations of all ended or imported trials, with the names of their runs.
    trials: Vec<Observation>,
    /// `None` if a single run has nothing to compare.
    judged: Option<CompareResult>,
    /// The latencies of all trials of each cell.
    latencies: Vec<(Cell, Direction, Histogram)>,
    /// The trials with the median result: one of each cell.
    medians: Vec<Chosen>,
    /// The place of each cell in the figures.
    places: BTreeMap<Cell, Place>,
    /// The imported trials with a series that have the median result: one of each cell.
    imported: Vec<Course>,
    /// The closing table of the runs.
    table: Option<FilledTable>,
    /// Statements that the figures of their write-up contradict.
    contradictions: Vec<Contradiction>,
    /// Rows of printed comparisons.
    claims: Vec<ClaimCheck>,
}

/// The index of a run, and that of a cell in its plan.
type Cell = (usize, u32);

/// The place of a cell in the figures.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    /// The panel.
    panel: String,
    /// The name in its legend.
    name: String,
    /// The index of the colour.
    colour: usize,
}

/// A trial that represents its cell.
#[derive(Debug, Clone)]
struct Chosen {
    /// Index of its run.
    run: usize,
    /// Its number in the run, from 1.
    number: u32,
    key: TrialKey,
    /// The configuration, with the run if there are several.
    side: String,
    workload: String,
}

impl Chosen {
    fn title(&self) -> String {
        format!("{} on {}, trial {}", self.workload, self.side, self.number)
    }

    fn cell(&self) -> Cell {
        (self.run, self.key.cell)
    }
}

impl Results {
    fn read(names: &[String], store: &SqliteStore) -> Result<Results, Failure> {
        let runs = runs(names, store)?;
        let mut trials = Vec::new();
        let mut latencies = Vec::new();
        let mut medians = Vec::new();
        // Per cell: a trial in `trials` that has its dimensions, and its names.
        let mut cells_seen: Vec<(Cell, usize, [String; 2])> = Vec::new();
        for (place, run) in runs.iter().enumerate() {
            let name = run.name();
            if let Some(imported) = &run.plan.imported {
                let own = imported.trials.iter();
                trials.extend(own.map(|trial| iodyno_judge::observe_imported(&name, &trial)));
                continue;
            }
            let mut cells: BTreeMap<u32, Vec<(f64, Chosen)>> = BTreeMap::new();
            let ended = (1..)
                .zip(&run.trials)
                .filter(|(_, it)| it.state != TrialState::Running);
            for (number, stored) in ended {
                let trial = load(store, stored.key, Series::Counts)?;
                let (configuration, workload) = run.plan.cell(stored.key.cell);
                let seen =
                    iodyno_judge::observe(&name, configuration, workload, stored.key, &trial);
                let side = match runs.len() {
                    1 => configuration.name.clone(),
                    _ => format!("{}, {name}", configuration.name),
                };
                if seen.unusable.is_none() && seen.probe.is_none() {
                    let cell = (place, stored.key.cell);
                    add_latencies(&mut latencies, cell, &trial);
                    if !cells_seen.iter().any(|(known, ..)| *known == cell) {
                        let names = [workload.name.clone(), side.clone()];
                        cells_seen.push((cell, trials.len(), names));
                    }
                    let primary = seen.primary.as_ref().and_then(|it| seen.figure(&it.name));
                    let chosen = Chosen {
                        run: place,
                        number,
                        key: stored.key,
                        side,
                        workload: workload.name.clone(),
                    };
                    let values = cells.entry(stored.key.cell).or_default();
                    values.extend(primary.map(|figure| (figure.value, chosen)));
                }
                trials.push(seen);
            }
            medians.extend(cells.into_values().filter_map(|mut values| {
                values.sort_by(|a, b| a.0.total_cmp(&b.0));
                let middle = (values.len().checked_sub(1)?) / 2;
                Some(values.swap_remove(middle).1)
            }));
        }
        name_runs(&runs, &mut trials);
        let question = default_question(&runs, &trials);
        let mut judged = match (
            judge(&runs, &mut trials.clone(), &question),
            runs.as_slice(),
        ) {
            (Ok(mut judged), _) => {
                judged.mark_provisional(&runs);
                Some(judged)
            }
            (Err(_), [_]) => None,
            (Err(failure), _) => return Err(failure),
        };
        let claims = match &mut judged {
            Some(CompareResult::Compared(comparison)) => take(&mut comparison.claims),
            _ => Vec::new(),
        };
        let imports = runs.iter().filter_map(|run| run.plan.imported.as_ref());
        let contradictions = imports.flat_map(|it| it.contradictions.clone()).collect();
        let comparison = judged.as_ref().and_then(CompareResult::comparison);
        let places = places(&cells_seen, &trials, comparison);
        let imported = imported_courses(&runs, &trials, comparison);
        Ok(Results {
            runs,
            trials,
            judged,
            latencies,
            medians,
            places,
            imported,
            table: None,
            contradictions,
            claims,
        })
    }

    /// Adds the table in the layout of a file, or in the runs' own.
    fn fill(&mut self, file: Option<&Path>, store: &SqliteStore) -> Result<(), Failure> {
        let question = default_question(&self.runs, &self.trials);
        let table = |layout| filled(&self.runs, &self.trials, &question, layout, store);
        self.table = match (file, own_layout(&self.runs)) {
            (Some(file), _) => Some(table(&layout_in(file, &self.trials)?)?.1),
            // An interrupted run may have too few trials for it.
            (None, Some(layout)) => table(layout).ok().map(|(_, table)| table),
            (None, None) => None,
        };
        Ok(())
    }

    fn place(&self, cell: Cell) -> Place {
        let place = self.places.get(&cell).cloned();
        place.unwrap_or_else(|| {
            let (configuration, workload) = self.runs[cell.0].plan.cell(cell.1);
            Place {
                panel: workload.name.clone(),
                name: configuration.name.clone(),
                colour: 0,
            }
        })
    }

    fn latency(&self) -> Option<Figure> {
        let distributions = self.latencies.iter().map(|(cell, direction, histogram)| {
            let place = self.place(*cell);
            Distribution {
                panel: format!("{} {}", place.panel, direction.name())
                    .trim()
                    .to_owned(),
                name: place.name,
                colour: place.colour,
                histogram: histogram.clone(),
            }
        });
        kinds::latency(&distributions.collect::<Vec<_>>())
    }

    fn names(&self) -> Vec<String> {
        self.runs.iter().map(Run::name).collect()
    }

    /// A report has everything.
    fn shown(&self) -> ComparisonFormat {
        ComparisonFormat {
            verbose: true,
            ..shown(&self.runs)
        }
    }

    /// The trials that the question of a comparison chooses.
    fn chosen(&self, comparison: &Comparison) -> Vec<Observation> {
        let own = self.trials.iter();
        let own = own.filter(|trial| iodyno_judge::chosen(trial, &comparison.question));
        own.cloned().collect()
    }

    fn comparison(&self) -> Option<&Comparison> {
        self.judged.as_ref()?.comparison()
    }

    /// The results as on a terminal, without a comparison: the tables of an imported run, otherwise the trial of each
    /// pair of configuration and workload.
    fn plain(&self, store: &SqliteStore) -> Result<String, Failure> {
        let style = Style {
            color: false,
            width: COLUMNS,
            unicode: true,
        };
        if let Some(judged) = &self.judged {
            return Ok(result_text(judged, &self.shown(), style));
        }
        let imported = self
            .runs
            .iter()
            .filter_map(|run| run.plan.imported.as_ref());
        let mut text: String = imported
            .map(|imported| iodyno_report::imported::full(imported, style))
            .collect();
        for chosen in &self.medians {
            let trial = load(store, chosen.key, Series::Counts)?;
            let (_, workload) = self.runs[chosen.run].plan.cell(chosen.key.cell);
            text += &Drawn::new(workload, &trial).text_in_full(style);
        }
        if text.is_empty() {
            text = self.failures();
        }
        Ok(text)
    }

    /// Why results are missing: the reasons of all trials, without duplicates.
    fn failures(&self) -> String {
        let mut reasons: Vec<&str> = Vec::new();
        for trial in self.runs.iter().flat_map(|run| &run.trials) {
            let reason = trial.reason.as_deref().unwrap_or_default();
            if !reason.is_empty() && !reasons.contains(&reason) {
                reasons.push(reason);
            }
        }
        match reasons.is_empty() {
            true => "No trial was completed.\n".to_owned(),
            false => format!("No trial was completed: {}.\n", reasons.join("; ")),
        }
    }

    fn verdicts(&self) -> Option<Figure> {
        kinds::verdicts(self.comparison()?)
    }

    fn every_trial(&self) -> Option<Figure> {
        let comparison = self.comparison()?;
        kinds::trials(comparison, &self.chosen(comparison))
    }

    fn curves(&self) -> Option<Figure> {
        let mut axes: BTreeSet<String> = BTreeSet::new();
        for plan in self.runs.iter().map(|run| &run.plan) {
            let configurations = plan.configurations.iter().map(|it| &it.dimensions);
            let workloads = plan.workloads.iter().map(|it| &it.dimensions);
            axes.extend(
                configurations
                    .chain(workloads)
                    .flat_map(BTreeMap::keys)
                    .cloned(),
            );
        }
        kinds::curve(&iodyno_judge::curves(&self.trials, &axes))
    }

    /// The loads that searches tried.
    fn searches(&self, store: &SqliteStore) -> Result<Option<Figure>, Failure> {
        let mut answers = Vec::new();
        for run in &self.runs {
            answers.extend(searches_of(store, run)?);
        }
        Ok(kinds::search(&answers))
    }

    /// The runs of the store with the same work on the same host.
    fn history(&self, store: &SqliteStore) -> Result<Option<Figure>, Failure> {
        let mut found = histories(&self.runs, &self.trials, store)?;
        let own: BTreeSet<String> = self.runs.iter().map(Run::name).collect();
        found.retain(|history| history.points.iter().any(|point| own.contains(&point.run)));
        Ok(kinds::history(&found))
    }

    fn throughput(
        &self,
        chosen: &[Chosen],
        store: &SqliteStore,
    ) -> Result<Option<Figure>, Failure> {
        let mut courses = self.imported.clone();
        for it in chosen {
            let trial = load(store, it.key, Series::Counts)?;
            let (_, workload) = self.runs[it.run].plan.cell(it.key.cell);
            let place = self.place(it.cell());
            let course = Course {
                panel: place.panel,
                name: format!("{}, trial {}", place.name, it.number),
                colour: place.colour,
                rates: Vec::new(),
                ramp: None,
                behaviour: iodyno_judge::summary(workload, &trial).behaviour,
            };
            courses.push(course.of_frames(&trial.frames));
        }
        Ok(kinds::throughput(&courses))
    }

    fn heatmaps(&self, chosen: &Chosen, store: &SqliteStore) -> Result<Vec<Figure>, Failure> {
        let trial = load(store, chosen.key, Series::Whole)?;
        let cycles = has_cycles(&trial);
        let each = Direction::EVERY.into_iter();
        let each = each.filter(|direction| !cycles || *direction == Direction::Op);
        let drawn =
            each.filter_map(|direction| kinds::heatmap(&chosen.title(), direction, &trial.frames));
        Ok(drawn.take(MAX_DIRECTIONS).collect())
    }

    fn telemetry(&self, chosen: &Chosen, store: &SqliteStore) -> Result<Option<Figure>, Failure> {
        let run = &self.runs[chosen.run];
        let trial = store.trial(chosen.key)?;
        let series = telemetry(store, run, &trial)?;
        let tables = SeriesKind::ALL
            .into_iter()
            .filter(|kind| series.kinds().contains(kind));
        let tables: Vec<_> = tables.map(|kind| figures(&series, kind, None)).collect();
        Ok(kinds::telemetry(&chosen.title(), &tables, &trial.findings))
    }

    /// One figure, as `plot` draws it.
    fn figure(
        &self,
        kind: Kind,
        trial: Option<u32>,
        store: &SqliteStore,
    ) -> Result<Figure, Failure> {
        let chosen: Vec<Chosen> = match (trial, self.runs.first()) {
            (Some(_), Some(run)) => numbered(trial, run)?
                .into_iter()
                .map(|(number, key)| {
                    let (configuration, workload) = run.plan.cell(key.cell);
                    Chosen {
                        run: 0,
                        number,
                        key,
                        side: configuration.name.clone(),
                        workload: workload.name.clone(),
                    }
                })
                .collect(),
            _ => self.medians.clone(),
        };
        let first = chosen.first();
        let figure = match kind {
            Kind::Verdicts => self.verdicts(),
            Kind::Trials => self.every_trial(),
            Kind::Latency => self.latency(),
            Kind::Curve => match self.curves() {
                None => self.searches(store)?,
                curves => curves,
            },
            Kind::History => self.history(store)?,
            Kind::Series => self.throughput(&chosen, store)?,
            Kind::Heatmap => match first {
                Some(first) => self.heatmaps(first, store)?.into_iter().next(),
                None => None,
            },
            Kind::Telemetry => match first {
                Some(first) => self.telemetry(first, store)?,
                None => None,
            },
        };
        figure.ok_or_else(|| {
            let names = self.names().join(" and ");
            let why = match kind {
                Kind::Verdicts => "it compares nothing",
                Kind::Trials => "it compares nothing, or has one trial of each side",
                Kind::Latency | Kind::Heatmap | Kind::Series => "it has no trial with such data",
                Kind::Telemetry => "it has no telemetry with at least two samples",
                Kind::Curve => "it has no axis with at least three numeric values",
                Kind::History => "no other stored run has the same work on the same host",
            };
            let message = format!("{names} cannot be drawn as `{}`: {why}", kind.name());
            Failure::one(Diagnostic::error(message).hint("`iodyno report` shows what there is"))
        })
    }

    fn page(&self, store: &SqliteStore, context: &Context) -> Result<Page, Failure> {
        let mut sections = Vec::new();
        let mut add = |title: &str, content: Vec<Content>| {
            if !content.is_empty() {
                let title = title.to_owned();
                sections.push(Section { title, content });
            }
        };
        add(STATEMENTS, self.statements());
        add("Results", self.results(store)?);
        let one = |figure: Option<Figure>| figure.into_iter().map(Content::Figure).collect();
        add("Why", self.reasons(store)?);
        add("Trials", one(self.every_trial()));
        add("Latency", one(self.latency()));
        let all = self.medians.len();
        let left_out = (all > MAX_TRIALS).then(|| {
            Content::Paragraph(format!(
                "{MAX_TRIALS} of the {} pairs of configuration and workload are shown. `iodyno plot RUN KIND --trial N` draws any trial.",
                grouped(all as u64)
            ))
        });
        let few = &self.medians[..self.medians.len().min(MAX_TRIALS)];
        let mut heatmaps: Vec<Content> = left_out.clone().into_iter().collect();
        let mut hosts: Vec<Content> = left_out.clone().into_iter().collect();
        for chosen in few {
            let drawn = self.heatmaps(chosen, store)?;
            let long = drawn
                .into_iter()
                .filter(|figure| columns(figure) >= MIN_COLUMNS);
            heatmaps.extend(long.map(Content::Figure));
            match self.telemetry(chosen, store)? {
                Some(figure) => hosts.push(Content::Figure(figure)),
                None => {
                    let findings = store.trial(chosen.key)?.findings;
                    let texts: Vec<String> = findings.into_iter().map(|it| it.text).collect();
                    if !texts.is_empty() {
                        let title = format!("Findings of {}:", chosen.title());
                        hosts.extend([Content::Paragraph(title), Content::List(texts)]);
                    }
                }
            }
        }
        // It has only the note on omitted parts.
        for content in [&mut heatmaps, &mut hosts] {
            if content.len() < 2 && left_out.is_some() {
                content.clear();
            }
        }
        add("Latency over time", heatmaps);
        let most = MAX_PANELS * self.sides();
        let some = &self.medians[..self.medians.len().min(most)];
        add("Throughput over time", one(self.throughput(some, store)?));
        add("Host", hosts);
        add("Axes", one(self.curves()));
        add("Searches", one(self.searches(store)?));
        add("History", one(self.history(store)?));
        let environment = Content::table(|markup| self.environment(markup));
        add("Environment", vec![environment]);
        add("Plan", self.plans());
        let title = match self.runs.as_slice() {
            [run] => run.plan.name.clone(),
            runs => {
                let names = runs.iter().map(|run| run.plan.name.clone());
                names.collect::<Vec<String>>().join(" and ")
            }
        };
        let about = self.runs.iter().filter_map(|run| run.plan.about.clone());
        Ok(Page {
            title,
            about: about.collect::<Vec<String>>().join(" "),
            facts: self.facts(context),
            sections,
        })
    }

    /// Number of configurations, over all runs.
    fn sides(&self) -> usize {
        let sides = self.medians.iter().map(|it| it.side.as_str());
        sides.collect::<BTreeSet<&str>>().len().max(1)
    }

    /// What is checked of imported write-ups. Where nothing is compared, the text of the import begins with it.
    fn statements(&self) -> Vec<Content> {
        let (contradictions, claims) = (&self.contradictions, &self.claims);
        match self.judged.is_none() || contradictions.is_empty() && claims.is_empty() {
            true => Vec::new(),
            false => vec![Content::table(|markup| {
                draw::statements(contradictions, claims, markup)
            })],
        }
    }

    fn results(&self, store: &SqliteStore) -> Result<Vec<Content>, Failure> {
        let mut content = Vec::new();
        if let Some(comparison) = self.comparison() {
            content.push(Content::List(draw::sentences(comparison)));
            content.extend(self.verdicts().map(Content::Figure));
            let shown = self.shown();
            content.push(Content::table(|markup| {
                draw::markup(comparison, &shown, markup)
            }));
        } else {
            content.push(Content::Preformatted(self.plain(store)?));
        }
        let table = self.table.iter();
        content.extend(table.map(|it| Content::table(|markup| draw::closing_markup(it, markup))));
        Ok(content)
    }

    /// Why the sides differ. Undecided and equal results are left out: `iodyno explain` prints their times.
    fn explanation(&self, store: &SqliteStore) -> Result<Option<Explanation>, Failure> {
        let Some(CompareResult::Compared(comparison)) = &self.judged else {
            return Ok(None);
        };
        let trials = explain::Costed::load(store, &self.runs)?;
        let mut explanation = explain::explained(trials, &self.runs, &comparison.question)?;
        explanation.families.retain(|family| family.of.decided());
        let families = &explanation.families;
        (explanation.comparisons)
            .retain(|it| it.of.decided() || families.iter().any(|family| family.has(it)));
        Ok(Some(explanation).filter(|it| !it.comparisons.is_empty()))
    }

    fn reasons(&self, store: &SqliteStore) -> Result<Vec<Content>, Failure> {
        let table = |explanation| {
            Content::table(|markup| iodyno_report::explain::markup(&explanation, markup))
        };
        Ok(self.explanation(store)?.map(table).into_iter().collect())
    }

    fn environment(&self, markup: Markup) -> String {
        let columns = match self.comparison() {
            Some(comparison) => &comparison.question.columns,
            None => Observation::CONFIGURATION,
        };
        draw::facts(columns, &self.trials, markup)
    }

    fn plans(&self) -> Vec<Content> {
        let style = Style {
            color: false,
            width: COLUMNS,
            unicode: true,
        };
        let mut content = Vec::new();
        for run in &self.runs {
            let measured = run.plan.imported.is_none();
            let what = match measured {
                true => "to run it again",
                false => "imported by",
            };
            content.push(Content::Paragraph(format!("{}, {what}:", run.name())));
            content.push(Content::Preformatted(again(&run.plan)));
            if measured {
                let text = iodyno_report::plan::text(
                    &plan_view(&run.plan, &FoundPaths::default(), None, None),
                    style,
                );
                content.push(Content::Preformatted(text));
            }
        }
        content
    }

    fn facts(&self, context: &Context) -> Vec<(String, String)> {
        let mut facts = Vec::new();
        for run in &self.runs {
            let summary = &run.summary;
            let ms = summary.started_unix_ms;
            let begun = iodyno_report::minute(ms, context.utc_offset_s(ms));
            let parts = match run.plan.imported.is_some() {
                true => vec![format!("imported {begun}")],
                false => {
                    let took = summary.duration_ms.map(Nanos::from_millis);
                    let host = summary.host.as_ref();
                    let planned = counted(summary.trials_planned, "trial");
                    [
                        Some(format!("started {begun}")),
                        host.map(|host| format!("on {host}")),
                        took.map(|took| format!("took {took}")),
                        Some(summary.state.name().to_owned()),
                        Some(format!("{} of {planned}", summary.trials_completed)),
                    ]
                    .into_iter()
                    .flatten()
                    .collect()
                }
            };
            let text = format!("{}, id {}", parts.join(", "), summary.id);
            facts.push((run.name(), text));
        }
        let version = env!("CARGO_PKG_VERSION");
        facts.push(("report by".to_owned(), format!("iodyno {version}")));
        facts
    }

    /// The results as text to paste.
    fn text(&self, markup: Markup, store: &SqliteStore) -> Result<String, Failure> {
        let heading = match markup {
            Markup::AsciiDoc => "==",
            _ => "##",
        };
        let statements = match self.judged {
            None => String::new(),
            Some(_) => draw::statements(&self.contradictions, &self.claims, markup),
        };
        let results = match self.comparison() {
            Some(comparison) => draw::markup(comparison, &self.shown(), markup),
            None => markup.block(&self.plain(store)?),
        };
        let table = self.table.as_ref();
        let table = table.map(|table| "\n".to_owned() + &draw::closing_markup(table, markup));
        let results = results + &table.unwrap_or_default();
        let mut text = match statements.is_empty() {
            true => results,
            false => {
                format!("{heading} {STATEMENTS}\n\n{statements}\n{heading} Results\n\n{results}")
            }
        };
        if let Some(explanation) = self.explanation(store)? {
            let why = iodyno_report::explain::markup(&explanation, markup);
            text += &format!("\n{heading} Why\n\n{why}");
        }
        let table = self.environment(markup);
        text += &format!("\n{heading} Environment\n\n{table}\n{heading} Command\n\n");
        for run in &self.runs {
            text += &markup.block(&again(&run.plan));
        }
        Ok(text)
    }
}

/// A report draws latency over time from this number of seconds on; `plot` from two on.
const MIN_COLUMNS: usize = 5;

fn columns(figure: &Figure) -> usize {
    let cells = figure.panels.first().and_then(|panel| panel.cells.as_ref());
    cells.map_or(0, |cells| cells.x.len().saturating_sub(1))
}

/// The most directions of a trial with their own figure.
const MAX_DIRECTIONS: usize = 2;

fn add_latencies(all: &mut Vec<(Cell, Direction, Histogram)>, cell: Cell, trial: &Trial) {
    let cycles = has_cycles(trial);
    let clones = trial.parts.iter().flat_map(|part| &part.clones);
    let directions = clones.flat_map(|clone| &clone.directions);
    for done in directions.filter(|done| !cycles || done.direction == Direction::Op) {
        let known = all
            .iter_mut()
            .find(|it| (it.0, it.1) == (cell, done.direction));
        match known {
            Some((.., histogram)) => histogram.merge(&done.service),
            None => all.push((cell, done.direction, done.service.clone())),
        }
    }
}

/// Whether it does file operations: only its timed steps are drawn, together.
fn has_cycles(trial: &Trial) -> bool {
    let clones = trial.parts.iter().flat_map(|part| &part.clones);
    let mut directions = clones.flat_map(|clone| &clone.directions);
    directions.any(|done| done.direction == Direction::Op && !done.service.is_empty())
}

/// Rows of the comparison become panels and its columns colours, so that compared values share a panel. Otherwise,
/// workloads are panels and configurations colours. `cells`: with the index of one of its trials, its workload and its
/// side.
fn places(
    cells: &[(Cell, usize, [String; 2])],
    trials: &[Observation],
    comparison: Option<&Comparison>,
) -> BTreeMap<Cell, Place> {
    let compared = comparison.and_then(|comparison| {
        let of_cell = |(cell, trial, _): &(Cell, usize, [String; 2])| {
            Some((*cell, compared_at(trials.get(*trial)?, comparison)?))
        };
        let places: BTreeMap<Cell, Place> = cells.iter().map(of_cell).collect::<Option<_>>()?;
        // Cells that the comparison combines have a panel each.
        let distinct: BTreeSet<&Place> = places.values().collect();
        (distinct.len() == places.len()).then_some(places)
    });
    compared.unwrap_or_else(|| {
        let mut sides: Vec<&str> = Vec::new();
        for (.., [_, side]) in cells {
            if !sides.contains(&side.as_str()) {
                sides.push(side);
            }
        }
        let own = cells.iter().map(|(cell, _, [workload, side])| {
            let place = Place {
                panel: workload.clone(),
                name: side.clone(),
                colour: sides.iter().position(|it| it == side).unwrap_or_default(),
            };
            (*cell, place)
        });
        own.collect()
    })
}

/// The row and column of a trial in the comparison; `None` if it is not part of it.
fn compared_at(trial: &Observation, comparison: &Comparison) -> Option<Place> {
    let question = &comparison.question;
    let name = trial.dimension(&question.columns);
    let rows = question.rows.iter().map(|row| trial.dimension(row));
    let rows: Vec<&str> = rows.filter(|value| !value.is_empty()).collect();
    Some(Place {
        panel: rows.join(" "),
        name: name.to_owned(),
        colour: comparison.columns.iter().position(|it| it == name)?,
    })
}

/// The series of imported trials: of each row and column the trial with the median result.
fn imported_courses(
    runs: &[Run],
    trials: &[Observation],
    comparison: Option<&Comparison>,
) -> Vec<Course> {
    let imported = runs.iter().filter_map(|run| run.plan.imported.as_ref());
    let read = imported.flat_map(|imported| imported.trials.iter());
    let seen = trials.iter().filter(|trial| trial.source.is_some());
    let mut found: Vec<(Place, Vec<(f64, Course)>)> = Vec::new();
    for (trial, seen) in read.zip(seen) {
        let primary = seen.primary.as_ref().and_then(|it| seen.figure(&it.name));
        let (Some(primary), None) = (primary, &seen.unusable) else {
            continue;
        };
        let place = comparison.and_then(|it| compared_at(seen, it));
        let place = place.unwrap_or_else(|| Place {
            panel: trial.workload.clone(),
            name: trial.configuration.clone(),
            colour: 0,
        });
        let course = Course {
            panel: place.panel.clone(),
            name: format!("{}, line {}", place.name, trial.at.line),
            colour: place.colour,
            rates: trial.series.iter().map(|it| (it.end_ns, it.rate)).collect(),
            ramp: None,
            behaviour: seen.behaviour.clone(),
        };
        match found.iter_mut().find(|(known, _)| *known == place) {
            Some((_, own)) => own.push((primary.value, course)),
            None => found.push((place, vec![(primary.value, course)])),
        }
    }
    let medians = found.into_iter().filter_map(|(_, mut own)| {
        own.sort_by(|a, b| a.0.total_cmp(&b.0));
        let middle = own.len().checked_sub(1)? / 2;
        Some(own.swap_remove(middle).1)
    });
    medians.collect()
}
