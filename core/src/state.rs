//! The replicated state: every tag's row, every worker id's window, and the one function that
//! changes them.
//!
//! Pure. The same commands with the same stamps give the same state and the same responses on every
//! replica: there is no clock here (the leader's stamp comes in), no I/O, no randomness and no
//! order that depends on a hash.
//!
//! **Apply is the only writer of a watermark, and only ever raises it.** [`State::apply`] is the only way to change a
//! state, and `watermark.rs` holds the only code that can write a mark. A grab reserves the interval between the old
//! mark and the new one, so no two intervals of a tag overlap.
//!
//! A snapshot changes no state: it replaces a whole one, and no mark falls because of that. A snapshot is a state that
//! applying committed entries made, and the one installed always reaches further than this replica has applied;
//! `StateReplica` in `replica.rs` says where that is enforced.
//!
//! A restored cluster begins with the state of another one, taken from a copy of some earlier time. The whole state is
//! raised before any client may read it (`raise.rs`), because no copy has what was given since. So line 1 holds over
//! both clusters, as far as the operator's number reaches.
//!
//! A deleted tag leaves a tombstone that keeps its watermark for ever. Created again, the name goes
//! on above it; ids of its earlier life are never given a second time.
//!
//! The cluster's level decides which commands it may use at all; `level.rs` says why.
//!
//! A worker id has a number line of milliseconds in the same way, whose mark is called a fence; `worker_entry.rs` holds
//! the only code that can write one. A fence falls in one case: its holder, and no other process, gives back the end of
//! its window that it has not stamped and never will. Under the lines of all worker ids lies one more mark, the
//! snowflake floor; `window_bounds.rs` says what it is for.
//!
//! ```text
//! apply            State: one committed command at a time
//!   administration admin changes: carried out, and recorded
//!     change       what an administrator may ask for, tag_fields of a tag; actor is who asks
//!     audit        the last admin changes
//!   raise          every mark raised, for a cluster that is made of a copy
//!     line_marks   the mark of every line, and whether a state can be raised to what an operator knows
//!     periods_before  until when periods may have begun that begin higher
//!   restored       a copy raised, with the audit saying by how much
//!   snapshot       a state as sections, and back
//!   shared_table   entries by name, copied by sharing
//!     tag_entry    one tag; watermark is its mark, protection what keeps callers from its ids
//!       tag_leaf   tags as they lie in memory
//!     shaped_entry the shape of a tag that is not plain, and its lines
//!       period_lines, section_lines   the marks of periods, and of the sections of a sequence
//!         line_names  what lines are called, and what an operator says of some
//!     step_bound   how many ids a grab of a tag reserves at most
//!   worker_entries every worker id, the format of ids, the reported clocks
//!     worker_entry one worker id: its holder and its fence
//!     window_bounds the pool, the longest window, the snowflake floor
//!   lease_pools    worker ids for programs: pools, and the leases of them
//!     pool_workers the worker ids of a pool, and those that run without a lease
//!   registers      which key of a register has which number
//!     register_keys, key_index   the keys of one register; where each of them stands
//!   headroom       how much is left of the tag that is nearest to its end
//!   level          how far the cluster has come
//! command, response   what goes in and what comes out; stamp is what the log adds to it
//! ```

mod actor;
mod administration;
mod apply;
mod audit;
mod change;
mod command;
mod headroom;
mod key_index;
mod lease_pools;
mod level;
mod line_marks;
mod line_names;
mod period_lines;
mod periods_before;
mod pool_workers;
mod protection;
mod raise;
mod register_keys;
mod registers;
mod response;
mod restored;
mod section_lines;
mod shaped_entry;
mod shared_table;
mod snapshot;
mod stamp;
mod step_bound;
mod tag_entry;
mod tag_fields;
mod tag_leaf;
mod watermark;
mod window_bounds;
mod worker_entries;
mod worker_entry;

pub use actor::Actor;
pub use administration::AuditPage;
pub use apply::{State, TagPage, VISITED_MAX};
pub use audit::{Action, AuditEntry, Fact, Facts, Field};
pub use change::{Change, MemberFacts, pool_facts};
pub use command::Command;
pub use headroom::HeadroomPage;
pub use lease_pools::{LeaseRow, lease_name};
pub use level::{LEVEL_MAX, first_version_of};
pub use line_names::{LastNumbers, LineMark, LineName, RaiseError};
pub use pool_workers::PoolWorkers;
pub use protection::Protection;
pub use raise::Raise;
pub use register_keys::RegisterEntry;
pub use response::Response;
pub use restored::Restoration;
pub use snapshot::FrozenState;
pub(crate) use snapshot::{Restorer, SectionRead, SectionWritten, UnfitSnapshot};
pub use stamp::Stamp;
pub use tag_entry::TagRow;
pub use tag_fields::TagFields;
pub use worker_entries::{ClockReport, WorkerRow};

#[cfg(test)]
pub(crate) mod tests;
