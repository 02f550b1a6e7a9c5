//! Whatever is given for others' results: reading never panics, and time grows with the text, not faster.

use std::time::{Duration, Instant};

use iodyno_dialects::results::{LabelPattern, Options, Text, read};
use proptest::prelude::*;

/// Pieces of which texts are made that come near to what readers know.
const PIECES: [&str; 48] = [
    "{",
    "}",
    "[",
    "\"fio version\" : \"fio-3.33\",",
    "\"jobs\" : [",
    "\"jobname\" : \"a\",",
    "\"read\" : {\"iops\" : 5, \"runtime\" : 1}",
    "\n",
    "\n",
    "\n",
    "\n",
    " ",
    "  ",
    "\t",
    "\r",
    "|",
    "| ",
    "||",
    "|===",
    "|---|---|",
    "---+---",
    "-----",
    "=====",
    "# a",
    "== b",
    "**c**",
    "1. d",
    "```",
    "----",
    "3;fio-3.33;a;0;0;1;2;3;4",
    "a: (groupid=0, jobs=1): err= 0: pid=1: now",
    "  read: IOPS=1k, BW=1MiB/s (1MB/s)(1MiB/1001msec)",
    "    clat percentiles (usec):",
    "     |  1.00th=[    5],  5.00th=[    5]",
    "    lat (usec): min=1, max=2, avg=1.5, stdev=0",
    "config,iops",
    "ext4,5",
    "a  b  MB/s",
    "x  y  7",
    "12 MiB/s",
    "1,234",
    "\u{1b}[31m",
    "µ",
    "🦀",
    "\u{feff}",
    "[cols=\"1,1\"]",
    "fsbench/a 10 5 ops/sec",
    "host load average: 1, 2, 3",
];

fn near() -> impl Strategy<Value = String> {
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
    fn any_near_text_is_read_with_and_without_a_map(text in near()) {
        let texts = [Text { source: "a/x", text: &text }];
        let without = read(&texts, &Options::default());
        let lines = text.matches(['\n', '\r']).count() as u32 + 1;
        for trial in &without.trials {
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
    fn the_same_text_twice_gives_no_result_more(text in near()) {
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

/// How long a megabyte may take: seconds, with room for a slow machine without optimisation. What grows with
/// the square of the text takes minutes.
const LONGEST: Duration = Duration::from_secs(15);

#[test]
fn a_megabyte_of_anything_takes_no_time() {
    let filled = |piece: &str| piece.repeat((1 << 20) / piece.len() + 1);
    let mut texts: Vec<String> = PIECES
        .iter()
        .map(|piece| format!("{piece}\n").repeat((1 << 17) / piece.len()))
        .collect();
    texts.extend(
        [
            "{\"a\":[\n",
            "[\n1,\n",
            "{\n\"a\": 1\n}\n",
            "a,b\n1,2\nx,y\n",
            "a,b\n1,x\n",
            "| a | b |\n| 1 | 2 |\n",
            "|a\n|1 MB/s\n",
            "1. a\n# b\n**c**\n",
            "a  MB/s\n\n",
            "fio:\n{\n",
            "{\nfio: x\n",
            "read: IOPS=1k, BW=1MiB/s (1MB/s)(1MiB/1001msec)\n\n",
            "node,MB/s,fs\na,1,x\nb,2,x\n",
        ]
        .map(filled),
    );
    let jobs = "{\"jobname\":\"a\",\"groupid\":0,\"read\":{\"iops\":5,\"bw\":1,\"io_bytes\":9,\"runtime\":7}},\n";
    texts.push(format!(
        "{{\"fio version\":\"fio-3.1\",\"jobs\":[\n{}{{}}]}}",
        filled(jobs)
    ));
    let named: String = (0..12_000)
        .map(|n| format!("{{\"jobname\":\"{n}\",\"read\":{{\"iops\":5,\"bw\":1,\"io_bytes\":9,\"runtime\":{n}}}}},\n"))
        .collect();
    texts.push(format!(
        "{{\"fio version\":\"fio-3.1\",\"jobs\":[\n{named}{{}}]}}"
    ));
    for text in &texts {
        let begin = Instant::now();
        let _ = read(&[Text { source: "x", text }], &Options::default());
        let took = begin.elapsed();
        let head: String = text.chars().take(60).collect();
        assert!(took < LONGEST, "{took:?} for {head:?}");
    }
}
