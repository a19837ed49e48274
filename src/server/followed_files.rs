//! Files that a node looks at while it runs: every 5 s, and at once on a signal.

use std::time::Duration;

use tokio::time::{sleep, timeout};

use super::signals::Reload;
use crate::config::ConfigError;

/// Time between two looks at the files, which a signal cuts short.
pub(super) const LOOK_INTERVAL: Duration = Duration::from_secs(5);

/// What a node takes into use whenever its files change.
pub(super) trait FollowedFiles {
    /// What log lines call it.
    const WHAT: &'static str;
    /// What the files hold, usable or not.
    type Content: PartialEq + Send + 'static;

    /// Reads the files; run where it may block.
    fn reader(&self) -> impl FnOnce() -> Result<Self::Content, ConfigError> + Send + 'static;

    /// Takes what the files hold into use.
    ///
    /// # Errors
    /// When it cannot be used; then everything stays as it is.
    fn take(&mut self, content: &Self::Content) -> Result<(), ConfigError>;

    /// Called before each look, with its number.
    fn before_look(&self, _look: u32) {}
}

/// Takes the files into use whenever they change, for as long as it is polled. `seen` is what they held when they
/// were read last. Files that cannot be used change nothing.
pub(super) async fn follow<F: FollowedFiles>(
    mut files: F,
    mut seen: F::Content,
    mut reload: Reload,
) {
    let what = F::WHAT;
    for look in 0.. {
        files.before_look(look);
        let asked = timeout(LOOK_INTERVAL, reload.asked()).await.is_ok();
        match tokio::task::spawn_blocking(files.reader()).await {
            Ok(Ok(content)) if content == seen => {
                if asked {
                    tracing::info!("the {what} are unchanged");
                }
            }
            Ok(Ok(content)) => {
                match files.take(&content) {
                    Ok(()) => tracing::info!("took new {what} into use"),
                    Err(error) => {
                        tracing::error!(%error, "new {what} cannot be used; the old ones stay");
                    }
                }
                seen = content;
            }
            Ok(Err(error)) if asked => tracing::error!(%error, "cannot read the {what} again"),
            // A file may be missing for a moment while it is replaced.
            Ok(Err(_)) => {}
            // The runtime is ending.
            Err(_) => sleep(LOOK_INTERVAL).await,
        }
    }
}
