//! Carries out an experiment: cells, rounds, storage of results
