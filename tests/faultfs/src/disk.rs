//! A file system as a disk sees it: what programs read, and what would survive a power cut.
//!
//! Every inode has two contents. `live` is what the kernel's cache shows; `durable` is what the platter holds.
//! A change reaches `live` at once and waits in `pending`, in the order of time, until a sync carries it to
//! `durable`. `cut.rs` decides what a power cut leaves of pending changes. A disk has no mount, no clock and no
//! threads, so it is tested as a plain value.

mod settle;

use std::collections::BTreeMap;

use fuser::Errno;

/// The number of a file or directory. It is never used again.
pub type Ino = u64;

/// The root directory.
pub const ROOT: Ino = 1;

/// What a sync of one file or directory guarantees about others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Strictness {
    /// As in POSIX: the sync of a file covers its bytes only, and a name is durable once its directory has been synced.
    Strict,
    /// As in ext4: all names go to one journal, and a commit of the journal makes all of them durable. The
    /// journal is committed by the sync of a directory, by `fsync` of a file, and by `fdatasync` of a file that
    /// was created or changed its length.
    Journal,
}

/// Bytes of a file, or names of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    File(Vec<u8>),
    Dir(BTreeMap<String, Ino>),
}

impl Content {
    fn empty(is_dir: bool) -> Self {
        if is_dir { Content::Dir(BTreeMap::new()) } else { Content::File(Vec::new()) }
    }

    fn bytes(&self) -> Result<&Vec<u8>, Errno> {
        if let Content::File(bytes) = self { Ok(bytes) } else { Err(Errno::EISDIR) }
    }

    fn names(&self) -> Result<&BTreeMap<String, Ino>, Errno> {
        if let Content::Dir(names) = self { Ok(names) } else { Err(Errno::ENOTDIR) }
    }
}

#[derive(Debug)]
pub(crate) struct Inode {
    pub(crate) live: Content,
    pub(crate) durable: Content,
    permissions: u16,
    opened: u32,
    /// Whether its length on the platter differs from its current length: only then does `fdatasync` commit the
    /// journal.
    resized: bool,
}

/// A name in a directory that is set, or removed.
#[derive(Clone, Debug)]
pub(crate) struct Name {
    pub(crate) dir: Ino,
    pub(crate) name: String,
    pub(crate) ino: Option<Ino>,
}

/// One change that waits for a sync.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    Write {
        ino: Ino,
        offset: usize,
        bytes: Vec<u8>,
    },
    Resize {
        ino: Ino,
        len: usize,
    },
    /// Names that change together: the two names of a rename.
    Names(Vec<Name>),
}

impl Change {
    fn is_of_file(&self, file: Ino) -> bool {
        matches!(self, Change::Write { ino, .. } | Change::Resize { ino, .. } if *ino == file)
    }

    fn len(&self) -> usize {
        if let Change::Write { bytes, .. } = self { bytes.len() } else { 0 }
    }
}

/// The attributes of a file or directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// Its number.
    pub ino: Ino,
    /// Whether it is a directory.
    pub is_dir: bool,
    /// Length in bytes; 0 for a directory.
    pub len: u64,
    /// Permission bits.
    pub permissions: u16,
}

/// The disk.
#[derive(Debug)]
pub struct Disk {
    strictness: Strictness,
    bytes_max: u64,
    pub(crate) inodes: BTreeMap<Ino, Inode>,
    pub(crate) pending: Vec<Change>,
    pending_bytes: usize,
    next: Ino,
}

impl Disk {
    /// An empty disk that takes `bytes_max` bytes of files.
    pub fn new(strictness: Strictness, bytes_max: u64) -> Self {
        let mut disk = Disk {
            strictness,
            bytes_max,
            inodes: BTreeMap::new(),
            pending: Vec::new(),
            pending_bytes: 0,
            next: ROOT,
        };
        disk.add_inode(true, 0o755);
        disk
    }

