//! Carries out one part of a trial in a child process
