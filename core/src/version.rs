//! The name of this release.

/// The version of this build, which nodes report to each other. A build with the feature `next-level` has another name.
pub const VERSION: &str = if cfg!(feature = "next-level") {
    concat!(env!("CARGO_PKG_VERSION"), "-next")
} else {
    env!("CARGO_PKG_VERSION")
};
