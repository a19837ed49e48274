//! Whether the sender of a plain request may make it. What its headers say of the sender is remembered for all
//! requests with the same headers, and the verdict for requests that are like the one before.

use super::request::PlainRequest;
use crate::access::{Caller, Tokens};
use crate::http::access::authorization;

/// What the last request of a connection was allowed.
#[derive(Debug, Default)]
pub(super) struct Permit {
    /// The sender of the requests.
    pub(super) caller: Caller,
    /// The number of the header block that this comes from.
    block: u64,
    /// The generation of the tokens that this comes from; 0 before the first request.
    generation: u64,
    is_given: bool,
}

impl Permit {
    /// Whether the request may be answered with ids. If it is not new, it is the same as the last one, so that only
    /// other tokens could change the verdict. Where the answer is no, the dispatch says why.
    #[inline]
    pub(super) fn covers(&mut self, tokens: &Tokens, request: &PlainRequest, is_new: bool) -> bool {
        let generation = tokens.generation();
        let is_known = generation == self.generation && request.block() == self.block;
        if !is_known {
            self.caller.shows(tokens, authorization(request.headers()));
            (self.block, self.generation) = (request.block(), generation);
        }
        if is_new || !is_known {
            self.is_given = request.route().is_some_and(|(route, tag)| {
                self.caller.check_request(route.needs, route.scope, || Some(tag)).is_ok()
            });
        }
        self.is_given
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::{AuthFile, hash_of, written_hash};
    use crate::http::fast_path::request::ReadOutcome;
    use crate::http::id_request::IdDemand;
    use crate::http::routes::route;

    const GET: &str = "GET /v1/segment/orders HTTP/1.1\r\nhost: a\r\n";

    fn entry(name: &str, rest: &str) -> String {
        let hash = written_hash(&hash_of(name.as_bytes()));
        format!("[[token]]\nname = \"{name}\"\nhash = \"{hash}\"\n{rest}\n")
    }

    fn file(lines: &str) -> AuthFile {
        AuthFile::parse(lines).unwrap()
    }

    fn covers(
        permit: &mut Permit,
        tokens: &Tokens,
        request: &mut PlainRequest,
        bytes: &str,
    ) -> bool {
        let read = request.read(bytes.as_bytes());
        assert!(matches!(read, ReadOutcome::New | ReadOutcome::Again), "{bytes}: {read:?}");
        permit.covers(tokens, request, read == ReadOutcome::New)
    }

    #[test]
    fn a_request_that_is_repeated_is_allowed_as_long_as_its_token_holds() {
        let of_role = |role: &str| file(&entry("a", &format!("role = \"{role}\"")));
        let bytes = format!("{GET}authorization: Bearer a\r\n\r\n");
        let (tokens, mut permit) = (Tokens::new(of_role("issue")), Permit::default());
        let mut request = PlainRequest::default();
        let mut ask = |tokens: &Tokens| covers(&mut permit, tokens, &mut request, &bytes);
        assert!(ask(&tokens), "the first");
        assert!(ask(&tokens), "the same again");
        tokens.replace(of_role("read"));
        assert!(!ask(&tokens), "the role has changed");
        tokens.replace(of_role("admin"));
        assert!(ask(&tokens));
        tokens.replace(file("anonymous = \"issue\""));
        assert!(!ask(&tokens), "the token has left");
    }

    #[test]
    fn other_headers_are_another_sender() {
        let lines = "anonymous = \"issue\"\n".to_owned() + &entry("eye", "role = \"read\"");
        let tokens = Tokens::new(file(&(lines + &entry("shop", "role = \"issue\""))));
        let (mut permit, mut request) = (Permit::default(), PlainRequest::default());
        for (shown, expected) in [
            ("", true),
            ("authorization: Bearer eye\r\n", false),
            ("authorization: Bearer shop\r\n", true),
            ("authorization: Bearer shot\r\n", false),
            ("x: y\r\n", true),
            ("authorization: Bearer shop\r\nauthorization: Bearer shop\r\n", false),
        ] {
            for again in ["", "?count=5"] {
                let bytes = GET.replace("orders", &format!("orders{again}"));
                let bytes = format!("{bytes}{shown}\r\n");
                let given = covers(&mut permit, &tokens, &mut request, &bytes);
                assert_eq!(given, expected, "{bytes}");
            }
        }
    }

    #[test]
    fn a_permit_is_given_where_the_matrix_gives_it() {
        let lines = entry("shop", "role = \"issue\"\ntags = [\"pay*\", \"a/b\"]")
            + &entry("free", "role = \"issue\"")
            + &entry("eye", "role = \"read\"")
            + &entry("ops", "role = \"admin\"\ntags = [\"orders\"]");
        let tokens = Tokens::new(file(&lines));
        let (mut permit, mut request) = (Permit::default(), PlainRequest::default());
        let mut given = 0;
        for token in ["shop", "free", "eye", "ops", "none"] {
            for path in [
                "/api/segment/get/orders",
                "/api/segment/get/payments",
                "/api/segment/get/%zz",
                "/v1/segment/%70ay",
                "/v1/segment/a%2Fb",
                "/v1/segment/pa",
                "/v1/segment/pay%zz",
                "/v1/segment/payments?count=5",
                "/v1/segment/orders?count=5",
                "/v1/segment/pay?count=x",
                "/api/snowflake/get/any",
                "/v1/snowflake",
                "/v1/snowflake?count=5",
            ] {
                let bytes = format!(
                    "GET {path} HTTP/1.1\r\nhost: a\r\nauthorization: Bearer {token}\r\n\r\n"
                );
                let is_given = covers(&mut permit, &tokens, &mut request, &bytes);
                let mut caller = Caller::default();
                caller.shows(&tokens, Some(format!("Bearer {token}").as_bytes()));
                let demand = route("GET", path.split('?').next().unwrap());
                let may = caller.check_request(demand.needs, demand.scope, || demand.tag()).is_ok();
                let for_dispatch = request.request().demand() == IdDemand::Invalid;
                assert_eq!(is_given, may && !for_dispatch, "{token} {path}");
                given += u32::from(is_given);
            }
        }
        assert_eq!(given, 7 + 10 + 5, "shop, free, and ops");
    }
}
