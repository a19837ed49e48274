//! The atomics that the cursor of a lease is made of. A test puts loom's in their place.

pub(crate) use std::sync::atomic::{AtomicU64, Ordering};
