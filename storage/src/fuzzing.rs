//! Entry points to the code that reads from disk, for `tests/fuzz`.

use std::collections::BTreeMap;

use mintleaf_codec::Blob;
use serde::{Deserialize, Serialize};

use crate::batch::Batch;
use crate::batches::Batches;
use crate::manifest::{Extent, Manifest};
use crate::record::{self, NO_LINK};
use crate::replay;
use crate::trees::Trees;
use crate::wal::{self, Found};

/// Verifies a stored record and stores it again; `None` if it is refused.
pub fn record(index: u64, bytes: &[u8]) -> Option<Vec<u8>> {
    let record = record::open(index, bytes).ok()?;
    Some(record::seal(index, record.link, record.payload).0)
}

/// Decodes a batch of the write-ahead log and encodes it again; `None` if it is torn.
pub fn batch(bytes: &[u8]) -> Option<Vec<u8>> {
    wal::decode_batch(bytes).map(|(_, batch, _)| wal::encode_batch(&batch))
}

/// The parts of a log after a crash, an accident or an attack. Its records are payloads; each is stored with the
/// checksum that it should have.
#[derive(Debug, Serialize, Deserialize)]
pub struct Store {
    /// Whether each manifest gets the right checksum of its last record.
    fits: bool,
    manifest: Manifest,
    records: Vec<(u64, Blob)>,
    batches: [Option<Batch>; 2],
}

/// A log that was recovered.
#[derive(Debug, PartialEq, Eq)]
pub struct Recovered {
    /// Number of the newest batch.
    pub batch: u64,
    /// Indices of the first and the last record, if there is any.
    pub bounds: Option<(u64, u64)>,
    /// The indices of the records that were found.
    pub indices: Vec<u64>,
}

/// A temporary sled database that recovers one log after another.
pub struct Recovery(Trees);

impl Default for Recovery {
    /// # Panics
    /// When sled cannot be opened.
    fn default() -> Self {
        let db = sled::Config::new().temporary(true).flush_every_ms(None).open();
        let db = db.expect("a temporary log can be made");
        let tree = |name| db.open_tree(name).expect("a tree can be made");
        Self(Trees { log: tree("log"), meta: tree("meta") })
    }
}

impl Recovery {
    /// Writes a log and recovers it twice, as after a crash during the first opening; `None` if it is refused.
    ///
    /// # Panics
    /// When the second recovery refuses the log, or its result differs from the first.
    pub fn run(&self, mut store: Store) -> Option<Recovered> {
        self.lay_out(&mut store);
        let read = |batch: Batch| {
            let (format, batch, _) = wal::decode_batch(&wal::encode_batch(&batch))?;
            Some(Found { batch, format, file: 0, is_head: false })
        };
        let found = store.batches.into_iter().flatten().filter_map(read).collect();
        let batches = Batches::new(found).ok()?;
        let recovered = replay::recover(&self.0, &batches).ok()?;
        let again = replay::recover(&self.0, &batches).expect("what was recovered is a store");
        assert_eq!(again, recovered);
        let indices = self.0.log.iter().keys().map(|key| {
            let key = key.expect("sled reads its own files");
            u64::from_be_bytes(key.as_ref().try_into().expect("keys are indices"))
        });
        Some(Recovered {
            batch: recovered.batch,
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
        chain.fit(store.fits, &mut store.manifest);
        self.0.put_manifest(&store.manifest).expect("sled takes a manifest");
        let mut batches: Vec<&mut Batch> = store.batches.iter_mut().flatten().collect();
        batches.sort_by_key(|batch| batch.manifest.batch);
        for batch in batches {
            let indices = (0..).map(|at| batch.first.wrapping_add(at));
            for (index, record) in indices.zip(&mut batch.records) {
                *record = chain.seal(index, record);
            }
            chain.fit(store.fits, &mut batch.manifest);
        }
    }
}

/// The checksums of the records stored so far, by index.
#[derive(Default)]
struct Chain(BTreeMap<u64, u32>);

impl Chain {
    fn seal(&mut self, index: u64, payload: &Blob) -> Blob {
        let link = self.0.get(&index.wrapping_sub(1)).copied().unwrap_or(NO_LINK);
        let (stored, crc) = record::seal(index, link, &payload.0);
        self.0.insert(index, crc);
        Blob(stored)
    }

    fn fit(&self, fits: bool, manifest: &mut Manifest) {
        if let Some(Extent { last, last_crc, .. }) = manifest.extent.as_mut().filter(|_| fits) {
            *last_crc = self.0.get(last).copied().unwrap_or_default();
        }
    }
}
