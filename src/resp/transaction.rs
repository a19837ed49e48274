//! Transactions: commands that a client sends one by one between `MULTI` and `EXEC`, as many clients do with every
//! pipeline.
//!
//! `EXEC` carries the queued commands out as if they came in then: each by itself, under the permission that holds at
//! that moment, and an error of one is its answer alone. Ids that were given are never taken back, so there is nothing
//! that a transaction could undo.

use crate::connection::answer_budget::{HeldBytes, OriginBudget};
use crate::limits::{ORDINARY_ANSWER_BYTES, QUEUED_BYTES_MAX, QUEUED_COMMANDS_MAX};

/// What is held against the budget at once. Short transactions, which are nearly all, hold nothing.
const HELD_BYTES: usize = 64 * 1024;

/// The commands that a connection has queued.
#[derive(Debug, Default)]
pub(super) struct Transaction {
    /// The commands, as they came in.
    bytes: Vec<u8>,
    /// How many of the bytes are carried out.
    done: usize,
    pub(super) commands: usize,
    /// Whether a command was refused. `EXEC` then carries out nothing.
    pub(super) is_broken: bool,
    /// The part of the budget for unread answers that the queue takes.
    held: Vec<HeldBytes>,
}

impl Transaction {
    /// The commands that are not carried out yet.
    pub(super) fn rest(&self) -> &[u8] {
        &self.bytes[self.done..]
    }

    /// Notes that the next `bytes` are carried out.
    pub(super) fn consume(&mut self, bytes: usize) {
        self.done += bytes;
    }

    /// Queues a command.
    ///
    /// # Errors
    /// Why there is no room.
    pub(super) fn queue(&mut self, command: &[u8], budget: &OriginBudget) -> Result<(), String> {
        let bytes = self.bytes.len() + command.len();
        if self.commands >= QUEUED_COMMANDS_MAX || bytes > QUEUED_BYTES_MAX {
            return Err(format!(
                "ERR a transaction has at most {QUEUED_COMMANDS_MAX} commands and {QUEUED_BYTES_MAX} bytes: pipeline \
                 without MULTI"
            ));
        }
        while ORDINARY_ANSWER_BYTES + self.held.len() * HELD_BYTES < bytes {
            let overloaded = || "OVERLOADED too many requests are waiting".to_owned();
            self.held.push(budget.reserve(HELD_BYTES).ok_or_else(overloaded)?);
        }
        self.bytes.extend_from_slice(command);
        self.commands += 1;
        Ok(())
    }

    /// Gives up what was queued, because a command was refused. Later ones are only looked at.
    pub(super) fn break_off(&mut self) {
        *self = Self { is_broken: true, ..Self::default() };
    }
}
