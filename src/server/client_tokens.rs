//! The tokens of clients, kept in step with the auth file.

use std::sync::Arc;

use super::followed_files::{FollowedFiles, follow};
use super::signals::Reload;
use crate::access::Tokens;
use crate::config::{AuthSource, ConfigError};
use crate::metrics::Reloaded;
use crate::service::Services;

/// Keeps the tokens up to date with the auth file.
pub(super) struct ClientTokens {
    source: AuthSource,
    seen: Vec<u8>,
    current: Arc<Tokens>,
}

impl ClientTokens {
    /// Reads the auth file of a node that starts.
    ///
    /// # Errors
    /// When it cannot be used.
    pub(super) fn open(source: AuthSource) -> Result<Self, ConfigError> {
        let seen = source.read()?;
        let file = source.parse(&seen)?;
        source.warn_of_strangers(&file);
        let current = Arc::new(Tokens::new(file));
        Ok(Self { source, seen, current })
    }

    /// The tokens at any time.
    pub(super) fn current(&self) -> Arc<Tokens> {
        Arc::clone(&self.current)
    }

    /// Reads the file again when it changes, and on a signal, for as long as it is polled.
    pub(super) async fn follow(mut self, reload: Reload, services: Services) {
        let seen = std::mem::take(&mut self.seen);
        follow(self, seen, reload, services).await;
    }
}

impl FollowedFiles for ClientTokens {
    const WHAT: &'static str = "tokens of clients";
    const LABEL: Reloaded = Reloaded::Tokens;
    type Content = Vec<u8>;

    fn reader(&self) -> impl FnOnce() -> Result<Vec<u8>, ConfigError> + Send + 'static {
        let source = self.source.clone();
        move || source.read()
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