    fn add_inode(&mut self, is_dir: bool, permissions: u16) -> Ino {
        let (live, durable) = (Content::empty(is_dir), Content::empty(is_dir));
        let inode = Inode { live, durable, permissions, opened: 0, resized: true };
        let ino = self.next;
        self.next += 1;
        self.inodes.insert(ino, inode);
        ino
    }

    fn inode(&self, ino: Ino) -> Result<&Inode, Errno> {
        self.inodes.get(&ino).ok_or(Errno::ENOENT)
    }

    fn inode_mut(&mut self, ino: Ino) -> Result<&mut Inode, Errno> {
        self.inodes.get_mut(&ino).ok_or(Errno::ENOENT)
    }

    /// The file or directory with this name.
    pub fn lookup(&self, dir: Ino, name: &str) -> Result<Ino, Errno> {
        self.entries(dir)?.get(name).copied().ok_or(Errno::ENOENT)
    }

    /// The names in a directory.
    pub fn entries(&self, dir: Ino) -> Result<&BTreeMap<String, Ino>, Errno> {
        self.inode(dir)?.live.names()
    }

    /// The attributes of a file or directory.
    pub fn attributes(&self, ino: Ino) -> Result<Attributes, Errno> {
        let inode = self.inode(ino)?;
        let len = inode.live.bytes().map_or(0, |bytes| bytes.len() as u64);
        let is_dir = matches!(inode.live, Content::Dir(_));
        Ok(Attributes { ino, is_dir, len, permissions: inode.permissions })
    }

    /// Bytes in all files.
    pub fn bytes_used(&self) -> u64 {
        let lens = self.inodes.values().filter_map(|inode| inode.live.bytes().ok());
        lens.map(|bytes| bytes.len() as u64).sum()
    }

    /// The most bytes that all files together may have.
    pub fn bytes_max(&self) -> u64 {
        self.bytes_max
    }

    /// Changes that a power cut would hit, and the bytes in them.
    pub fn unsynced(&self) -> (usize, usize) {
        (self.pending.len(), self.pending_bytes)
    }

    /// The path of a file or directory, without a leading slash; `None` for one without a name.
    pub fn path(&self, ino: Ino) -> Option<String> {
        self.paths().into_iter().find(|(_, at)| *at == ino).map(|(path, _)| path)
    }

    /// All paths.
    pub fn paths(&self) -> Vec<(String, Ino)> {
        let mut paths = Vec::new();
        let mut open = vec![(String::new(), ROOT)];
        while let Some((prefix, dir)) = open.pop() {
            for (name, &ino) in self.entries(dir).into_iter().flatten() {
                let path = format!("{prefix}{name}");
                open.push((format!("{path}/"), ino));
                paths.push((path, ino));
            }
        }
        paths
    }

    /// Makes a file or directory.
    pub fn create(
        &mut self,
        dir: Ino,
        name: &str,
        is_dir: bool,
        permissions: u16,
    ) -> Result<Ino, Errno> {
        if self.entries(dir)?.contains_key(name) {
            return Err(Errno::EEXIST);
        }
        let ino = self.add_inode(is_dir, permissions);
        self.set_names(vec![Name { dir, name: name.to_owned(), ino: Some(ino) }])?;
        Ok(ino)
    }

    /// Removes the name of a file, or of a directory that is empty.
    pub fn remove(&mut self, dir: Ino, name: &str, is_dir: bool) -> Result<(), Errno> {
        let ino = self.lookup(dir, name)?;
        match &self.inode(ino)?.live {
            Content::Dir(_) if !is_dir => return Err(Errno::EISDIR),
            Content::File(_) if is_dir => return Err(Errno::ENOTDIR),
            Content::Dir(names) if !names.is_empty() => return Err(Errno::ENOTEMPTY),
            _ => {}
        }
        self.set_names(vec![Name { dir, name: name.to_owned(), ino: None }])
    }

