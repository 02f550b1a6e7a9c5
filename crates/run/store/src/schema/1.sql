-- Schema 1. Times are ms since 1970; blobs are described in blob.rs; an `owner` is the number of the
-- process that began a row (see owner.rs), NULL where it was imported.

CREATE TABLE owners (
    number  INTEGER PRIMARY KEY AUTOINCREMENT,
    process INTEGER NOT NULL            -- its number at that time, for messages only
) STRICT;

CREATE TABLE runs (
    alias           INTEGER PRIMARY KEY AUTOINCREMENT,  -- short number in this store, never used twice
    id              BLOB NOT NULL UNIQUE,               -- UUIDv7, 16 bytes
    name            TEXT NOT NULL,
    started_unix_ms INTEGER NOT NULL,
    ended_unix_ms   INTEGER,
    state           TEXT,                               -- NULL until it is finished
    owner           INTEGER REFERENCES owners,
    cells           INTEGER NOT NULL,
    rounds          INTEGER NOT NULL,
    plan            BLOB NOT NULL
) STRICT;

CREATE INDEX runs_by_name ON runs (name);

CREATE TABLE trials (
    number          INTEGER PRIMARY KEY,
    run             INTEGER NOT NULL REFERENCES runs,
    round           INTEGER NOT NULL,
    cell            INTEGER NOT NULL,
    attempt         INTEGER NOT NULL,
    configuration   TEXT NOT NULL,
    workload        TEXT NOT NULL,
    started_unix_ms INTEGER NOT NULL,
    state           TEXT,                               -- NULL until it is finished
    reason          TEXT,
    owner           INTEGER REFERENCES owners,
    host            TEXT,
    frames          INTEGER NOT NULL DEFAULT 0,         -- how many there are
    last_ns         INTEGER NOT NULL DEFAULT 0,         -- end of the last one on the trial's clock
    totals          TEXT NOT NULL DEFAULT '[]',         -- of its frames, then of its record: JSON
    UNIQUE (run, round, cell, attempt)
) STRICT;

-- What is large and written once lies apart from `trials`, whose rows change every second.
CREATE TABLE documents (
    trial INTEGER NOT NULL REFERENCES trials,
    kind  TEXT NOT NULL,                                -- `environment` or `record`
    data  BLOB NOT NULL,
    PRIMARY KEY (trial, kind)
) STRICT;

CREATE TABLE frames (
    trial  INTEGER NOT NULL REFERENCES trials,
    number INTEGER NOT NULL,
    data   BLOB NOT NULL,
    PRIMARY KEY (trial, number)
) STRICT;
