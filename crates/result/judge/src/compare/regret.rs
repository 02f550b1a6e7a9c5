//! How far each column is from the best one of each cell: its smallest and its mean ratio, with intervals.
//!
//! To choose the best by the same trials favours those that were lucky, so that equal columns seem to be worse than the
//! best ("winner's curse"). Therefore:
//!
//! - Each ratio is to the column that is best by all *other* rounds. Such a choice can miss the best, and never finds a
//!   better one, so that ratios are not too low; between equal columns, their logarithms lie around 0.
//! - The upper end of the mean is that of these ratios. They have most rounds of each choice in common and so vary
//!   together: the interval has half of the usual α.
//! - The lower end of the mean is the lower one of two: of the ratios to the best by *all* rounds, which are not too
//!   high; and of resampled rounds with a choice of their own, which counts that the best may be another column.
//! - All pairs of columns in all cells are tested together: in 95 of 100 tables of equal columns, none is SLOWER.
//! - The smallest ratio is at most each single one. So the smallest of the lower ends of all pairs of columns in all
//!   cells is its lower end, without a correction for their number. Its upper end is the smallest of their upper ends,
//!   which hold for all pairs together.

use std::collections::BTreeMap;

use iodyno_model::{
    Better, CellRegret, ColumnRegret, Estimated, Metric, Observation, Question, RatioToBest,
    Regret, Verdict,
};
use iodyno_stats::{
    Bootstrap, Sample as Sorted, bootstrap, hodges_lehmann, least_rounds, mean_and_error,
    simultaneous_reach, simultaneous_tests, smallest_p_signed_rank,
};
use iodyno_units::counted;

use super::error::CompareError;
use super::grouping::Kinship;
use super::metrics::{self, Role};
use super::sides::{Together, gather};
use super::verdict::{Numbers, decide, within_margin};

/// Number of resamples of the rounds.
const RESAMPLES: usize = 1000;
/// Of random signs: the same trials have the same result.
const SEED: u64 = 1;
/// The least rounds of a cell.
const LEAST: usize = 2;

/// The distance of each column from the best one of each cell.
///
/// # Errors
/// All errors of the question at once; see [`super::compare`].
pub fn regret(
    name: &str,
    observations: &[Observation],
    question: &Question,
) -> Result<Regret, CompareError> {
    let question = super::normalised(question);
    let table = super::grouping::group(observations, &question)?;
    let mut notes = Vec::new();
    let mut cells: Vec<Cell<'_>> = Vec::new();
    let mut known: Vec<&[String]> = Vec::new();
    let asked = metrics::rows(&table, &question);
    for asked in &asked {
        // Of each row the first metric, which decides.
        let row = asked.row;
        if row.kinship == Kinship::Family
            || asked.role == Role::Floor
            || known.contains(&row.name.as_slice())
        {
            continue;
        }
        known.push(&row.name);
        for (workload, own) in asked.workloads.iter().zip(&asked.own) {
            let mut name = row.name.clone();
            name.extend((asked.workloads.len() > 1).then(|| workload.name.clone()));
            let sides: Vec<BTreeMap<Together<'_>, f64>> = (workload.columns.iter())
                .map(|trials| logs(trials, own))
                .collect();
            cells.push(Cell {
                name,
                metric: own.clone(),
                sides,
            });
        }
    }
    let rounds = common_rounds(&mut cells, &table.columns, &mut notes);
    let logs: Vec<Vec<Vec<f64>>> = cells.iter().map(|cell| cell.logs(&rounds)).collect();
    Ok(judged(
        name,
        &question,
        &table.columns,
        &cells,
        &logs,
        notes,
    ))
}

/// The values of a cell.
struct Cell<'a> {
    name: Vec<String>,
    metric: Metric,
    /// By column, then by round: logarithms of the speed.
    sides: Vec<BTreeMap<Together<'a>, f64>>,
}

