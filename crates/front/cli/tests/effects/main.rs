//! The effect of each supported option, observed where it acts: the flags of an open file, the system calls, the ops,
//! the bytes in the file, times in virtual time, or the output.
//!
//! A [`case::Case`] runs the same job without an option and with it, and compares the observations with the expected
//! ones. It is named after the option: a supported option without a case fails, and so does a case without an option.
//! `make test-long` builds the feature `long`, and runs the cases that take too long for `make test`.

mod case;
mod experiments;
mod fio;
mod flags;
#[path = "../program/harness.rs"]
#[allow(dead_code, reason = "the other test program uses more of it")]
mod harness;
mod layers;
mod looks;
mod operations;
mod run;
mod strace;
mod sysbench;

use std::process::ExitCode;

use libtest_mimic::{Arguments, Trial};

static LANGUAGES: &[&case::Language] = &[
    &fio::LANGUAGE,
    &flags::LANGUAGE,
    &sysbench::LANGUAGE,
    &operations::LANGUAGE,
    &experiments::LANGUAGE,
    &layers::LANGUAGE,
];

fn main() -> ExitCode {
    let mut trials = Vec::new();
    for language in LANGUAGES {
        let cases = language
            .cases()
            .filter(|(_, case)| case.long == cfg!(feature = "long"));
        let cases = cases.map(|(name, case)| {
            Trial::test(format!("{}::{name}", language.name), move || {
                case.check(language)
            })
        });
        trials.extend(cases);
        let name = format!("{}::each_supported_option_has_a_case", language.name);
        trials.push(Trial::test(name, || language.check()));
    }
    let mut arguments = Arguments::from_args();
    let threads = std::env::var("RUST_TEST_THREADS").ok();
    let threads = threads.and_then(|number| number.parse().ok());
    arguments.test_threads = arguments.test_threads.or(threads);
    libtest_mimic::run(&arguments, trials).exit_code()
}
