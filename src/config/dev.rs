//! The settings of `mintleaf dev`, checked.

use super::args::{DevArgs, ServeArgs};
use super::error::{ConfigError, fault};
use super::node::NodeConfig;

/// A cluster in one process, checked.
#[derive(Clone, Debug)]
pub struct DevConfig {
    /// How many nodes, 1 to 9.
    pub nodes: u8,
    /// The first node, as if it were alone, in the directory that holds every node's data. The ports of the others
    /// follow its ports; port 0 takes free ones for all.
    pub first: NodeConfig,
}

impl DevConfig {
    /// Checks `args`.
    ///
    /// # Errors
    /// The first setting that cannot be used, by the name it was given under.
    pub fn resolve(args: DevArgs) -> Result<Self, ConfigError> {
        let sources = args.sources.clone();
        Self::check(args).map_err(|error| error.naming_sources(&sources))
    }

    fn check(args: DevArgs) -> Result<Self, ConfigError> {
        let DevArgs { nodes, place, service, sources } = args;
        let (node_id, auto_create_tags) = (Some(1), Some(true));
        let args =
            ServeArgs { node_id, place, service, auto_create_tags, sources, ..Default::default() };
        let peers = [(1, String::new())].into();
        let first = NodeConfig { peers, ..NodeConfig::check(args, None)? };
        for (name, address) in [("http", Some(first.http)), ("resp", first.resp)] {
            let last = |first: u16| first.checked_add(u16::from(nodes) - 1);
            if address.is_some_and(|address| last(address.port()).is_none()) {
                let why = format_args!("leaves no {nodes} consecutive ports: start lower");
                return Err(fault(name, why));
            }
        }
        Ok(Self { nodes, first })
    }
}
