//! Transactions: commands that a client sends one by one between `MULTI` and `EXEC`, as many clients do with every
//! pipeline.
//!
//! `EXEC` carries the queued commands out as if they came in then: each by itself, under the permission that holds at
//! that moment, and an error of one is its answer alone. Ids that were given are never taken back, so there is nothing
//! that a transaction could undo.

use super::call::{Call, CommandOutcome};
use super::parser::Args;
use crate::connection::answer_budget::{HeldBytes, OriginBudget};
use crate::limits::{ORDINARY_ANSWER_BYTES, QUEUED_BYTES_MAX, QUEUED_COMMANDS_MAX};

/// What is held against the budget at once. Short transactions, which are nearly all, hold nothing.
const HELD_BYTES: usize = 64 * 1024;

/// What a command does between `MULTI` and `EXEC`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum InTransaction {
    /// It is queued.
    Queued,
    /// It is carried out at once.
    AtOnce,
    /// It is refused: it is about the connection or the node, and gives no ids.
    Refused,
}

/// The commands that a connection has queued.
#[derive(Debug, Default)]
pub(super) struct Transaction {
    /// The commands, as they came in.
    bytes: Vec<u8>,
    /// How many of the bytes are carried out.
    done: usize,
    commands: usize,
    /// Whether a command was refused. `EXEC` then carries out nothing.
    is_broken: bool,
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
    fn queue(&mut self, command: &[u8], budget: &OriginBudget) -> Result<(), String> {
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
    fn break_off(&mut self) {
        *self = Self { is_broken: true, ..Self::default() };
    }
}

/// `MULTI`: the commands behind it are queued.
pub(super) fn multi(call: &mut Call<'_>, _: Args<'_>) -> CommandOutcome {
    if call.session.transaction.is_some() {
        return call.refuse("ERR MULTI calls can not be nested");
    }
    call.session.transaction = Some(Box::default());
    call.reply().ok();
    CommandOutcome::Answered
}

/// `DISCARD`: the queued commands are dropped.
pub(super) fn discard(call: &mut Call<'_>, _: Args<'_>) -> CommandOutcome {
    if call.session.transaction.take().is_none() {
        return call.refuse("ERR DISCARD without MULTI");
    }
    call.reply().ok();
    CommandOutcome::Answered
}

/// `EXEC`: the queued commands are carried out. The reply is an array of their replies.
pub(super) fn exec(call: &mut Call<'_>, _: Args<'_>) -> CommandOutcome {
    match call.session.transaction.take() {
        None => call.refuse("ERR EXEC without MULTI"),
        Some(queued) if queued.is_broken => {
            call.refuse("EXECABORT Transaction discarded because of previous errors.")
        }
        Some(queued) => {
            call.reply().array(queued.commands);
            CommandOutcome::Execute(queued)
        }
    }
}

/// Queues the command of this call.
pub(super) fn queue(call: &mut Call<'_>) -> CommandOutcome {
    let Some(transaction) = &mut call.session.transaction else { return CommandOutcome::Answered };
    let broken = transaction.is_broken;
    match if broken { Ok(()) } else { transaction.queue(call.bytes, call.answers) } {
        Ok(()) => call.reply().simple("QUEUED"),
        Err(why) => {
            transaction.break_off();
            return call.refuse(&why);
        }
    }
    CommandOutcome::Answered
}

/// Breaks the transaction off, if there is one, because a command of it was refused.
pub(super) fn break_off(call: &mut Call<'_>) {
    if let Some(transaction) = &mut call.session.transaction {
        transaction.break_off();
    }
}
