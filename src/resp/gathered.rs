//! Commands for numbers of keys that came in together, which one request carries to the leader.

use super::parser::Args;
use super::pending;
use super::reply::Reply;
use super::sequence_commands::GATHERED;
use crate::metrics::Mode;
use crate::service::{IdService, KeyRequest};

/// Maximum number of commands that are carried out together.
const GATHERED_MAX: usize = 1_024;

/// Commands that are carried out together, in order of arrival.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    requests: Vec<KeyRequest>,
    /// Replies that are there already. Each goes before the reply to the request at this place.
    refused: Vec<(usize, Vec<u8>)>,
}

impl Gathered {
    /// Whether no command is gathered.
    pub(super) fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    /// Whether a command may be carried out before the gathered ones are answered. If there are none, any command may.
    pub(super) fn admits(&self, command: Args<'_>) -> bool {
        let is_one = || command.get(0).is_some_and(|name| name.eq_ignore_ascii_case(GATHERED));
        let has_room = self.requests.len() + self.refused.len() < GATHERED_MAX;
        self.is_empty() || has_room && is_one()
    }

    /// Adds a request.
    pub(super) fn add(&mut self, request: KeyRequest) {
        self.requests.push(request);
    }

    /// Adds a reply that stands in the order of the others.
    pub(super) fn add_reply(&mut self, reply: Vec<u8>) {
        self.refused.push((self.requests.len(), reply));
    }

    /// Waits for the numbers of all requests, which the service bounds, and returns the replies in the order of the
    /// commands.
    pub(super) async fn answered(self, ids: &IdService, resp3: bool) -> Vec<u8> {
        let mut refused = self.refused.into_iter().peekable();
        let mut out = Vec::new();
        for (place, taken) in ids.take_of_keys(self.requests).await.into_iter().enumerate() {
            while let Some((_, reply)) = refused.next_if(|(before, _)| *before <= place) {
                out.extend(reply);
            }
            let mut reply = Reply { out: &mut out, resp3 };
            match taken {
                Ok(numbers) => reply.integer(numbers.end - 1),
                Err(error) => {
                    let code = pending::refuse(&error, &mut reply);
                    ids.metrics().request_failed(Mode::Sequence, code);
                }
            }
        }
        out.extend(refused.flat_map(|(_, reply)| reply));
        out
    }
}
