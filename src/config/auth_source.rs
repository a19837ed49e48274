//! The auth file on disk.

use std::path::PathBuf;

use super::error::{ConfigError, fault};
use super::named_file::{self, Kept};
use crate::access::{AUTH_FILE_BYTES_MAX, AuthFile, Role};

/// The flag that names the file.
const FLAG: &str = "auth-file";

/// Where the tokens of clients are listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthSource {
    path: PathBuf,
    /// The flags with addresses that clients on other machines can reach.
    reachable: Vec<String>,
    /// Whether strangers are kept from these in another way.
    insecure: bool,
}

impl AuthSource {
    /// The file at this path, for a node that clients reach at these addresses.
    pub(super) fn at(path: PathBuf, reachable: Vec<String>, insecure: bool) -> Self {
        Self { path, reachable, insecure }
    }

    /// Reads the file.
    ///
    /// # Errors
    /// When it cannot be read, is not a regular file, is too long, or users other than its owner may read it.
    pub fn read(&self) -> Result<Vec<u8>, ConfigError> {
        named_file::read(FLAG, &self.path, AUTH_FILE_BYTES_MAX, Kept::Private)
    }

    /// The tokens that its text lists.
    ///
    /// # Errors
    /// When it cannot be used, or would let strangers change everything.
    pub fn parse(&self, text: &[u8]) -> Result<AuthFile, ConfigError> {
        let text = std::str::from_utf8(text).map_err(|_| self.fault("is not UTF-8"))?;
        let file = AuthFile::parse(text).map_err(|error| self.fault(error))?;
        match &self.reachable[..] {
            [address, ..] if !self.insecure && file.anonymous() == Some(Role::Admin) => {
                Err(self.fault(format_args!(
                    "anonymous = \"admin\" lets anyone who reaches {address} change everything: remove that line \
                     and give callers tokens, or listen on a loopback address, or give --insecure where a firewall \
                     keeps strangers out"
                )))
            }
            _ => Ok(file),
        }
    }

    /// Warns of what strangers may do, if strangers reach the node and the file allows callers without a token
    /// anything.
    pub fn warn_of_strangers(&self, file: &AuthFile) {
        if let Some(role) = file.anonymous().filter(|_| !self.reachable.is_empty()) {
            tracing::warn!(
                addresses = self.reachable.join(", "),
                anonymous = role.name(),
                "other machines can reach this node, and callers without a token may do what `anonymous` in the \
                 auth file says"
            );
        }
    }

    fn fault(&self, what: impl std::fmt::Display) -> ConfigError {
        fault(FLAG, format_args!("{}: {what}", self.path.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strangers_may_not_be_let_in_as_administrators() {
        let parsed = |reachable: &[&str], insecure, role: &str| {
            let reachable = reachable.iter().map(|&text| text.to_owned()).collect();
            let source = AuthSource::at("auth.toml".into(), reachable, insecure);
            let text = format!("anonymous = \"{role}\"");
            source.parse(text.as_bytes()).map_err(|error| error.to_string())
        };
        let refused = parsed(&["--http 0.0.0.0:1"], false, "admin").unwrap_err();
        assert!(
            refused.contains("--http 0.0.0.0:1") && refused.contains("--insecure"),
            "{refused}"
        );
        assert!(parsed(&[], false, "admin").is_ok());
        assert!(parsed(&["--http 0.0.0.0:1"], true, "admin").is_ok());
        for role in ["issue", "read"] {
            assert!(parsed(&["--http 0.0.0.0:1"], false, role).is_ok(), "{role}");
        }
    }
}
