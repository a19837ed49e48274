//! The settings of `mintleaf serve` and `mintleaf dev`, and their checks.
//!
//! A setting comes from a flag, else from the environment, else from the `--config` file, else from its default.
//! [`ServeArgs`] names every one of them once, for all three sources. The checks run on the merged settings, so that
//! the error for a mistake is the same in all sources.
//!
//! ```text
//! dev           a cluster in one process
//! node          one node
//!   args        every setting, in all three sources
//!   checks      the checks of each value
//!     byte_size   sizes of memory as people write them
//!   exposure    the addresses that other machines can reach
//!   peer_keys   the files that a node proves itself with to other nodes
//!   auth_source the auth file on disk
//!   client_tls_files    the files that a node proves itself with to clients
//!     named_file  such a file, read within a bound
//!   settings_file       the `--config` file
//!     toml_lists        lists in it
//!   log_settings  the log of the process
//!   error       the error of a setting
//!     sources   where settings come from
//!     names     what they are called
//!   defaults
//! ```

mod args;
mod auth_source;
mod byte_size;
mod checks;
mod client_tls_files;
mod defaults;
mod dev;
mod error;
mod exposure;
mod log_settings;
mod named_file;
mod names;
mod node;
mod peer_keys;
mod settings_file;
mod sources;
mod toml_lists;

pub use args::{DevArgs, LogFormat, LogLevel, PlaceArgs, ServeArgs, ServiceArgs};
pub use auth_source::AuthSource;
pub use client_tls_files::ClientTlsFiles;
pub use defaults::{REGISTER_KEYS_MAX_DEFAULT, TAGS_MAX_DEFAULT};
pub use dev::DevConfig;
pub use error::ConfigError;
pub use log_settings::LogSettings;
pub use named_file::{foreign_owner, others_can_use};
pub use names::nearest;
pub use node::NodeConfig;
pub use peer_keys::{KeyFiles, PeerKeys};
pub use settings_file::with_file;
pub use sources::Sources;

#[cfg(test)]
mod tests;
