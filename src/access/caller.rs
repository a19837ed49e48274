//! The sender of the requests of one connection.
//!
//! A client shows the same token with every request. It is hashed and looked up once. After that the bytes that it
//! shows are compared with the earlier ones, and what they allow holds until the tokens change.

use std::sync::Arc;

use super::role::{Needs, Role, Scope};
use super::token::{Hash, Token, hash_of};
use super::tokens::Tokens;

/// Longest token that is looked at; a longer one is unknown.
const TOKEN_BYTES_MAX: usize = 1024;
/// Longest `Authorization` that is remembered.
const SHOWN_BYTES_MAX: usize = TOKEN_BYTES_MAX + 16;

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Denial {
    /// The sender shows no token, and may not do this without one.
    NoToken,
    /// What the sender shows cannot be a token.
    NotBearer,
    /// The sender shows a token that does not hold.
    UnknownToken,
    /// The token's role is not enough for what is needed.
    Role { has: Role, needs: Needs },
    /// The token is confined to other tags.
    Tags,
}

/// The token that a caller has shown.
#[derive(Debug, Default, PartialEq, Eq)]
enum Shown {
    /// None.
    #[default]
    Nothing,
    /// Something that cannot be a token.
    Nonsense,
    /// One with this hash.
    Token(Hash),
}

/// The sender of the requests of one connection.
#[derive(Debug, Default)]
pub(crate) struct Caller {
    /// The `Authorization` that was read last, and the generation of the tokens that it was checked against.
    header: Vec<u8>,
    generation: u64,
    shown: Shown,
    token: Option<Arc<Token>>,
    anonymous: Option<Role>,
}

impl Caller {
    /// Takes note of what a request of HTTP shows: the one `Authorization`, or none.
    #[inline]
    pub(crate) fn shows(&mut self, tokens: &Tokens, authorization: Option<&[u8]>) {
        if self.generation == 0 || authorization.unwrap_or_default() != self.header {
            self.take_note(authorization);
        }
        self.refresh(tokens);
    }

    #[cold]
    fn take_note(&mut self, authorization: Option<&[u8]>) {
        self.generation = 0;
        self.header.clear();
        self.shown = match authorization {
            None | Some([]) => Shown::Nothing,
            Some(header) => {
                // One byte more than is looked at: any text that begins like this is too long as well.
                let length = header.len().min(SHOWN_BYTES_MAX + 1);
                self.header.extend_from_slice(&header[..length]);
                match bearer(header) {
                    Some(token) => Shown::Token(hash_of(token)),
                    None => Shown::Nonsense,
                }
            }
        };
    }

    /// Looks the token up again if the tokens have changed.
    #[inline]
    pub(crate) fn refresh(&mut self, tokens: &Tokens) {
        let generation = tokens.generation();
        if generation != self.generation {
            self.look_up(tokens);
            self.generation = generation;
        }
    }

    #[cold]
    fn look_up(&mut self, tokens: &Tokens) {
        let file = tokens.current();
        self.anonymous = file.anonymous;
        let known = match &self.shown {
            Shown::Token(hash) => file.by_hash.get(hash).cloned(),
            Shown::Nothing | Shown::Nonsense => None,
        };
        self.token = known;
    }

    /// Logs in with a token, whose name must be `name` if one is given; returns whether it holds. If not, everything
    /// stays as it is.
    pub(crate) fn log_in(&mut self, tokens: &Tokens, name: Option<&[u8]>, token: &[u8]) -> bool {
        if token.len() > TOKEN_BYTES_MAX {
            return false;
        }
        let mut caller = Self { shown: Shown::Token(hash_of(token)), ..Self::default() };
        caller.refresh(tokens);
        let holds = caller
            .token
            .as_ref()
            .is_some_and(|known| name.is_none_or(|name| name == known.name.as_bytes()));
        if holds {
            *self = caller;
        }
        holds
    }

    /// The token that it shows, if that holds.
    pub(crate) fn token(&self) -> Option<&Arc<Token>> {
        self.token.as_ref()
    }

    /// Whether what it has shown lets it do only what is open to all.
    pub(crate) fn is_stranger(&self) -> bool {
        match (&self.token, &self.shown) {
            (Some(_), _) => false,
            (None, Shown::Nothing) => self.anonymous.is_none(),
            (None, Shown::Nonsense | Shown::Token(_)) => true,
        }
    }

    /// Whether it shows a token that does not hold.
    pub(crate) fn shows_an_unknown_token(&self) -> bool {
        self.shown != Shown::Nothing && self.token.is_none()
    }

    /// Checks whether it may do what needs this much.
    ///
    /// # Errors
    /// Why not.
    #[inline]
    pub(crate) fn check(&self, needs: Needs) -> Result<(), Denial> {
        if needs == Needs::Nothing {
            return Ok(());
        }
        match (&self.token, &self.shown) {
            (Some(token), _) if token.role.is_enough_for(needs) => Ok(()),
            (Some(token), _) => Err(Denial::Role { has: token.role, needs }),
            (None, Shown::Nonsense) => Err(Denial::NotBearer),
            (None, Shown::Token(_)) => Err(Denial::UnknownToken),
            (None, Shown::Nothing) => match self.anonymous {
                Some(role) if role.is_enough_for(needs) => Ok(()),
                _ => Err(Denial::NoToken),
            },
        }
    }

    /// Checks whether its token reaches a tag.
    ///
    /// # Errors
    /// When it does not.
    #[inline]
    pub(crate) fn check_tag(&self, tag: &[u8]) -> Result<(), Denial> {
        match &self.token {
            Some(token) if !token.reaches(tag) => Err(Denial::Tags),
            _ => Ok(()),
        }
    }

    /// Checks whether it may make a request that needs this and is about that. `tag` is the tag that the path names, if
    /// it can be read.
    ///
    /// # Errors
    /// Why not.
    #[inline]
    pub(crate) fn check_request<T: AsRef<str>>(
        &self,
        needs: Needs,
        scope: Scope,
        tag: impl FnOnce() -> Option<T>,
    ) -> Result<(), Denial> {
        if scope == Scope::TagOfParameter {
            return Ok(());
        }
        self.check(needs)?;
        let confined = self.token.as_ref().is_some_and(|token| token.tags.is_some());
        match scope {
            Scope::TagOfPath if confined => match tag() {
                Some(tag) => self.check_tag(tag.as_ref().as_bytes()),
                None => Err(Denial::Tags),
            },
            Scope::Everything if confined => Err(Denial::Tags),
            Scope::NoTag
            | Scope::TagOfBody
            | Scope::TagOfParameter
            | Scope::TagOfPath
            | Scope::Everything => Ok(()),
        }
    }
}

/// The token in an `Authorization` of RFC 6750.
fn bearer(header: &[u8]) -> Option<&[u8]> {
    const SCHEME: &[u8] = b"bearer ";
    if header.len() > SHOWN_BYTES_MAX {
        return None;
    }
    let (scheme, rest) = header.split_at_checked(SCHEME.len())?;
    let token = rest.trim_ascii();
    let is_one = (1..=TOKEN_BYTES_MAX).contains(&token.len()) && !token.contains(&b' ');
    (scheme.eq_ignore_ascii_case(SCHEME) && is_one).then_some(token)
}

#[cfg(test)]
mod tests;
