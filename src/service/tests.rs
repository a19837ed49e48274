//! Services over a real log of one node.

mod altered;
mod first_uses;
mod marks;
mod mixed_up;
mod shaped;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use mintleaf_core::snowflake::{Format, Layout, SnowflakeSettings, WorkerPool};
use mintleaf_raft::{Node, Options, StateMachine, Tuning};
use tempfile::TempDir;

use crate::config::SNOWFLAKE_EPOCH_MS_DEFAULT;
use crate::machine::clock::{Clock, SystemClock};
use crate::replica::StateReplica;
use crate::server::{AssembledNode, Assembly, assemble};
use crate::service::ServiceSettings;

const NOWHERE: &str = "127.0.0.1:1";

/// A node that is a cluster by itself and keeps at most `tags_max` names of tags. Its log drives what `drives` makes of
/// its state.
pub(crate) async fn alone(
    dir: &TempDir,
    tags_max: u64,
    drives: impl FnOnce(Arc<StateReplica>) -> Arc<dyn StateMachine>,
) -> AssembledNode {
    alone_by(Arc::new(SystemClock::default()), dir, tags_max, drives).await
}

/// The same by this clock.
async fn alone_by(
    clock: Arc<dyn Clock>,
    dir: &TempDir,
    tags_max: u64,
    drives: impl FnOnce(Arc<StateReplica>) -> Arc<dyn StateMachine>,
) -> AssembledNode {
    let assembly = Assembly {
        clock,
        snowflake: SnowflakeSettings {
            format: Format::new(Layout::LEAF, SNOWFLAKE_EPOCH_MS_DEFAULT).unwrap(),
            pool: WorkerPool::all(Layout::LEAF),
            window: Duration::from_secs(1),
            max_clock_skew: Duration::from_secs(2),
            worker_ids: Vec::new(),
        },
        nonce: 1,
        secret: 1,
        settings: ServiceSettings {
            auto_create_tags: true,
            tags_max,
            register_keys_max: 1_000,
            sequence_memory: 1 << 20,
            json_numbers: Default::default(),
        },
        draw_key: || Ok([7; 32]),
    };
    let options = options(1, dir.path().join("node"));
    assemble(assembly, |state, clock| Node::open(options, drives(state), clock)).await.unwrap()
}

/// The options of a node that is alone, and that no other node reaches.
pub(crate) fn options(node_id: u64, data: PathBuf) -> Options {
    Options {
        node_id,
        data,
        fresh_store: node_id.into(),
        boot_nonce: node_id.into(),
        moved: false,
        listen: None,
        advertise_raft: Some(NOWHERE.to_owned()),
        advertise_http: NOWHERE.to_owned(),
        zone: String::new(),
        peers: [(node_id, NOWHERE.to_owned())].into(),
        join: None,
        security: mintleaf_raft::Security::Plain,
        tuning: Tuning::default(),
    }
}
