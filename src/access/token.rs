//! One token: what it allows, and its SHA-256, which is all that a node knows of it.
//!
//! A token is looked up by its hash in a map: how long that takes says nothing of how much of a guess was right,
//! because no guess can come near a hash step by step.

use ring::digest::{SHA256, digest};

use super::role::Role;
use crate::text::fingerprints::hex;

/// The SHA-256 of a token's bytes.
pub(crate) type Hash = [u8; 32];

/// What one token allows.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Token {
    pub(crate) name: String,
    pub(crate) role: Role,
    /// The tags that it is confined to; `None` for all.
    pub(crate) tags: Option<Vec<TagGlob>>,
}

impl Token {
    /// Whether it reaches a tag of this name.
    #[inline]
    pub(crate) fn reaches(&self, tag: &[u8]) -> bool {
        self.tags.as_ref().is_none_or(|globs| globs.iter().any(|glob| glob.fits(tag)))
    }
}

/// Names of tags: one, or all that begin alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TagGlob {
    pub(crate) begin: String,
    /// Whether anything may follow.
    pub(crate) open: bool,
}

impl TagGlob {
    #[inline]
    fn fits(&self, tag: &[u8]) -> bool {
        match self.open {
            true => tag.starts_with(self.begin.as_bytes()),
            false => tag == self.begin.as_bytes(),
        }
    }
}

/// The hash of a token, which identifies it.
pub fn hash_of(token: &[u8]) -> Hash {
    let mut hash = Hash::default();
    hash.copy_from_slice(digest(&SHA256, token).as_ref());
    hash
}

/// A hash as it stands in the auth file.
pub fn written_hash(hash: &Hash) -> String {
    format!("sha256:{}", hex(hash))
}
