//! The file `hot-tags` of a data directory, kept as the node is used.
//!
//! It is a hint. A node starts without it where it is missing, damaged or of another release, and it is replaced
//! without a sync: what a power cut leaves of it has a checksum that does not hold.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use mintleaf_core::encoding::{decode_hot_tags, encode_hot_tags};
use parking_lot::Mutex;
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use crate::machine::clock::{Clock, SystemClock};
use crate::service::{HotTags, Services};

const FILE_NAME: &str = "hot-tags";
/// Largest file: 1,000 tags of the longest names take half of that.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// Time between two looks at what was used. Before the first looks it is shorter, and doubles from one to the next: a node
/// that is killed soon after its start has noted what it was used for.
const LOOK_INTERVAL: Duration = Duration::from_secs(15);
const FIRST_LOOK: Duration = Duration::from_secs(1);
/// Even if the list has the same tags, it is written again after this long, so that its times stay current.
const WRITE_INTERVAL: Duration = Duration::from_secs(600);

/// The hot tags of a node that runs, and their file.
pub(super) struct HotTagsFile {
    dir: PathBuf,
    hot: Mutex<HotTags>,
    /// Held while the file is replaced.
    writing: Mutex<()>,
    services: Services,
}

impl HotTagsFile {
    /// Reads the file of an open data directory.
    pub(super) fn open(dir: &Path, services: Services) -> Arc<Self> {
        let list = read(&dir.join(FILE_NAME)).unwrap_or_else(|why| {
            tracing::warn!(%why, "the list of hot tags cannot be read; starting without");
            Vec::new()
        });
        let hot = Mutex::new(HotTags::from_list(list, now_s()));
        let writing = Mutex::default();
        Arc::new(Self { dir: dir.to_owned(), hot, writing, services })
    }

    /// Keeps clients away until [`HotTagsFile::run`] has had its time. Called before clients are served.
    pub(super) fn begin(&self) {
        self.services.begin_warm_start(&self.hot.lock().tags());
    }

    /// Has the node hold ids of the listed tags, and from then on keeps the list, for as long as it is polled.
    pub(super) async fn run(self: Arc<Self>) {
        let tags = self.hot.lock().tags();
        self.services.warm_start(tags).await;
        let (mut written, mut until_look) = (Instant::now(), FIRST_LOOK);
        loop {
            sleep(until_look).await;
            until_look = (2 * until_look).min(LOOK_INTERVAL);
            let file = Arc::clone(&self);
            let is_due = written.elapsed() >= WRITE_INTERVAL;
            // A look at a million tags takes a while.
            let looked = spawn_blocking(move || {
                let write = file.look() || is_due;
                if write {
                    file.write();
                }
                write
            });
            if looked.await.unwrap_or(false) {
                written = Instant::now();
            }
        }
    }

    /// Brings the list and its file up to date, for a node that stops.
    pub(super) fn close(&self) {
        self.look();
        self.write();
    }

    /// Looks at what was used; returns whether the list has other tags than before.
    fn look(&self) -> bool {
        let used = self.services.ids.take_note_of_use();
        self.hot.lock().note(used, now_s())
    }

    fn write(&self) {
        let _one_at_a_time = self.writing.lock();
        let bytes = encode_hot_tags(&self.hot.lock().list());
        let temp = self.dir.join(format!("{FILE_NAME}.tmp"));
        let written =
            fs::write(&temp, bytes).and_then(|()| fs::rename(&temp, self.dir.join(FILE_NAME)));
        if let Err(error) = written {
            tracing::warn!(%error, "the list of hot tags cannot be written");
        }
    }
}

/// The list in a file; an empty one when the file is missing.
fn read(path: &Path) -> Result<Vec<(String, u64)>, String> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error.to_string()),
    };
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    decode_hot_tags(&bytes).map_err(|error| error.to_string())
}

fn now_s() -> u64 {
    SystemClock::default().now_ms() / 1_000
}
