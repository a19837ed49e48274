//! The table of commands, and how one is found in it.

use std::ops::RangeInclusive;

use super::call::{Call, CommandOutcome, QUOTED_BYTES_MAX, shown, wrong_arguments};
use super::parser::Args;
use super::transaction::{self, InTransaction};
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
    in_transaction: InTransaction,
    run: Handler,
}

const ANY: usize = usize::MAX;

const fn command(name: &'static str, args: RangeInclusive<usize>, run: Handler) -> ServedCommand {
    let in_transaction = InTransaction::Queued;
    ServedCommand { name, rule: access::command(name), args, in_transaction, run }
}

/// A command about the connection or the node.
const fn other(name: &'static str, args: RangeInclusive<usize>, run: Handler) -> ServedCommand {
    ServedCommand { in_transaction: InTransaction::Refused, ..command(name, args, run) }
}

/// A command that a transaction does not queue.
const fn at_once(name: &'static str, args: RangeInclusive<usize>, run: Handler) -> ServedCommand {
    ServedCommand { in_transaction: InTransaction::AtOnce, ..command(name, args, run) }
}

/// The commands; the most used ones stand first.
static COMMANDS: [ServedCommand; 27] = [
    command("INCR", 1..=1, id_commands::incr),
    command("INCRBY", 2..=2, id_commands::incr_by),
    command("MINT", 1..=3, id_commands::mint),
    command("HINCRBY", 3..=3, sequence_commands::hincr_by),
    command("SNOWFLAKE", 0..=2, id_commands::snowflake),
    command("SETNX", 2..=2, id_commands::setnx),
    command("SET", 2..=ANY, id_commands::set),
    command("GET", 1..=1, id_commands::get),
    command("HGET", 2..=2, sequence_commands::hget),
    command("EXISTS", 1..=ANY, id_commands::exists),
    command("TYPE", 1..=1, id_commands::type_of),
    command("PING", 0..=1, connect_commands::ping),
    command("ECHO", 1..=1, connect_commands::echo),
    other("HELLO", 0..=6, connect_commands::hello),
    other("AUTH", 1..=2, connect_commands::auth),
    other("SELECT", 1..=1, connect_commands::select),
    other("CLIENT", 1..=ANY, connect_commands::client),
    other("COMMAND", 0..=ANY, about_commands),
    other("CONFIG", 1..=ANY, connect_commands::config),
    other("INFO", 0..=ANY, connect_commands::info),
    at_once("MULTI", 0..=0, transaction::multi),
    at_once("EXEC", 0..=0, transaction::exec),
    at_once("DISCARD", 0..=0, transaction::discard),
    at_once("RESET", 0..=0, connect_commands::reset),
    at_once("QUIT", 0..=ANY, connect_commands::quit),
    // A browser that was lured here begins its request with these: nothing behind them may be carried out.
    at_once("POST", 0..=ANY, hang_up),
    at_once("HOST:", 0..=ANY, hang_up),
];

/// Commands of Redis that make no sense for ids.
const NOT_FOR_IDS: [&str; 12] = [
    "APPEND",
    "DECR",
    "DECRBY",
    "DEL",
    "FLUSHALL",
    "FLUSHDB",
    "GETDEL",
    "GETSET",
    "INCRBYFLOAT",
    "MSET",
    "RENAME",
    "UNLINK",
];

/// Commands of Redis that would have a tag begin anew at some time.
const EXPIRING: [&str; 6] = ["EXPIRE", "EXPIREAT", "PEXPIRE", "PEXPIREAT", "PSETEX", "SETEX"];

/// Carries out the command with these arguments, or queues it; without arguments there is nothing to do.
#[inline]
pub(super) fn run(call: &mut Call<'_>, args: Args<'_>) -> CommandOutcome {
    if args.len() == 0 {
        return CommandOutcome::Answered;
    }
    let command = permitted(call, args);
    if call.session.transaction.is_some() {
        return run_in_transaction(call, args, command);
    }
    match command {
        Ok(command) => (command.run)(call, args),
        Err(refused) => refused,
    }
}

/// The command with these arguments, if it is one and its sender may send it.
///
/// # Errors
/// The refusal, which is written.
#[inline]
fn permitted(
    call: &mut Call<'_>,
    args: Args<'_>,
) -> Result<&'static ServedCommand, CommandOutcome> {
    let name = args.get(0).unwrap_or_default();
    let named = |command: &&ServedCommand| name.eq_ignore_ascii_case(command.name.as_bytes());
    match COMMANDS.iter().find(named) {
        Some(command) if command.args.contains(&(args.len() - 1)) => {
            match permission::denied(call, &command.rule, args) {
                None => Ok(command),
                Some(refused) => Err(refused),
            }
        }
        Some(command) => Err(wrong_arguments(call, command.name)),
        None => Err(unknown(call, args)),
    }
}

/// What becomes of a command behind `MULTI`. A refused one breaks the transaction off.
fn run_in_transaction(
    call: &mut Call<'_>,
    args: Args<'_>,
    command: Result<&ServedCommand, CommandOutcome>,
) -> CommandOutcome {
    let refused = match command {
        Ok(command) => match command.in_transaction {
            InTransaction::Queued => return transaction::queue(call),
            InTransaction::AtOnce => return (command.run)(call, args),
            InTransaction::Refused => call.refuse("ERR Command not allowed inside a transaction"),
        },
        Err(refused) => refused,
    };
    transaction::break_off(call);
    refused
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
    if let Some(known) = EXPIRING.iter().find(is_redis) {
        return call.refuse(&format!(
            "ERR '{known}' is not served: ids do not expire; for numbers that begin at 1 each day, create the tag with \
             mintleaf tag create --period day"
        ));
    }
    if [&b"WATCH"[..], b"UNWATCH"].iter().any(|watch| name.eq_ignore_ascii_case(watch)) {
        return call.refuse(
            "ERR 'WATCH' is not served: EXEC carries each command out by itself, whatever others do in between",
        );
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
