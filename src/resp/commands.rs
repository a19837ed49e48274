//! What each command does.

use std::ops::RangeInclusive;

use super::parser::Args;
use super::reply::Reply;
use super::session::{self, Session, number};
use super::wait::{Asked, Shape, Wait};
use crate::metrics::Mode;
use crate::service::{IdService, Taker};

/// Most ids of one answer that lists them, as in HTTP: 250 kB.
const COUNT_MAX: u64 = 10_000;
/// Most ids that `INCRBY` reserves, as ranges in HTTP.
const INCREMENT_MAX: u64 = 1_000_000;
/// Most copies of one `INCR` that are answered with it.
const COPIES_MAX: usize = 1_000;
/// Most bytes of what a client sent that an error quotes.
const QUOTED_BYTES_MAX: usize = 128;

/// What a command works on.
pub(super) struct Call<'a> {
    pub(super) service: &'a IdService,
    taker: &'a Taker<'a>,
    pub(super) session: &'a mut Session,
    pub(super) out: &'a mut Vec<u8>,
    /// What the command is counted as.
    pub(super) mode: Mode,
    /// Its bytes, and all that came behind them.
    bytes: &'a [u8],
    behind: &'a [u8],
    /// How many copies of it right behind it are carried out with it.
    pub(super) copies: usize,
}

/// What came of a command.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Its answer is written.
    Answered,
    /// Its ids are still to come.
    Wait(Wait),
    /// Its answer, if it has one, is written, and the connection shall end.
    Close,
}

type Handler = fn(&mut Call<'_>, Args<'_>) -> Step;

struct Command {
    name: &'static str,
    /// How many arguments it takes, its name not counted.
    args: RangeInclusive<usize>,
    run: Handler,
}

const ANY: usize = usize::MAX;

const fn command(name: &'static str, args: RangeInclusive<usize>, run: Handler) -> Command {
    Command { name, args, run }
}

/// Those that are used most stand first.
static COMMANDS: [Command; 20] = [
    command("INCR", 1..=1, incr),
    command("INCRBY", 2..=2, incr_by),
    command("MINT", 1..=3, mint),
    command("SNOWFLAKE", 0..=2, snowflake),
    command("GET", 1..=1, get),
    command("EXISTS", 1..=ANY, exists),
    command("TYPE", 1..=1, kind),
    command("PING", 0..=1, session::ping),
    command("ECHO", 1..=1, session::echo),
    command("HELLO", 0..=6, session::hello),
    command("AUTH", 1..=2, session::auth),
    command("SELECT", 1..=1, session::select),
    command("CLIENT", 1..=ANY, session::client),
    command("COMMAND", 0..=ANY, about_commands),
    command("CONFIG", 1..=ANY, session::config),
    command("INFO", 0..=ANY, session::info),
    command("RESET", 0..=0, session::reset),
    command("QUIT", 0..=ANY, session::quit),
    // A browser that was lured into sending a request here: nothing behind it is to be carried out.
    command("POST", 0..=ANY, hang_up),
    command("HOST:", 0..=ANY, hang_up),
];

/// Redis' own, which have a meaning that ids cannot have.
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

impl<'a> Call<'a> {
    pub(super) fn new(
        service: &'a IdService,
        taker: &'a Taker<'a>,
        session: &'a mut Session,
        out: &'a mut Vec<u8>,
        bytes: &'a [u8],
        behind: &'a [u8],
    ) -> Self {
        Self { service, taker, session, out, mode: Mode::Admin, bytes, behind, copies: 0 }
    }

    /// How many copies of this command follow it.
    #[inline]
    fn copies_behind(&self) -> usize {
        if !self.behind.starts_with(self.bytes) {
            return 0;
        }
        let behind = self.behind.chunks_exact(self.bytes.len()).take(COPIES_MAX);
        behind.take_while(|next| *next == self.bytes).count()
    }

    pub(super) fn reply(&mut self) -> Reply<'_> {
        Reply { resp3: self.session.resp3, out: self.out }
    }

    /// Answers with an error that is the client's doing.
    pub(super) fn refuse(&mut self, text: &str) -> Step {
        self.reply().error(text);
        self.service.metrics().request_failed(self.mode, "invalid_argument");
        Step::Answered
    }

    /// Carries out the command of these arguments; without any there is nothing to do.
    #[inline]
    pub(super) fn run(&mut self, args: Args<'_>) -> Step {
        let Some(name) = args.get(0) else { return Step::Answered };
        let named = |command: &&Command| name.eq_ignore_ascii_case(command.name.as_bytes());
        match COMMANDS.iter().find(named) {
            Some(command) if command.args.contains(&(args.len() - 1)) => (command.run)(self, args),
            Some(command) => wrong_arguments(self, command.name),
            None => unknown(self, args),
        }
    }
}

pub(super) fn wrong_arguments(call: &mut Call<'_>, name: &str) -> Step {
    let name = name.to_ascii_lowercase();
    call.refuse(&format!("ERR wrong number of arguments for '{name}' command"))
}

