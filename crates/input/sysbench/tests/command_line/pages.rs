//! The texts that are generated from the option table.

use iodyno_sysbench as sysbench;

#[test]
fn help_and_page_name_every_option() {
    let (help, page) = (sysbench::help(), sysbench::compatibility());
    let old = [
        "num-threads",
        "max-requests",
        "max-time",
        "tx-rate",
        "seed-rng",
        "rand-init",
    ];
    let database = ["db-", "mysql-", "pgsql-"];
    for name in sysbench::option_names() {
        assert!(page.contains(&format!("`--{name}`")), "{name}");
        if !old.contains(&name) && !database.iter().any(|kind| name.starts_with(kind)) {
            assert!(help.contains(&format!("--{name}")), "{name}");
        }
    }
    for words in ["prepare", "cleanup", "[16384]", "{seqwr, seqrewr, seqrd"] {
        assert!(help.contains(words), "{words}");
    }
    assert!(page.contains("13 330"));
}

#[test]
fn the_compatibility_page_is_up_to_date() {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../../docs/sysbench-compatibility.md"
    );
    let committed = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        committed == sysbench::compatibility(),
        "docs/sysbench-compatibility.md is out of date; regenerate it with\n\
         cargo run -p iodyno-sysbench --example sysbench_compatibility > docs/sysbench-compatibility.md"
    );
}
