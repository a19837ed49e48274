//! Which callers may do what: roles, what a request can need, and the tokens of the auth file. `http/routes.rs` and
//! `resp/commands.rs` have what each of them needs.
//!
//! ```text
//! caller      one connection: the sender of its requests, remembered
//!   tokens    the tokens that hold now; a number that rises with every change of them
//!     auth_file   the file that lists them, read strictly
//!       token     one token, known by its hash
//!     role    the roles, and what a request can need of them
//! ```
//!
//! Without an auth file clients need no token, and `http/access.rs` has separate rules.

mod auth_file;
mod caller;
mod role;
mod token;
mod tokens;

pub(crate) use auth_file::{AUTH_FILE_BYTES_MAX, checked_name, checked_tags};
pub use auth_file::{AuthFile, AuthFileError};
pub(crate) use caller::{Caller, Denial};
pub use role::Role;
pub(crate) use role::{Demand, Needs, Scope};
pub(crate) use token::Token;
pub use token::{hash_of, written_hash};
pub use tokens::Tokens;

use std::sync::Arc;

/// What keeps strangers from the ports of clients.
#[derive(Clone, Debug, Default)]
pub struct AccessPolicy {
    /// The tokens that clients show; `None` without an auth file.
    pub tokens: Option<Arc<Tokens>>,
    /// Whether every client that reaches the HTTP port may make changes without a token, rather than clients on this
    /// machine alone. With an auth file, only if that lets callers without a token change anything.
    pub insecure: bool,
}