#[cold]
fn unknown(call: &mut Call<'_>, args: Args<'_>) -> Step {
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

/// What a client sent, fit for an error that quotes it.
pub(super) fn shown(bytes: &[u8]) -> String {
    let start = &bytes[..bytes.len().min(QUOTED_BYTES_MAX)];
    String::from_utf8_lossy(start).into_owned()
}

fn hang_up(_: &mut Call<'_>, _: Args<'_>) -> Step {
    Step::Close
}

/// The tag in the first argument; its bounds are the service's to check.
fn tag<'a>(call: &mut Call<'_>, args: Args<'a>) -> Result<&'a str, Step> {
    let tag = args.get(1).unwrap_or_default();
    std::str::from_utf8(tag).map_err(|_| call.refuse("ERR tag must be UTF-8"))
}

/// `INCR tag`: the next id. A client that wants many sends the same bytes again and again: these are
/// answered together, in their order, at the price of one look-up.
#[inline]
fn incr(call: &mut Call<'_>, args: Args<'_>) -> Step {
    call.mode = Mode::Segment;
    let tag = match tag(call, args) {
        Ok(tag) => tag,
        Err(refused) => return refused,
    };
    match call.taker.take(tag, call.copies_behind() as u64 + 1) {
        Some(ids) => {
            call.copies = (ids.end - ids.start) as usize - 1;
            let mut reply = call.reply();
            ids.for_each(|id| reply.integer(id));
            Step::Answered
        }
        None => Step::Wait(Wait { asked: Asked::Ids(tag.to_owned(), 1), shape: Shape::Last }),
    }
}

/// `INCRBY tag n`: reserves n ids in one piece and answers the last of them.
fn incr_by(call: &mut Call<'_>, args: Args<'_>) -> Step {
    call.mode = Mode::Segment;
    let tag = match tag(call, args) {
        Ok(tag) => tag,
        Err(refused) => return refused,
    };
    match args.get(2).and_then(number) {
        Some(count @ 1..=INCREMENT_MAX) => {
            Step::Wait(Wait { asked: Asked::Piece(tag.to_owned(), count), shape: Shape::Last })
        }
        _ => call.refuse(&format!("ERR increment must be an integer of 1 to {INCREMENT_MAX}")),
    }
}

/// `MINT tag [COUNT n]`: one id, or a list of them.
fn mint(call: &mut Call<'_>, args: Args<'_>) -> Step {
    call.mode = Mode::Segment;
    let tag = match tag(call, args) {
        Ok(tag) => tag,
        Err(refused) => return refused,
    };
    match count(call, args.skip(2)) {
        Ok((count, shape)) => Step::Wait(Wait { asked: Asked::Ids(tag.to_owned(), count), shape }),
        Err(refused) => refused,
    }
}

/// `SNOWFLAKE [COUNT n]`: one id, or a list of them.
fn snowflake(call: &mut Call<'_>, args: Args<'_>) -> Step {
    call.mode = Mode::Snowflake;
    match count(call, args.skip(1)) {
        Ok((1, Shape::Last)) => match call.service.next_snowflake_now() {
            Some(id) => {
                call.reply().digits(id);
                Step::Answered
            }
            None => Step::Wait(Wait { asked: Asked::Snowflakes(1), shape: Shape::Last }),
        },
        Ok((count, shape)) => Step::Wait(Wait { asked: Asked::Snowflakes(count), shape }),
        Err(refused) => refused,
    }
}

/// What `[COUNT n]` says: without it one id is told, with it a list, be it of one.
fn count(call: &mut Call<'_>, args: Args<'_>) -> Result<(u64, Shape), Step> {
    match (args.get(0), args.get(1)) {
        (None, _) => Ok((1, Shape::Last)),
        (Some(word), Some(count)) if word.eq_ignore_ascii_case(b"COUNT") => match number(count) {
            Some(count @ 1..=COUNT_MAX) => Ok((count, Shape::List)),
            _ => Err(call.refuse(&format!("ERR count must be an integer of 1 to {COUNT_MAX}"))),
        },
        _ => Err(call.refuse("ERR syntax error")),
    }
}

/// `GET tag`: the highest id that any node has reserved, as this node knows; it may be behind.
fn get(call: &mut Call<'_>, args: Args<'_>) -> Step {
    match known(call, args.get(1)) {
        Some(max_id) => call.reply().digits(max_id - 1),
        None => call.reply().null(),
    }
    Step::Answered
}

fn exists(call: &mut Call<'_>, args: Args<'_>) -> Step {
    let count = args.iter().skip(1).filter(|&tag| known(call, Some(tag)).is_some()).count();
    call.reply().integer(count as u64);
    Step::Answered
}

fn kind(call: &mut Call<'_>, args: Args<'_>) -> Step {
    let known = known(call, args.get(1)).is_some();
    call.reply().simple(if known { "string" } else { "none" });
    Step::Answered
}

/// The mark of a tag that this node knows.
fn known(call: &Call<'_>, tag: Option<&[u8]>) -> Option<u64> {
    call.service.max_id(std::str::from_utf8(tag?).ok()?)
}

/// `COMMAND [COUNT|DOCS|INFO …]`: nothing that a client could complete or route by.
fn about_commands(call: &mut Call<'_>, args: Args<'_>) -> Step {
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
    Step::Answered
}
