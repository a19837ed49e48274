//! `mintleaf backup`: the whole state of a running cluster, into a file.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use mintleaf_core::backup::Incoming;
use serde_json::json;

use super::client::Client;
use super::failure::Failure;
use super::output;
use super::progress::{Progress, Unit};
use super::temporary::Temporary;

/// Where to put a backup.
#[derive(clap::Args, Debug)]
pub struct BackupArgs {
    /// The file, which must not exist yet; `-` for standard output
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

pub(super) async fn run(args: BackupArgs, client: &Client, json: bool) -> Result<(), Failure> {
    if args.file.as_os_str() == "-" {
        receive(client, &mut io::stdout()).await?;
        return Ok(());
    }
    let mut file = NewFile::create(&args.file)?;
    let bytes = receive(client, &mut file.file).await?;
    file.put()?;
    let shown = args.file.display().to_string();
    if json {
        return output::print_json(&json!({ "file": shown, "bytes": bytes }));
    }
    output::print(&format!(
        "{shown}: {bytes} bytes, verified\nKeep it where only you can read it: it names every tag, every node, and \
         who changed what. `mintleaf inspect` shows what it contains.\n"
    ))
}

/// Receives a backup into `out`, and checks it to its end; returns its length in bytes.
async fn receive(client: &Client, out: &mut impl Write) -> Result<u64, Failure> {
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
    path: PathBuf,
    temp: Temporary,
    file: File,
}

impl NewFile {
    fn create(path: &Path) -> Result<Self, Failure> {
        if path.symlink_metadata().is_ok() {
            return Err(exists(path));
        }
        let mut temp = path.as_os_str().to_owned();
        temp.push(format!(".{}.tmp", std::process::id()));
        let temp = PathBuf::from(temp);
        // Only its owner may read what is in a backup.
        let temp = Temporary::at(temp).map_err(|error| cannot("write", path, &error))?;
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(temp.path());
        let file = file.map_err(|error| cannot("write", temp.path(), &error))?;
        Ok(Self { path: path.to_owned(), temp, file })
    }

    /// Gives the file its name, unless a file of that name has appeared since.
    fn put(self) -> Result<(), Failure> {
        self.file.sync_all().map_err(|error| cannot("write", self.temp.path(), &error))?;
        match fs::hard_link(self.temp.path(), &self.path) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                return Err(exists(&self.path));
            }
            // Some file systems have no links.
            Err(_) => fs::rename(self.temp.path(), &self.path)
                .map_err(|error| cannot("write", &self.path, &error))?,
        }
        let parent = self.path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let parent = parent.unwrap_or(Path::new("."));
        let synced = File::open(parent).and_then(|parent| parent.sync_all());
        synced.map_err(|error| cannot("sync", parent, &error))
    }
}

fn exists(path: &Path) -> Failure {
    Failure::new(format!("{} already exists and is not overwritten", path.display()))
}

fn cannot(what: &str, path: &Path, error: &io::Error) -> Failure {
    Failure::new(format!("cannot {what} {}: {error}", path.display()))
}
