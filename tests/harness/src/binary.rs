//! The `mintleaf` binary, and the commands that run it.

use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::{Cluster, Dev, Serve};

/// A `mintleaf` binary, possibly run by another program that sets up its environment.
#[derive(Clone, Debug)]
pub struct Binary {
    /// A command line that ends with the binary's path.
    words: Vec<OsString>,
}

impl Binary {
    /// The binary at this path.
    pub fn at(path: impl AsRef<Path>) -> Self {
        Self { words: vec![path.as_ref().into()] }
    }

    /// The same binary, started by a command line such as `taskset -c 1` or `ip netns exec left`.
    #[must_use]
    pub fn under(&self, words: impl IntoIterator<Item = impl Into<OsString>>) -> Self {
        let words = words.into_iter().map(Into::into);
        Self { words: words.chain(self.words.iter().cloned()).collect() }
    }

    /// A command without arguments. Its environment has no settings of a node.
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.words[0]);
        command.args(&self.words[1..]);
        clean(&mut command);
        command
    }

    /// `mintleaf serve`. It ends at once when it is asked to, unless `--drain` sets another time.
    pub fn serve(&self, node: &Serve<'_>) -> Command {
        let mut command = self.command();
        command.env("MINTLEAF_DRAIN", "0");
        node.add_to(&mut command);
        command
    }

    /// `mintleaf dev` with one node, ready.
    pub fn dev(&self) -> Dev {
        Dev::start(self, 1)
    }

    /// `mintleaf dev` with `nodes` nodes, all ready.
    pub fn dev_with_nodes(&self, nodes: u16) -> Dev {
        Dev::start(self, nodes)
    }

    /// A cluster of `nodes` founders, each a process, all ready under one leader.
    pub fn cluster(&self, nodes: u64) -> Cluster {
        let mut cluster = self.prepare(nodes, &[]);
        cluster.start_all();
        cluster
    }

    /// The same number of founders, all with `flags`. None is running yet.
    pub fn prepare(&self, nodes: u64, flags: &[&str]) -> Cluster {
        Cluster::prepare(self, nodes, flags)
    }
}

/// Removes all settings of a node from a command's environment, and its standard input.
pub fn clean(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("MINTLEAF_") {
            command.env_remove(name);
        }
    }
    command.env_remove("RUST_LOG").stdin(Stdio::null());
}
