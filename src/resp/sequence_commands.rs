//! The commands of sequences and registers: numbers of a key.

use super::call::{Call, CommandOutcome, CommandResult, number};
use super::gathered::Gatherable;
use super::later::LaterReply;
use super::parser::Args;
use crate::limits::RANGED_IDS_MAX;
use crate::metrics::Mode;
use crate::service::{KeyName, KeyRequest};

/// `HINCRBY tag key n`: the key's next n numbers. The reply is the last of them.
pub(super) fn hincr_by(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    call.mode = Mode::Sequence;
    let of = name(call, args)?;
    match args.get(3).and_then(number) {
        Some(count @ 1..=RANGED_IDS_MAX) => {
            Ok(CommandOutcome::Gather(Gatherable::Numbers(KeyRequest { of, count })))
        }
        _ => call.refuse(&format!("ERR increment must be an integer of 1 to {RANGED_IDS_MAX}")),
    }
}

/// `HGET tag key`: the key's last number, or one that it cannot exceed.
pub(super) fn hget(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    call.mode = Mode::Sequence;
    Ok(CommandOutcome::Later(LaterReply::LastOfKey(name(call, args)?)))
}

/// `REGISTER tag key`: the number that the key has for good, as an integer or, where the tag has a format, as text.
pub(super) fn register(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    call.mode = Mode::Register;
    Ok(CommandOutcome::Gather(Gatherable::Register(name(call, args)?)))
}

fn name(call: &mut Call<'_>, args: Args<'_>) -> Result<KeyName, CommandOutcome> {
    let text = |at| std::str::from_utf8(args.get(at).unwrap_or_default());
    let (Ok(tag), Ok(key)) = (text(1), text(2)) else {
        return call.refuse("ERR tag and key must be UTF-8");
    };
    KeyName::parse(tag, key).or_else(|error| call.refuse(&format!("ERR {error}")))
}
