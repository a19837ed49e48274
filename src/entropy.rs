//! Randomness. The only reader of the operating system's generator.

use std::io;

/// 128 random bits: the identity of a new data directory.
///
/// # Errors
/// When the operating system has none to give; the caller must not go on with less.
pub fn random_u128() -> io::Result<u128> {
    let mut bytes = [0; 16];
    // The room that the ban on generators leaves open.
    #[expect(clippy::disallowed_methods)]
    getrandom::fill(&mut bytes)
        .map_err(|error| io::Error::other(format!("no random numbers: {error}")))?;
    Ok(u128::from_be_bytes(bytes))
}
