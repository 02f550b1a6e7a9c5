//! The documentation: its links lead somewhere, every page is in the book, and the commands of the tutorial work.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::harness::{Home, Running, iodyno};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../..")
        .canonicalize()
        .unwrap()
}

/// The Markdown files in a folder; `deep`: also those in folders below it.
fn pages(folder: &Path, deep: bool) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && deep {
            found.extend(pages(&path, deep));
        } else if path.extension().is_some_and(|ending| ending == "md") {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// The lines of a page outside of blocks of code.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut fenced = false;
    text.lines().filter(move |line| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        !fenced && !fence
    })
}

/// The targets of the links and pictures of a page.
fn links(text: &str) -> Vec<&str> {
    let parts = prose(text).flat_map(|line| line.split("](").skip(1));
    parts
        .filter_map(|part| Some(part.split_once(')')?.0))
        .collect()
}

/// The names that links give to the headings of a page.
fn anchors(text: &str) -> BTreeSet<String> {
    let headings = prose(text).filter(|line| line.starts_with('#'));
    headings
        .map(|line| {
            let title = line.trim_start_matches('#').trim().to_lowercase();
            let kept = title.chars().filter_map(|c| match c {
                ' ' => Some('-'),
                '-' | '_' => Some(c),
                c => c.is_alphanumeric().then_some(c),
            });
            kept.collect()
        })
        .collect()
}

#[test]
fn every_link_leads_to_a_file_and_a_heading() {
    let mut broken = Vec::new();
    let mut seen = 0;
    for page in [pages(&root(), false), pages(&root().join("docs"), true)].concat() {
        let text = fs::read_to_string(&page).unwrap();
        for link in links(&text) {
            if link.starts_with("https://") || link.starts_with("http://") {
                continue;
            }
            seen += 1;
            let (file, heading) = link.split_once('#').unwrap_or((link, ""));
            let target = match file {
                "" => page.clone(),
                file => page.parent().unwrap().join(file),
            };
            let leads = match (fs::read_to_string(&target), heading) {
                (found, "") => found.is_ok() || target.exists(),
                (found, heading) => found.is_ok_and(|text| anchors(&text).contains(heading)),
            };
            if !leads {
                broken.push(format!("{}: {link}", page.display()));
            }
        }
    }
    assert!(seen > 50, "{seen}");
    assert!(broken.is_empty(), "{broken:#?}");
}

#[test]
fn the_book_has_every_page_once_and_links_within_itself() {
    let docs = root().join("docs");
    let summary = docs.join("SUMMARY.md");
    let text = fs::read_to_string(&summary).unwrap();
    let mut listed: Vec<PathBuf> = links(&text).into_iter().map(|it| docs.join(it)).collect();
    listed.sort();
    let mut expected = pages(&docs, true);
    expected.retain(|page| *page != summary);
    assert_eq!(listed, expected);
    for page in expected {
        for link in links(&fs::read_to_string(&page).unwrap()) {
            let file = link.split('#').next().unwrap_or_default();
            let inside = || page.parent()?.join(file).canonicalize().ok();
            assert!(
                link.contains("://") || inside().is_some_and(|it| it.starts_with(&docs)),
                "{}: {link} leads out of the book",
                page.display()
            );
        }
    }
}

/// A block of a page and the last line of text before it.
struct Block<'a> {
    before: &'a str,
    language: &'a str,
    lines: Vec<&'a str>,
}

fn blocks(text: &str) -> Vec<Block<'_>> {
    let mut found: Vec<Block<'_>> = Vec::new();
    let (mut before, mut within) = ("", false);
    for line in text.lines() {
        match (line.strip_prefix("```"), found.last_mut()) {
            (Some(_), _) if within => within = false,
            (Some(language), _) => {
                within = true;
                let lines = Vec::new();
                found.push(Block {
                    before,
                    language,
                    lines,
                });
            }
            (None, Some(block)) if within => block.lines.push(line),
            (None, _) if line.trim().is_empty() => {}
            (None, _) => before = line,
        }
    }
    found
}

/// `name` of a line that ends in "`name`:".
fn file_name(line: &str) -> Option<&str> {
    line.strip_suffix("`:")?.rsplit('`').next()
}

/// The part of a line of output that every host prints: its first word, or the whole line if it contains no digit.
/// Any verdict equals any other.
fn shape(line: &str) -> String {
    let first = line.split_whitespace().next().unwrap_or_default();
    let numbered = |word: &str| word.contains(|c: char| c.is_ascii_digit());
    match numbered(line) {
        _ if numbered(first) => "#".to_owned(),
        true => first.to_owned(),
        false => line.split_whitespace().collect::<Vec<_>>().join(" "),
    }
}

