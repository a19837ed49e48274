//! The name of this build.

/// The commit that was built, 12 hexadecimal digits; `unknown` where the sources had no repository.
pub const COMMIT: &str = env!("MINTLEAF_COMMIT");
/// Version and commit, for people.
pub const VERSION_AND_COMMIT: &str = env!("MINTLEAF_VERSION_AND_COMMIT");
