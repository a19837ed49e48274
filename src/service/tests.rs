//! Services over a real log of one node.

mod altered;
mod first_uses;
mod marks;
mod mixed_up;
mod shaped;

use std::sync::Arc;
use std::time::Duration;

use mintleaf_core::snowflake::SnowflakeSettings;
use mintleaf_raft::{Node, Options, StateMachine};
use tempfile::TempDir;

use crate::machine::clock::{Clock, SystemClock};
use crate::replica::StateReplica;
use crate::server::{AssembledNode, Assembly, assemble};
use crate::service::ServiceSettings;

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
            window: Duration::from_secs(1),
            ..SnowflakeSettings::leaf()
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
    let options = Options::alone(1, dir.path().join("node"));
    assemble(assembly, |state, clock| Node::open(options, drives(state), clock)).await.unwrap()
}
