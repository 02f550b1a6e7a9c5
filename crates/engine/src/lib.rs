//! Operation streams, the driver, pacing and the recorder
