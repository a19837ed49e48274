//! The disk, the clock and the limits of this machine.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::OFlags;
use rustix::process::{Resource, getrlimit};

use super::super::new_file::existing;
use super::finding::Finding;
use crate::limits::CONNECTIONS_MAX;
use crate::machine::clock::{Clock, SystemClock};

/// What is written and synced, as large as a page.
const BLOCK: [u8; 4_096] = [0x6d; 4_096];
/// How often, and for how long at most.
const SYNCS: usize = 64;
const SYNCS_TIME_MAX: Duration = Duration::from_secs(3);
/// A commit takes a sync on a quorum of disks: clients that wait for a grab or a change feel slower ones.
const SYNC_SLOW: Duration = Duration::from_millis(10);
/// Roughly the fewest open files that let a node start.
const FILES_MIN: u64 = 512;
/// Roughly how many files a node has open besides the connections of clients.
const FILES_OWN: u64 = 1_000;
/// The longest wait for what the system says of its clock.
const SYSTEM_MAX: Duration = Duration::from_secs(2);
/// The year 2020 in Unix milliseconds: this program was not there before.
const EARLIEST_MS: u64 = 1_577_836_800_000;

/// How long the disk takes to store a change for good.
pub(super) fn disk(data: &Path) -> Finding {
    let place = existing(data);
    let shown = place.display();
    match syncs(&place) {
        Err(error) => Finding::bad(
            format!("cannot write in {shown}: {error}"),
            "a node writes its log there: check the mount, the permissions and the space",
        ),
        Ok(mut times) => {
            times.sort_unstable();
            let (median, slowest) = (times[times.len() / 2], times[times.len() - 1]);
            let said = format!(
                "a sync in {shown} takes {median:.1?} (median of {}; the slowest {slowest:.1?})",
                times.len()
            );
            match median > SYNC_SLOW {
                false => Finding::good(said),
                true => Finding::doubtful(
                    said,
                    "each commit waits for a sync on a quorum of nodes: use an SSD, or give tags larger steps",
                ),
            }
        }
    }
}

fn syncs(place: &Path) -> io::Result<Vec<Duration>> {
    let mut file = nameless(place)?;
    let began = Instant::now();
    let mut times = Vec::new();
    while times.len() < SYNCS && (times.is_empty() || began.elapsed() < SYNCS_TIME_MAX) {
        let before = Instant::now();
        file.write_all(&BLOCK)?;
        file.sync_data()?;
        times.push(before.elapsed());
    }
    Ok(times)
}

/// A file that leaves nothing behind once it is closed. If possible it never has a name, because a data directory may
/// hold nothing that a node did not write.
fn nameless(place: &Path) -> io::Result<File> {
    let flags = OFlags::TMPFILE.bits().cast_signed();
    let made = OpenOptions::new().write(true).mode(0o600).custom_flags(flags).open(place);
    made.or_else(|error| {
        // A file beside the directory would show nothing about one that takes no files.
        if matches!(
            error.kind(),
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem
        ) {
            return Err(error);
        }
        let beside = place.parent().filter(|above| above.is_dir()).unwrap_or(place);
        let name = beside.join(format!(".mintleaf-doctor-{}", std::process::id()));
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&name)?;
        fs::remove_file(&name)?;
        Ok(file)
    })
}

/// Whether something keeps this machine's clock right, as far as the system reports.
pub(super) fn clock_is_kept() -> Finding {
    if SystemClock::default().now_ms() < EARLIEST_MS {
        let hint = "set the clock, and keep it synchronized with NTP: snowflake ids show its time";
        return Finding::bad("it shows a time before 2020", hint);
    }
    match is_synchronized() {
        Some(true) => Finding::good("the system says that it is synchronized"),
        Some(false) => Finding::doubtful(
            "the system says that it is not synchronized",
            "synchronize it with NTP (chrony, systemd-timesyncd): a node whose clock is off by more than --max-clock-skew \
             gives no snowflake ids",
        ),
        None => Finding::unknown(
            "the system does not say whether it is synchronized",
            "timedatectl or chronyc tracking can tell; for a container, run it on the host",
        ),
    }
}

fn is_synchronized() -> Option<bool> {
    let (answer, answered) = mpsc::channel();
    // It may wait for a service that does not answer. In that case the thread ends with this process.
    thread::spawn(move || {
        let mut asking = Command::new("timedatectl");
        asking.args(["show", "--property=NTPSynchronized", "--value"]).stdin(Stdio::null());
        let _ = answer.send(asking.output());
    });
    let output = answered.recv_timeout(SYSTEM_MAX).ok()?.ok()?;
    match String::from_utf8_lossy(&output.stdout).trim() {
        "yes" => Some(true),
        "no" => Some(false),
        _ => None,
    }
}

/// Whether a node may open as many files as its clients need.
pub(super) fn open_files() -> Finding {
    let limit = getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX);
    let wanted = CONNECTIONS_MAX as u64 * 2 + FILES_OWN;
    let hint = "set LimitNOFILE=65536 for the service, or ulimit -n 65536";
    match limit {
        ..FILES_MIN => Finding::bad(format!("{limit} at most, too few to start"), hint),
        _ if limit < wanted => Finding::doubtful(
            format!("{limit} at most, too few for {CONNECTIONS_MAX} clients of each protocol"),
            hint,
        ),
        _ => Finding::good(format!("{limit} at most")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_is_measured_and_nothing_is_left_behind() {
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path().join("data");
        fs::create_dir(&data).unwrap();
        let times = syncs(&data).unwrap();
        assert!(!times.is_empty() && times.len() <= SYNCS);
        assert_eq!(fs::read_dir(&data).unwrap().count(), 0);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        assert_eq!(existing(&data.join("not/yet")), data);
    }
}
