-- Schema 3: what the host did during a trial.

CREATE TABLE telemetry (
    trial  INTEGER NOT NULL REFERENCES trials,
    number INTEGER NOT NULL,                            -- of the first batch in it
    data   BLOB NOT NULL,                               -- one batch as it came, or many put together
    PRIMARY KEY (trial, number)
) STRICT;
