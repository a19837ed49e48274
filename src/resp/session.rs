//! The memory of a connection between commands.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::transaction::Transaction;
use crate::access::Caller;

/// The memory of a connection: its id, its name, its version of the protocol, its user, and what it has queued.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) id: u64,
    pub(super) name: Vec<u8>,
    /// Whether version 3 of the protocol was chosen.
    pub(super) resp3: bool,
    /// The sender of the commands.
    pub(super) caller: Caller,
    /// The commands since `MULTI`; `None` outside of a transaction.
    pub(super) transaction: Option<Box<Transaction>>,
}

impl Session {
    /// A session under an id that no connection of this process had.
    pub(super) fn new() -> Self {
        static LAST: AtomicU64 = AtomicU64::new(0);
        Self {
            id: LAST.fetch_add(1, Relaxed) + 1,
            name: Vec::new(),
            resp3: false,
            caller: Caller::default(),
            transaction: None,
        }
    }
}
