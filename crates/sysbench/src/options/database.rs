//! The options of database tests, which the reference takes with every test.

use iodyno_options::{Unit, ignored};

use super::OptionSpec;

const fn unused(name: &'static str) -> OptionSpec {
    let why = "no database is asked by fileio";
    ignored(name, Unit::Text, "Of database tests.", why)
}

pub(super) const OPTIONS: &[OptionSpec] = &[
    unused("db-driver"),
    unused("db-ps-mode"),
    unused("db-debug"),
    unused("mysql-host"),
    unused("mysql-port"),
    unused("mysql-socket"),
    unused("mysql-user"),
    unused("mysql-password"),
    unused("mysql-db"),
    unused("mysql-ssl"),
    unused("mysql-ssl-cipher"),
    unused("mysql-compression"),
    unused("mysql-debug"),
    unused("mysql-ignore-errors"),
    unused("mysql-dry-run"),
    unused("pgsql-host"),
    unused("pgsql-port"),
    unused("pgsql-user"),
    unused("pgsql-password"),
    unused("pgsql-db"),
];
