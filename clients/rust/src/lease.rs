//! What a client holds, and how it is handed out: no network, no thread, no clock of its own.
//!
//! | file | what it is |
//! | --- | --- |
//! | `cursor` | ids of one range, taken without a lock |
//! | `line` | the leases of one tag, the calls that wait for them, and when the next is asked for |
//! | `ranges` | one lease, and what is left of it |
//! | `sizing` | how many ids the next lease is for |

pub(crate) mod cursor;
#[cfg(test)]
mod cursor_tests;
pub(crate) mod line;
mod ranges;
pub(crate) mod sizing;
