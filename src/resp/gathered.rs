//! Commands for numbers of keys that came in together, and are carried out together: one request carries them to the
//! leader, or one proposal to the log.

use mintleaf_core::tag::BizTag;
use tokio::time::timeout;

use super::parser::Args;
use super::pending;
use super::reply::Reply;
use crate::limits::REQUEST_MAX;
use crate::metrics::Mode;
use crate::service::{Error, IdService, KeyName, KeyRequest};

/// Maximum number of commands that are carried out together.
const GATHERED_MAX: usize = 1_024;

/// A command that is carried out together with those of its kind behind it.
#[derive(Debug)]
pub(super) enum Gatherable {
    /// `HINCRBY`, whatever the tag and the key are.
    Numbers(KeyRequest),
    /// `REGISTER`, of keys of one register.
    Register(KeyName),
}

/// Commands that are carried out together, in order of arrival.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    requests: Requests,
    /// Replies that are there already. Each goes before the reply to the request at this place.
    refused: Vec<(usize, Vec<u8>)>,
}

#[derive(Debug, Default)]
enum Requests {
    #[default]
    None,
    Numbers(Vec<KeyRequest>),
    Register(BizTag, Vec<Box<str>>),
}

impl Requests {
    fn len(&self) -> usize {
        match self {
            Self::None => 0,
            Self::Numbers(requests) => requests.len(),
            Self::Register(_, keys) => keys.len(),
        }
    }
}

impl Gathered {
    /// Whether no command is gathered.
    pub(super) fn is_empty(&self) -> bool {
        self.requests.len() == 0
    }

    /// The mode that counts the commands.
    pub(super) fn mode(&self) -> Mode {
        match self.requests {
            Requests::None | Requests::Numbers(_) => Mode::Sequence,
            Requests::Register(..) => Mode::Register,
        }
    }

    /// Whether a command may be carried out before the gathered ones are answered. If there are none, any command may.
    pub(super) fn admits(&self, command: Args<'_>) -> bool {
        let is = |name: &[u8]| command.get(0).is_some_and(|its| its.eq_ignore_ascii_case(name));
        let has_room = self.requests.len() + self.refused.len() < GATHERED_MAX;
        match &self.requests {
            Requests::None => true,
            Requests::Numbers(_) => has_room && is(b"HINCRBY"),
            Requests::Register(tag, _) => {
                has_room && is(b"REGISTER") && command.get(1) == Some(tag.as_str().as_bytes())
            }
        }
    }

    /// Adds a command that is [admitted](Self::admits).
    pub(super) fn add(&mut self, command: Gatherable) {
        match (&mut self.requests, command) {
            (Requests::Numbers(requests), Gatherable::Numbers(request)) => requests.push(request),
            (Requests::Register(_, keys), Gatherable::Register(of)) => keys.push(of.key),
            (first, Gatherable::Numbers(request)) => *first = Requests::Numbers(vec![request]),
            (first, Gatherable::Register(KeyName { tag, key })) => {
                *first = Requests::Register(tag, vec![key]);
            }
        }
    }

    /// Adds a reply that stands in the order of the others.
    pub(super) fn add_reply(&mut self, reply: Vec<u8>) {
        self.refused.push((self.requests.len(), reply));
    }

    /// Waits for the numbers of all requests, and returns the replies in the order of the commands.
    pub(super) async fn answered(self, ids: &IdService, resp3: bool) -> Vec<u8> {
        let mut out = Vec::new();
        let mut replies =
            Replies { ids, refused: self.refused, reply: Reply { out: &mut out, resp3 } };
        match self.requests {
            Requests::None => {}
            // The service bounds this wait.
            Requests::Numbers(requests) => {
                let taken = ids.take_of_keys(requests).await;
                replies.write(Mode::Sequence, taken, |numbers, reply| {
                    reply.integer(numbers.end - 1);
                });
            }
            Requests::Register(tag, keys) => {
                let registered = timeout(REQUEST_MAX, ids.register_all(&tag, &keys)).await;
                let late =
                    |_| vec![Err(Error::unavailable("no answer could be had in time")); keys.len()];
                let registered = registered.unwrap_or_else(late);
                replies.write(Mode::Register, registered, |registered, reply| {
                    match registered.is_formatted {
                        true => reply.bulk(registered.text.as_bytes()),
                        false => reply.integer(registered.number),
                    }
                });
            }
        }
        out
    }
}

/// The replies to gathered commands.
struct Replies<'a> {
    ids: &'a IdService,
    refused: Vec<(usize, Vec<u8>)>,
    reply: Reply<'a>,
}

impl Replies<'_> {
    /// Writes the answers, and between them the replies that were there already.
    fn write<T>(
        &mut self,
        mode: Mode,
        answers: Vec<Result<T, Error>>,
        write: impl Fn(T, &mut Reply<'_>),
    ) {
        let mut refused = std::mem::take(&mut self.refused).into_iter().peekable();
        for (place, answer) in answers.into_iter().enumerate() {
            while let Some((_, reply)) = refused.next_if(|(before, _)| *before <= place) {
                self.reply.out.extend(reply);
            }
            match answer {
                Ok(answer) => write(answer, &mut self.reply),
                Err(error) => {
                    let code = pending::refuse(&error, &mut self.reply);
                    self.ids.metrics().request_failed(mode, code);
                }
            }
        }
        self.reply.out.extend(refused.flat_map(|(_, reply)| reply));
    }
}
