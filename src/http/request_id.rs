//! The id of a request, which connects a line in a client's log with one in a node's. Requests for ids have none: there
//! are too many of them.

use axum::http::{HeaderMap, HeaderName, HeaderValue};

use crate::machine::entropy;

/// The header that carries a request's id, in requests and in answers.
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// A longer id from a client is ignored.
const REQUEST_ID_CHARACTERS_MAX: usize = 128;

/// The id of a request: up to 128 visible ASCII characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RequestId(HeaderValue);

impl RequestId {
    /// The id that the client gives, or else a random one; `None` where no randomness is available.
    pub(super) fn of(headers: &HeaderMap) -> Option<Self> {
        Self::given(headers).or_else(Self::drawn)
    }

    fn given(headers: &HeaderMap) -> Option<Self> {
        let mut given = headers.get_all(REQUEST_ID).iter();
        let (Some(id), None) = (given.next(), given.next()) else { return None };
        let is_one = (1..=REQUEST_ID_CHARACTERS_MAX).contains(&id.len())
            && id.as_bytes().iter().all(u8::is_ascii_graphic);
        is_one.then(|| Self(id.clone()))
    }

    fn drawn() -> Option<Self> {
        let id = entropy::random_hex::<16>().ok()?;
        HeaderValue::try_from(id).ok().map(Self)
    }

    pub(super) fn as_str(&self) -> &str {
        self.0.to_str().unwrap_or_default()
    }

    /// Adds the id to an answer's headers.
    pub(super) fn tell(self, headers: &mut HeaderMap) {
        headers.insert(REQUEST_ID, self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(given: &[&str]) -> String {
        let header = |id: &&str| (REQUEST_ID, HeaderValue::from_str(id).unwrap());
        RequestId::of(&given.iter().map(header).collect()).unwrap().as_str().to_owned()
    }

    #[test]
    fn a_visible_id_is_taken_and_anything_else_is_replaced() {
        assert_eq!(of(&["a-1"]), "a-1");
        let (longest, too_long) = ("x".repeat(128), "x".repeat(129));
        assert_eq!(of(&[&longest]), longest);
        let replaced = [&[][..], &[""], &["a b"], &["a\tb"], &[&too_long], &["a", "b"]].map(of);
        let is_drawn = |id: &String| id.len() == 32 && id.chars().all(|c| c.is_ascii_hexdigit());
        assert!(replaced.iter().all(is_drawn), "{replaced:?}");
        assert_ne!(replaced[0], replaced[1]);
    }
}
