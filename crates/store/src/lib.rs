//! Keeps runs, trials and frames: SQLite
