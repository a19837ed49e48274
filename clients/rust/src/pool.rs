//! What a worker id is leased from, and how.

use crate::error::Error;
use crate::request;

/// How long a lease of a worker id lasts without a renewal.
const SECONDS: u32 = 60;

/// The pool that a worker id is leased from, and how.
///
/// A name alone is a pool too: `client.lease_worker("shops")`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub struct Pool {
    pub(crate) name: String,
    pub(crate) seconds: u32,
    pub(crate) holder: String,
}

impl Pool {
    /// The pool of this name.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), seconds: SECONDS, holder: holder() }
    }

    /// How long the lease lasts without a renewal, 5 to 3,600 s. Default 60. A process that ends keeps its worker id for so long.
    pub fn seconds(mut self, seconds: u32) -> Self {
        self.seconds = seconds;
        self
    }

    /// The name that an operator sees for the lease, up to 128 characters. Default: the host's name and the process id.
    pub fn holder(mut self, holder: impl Into<String>) -> Self {
        self.holder = holder.into();
        self
    }

    pub(crate) fn check(&self) -> Result<(), Error> {
        request::check_name("pool", &self.name)?;
        request::check_seconds(self.seconds)?;
        request::check_holder(&self.holder)
    }
}

impl From<&str> for Pool {
    fn from(name: &str) -> Self {
        Self::new(name)
    }
}

impl From<String> for Pool {
    fn from(name: String) -> Self {
        Self::new(name)
    }
}

/// The host's name, where a file has it, and the process id.
fn holder() -> String {
    let files = ["/proc/sys/kernel/hostname", "/etc/hostname"];
    let host = files.into_iter().find_map(|file| std::fs::read_to_string(file).ok());
    let host: String = host.as_deref().unwrap_or("rust").trim().chars().take(100).collect();
    format!("{host}-{}", std::process::id())
}
