//! Text to plans: the languages iodyno reads
