//! Separates what the nodes of a trial did.

use std::collections::HashMap;

use iodyno_model::{Frame, Sample, SeriesGap, SeriesShape, Telemetry, Trial};

/// The parts of a trial, each as if its node were the only one. What each node sent is found once for all of them, so
/// that the time is proportional to the number of nodes.
pub struct ByNode<'a> {
    trial: &'a Trial,
    sent: HashMap<&'a str, Sent<'a>>,
    /// Whether the series are those of named nodes.
    named: bool,
}

/// What a node sent.
#[derive(Default)]
struct Sent<'a> {
    frames: Vec<&'a Frame>,
    shapes: Vec<&'a SeriesShape>,
    samples: Vec<&'a Sample>,
    gaps: Vec<&'a SeriesGap>,
}

impl<'a> ByNode<'a> {
    /// Separates the frames and the series of a trial.
    pub fn new(trial: &'a Trial) -> ByNode<'a> {
        let telemetry = &trial.telemetry;
        let mut sent: HashMap<&str, Sent<'_>> = HashMap::new();
        for frame in &trial.frames {
            sent.entry(&frame.node).or_default().frames.push(frame);
        }
        for shape in &telemetry.shapes {
            sent.entry(&shape.node).or_default().shapes.push(shape);
        }
        for sample in &telemetry.samples {
            if let Some(shape) = telemetry.shape(sample.shape) {
                sent.entry(&shape.node).or_default().samples.push(sample);
            }
        }
        for gap in &telemetry.gaps {
            sent.entry(&gap.node).or_default().gaps.push(gap);
        }
        ByNode {
            trial,
            sent,
            named: telemetry.shapes.iter().any(|shape| !shape.node.is_empty()),
        }
    }

    /// What the part at this place contains. The outcome and the findings are those of the whole trial. Frames without
    /// a node belong to every part.
    pub fn part(&self, place: usize) -> Trial {
        let trial = self.trial;
        let part = trial.parts[place].clone();
        let own = self.sent.get(part.node.as_str());
        let unnamed = self.sent.get("").filter(|_| !part.node.is_empty());
        let frames = unnamed.into_iter().chain(own).flat_map(|it| &it.frames);
        Trial {
            key: trial.key,
            configuration: trial.configuration.clone(),
            workload: trial.workload.clone(),
            outcome: trial.outcome.clone(),
            frames: frames.map(|frame| Frame::clone(frame)).collect(),
            telemetry: match self.named {
                true => own.map_or_else(Telemetry::default, Sent::telemetry),
                false => trial.telemetry.clone(),
            },
            findings: trial.findings.clone(),
            parts: vec![part],
            ..*trial
        }
    }
}

impl Sent<'_> {
    fn telemetry(&self) -> Telemetry {
        Telemetry {
            shapes: self.shapes.iter().copied().cloned().collect(),
            samples: self.samples.iter().copied().cloned().collect(),
            gaps: self.gaps.iter().copied().cloned().collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use iodyno_model::{Direction, Part, SeriesKind};

    use super::*;
    use crate::testing as made_up;
    use crate::testing::telemetry::recording;

    /// Two nodes: frames and series of both, alternating.
    fn of_two() -> Trial {
        let mut trial = made_up::trial(Vec::new());
        for (place, name) in ["a", "b"].into_iter().enumerate() {
            trial.parts.push(Part {
                node: name.to_owned(),
                ..made_up::part(Vec::new())
            });
            let rows = |_| vec![("vda", vec![("reads", 1 + place as u64)])];
            let mut own = recording().seconds(SeriesKind::Disk, 3, rows).done();
            for shape in &mut own.shapes {
                (shape.node, shape.number) = (name.to_owned(), place as u32);
            }
            for sample in &mut own.samples {
                sample.shape = place as u32;
            }
            trial.telemetry.extend(own);
        }
        for number in 0..6 {
            let mut frame = made_up::frame(number, &[(0, Direction::Read, 1, 100)]);
            frame.node = ["a", "b"][number as usize % 2].to_owned();
            trial.frames.push(frame);
        }
        trial.telemetry.samples.sort_by_key(|sample| sample.at_ns);
        trial
    }

    #[test]
    fn a_part_has_what_its_node_sent_and_nothing_else() {
        let trial = of_two();
        let by_node = ByNode::new(&trial);
        for (place, name) in ["a", "b"].into_iter().enumerate() {
            let own = by_node.part(place);
            assert_eq!(own.parts, [trial.parts[place].clone()]);
            assert_eq!(own.frames.len(), 3);
            assert!(own.frames.iter().all(|frame| frame.node == name));
            assert_eq!(own.telemetry, trial.telemetry.of_node(name));
            let reads = own.telemetry.samples.iter().flat_map(|it| &it.values);
            assert_eq!(reads.flatten().sum::<u64>(), 3 * (1 + place as u64));
        }
    }

    #[test]
    fn frames_and_series_without_a_node_are_those_of_every_part() {
        let mut trial = of_two();
        trial.frames.iter_mut().for_each(|it| it.node.clear());
        for shape in &mut trial.telemetry.shapes {
            shape.node.clear();
        }
        let own = ByNode::new(&trial).part(1);
        assert_eq!(own.frames, trial.frames);
        assert_eq!(own.telemetry, trial.telemetry);
    }
}
