//! Fingerprints of keys and files, for people.

use std::fmt::Write;

/// Bytes in lower-case hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a `String` cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// The beginnings of fingerprints: enough to see which node still has the old secret.
pub(crate) fn brief<'a>(fingerprints: impl Iterator<Item = &'a str>) -> String {
    let shown: Vec<&str> = fingerprints.map(|it| it.get(..8).unwrap_or(it)).collect();
    shown.join(",")
}
