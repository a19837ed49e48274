//! Makes sure that a node makes snowflake ids by the rules of its cluster, and that a new cluster begins at the level
//! that all its founders support.

use std::time::Duration;

use mintleaf_core::snowflake::{Rules, SnowflakeSettings};
use mintleaf_core::state::{Command, Response, State};
use tokio::time::{Instant, timeout};

use crate::replica::Replica;

/// How long a proposal of rules may take until the next.
const PROPOSAL_MAX: Duration = Duration::from_secs(2);
/// How long after the cluster's forming the leader waits for founders to say which level they support.
const FORMING_MAX: Duration = Duration::from_secs(5);
/// Pause before the next look, unless another leader is known before.
const RETRY_INTERVAL: Duration = Duration::from_millis(100);

/// Waits until rules are settled, and compares them with this node's settings. It proposes the rules of the settings
/// while there are none. Settled rules stay for good, so this node's copy of the state is fresh enough.
///
/// # Errors
/// The settings to change, when they are not the cluster's.
pub(in crate::service) async fn settle(
    replica: &Replica,
    settings: &SnowflakeSettings,
) -> Result<(), String> {
    let (own, mut formed) = (settings.rules(), None);
    loop {
        let leader = replica.node().leader_id();
        if let Some(rules) = settled(replica, &own, &mut formed).await {
            return compare(&own, &rules);
        }
        let _ = timeout(RETRY_INTERVAL, replica.node().leader_other_than(leader)).await;
    }
}

/// The rules, once there are some. `formed` is when this node first saw that the cluster has a leader. The wait for
/// founders counts from then, not from the start of this node.
async fn settled(replica: &Replica, own: &Rules, formed: &mut Option<Instant>) -> Option<Rules> {
    let known = || replica.read(|state| state.snowflake_rules());
    if let Some(known) = known() {
        return Some(known);
    }
    // Only the leader settles rules. The others read them in the log, sooner than they could ask for them.
    let node = replica.node();
    if node.leader_id() != Some(node.node_id()) {
        return None;
    }
    // This node's copy may be behind if the cluster formed long ago.
    replica.read_barrier(replica.deadline(PROPOSAL_MAX)).await.ok()?;
    let formed = *formed.get_or_insert_with(Instant::now);
    if let Some(known) = known() {
        return Some(known);
    }
    // The cluster is about to form. Its level is what all founders support, so no operator has to raise it. An upgrade
    // of a cluster that has rules never comes here.
    match replica.node().raise_level().await {
        Ok(()) => {}
        Err(error) if formed.elapsed() < replica.patience(FORMING_MAX) => {
            tracing::debug!(%error, "the cluster has no level yet");
            return None;
        }
        Err(error) => {
            let level = replica.read(State::level);
            tracing::warn!(level, %error, "the cluster begins below the level that this build supports");
        }
    }
    let fix = Command::FixRules { rules: own.clone() };
    match replica.propose(&fix, replica.deadline(PROPOSAL_MAX)).await {
        Ok(Response::Rules { rules }) => Some(rules),
        _ => None,
    }
}

fn compare(own: &Rules, cluster: &Rules) -> Result<(), String> {
    let (own_format, format) = (own.format(), cluster.format());
    if own_format != format {
        return Err(format!(
            "this node is configured for snowflake ids of {own_format}, and its cluster makes them of \
             {format}: start it with --snowflake-layout {} and --snowflake-epoch-ms {}",
            format.layout(),
            format.epoch_ms()
        ));
    }
    if own.pool() != cluster.pool() {
        return Err(format!(
            "this node is configured for the worker ids {} of snowflakes, and its cluster uses {pool}: \
             start it with --snowflake-workers {pool}",
            own.pool(),
            pool = cluster.pool()
        ));
    }
    if own.window_ms_max() > cluster.window_ms_max() {
        return Err(format!(
            "this node is configured for windows of {} ms, and its cluster allows {max_ms} ms since it \
             formed: start it with --snowflake-window {max_ms}ms or less",
            own.window_ms_max(),
            max_ms = cluster.window_ms_max()
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use mintleaf_core::snowflake::Format;

    fn rules(layout: &str, pool: &str, window_ms_max: u64) -> Rules {
        let format = Format::new(layout.parse().unwrap(), 5).unwrap();
        Rules::new(format, pool.parse().unwrap(), window_ms_max).unwrap()
    }

    #[test]
    fn a_node_is_told_which_of_its_settings_is_not_the_clusters() {
        let cluster = rules("41+10+12", "512-1023", 60_000);
        let told = |own| compare(&own, &cluster).err().unwrap_or_default();
        assert_eq!(told(cluster.clone()), "");
        assert_eq!(told(rules("41+10+12", "512-1023", 1_000)), "", "shorter windows are allowed");
        for (own, advice) in [
            (rules("41+10+11", "512-1023", 60_000), "--snowflake-layout 41+10+12 and"),
            (rules("41+10+12", "0-1023", 60_000), "--snowflake-workers 512-1023"),
            (rules("41+10+12", "512-1023", 60_001), "--snowflake-window 60000ms or less"),
        ] {
            let told = told(own);
            assert!(told.contains(&format!("start it with {advice}")), "{told}");
        }
    }
}
