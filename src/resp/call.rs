//! One command that is carried out, and what every command needs.

use super::gathered::Gatherable;
use super::later::LaterReply;
use super::parser::Args;
use super::pending::PendingIds;
use super::reply::Reply;
use super::session::Session;
use super::transaction::Transaction;
use crate::access::Tokens;
use crate::connection::answer_budget::OriginBudget;
use crate::metrics::Mode;
use crate::service::{HeldIds, Services};

/// Maximum number of copies of one `INCR` that are answered with it.
const COPIES_MAX: usize = 1_000;
/// Maximum number of bytes of a client's input that an error quotes.
pub(super) const QUOTED_BYTES_MAX: usize = 128;

/// What a connection is served with.
#[derive(Clone, Copy)]
pub(super) struct Served<'a> {
    pub(super) services: &'a Services,
    /// The memory of replies that clients have not read yet, as this one has it.
    pub(super) answers: &'a OriginBudget,
    /// The tokens of the node's auth file, if it has one.
    pub(super) tokens: Option<&'a Tokens>,
}

/// One command that is carried out, and everything that it works on.
pub(super) struct Call<'a> {
    pub(super) services: &'a Services,
    /// The tokens of the node's auth file, if it has one.
    pub(super) tokens: Option<&'a Tokens>,
    /// The memory of replies that clients have not read yet, as this one has it.
    pub(super) answers: &'a OriginBudget,
    /// The ids that this node holds.
    pub(super) held: &'a HeldIds<'a>,
    pub(super) session: &'a mut Session,
    pub(super) out: &'a mut Vec<u8>,
    /// The mode that counts the command.
    pub(super) mode: Mode,
    /// The bytes of the command.
    pub(super) bytes: &'a [u8],
    /// The input behind them.
    behind: &'a [u8],
    /// How many copies of the command right behind it are carried out with it.
    pub(super) copies: usize,
}

/// The outcome of a command.
#[derive(Debug)]
pub(super) enum CommandOutcome {
    /// Its answer is written.
    Answered,
    /// Its ids are still to come.
    Wait(PendingIds),
    /// It is gathered with the commands of its kind behind it, and carried out together with them.
    Gather(Gatherable),
    /// Its reply is to come.
    Later(LaterReply),
    /// The head of its answer is written, and the answers to the queued commands follow it.
    Execute(Box<Transaction>),
    /// Its answer, if it has one, is written, and the connection shall end.
    Close,
}

/// The outcome of a command. A refusal, whose answer is written, is an error, so that it ends the command.
pub(super) type CommandResult = Result<CommandOutcome, CommandOutcome>;

impl<'a> Call<'a> {
    /// A call of the command `bytes`, with the input behind it.
    pub(super) fn new(
        Served { services, answers, tokens }: Served<'a>,
        held: &'a HeldIds<'a>,
        session: &'a mut Session,
        out: &'a mut Vec<u8>,
        (bytes, behind): (&'a [u8], &'a [u8]),
    ) -> Self {
        let (mode, copies) = (Mode::Admin, 0);
        Self { services, tokens, answers, held, session, out, mode, bytes, behind, copies }
    }

    /// How many copies of this command follow it.
    #[inline]
    pub(super) fn copies_behind(&self) -> usize {
        if !self.behind.starts_with(self.bytes) {
            return 0;
        }
        let behind = self.behind.chunks_exact(self.bytes.len()).take(COPIES_MAX);
        behind.take_while(|next| *next == self.bytes).count()
    }

    /// The writer of the reply.
    pub(super) fn reply(&mut self) -> Reply<'_> {
        Reply { resp3: self.session.resp3, out: self.out }
    }

    /// Answers with an error that the client has caused.
    ///
    /// # Errors
    /// Always.
    pub(super) fn refuse<T>(&mut self, text: &str) -> Result<T, CommandOutcome> {
        self.refuse_as(text, "invalid_argument")
    }

    /// Answers with an error that counts under this code.
    ///
    /// # Errors
    /// Always.
    pub(super) fn refuse_as<T>(
        &mut self,
        text: &str,
        code: &'static str,
    ) -> Result<T, CommandOutcome> {
        self.reply().error(text);
        self.services.ids.metrics().request_failed(self.mode, code);
        Err(CommandOutcome::Answered)
    }
}

/// Refuses a command whose number of arguments is wrong.
///
/// # Errors
/// Always.
pub(super) fn wrong_arguments<T>(call: &mut Call<'_>, name: &str) -> Result<T, CommandOutcome> {
    let name = name.to_ascii_lowercase();
    call.refuse(&format!("ERR wrong number of arguments for '{name}' command"))
}

/// Refuses a subcommand that a command does not have.
///
/// # Errors
/// Always.
pub(super) fn unknown_subcommand(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    let (name, subcommand) = (args.get(0), args.get(1));
    let [name, subcommand] = [name, subcommand].map(|arg| shown(arg.unwrap_or_default()));
    call.refuse(&format!("ERR unknown subcommand '{subcommand}' of '{name}'"))
}

/// The first bytes of a client's input as text, for an error that quotes it.
pub(super) fn shown(bytes: &[u8]) -> String {
    let start = &bytes[..bytes.len().min(QUOTED_BYTES_MAX)];
    String::from_utf8_lossy(start).into_owned()
}

/// Reads a non-negative integer, strictly.
pub(super) fn number(text: &[u8]) -> Option<u64> {
    let digits = text.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(text).ok().filter(|_| digits)?.parse().ok()
}
