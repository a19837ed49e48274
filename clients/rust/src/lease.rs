//! What a client holds and how it hands it out. There is no network here, no thread, and no clock.
//!
//! | file | what it is |
//! | --- | --- |
//! | `cursor` | ids of one range, taken without a lock |
//! | `line` | the leases of one tag, the calls that wait for them, and when the next is asked for |
//! | `ranges` | one lease, and what is left of it |
//! | `sizing` | the size of the next lease |

pub(crate) mod cursor;
#[cfg(test)]
mod cursor_tests;
pub(crate) mod line;
mod ranges;
pub(crate) mod sizing;
