//! Sequences: a counter for each of any number of keys, in bounded memory.
//!
//! ```text
//! key          what a key may be, and which section of its tag it belongs to
//! counters     the keys' last numbers, and where a forgotten key goes on
//!   tag_numbers  short names of tags
//!   clock_table  a table of a bounded size, which forgets what was not used lately
//! ```
//!
//! Pure. The keys of a tag are dealt to [`SECTIONS`](crate::limits::SECTIONS) sections by a hash that never changes. A
//! section is one line of the replicated log: a grab reserves an interval of it, and every key of the section counts on
//! its own inside what was reserved. So the log is touched once for many numbers of many keys, and its state holds one
//! watermark for each section, no matter how many keys there are.
//!
//! A leader alone hands numbers out, from intervals that were granted in its present term and to its process
//! start; [`Counters`] holds what it remembers of them. No key ever goes back, because
//!
//! - the number of a key that is remembered is above its last one, which is held beside it;
//! - a key that is not remembered begins at its section's **floor**, and every number that it was ever given lies below
//!   the floor: the floor begins where the first interval of this leadership begins, above all that the log granted
//!   before; and when a key is forgotten, the floor is first raised above the key's last number.
//!
//! A change of leaders, a restart and a restored state all begin with empty counters, and so with the second case.

mod clock_table;
mod counters;
mod key;
mod tag_numbers;
#[cfg(test)]
mod tests;

pub use counters::{Counters, Last, NotHeld, Numbers};
pub use key::{InvalidKey, SequenceKey, section_of};
