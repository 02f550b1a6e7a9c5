//! Operations, backends and clocks
