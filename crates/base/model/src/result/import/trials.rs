//! Imported trials in little memory.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::ImportedTrial;

/// A sequence of imported trials. What several trials have in common is stored once: a text of many short results
/// would otherwise take more than thirty times its size.
///
/// It is serialized as a sequence of [`ImportedTrial`]s.
#[derive(Clone, Default)]
pub struct ImportedTrials {
    rows: Arc<Vec<Row>>,
    /// Trials without their names, line and values.
    shapes: Vec<ImportedTrial>,
    /// Configuration, workload and dimensions, packed.
    names: Vec<Box<str>>,
    /// The values of all figures. Copies share them.
    values: Arc<Vec<f64>>,
    /// Indices by hash. Of two with the same hash, only the first is shared.
    shape_of: HashMap<u64, u32>,
    name_of: HashMap<u64, u32>,
}

/// What a trial does not share with others.
#[derive(Debug, Clone, Copy)]
struct Row {
    shape: u32,
    name: u32,
    line: u32,
    /// The index of its first value.
    values: u32,
}

impl ImportedTrials {
    /// Appends a trial.
    ///
    /// # Panics
    /// With more than 2³² trials or figures.
    pub fn push(&mut self, mut trial: ImportedTrial) {
        let line = std::mem::take(&mut trial.at.line);
        let values = index(self.values.len());
        let all = Arc::make_mut(&mut self.values);
        for figure in &mut trial.figures {
            all.push(std::mem::take(&mut figure.value));
        }
        let packed = pack(&trial);
        trial.configuration.clear();
        trial.workload.clear();
        trial.dimensions.clear();
        let name = shared(
            &mut self.names,
            &mut self.name_of,
            hash(&packed),
            packed.into(),
        );
        let shape = shared(
            &mut self.shapes,
            &mut self.shape_of,
            hash_of_shape(&trial),
            trial,
        );
        Arc::make_mut(&mut self.rows).push(Row {
            shape,
            name,
            line,
            values,
        });
    }

    /// The number of trials.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// A trial by its place in the sequence, from 0.
    pub fn get(&self, place: usize) -> Option<ImportedTrial> {
        let row = self.rows.get(place)?;
        let mut trial = self.shapes[row.shape as usize].clone();
        trial.at.line = row.line;
        unpack(&self.names[row.name as usize], &mut trial);
        let values = &self.values[row.values as usize..];
        for (figure, value) in trial.figures.iter_mut().zip(values) {
            figure.value = *value;
        }
        Some(trial)
    }

    /// The configuration and the workload of a trial by its place, from 0.
    pub fn names(&self, place: usize) -> Option<(&str, &str)> {
        let row = self.rows.get(place)?;
        let mut names = parts(&self.names[row.name as usize]);
        names.next().zip(names.next())
    }

    /// Changes the texts of all trials; those that several trials have in common are changed once. Values of figures
    /// stay, and `change` must keep the number of figures.
    ///
    /// # Errors
    /// The first error of `change`.
    pub fn rewrite<E>(
        &mut self,
        change: impl Fn(&ImportedTrial) -> Result<ImportedTrial, E>,
    ) -> Result<(), E> {
        self.shape_of.clear();
        self.name_of.clear();
        let blank = self.shapes.first().cloned();
        for shape in &mut self.shapes {
            *shape = change(shape)?;
        }
        for (names, mut trial) in self
            .names
            .iter_mut()
            .zip(std::iter::repeat(blank).flatten())
        {
            unpack(names, &mut trial);
            *names = pack(&change(&trial)?).into();
        }
        Ok(())
    }

    /// All trials in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = ImportedTrial> + '_ {
        (0..self.len()).map(|place| self.get(place).expect("it is in range"))
    }
}

fn index(length: usize) -> u32 {
    u32::try_from(length).expect("fewer than 2^32 trials and figures")
}

/// The index of an item, which is added unless it is known.
fn shared<T: PartialEq>(
    all: &mut Vec<T>,
    known: &mut HashMap<u64, u32>,
    hash: u64,
    item: T,
) -> u32 {
    if let Some(&place) = known.get(&hash)
        && all[place as usize] == item
    {
        return place;
    }
    let place = index(all.len());
    all.push(item);
    known.entry(hash).or_insert(place);
    place
}

/// Each name with its length in bytes in front.
fn pack(trial: &ImportedTrial) -> String {
    let mut packed = String::new();
    let mut add = |name: &str| {
        packed += &name.len().to_string();
        packed.push(':');
        packed += name;
    };
    add(&trial.configuration);
    add(&trial.workload);
    for (name, value) in &trial.dimensions {
        add(name);
        add(value);
    }
    packed
}

/// Gives a trial the names that [`pack`] packed.
fn unpack(packed: &str, trial: &mut ImportedTrial) {
    let mut names = parts(packed).map(str::to_owned);
    trial.configuration = names.next().unwrap_or_default();
    trial.workload = names.next().unwrap_or_default();
    while let (Some(name), Some(value)) = (names.next(), names.next()) {
        trial.dimensions.insert(name, value);
    }
}

fn parts(mut packed: &str) -> impl Iterator<Item = &str> {
    std::iter::from_fn(move || {
        let (length, rest) = packed.split_once(':')?;
        let (part, rest) = rest.split_at_checked(length.parse().ok()?)?;
        packed = rest;
        Some(part)
    })
}

fn hash(item: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    item.hash(&mut hasher);
    hasher.finish()
}

