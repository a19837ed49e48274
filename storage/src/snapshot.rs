//! Snapshot files: one current snapshot, replaced as a whole.
//!
//! `snapshot/current` is `["MLSN"][format u8][meta length u32 LE][meta][body]` and a trailer of
//! `[body length u64 LE][crc32 u32 LE]`; the checksum covers everything before it. The whole file
//! is what travels between nodes, so a receiver verifies what the sender wrote.

use parking_lot::Mutex;

use crate::data_dir::DataDir;
use crate::error::{Context, StorageError};
use crate::files;
use crate::planted;
use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Largest meta part, in bytes.
pub const SNAPSHOT_META_BYTES_MAX: usize = 1 << 20;

const MAGIC: [u8; 4] = *b"MLSN";
const FORMAT: u8 = 1;
const HEADER_BYTES: u64 = 9;
const TRAILER_BYTES: u64 = 12;

const DIR: &str = "snapshot";
const CURRENT: &str = "current";
const TEMP_PREFIX: &str = "temp-";

/// The snapshots of one data directory. Writers may run at the same time; the last to finish is
/// the current one, so who writes decides what is newer.
pub struct Snapshots {
    dir: PathBuf,
    temps: AtomicU64,
    /// What the current file consists of, once this process has verified it. A leader sends it
    /// often, and must not read all of it each time: who receives it verifies it anyway.
    verified: Mutex<Option<Parts>>,
    _lock: Arc<File>,
}

impl Snapshots {
    /// Opens the snapshots in `dir` and removes what unfinished writers left behind.
    pub fn open(dir: &DataDir) -> Result<Self, StorageError> {
        let path = dir.path().join(DIR);
        files::create_dir(&path)?;
        remove_temps(&path)?;
        Ok(Snapshots {
            dir: path,
            temps: AtomicU64::new(0),
            verified: Mutex::default(),
            _lock: dir.share_lock(),
        })
    }

    /// A new empty file, for a snapshot that is being received. It goes away unless installed.
    pub fn create(&self) -> Result<SnapshotTemp, StorageError> {
        let number = self.temps.fetch_add(1, Ordering::Relaxed);
        let path = self.dir.join(format!("{TEMP_PREFIX}{number}"));
        let file = File::options()
            .create_new(true)
            .read(true)
            .write(true)
            .open(&path)
            .context(|| format!("create {}", path.display()))?;
        Ok(SnapshotTemp { file, path })
    }

    /// Writes a snapshot and makes it the current one; it is on disk when this returns. `body`
    /// writes the body in one go and is called once. Nothing but a small buffer is held in memory.
    pub fn write(
        &self,
        meta: &[u8],
        body: &mut dyn FnMut(&mut dyn Write) -> io::Result<()>,
    ) -> Result<(), StorageError> {
        let temp = self.prepare(meta, body)?;
        self.make_current(&temp, None)
    }

    /// Writes a snapshot that [`Snapshots::install`] may make the current one later.
    pub fn prepare(
        &self,
        meta: &[u8],
        body: &mut dyn FnMut(&mut dyn Write) -> io::Result<()>,
    ) -> Result<SnapshotTemp, StorageError> {
        check_meta(meta)?;
        let temp = self.create()?;
        write_whole(&temp.file, meta, body).context(|| format!("write {}", temp.path.display()))?;
        Ok(temp)
    }

