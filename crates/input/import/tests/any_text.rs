//! Reading never panics, for any input.

mod near_text;

use iodyno_import::{LabelPattern, Options, Text, read};
use near_text::{PIECES, large_texts};
use proptest::prelude::*;

fn similar_text() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(PIECES.to_vec());
    prop::collection::vec(piece, 0..80).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_text_is_read(text in any::<String>()) {
        let _ = read(&[Text { source: "x", text: &text }], &Options::default());
    }

    #[test]
    fn any_similar_text_is_read_with_and_without_a_map(text in similar_text()) {
        let texts = [Text { source: "a/x", text: &text }];
        let without = read(&texts, &Options::default());
        let lines = text.matches(['\n', '\r']).count() as u32 + 1;
        for trial in without.trials.iter() {
            prop_assert!((1..=lines).contains(&trial.at.line));
            prop_assert!(!trial.configuration.is_empty());
            prop_assert!(trial.figures.iter().all(|figure| figure.value.is_finite()));
        }
        let options = Options {
            label: "{config}/{job}".parse().ok(),
            table: "config=col1, workload=row+head1, unit='MB/s'".parse().ok(),
            ..Options::default()
        };
        let _ = read(&texts, &options);
    }

    #[test]
    fn repeating_a_text_adds_no_result(text in similar_text()) {
        let one = Text { source: "x", text: &text };
        let once = read(&[one], &Options::default());
        let twice = read(&[one, one], &Options::default());
        prop_assert_eq!(once.trials, twice.trials);
    }

    #[test]
    fn any_pattern_is_read_or_refused(pattern in "[{}*/.a-c-]{0,12}", path in "[/.a-c1-]{0,12}") {
        if let Ok(pattern) = pattern.parse::<LabelPattern>() {
            let _ = pattern.label(&path);
        }
    }
}

#[test]
fn large_texts_are_read() {
    // `make bench` measures the cost for 1 MB.
    for text in large_texts(1 << 15) {
        let _ = read(
            &[Text {
                source: "x",
                text: &text,
            }],
            &Options::default(),
        );
    }
}
