//! `iodyno report` and `iodyno plot`: runs as a page or a text, and their figures as pictures.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{IsTerminal, Write, stdout};
use std::path::Path;

use iodyno_figure::kinds::{self, Course, Distribution, MOST_PANELS};
use iodyno_figure::{Content, Figure, Format as Picture, Kind, Page, Section, picture};
use iodyno_judge::figures;
use iodyno_model::{
    Comparison, Diagnostic, Direction, Observation, SeriesKind, Trial, TrialKey, TrialState,
};
use iodyno_report::compare::Shown;
use iodyno_report::{Style, compare as draw};
use iodyno_store::{Run, SqliteStore, Store, StoreError};
use iodyno_units::{counted, grouped};

use crate::args::{PlotArgs, ReportArgs, ReportFormat};
use crate::commands::compare::{Judged, judge, runs, shown};
use crate::commands::export::write_file;
use crate::commands::history::histories;
use crate::commands::searches_of;
use crate::commands::series::{telemetry, trials as numbered};
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::observations::{default_question, name_runs, run_name};
use crate::plan_text::plan_text;
use crate::screen::write_out;
use crate::targets::FoundPaths;
use crate::trials::{Drawn, Series, load};

/// Trials whose latency and telemetry a report draws, at most.
const MOST_TRIALS: usize = 6;

/// Width of preformatted text, columns.
const COLUMNS: usize = 110;

/// Writes a report.
pub(crate) fn report(args: &ReportArgs, context: &Context) -> Result<Exit, Failure> {
    if args.output.is_none() && args.format == ReportFormat::Html && stdout().is_terminal() {
        let fault = Diagnostic::error("the page is not for a terminal");
        let hint = "name a file with `-o report.html`, or choose `--format markdown`";
        return Err(Failure::input(vec![fault.hint(hint)]));
    }
    let store = context.store_to_read()?;
    let results = Results::read(&args.runs, &store)?;
    let text = match args.format {
        ReportFormat::Html => iodyno_figure::page(&results.page(&store)?),
        ReportFormat::Markdown => results.text(false, &store)?,
        ReportFormat::Asciidoc => results.text(true, &store)?,
    };
    let Some(path) = &args.output else {
        write_out(text)?;
        return Ok(Exit::Fine);
    };
    write(path, text.as_bytes())?;
    context.note(&format!(
        "report of {} written to {}",
        results.names().join(" and "),
        path.display()
    ));
    Ok(Exit::Fine)
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

/// The runs of a report with what is known of their trials.
struct Results {
    runs: Vec<Run>,
    /// Of all ended or imported trials, with the names of their runs.
    trials: Vec<Observation>,
    /// `None` if there is nothing to compare in a single run.
    judged: Option<Judged>,
    /// The latencies of all trials of each cell.
    latencies: Vec<Distribution>,
    /// The trials with the median result: one of each cell.
    medians: Vec<Chosen>,
}

/// A trial that stands for its cell.
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
}

