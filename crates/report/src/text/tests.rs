use iodyno_judge::testing;

use crate::Style;
use crate::text;

#[test]
fn preview() {
    let (workload, trial) = testing::four_clones();
    let summary = iodyno_judge::summary(&workload, &trial);
    let findings = iodyno_judge::findings(&workload, &trial);
    let text = text::trial(&workload, &trial, &summary, &findings, Style::default());
    panic!("\n{text}");
}
