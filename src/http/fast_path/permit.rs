//! Whether the sender of a plain request may make it, remembered for requests that are like the one before.

use super::request::PlainRequest;
use crate::access::{Caller, Tokens, route};
use crate::http::access::authorization;

/// What the last request of a connection was allowed.
#[derive(Debug, Default)]
pub(super) struct Permit {
    /// Whom the requests come from.
    pub(super) caller: Caller,
    /// The number of the tokens that said so.
    generation: u64,
    is_given: bool,
}

impl Permit {
    /// Whether the request may be answered with ids. One that is not new is the same as the last: only other
    /// tokens could say otherwise.
    #[inline]
    pub(super) fn covers(&mut self, tokens: &Tokens, request: &PlainRequest, is_new: bool) -> bool {
        let generation = tokens.generation();
        if is_new || generation != self.generation {
            self.caller.shows(tokens, authorization(request.headers()));
            self.is_given = self.caller.check_demand(&route("GET", request.path_text())).is_ok();
            self.generation = generation;
        }
        self.is_given
    }
}
