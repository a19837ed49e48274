//! The commands around a transaction, and what becomes of those in it.

use super::call::{Call, CommandOutcome, CommandResult};
use super::parser::Args;

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

/// `MULTI`: the commands behind it are queued.
pub(super) fn multi(call: &mut Call<'_>, _: Args<'_>) -> CommandResult {
    if call.session.transaction.is_some() {
        return call.refuse("ERR MULTI calls can not be nested");
    }
    call.session.transaction = Some(Box::default());
    call.reply().ok();
    Ok(CommandOutcome::Answered)
}

/// `DISCARD`: the queued commands are dropped.
pub(super) fn discard(call: &mut Call<'_>, _: Args<'_>) -> CommandResult {
    if call.session.transaction.take().is_none() {
        return call.refuse("ERR DISCARD without MULTI");
    }
    call.reply().ok();
    Ok(CommandOutcome::Answered)
}

/// `EXEC`: the queued commands are carried out. The reply is an array of their replies.
pub(super) fn exec(call: &mut Call<'_>, _: Args<'_>) -> CommandResult {
    match call.session.transaction.take() {
        None => call.refuse("ERR EXEC without MULTI"),
        Some(queued) if queued.is_broken => {
            call.refuse("EXECABORT Transaction discarded because of previous errors.")
        }
        Some(queued) => {
            call.reply().array(queued.commands);
            Ok(CommandOutcome::Execute(queued))
        }
    }
}

/// Queues the command of this call.
pub(super) fn queue(call: &mut Call<'_>) -> CommandResult {
    let Some(transaction) = &mut call.session.transaction else {
        return Ok(CommandOutcome::Answered);
    };
    let broken = transaction.is_broken;
    match if broken { Ok(()) } else { transaction.queue(call.bytes, call.answers) } {
        Ok(()) => call.reply().simple("QUEUED"),
        Err(why) => {
            transaction.break_off();
            return call.refuse(&why);
        }
    }
    Ok(CommandOutcome::Answered)
}

/// Breaks the transaction off, if there is one, because a command of it was refused.
pub(super) fn break_off(call: &mut Call<'_>) {
    if let Some(transaction) = &mut call.session.transaction {
        transaction.break_off();
    }
}
