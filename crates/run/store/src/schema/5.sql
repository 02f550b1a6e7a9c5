-- Schema 5: workloads that take part in some rounds only.

ALTER TABLE runs ADD COLUMN planned INTEGER;  -- trials in `rounds` rounds; NULL: cells * rounds
