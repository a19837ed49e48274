//! Slots and the table of tags under loom: every order of callers, grabs, a raised mark and a deletion.
//!
//! The product's files are compiled here once more, with loom's mutex in the place of `parking_lot`'s. Each call of a
//! slot takes the lock once and holds it to the end, so these are the orders of its calls. The map of the table is
//! `papaya`'s, without locks, which loom cannot see into: here it is one whose calls are atomic, as `papaya` promises. The
//! target has no harness: with one, the unit tests in those files would run outside of loom.

#![allow(
    dead_code,
    missing_docs,
    unreachable_pub,
    unused_imports,
    reason = "the product and its unit tests use more"
)]

// The product's files take their mutexes and maps from crates of these names.
extern crate self as papaya;
extern crate self as parking_lot;

mod map;

pub use loom::sync::MutexGuard;
pub use map::{HashMap, HashMapRef, LocalGuard};

/// Loom's mutex with the interface of `parking_lot`'s.
pub struct Mutex<T>(loom::sync::Mutex<T>);

impl<T> Mutex<T> {
    pub fn new(held: T) -> Self {
        Self(loom::sync::Mutex::new(held))
    }

    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().expect("no thread panics under this lock")
    }
}

impl<T: Default> Default for Mutex<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

mod replica {
    use mintleaf_core::state::Protection;

    /// What the log says about tags.
    pub trait TagListener {
        fn tag_deleted(&self, tag: &str);
        fn tag_raised(&self, tag: &str, mark: u64);
        fn tag_protected(&self, tag: &str, protection: Protection);
        fn ids_reserved(&self, count: u64);
        fn state_replaced(&self);
    }
}

mod limits {
    pub const RANGED_IDS_MAX: u64 = 1_000_000;
    pub const WAITERS_MAX: usize = 10;
}

#[path = "../../src/machine"]
mod machine {
    pub mod clock;
}

#[path = "../../src/service"]
mod service {
    pub mod error {
        /// The refusals of a slot.
        #[derive(Clone, Debug, Eq, PartialEq)]
        pub enum Error {
            Exhausted,
            Frozen,
            Overloaded,
            OverRateLimit { after_s: u64 },
            CountOverRateLimit { count_max: u64 },
        }
    }

    mod local {
        pub mod first_segments {
            /// No segment is on its way here.
            #[derive(Default)]
            pub struct FirstSegments {}

            impl FirstSegments {
                pub fn tag_deleted(&self, _: &str) {}

                pub fn tag_raised(&self, _: &str, _: u64) {}

                pub fn state_replaced(&self) {}
            }
        }

        mod guard;
        mod rate_limit;
        pub mod slot;
    }

    mod leader {
        use mintleaf_core::segment::BufferView;
        use mintleaf_core::sequence::Counters;
        use mintleaf_core::tag::BizTag;

        /// What a node holds that leads no strict tag but one.
        pub struct SharedLedger;

        pub fn shared_ledger(_: Counters) -> SharedLedger {
            SharedLedger
        }

        impl SharedLedger {
            pub fn lock(&self) -> &Self {
                self
            }

            pub fn tags_held(&self) -> usize {
                1
            }

            pub fn views(&self, _: usize) -> Vec<(BizTag, BufferView)> {
                Vec::new()
            }

            pub fn drop_tag(&self, _: &str) {}

            pub fn rise_to(&self, _: &str, _: u64) {}

            pub fn drop_all(&self) {}
        }
    }

    mod refusals {
        #[derive(Default)]
        pub struct Refusals {}
    }

    mod source {
        use std::sync::Arc;

        use mintleaf_core::segment::BufferView;
        use mintleaf_core::state::Protection;

        use super::local::slot::Slot;

        /// The sources of plain tags; no other is used here.
        #[derive(Clone)]
        pub enum Source {
            Plain(Arc<Slot>),
        }

        impl Source {
            fn slot(&self) -> &Arc<Slot> {
                let Self::Plain(slot) = self;
                slot
            }

            pub fn has_slots(&self) -> bool {
                true
            }

            pub fn close(&self) {
                self.slot().close();
            }

            pub fn drop_line(&self, slot: &Arc<Slot>) {
                slot.close();
            }

            pub fn raised_slot(&self) -> Option<&Arc<Slot>> {
                Some(self.slot())
            }

            pub fn has(&self, slot: &Arc<Slot>) -> bool {
                Arc::ptr_eq(self.slot(), slot)
            }

            pub fn holds_ids(&self) -> bool {
                self.slot().remaining() > 0
            }

            pub fn taken_since_look(&self) -> (u64, u64) {
                self.slot().taken_since_look()
            }

            pub fn protect(&self, protection: Protection) {
                self.slot().protect(protection);
            }

            pub fn view(&self) -> Option<BufferView> {
                Some(self.slot().view())
            }
        }
    }

    mod tag_table;

    #[path = "../../tests/slots_under_loom/orders.rs"]
    pub mod orders;
}

fn main() {
    service::orders::search_all();
}
