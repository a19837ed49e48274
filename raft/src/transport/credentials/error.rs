//! The error of credentials.

/// Why credentials cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CredentialsError {
    /// A secret is too short, or there are too many or none.
    #[error("{0}")]
    Secret(String),
    /// A certificate or a key cannot be used.
    #[error("{0}")]
    Certificate(String),
}
