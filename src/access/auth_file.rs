//! The auth file: which tokens there are, and what each allows. It is read strictly, because a key that is ignored
//! would leave a door open.
//!
//! An error names the line and what is wrong there, and quotes neither key nor value: the operator may have written a
//! token where its hash or a name belongs.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use thiserror::Error;
use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

use super::role::Role;
use super::token::{Hash, TagGlob, Token, hash_of};
use crate::text::fingerprints::hex;

/// Longest auth file.
pub(crate) const AUTH_FILE_BYTES_MAX: usize = 8 << 20;
/// Maximum number of tokens of one file.
const TOKENS_MAX: usize = 10_000;
/// Longest name of a token, in bytes.
const NAME_BYTES_MAX: usize = 64;
/// What the audit calls callers without a token. No token has this name.
const ANONYMOUS: &str = "anonymous";
/// Maximum number of entries of one token's `tags`: each request of such a token looks at them.
const TAGS_MAX: usize = 64;
/// Bytes of the hash of an auth file's text that distinguish it from another: few, because people compare them.
const FINGERPRINT_BYTES: usize = 4;
/// Longest entry of `tags`, in characters: as long as the longest tag, and a star.
const TAG_CHARS_MAX: usize = 129;

/// An auth file that cannot be used.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum AuthFileError {
    /// Something is wrong at one place.
    #[error("line {line}: {what}")]
    Line {
        /// The line, counted from 1.
        line: usize,
        /// What is wrong there, and what would work.
        what: String,
    },
    /// Something is wrong with the whole.
    #[error("{0}")]
    Whole(&'static str),
}

/// What an auth file says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuthFile {
    /// What callers without a token may do.
    pub(super) anonymous: Option<Role>,
    pub(super) by_hash: HashMap<Hash, Arc<Token>>,
    /// The first bytes of the SHA-256 of its text, in hexadecimal digits. They reveal nothing about a token: the text has
    /// only the hash of each token, and so few bits do not tell which text they come from.
    fingerprint: String,
}

impl AuthFile {
    /// What callers without a token may do.
    pub(crate) fn anonymous(&self) -> Option<Role> {
        self.anonymous
    }

    /// What distinguishes it from another file, for people.
    pub(crate) fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    /// Reads the text of an auth file.
    ///
    /// # Errors
    /// The first place that is wrong.
    pub fn parse(text: &str) -> Result<Self, AuthFileError> {
        if text.len() > AUTH_FILE_BYTES_MAX {
            return Err(AuthFileError::Whole("is longer than 8 MiB"));
        }
        let root = DeTable::parse(text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            wrong(text, at, format_args!("is not TOML: {}", error.message()))
        })?;
        let fingerprint = hex(&hash_of(text.as_bytes())[..FINGERPRINT_BYTES]);
        let mut file = Self { fingerprint, ..Self::default() };
        let mut names = HashSet::new();
        for (key, value) in root.get_ref() {
            match key.get_ref().as_ref() {
                "anonymous" => file.anonymous = Some(anonymous_role(text, value)?),
                "token" => file.add_tokens(text, value, &mut names)?,
                _ => return Err(unknown_key(text, key, "anonymous and [[token]]")),
            }
        }
        if file.by_hash.is_empty() && file.anonymous.is_none() {
            return Err(AuthFileError::Whole(
                "has no [[token]] and no anonymous, so no caller could do anything; `mintleaf token new` \
                 prints the lines of a token",
            ));
        }
        Ok(file)
    }

    fn add_tokens(
        &mut self,
        text: &str,
        value: &Spanned<DeValue<'_>>,
        names: &mut HashSet<String>,
    ) -> Result<(), AuthFileError> {
        let DeValue::Array(entries) = value.get_ref() else {
            return Err(wrong(text, value.span().start, "token must be written as [[token]]"));
        };
        if entries.len() > TOKENS_MAX {
            let what = format_args!("has more than {TOKENS_MAX} tokens");
            return Err(wrong(text, value.span().start, what));
        }
        for entry in entries.iter() {
            let line = entry.span().start;
            let DeValue::Table(fields) = entry.get_ref() else {
                return Err(wrong(text, line, "token must be written as [[token]]"));
            };
            let (hash, token) = read_token(text, line, fields)?;
            if !names.insert(token.name.clone()) {
                let what = format_args!("the name {} is there already", token.name);
                return Err(wrong(text, line, what));
            }
            let name = token.name.clone();
            if let Some(other) = self.by_hash.insert(hash, Arc::new(token)) {
                let what = format_args!("{name} has the same hash as {}", other.name);
                return Err(wrong(text, line, what));
            }
        }
        Ok(())
    }
}