impl<'a> Cell<'a> {
    /// The rounds that all columns have.
    fn rounds(&self) -> Vec<Together<'a>> {
        let Some((first, others)) = self.sides.split_first() else {
            return Vec::new();
        };
        let all = |round: &&Together<'a>| others.iter().all(|side| side.contains_key(*round));
        first.keys().filter(all).copied().collect()
    }

    fn logs(&self, rounds: &[Together<'a>]) -> Vec<Vec<f64>> {
        let of_side = |side: &BTreeMap<Together<'a>, f64>| {
            let values = rounds.iter().filter_map(|round| side.get(round));
            values.copied().collect()
        };
        self.sides.iter().map(of_side).collect()
    }
}

/// The logarithms of the speeds of a side, by round.
fn logs<'a>(trials: &[&'a Observation], metric: &Metric) -> BTreeMap<Together<'a>, f64> {
    let gathered = gather(trials.iter().copied(), metric);
    let usable = gathered.counted.iter().filter(|it| it.value > 0.0);
    usable
        .filter_map(|it| {
            let log = it.value.ln();
            Some((
                it.together?,
                match metric.better {
                    Better::Higher => log,
                    Better::Lower => -log,
                },
            ))
        })
        .collect()
}

/// The rounds that all cells have. Cells with less than half of the rounds of the others are left out.
fn common_rounds<'a>(
    cells: &mut Vec<Cell<'a>>,
    columns: &[String],
    notes: &mut Vec<String>,
) -> Vec<Together<'a>> {
    let most = cells.iter().map(|cell| cell.rounds().len()).max();
    let least = (most.unwrap_or(0).div_ceil(2)).max(LEAST);
    cells.retain(|cell| {
        let rounds = cell.rounds().len();
        if rounds < least {
            let lacking = cell.sides.iter().zip(columns);
            let lacking = lacking.min_by_key(|(side, _)| side.len());
            let lacking = lacking.map_or("", |(_, column)| column);
            notes.push(format!(
                "{} left out: {} with values of all columns, fewest of {lacking}",
                cell.name.join(" "),
                counted(rounds as u64, "round"),
            ));
        }
        rounds >= least
    });
    let mut all = cells.first().map(Cell::rounds).unwrap_or_default();
    let whole = |round: &Together<'a>| {
        let mut sides = cells.iter().flat_map(|cell| &cell.sides);
        sides.all(|side| side.contains_key(round))
    };
    all.retain(whole);
    let lost = most.unwrap_or(0).saturating_sub(all.len());
    if lost > 0 && !cells.is_empty() {
        notes.push(format!(
            "{} without values of all cells left out",
            counted(lost as u64, "round")
        ));
    }
    all
}

