//! The device as a mounted file system.
//!
//! The kernel caches nothing: names and attributes expire at once, and files are read and written directly. So
//! after a power cut no program sees data that is gone.

use std::ffi::OsStr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use fuser::{
    AccessFlags, BsdFileFlags, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags,
    Generation, INodeNo, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData,
    ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyStatfs, ReplyWrite, Request, TimeOrNow,
    WriteFlags,
};

use crate::device::Device;
use crate::disk::{Attributes, Disk, Ino};
use crate::faults::Operation;

const NO_TIME: Duration = Duration::ZERO;
const BLOCK_BYTES: u32 = 4096;

pub(crate) struct Fuse(pub(crate) Arc<Device>);

impl Fuse {
    /// Changes the disk, unless a fault makes the call fail.
    fn change<T>(
        &self,
        on: INodeNo,
        change: impl FnOnce(&mut Disk) -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        let mut state = self.0.lock();
        state.check(Operation::Write, on.0)?;
        change(&mut state.disk)
    }

    fn make(&self, dir: INodeNo, name: &OsStr, is_dir: bool, mode: u32) -> Result<FileAttr, Errno> {
        let name = utf8(name)?;
        let permissions = permissions(mode);
        self.change(dir, |disk| {
            let ino = disk.create(dir.0, name, is_dir, permissions)?;
            disk.attributes(ino).map(shown)
        })
    }

    fn remove(&self, dir: INodeNo, name: &OsStr, is_dir: bool) -> Result<(), Errno> {
        let name = utf8(name)?;
        self.change(dir, |disk| disk.remove(dir.0, name, is_dir))
    }

    fn attributes(&self, ino: Ino) -> Result<FileAttr, Errno> {
        self.0.lock().disk.attributes(ino).map(shown)
    }
}

fn utf8(name: &OsStr) -> Result<&str, Errno> {
    name.to_str().ok_or(Errno::EINVAL)
}

fn permissions(mode: u32) -> u16 {
    (mode & 0o777) as u16
}

fn kind(is_dir: bool) -> FileType {
    if is_dir { FileType::Directory } else { FileType::RegularFile }
}

fn shown(attributes: Attributes) -> FileAttr {
    let Attributes { ino, is_dir, len, permissions } = attributes;
    let time = SystemTime::UNIX_EPOCH;
    FileAttr {
        ino: INodeNo(ino),
        size: len,
        blocks: len.div_ceil(512),
        atime: time,
        mtime: time,
        ctime: time,
        crtime: time,
        kind: kind(is_dir),
        perm: permissions,
        nlink: if is_dir { 2 } else { 1 },
        uid: 0,
        gid: 0,
        rdev: 0,
        blksize: BLOCK_BYTES,
        flags: 0,
    }
}

fn reply_entry(reply: ReplyEntry, result: Result<FileAttr, Errno>) {
    match result {
        Ok(attributes) => reply.entry(&NO_TIME, &attributes, Generation(0)),
        Err(errno) => reply.error(errno),
    }
}

fn reply_attributes(reply: ReplyAttr, result: Result<FileAttr, Errno>) {
    match result {
        Ok(attributes) => reply.attr(&NO_TIME, &attributes),
        Err(errno) => reply.error(errno),
    }
}

fn reply_empty(reply: ReplyEmpty, result: Result<(), Errno>) {
    match result {
        Ok(()) => reply.ok(),
        Err(errno) => reply.error(errno),
    }
}

