//! Judges what an id service was seen to do.

pub mod history;
