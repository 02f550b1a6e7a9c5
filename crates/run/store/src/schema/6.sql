-- Schema 6: the verdicts of a run, for the list.

ALTER TABLE runs ADD COLUMN verdicts TEXT;  -- of its comparison when it ended: JSON; NULL: not compared
