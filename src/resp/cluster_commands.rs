//! The commands of clients that know a cluster of Redis servers.

use super::call::{Call, CommandOutcome, CommandResult, number, unknown_subcommand};
use super::later::LaterReply;
use super::parser::Args;
use super::slots::{SLOTS, SlotsView, node_name, slot_of};

/// `CLUSTER subcommand …`: which nodes serve now, and the slots of each.
pub(super) fn cluster(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    let subcommand = args.get(1).unwrap_or_default().to_ascii_uppercase();
    match (subcommand.as_slice(), args.skip(2).len()) {
        (b"SLOTS", 0) => return Ok(CommandOutcome::Later(LaterReply::Slots(SlotsView::Slots))),
        (b"SHARDS", 0) => return Ok(CommandOutcome::Later(LaterReply::Slots(SlotsView::Shards))),
        (b"NODES", 0) => return Ok(CommandOutcome::Later(LaterReply::Slots(SlotsView::Nodes))),
        (b"INFO", 0) => return Ok(CommandOutcome::Later(LaterReply::Slots(SlotsView::Info))),
        (b"MYID", 0) => {
            let id = call.services.cluster.node_id();
            call.reply().bulk(node_name(id).as_bytes());
        }
        (b"KEYSLOT", 1) => {
            let slot = slot_of(args.get(2).unwrap_or_default());
            call.reply().integer(slot.into());
        }
        // No slot holds tags: every node serves all of them.
        (b"COUNTKEYSINSLOT", 1) => match args.get(2).and_then(number) {
            Some(slot) if slot < u64::from(SLOTS) => call.reply().integer(0),
            _ => return call.refuse("ERR Invalid slot"),
        },
        _ => return unknown_subcommand(call, args),
    }
    Ok(CommandOutcome::Answered)
}

/// `READONLY`, `READWRITE`, `ASKING`: every node serves every tag, so they change nothing.
pub(super) fn any_node(call: &mut Call<'_>, _: Args<'_>) -> CommandResult {
    call.reply().ok();
    Ok(CommandOutcome::Answered)
}