    /// Verifies a whole snapshot file, received or prepared, and makes it the current one; it is on
    /// disk when this returns.
    ///
    /// # Errors
    /// [`StorageError::BadSnapshot`] when the file is incomplete or altered: it is removed, and
    /// the current snapshot stays.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "an installed file is no longer the caller's"
    )]
    pub fn install(&self, temp: SnapshotTemp) -> Result<(), StorageError> {
        let parts = verify(&temp.file)
            .context(|| format!("read {}", temp.path.display()))?
            .map_err(|what| StorageError::BadSnapshot { what })?;
        self.make_current(&temp, Some(parts))
    }

    /// Opens the current snapshot, and verifies it unless this process has done so; `None` when
    /// there is none. It stays readable when a newer one replaces it.
    ///
    /// # Errors
    /// [`StorageError::Damaged`] when it is incomplete or altered.
    pub fn latest(&self) -> Result<Option<Snapshot>, StorageError> {
        let path = self.dir.join(CURRENT);
        let action = || format!("read {}", path.display());
        let mut verified = self.verified.lock();
        let file = match File::open(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            result => result.context(action)?,
        };
        let parts = match verified.take() {
            Some(parts) => parts,
            None => verify(&file)
                .context(action)?
                .map_err(|what| StorageError::damaged(format!("{}: {what}", path.display())))?,
        };
        let Parts { meta, body } = verified.insert(parts).clone();
        Ok(Some(Snapshot { meta, file, body }))
    }

    fn make_current(&self, temp: &SnapshotTemp, parts: Option<Parts>) -> Result<(), StorageError> {
        temp.file.sync_all().context(|| format!("sync {}", temp.path.display()))?;
        let mut verified = self.verified.lock();
        files::rename(&temp.path, &self.dir, CURRENT)?;
        *verified = parts;
        Ok(())
    }
}

/// A snapshot file that is being received: written in any order, then installed. Dropped without
/// that, it goes away.
#[derive(Debug)]
pub struct SnapshotTemp {
    file: File,
    path: PathBuf,
}

impl Drop for SnapshotTemp {
    fn drop(&mut self) {
        // Gone already when it was installed; otherwise the next open removes it.
        let _ = fs::remove_file(&self.path);
    }
}

impl Read for SnapshotTemp {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.file.read(buffer)
    }
}

impl Write for SnapshotTemp {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Seek for SnapshotTemp {
    fn seek(&mut self, position: SeekFrom) -> io::Result<u64> {
        self.file.seek(position)
    }
}

/// The current snapshot, verified.
#[derive(Debug)]
pub struct Snapshot {
    /// What the writer wanted to know about it.
    pub meta: Vec<u8>,
    /// The whole file, positioned at its start: what is sent to another node.
    pub file: File,
    /// Where the body lies in the file: offset and length in bytes.
    body: (u64, u64),
}

impl Snapshot {
    /// Reads the body from its start; `file` keeps its position.
    pub fn body(&self) -> impl Read + '_ {
        let (at, len) = self.body;
        BufReader::with_capacity(64 << 10, FileAt { file: &self.file, at }.take(len))
    }
}

/// Reads a file at a position of its own.
struct FileAt<'a> {
    file: &'a File,
    at: u64,
}

impl Read for FileAt<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read_at(buffer, self.at)?;
        self.at += read as u64;
        Ok(read)
    }
}

/// Passes bytes through and sums them up.
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

fn check_meta(meta: &[u8]) -> Result<(), StorageError> {
    let (bytes, bytes_max) = (meta.len(), SNAPSHOT_META_BYTES_MAX);
    if bytes <= bytes_max {
        return Ok(());
    }
    Err(StorageError::TooLarge { what: "snapshot meta", bytes, bytes_max })
}

fn write_whole(
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

/// What a verified file consists of.
#[derive(Clone)]
struct Parts {
    meta: Vec<u8>,
    body: (u64, u64),
}

/// Reads a whole file from its start. The inner error says what is wrong with the content.
fn verify(file: &File) -> io::Result<Result<Parts, String>> {
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
    let sound = crc == u32::from_le_bytes(stored_crc) && copied == u64::from_le_bytes(body_len);
    if !sound && !planted("snapshot-checksum-not-checked") {
        return Ok(Err("snapshot checksum does not match".into()));
    }
    Ok(Ok(Parts { meta, body }))
}

fn remove_temps(dir: &Path) -> Result<(), StorageError> {
    let list = || format!("list {}", dir.display());
    for entry in fs::read_dir(dir).context(list)? {
        let entry = entry.context(list)?;
        if entry.file_name().to_string_lossy().starts_with(TEMP_PREFIX) {
            fs::remove_file(entry.path())
                .context(|| format!("remove {}", entry.path().display()))?;
        }
    }
    Ok(())
}
