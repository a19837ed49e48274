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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::{AuthFile, hash_of, written_hash};
    use crate::http::fast_path::request::ReadOutcome;

    fn file(role: &str) -> AuthFile {
        let hash = written_hash(&hash_of(b"s3cret"));
        let lines = format!("[[token]]\nname = \"a\"\nhash = \"{hash}\"\nrole = \"{role}\"\n");
        AuthFile::parse(&lines).unwrap()
    }

    #[test]
    fn a_request_that_is_repeated_is_allowed_as_long_as_its_token_holds() {
        let bytes =
            b"GET /v1/segment/orders HTTP/1.1\r\nhost: a\r\nauthorization: Bearer s3cret\r\n\r\n";
        let (tokens, mut permit) = (Tokens::new(file("issue")), Permit::default());
        let mut request = PlainRequest::default();
        assert_eq!(request.read(bytes), ReadOutcome::New);
        assert!(permit.covers(&tokens, &request, true));
        assert_eq!(request.read(bytes), ReadOutcome::Again);
        assert!(permit.covers(&tokens, &request, false));
        tokens.replace(file("read"));
        assert!(!permit.covers(&tokens, &request, false), "the role has changed");
        tokens.replace(file("admin"));
        assert!(permit.covers(&tokens, &request, false));
        tokens.replace(AuthFile::parse("anonymous = \"issue\"").unwrap());
        assert!(!permit.covers(&tokens, &request, false), "the token has left");
    }
}
