//! Leadership that a quorum confirms, and requests to the leader.

use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;
use tokio::time::{Instant, timeout};

use super::support::{SOON, add, eventually, open_three, three_peers};
use crate::error::{AskError, Delivery, NotConfirmed, ProposeError};
use crate::leader_requests::{LEADER_REQUEST_BYTES_MAX, LeaderRequests};
use crate::runtime::Pending;

/// Answers with the id of its node and the request, and never answers an empty one.
struct Echo(u8);

impl LeaderRequests for Echo {
    fn answer(&self, request: Vec<u8>, _: Instant) -> Pending<'_, Option<Vec<u8>>> {
        Box::pin(async move {
            if request.is_empty() {
                std::future::pending::<()>().await;
            }
            (request[0] != b'-').then(|| [&[self.0], &request[..]].concat())
        })
    }
}

fn soon() -> Instant {
    Instant::now() + SOON
}

#[tokio::test(flavor = "multi_thread")]
async fn a_quorum_confirms_the_leader_alone_which_others_can_ask() {
    let temp = TempDir::new().unwrap();
    let peers = three_peers();
    let nodes = open_three(&peers, |id| temp.path().join(format!("node-{id}"))).await;
    for (id, node) in (1..).zip(&nodes) {
        node.handle().answer_by(Arc::new(Echo(id)));
    }
    assert_eq!(add(&nodes[0], 1).await, Ok(1));
    let known = || nodes.iter().all(|node| node.handle().leader_id().is_some());
    eventually("everybody knows the leader", known).await;
    let id = nodes[0].handle().leader_id().unwrap();
    let (led, mut followers): (Vec<_>, Vec<_>) =
        nodes.into_iter().partition(|node| node.handle().node_id() == id);
    let (leader, follower) = (led[0].handle(), followers[0].handle());

    assert_eq!(leader.confirm_leadership(soon()).await, Ok(leader.status().term));
    assert_eq!(follower.confirm_leadership(soon()).await, Err(NotConfirmed::NotLeading));

    let long = vec![b'a'; LEADER_REQUEST_BYTES_MAX - 1];
    let told = follower.ask_leader(long.clone(), soon()).await;
    assert_eq!(told, Ok([&[id as u8], &long[..]].concat()));
    assert_eq!(leader.ask_leader(b"a".to_vec(), soon()).await, Err(AskError::NoLeader));
    let refused = follower.ask_leader(b"-".to_vec(), soon()).await;
    assert_eq!(refused, Err(AskError::Unanswered(format!("node {id} has no answer"))));
    let moment = Instant::now() + Duration::from_millis(50);
    let late = follower.ask_leader(Vec::new(), moment).await;
    assert!(matches!(late, Err(AskError::Unanswered(_))), "{late:?}");

    let propose = |at: &crate::Handle| {
        let at = at.clone();
        async move { at.propose(vec![b"4".to_vec()], Delivery::AsLeader, soon()).await }
    };
    assert_eq!(propose(&leader).await, Ok(vec![b"5".to_vec()]));
    let refused = propose(&follower).await;
    assert!(matches!(refused, Err(ProposeError::Unavailable(_))), "{refused:?}");

    for node in followers.drain(..) {
        node.shutdown().await;
    }
    let alone = leader.confirm_leadership(Instant::now() + Duration::from_millis(500)).await;
    assert!(alone.is_err(), "confirmed without a quorum: {alone:?}");
    for node in led {
        node.shutdown().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_leader_is_confirmed_in_a_later_term_as_soon_as_it_leads() {
    let temp = TempDir::new().unwrap();
    let peers = three_peers();
    let nodes = open_three(&peers, |id| temp.path().join(format!("node-{id}"))).await;
    assert_eq!(add(&nodes[0], 1).await, Ok(1));
    let (mut last, mut leader) = (0, 0);
    for _ in 0..4 {
        let target = nodes[0].handle().leader_id().unwrap_or(1) % 3 + 1;
        let handle = nodes[usize::try_from(target).unwrap() - 1].handle();
        let asked = nodes[0].handle();
        let transfer = tokio::spawn(async move { asked.transfer_leader(target).await });
        // The first round that succeeds often does so before the new leader's first entry is committed.
        let confirmed = timeout(Duration::from_secs(3), async {
            loop {
                match handle.confirm_leadership(soon()).await {
                    Ok(term) => break term,
                    Err(_) => tokio::task::yield_now().await,
                }
            }
        });
        // A transfer may fail, and another node may lead.
        let confirmed = confirmed.await;
        drop(transfer.await);
        if let Ok(term) = confirmed {
            // The first node may learn late who leads, and ask that node to lead.
            let is_later = term > last || target == leader && term == last;
            assert!(is_later, "term {term} of node {target} after {last} of node {leader}");
            (last, leader) = (term, target);
        }
    }
    assert!(last > 0, "no transfer succeeded");
    for node in nodes {
        node.shutdown().await;
    }
}
