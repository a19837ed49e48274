//! The name of this release.

/// The version of this build: what nodes tell each other. A build with the feature `next-level` has a name of its own.
pub const VERSION: &str = if cfg!(feature = "next-level") {
    concat!(env!("CARGO_PKG_VERSION"), "-next")
} else {
    env!("CARGO_PKG_VERSION")
};
