//! The memory of a connection between commands.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::transaction::Transaction;
use crate::access::Caller;
use crate::limits::CLIENT_NAME_BYTES_MAX;

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

/// Checks a name that a client gives itself.
///
/// # Errors
/// The error to answer with.
pub(super) fn checked_name(name: &[u8]) -> Result<(), &'static str> {
    if name.len() > CLIENT_NAME_BYTES_MAX {
        return Err("ERR Client names must have at most 256 bytes.");
    }
    match name.iter().all(u8::is_ascii_graphic) {
        true => Ok(()),
        false => Err("ERR Client names cannot contain spaces, newlines or special characters."),
    }
}
