//! The tokens of clients, kept in step with the auth file.

use std::sync::Arc;

use super::followed_files::FollowedFiles;
use crate::access::Tokens;
use crate::config::{AuthSource, ConfigError};
use crate::metrics::Reloaded;

/// Keeps the tokens up to date with the auth file.
#[derive(Clone)]
pub(super) struct ClientTokens {
    source: AuthSource,
    current: Arc<Tokens>,
}

impl ClientTokens {
    /// Reads the auth file of a node that starts, and returns its text, too.
    ///
    /// # Errors
    /// When it cannot be used.
    pub(super) fn open(source: AuthSource) -> Result<(Self, Vec<u8>), ConfigError> {
        let seen = source.read()?;
        let file = source.parse(&seen)?;
        source.warn_of_strangers(&file);
        let current = Arc::new(Tokens::new(file));
        Ok((Self { source, current }, seen))
    }

    /// The tokens at any time.
    pub(super) fn current(&self) -> Arc<Tokens> {
        Arc::clone(&self.current)
    }
}

impl FollowedFiles for ClientTokens {
    const WHAT: &'static str = "tokens of clients";
    const LABEL: Reloaded = Reloaded::Tokens;
    type Content = Vec<u8>;

    fn read(&self) -> Result<Vec<u8>, ConfigError> {
        self.source.read()
    }

    fn take(&mut self, text: &Vec<u8>) -> Result<(), ConfigError> {
        let file = self.source.parse(text)?;
        self.source.warn_of_strangers(&file);
        self.current.replace(file);
        Ok(())
    }

    fn keys(&self) -> Option<String> {
        Some(self.current.fingerprint())
    }
}
