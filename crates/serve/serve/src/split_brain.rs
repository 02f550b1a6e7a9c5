//! What to do about a split brain: the commands that make the legs of one side right and the others new ones.

use std::path::Path;

use iodyno_mirror::superblock::Superblock;
use iodyno_model::Diagnostic;
use iodyno_model::printable::shell_path;

/// Legs with these superblocks, of which each pair was written without the other.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SplitBrain<'a> {
    pub(crate) pairs: &'a [(usize, usize)],
    pub(crate) paths: &'a [&'a Path],
    pub(crate) stored: &'a [Superblock],
}

impl SplitBrain<'_> {
    /// The fault, with the commands for each side.
    pub(crate) fn fault(self) -> Diagnostic {
        let sides = self.sides();
        let named = |side: &Vec<usize>| {
            let names: Vec<String> = side
                .iter()
                .map(|leg| format!("`{}`", self.path(*leg)))
                .collect();
            names.join(" and ")
        };
        let names: Vec<String> = sides.iter().map(named).collect();
        let text = format!(
            "split brain: {} were each written without the other",
            names.join(", ")
        );
        let mut hint =
            "decide which side is right, and replace the other legs in this order.".to_owned();
        for side in &sides {
            hint += &format!(
                " If {} {} right: {}.",
                named(side),
                if side.len() == 1 { "is" } else { "are" },
                self.steps(side).join(", then ")
            );
        }
        Diagnostic::error(text).hint(hint)
    }

    fn path(&self, leg: usize) -> String {
        self.paths[leg].display().to_string()
    }

    fn in_sync(&self) -> impl Iterator<Item = usize> {
        (0..self.paths.len()).filter(|leg| self.stored[*leg].claims())
    }

    /// The legs in sync. Those of one side were not written without each other.
    fn sides(&self) -> Vec<Vec<usize>> {
        let apart = |one, two| self.pairs.contains(&(one, two)) || self.pairs.contains(&(two, one));
        let mut sides: Vec<Vec<usize>> = Vec::new();
        for leg in self.in_sync() {
            let fits = |side: &&mut Vec<usize>| !side.iter().any(|other| apart(leg, *other));
            match sides.iter_mut().find(fits) {
                Some(side) => side.push(leg),
                None => sides.push(vec![leg]),
            }
        }
        sides
    }

    /// What to do if this side is right.
    fn steps(&self, right: &[usize]) -> Vec<String> {
        let wrong: Vec<usize> = self.in_sync().filter(|leg| !right.contains(leg)).collect();
        let listed = |paths: &[usize]| -> String {
            paths
                .iter()
                .map(|leg| format!(" --leg {}", shell_path(self.paths[*leg])))
                .collect()
        };
        let missed = |leg: &&usize| {
            let mut tables = right.iter().map(|right| &self.stored[*right]);
            tables.any(|table| !table.leaves_out(&self.stored[**leg]))
        };
        let mut steps = Vec::new();
        // A leg is replaced only if the others that are in sync are given.
        if wrong.iter().filter(missed).count() > 1 {
            let legs = listed(right);
            steps.push(format!(
                "start and stop `iodyno serve mirror --degraded{legs}`"
            ));
        }
        let mut given = right.to_vec();
        for leg in wrong {
            let (legs, path, uuid) = (
                listed(&given),
                shell_path(self.paths[leg]),
                self.stored[leg].leg,
            );
            let replace = "iodyno mirror replace --degraded";
            steps.push(format!("`{replace}{legs} {uuid} {path} --destroy {path}`"));
            given.push(leg);
        }
        steps
    }
}