impl Results {
    fn read(names: &[String], store: &SqliteStore) -> Result<Results, Failure> {
        let runs = runs(names, store)?;
        let mut trials = Vec::new();
        let mut latencies = Vec::new();
        let mut medians = Vec::new();
        for (place, run) in runs.iter().enumerate() {
            let name = run_name(run);
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
                    add_latencies(&mut latencies, &workload.name, &side, &trial);
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
        let judged = match (
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
        Ok(Results {
            runs,
            trials,
            judged,
            latencies,
            medians,
        })
    }

    fn names(&self) -> Vec<String> {
        self.runs.iter().map(run_name).collect()
    }

    fn shown(&self) -> Shown {
        shown(&self.runs)
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

    /// The results as on a terminal, where there is nothing to compare: of an imported run its tables, of another one the
    /// trial of each pair of configuration and workload.
    fn plain(&self, store: &SqliteStore) -> Result<String, Failure> {
        let style = Style {
            color: false,
            width: COLUMNS,
            unicode: true,
        };
        if let Some(judged) = &self.judged {
            return Ok(judged.text(&self.shown(), style));
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

    /// Why there are no results: the reason of each trial, each once.
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
        let own: BTreeSet<String> = self.runs.iter().map(run_name).collect();
        found.retain(|history| history.points.iter().any(|point| own.contains(&point.run)));
        Ok(kinds::history(&found))
    }

    fn throughput(
        &self,
        chosen: &[Chosen],
        store: &SqliteStore,
    ) -> Result<Option<Figure>, Failure> {
        let mut sides: Vec<&str> = Vec::new();
        let mut courses = Vec::new();
        for it in chosen {
            let colour = sides.iter().position(|side| *side == it.side);
            let colour = colour.unwrap_or_else(|| {
                sides.push(&it.side);
                sides.len() - 1
            });
            let trial = load(store, it.key, Series::Counts)?;
            let (_, workload) = self.runs[it.run].plan.cell(it.key.cell);
            courses.push(Course {
                panel: it.workload.clone(),
                name: format!("{}, trial {}", it.side, it.number),
                colour,
                behaviour: iodyno_judge::summary(workload, &trial).behaviour,
                frames: trial.frames,
            });
        }
        Ok(kinds::throughput(&courses))
    }

    fn heatmaps(&self, chosen: &Chosen, store: &SqliteStore) -> Result<Vec<Figure>, Failure> {
        let trial = load(store, chosen.key, Series::Whole)?;
        let each = Direction::EVERY.into_iter();
        let drawn =
            each.filter_map(|direction| kinds::heatmap(&chosen.title(), direction, &trial.frames));
        Ok(drawn.take(MOST_DIRECTIONS).collect())
    }

    fn telemetry(&self, chosen: &Chosen, store: &SqliteStore) -> Result<Option<Figure>, Failure> {
        let run = &self.runs[chosen.run];
        let series = telemetry(store, run, chosen.key)?;
        let tables = SeriesKind::ALL
            .into_iter()
            .filter(|kind| series.kinds().contains(kind));
        let tables: Vec<_> = tables.map(|kind| figures(&series, kind, None)).collect();
        let findings = store.trial(chosen.key)?.findings;
        Ok(kinds::telemetry(&chosen.title(), &tables, &findings))
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
            Kind::Latency => kinds::latency(&self.latencies),
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
                Kind::Verdicts | Kind::Trials => "it compares nothing",
                Kind::Latency | Kind::Heatmap | Kind::Series => "it has no trial with such data",
                Kind::Telemetry => "no telemetry is stored with it",
                Kind::Curve => "it has no axis with at least three numeric values",
                Kind::History => "no other stored run has the same work on the same host",
            };
            let message = format!("{names} cannot be drawn as `{}`: {why}", kind.name());
            Failure::one(Diagnostic::error(message).hint("`iodyno report` shows what there is"))
        })
    }

    fn page(&self, store: &SqliteStore) -> Result<Page, Failure> {
        let mut sections = vec![self.results(store)?];
        let mut add = |title: &str, content: Vec<Content>| {
            if !content.is_empty() {
                let title = title.to_owned();
                sections.push(Section { title, content });
            }
        };
        let one = |figure: Option<Figure>| figure.into_iter().map(Content::Figure).collect();
        add("Trials", one(self.every_trial()));
        add("Latency", one(kinds::latency(&self.latencies)));
        let left_out = match self.medians.len().saturating_sub(MOST_TRIALS) {
            0 => None,
            more => Some(Content::Paragraph(format!(
                "The first {MOST_TRIALS} of {} are shown. `iodyno plot RUN KIND --trial N` draws each other trial; {} more.",
                counted(
                    self.medians.len() as u64,
                    "pair of configuration and workload"
                ),
                grouped(more as u64)
            ))),
        };
        let few = &self.medians[..self.medians.len().min(MOST_TRIALS)];
        let mut heatmaps: Vec<Content> = left_out.clone().into_iter().collect();
        let mut hosts: Vec<Content> = left_out.into_iter().collect();
        for chosen in few {
            heatmaps.extend(
                self.heatmaps(chosen, store)?
                    .into_iter()
                    .map(Content::Figure),
            );
            hosts.extend(self.telemetry(chosen, store)?.map(Content::Figure));
        }
        add("Latency over time", heatmaps);
        let most = MOST_PANELS * self.sides();
        let some = &self.medians[..self.medians.len().min(most)];
        add("Throughput over time", one(self.throughput(some, store)?));
        add("Host", hosts);
        add("Axes", one(self.curves()));
        add("Searches", one(self.searches(store)?));
        add("History", one(self.history(store)?));
        add("Environment", self.environment());
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
            facts: self.facts(),
            sections,
        })
    }

    /// Number of configurations, over all runs.
    fn sides(&self) -> usize {
        let sides = self.medians.iter().map(|it| it.side.as_str());
        sides.collect::<BTreeSet<&str>>().len().max(1)
    }

    fn results(&self, store: &SqliteStore) -> Result<Section, Failure> {
        let mut content = Vec::new();
        if let Some(comparison) = self.comparison() {
            let rows = comparison.rows.iter();
            let rows = rows.filter(|row| !row.exploratory && !row.no_difference);
            let words = rows.flat_map(|row| {
                row.cells.iter().map(|cell| {
                    let name = row.name.join(" ");
                    let name = if name.is_empty() {
                        name
                    } else {
                        format!("{name}: ")
                    };
                    format!("{name}{}: {}", cell.side.column, draw::verdict_words(cell))
                })
            });
            content.push(Content::List(words.collect()));
            content.extend(self.verdicts().map(Content::Figure));
            content.push(Content::Table {
                html: draw::html(comparison, &self.shown()),
                markdown: draw::markdown(comparison, &self.shown()),
            });
        } else {
            content.push(Content::Preformatted(self.plain(store)?));
        }
        Ok(Section {
            title: "Results".to_owned(),
            content,
        })
    }

    fn environment(&self) -> Vec<Content> {
        let columns = match self.comparison() {
            Some(comparison) => comparison.question.columns.clone(),
            None => Observation::CONFIGURATION.to_owned(),
        };
        let facts = draw::facts(&columns, &self.trials);
        vec![Content::Table {
            html: facts.html(),
            markdown: facts.markdown(),
        }]
    }

    fn plans(&self) -> Vec<Content> {
        let style = Style {
            color: false,
            width: COLUMNS,
            unicode: true,
        };
        let mut content = Vec::new();
        for run in &self.runs {
            content.push(Content::Paragraph(format!(
                "{}, run again with:",
                run_name(run)
            )));
            content.push(Content::Preformatted(run.plan.command.join(" ")));
            if run.plan.imported.is_none() {
                let text = plan_text(&run.plan, &FoundPaths::default(), None, "", style);
                content.push(Content::Preformatted(text));
            }
        }
        content
    }

    fn facts(&self) -> Vec<(String, String)> {
        let mut facts = Vec::new();
        for run in &self.runs {
            let summary = &run.summary;
            facts.push((
                run_name(run),
                match run.plan.imported.is_some() {
                    true => format!("imported, id {}", summary.id),
                    false => format!(
                        "{}, {} of {} completed, id {}",
                        summary.state.name(),
                        summary.trials_completed,
                        counted(summary.trials_planned, "trial"),
                        summary.id
                    ),
                },
            ));
        }
        let version = env!("CARGO_PKG_VERSION");
        facts.push(("report by".to_owned(), format!("iodyno {version}")));
        facts
    }

    /// The results as text to paste.
    fn text(&self, asciidoc: bool, store: &SqliteStore) -> Result<String, Failure> {
        let (heading, code) = match asciidoc {
            true => ("==", ("----", "----")),
            false => ("##", ("```", "```")),
        };
        let shown = self.shown();
        let mut text = match (self.comparison(), asciidoc) {
            (Some(comparison), true) => draw::asciidoc(comparison, &shown),
            (Some(comparison), false) => draw::markdown(comparison, &shown),
            (None, _) => format!("{}\n{}{}\n", code.0, self.plain(store)?, code.1),
        };
        let columns = match self.comparison() {
            Some(comparison) => comparison.question.columns.clone(),
            None => Observation::CONFIGURATION.to_owned(),
        };
        let facts = draw::facts(&columns, &self.trials);
        let table = if asciidoc {
            facts.asciidoc()
        } else {
            facts.markdown()
        };
        text += &format!("\n{heading} Environment\n\n{table}\n{heading} Command\n\n");
        for run in &self.runs {
            text += &format!("{}\n{}\n{}\n", code.0, run.plan.command.join(" "), code.1);
        }
        Ok(text)
    }
}

/// Directions of a trial with a figure of their own, at most.
const MOST_DIRECTIONS: usize = 2;

fn add_latencies(all: &mut Vec<Distribution>, workload: &str, side: &str, trial: &Trial) {
    let clones = trial.parts.iter().flat_map(|part| &part.clones);
    for done in clones.flat_map(|clone| &clone.directions) {
        let panel = format!("{workload}, {}", done.direction.name());
        let known = all
            .iter_mut()
            .find(|it| it.panel == panel && it.name == side);
        match known {
            Some(known) => known.histogram.merge(&done.service),
            None => all.push(Distribution {
                panel,
                name: side.to_owned(),
                histogram: done.service.clone(),
            }),
        }
    }
}
