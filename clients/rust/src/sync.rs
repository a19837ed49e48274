//! The atomics that a lease's cursor, and stamps, are made of. A test replaces them with loom's.

pub(crate) use std::sync::atomic::{AtomicU64, Ordering};
