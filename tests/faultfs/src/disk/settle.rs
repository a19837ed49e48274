//! How changes become durable: by a sync, or because too many wait for one.

use std::collections::{BTreeMap, BTreeSet};

use fuser::Errno;

use super::{Change, Content, Disk, Ino, Inode, Name, ROOT, Strictness, put, set_name};

/// The most unsynced bytes that are held back. Beyond this, the oldest changes become durable by themselves, as
/// a kernel writes back old dirty pages.
pub(super) const PENDING_BYTES_MAX: usize = 64 << 20;

impl Disk {
    pub(super) fn write_back(&mut self) {
        let mut excess = self.pending_bytes.saturating_sub(PENDING_BYTES_MAX);
        let oldest = self.pending.iter().take_while(|change| {
            let wanted = excess > 0;
            excess = excess.saturating_sub(change.len());
            wanted
        });
        let oldest = oldest.count();
        let changes: Vec<_> = self.pending.drain(..oldest).collect();
        self.settle(changes);
    }

    /// Makes a file or directory durable, together with what [`Strictness`] adds.
    pub fn sync(&mut self, ino: Ino, data_only: bool) -> Result<(), Errno> {
        let inode = self.inode_mut(ino)?;
        let is_dir = matches!(inode.live, Content::Dir(_));
        let commits = is_dir || !data_only || inode.resized;
        inode.resized = false;
        let mut dirs = BTreeSet::from([ino]);
        let mut chosen = vec![false; self.pending.len()];
        // The loop runs backwards, because every change that a chosen change of names builds on must be chosen too.
        for (change, chosen) in self.pending.iter().zip(&mut chosen).rev() {
            *chosen = match change {
                Change::Names(_) if self.strictness == Strictness::Journal => commits,
                Change::Names(names) => names.iter().any(|name| dirs.contains(&name.dir)),
                of_file => of_file.is_of_file(ino),
            };
            if let (true, Change::Names(names)) = (*chosen, change) {
                dirs.extend(names.iter().map(|name| name.dir));
            }
        }
        let mut chosen = chosen.into_iter();
        let changes = self.pending.extract_if(.., |_| chosen.next().unwrap_or_default()).collect();
        self.settle(changes);
        Ok(())
    }

    /// Fails a sync: the bytes stay readable, and no later sync will write them.
    pub fn forget_unsynced(&mut self, ino: Ino) {
        self.pending.retain(|change| !change.is_of_file(ino));
        self.pending_bytes = self.pending.iter().map(Change::len).sum();
    }

    /// Makes everything durable, as a clean unmount does.
    pub fn sync_all(&mut self) {
        let changes = std::mem::take(&mut self.pending);
        self.settle(changes);
    }

    /// Carries changes to the platter, in their order.
    pub(crate) fn settle(&mut self, changes: Vec<Change>) {
        for change in changes {
            match change {
                Change::Write { ino, offset, bytes } => {
                    if let Some(durable) = self.durable_bytes(ino) {
                        put(durable, offset, &bytes);
                    }
                }
                Change::Resize { ino, len } => {
                    if let Some(durable) = self.durable_bytes(ino) {
                        durable.resize(len, 0);
                    }
                }
                Change::Names(names) => self.settle_names(&names),
            }
        }
        self.collect();
    }

    fn durable_bytes(&mut self, ino: Ino) -> Option<&mut Vec<u8>> {
        match &mut self.inodes.get_mut(&ino)?.durable {
            Content::File(bytes) => Some(bytes),
            Content::Dir(_) => None,
        }
    }

    fn settle_names(&mut self, names: &[Name]) {
        for Name { dir, name, ino } in names {
            if let Some(Inode { durable: Content::Dir(entries), .. }) = self.inodes.get_mut(dir) {
                set_name(entries, name, *ino);
            }
        }
    }

    /// Starts the computer again: the durable content becomes live.
    pub(crate) fn restart(&mut self) {
        self.pending.clear();
        self.pending_bytes = 0;
        for inode in self.inodes.values_mut() {
            inode.live = inode.durable.clone();
            inode.resized = false;
        }
        self.collect();
    }

    /// Forgets files that are not open and have no live, durable or pending name.
    pub(super) fn collect(&mut self) {
        let opened = self.inodes.iter().filter(|(_, inode)| inode.opened > 0).map(|(ino, _)| *ino);
        let mut open: Vec<Ino> = opened.chain([ROOT]).collect();
        for change in &self.pending {
            if let Change::Names(names) = change {
                open.extend(names.iter().flat_map(|name| [Some(name.dir), name.ino]).flatten());
            }
        }
        let mut held = BTreeSet::new();
        while let Some(ino) = open.pop() {
            if let (true, Some(inode)) = (held.insert(ino), self.inodes.get(&ino)) {
                let names = [&inode.live, &inode.durable].map(|content| content.names().ok());
                open.extend(names.into_iter().flatten().flat_map(BTreeMap::values));
            }
        }
        self.inodes.retain(|ino, _| held.contains(ino));
        self.pending.retain(|change| match change {
            Change::Write { ino, .. } | Change::Resize { ino, .. } => held.contains(ino),
            Change::Names(_) => true,
        });
        self.pending_bytes = self.pending.iter().map(Change::len).sum();
    }
}