    /// Moves a name, and replaces an existing one.
    pub fn rename(&mut self, from: (Ino, &str), to: (Ino, &str)) -> Result<(), Errno> {
        let ino = self.lookup(from.0, from.1)?;
        self.entries(to.0)?;
        if from == to {
            return Ok(());
        }
        if let Ok(over) = self.lookup(to.0, to.1)
            && self.inode(over)?.live.names().is_ok_and(|names| !names.is_empty())
        {
            return Err(Errno::ENOTEMPTY);
        }
        self.set_names(vec![
            Name { dir: from.0, name: from.1.to_owned(), ino: None },
            Name { dir: to.0, name: to.1.to_owned(), ino: Some(ino) },
        ])
    }

    fn set_names(&mut self, names: Vec<Name>) -> Result<(), Errno> {
        for Name { dir, name, ino } in &names {
            let Content::Dir(entries) = &mut self.inode_mut(*dir)?.live else {
                return Err(Errno::ENOTDIR);
            };
            set_name(entries, name, *ino);
        }
        self.pending.push(Change::Names(names));
        Ok(())
    }

    /// At most `len` bytes from `offset` on.
    pub fn read(&self, ino: Ino, offset: u64, len: usize) -> Result<&[u8], Errno> {
        let bytes = self.inode(ino)?.live.bytes()?;
        let start = usize::try_from(offset).unwrap_or(usize::MAX).min(bytes.len());
        Ok(&bytes[start..bytes.len().min(start.saturating_add(len))])
    }

    /// Writes bytes, also beyond the end.
    ///
    /// # Errors
    /// `ENOSPC` when the disk is full.
    pub fn write(&mut self, ino: Ino, offset: u64, bytes: &[u8]) -> Result<(), Errno> {
        let offset = usize::try_from(offset).map_err(|_| Errno::EFBIG)?;
        let end = offset.checked_add(bytes.len()).ok_or(Errno::EFBIG)?;
        self.make_room(ino, end)?;
        let inode = self.inode_mut(ino)?;
        let Content::File(live) = &mut inode.live else { return Err(Errno::EISDIR) };
        inode.resized |= end > live.len();
        put(live, offset, bytes);
        self.pending_bytes += bytes.len();
        self.pending.push(Change::Write { ino, offset, bytes: bytes.to_owned() });
        self.write_back();
        Ok(())
    }

    /// Sets the length of a file. Added bytes are zeros.
    pub fn resize(&mut self, ino: Ino, len: u64) -> Result<(), Errno> {
        let len = usize::try_from(len).map_err(|_| Errno::EFBIG)?;
        self.make_room(ino, len)?;
        let inode = self.inode_mut(ino)?;
        let Content::File(live) = &mut inode.live else { return Err(Errno::EISDIR) };
        live.resize(len, 0);
        inode.resized = true;
        self.pending.push(Change::Resize { ino, len });
        Ok(())
    }

    fn make_room(&self, ino: Ino, end: usize) -> Result<(), Errno> {
        let len = self.inode(ino)?.live.bytes()?.len();
        let more = end.saturating_sub(len) as u64;
        if more > 0 && self.bytes_used().saturating_add(more) > self.bytes_max {
            return Err(Errno::ENOSPC);
        }
        Ok(())
    }

    /// Keeps a file even if its name is removed, until [`Disk::close`].
    pub fn open(&mut self, ino: Ino) -> Result<(), Errno> {
        self.inode_mut(ino)?.opened += 1;
        Ok(())
    }

    /// Reverses [`Disk::open`].
    pub fn close(&mut self, ino: Ino) {
        if let Some(inode) = self.inodes.get_mut(&ino) {
            inode.opened = inode.opened.saturating_sub(1);
        }
        self.collect();
    }
}

fn set_name(entries: &mut BTreeMap<String, Ino>, name: &str, ino: Option<Ino>) {
    match ino {
        Some(ino) => entries.insert(name.to_owned(), ino),
        None => entries.remove(name),
    };
}

fn put(into: &mut Vec<u8>, offset: usize, bytes: &[u8]) {
    let end = offset + bytes.len();
    if into.len() < end {
        into.resize(end, 0);
    }
    into[offset..end].copy_from_slice(bytes);
}

#[cfg(test)]
mod tests;
