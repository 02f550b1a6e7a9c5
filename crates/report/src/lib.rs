//! Trials to text, JSON and fio's formats