fn judged(
    name: &str,
    question: &Question,
    columns: &[String],
    cells: &[Cell<'_>],
    logs: &[Vec<Vec<f64>>],
    notes: Vec<String>,
) -> Regret {
    let level = 1.0 - question.alpha_at_look();
    let rounds = rounds_of(logs);
    let mut regret = Regret {
        name: name.to_owned(),
        dimension: question.columns.clone(),
        rounds: u32::try_from(rounds).unwrap_or(u32::MAX),
        margin: question.margin,
        level,
        columns: Vec::new(),
        cells: Vec::new(),
        notes,
    };
    if rounds < LEAST {
        let note = "too few rounds with values of all cells for a distance from the best";
        regret.notes.push(note.to_owned());
        return regret;
    }
    let matrix = Matrix::new(logs);
    regret.cells = (cells.iter().enumerate())
        .map(|(place, cell)| CellRegret {
            name: cell.name.clone(),
            metric: cell.metric.clone(),
            best: columns[matrix.best[place]].clone(),
            ratios: Vec::new(),
        })
        .collect();
    let all = matrix.ratios(question);
    for ((column, name), ratios) in columns.iter().enumerate().zip(all) {
        let slower = |ratio: &&RatioToBest| ratio.verdict == Verdict::Slower;
        let (worst, cell) = matrix.worst(column, level);
        regret.columns.push(ColumnRegret {
            column: name.clone(),
            worst: with_interval(worst),
            worst_cell: cells[cell].name.join(" "),
            mean: with_interval(matrix.mean(column, level)),
            slower: ratios.iter().filter(slower).count() as u32,
            best: matrix.best.iter().filter(|best| **best == column).count() as u32,
        });
        for (cell, ratio) in regret.cells.iter_mut().zip(ratios) {
            cell.ratios.push(ratio);
        }
    }
    let mut columns = regret.columns.iter();
    if columns.any(|it| it.mean.is_none() || it.worst.is_none()) {
        regret.notes.push(format!(
            "{} cannot determine the geometric means and the worst ratios: at least {} can",
            counted(rounds as u64, "round"),
            needed(level)
        ));
    }
    regret
}

/// The least rounds with which the upper end of a mean exists: it has half of the usual α.
fn needed(level: f64) -> usize {
    let half = (1.0 - level) / 2.0;
    let mut rounds = LEAST..;
    let found = rounds.find(|rounds| smallest_p_signed_rank(*rounds) <= half);
    found.unwrap_or(usize::MAX)
}

/// Without an interval, the estimate would be mistaken for the result.
fn with_interval(estimated: Estimated) -> Option<Estimated> {
    estimated.interval.is_some().then_some(estimated)
}

/// Logarithms of speeds by cell, column and round; each round relative to its mean, which a disturbance of the whole
/// round moves.
struct Matrix<'a> {
    logs: &'a [Vec<Vec<f64>>],
    relative: Vec<Vec<Vec<f64>>>,
    rounds: usize,
    /// The best column of each cell by all rounds.
    best: Vec<usize>,
    /// The best column of each cell by all rounds but one.
    others: Vec<Vec<usize>>,
}

