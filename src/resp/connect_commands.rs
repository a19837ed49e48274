//! The commands that clients send at connect, and what the node says of itself. They give no ids.

use super::call::{
    Call, CommandOutcome, CommandResult, number, shown, unknown_subcommand, wrong_arguments,
};
use super::parser::Args;
use super::permission;
use super::reply::Reply;
use super::session::Session;
use crate::access::Caller;
use crate::limits::CLIENT_NAME_BYTES_MAX;

/// The Redis release whose behaviour the node shows. Clients look at it to find out what they may use.
const REDIS_VERSION: &str = "7.0.0";

/// `PING [message]`.
pub(super) fn ping(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    match args.get(1) {
        Some(message) => call.reply().bulk(message),
        None => call.reply().simple("PONG"),
    }
    Ok(CommandOutcome::Answered)
}

/// `ECHO message`.
pub(super) fn echo(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    call.reply().bulk(args.get(1).unwrap_or_default());
    Ok(CommandOutcome::Answered)
}

/// `QUIT`: the connection ends.
pub(super) fn quit(call: &mut Call<'_>, _: Args<'_>) -> CommandResult {
    call.reply().ok();
    Ok(CommandOutcome::Close)
}

/// `RESET`: the session begins anew.
pub(super) fn reset(call: &mut Call<'_>, _: Args<'_>) -> CommandResult {
    call.session.resp3 = false;
    call.session.name.clear();
    call.session.caller = Caller::default();
    call.session.transaction = None;
    call.reply().simple("RESET");
    Ok(CommandOutcome::Answered)
}

/// `SELECT n`. Every database holds the same tags: an id is given once, whichever database asks for it.
pub(super) fn select(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    match args.get(1).and_then(number) {
        Some(_) => call.reply().ok(),
        None => return call.refuse("ERR invalid DB index"),
    }
    Ok(CommandOutcome::Answered)
}

/// `AUTH [name] token`. Without an auth file, as in Redis without a password: its default user may log in with any.
pub(super) fn auth(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    let (user, token) = match (args.get(1), args.get(2)) {
        (Some(user), Some(token)) => (Some(user), token),
        (Some(token), None) if call.tokens.is_some() => (None, token),
        _ => {
            return call.refuse(
                "ERR AUTH <password> called without any password configured for the default user. \
                 Are you sure your configuration is correct?",
            );
        }
    };
    permission::log_in(call, user, token)?;
    call.reply().ok();
    Ok(CommandOutcome::Answered)
}

/// What `HELLO` asks for, besides a version.
#[derive(Default)]
struct HelloOptions<'a> {
    login: Option<(&'a [u8], &'a [u8])>,
    name: Option<&'a [u8]>,
}

/// `HELLO [2|3 [AUTH name token] [SETNAME name]]`; all of it, or nothing on an error.
pub(super) fn hello(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    let resp3 = match args.get(1).map(number) {
        None => call.session.resp3,
        Some(Some(2)) => false,
        Some(Some(3)) => true,
        Some(Some(_)) => return call.refuse("NOPROTO unsupported protocol version"),
        Some(None) => {
            return call.refuse("ERR Protocol version is not an integer or out of range");
        }
    };
    let options = hello_options(call, args)?;
    if let Some((user, token)) = options.login {
        permission::log_in(call, Some(user), token)?;
    }
    if !permission::has_role(call) {
        return call.refuse_as(
            "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> \
             AUTH <user> <pass> option can be used to authenticate the client and select the RESP protocol \
             version at the same time",
            "unauthenticated",
        );
    }
    call.session.resp3 = resp3;
    if let Some(name) = options.name {
        call.session.name = name.to_vec();
    }
    let id = call.session.id;
    greet(&mut call.reply(), id);
    Ok(CommandOutcome::Answered)
}

fn hello_options<'a>(
    call: &mut Call<'_>,
    args: Args<'a>,
) -> Result<HelloOptions<'a>, CommandOutcome> {
    let mut asked = HelloOptions::default();
    let mut options = args.skip(2);
    while let Some(option) = options.get(0) {
        let taken = match (options.get(1), options.get(2)) {
            (Some(user), Some(token)) if option.eq_ignore_ascii_case(b"AUTH") => {
                asked.login = Some((user, token));
                3
            }
            (Some(given), _) if option.eq_ignore_ascii_case(b"SETNAME") => {
                check_name(call, given)?;
                asked.name = Some(given);
                2
            }
            _ => {
                let option = shown(option);
                return call.refuse(&format!("ERR Syntax error in HELLO option '{option}'"));
            }
        };
        options = options.skip(taken);
    }
    Ok(asked)
}

