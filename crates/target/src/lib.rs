//! Where the I/O goes: the guard, and what lies below a path
