//! Code that the targets in `targets/` share. See README.md.
#![cfg(feature = "fuzzer")]

mod auth;
mod client;
mod ground;
mod log;

use std::path::PathBuf;

pub use auth::{TOKEN, shows_token, tokens};
pub use client::Server;
pub use ground::{NODE_ID, STORE, Service, Site};
use libfuzzer_sys::arbitrary::{Result, Unstructured};
use tempfile::TempDir;

/// A frame of the codec with a correct checksum, which a fuzzer would not find in reasonable time.
pub fn sealed(format: u8, body: &[u8]) -> Vec<u8> {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&[format]);
    hasher.update(body);
    [&[format][..], &hasher.finalize().to_le_bytes(), body].concat()
}

/// Checks an entry point that reads bytes and writes them again: it must read what it wrote as the same.
///
/// # Panics
/// When it does not.
pub fn stays_the_same(entry_point: impl Fn(&[u8]) -> Option<Vec<u8>>, bytes: &[u8]) {
    if let Some(written) = entry_point(bytes) {
        assert_eq!(
            entry_point(&written).as_deref(),
            Some(&written[..]),
            "written otherwise than read"
        );
    }
}

/// A number near one of `marks`, or any number.
///
/// # Errors
/// When the input has ended.
pub fn near(input: &mut Unstructured<'_>, marks: &[u64]) -> Result<u64> {
    if input.ratio(1, 8)? {
        return input.arbitrary();
    }
    let mark = *input.choose(marks)?;
    Ok(mark.wrapping_add_signed(i64::from(input.arbitrary::<i8>()?)))
}

/// Bytes with changes. Each three bytes of `edits` are a position, and the change there.
pub fn edited(bytes: &[u8], edits: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for edit in edits.chunks_exact(3) {
        let place = usize::from(u16::from_le_bytes([edit[0], edit[1]])) % bytes.len().max(1);
        if let Some(byte) = bytes.get_mut(place) {
            *byte ^= edit[2];
        }
    }
    bytes
}

/// A file in PEM (RFC 7468).
pub fn pem(label: &str, der: &[u8]) -> Vec<u8> {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = format!("-----BEGIN {label}-----").into_bytes();
    for (at, three) in der.chunks(3).enumerate() {
        if at % 16 == 0 {
            text.push(b'\n');
        }
        let bits = three.iter().fold(0, |bits, byte| bits << 8 | usize::from(*byte));
        let bits = bits << (8 * (3 - three.len()));
        let digits = [18, 12, 6, 0].map(|shift| DIGITS[bits >> shift & 63]);
        text.extend_from_slice(&digits[..=three.len()]);
        text.extend_from_slice(&b"=="[..3 - three.len()]);
    }
    text.extend_from_slice(format!("\n-----END {label}-----\n").as_bytes());
    text
}

/// A temporary directory, in memory if possible.
///
/// # Panics
/// When it cannot be made.
pub fn temp_dir() -> TempDir {
    let memory = PathBuf::from("/dev/shm");
    let parent = if memory.is_dir() { memory } else { std::env::temp_dir() };
    tempfile::tempdir_in(parent).expect("a directory can be made")
}
