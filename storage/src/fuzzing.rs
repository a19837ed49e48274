//! Doors to what this crate reads from disk, for `tests/fuzz`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::codec::Blob;
use crate::groups::Groups;
use crate::record::{self, NO_LINK};
use crate::recover::Trees;
use crate::state::{Extent, Group, State};
use crate::tail::{self, Found};

/// A stored record, read and stored again; `None` when it is refused.
pub fn record(index: u64, bytes: &[u8]) -> Option<Vec<u8>> {
    let record = record::open(index, bytes).ok()?;
    Some(record::seal(index, record.link, record.payload).0)
}

/// A group of the tail, read and written again; `None` when it is torn.
pub fn group(bytes: &[u8]) -> Option<Vec<u8>> {
    tail::read_group(bytes).map(|(_, group, _)| tail::group_bytes(&group))
}

/// What a store may consist of after a crash, an accident or an attack. Its records are payloads:
/// each is stored with the checksum that it should have.
#[derive(Debug, Serialize, Deserialize)]
pub struct Store {
    /// The states name the checksums that their last records have.
    fits: bool,
    state: State,
    records: Vec<(u64, Blob)>,
    groups: [Option<Group>; 2],
}

/// A store that was recovered.
#[derive(Debug, PartialEq, Eq)]
pub struct Recovered {
    /// Number of the last group of operations.
    pub group: u64,
    /// Indices of the first and the last record, if there is any.
    pub bounds: Option<(u64, u64)>,
    /// The records found within the log, by index.
    pub indices: Vec<u64>,
}

/// sled, on files that go away, for one store after another.
pub struct Recovery(Trees);

impl Default for Recovery {
    /// # Panics
    /// When sled does not open.
    fn default() -> Self {
        let db = sled::Config::new().temporary(true).flush_every_ms(None).open();
        let db = db.expect("a temporary log can be made");
        let tree = |name| db.open_tree(name).expect("a tree can be made");
        Self(Trees { log: tree("log"), meta: tree("meta") })
    }
}

impl Recovery {
    /// Lays a store out and opens it twice, as after a crash of the first opening; `None` when it
    /// is refused.
    ///
    /// # Panics
    /// When what was recovered is refused, or recovered otherwise, the second time.
    pub fn run(&self, mut store: Store) -> Option<Recovered> {
        self.lay_out(&mut store);
        let read = |group: Group| {
            let (format, group, _) = tail::read_group(&tail::group_bytes(&group))?;
            Some(Found { group, format, segment: 0, is_head: false })
        };
        let found = store.groups.into_iter().flatten().filter_map(read).collect();
        let groups = Groups::new(found).ok()?;
        let recovered = self.0.recover(&groups).ok()?;
        let again = self.0.recover(&groups).expect("what was recovered is a store");
        assert_eq!(again, recovered);
        let indices = self.0.log.iter().keys().map(|key| {
            let key = key.expect("sled reads its own files");
            u64::from_be_bytes(key.as_ref().try_into().expect("keys are indices"))
        });
        Some(Recovered {
            group: recovered.group,
            bounds: recovered.extent.map(|extent| (extent.first, extent.last)),
            indices: indices.collect(),
        })
    }

    fn lay_out(&self, store: &mut Store) {
        self.0.log.clear().expect("sled clears a tree");
        let mut chain = Chain::default();
        for (index, payload) in &store.records {
            self.0.put_record(*index, &chain.seal(*index, payload).0).expect("sled takes a record");
        }
        chain.fit(store.fits, &mut store.state);
        self.0.put_state(&store.state).expect("sled takes a state");
        let mut groups: Vec<&mut Group> = store.groups.iter_mut().flatten().collect();
        groups.sort_by_key(|group| group.state.group);
        for group in groups {
            let indices = (0..).map(|at| group.first.wrapping_add(at));
            for (index, record) in indices.zip(&mut group.records) {
                *record = chain.seal(index, record);
            }
            chain.fit(store.fits, &mut group.state);
        }
    }
}

/// The checksums of the records stored so far.
#[derive(Default)]
struct Chain(BTreeMap<u64, u32>);

impl Chain {
    fn seal(&mut self, index: u64, payload: &Blob) -> Blob {
        let link = self.0.get(&index.wrapping_sub(1)).copied().unwrap_or(NO_LINK);
        let (stored, crc) = record::seal(index, link, &payload.0);
        self.0.insert(index, crc);
        Blob(stored)
    }

    fn fit(&self, fits: bool, state: &mut State) {
        if let Some(Extent { last, last_crc, .. }) = state.extent.as_mut().filter(|_| fits) {
            *last_crc = self.0.get(last).copied().unwrap_or_default();
        }
    }
}
