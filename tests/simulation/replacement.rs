//! The replacement of a node: it is removed from its cluster, wiped, and added again.

use std::sync::Arc;
use std::time::Duration;

use mintleaf::service::{Actor, Error, NewMember};
use tokio::time::{sleep, timeout};

use crate::machine::{Machine, Serving};
use crate::net::address;

/// Pause between two attempts at a change of the membership, and how long each attempt may take.
const ASKING_INTERVAL: Duration = Duration::from_millis(200);
const ASKING_MAX: Duration = Duration::from_secs(10);

/// Crashes a machine twice, because a start that was under way may bring it up after the first crash.
pub(crate) async fn put_down(machine: &Arc<Machine>) {
    machine.crash();
    sleep(Duration::from_millis(100)).await;
    machine.crash();
}

/// The next node that serves, other than `id`, with its id. Each call returns another one.
fn ask_in_turn(machines: &[Arc<Machine>], id: u64) -> impl FnMut() -> Option<(u64, Serving)> {
    let mut others = machines.iter().filter(move |machine| machine.node_id != id).cycle();
    move || {
        let mut turn = others.by_ref().take(machines.len());
        turn.find_map(|machine| Some((machine.node_id, machine.serving()?)))
    }
}

/// Removes a node, wipes it and adds it again as a voter. Asks the other nodes one after another until one has done it.
pub(crate) async fn replace(target: Arc<Machine>, machines: Vec<Arc<Machine>>) {
    let id = target.node_id;
    let mut ask = ask_in_turn(&machines, id);
    loop {
        sleep(ASKING_INTERVAL).await;
        let Some((seed, serving)) = ask() else { continue };
        let removed =
            timeout(ASKING_MAX, serving.services.cluster.remove_node(Actor::default(), id, false))
                .await;
        if matches!(removed, Ok(Ok(()) | Err(Error::NotFound(_)))) {
            target.wipe(seed);
            break;
        }
    }
    admit(&target, ask).await;
}

/// Starts a node that asks for admission, and has it added as a voter. Asks the other nodes one after another
/// until one has done it.
pub(crate) async fn take_in(target: Arc<Machine>, machines: Vec<Arc<Machine>>) {
    admit(&target, ask_in_turn(&machines, target.node_id)).await;
}

async fn admit(target: &Arc<Machine>, mut ask: impl FnMut() -> Option<(u64, Serving)>) {
    let id = target.node_id;
    let mut stops = target.stops().len();
    loop {
        sleep(ASKING_INTERVAL).await;
        let Some((seed, serving)) = ask() else { continue };
        if target.stops().iter().skip(stops).any(|why| why.contains("removed from the cluster")) {
            // An earlier removal, whose answer was lost, arrived late and removed the new node.
            target.wipe(seed);
            stops = target.stops().len();
        }
        target.start();
        let add = serving.services.cluster.add_node(
            Actor::default(),
            NewMember { id, raft: address(id), http: None, voter: true, force: false },
        );
        let added = timeout(ASKING_MAX, add).await;
        target.site.trace.note(format_args!("node {seed} takes node {id} in: {added:?}"));
        if matches!(added, Ok(Ok(_))) {
            return;
        }
    }
}
