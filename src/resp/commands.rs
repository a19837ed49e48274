//! The table of commands, and how one is found in it.

use std::ops::RangeInclusive;

use super::call::{
    Call, CommandOutcome, QUOTED_BYTES_MAX, shown, unknown_subcommand, wrong_arguments,
};
use super::parser::Args;
use super::reply::Reply;
use super::transaction_commands::{self, InTransaction};
use super::{
    cluster_commands, connect_commands, http_request, id_commands, permission, sequence_commands,
};
use crate::access::{self, CommandRule, NamedTags, Needs};

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
/// How many commands at the end of the table no client sends on purpose.
const UNLISTED: usize = 2;

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
static COMMANDS: [ServedCommand; 32] = [
    command("INCR", 1..=1, id_commands::incr),
    command("INCRBY", 2..=2, id_commands::incr_by),
    command("MINT", 1..=3, id_commands::mint),
    command("HINCRBY", 3..=3, sequence_commands::hincr_by),
    command("REGISTER", 2..=2, sequence_commands::register),
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
    other("CLUSTER", 1..=ANY, cluster_commands::cluster),
    other("READONLY", 0..=0, cluster_commands::any_node),
    other("READWRITE", 0..=0, cluster_commands::any_node),
    other("ASKING", 0..=0, cluster_commands::any_node),
    other("INFO", 0..=ANY, connect_commands::info),
    at_once("MULTI", 0..=0, transaction_commands::multi),
    at_once("EXEC", 0..=0, transaction_commands::exec),
    at_once("DISCARD", 0..=0, transaction_commands::discard),
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

/// The command of this name, whatever its arguments are.
#[inline]
fn find(args: Args<'_>) -> Option<&'static ServedCommand> {
    let name = args.get(0)?;
    COMMANDS.iter().find(|command| name.eq_ignore_ascii_case(command.name.as_bytes()))
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
    match find(args) {
        Some(command) if command.args.contains(&(args.len() - 1)) => {
            match permission::denied(call, &command.rule, args) {
                None => Ok(command),
                Some(refused) => Err(refused),
            }
        }
        Some(command) => {
            let refused = http_request::answered(call, args);
            Err(refused.unwrap_or_else(|| wrong_arguments(call, command.name)))
        }
        None => Err(http_request::answered(call, args).unwrap_or_else(|| unknown(call, args))),
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
            InTransaction::Queued => return transaction_commands::queue(call),
            InTransaction::AtOnce => return (command.run)(call, args),
            InTransaction::Refused => call.refuse("ERR Command not allowed inside a transaction"),
        },
        Err(refused) => refused,
    };
    transaction_commands::break_off(call);
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
    text += "(COMMAND LIST names those that are served)";
    call.refuse(&text)
}

fn hang_up(call: &mut Call<'_>, args: Args<'_>) -> CommandOutcome {
    http_request::answered(call, args).unwrap_or(CommandOutcome::Close)
}

/// `COMMAND [COUNT|DOCS|GETKEYS|INFO|LIST …]`: the commands. Clients of a cluster choose a node by the keys of a command,
/// so they ask where these stand.
fn about_commands(call: &mut Call<'_>, args: Args<'_>) -> CommandOutcome {
    let listed = &COMMANDS[..COMMANDS.len() - UNLISTED];
    let subcommand = args.get(1).map(<[u8]>::to_ascii_uppercase);
    let mut reply = call.reply();
    match subcommand.as_deref() {
        None => {
            reply.array(listed.len());
            listed.iter().for_each(|command| command.describe(&mut reply));
        }
        Some(b"LIST") => {
            reply.array(listed.len());
            listed.iter().for_each(|command| reply.bulk(command.lower_name().as_bytes()));
        }
        Some(b"COUNT") => reply.integer(listed.len() as u64),
        Some(b"DOCS") => reply.map(0),
        Some(b"GETKEYS") => {
            let keys = find(args.skip(2)).map(|command| command.keys(args.skip(2)));
            let Some(keys) = keys.filter(|keys| keys.len() > 0) else {
                return call.refuse("ERR The command has no key arguments");
            };
            reply.array(keys.len());
            keys.iter().for_each(|key| reply.bulk(key));
        }
        Some(b"INFO") => {
            let names = args.skip(2);
            reply.array(names.len());
            for at in 0..names.len() {
                match find(names.skip(at)) {
                    Some(command) => command.describe(&mut reply),
                    None => reply.null(),
                }
            }
        }
        Some(_) => return unknown_subcommand(call, args),
    }
    CommandOutcome::Answered
}

impl ServedCommand {
    fn lower_name(&self) -> String {
        self.name.to_ascii_lowercase()
    }

    /// The keys among the arguments of this command.
    fn keys<'a>(&self, args: Args<'a>) -> Args<'a> {
        let count = match self.rule.tags {
            NamedTags::None => 0,
            NamedTags::First => 1,
            NamedTags::All => ANY,
        };
        args.skip(1).first(count)
    }

    /// Writes what `COMMAND` says of it: name, arity, flags, first key, last key, step; and nothing of what Redis says
    /// about permissions, routing, and subcommands.
    fn describe(&self, reply: &mut Reply<'_>) {
        let least = 1 + *self.args.start() as i64;
        let flag = match (self.rule.needs, self.rule.tags) {
            (Needs::Issue, _) => "write",
            (_, NamedTags::None) => "fast",
            _ => "readonly",
        };
        let (first, last) = match self.rule.tags {
            NamedTags::None => (0, 0),
            NamedTags::First => (1, 1),
            NamedTags::All => (1, -1),
        };
        reply.array(10);
        reply.bulk(self.lower_name().as_bytes());
        reply.signed(if self.args.start() == self.args.end() { least } else { -least });
        reply.array(1);
        reply.simple(flag);
        [first, last, first].into_iter().for_each(|number| reply.signed(number));
        (0..4).for_each(|_| reply.array(0));
    }
}
