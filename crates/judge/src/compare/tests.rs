//! Comparisons of made-up trials.