impl Filesystem for Fuse {
    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let ino = utf8(name).and_then(|name| self.0.lock().disk.lookup(parent.0, name));
        reply_entry(reply, ino.and_then(|ino| self.attributes(ino)));
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        reply_attributes(reply, self.attributes(ino.0));
    }

    fn setattr(
        &self,
        _: &Request,
        ino: INodeNo,
        _mode: Option<u32>,
        _uid: Option<u32>,
        _gid: Option<u32>,
        size: Option<u64>,
        _atime: Option<TimeOrNow>,
        _mtime: Option<TimeOrNow>,
        _ctime: Option<SystemTime>,
        _fh: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let resized = size.map_or(Ok(()), |len| self.change(ino, |disk| disk.resize(ino.0, len)));
        reply_attributes(reply, resized.and_then(|()| self.attributes(ino.0)));
    }

    fn mkdir(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        reply: ReplyEntry,
    ) {
        reply_entry(reply, self.make(parent, name, true, mode & !umask));
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        reply_empty(reply, self.remove(parent, name, false));
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        reply_empty(reply, self.remove(parent, name, true));
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        newparent: INodeNo,
        newname: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let renamed = (|| {
            let (from, to) = (utf8(name)?, utf8(newname)?);
            if !flags.is_empty() {
                return Err(Errno::EINVAL);
            }
            self.change(parent, |disk| disk.rename((parent.0, from), (newparent.0, to)))
        })();
        reply_empty(reply, renamed);
    }

    fn open(&self, _: &Request, ino: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        match self.0.lock().disk.open(ino.0) {
            Ok(()) => reply.opened(FileHandle(0), FopenFlags::FOPEN_DIRECT_IO),
            Err(errno) => reply.error(errno),
        }
    }

    fn create(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        _flags: i32,
        reply: ReplyCreate,
    ) {
        let made = self.make(parent, name, false, mode & !umask);
        let opened = made.and_then(|made| self.0.lock().disk.open(made.ino.0).map(|()| made));
        match opened {
            Ok(attributes) => {
                let (generation, handle) = (Generation(0), FileHandle(0));
                let flags = FopenFlags::FOPEN_DIRECT_IO;
                reply.created(&NO_TIME, &attributes, generation, handle, flags);
            }
            Err(errno) => reply.error(errno),
        }
    }

    fn read(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let mut state = self.0.lock();
        let checked = state.check(Operation::Read, ino.0);
        match checked.and_then(|()| state.disk.read(ino.0, offset, size as usize)) {
            Ok(bytes) => reply.data(bytes),
            Err(errno) => reply.error(errno),
        }
    }

    fn write(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        match self.0.write(ino.0, offset, data) {
            // A request is never longer than the kernel's 32-bit length.
            Ok(()) => reply.written(data.len() as u32),
            Err(errno) => reply.error(errno),
        }
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn release(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _flush: bool,
        reply: ReplyEmpty,
    ) {
        self.0.lock().disk.close(ino.0);
        reply.ok();
    }

    fn fsync(&self, _: &Request, ino: INodeNo, _: FileHandle, datasync: bool, reply: ReplyEmpty) {
        reply_empty(reply, self.0.sync(ino.0, datasync));
    }

    fn fsyncdir(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        datasync: bool,
        reply: ReplyEmpty,
    ) {
        reply_empty(reply, self.0.sync(ino.0, datasync));
    }

    fn readdir(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let state = self.0.lock();
        let names = match state.disk.entries(ino.0) {
            Ok(names) => names,
            Err(errno) => return reply.error(errno),
        };
        let itself = [(".", ino.0), ("..", ino.0)];
        let names = names.iter().map(|(name, &ino)| (name.as_str(), ino));
        let skipped = usize::try_from(offset).unwrap_or(usize::MAX);
        for (next, (name, ino)) in (1..).zip(itself.into_iter().chain(names)).skip(skipped) {
            let is_dir = state.disk.attributes(ino).is_ok_and(|attributes| attributes.is_dir);
            if reply.add(INodeNo(ino), next, kind(is_dir), name) {
                break;
            }
        }
        reply.ok();
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        let state = self.0.lock();
        let blocks = state.disk.bytes_max() / u64::from(BLOCK_BYTES);
        let free = blocks - (state.disk.bytes_used() / u64::from(BLOCK_BYTES)).min(blocks);
        reply.statfs(blocks, free, free, 0, 0, BLOCK_BYTES, 255, BLOCK_BYTES);
    }

    fn access(&self, _: &Request, _: INodeNo, _: AccessFlags, reply: ReplyEmpty) {
        reply.ok();
    }
}
