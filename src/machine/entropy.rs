//! Randomness. The only reader of the operating system's generator.

use std::io;

use crate::text::fingerprints::hex;

/// 128 random bits: enough for a name that nothing else ever has.
///
/// # Errors
/// When the operating system has none to give; the caller must not go on with less.
pub fn random_u128() -> io::Result<u128> {
    random_bytes().map(u128::from_be_bytes)
}

/// Random bytes as hexadecimal digits, two for each byte.
///
/// # Errors
/// As [`random_bytes`].
pub fn random_hex<const N: usize>() -> io::Result<String> {
    let bytes: [u8; N] = random_bytes()?;
    Ok(hex(&bytes))
}

/// Random bytes, for keys.
///
/// # Errors
/// When the operating system has none to give; the caller must not go on with less.
pub fn random_bytes<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    // The one place that the ban on generators leaves open.
    #[expect(clippy::disallowed_methods)]
    getrandom::fill(&mut bytes)
        .map_err(|error| io::Error::other(format!("no random numbers: {error}")))?;
    Ok(bytes)
}
