//! What the services of a node are made of.

use std::sync::Arc;

use clap::ValueEnum;
use serde::Deserialize;

use super::snowflake::snowflakes::Snowflakes;
use super::tag_table::TagTable;
use crate::machine::clock::Clock;
use crate::metrics::Metrics;
use crate::replica::{DrawKey, Replica};

/// What clients of Leaf's paths get for an id above 2^53 - 1. There an id is a bare number, and readers of JSON that
/// keep numbers as doubles, such as JavaScript, round it: two ids become one.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum JsonNumbers {
    /// The bare number.
    #[default]
    Allow,
    /// The number in quotes.
    Quote,
    /// 422 with the code `json_number_too_large`.
    Refuse,
}

/// The settings of the services.
#[derive(Clone, Copy, Debug)]
pub struct ServiceSettings {
    /// Whether an unknown tag is created on first use.
    pub auto_create_tags: bool,
    /// Maximum number of names of tags that the cluster may know, deleted ones included.
    pub tags_max: u64,
    /// Maximum number of keys that all registers together may have, those of deleted ones included.
    pub register_keys_max: u64,
    /// Bytes for the counters of sequences, while the node leads.
    pub sequence_memory: usize,
    /// What clients of Leaf's paths get for an id above 2^53 - 1.
    pub json_numbers: JsonNumbers,
}

/// Everything that the services of a node need; cheap to clone.
#[derive(Clone)]
pub struct ServiceParts {
    /// The replicated log and the state that it made.
    pub replica: Arc<Replica>,
    /// What ids of tags are taken from; it listens to the log.
    pub table: Arc<TagTable>,
    /// The node's clocks.
    pub clock: Arc<dyn Clock>,
    /// The node's counters.
    pub metrics: Arc<Metrics>,
    /// The snowflake ids that the node's lease covers.
    pub snowflakes: Arc<Snowflakes>,
    /// The settings.
    pub settings: ServiceSettings,
    /// Names this process start in the log: no start of any node ever had the same.
    pub nonce: u128,
    /// Draws the keys of hidden ids, below the level that makes them of a root key.
    pub draw_key: DrawKey,
}
