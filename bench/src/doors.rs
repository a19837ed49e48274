//! What a node's ports require of clients: nothing, tokens, or TLS.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use mintleaf_harness::clean;

use crate::Result;

/// What a node requires of its clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Door {
    /// Nothing.
    #[default]
    Open,
    /// A token from clients that have one. Callers without a token may do everything, so that the bench can
    /// create tags.
    Token,
    /// TLS.
    Tls,
}

/// The name of the token in an auth file of the bench.
pub(crate) const NAME: &str = "shop";

/// Writes an auth file with one token, for ids of the bench's tags. Returns the file and the token.
///
/// # Errors
/// When the binary fails to make a token.
pub(crate) fn auth_file(binary: &Path, dir: &Path) -> Result<(PathBuf, String)> {
    let tags = ["--tags", "key-*", "--tags", "ord*"];
    let made = said(binary, [&["token", "new", NAME, "--role", "issue"][..], &tags].concat())?;
    let (token, lines) = made.split_once('\n').ok_or("no token was made")?;
    let file = dir.join("auth.toml");
    fs::write(&file, format!("anonymous = \"admin\"\n{lines}"))?;
    fs::set_permissions(&file, Permissions::from_mode(0o600))?;
    Ok((file, token.to_owned()))
}

/// The certificates of a server and of the CA that signed it.
#[derive(Debug)]
pub(crate) struct Certificates {
    pub(crate) ca: PathBuf,
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
}

impl Certificates {
    /// Makes certificates in a directory, for a server on 127.0.0.1.
    ///
    /// # Errors
    /// When the binary fails to make them.
    pub(crate) fn make(binary: &Path, dir: &Path) -> Result<Self> {
        let (ca, node) = (dir.join("ca"), dir.join("tls"));
        let [ca_dir, node_dir] = [&ca, &node].map(|dir| dir.display().to_string());
        said(binary, vec!["cert", "ca", "--out", &ca_dir])?;
        let words = ["cert", "node", "1", "--ca", &ca_dir, "--out", &node_dir];
        said(binary, [&words[..], &["--name", "127.0.0.1"]].concat())?;
        let (certificate, key) = (node.join("node-1.pem"), node.join("node-1.key"));
        Ok(Self { ca: ca.join("ca.pem"), certificate, key })
    }
}

/// The output of a command of the binary.
///
/// # Errors
/// When the command fails; the error contains its output.
pub(crate) fn said(binary: &Path, words: Vec<&str>) -> Result<String> {
    let mut command = Command::new(binary);
    clean(&mut command);
    let output = command.args(&words).output()?;
    if !output.status.success() {
        let error = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Err(format!("mintleaf {}: {error}", words.join(" ")).into());
    }
    Ok(String::from_utf8(output.stdout)?)
}
