//! fio's output as it is found in the field.
