//! The name of this build.

/// The release: what nodes tell each other. A build with the feature `next-level` has a name of its own.
#[cfg(not(feature = "next-level"))]
macro_rules! release {
    () => {
        env!("CARGO_PKG_VERSION")
    };
}
#[cfg(feature = "next-level")]
macro_rules! release {
    () => {
        concat!(env!("CARGO_PKG_VERSION"), "-next")
    };
}

/// The version of this build.
pub const VERSION: &str = release!();
/// The commit that was built, 12 hexadecimal digits; `unknown` where the sources had no repository.
pub const COMMIT: &str = env!("MINTLEAF_COMMIT");
/// Both, for people.
pub const VERSION_AND_COMMIT: &str = concat!(release!(), " (", env!("MINTLEAF_COMMIT"), ")");
