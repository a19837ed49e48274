//! The name of this build.

/// The commit of this build, where the builder has said it by the variable `MINTLEAF_COMMIT`.
pub const COMMIT: &str = match option_env!("MINTLEAF_COMMIT") {
    Some(commit) => commit,
    None => "unknown",
};

/// The version of this build. A build with the feature `next-level` has a name of its own.
pub const VERSION: &str = if cfg!(feature = "next-level") {
    concat!(env!("CARGO_PKG_VERSION"), "-next")
} else {
    env!("CARGO_PKG_VERSION")
};
