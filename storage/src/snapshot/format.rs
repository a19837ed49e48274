//! The layout of a snapshot file.
//!
//! The file is `["MLSN"][format u8][meta length u32 LE][meta][body]` with a trailer of
//! `[body length u64 LE][crc32 u32 LE]`; the checksum covers everything before it. The whole file
//! is sent from node to node, so a receiver verifies exactly what the sender wrote.

use crate::error::StorageError;
use crate::limits::SNAPSHOT_META_BYTES_MAX;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::os::unix::fs::FileExt;

const MAGIC: [u8; 4] = *b"MLSN";
const FORMAT: u8 = 1;
const HEADER_BYTES: u64 = 9;
const TRAILER_BYTES: u64 = 12;

/// Reads a file from a separate position, independent of the file's own.
pub(super) struct FileAt<'a> {
    pub(super) file: &'a File,
    /// Offset of the next byte.
    pub(super) at: u64,
}

impl Read for FileAt<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read_at(buffer, self.at)?;
        self.at += read as u64;
        Ok(read)
    }
}

/// Passes bytes through to `inner`, and keeps their checksum and their number.
struct Summed<T> {
    inner: T,
    hasher: crc32fast::Hasher,
    bytes: u64,
}

impl<T> Summed<T> {
    fn new(inner: T) -> Self {
        Summed { inner, hasher: crc32fast::Hasher::new(), bytes: 0 }
    }

    fn sum(&mut self, bytes: &[u8]) {
        self.hasher.update(bytes);
        self.bytes += bytes.len() as u64;
    }
}

impl<T: Write> Write for Summed<T> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.sum(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

impl<T: Read> Read for Summed<T> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.sum(&buffer[..read]);
        Ok(read)
    }
}

/// Checks the size of a meta part.
pub(super) fn check_meta(meta: &[u8]) -> Result<(), StorageError> {
    let (bytes, bytes_max) = (meta.len(), SNAPSHOT_META_BYTES_MAX);
    if bytes <= bytes_max {
        return Ok(());
    }
    Err(StorageError::TooLarge { what: "snapshot meta", bytes, bytes_max })
}

/// Writes a whole snapshot file; the caller syncs it.
pub(super) fn write(
    file: &File,
    meta: &[u8],
    body: &mut dyn FnMut(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    let mut out = Summed::new(BufWriter::with_capacity(64 << 10, file));
    out.write_all(&MAGIC)?;
    out.write_all(&[FORMAT])?;
    let meta_len = u32::try_from(meta.len()).map_err(io::Error::other)?;
    out.write_all(&meta_len.to_le_bytes())?;
    out.write_all(meta)?;
    let before_body = out.bytes;
    body(&mut out)?;
    let body_len = out.bytes - before_body;
    out.write_all(&body_len.to_le_bytes())?;
    let crc = out.hasher.clone().finalize();
    out.write_all(&crc.to_le_bytes())?;
    out.flush()
}

/// The parts of a verified file.
#[derive(Clone)]
pub(super) struct Parts {
    pub(super) meta: Vec<u8>,
    /// Offset and length of the body, in bytes.
    pub(super) body: (u64, u64),
}

/// Reads a whole file from its start and verifies it. The inner error describes what is wrong with the content.
pub(super) fn verify(file: &File) -> io::Result<Result<Parts, String>> {
    let len = file.metadata()?.len();
    if len < HEADER_BYTES + TRAILER_BYTES {
        return Ok(Err(format!("snapshot of {len} bytes is cut short")));
    }
    let whole = BufReader::with_capacity(64 << 10, FileAt { file, at: 0 });
    let mut input = Summed::new(whole);
    let mut header = [0; HEADER_BYTES as usize];
    input.read_exact(&mut header)?;
    let [m0, m1, m2, m3, format, meta_len @ ..] = header;
    if [m0, m1, m2, m3] != MAGIC || format != FORMAT {
        return Ok(Err("not a snapshot of a format this release reads".into()));
    }
    let meta_len = u64::from(u32::from_le_bytes(meta_len));
    if meta_len > SNAPSHOT_META_BYTES_MAX as u64 || HEADER_BYTES + meta_len + TRAILER_BYTES > len {
        return Ok(Err(format!("snapshot meta of {meta_len} bytes does not fit")));
    }
    let mut meta = vec![0; meta_len as usize];
    input.read_exact(&mut meta)?;
    let body = (HEADER_BYTES + meta_len, len - HEADER_BYTES - meta_len - TRAILER_BYTES);
    let copied = io::copy(&mut (&mut input).take(body.1), &mut io::sink())?;
    let mut body_len = [0; 8];
    input.read_exact(&mut body_len)?;
    let crc = input.hasher.clone().finalize();
    let mut stored_crc = [0; 4];
    input.read_exact(&mut stored_crc)?;
    if crc != u32::from_le_bytes(stored_crc) || copied != u64::from_le_bytes(body_len) {
        return Ok(Err("snapshot checksum does not match".into()));
    }
    Ok(Ok(Parts { meta, body }))
}
