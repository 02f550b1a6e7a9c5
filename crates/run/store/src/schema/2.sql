-- Schema 2: runs whose trials were imported instead of made.

ALTER TABLE runs ADD COLUMN imported INTEGER NOT NULL DEFAULT 0;  -- trials read from others' output
