//! Trials to findings and verdicts