fn greet(reply: &mut Reply<'_>, id: u64) {
    reply.map(7);
    for (key, value) in [("server", "mintleaf"), ("version", REDIS_VERSION)] {
        reply.bulk(key.as_bytes());
        reply.bulk(value.as_bytes());
    }
    let version = if reply.resp3 { 3 } else { 2 };
    for (key, value) in [("proto", version), ("id", id)] {
        reply.bulk(key.as_bytes());
        reply.integer(value);
    }
    for (key, value) in [("mode", "cluster"), ("role", "master")] {
        reply.bulk(key.as_bytes());
        reply.bulk(value.as_bytes());
    }
    reply.bulk(b"modules");
    reply.array(0);
}

/// `CLIENT subcommand …`: the name and the id of the connection.
pub(super) fn client(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    let subcommand = args.get(1).unwrap_or_default().to_ascii_uppercase();
    match (subcommand.as_slice(), args.skip(2).len()) {
        (b"SETNAME", 1) => {
            let name = args.get(2).unwrap_or_default();
            check_name(call, name)?;
            call.session.name = name.to_vec();
            call.reply().ok();
        }
        (b"GETNAME", 0) if call.session.name.is_empty() => call.reply().null(),
        (b"GETNAME", 0) => {
            let name = call.session.name.clone();
            call.reply().bulk(&name);
        }
        (b"ID", 0) => {
            let id = call.session.id;
            call.reply().integer(id);
        }
        (b"INFO", 0) => {
            let Session { id, name, resp3, .. } = &*call.session;
            let version = if *resp3 { 3 } else { 2 };
            let name = String::from_utf8_lossy(name);
            let line = format!("id={id} name={name} db=0 resp={version}\n");
            call.reply().bulk(line.as_bytes());
        }
        // The name of a client's library is not remembered, and nothing is ever evicted.
        (b"SETINFO", 2) | (b"NO-EVICT" | b"NO-TOUCH", 1) => call.reply().ok(),
        (b"SETNAME" | b"GETNAME" | b"ID" | b"INFO" | b"SETINFO" | b"NO-EVICT" | b"NO-TOUCH", _) => {
            return wrong_arguments(call, "client");
        }
        _ => return unknown_subcommand(call, args),
    }
    Ok(CommandOutcome::Answered)
}

/// Checks a name that a client gives itself.
fn check_name(call: &mut Call<'_>, name: &[u8]) -> Result<(), CommandOutcome> {
    if name.len() > CLIENT_NAME_BYTES_MAX {
        return call.refuse("ERR Client names must have at most 256 bytes.");
    }
    match name.iter().all(u8::is_ascii_graphic) {
        true => Ok(()),
        false => {
            call.refuse("ERR Client names cannot contain spaces, newlines or special characters.")
        }
    }
}

/// `CONFIG GET name …`: clients of this protocol can read no settings.
pub(super) fn config(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    match args.get(1) {
        Some(get) if get.eq_ignore_ascii_case(b"GET") => call.reply().map(0),
        _ => return unknown_subcommand(call, args),
    }
    Ok(CommandOutcome::Answered)
}

/// `INFO [section …]`: the fields that clients look for, and some that are useful to people.
pub(super) fn info(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    let wanted = |section: &str| {
        let names = || args.iter().skip(1);
        let named = |name: &[u8]| names().any(|given| given.eq_ignore_ascii_case(name));
        let all = [&b"all"[..], b"everything", b"default"].into_iter().any(named);
        args.len() == 1 || all || named(section.as_bytes())
    };
    let cluster = call.services.cluster.view();
    let leader = cluster.leader_id.map_or("none".to_owned(), |id| id.to_string());
    let ready = u8::from(call.services.cluster.readiness().ready);
    let version = env!("CARGO_PKG_VERSION");
    let sections = [
        (
            "Server",
            format!(
                "redis_version:{REDIS_VERSION}\r\nredis_mode:cluster\r\nmintleaf_version:{version}\r\n"
            ),
        ),
        ("Persistence", "loading:0\r\n".to_owned()),
        ("Replication", "role:master\r\nconnected_slaves:0\r\n".to_owned()),
        ("Cluster", "cluster_enabled:1\r\n".to_owned()),
        (
            "Mintleaf",
            format!("node_id:{}\r\nleader_id:{leader}\r\nready:{ready}\r\n", cluster.node_id),
        ),
    ];
    let wanted = sections.iter().filter(|(section, _)| wanted(section));
    let text: Vec<_> = wanted.map(|(section, lines)| format!("# {section}\r\n{lines}")).collect();
    call.reply().bulk(text.join("\r\n").as_bytes());
    Ok(CommandOutcome::Answered)
}
