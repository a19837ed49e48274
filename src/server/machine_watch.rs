//! What a node takes of its machine, for the metrics: looked at every few seconds, on threads that may block.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::statvfs;
use rustix::process::{Resource, getrlimit};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep};

use crate::machine::clock::{Clock, SystemClock};
use crate::metrics::{DiskReadings, ProcessReadings};
use crate::service::{HeadroomLog, Services};

/// Time between two looks at the process and the disk.
const LOOK_INTERVAL: Duration = Duration::from_secs(5);
/// Time between two looks at all tags.
const HEADROOM_INTERVAL: Duration = Duration::from_secs(30);
/// Ticks of the kernel's clock in a second, as Linux shows them to every program.
const TICKS_PER_SECOND: f64 = 100.0;
/// Bytes of a page of memory, as `statm` counts them: 4 KiB on all platforms that this has been built for.
const PAGE_BYTES: u64 = 4096;
/// Files that are looked at within a directory at most.
const FILES_MAX: usize = 10_000;

/// Keeps the metrics of the process, the disk and the tags up to date, for as long as it is polled.
pub(super) async fn watch_machine(data: PathBuf, services: Services) {
    let mut told = HeadroomLog::default();
    let mut headroom_due = Instant::now();
    let mut started_s = None;
    loop {
        let data = data.clone();
        // If the disk does not answer, this look does not end, and no other one begins.
        let read = spawn_blocking(move || (read_process(), read_disk(&data)));
        if let Ok((mut process, disk)) = read.await {
            // A start does not move with the clock.
            process.started_s = *started_s.get_or_insert(process.started_s);
            services.ids.metrics().machine(&process, &disk);
        }
        if Instant::now() >= headroom_due {
            headroom_due = Instant::now() + HEADROOM_INTERVAL;
            services.cluster.look_for_headroom(&mut told).await;
        }
        sleep(LOOK_INTERVAL).await;
    }
}

/// What `/proc` says of this process; zero for what it does not say.
fn read_process() -> ProcessReadings {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let uptime = fs::read_to_string("/proc/uptime").unwrap_or_default();
    let statm = fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let resident = statm.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok());
    let now_s = SystemClock::default().now_ms() as f64 / 1000.0;
    let open_files = fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
    ProcessReadings {
        resident_bytes: resident.unwrap_or(0) * PAGE_BYTES,
        open_files: open_files as u64,
        open_files_max: getrlimit(Resource::Nofile).current.unwrap_or(0),
        ..of_stat(&stat, &uptime, now_s).unwrap_or_default()
    }
}

/// Start, processor time and threads, of the lines `/proc/self/stat` and `/proc/uptime`.
fn of_stat(stat: &str, uptime: &str, now_s: f64) -> Option<ProcessReadings> {
    // The name of the process, in parentheses, may hold anything.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let number = |at: usize| fields.get(at)?.parse::<f64>().ok();
    let (user, system, threads, started) = (number(11)?, number(12)?, number(17)?, number(19)?);
    let up_s: f64 = uptime.split(' ').next()?.parse().ok()?;
    Some(ProcessReadings {
        started_s: now_s - (up_s - started / TICKS_PER_SECOND),
        cpu_s: (user + system) / TICKS_PER_SECOND,
        threads: threads as u64,
        ..ProcessReadings::default()
    })
}

/// The file system of the data directory, and the sizes of its parts; zero for what cannot be read.
fn read_disk(data: &Path) -> DiskReadings {
    let mut disk = statvfs(data).map_or_else(
        |_| DiskReadings::default(),
        |it| DiskReadings {
            size_bytes: it.f_blocks.saturating_mul(it.f_frsize),
            free_bytes: it.f_bavail.saturating_mul(it.f_frsize),
            ..DiskReadings::default()
        },
    );
    for entry in fs::read_dir(data).into_iter().flatten().take(FILES_MAX).flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let part = match &*name {
            name if name.starts_with("tail-") => &mut disk.write_ahead_log_bytes,
            name if name.starts_with("log-") => &mut disk.checkpoints_bytes,
            "snapshot" => &mut disk.snapshots_bytes,
            _ => continue,
        };
        *part += bytes_below(&entry.path(), 2);
    }
    disk
}

/// Bytes of a file, or of the files in a directory and down to `levels` levels below it. A file that vanishes counts as
/// none.
fn bytes_below(path: &Path, levels: u32) -> u64 {
    let Ok(about) = fs::symlink_metadata(path) else { return 0 };
    if !about.is_dir() || levels == 0 {
        return about.len();
    }
    let entries = fs::read_dir(path).into_iter().flatten().take(FILES_MAX).flatten();
    entries.map(|entry| bytes_below(&entry.path(), levels - 1)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_read_whatever_its_name() {
        let stat = "1 (a) b) S 1 1 1 0 -1 4194560 1 0 0 0 250 50 0 0 20 0 17 0 100 1 1";
        let read = of_stat(stat, "61.00 12.00\n", 1_000.0).unwrap();
        assert_eq!((read.cpu_s, read.threads, read.started_s), (3.0, 17, 940.0));
        assert_eq!(of_stat("", "", 0.0), None);
    }

    #[test]
    fn this_process_runs_on_a_disk_and_has_files_open() {
        let process = read_process();
        assert!(process.resident_bytes > 1 << 20 && process.open_files > 2, "{process:?}");
        let now_s = SystemClock::default().now_ms() as f64 / 1000.0;
        assert!((0.0..86_400.0).contains(&(now_s - process.started_s)), "{process:?}");
        let data = tempfile::tempdir().unwrap();
        fs::write(data.path().join("tail-a0"), [0; 1000]).unwrap();
        fs::create_dir(data.path().join("log-a")).unwrap();
        fs::write(data.path().join("log-a/db"), [0; 3000]).unwrap();
        let disk = read_disk(data.path());
        assert!(disk.free_bytes > 0 && disk.size_bytes >= disk.free_bytes, "{disk:?}");
        assert_eq!((disk.write_ahead_log_bytes, disk.checkpoints_bytes), (1000, 3000));
    }
}
