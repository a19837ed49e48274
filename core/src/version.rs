//! The name of this release.

/// The version of this build, which nodes report to each other.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
