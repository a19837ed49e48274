//! `mintleaf backup`: the whole state of a running cluster, into a file.
//!
//! `rotation` names the files of a directory of backups, and removes the oldest.

mod rotation;

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, IsTerminal, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use mintleaf_core::backup::{BackupHead, Incoming};
use serde_json::json;

use super::client::Client;
use super::failure::{Failure, cannot};
use super::output;
use super::progress::{Progress, Unit};
use super::temporary::Temporary;
use crate::machine::entropy;

/// Where to put a backup.
#[derive(clap::Args, Debug)]
pub struct BackupArgs {
    /// The file, which must not exist yet; a directory, for a file that is named by cluster and time; or `-` for standard
    /// output
    #[arg(value_name = "FILE|DIR/")]
    file: PathBuf,
    /// Once the new backup is complete, remove all of this cluster's in DIR except the N latest
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    keep: Option<u32>,
}

pub(super) async fn run(args: BackupArgs, client: &Client) -> Result<(), Failure> {
    let BackupArgs { file, keep } = args;
    if file.is_dir() || file.as_os_str().as_encoded_bytes().ends_with(b"/") {
        return into_directory(&file, keep, client).await;
    }
    if keep.is_some() {
        let text = format!("--keep needs a directory, and {} is none", file.display());
        return Err(Failure::hinting(text, "a slash at its end makes it one"));
    }
    if file.as_os_str() == "-" {
        receive(client, &mut io::stdout()).await?;
        return Ok(());
    }
    let mut new = NewFile::create(&file)?;
    let (_, bytes) = receive(client, &mut new.file).await?;
    new.put(&file)?;
    let shown = file.display().to_string();
    client.show(&json!({ "file": shown, "bytes": bytes }), || {
        format!(
            "{shown}: {bytes} bytes, verified\nKeep it where only you can read it: it names every tag, every node, \
             and who changed what. `mintleaf inspect` shows what it contains.\n"
        )
    })
}

/// Puts a backup into a directory, under a name that says what it is, and removes older ones. Without a terminal it
/// prints nothing, so that a job that runs each night sends mail about failures alone.
async fn into_directory(dir: &Path, keep: Option<u32>, client: &Client) -> Result<(), Failure> {
    // Not those above it: they may be the place of a file system that is not mounted.
    match DirBuilder::new().mode(0o700).create(dir) {
        Err(error) if !dir.is_dir() => return Err(cannot("make", dir, &error)),
        _ => {}
    }
    let mut new = NewFile::create(&dir.join(".mintleaf-backup"))?;
    let (head, bytes) = receive(client, &mut new.file).await?;
    let path = dir.join(rotation::name(&head));
    new.put(&path)?;
    let removed = match keep {
        Some(keep) => rotation::remove_older(dir, &head, keep as usize)?,
        None => Vec::new(),
    };
    let shown = path.display().to_string();
    if client.json {
        return output::print_json(&json!({ "file": shown, "bytes": bytes, "removed": removed }));
    }
    if !io::stdout().is_terminal() {
        return Ok(());
    }
    let removed = match removed.len() {
        0 => String::new(),
        count => format!("; {count} older removed"),
    };
    output::print(&format!("{shown}: {bytes} bytes, verified{removed}\n"))
}

/// Receives a backup into `out`, and checks it to its end; returns its head, and its length in bytes.
async fn receive(client: &Client, out: &mut impl Write) -> Result<(BackupHead, u64), Failure> {
    let mut progress = Progress::new("received", Unit::Bytes);
    let mut incoming = Incoming::default();
    let mut pieces = client.stream("/v1/backup").await?;
    let unwritten = |error| Failure::new(format!("cannot write: {error}"));
    let no_use = |error| Failure::new(format!("the backup is no use: {error}"));
    while let Some(piece) = pieces.next().await? {
        incoming.take(&piece).map_err(no_use)?;
        out.write_all(&piece).map_err(unwritten)?;
        progress.at(incoming.bytes());
    }
    out.flush().map_err(unwritten)?;
    drop(progress);
    incoming.finish().map_err(no_use)
}

/// A file that gets its name once it is whole and on disk. If the command fails or a signal ends it before
/// that, nothing is left behind.
struct NewFile {
    temp: Temporary,
    file: File,
}

impl NewFile {
    /// Creates a file beside `path`. Its name is drawn, because every process has the same number in a container, and
    /// the file of one that was killed may still be there.
    fn create(path: &Path) -> Result<Self, Failure> {
        if path.symlink_metadata().is_ok() {
            return Err(exists(path));
        }
        let drawn = entropy::random_hex::<8>().map_err(|error| cannot("write", path, &error))?;
        let mut temp = path.as_os_str().to_owned();
        temp.push(format!(".{drawn}.tmp"));
        let temp = PathBuf::from(temp);
        // Only its owner may read what is in a backup.
        let temp = Temporary::at(temp).map_err(|error| cannot("write", path, &error))?;
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(temp.path());
        let file = file.map_err(|error| cannot("write", temp.path(), &error))?;
        Ok(Self { temp, file })
    }

    /// Gives the file its name, unless there is a file of that name.
    fn put(self, path: &Path) -> Result<(), Failure> {
        self.file.sync_all().map_err(|error| cannot("write", self.temp.path(), &error))?;
        match fs::hard_link(self.temp.path(), path) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                return Err(exists(path));
            }
            // Some file systems have no links.
            Err(_) => {
                fs::rename(self.temp.path(), path)
                    .map_err(|error| cannot("write", path, &error))?;
            }
        }
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let parent = parent.unwrap_or(Path::new("."));
        let synced = File::open(parent).and_then(|parent| parent.sync_all());
        synced.map_err(|error| cannot("sync", parent, &error))
    }
}

fn exists(path: &Path) -> Failure {
    Failure::new(format!("{} already exists and is not overwritten", path.display()))
}
