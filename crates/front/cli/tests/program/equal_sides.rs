//! Comparisons of equal sides.

use serde_json::Value;

use crate::harness::Home;

/// Compares two equal sides by this number of workloads on a simulated disk. Returns how many comparisons name a part or
/// a cause, and how many there are.
pub(crate) fn named_of_equal_sides(workloads: usize, seed: u64) -> (usize, usize) {
    let home = Home::new();
    let mut text = "name = \"aa\"\nrounds = 10\n\n[configuration.a]\ntarget = \"sim:hdd\"\n\n[configuration.b]\ntarget = \"sim:hdd\"\n".to_owned();
    for workload in 0..workloads {
        let size = 16 + workload;
        text += &format!(
            "\n[workload.w{workload}]\nfio = {{ rw = \"randread\", bs = \"4k\", size = \"{size}m\", iodepth = 4 }}\nduration = \"500ms\"\n"
        );
    }
    home.file("aa.toml", &text);
    home.iodyno(&["run", "aa.toml", "-q", "--seed", &seed.to_string()])
        .succeeds();
    let json = home
        .iodyno(&["explain", "last", "--json"])
        .succeeds()
        .json();
    let comparisons = json["comparisons"].as_array().unwrap();
    let named = |it: &&Value| {
        let causes = it["reasons"]["candidate_causes"].as_array().unwrap();
        let most = it["reasons"]["most"].as_array().unwrap();
        !causes.is_empty() || !most.is_empty()
    };
    (comparisons.iter().filter(named).count(), comparisons.len())
}