/// Asserts that the lines that a page shows are in the output in their order; `…` stands for any lines.
fn has_its_shape(command: &str, shown: &[&str], output: &str) {
    let mut lines = output.lines().filter(|line| !line.trim().is_empty());
    for line in shown.iter().filter(|line| !line.trim().is_empty()) {
        if line.trim() == "…" {
            continue;
        }
        let wanted = shape(line);
        assert!(
            lines.any(|own| shape(own) == wanted),
            "`{wanted}` of `{line}` is not in the output of `{command}`, or not there:\n{output}"
        );
    }
}

#[test]
fn the_commands_of_the_tutorial_work_as_shown() {
    assert!(run_commands("docs/tutorial.md").is_none_or(|commands| commands >= 10));
}

#[test]
fn the_example_of_an_explanation_works_as_shown() {
    assert!(run_commands("docs/explaining.md").is_none_or(|commands| commands == 3));
}

/// Runs the commands of a page, and returns their number; `None`: the host was too busy for a verdict of the page.
fn run_commands(page: &str) -> Option<u32> {
    let home = Home::new();
    let program = Path::new(iodyno()).parent().unwrap();
    let mut path = program.as_os_str().to_owned();
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap_or_default());
    let text = fs::read_to_string(root().join(page)).unwrap();
    let mut commands = 0;
    for block in blocks(&text) {
        if let Some(name) = file_name(block.before) {
            home.file(name, &(block.lines.join("\n") + "\n"));
        } else if block.language == "console" {
            let mut lines = block.lines.iter().peekable();
            while let Some(line) = lines.next() {
                let command = line.strip_prefix("$ ").expect("a command");
                let mut shown = Vec::new();
                while let Some(line) = lines.next_if(|line| !line.starts_with("$ ")) {
                    shown.push(*line);
                }
                let mut shell = home.program(Path::new("sh"));
                shell.args(["-c", command]).env("PATH", &path);
                let done = Running::of(shell).done().succeeds();
                let decided = shown.iter().any(|line| line.contains("FASTER"));
                if decided && done.stdout.contains("CANNOT DECIDE") {
                    crate::harness::skip("the host was too busy for a verdict");
                    return None;
                }
                has_its_shape(command, &shown, &done.stdout);
                commands += 1;
            }
        }
    }
    Some(commands)
}

/// The indented and fenced blocks of a page, each with the number of its first line.
fn all_blocks(text: &str) -> Vec<(usize, String)> {
    let mut found: Vec<(usize, String)> = Vec::new();
    let (mut fenced, mut within) = (false, false);
    for (number, line) in (1..).zip(text.lines()) {
        let fence = line.starts_with("```");
        fenced ^= fence;
        let own = match line.strip_prefix("    ") {
            _ if fence => None,
            _ if fenced => Some(line),
            // A blank line within an indented block.
            None if within && line.is_empty() => Some(line),
            indented => indented,
        };
        match (own, found.last_mut()) {
            (Some(line), Some((_, block))) if within => *block += &format!("{line}\n"),
            (Some(line), _) => found.push((number, format!("{line}\n"))),
            (None, _) => {}
        }
        within = own.is_some();
    }
    found
}

/// An experiment of a page, with a workload if it has none; `None` for other blocks.
fn experiment(block: &str) -> Option<String> {
    let begins = |part: &str| block.starts_with(part).then_some(0);
    let header = |part: &str| begins(part).or_else(|| Some(block.find(&format!("\n{part}"))? + 1));
    let parts = [
        "[params",
        "[node",
        "[configuration",
        "[workload",
        "[[files",
        "[[cycle",
    ];
    let start = parts.iter().filter_map(|part| header(part)).min()?;
    // Keys above the first section belong to the experiment, unless they are a script or a path.
    let keys = block[..start].contains(" = ") && !block.starts_with("#!");
    let text = if keys { block } else { &block[start..] };
    let whole = header("[workload").is_some() || header("[[cycle").is_some();
    Some(match whole {
        true => text.to_owned(),
        false => format!("{text}\n[workload.reads]\nfio = {{ rw = \"read\", size = \"1m\" }}\n"),
    })
}

#[test]
fn every_experiment_of_the_pages_is_accepted() {
    let home = Home::new();
    let mut checked = 0;
    for page in [pages(&root(), false), pages(&root().join("docs"), true)].concat() {
        let text = fs::read_to_string(&page).unwrap();
        for (line, block) in all_blocks(&text) {
            let Some(text) = experiment(&block) else {
                continue;
            };
            home.file("example.toml", &text);
            let done = home.iodyno(&["check", "example.toml"]);
            let place = format!("{}:{line}", page.display());
            assert_eq!(done.code, 0, "{place}\n{text}\n{}", done.stderr);
            checked += 1;
        }
    }
    assert!(checked >= 12, "{checked}");
}
