//! Resource limits of running processes, set from outside.

use std::fs;
use std::io;
use std::path::Path;
use std::process::Stdio;

use tokio::process::Command;

/// A resource that a process can be denied more of.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Resource {
    /// How far a file may reach, in bytes.
    FileBytes,
    /// How many files and sockets may be open.
    Files,
    /// How much writable memory may be mapped, in bytes. (A limit on address space would not work: allocators
    /// reserve plenty of it in advance.)
    Memory,
}

impl Resource {
    fn flag(self) -> &'static str {
        match self {
            Self::FileBytes => "--fsize",
            Self::Files => "--nofile",
            Self::Memory => "--data",
        }
    }

    /// The start of a command line that runs the rest of it under a limit.
    pub(crate) fn words(self, limit: u64) -> Vec<String> {
        vec!["prlimit".to_owned(), format!("{}={limit}:", self.flag()), "--".to_owned()]
    }
}

/// A limit that was set on a process.
#[derive(Debug)]
pub(crate) struct Limited {
    pid: u32,
    resource: Resource,
    before: String,
}

impl Limited {
    /// Lowers a process's soft limit.
    ///
    /// # Errors
    /// When the process has ended, or the limit cannot be set.
    pub(crate) async fn set(pid: u32, resource: Resource, limit: u64) -> io::Result<Self> {
        let before = soft(pid, resource).await?;
        prlimit(&[&format!("--pid={pid}"), &format!("{}={limit}:", resource.flag())]).await?;
        Ok(Self { pid, resource, before })
    }

    /// Restores the former limit, if the process is still running.
    pub(crate) async fn lift(self) {
        let Self { pid, resource, before } = self;
        let limit = format!("{}={before}:", resource.flag());
        let _ = prlimit(&[&format!("--pid={pid}"), &limit]).await;
    }
}

async fn soft(pid: u32, resource: Resource) -> io::Result<String> {
    let shown = ["--noheadings", "--raw", "--output=SOFT", resource.flag()];
    let told = prlimit(&[&[format!("--pid={pid}").as_str()], &shown[..]].concat()).await?;
    Ok(told.trim().to_owned())
}

async fn prlimit(args: &[&str]) -> io::Result<String> {
    let output = Command::new("prlimit").args(args).stdin(Stdio::null()).output().await?;
    if !output.status.success() {
        return Err(io::Error::other(String::from_utf8_lossy(&output.stderr).trim().to_owned()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// How many files and sockets a process has open.
///
/// # Errors
/// When the process has ended.
pub(crate) fn open_files(pid: u32) -> io::Result<u64> {
    Ok(fs::read_dir(format!("/proc/{pid}/fd"))?.count() as u64)
}

/// How much writable memory a process has mapped, in bytes.
///
/// # Errors
/// When the process has ended.
pub(crate) fn writable_memory(pid: u32) -> io::Result<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let size = status.lines().find_map(|line| line.strip_prefix("VmData:"));
    let kb = size.and_then(|size| size.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    kb.map(|kb| kb * 1024).ok_or_else(|| io::Error::other("no VmData"))
}

/// The size of the largest file under a directory, in bytes.
pub(crate) fn largest_file(dir: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(dir) else { return 0 };
    let sizes = entries.flatten().map(|entry| match entry.metadata() {
        Ok(meta) if meta.is_dir() => largest_file(&entry.path()),
        Ok(meta) => meta.len(),
        Err(_) => 0,
    });
    sizes.max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_limit_is_set_from_outside_and_lifted() {
        let mut child = Command::new("sleep").arg("30").kill_on_drop(true).spawn().unwrap();
        let pid = child.id().unwrap();
        let before = soft(pid, Resource::Files).await.unwrap();
        let limited = Limited::set(pid, Resource::Files, 7).await.unwrap();
        assert_eq!(soft(pid, Resource::Files).await.unwrap(), "7");
        limited.lift().await;
        assert_eq!(soft(pid, Resource::Files).await.unwrap(), before);
        assert!(open_files(pid).unwrap() >= 1);
        assert!(writable_memory(pid).unwrap() > 0);
        child.kill().await.unwrap();
    }
}
