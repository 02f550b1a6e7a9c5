//! Flags, help, manual pages, completions, and messages for bad usage.

use crate::harness::Home;

const COMMANDS: [&str; 15] = [
    "report",
    "plot",
    "run",
    "fio",
    "list",
    "show",
    "name",
    "delete",
    "export",
    "import",
    "check",
    "clean",
    "schema",
    "man",
    "completions",
];

#[test]
fn help_is_data_and_a_missing_command_is_bad_usage() {
    let home = Home::new();
    let help = home.iodyno(&["--help"]).succeeds();
    for command in COMMANDS {
        assert!(
            help.stdout.contains(&format!("  {command} ")),
            "{command}\n{}",
            help.stdout
        );
        home.iodyno(&[command, "--help"])
            .succeeds()
            .prints("Examples:");
    }
    assert!(
        !help.stdout.contains("node"),
        "the node's command is hidden"
    );
    home.iodyno::<&str>(&[])
        .exits(2)
        .stderr_has("Usage: iodyno");
    home.iodyno(&["--version"])
        .succeeds()
        .prints(&format!("iodyno {}", env!("CARGO_PKG_VERSION")));
}

#[test]
fn bad_usage_is_reported_on_standard_error_with_exit_code_2() {
    let home = Home::new();
    for (arguments, text) in [
        (&["rum"][..], "unrecognized subcommand"),
        (&["run"], "FILE"),
        (&["run", "job.fio", "--colour"], "--color"),
        (&["show"], "RUN"),
        (&["list", "--json=x"], "--json"),
        (&["completions", "tcsh2"], "bash"),
        (&["run", "missing.fio"], "missing.fio"),
        (&["import", "missing.iodyno"], "No such file or directory"),
        (&["--color", "sometimes", "list"], "always"),
    ] {
        let done = home.iodyno(arguments).exits(2).stderr_has(text);
        assert_eq!(done.stdout, "", "{arguments:?}");
    }
    assert!(!home.store().exists(), "bad usage creates no store");
}

#[test]
fn writes_a_manual_page_for_each_command() {
    let home = Home::new();
    home.iodyno(&["man"]).succeeds().prints(".TH iodyno 1");
    let done = home.iodyno(&["man", "pages/man1"]).succeeds();
    let pages = std::fs::read_dir(home.work().join("pages/man1")).unwrap();
    let done = done.stderr_has(&format!("{} pages", pages.count()));
    assert_eq!(done.stdout, "");
    for command in COMMANDS {
        let page = home.work().join(format!("pages/man1/iodyno-{command}.1"));
        let text = std::fs::read_to_string(&page).unwrap();
        assert!(text.contains("Examples"), "{command}: {text}");
    }
    for command in ["fs-list", "fs-show", "fs-run", "fileio", "doctor", "watch"] {
        let page = home.work().join(format!("pages/man1/iodyno-{command}.1"));
        assert!(page.exists(), "{command}");
    }
    assert!(!home.work().join("pages/man1/iodyno-node.1").exists());
    // Earlier pages are overwritten, and disk images are not.
    home.iodyno(&["man", "pages/man1"]).succeeds();
    let page = home.work().join("pages/man1/iodyno-run.1");
    std::fs::write(&page, [&b"QFI\xfb\0\0\0\x03"[..], &[0; 1 << 20]].concat()).unwrap();
    home.iodyno(&["man", "pages/man1"])
        .exits(2)
        .stderr_has("holds qcow image");
    home.file("taken", "");
    home.iodyno(&["man", "taken"])
        .exits(2)
        .stderr_has("cannot create `taken`");
}

#[test]
fn prints_completions_for_every_shell() {
    let home = Home::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        home.iodyno(&["completions", shell])
            .succeeds()
            .prints("completions");
    }
}

#[test]
fn every_error_of_a_command_is_reported_at_once() {
    let home = Home::new();
    home.file("job.fio", "[a]\nrw=read\nsize=1m\n");
    home.iodyno(&[
        "run",
        "job.fio",
        "--on",
        "x=/nowhere",
        "--on",
        "y=.",
        "--on",
        "y=..",
        "--on",
        "/",
    ])
    .exits(2)
    .stderr_has("--on x=/nowhere")
    .stderr_has("two configurations are named `y`")
    .stderr_has("`--on /` has no name");
    assert!(!home.store().exists());
}