impl<'a> Matrix<'a> {
    fn new(logs: &'a [Vec<Vec<f64>>]) -> Matrix<'a> {
        let rounds = rounds_of(logs);
        let relative: Vec<Vec<Vec<f64>>> = logs.iter().map(|cell| relative(cell, rounds)).collect();
        let all: Vec<usize> = (0..rounds).collect();
        let by_others = |cell: &Vec<Vec<f64>>| {
            let each = (0..rounds).map(|round| best_of(cell, &without(round, rounds)));
            each.collect()
        };
        Matrix {
            best: relative.iter().map(|cell| best_of(cell, &all)).collect(),
            others: relative.iter().map(by_others).collect(),
            logs,
            relative,
            rounds,
        }
    }

    /// Log-ratios of a column to the best of a cell by the other rounds.
    fn to_best(&self, cell: usize, column: usize) -> Vec<f64> {
        let logs = &self.logs[cell];
        (0..self.rounds)
            .map(|round| logs[column][round] - logs[self.others[cell][round]][round])
            .collect()
    }

    fn mean(&self, column: usize, level: f64) -> Estimated {
        let cells = self.logs.len();
        let over_cells = |of_cell: &dyn Fn(usize, usize) -> f64| -> Vec<f64> {
            let of_round = |round| (0..cells).map(|cell| of_cell(cell, round)).sum::<f64>();
            (0..self.rounds)
                .map(|round| of_round(round) / cells as f64)
                .collect()
        };
        let own = |cell: usize, round: usize| self.logs[cell][column][round];
        let by_others = over_cells(&|cell, round| {
            own(cell, round) - self.logs[cell][self.others[cell][round]][round]
        });
        let by_all =
            over_cells(&|cell, round| own(cell, round) - self.logs[cell][self.best[cell]][round]);
        let low = ends(&by_all, level).zip(self.resampled(column, level));
        let low = low.map(|((low, _), resampled)| low.min(resampled));
        let high = ends(&by_others, (1.0 + level) / 2.0).map(|ends| ends.1);
        estimated(&by_others, low.zip(high), level)
    }

    /// The lower end of the mean over resampled rounds, each with its own best of each cell.
    fn resampled(&self, column: usize, level: f64) -> Option<f64> {
        let rounds: Vec<f64> = (0..self.rounds).map(|round| round as f64).collect();
        let statistic = |rounds: &[f64]| {
            let of_cell = |cell: &Vec<Vec<f64>>| {
                let sum = |side: &Vec<f64>| -> f64 {
                    rounds.iter().map(|round| side[*round as usize]).sum()
                };
                let best = cell.iter().map(sum).fold(f64::NEG_INFINITY, f64::max);
                sum(&cell[column]) - best
            };
            let sum: f64 = self.relative.iter().map(of_cell).sum();
            sum / (self.relative.len() * rounds.len()) as f64
        };
        let settings = Bootstrap {
            resamples: RESAMPLES,
            level,
            ..Bootstrap::default()
        };
        let found = bootstrap(&rounds, statistic, &settings).ok()?;
        Some(found.interval?.low)
    }

    /// The smallest ratio of a column, and its cell by all rounds.
    fn worst(&self, column: usize, level: f64) -> (Estimated, usize) {
        let columns = self.logs.first().map_or(0, Vec::len);
        let others = (0..columns).filter(|other| *other != column);
        let pairs: Vec<(usize, usize, Vec<f64>)> = (0..self.logs.len())
            .flat_map(|cell| others.clone().map(move |other| (cell, other)))
            .map(|(cell, other)| {
                let logs = &self.logs[cell];
                let both = logs[column].iter().zip(&logs[other]);
                (cell, other, both.map(|(own, other)| own - other).collect())
            })
            .collect();
        let lowest = |rounds: &[usize]| {
            let centre = |pair: &(usize, usize, Vec<f64>)| median(&pair.2, rounds);
            let mut pairs = pairs.iter();
            let first = pairs.next();
            pairs.fold(first, |found, pair| match found {
                Some(found) if centre(found) <= centre(pair) => Some(found),
                _ => Some(pair),
            })
        };
        let all: Vec<usize> = (0..self.rounds).collect();
        let by_others: Vec<f64> = (0..self.rounds)
            .map(|round| {
                let pair = lowest(&without(round, self.rounds));
                pair.map_or(0.0, |pair| pair.2[round])
            })
            .collect();
        let low = pairs.iter().map(|pair| Some(ends(&pair.2, level)?.0));
        let low: Option<Vec<f64>> = low.collect();
        let low = low.and_then(|ends| ends.into_iter().reduce(f64::min));
        let samples: Vec<Vec<f64>> = pairs.iter().map(|pair| pair.2.clone()).collect();
        let reach = simultaneous_reach(&samples, (1.0 + level) / 2.0, SEED).ok();
        let high = reach.and_then(|reach| {
            let ends = samples.iter().filter_map(|sample| {
                let (mean, error) = mean_and_error(sample).ok()?;
                Some(mean + reach * error)
            });
            ends.reduce(f64::min)
        });
        let cell = lowest(&all).map_or(0, |pair| pair.0);
        (estimated(&by_others, low.zip(high), level), cell)
    }

    /// By column, each cell, with verdicts that are corrected over the whole table: all pairs of columns in all cells
    /// are tested together. A column is slower than the best if it is slower than any other one.
    fn ratios(&self, question: &Question) -> Vec<Vec<RatioToBest>> {
        let columns = self.logs.first().map_or(0, Vec::len);
        let alpha = question.alpha_at_look();
        let pairs: Vec<(usize, usize, usize)> = (0..self.logs.len())
            .flat_map(|cell| (0..columns).map(move |one| (cell, one)))
            .flat_map(|(cell, one)| (one + 1..columns).map(move |other| (cell, one, other)))
            .collect();
        let samples: Vec<Vec<f64>> = pairs
            .iter()
            .map(|(cell, one, other)| {
                let both = self.logs[*cell][*one].iter().zip(&self.logs[*cell][*other]);
                both.map(|(one, other)| one - other).collect()
            })
            .collect();
        let tests = simultaneous_tests(&samples, 1.0 - alpha, SEED);
        let (p, reach) = tests.map_or((vec![1.0; pairs.len()], f64::INFINITY), |it| {
            (it.p, it.reach)
        });
        let mut all: Vec<Vec<ToOthers>> = vec![vec![ToOthers::default(); self.logs.len()]; columns];
        for (((cell, one, other), sample), p) in pairs.iter().zip(&samples).zip(p) {
            let (mean, error) = mean_and_error(sample).unwrap_or((0.0, f64::INFINITY));
            all[*one][*cell].add(mean, reach * error, p);
            all[*other][*cell].add(-mean, reach * error, p);
        }
        let of_column = |(column, cells): (usize, Vec<ToOthers>)| {
            let cells = cells.into_iter().enumerate();
            cells
                .map(|(cell, others)| self.ratio(column, cell, others, question))
                .collect()
        };
        all.into_iter().enumerate().map(of_column).collect()
    }

    fn ratio(
        &self,
        column: usize,
        cell: usize,
        others: ToOthers,
        question: &Question,
    ) -> RatioToBest {
        let (alpha, margin) = (question.alpha_at_look(), question.margin);
        let smallest_p = smallest_p_signed_rank(self.rounds);
        let ends = (smallest_p <= alpha).then_some((others.low, others.high));
        let is_best = self.best[cell] == column;
        let found = estimated(&self.to_best(cell, column), ends, 1.0 - alpha);
        let ratio = Estimated {
            value: if is_best { 1.0 } else { found.value },
            interval: found.interval.map(|(low, high)| match is_best {
                true => (low, 1.0),
                false => (low, high),
            }),
            ..found
        };
        let least = least_rounds(1, alpha).ok();
        let numbers = Numbers {
            n: u32::try_from(self.rounds).unwrap_or(u32::MAX),
            ratio: Some(ratio),
            direction: 0.0,
            adjusted_p: others.p,
            alpha,
            share: alpha,
            // The interval holds for the whole table: it decides about equivalence, too.
            equivalence_p: within_margin(ratio.interval, margin).then_some(0.0),
            smallest_p,
            least: least
                .and_then(|least| u32::try_from(least).ok())
                .unwrap_or(u32::MAX),
            margin,
            floor: 0.0,
        };
        RatioToBest {
            ratio,
            adjusted_p: others.p,
            verdict: decide(&numbers, || None),
        }
    }
}

fn rounds_of(logs: &[Vec<Vec<f64>>]) -> usize {
    let side = logs.first().and_then(|cell| cell.first());
    side.map_or(0, Vec::len)
}

/// All rounds but one.
fn without(round: usize, rounds: usize) -> Vec<usize> {
    (0..rounds).filter(|other| *other != round).collect()
}

/// A column of a cell against the others.
#[derive(Debug, Clone, Copy)]
struct ToOthers {
    /// The smallest ends of the intervals of its log-ratios: those of the ratio to the best.
    low: f64,
    high: f64,
    /// The smallest p of a column that is faster.
    p: f64,
}

impl Default for ToOthers {
    fn default() -> Self {
        ToOthers {
            low: 0.0,
            high: 0.0,
            p: 1.0,
        }
    }
}

impl ToOthers {
    fn add(&mut self, mean: f64, reach: f64, p: f64) {
        self.low = self.low.min(mean - reach);
        self.high = self.high.min(mean + reach);
        if mean < 0.0 {
            self.p = self.p.min(p);
        }
    }
}

/// The values of each round without their mean over the columns.
fn relative(cell: &[Vec<f64>], rounds: usize) -> Vec<Vec<f64>> {
    let mean = |round: usize| {
        let sum: f64 = cell.iter().map(|side| side[round]).sum();
        sum / cell.len().max(1) as f64
    };
    let means: Vec<f64> = (0..rounds).map(mean).collect();
    let of_side = |side: &Vec<f64>| {
        let both = side.iter().zip(&means);
        both.map(|(value, mean)| value - mean).collect()
    };
    cell.iter().map(of_side).collect()
}

/// The column with the largest median in these rounds; the first of equal ones.
fn best_of(cell: &[Vec<f64>], rounds: &[usize]) -> usize {
    let medians = cell.iter().map(|side| median(side, rounds)).enumerate();
    let best = medians.reduce(|best, other| match other.1 > best.1 {
        true => other,
        false => best,
    });
    best.map_or(0, |(column, _)| column)
}

fn median(values: &[f64], rounds: &[usize]) -> f64 {
    let chosen: Vec<f64> = rounds.iter().map(|round| values[*round]).collect();
    Sorted::new(&chosen).map_or(0.0, |sample| sample.median())
}

/// The ends of the interval of the centre.
fn ends(values: &[f64], level: f64) -> Option<(f64, f64)> {
    let interval = hodges_lehmann(values, level).ok()?.interval?;
    Some((interval.low, interval.high))
}

/// A ratio of at most 1, by its logarithms and the ends of its interval.
fn estimated(logs: &[f64], ends: Option<(f64, f64)>, level: f64) -> Estimated {
    let centre = hodges_lehmann(logs, level).map_or(0.0, |centre| centre.value);
    let ends = ends.map(|(low, high)| (low.min(0.0), high.max(low).min(0.0)));
    let value = match ends {
        Some((low, high)) => centre.clamp(low, high),
        None => centre.min(0.0),
    };
    Estimated {
        value: value.exp(),
        interval: ends.map(|(low, high)| (low.exp(), high.exp())),
        level,
    }
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_distr::{Distribution, Normal};
    use rand_xoshiro::Xoshiro256PlusPlus;

    use super::*;
    use crate::testing::observations::rounds;

    const COLUMNS: usize = 4;
    const CELLS: usize = 6;
    const ROUNDS: usize = 10;
    const LEVEL: f64 = 0.95;

    /// Logarithms of speeds with these centres: (cell, column) → logarithm. Rounds are disturbed as a whole, and cells
    /// differ in noise.
    fn logs(centre: &dyn Fn(usize, usize) -> f64, noise: f64, seed: u64) -> Vec<Vec<Vec<f64>>> {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let law = Normal::new(0.0, 1.0).unwrap();
        (0..CELLS)
            .map(|cell| {
                let whole: Vec<f64> = (0..ROUNDS).map(|_| 0.1 * law.sample(&mut random)).collect();
                let own = noise * (0.5 + random.random::<f64>());
                (0..COLUMNS)
                    .map(|column| {
                        let of_round = |round: &f64| {
                            centre(cell, column) + round + own * law.sample(&mut random)
                        };
                        whole.iter().map(of_round).collect()
                    })
                    .collect()
            })
            .collect()
    }

    /// The share of simulated runs in which the intervals of the mean and of the smallest ratio of a column contain the
    /// truth.
    fn coverage(centre: &dyn Fn(usize, usize) -> f64, column: usize, noise: f64) -> (f64, f64) {
        const TIMES: u64 = 200;
        let to_best = |cell: usize| {
            let all = (0..COLUMNS).map(|other| centre(cell, other));
            centre(cell, column) - all.fold(f64::NEG_INFINITY, f64::max)
        };
        let mean = (0..CELLS).map(to_best).sum::<f64>() / CELLS as f64;
        let worst = (0..CELLS).map(to_best).fold(f64::INFINITY, f64::min);
        let holds = |found: Estimated, log: f64| {
            let (low, high) = found.interval.unwrap();
            low <= log.exp() + 1e-12 && log.exp() <= high + 1e-12
        };
        let (mut means, mut worsts) = (0, 0);
        for seed in 0..TIMES {
            let logs = logs(centre, noise, seed);
            let matrix = Matrix::new(&logs);
            means += u64::from(holds(matrix.mean(column, LEVEL), mean));
            worsts += u64::from(holds(matrix.worst(column, LEVEL).0, worst));
        }
        (means as f64 / TIMES as f64, worsts as f64 / TIMES as f64)
    }

    #[test]
    fn intervals_of_equal_columns_contain_1_in_95_of_100() {
        for noise in [0.01, 0.1] {
            let (mean, worst) = coverage(&|_, _| 0.0, 0, noise);
            assert!(mean >= LEVEL && worst >= LEVEL, "{noise}: {mean} {worst}");
        }
    }

    #[test]
    fn intervals_of_different_columns_contain_the_truth_in_95_of_100() {
        // Column 0 is 20 % slower in one cell, as fast as column 1 in two, and slightly slower or faster in the others.
        let centre = |cell: usize, column: usize| match (cell, column) {
            (0, 0) => -0.2,
            (1 | 2, 0 | 1) => 0.1,
            (_, 0) => 0.004 * (cell as f64 - 4.0),
            (_, column) => -0.01 * column as f64,
        };
        for column in [0, 1, 3] {
            let (mean, worst) = coverage(&centre, column, 0.02);
            assert!(mean >= LEVEL && worst >= LEVEL, "{column}: {mean} {worst}");
        }
    }

    #[test]
    fn the_best_column_by_the_same_rounds_would_be_the_winners_curse() {
        let mut naive = 0.0;
        let mut honest = 0.0;
        for seed in 0..50 {
            let logs = logs(&|_, _| 0.0, 0.05, seed);
            let matrix = Matrix::new(&logs);
            let all: Vec<usize> = (0..ROUNDS).collect();
            naive += median(&matrix.relative[0][0], &all)
                - median(&matrix.relative[0][matrix.best[0]], &all);
            honest += Sorted::new(&matrix.to_best(0, 0)).unwrap().mean();
        }
        assert!(naive / 50.0 < -0.01, "{naive}");
        assert!((honest / 50.0).abs() < 0.01, "{honest}");
    }

    /// The ratios of a table of equal columns with this number of columns, cells and rounds.
    fn equal(columns: usize, cells: usize, rounds: usize, seed: u64) -> Vec<Vec<RatioToBest>> {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let law = Normal::new(0.0, 0.05).unwrap();
        let mut side = || (0..rounds).map(|_| law.sample(&mut random)).collect();
        let mut cell = || (0..columns).map(|_| side()).collect();
        let logs: Vec<Vec<Vec<f64>>> = (0..cells).map(|_| cell()).collect();
        Matrix::new(&logs).ratios(&Question::default())
    }

    #[test]
    fn at_most_5_of_100_tables_of_equal_columns_have_a_slower_one() {
        // `make test-long` makes more tables.
        let tables = if cfg!(feature = "long") { 600 } else { 40 };
        for rounds in [6, 10] {
            let wrong = (0..tables).filter(|seed| {
                let ratios = equal(8, 20, rounds, *seed);
                let mut all = ratios.iter().flatten();
                all.any(|ratio| ratio.verdict == Verdict::Slower)
            });
            let share = wrong.count() as f64 / tables as f64;
            assert!(share <= 0.05, "{rounds} rounds: {share}");
        }
    }

    #[test]
    fn no_ratio_exceeds_that_of_the_best() {
        let mut two = trials(0.05);
        two.retain(|trial| trial.round.is_some_and(|round| round < 2));
        // Each of the two rounds has another best column.
        for trial in &mut two {
            let fast = (trial.dimension("configuration") == "a") == (trial.round == Some(0));
            trial.figures[0].value = if fast { 21_110.0 } else { 1_000.0 };
        }
        let found = regret("run", &two, &Question::default()).unwrap();
        for cell in &found.cells {
            let ratios = cell.ratios.iter().map(|ratio| ratio.ratio.value);
            assert!(ratios.clone().all(|ratio| ratio <= 1.0), "{cell:?}");
            let best = found.columns.iter().position(|it| it.column == cell.best);
            assert_eq!(ratios.clone().nth(best.unwrap()), Some(1.0), "{cell:?}");
        }
    }

    fn trials(slow: f64) -> Vec<Observation> {
        let noise = |seed: usize| 1.0 + 0.002 * ((seed * 7919 % 13) as f64 - 6.0);
        let side = |name: &str, workload: &str, speed: f64| {
            let values: Vec<f64> = (0..12)
                .map(|round| speed * noise(round + name.len() * 5 + workload.len()))
                .collect();
            rounds(name, workload, &values)
        };
        [
            side("a", "seq", 1000.0),
            side("bb", "seq", 800.0),
            side("a", "random", 1000.0 * slow),
            side("bb", "random", 1000.0),
        ]
        .concat()
    }

    #[test]
    fn a_column_that_loses_a_cell_has_the_ratio_of_that_cell() {
        let found = regret("run", &trials(0.7), &Question::default()).unwrap();
        assert_eq!((found.rounds, found.cells.len()), (12, 2));
        let [a, b] = found.columns.as_slice() else {
            panic!("{found:?}");
        };
        assert!((a.worst.unwrap().value - 0.7).abs() < 0.01, "{a:?}");
        assert!(
            (a.mean.unwrap().value - 0.7f64.sqrt()).abs() < 0.01,
            "{a:?}"
        );
        assert_eq!((a.worst_cell.as_str(), a.slower, a.best), ("random", 1, 1));
        assert!((b.worst.unwrap().value - 0.8).abs() < 0.01, "{b:?}");
        assert_eq!(b.worst_cell, "seq");
        let verdicts: Vec<&Verdict> = (found.cells.iter())
            .map(|cell| &cell.ratios[0].verdict)
            .collect();
        assert_eq!(verdicts, [&Verdict::Equivalent, &Verdict::Slower]);
    }

    #[test]
    fn a_cell_without_a_column_and_rounds_without_a_cell_are_left_out_and_told() {
        let mut all = trials(1.0);
        all.retain(|trial| {
            let (side, work) = (
                trial.dimension("configuration"),
                trial.dimension("workload"),
            );
            !(side == "a" && work == "random") && trial.round != Some(3)
        });
        let found = regret("run", &all, &Question::default()).unwrap();
        assert_eq!((found.rounds, found.cells.len()), (11, 1));
        assert_eq!(
            found.notes,
            ["random left out: 0 rounds with values of all columns, fewest of a"]
        );
        let mut one = trials(1.0);
        one.retain(|trial| trial.round != Some(3) || trial.dimension("workload") != "seq");
        let found = regret("run", &one, &Question::default()).unwrap();
        assert_eq!((found.rounds, found.cells.len()), (11, 2));
        assert_eq!(
            found.notes,
            ["1 round without values of all cells left out"]
        );
    }

    #[test]
    fn without_enough_rounds_it_tells_the_number_of_rounds_that_are_needed() {
        let of_rounds = |count: u32| {
            let mut few = trials(0.7);
            few.retain(|trial| trial.round.is_some_and(|round| round < count));
            regret("run", &few, &Question::default()).unwrap()
        };
        let needed = needed(of_rounds(2).level) as u32;
        for rounds in 2..needed {
            let few = of_rounds(rounds);
            assert!(few.columns.iter().any(|it| it.mean.is_none()), "{rounds}");
            let note = format!(
                "{rounds} rounds cannot determine the geometric means and the worst ratios: at least {needed} can"
            );
            assert_eq!(few.notes, [note]);
        }
        let enough = of_rounds(needed);
        let columns = &enough.columns;
        assert!(
            columns
                .iter()
                .all(|it| it.mean.is_some() && it.worst.is_some())
        );
        assert!(enough.notes.is_empty(), "{:?}", enough.notes);
        let ratio = &of_rounds(4).cells[1].ratios[0];
        assert!(matches!(ratio.verdict, Verdict::CannotDecide { .. }));
        assert!(regret("run", &[], &Question::default()).is_err());
    }
}
