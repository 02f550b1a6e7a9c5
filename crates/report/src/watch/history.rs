//! What was seen in the pictures before: for spark lines, and for an order that does not jump about.

use std::collections::VecDeque;

use iodyno_model::FigureTable;

/// How many pictures are kept.
const KEPT: usize = 240;

/// The pictures of the last while.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct History {
    pictures: VecDeque<Vec<FigureTable>>,
    /// What was remarked, with the number of the picture, from 1.
    remarks: VecDeque<(u64, String)>,
    count: u64,
}

impl History {
    /// Adds the latest picture.
    pub fn push(&mut self, tables: &[FigureTable]) {
        self.count += 1;
        if self.pictures.len() == KEPT {
            self.pictures.pop_front();
        }
        for table in tables {
            for (_, remark) in &table.remarks {
                self.remarks.push_back((self.count, remark.clone()));
            }
        }
        while self.remarks.len() > KEPT {
            self.remarks.pop_front();
        }
        self.pictures.push_back(tables.to_vec());
    }
}
