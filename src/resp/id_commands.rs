//! The commands that give ids or ask about tags.

use mintleaf_core::limits::ID_MAX;

use super::call::{Call, CommandOutcome, CommandResult, number};
use super::later::{CreatedReply, LaterReply};
use super::parser::Args;
use super::pending::{PendingIds, ReplyStyle};
use crate::limits::{LISTED_IDS_MAX, RANGED_IDS_MAX};
use crate::metrics::Mode;

/// The tag in the first argument; the service checks its bounds.
fn tag<'a>(call: &mut Call<'_>, args: Args<'a>) -> Result<&'a str, CommandOutcome> {
    let tag = args.get(1).unwrap_or_default();
    std::str::from_utf8(tag).or_else(|_| call.refuse("ERR tag must be UTF-8"))
}

/// Ids that are still to come: of a tag, or snowflake ids.
fn wait(tag: Option<&str>, count: u64, style: ReplyStyle) -> CommandOutcome {
    CommandOutcome::Wait(PendingIds { tag: tag.map(str::to_owned), count, style })
}

/// `INCR tag`: the next id. A client that wants many ids sends the same bytes again and again; such
/// copies are answered together, in their order, at the price of one look-up.
#[inline]
pub(super) fn incr(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    call.mode = Mode::Segment;
    let tag = tag(call, args)?;
    match call.held.take(tag, call.copies_behind() as u64 + 1) {
        Some(ids) => {
            call.copies = (ids.end - ids.start) as usize - 1;
            let mut reply = call.reply();
            ids.for_each(|id| reply.integer(id));
            Ok(CommandOutcome::Answered)
        }
        None => {
            // Copies that came together share a round to the quorum; otherwise each id would cost one.
            if call.services.ids.is_in_strict_order(tag) {
                call.copies = call.copies_behind();
            }
            Ok(wait(Some(tag), call.copies as u64 + 1, ReplyStyle::Each))
        }
    }
}

/// `INCRBY tag n`: reserves n ids without a gap and returns the last of them.
pub(super) fn incr_by(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    call.mode = Mode::Segment;
    let tag = tag(call, args)?;
    match args.get(2).and_then(number) {
        Some(count @ 1..=RANGED_IDS_MAX) => Ok(wait(Some(tag), count, ReplyStyle::LastOfRun)),
        _ => call.refuse(&format!("ERR increment must be an integer of 1 to {RANGED_IDS_MAX}")),
    }
}

/// `MINT tag [COUNT n]`: one id, or a list of them.
pub(super) fn mint(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    call.mode = Mode::Segment;
    let tag = tag(call, args)?;
    let (count, style) = count(call, args.skip(2))?;
    Ok(wait(Some(tag), count, style))
}

/// `SNOWFLAKE [COUNT n]`: one id, or a list of them.
pub(super) fn snowflake(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    call.mode = Mode::Snowflake;
    let (count, style) = count(call, args.skip(1))?;
    if style == ReplyStyle::One
        && let Some(id) = call.services.ids.next_snowflake_now()
    {
        call.reply().digits(id);
        return Ok(CommandOutcome::Answered);
    }
    Ok(wait(None, count, style))
}

/// Reads `[COUNT n]`: without it the reply is one id, with it a list, even of one id.
fn count(call: &mut Call<'_>, args: Args<'_>) -> Result<(u64, ReplyStyle), CommandOutcome> {
    match (args.get(0), args.get(1)) {
        (None, _) => Ok((1, ReplyStyle::One)),
        (Some(word), Some(count)) if word.eq_ignore_ascii_case(b"COUNT") => match number(count) {
            Some(count @ 1..=LISTED_IDS_MAX) => Ok((count, ReplyStyle::List)),
            _ => call.refuse(&format!("ERR count must be an integer of 1 to {LISTED_IDS_MAX}")),
        },
        _ => call.refuse("ERR syntax error: behind the name comes COUNT n, or nothing"),
    }
}

/// `SETNX tag n`: creates a tag whose first id is above n, unless there is one of this name.
pub(super) fn setnx(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    create(call, args, CreatedReply::Integer)
}

/// `SET tag n NX`: the same. There is no other way to set a tag, because ids only move forward.
pub(super) fn set(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    let (option, more) = (args.get(3), args.skip(4).len());
    if more == 0 && option.is_some_and(|option| option.eq_ignore_ascii_case(b"NX")) {
        return create(call, args, CreatedReply::OkOrNull);
    }
    call.refuse(
        "ERR 'SET' is not served: ids only move forward; SET tag n NX creates a tag whose first id is above n",
    )
}

fn create(call: &mut Call<'_>, args: Args<'_>, reply: CreatedReply) -> CommandResult {
    call.mode = Mode::Segment;
    let tag = tag(call, args)?.to_owned();
    match args.get(2).and_then(number) {
        Some(below @ 0..ID_MAX) => {
            Ok(CommandOutcome::Later(LaterReply::Created { tag, start: below + 1, reply }))
        }
        _ => call.refuse(&format!("ERR value must be an integer of 0 to {}", ID_MAX - 1)),
    }
}

/// `GET tag`: the highest id that any node has reserved, in this node's copy, which may be behind. It is refused for
/// tags whose ids are not the reserved numbers.
pub(super) fn get(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    let tag = args.get(1).and_then(|tag| std::str::from_utf8(tag).ok());
    let shape = tag.and_then(|tag| call.services.ids.shape(tag));
    if shape.is_some_and(|shape| !shape.takes_max_id() || shape.format.is_some()) {
        return call.refuse("ERR tag has a shape by which the highest number reserved is no id");
    }
    match known(call, args.get(1)) {
        Some(max_id) => call.reply().digits(max_id - 1),
        None => call.reply().null(),
    }
    Ok(CommandOutcome::Answered)
}

/// `EXISTS tag …`: how many of the tags this node knows.
pub(super) fn exists(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    let count = args.iter().skip(1).filter(|&tag| known(call, Some(tag)).is_some()).count();
    call.reply().integer(count as u64);
    Ok(CommandOutcome::Answered)
}

/// `TYPE tag`: `string` for a tag that this node knows, `none` for any other.
pub(super) fn type_of(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    let known = known(call, args.get(1)).is_some();
    call.reply().simple(if known { "string" } else { "none" });
    Ok(CommandOutcome::Answered)
}

/// The watermark of a tag that this node knows.
fn known(call: &Call<'_>, tag: Option<&[u8]>) -> Option<u64> {
    call.services.tags.max_id(std::str::from_utf8(tag?).ok()?)
}