/// A hash of the attributes in which trials of one source usually differ.
fn hash_of_shape(trial: &ImportedTrial) -> u64 {
    let mut hasher = DefaultHasher::new();
    (&trial.form, &trial.at.source, &trial.primary).hash(&mut hasher);
    for figure in &trial.figures {
        (&figure.metric.name, &figure.derived).hash(&mut hasher);
    }
    for withheld in &trial.withheld {
        (&withheld.metric, &withheld.why).hash(&mut hasher);
    }
    for point in &trial.series {
        (point.start_ns, point.end_ns, point.rate.to_bits()).hash(&mut hasher);
    }
    (&trial.facts, &trial.remarks, &trial.unusable).hash(&mut hasher);
    hasher.finish()
}

impl std::fmt::Debug for ImportedTrials {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.debug_list().entries(self.iter()).finish()
    }
}

impl PartialEq for ImportedTrials {
    fn eq(&self, other: &ImportedTrials) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Extend<ImportedTrial> for ImportedTrials {
    fn extend<I: IntoIterator<Item = ImportedTrial>>(&mut self, trials: I) {
        trials.into_iter().for_each(|trial| self.push(trial));
    }
}

impl FromIterator<ImportedTrial> for ImportedTrials {
    fn from_iter<I: IntoIterator<Item = ImportedTrial>>(trials: I) -> ImportedTrials {
        let mut all = ImportedTrials::default();
        all.extend(trials);
        all
    }
}

impl Serialize for ImportedTrials {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}

impl<'de> Deserialize<'de> for ImportedTrials {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<ImportedTrials, D::Error> {
        struct Trials;
        impl<'de> Visitor<'de> for Trials {
            type Value = ImportedTrials;

            fn expecting(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                to.write_str("a sequence of imported trials")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<ImportedTrials, A::Error> {
                let mut trials = ImportedTrials::default();
                while let Some(trial) = seq.next_element()? {
                    trials.push(trial);
                }
                Ok(trials)
            }
        }
        deserializer.deserialize_seq(Trials)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Fact, FactClass, Figure, ImportedPoint, Kind, Metric, SourceLine, Withheld};

    fn trial(configuration: &str, workload: &str, line: u32, value: f64) -> ImportedTrial {
        let figure = |name: &str, value| Figure {
            metric: Metric::iops(name),
            value,
            derived: None,
        };
        ImportedTrial {
            configuration: configuration.to_owned(),
            workload: workload.to_owned(),
            dimensions: [("bs".to_owned(), "4k".to_owned())].into(),
            form: "go benchmark".to_owned(),
            at: SourceLine {
                source: "b.txt".to_owned(),
                line,
            },
            kind: Kind::Unknown,
            primary: Some("iops".to_owned()),
            figures: vec![figure("iops", value), figure("loop.iops", -0.0)],
            withheld: Vec::new(),
            series: Vec::new(),
            facts: Vec::new(),
            options_complete: false,
            remarks: Vec::new(),
            unusable: None,
        }
    }

    #[test]
    fn each_trial_is_returned_as_it_was_added() {
        let mut all = vec![
            trial("ext4", "read", 1, 1.5),
            trial("ext4", "read", 2, f64::INFINITY),
            trial("3:zfs", "1:ä:2", 3, 2.5),
            trial("", "", 4, 0.0),
        ];
        let mut other = trial("ext4", "read", 5, 3.0);
        other.dimensions = [("node".to_owned(), String::new())].into();
        other.facts.push(Fact {
            class: FactClass::Host,
            name: "kernel".to_owned(),
            value: "6.1".to_owned(),
        });
        other.withheld.push(Withheld {
            metric: "p99".to_owned(),
            why: "few".to_owned(),
        });
        other.series.push(ImportedPoint {
            start_ns: 0,
            end_ns: 1,
            rate: 2.0,
        });
        other.remarks.push("r".to_owned());
        other.unusable = Some("failed".to_owned());
        other.kind = Kind::Timed;
        other.options_complete = true;
        all.push(other.clone());
        // Equal in all that is hashed.
        other.kind = Kind::Finite;
        all.push(other);
        let kept: ImportedTrials = all.iter().cloned().collect();
        assert_eq!(kept.iter().collect::<Vec<_>>(), all);
        assert_eq!(kept.len(), all.len());
        assert!(kept.get(all.len()).is_none());
        assert_eq!(kept.names(2), Some(("3:zfs", "1:ä:2")));
        let sign = kept.get(0).unwrap().figures[1].value.is_sign_negative();
        assert!(sign);
    }

    #[test]
    fn what_trials_have_in_common_is_stored_once() {
        let kept: ImportedTrials = (0..1000)
            .map(|line| trial(["ext4", "zfs"][line % 2], "read", line as u32, line as f64))
            .collect();
        assert_eq!((kept.shapes.len(), kept.names.len()), (1, 2));
        assert_eq!((kept.rows.len(), kept.values.len()), (1000, 2000));
    }

    #[test]
    fn its_serialized_form_is_that_of_a_list_of_trials() {
        let all = vec![trial("ext4", "read", 1, 1.5), trial("zfs", "read", 2, 2.5)];
        let kept: ImportedTrials = all.iter().cloned().collect();
        let text = serde_json::to_string(&kept).unwrap();
        assert_eq!(text, serde_json::to_string(&all).unwrap());
        assert_eq!(serde_json::from_str::<ImportedTrials>(&text).unwrap(), kept);
    }
}
