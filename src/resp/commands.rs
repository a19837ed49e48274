//! The table of commands, and how one is found in it.

use std::ops::RangeInclusive;

use super::call::{Call, CommandOutcome, QUOTED_BYTES_MAX, shown, wrong_arguments};
use super::parser::Args;
use super::{connect_commands, id_commands, permission, sequence_commands};
use crate::access::{self, CommandRule};

type Handler = fn(&mut Call<'_>, Args<'_>) -> CommandOutcome;

/// A command that is served.
struct ServedCommand {
    name: &'static str,
    /// What it requires of its sender.
    rule: CommandRule,
    /// How many arguments it takes, not counting its name.
    args: RangeInclusive<usize>,
    run: Handler,
}

const ANY: usize = usize::MAX;

const fn command(name: &'static str, args: RangeInclusive<usize>, run: Handler) -> ServedCommand {
    ServedCommand { name, rule: access::command(name), args, run }
}

/// The commands; the most used ones stand first.
static COMMANDS: [ServedCommand; 22] = [
    command("INCR", 1..=1, id_commands::incr),
    command("INCRBY", 2..=2, id_commands::incr_by),
    command("MINT", 1..=3, id_commands::mint),
    command("HINCRBY", 3..=3, sequence_commands::hincr_by),
    command("SNOWFLAKE", 0..=2, id_commands::snowflake),
    command("GET", 1..=1, id_commands::get),
    command("HGET", 2..=2, sequence_commands::hget),
    command("EXISTS", 1..=ANY, id_commands::exists),
    command("TYPE", 1..=1, id_commands::type_of),
    command("PING", 0..=1, connect_commands::ping),
    command("ECHO", 1..=1, connect_commands::echo),
    command("HELLO", 0..=6, connect_commands::hello),
    command("AUTH", 1..=2, connect_commands::auth),
    command("SELECT", 1..=1, connect_commands::select),
    command("CLIENT", 1..=ANY, connect_commands::client),
    command("COMMAND", 0..=ANY, about_commands),
    command("CONFIG", 1..=ANY, connect_commands::config),
    command("INFO", 0..=ANY, connect_commands::info),
    command("RESET", 0..=0, connect_commands::reset),
    command("QUIT", 0..=ANY, connect_commands::quit),
    // A browser that was lured here begins its request with these: nothing behind them may be carried out.
    command("POST", 0..=ANY, hang_up),
    command("HOST:", 0..=ANY, hang_up),
];

/// Commands of Redis that make no sense for ids.
const NOT_FOR_IDS: [&str; 16] = [
    "APPEND",
    "DECR",
    "DECRBY",
    "DEL",
    "EXPIRE",
    "FLUSHALL",
    "FLUSHDB",
    "GETDEL",
    "GETSET",
    "INCRBYFLOAT",
    "MSET",
    "RENAME",
    "SET",
    "SETEX",
    "SETNX",
    "UNLINK",
];

/// Carries out the command with these arguments; without arguments there is nothing to do.
#[inline]
pub(super) fn run(call: &mut Call<'_>, args: Args<'_>) -> CommandOutcome {
    let Some(name) = args.get(0) else { return CommandOutcome::Answered };
    let named = |command: &&ServedCommand| name.eq_ignore_ascii_case(command.name.as_bytes());
    match COMMANDS.iter().find(named) {
        Some(command) if command.args.contains(&(args.len() - 1)) => {
            match permission::denied(call, &command.rule, args) {
                None => (command.run)(call, args),
                Some(refused) => refused,
            }
        }
        Some(command) => wrong_arguments(call, command.name),
        None => unknown(call, args),
    }
}

#[cold]
fn unknown(call: &mut Call<'_>, args: Args<'_>) -> CommandOutcome {
    let name = args.get(0).unwrap_or_default();
    let is_redis = |known: &&&str| name.eq_ignore_ascii_case(known.as_bytes());
    if let Some(known) = NOT_FOR_IDS.iter().find(is_redis) {
        return call.refuse(&format!(
            "ERR '{known}' is not served: ids only move forward; tags are managed over HTTP or with mintleaf tag"
        ));
    }
    if [&b"MULTI"[..], b"EXEC", b"DISCARD", b"WATCH"].iter().any(|tx| name.eq_ignore_ascii_case(tx))
    {
        return call.refuse("ERR transactions are not served: pipeline without them");
    }
    let mut text = format!("ERR unknown command '{}', with args beginning with: ", shown(name));
    for arg in args.iter().skip(1) {
        if text.len() >= 2 * QUOTED_BYTES_MAX {
            break;
        }
        text += &format!("'{}' ", shown(arg));
    }
    call.refuse(&text)
}

fn hang_up(_: &mut Call<'_>, _: Args<'_>) -> CommandOutcome {
    CommandOutcome::Close
}

/// `COMMAND [COUNT|DOCS|INFO …]`: the reply has nothing that a client could complete or route by.
fn about_commands(call: &mut Call<'_>, args: Args<'_>) -> CommandOutcome {
    let subcommand = args.get(1).map(<[u8]>::to_ascii_uppercase);
    match subcommand.as_deref() {
        None | Some(b"LIST") => call.reply().array(0),
        Some(b"COUNT") => call.reply().integer(COMMANDS.len() as u64),
        Some(b"DOCS") => call.reply().map(0),
        Some(b"INFO") => {
            let names = args.skip(2).len();
            call.reply().array(names);
            (0..names).for_each(|_| call.reply().null());
        }
        Some(_) => return call.refuse("ERR unknown subcommand of 'COMMAND'"),
    }
    CommandOutcome::Answered
}
