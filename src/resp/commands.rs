//! The table of commands, and how one is found in it.

use std::ops::RangeInclusive;

use super::call::{
    Call, CommandOutcome, CommandResult, QUOTED_BYTES_MAX, shown, unknown_subcommand,
    wrong_arguments,
};
use super::parser::Args;
use super::permission::NamedTags::{self, All, First, NoTag};
use super::reply::Reply;
use super::transaction_commands::InTransaction::{self, AtOnce, Queued, Refused};
use super::{
    cluster_commands, connect_commands, http_request, id_commands, permission, sequence_commands,
    transaction_commands,
};
use crate::access::Needs::{self, AnyRole, Issue, Nothing, Read};

type Handler = fn(&mut Call<'_>, Args<'_>) -> CommandResult;

/// A command that is served.
struct ServedCommand {
    name: &'static str,
    /// How many arguments it takes, not counting its name.
    args: RangeInclusive<usize>,
    in_transaction: InTransaction,
    /// What it requires of its sender. `docs/security.md` shows it.
    needs: Needs,
    tags: NamedTags,
    run: Handler,
}

const ANY: usize = usize::MAX;
/// How many commands at the end of the table no client sends on purpose.
const UNLISTED: usize = 2;

const fn row(
    name: &'static str,
    args: RangeInclusive<usize>,
    in_transaction: InTransaction,
    needs: Needs,
    tags: NamedTags,
    run: Handler,
) -> ServedCommand {
    ServedCommand { name, args, in_transaction, needs, tags, run }
}

/// The commands; the most used ones stand first.
static COMMANDS: [ServedCommand; 32] = [
    row("INCR", 1..=1, Queued, Issue, First, id_commands::incr),
    row("INCRBY", 2..=2, Queued, Issue, First, id_commands::incr_by),
    row("MINT", 1..=3, Queued, Issue, First, id_commands::mint),
    row("HINCRBY", 3..=3, Queued, Issue, First, sequence_commands::hincr_by),
    row("REGISTER", 2..=2, Queued, Issue, First, sequence_commands::register),
    row("SNOWFLAKE", 0..=2, Queued, Issue, NoTag, id_commands::snowflake),
    row("SETNX", 2..=2, Queued, Issue, First, id_commands::setnx),
    row("SET", 2..=ANY, Queued, Issue, First, id_commands::set),
    row("GET", 1..=1, Queued, Read, First, id_commands::get),
    row("HGET", 2..=2, Queued, AnyRole, First, sequence_commands::hget),
    row("EXISTS", 1..=ANY, Queued, Read, All, id_commands::exists),
    row("TYPE", 1..=1, Queued, Read, First, id_commands::type_of),
    row("PING", 0..=1, Queued, AnyRole, NoTag, connect_commands::ping),
    row("ECHO", 1..=1, Queued, AnyRole, NoTag, connect_commands::echo),
    // HELLO asks for a role itself, because it may bring the token.
    row("HELLO", 0..=6, Refused, Nothing, NoTag, connect_commands::hello),
    row("AUTH", 1..=2, Refused, Nothing, NoTag, connect_commands::auth),
    row("SELECT", 1..=1, Refused, AnyRole, NoTag, connect_commands::select),
    row("CLIENT", 1..=ANY, Refused, AnyRole, NoTag, connect_commands::client),
    row("COMMAND", 0..=ANY, Refused, AnyRole, NoTag, about_commands),
    row("CONFIG", 1..=ANY, Refused, AnyRole, NoTag, connect_commands::config),
    row("CLUSTER", 1..=ANY, Refused, AnyRole, NoTag, cluster_commands::cluster),
    row("READONLY", 0..=0, Refused, AnyRole, NoTag, cluster_commands::any_node),
    row("READWRITE", 0..=0, Refused, AnyRole, NoTag, cluster_commands::any_node),
    row("ASKING", 0..=0, Refused, AnyRole, NoTag, cluster_commands::any_node),
    row("INFO", 0..=ANY, Refused, AnyRole, NoTag, connect_commands::info),
    row("MULTI", 0..=0, AtOnce, AnyRole, NoTag, transaction_commands::multi),
    row("EXEC", 0..=0, AtOnce, AnyRole, NoTag, transaction_commands::exec),
    row("DISCARD", 0..=0, AtOnce, AnyRole, NoTag, transaction_commands::discard),
    row("RESET", 0..=0, AtOnce, Nothing, NoTag, connect_commands::reset),
    row("QUIT", 0..=ANY, AtOnce, Nothing, NoTag, connect_commands::quit),
    // A browser that was lured here begins its request with these: nothing behind them may be carried out.
    row("POST", 0..=ANY, AtOnce, Nothing, NoTag, hang_up),
    row("HOST:", 0..=ANY, AtOnce, Nothing, NoTag, hang_up),
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
    let outcome = match call.session.transaction {
        None => command.and_then(|command| (command.run)(call, args)),
        Some(_) => run_in_transaction(call, args, command),
    };
    outcome.unwrap_or_else(|refused| refused)
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
            permission::check(call, command.needs, command.tags, args)?;
            Ok(command)
        }
        Some(command) => {
            http_request::check(call, args)?;
            wrong_arguments(call, command.name)
        }
        None => {
            http_request::check(call, args)?;
            unknown(call, args)
        }
    }
}

/// What becomes of a command behind `MULTI`. A refused one breaks the transaction off.
fn run_in_transaction(
    call: &mut Call<'_>,
    args: Args<'_>,
    command: Result<&ServedCommand, CommandOutcome>,
) -> CommandResult {
    let refused = match command {
        Ok(command) => match command.in_transaction {
            Queued => return transaction_commands::queue(call),
            AtOnce => return (command.run)(call, args),
            Refused => call.refuse("ERR Command not allowed inside a transaction"),
        },
        Err(refused) => Err(refused),
    };
    transaction_commands::break_off(call);
    refused
}

#[cold]
fn unknown<T>(call: &mut Call<'_>, args: Args<'_>) -> Result<T, CommandOutcome> {
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

fn hang_up(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    http_request::check(call, args)?;
    Ok(CommandOutcome::Close)
}

/// `COMMAND [COUNT|DOCS|GETKEYS|INFO|LIST …]`: the commands. Clients of a cluster choose a node by the keys of a command,
/// so they ask where these stand.
fn about_commands(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
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
    Ok(CommandOutcome::Answered)
}

impl ServedCommand {
    fn lower_name(&self) -> String {
        self.name.to_ascii_lowercase()
    }

    /// The keys among the arguments of this command.
    fn keys<'a>(&self, args: Args<'a>) -> Args<'a> {
        let count = match self.tags {
            NoTag => 0,
            First => 1,
            All => ANY,
        };
        args.skip(1).first(count)
    }

    /// Writes what `COMMAND` says of it: name, arity, flags, first key, last key, step; and nothing of what Redis says
    /// about permissions, routing, and subcommands.
    fn describe(&self, reply: &mut Reply<'_>) {
        let least = 1 + *self.args.start() as i64;
        let flag = match (self.needs, self.tags) {
            (Issue, _) => "write",
            (_, NoTag) => "fast",
            _ => "readonly",
        };
        let (first, last) = match self.tags {
            NoTag => (0, 0),
            First => (1, 1),
            All => (1, -1),
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

#[cfg(test)]
mod tests;