fn read_token(
    text: &str,
    line: usize,
    fields: &DeTable<'_>,
) -> Result<(Hash, Token), AuthFileError> {
    let (mut name, mut hash, mut its_role, mut tags) = (None, None, None, None);
    for (key, value) in fields {
        let at = value.span().start;
        match key.get_ref().as_ref() {
            "name" => {
                let given = string(text, "name", value)?;
                name = Some(checked_name(given).map_err(|what| wrong(text, at, what))?.to_owned());
            }
            "hash" => {
                let given = string(text, "hash", value)?;
                let what = "hash must be sha256: and 64 lower-case hex digits, those of the SHA-256 of the \
                            token's bytes";
                hash = Some(read_hash(given).ok_or_else(|| wrong(text, at, what))?);
            }
            "role" => its_role = Some(role(text, "role", value)?),
            "tags" => tags = Some(read_tags(text, value)?),
            _ => return Err(unknown_key(text, key, "name, hash, role and tags")),
        }
    }
    let missing = |what: &str| wrong(text, line, format_args!("the token has no {what}"));
    let token = Token {
        name: name.ok_or_else(|| missing("name"))?,
        role: its_role.ok_or_else(|| missing("role"))?,
        tags,
    };
    Ok((hash.ok_or_else(|| missing("hash"))?, token))
}

fn read_hash(text: &str) -> Option<Hash> {
    let digits = text.strip_prefix("sha256:")?.as_bytes();
    let value = |digit: u8| match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    };
    let mut hash = Hash::default();
    if digits.len() != 2 * hash.len() {
        return None;
    }
    for (byte, pair) in hash.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = value(pair[0])? << 4 | value(pair[1])?;
    }
    Some(hash)
}

fn read_tags(text: &str, value: &Spanned<DeValue<'_>>) -> Result<Vec<TagGlob>, AuthFileError> {
    let DeValue::Array(entries) = value.get_ref() else {
        return Err(wrong(text, value.span().start, "tags must be a list of strings"));
    };
    let mut given = Vec::new();
    for entry in entries.iter() {
        given.push(string(text, "each of tags", entry)?);
    }
    checked_tags(&given).map_err(|what| wrong(text, value.span().start, what))
}

/// Checks the name of a token.
///
/// # Errors
/// What it must be.
pub(crate) fn checked_name(name: &str) -> Result<&str, String> {
    let is_sound = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.@".contains(&byte);
    if name == ANONYMOUS {
        return Err(format!(
            "name may not be {ANONYMOUS}, which is what the audit calls callers without a token"
        ));
    }
    match (1..=NAME_BYTES_MAX).contains(&name.len()) && name.bytes().all(is_sound) {
        true => Ok(name),
        false => Err(format!(
            "name must be 1 to {NAME_BYTES_MAX} letters, digits and the characters - _ . @"
        )),
    }
}

/// Checks the tags that a token is confined to.
///
/// # Errors
/// What they must be.
pub(crate) fn checked_tags(given: &[&str]) -> Result<Vec<TagGlob>, String> {
    if !(1..=TAGS_MAX).contains(&given.len()) {
        return Err(format!(
            "tags must list 1 to {TAGS_MAX} names; a token without tags reaches all of them"
        ));
    }
    let globs = given.iter().map(|text| {
        let (begin, open) = text.strip_suffix('*').map_or((*text, false), |begin| (begin, true));
        let is_sound = !text.is_empty()
            && text.chars().count() <= TAG_CHARS_MAX
            && !begin.contains('*')
            && !begin.contains(char::is_control);
        is_sound.then(|| TagGlob { begin: begin.to_owned(), open })
    });
    globs.collect::<Option<_>>().ok_or_else(|| {
        "each of tags must be the name of a tag, or its beginning and one star at the end"
            .to_owned()
    })
}

/// The role of callers without a token. The whole state, with the keys of hidden ids, is not for everybody.
fn anonymous_role(text: &str, value: &Spanned<DeValue<'_>>) -> Result<Role, AuthFileError> {
    match role(text, "anonymous", value)? {
        Role::Backup => {
            let what = "anonymous must be issue, read or admin: a backup needs a token";
            Err(wrong(text, value.span().start, what))
        }
        role => Ok(role),
    }
}

fn role(text: &str, key: &str, value: &Spanned<DeValue<'_>>) -> Result<Role, AuthFileError> {
    let what = format_args!("{key} must be {}", Role::NAMES).to_string();
    Role::named(string(text, key, value)?).ok_or_else(|| wrong(text, value.span().start, what))
}

fn string<'a>(
    text: &str,
    key: &str,
    value: &'a Spanned<DeValue<'_>>,
) -> Result<&'a str, AuthFileError> {
    match value.get_ref() {
        DeValue::String(string) => Ok(string),
        _ => Err(wrong(text, value.span().start, format_args!("{key} must be a string"))),
    }
}

fn unknown_key(text: &str, key: &Spanned<DeString<'_>>, known: &str) -> AuthFileError {
    wrong(text, key.span().start, format_args!("unknown key; there are {known}"))
}

fn wrong(text: &str, at: usize, what: impl std::fmt::Display) -> AuthFileError {
    let before = &text.as_bytes()[..at.min(text.len())];
    let line = 1 + before.iter().filter(|byte| **byte == b'\n').count();
    AuthFileError::Line { line, what: what.to_string() }
}

#[cfg(test)]
mod tests;
