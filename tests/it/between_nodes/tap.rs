//! A wire tap: a proxy in front of a node's internal port, which records every byte.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use parking_lot::Mutex;

use crate::harness::{Cluster, Port};

pub(super) struct Tap {
    port: Port,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    conversations: Mutex<Vec<Arc<Conversation>>>,
    ended: AtomicBool,
}

/// The bytes of one connection.
#[derive(Default)]
pub(super) struct Conversation {
    pub(super) to_node: Mutex<Vec<u8>>,
    pub(super) from_node: Mutex<Vec<u8>>,
}

impl Tap {
    /// Makes the nodes of a cluster reach each other only through taps. None is running yet.
    pub(super) fn all(cluster: &mut Cluster, flags: impl Fn(u64) -> Vec<String>) -> Vec<Self> {
        let ids = cluster.ids();
        let taps: Vec<_> = ids.iter().map(|&id| Self::before(cluster.raft(id))).collect();
        let entries = ids.iter().zip(&taps).map(|(id, tap)| format!("{id}={}", tap.port.addr()));
        let peers = entries.collect::<Vec<_>>().join(",");
        for id in ids {
            cluster.set_flags(id, flags(id));
            cluster.add_flag(id, "--peers", &peers);
        }
        taps
    }

    fn before(node: SocketAddr) -> Self {
        let (port, shared) = (Port::claim(), Arc::new(Shared::default()));
        let listener = TcpListener::bind(port.addr()).unwrap();
        let listening = Arc::clone(&shared);
        thread::spawn(move || {
            for caller in listener.incoming() {
                if listening.ended.load(Ordering::Relaxed) {
                    return;
                }
                // If no node listens, the caller sees its connection end.
                let (Ok(caller), Ok(node)) = (caller, TcpStream::connect(node)) else { continue };
                let conversation = Arc::new(Conversation::default());
                listening.conversations.lock().push(Arc::clone(&conversation));
                carry(caller, node, conversation);
            }
        });
        Self { port, shared }
    }

    /// Every connection to the node so far.
    pub(super) fn conversations(&self) -> Vec<Arc<Conversation>> {
        self.shared.conversations.lock().clone()
    }
}

impl Drop for Tap {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::Relaxed);
        // This wakes the thread that accepts connections, so that it notices the end.
        drop(TcpStream::connect(self.port.addr()));
    }
}

fn carry(caller: TcpStream, node: TcpStream, conversation: Arc<Conversation>) {
    let (back, answers) = (caller.try_clone().unwrap(), node.try_clone().unwrap());
    let noted = Arc::clone(&conversation);
    thread::spawn(move || copy(caller, node, &noted.to_node));
    thread::spawn(move || copy(answers, back, &conversation.from_node));
}

/// Carries one direction to its end. A byte is recorded before it is passed on.
fn copy(mut from: TcpStream, mut to: TcpStream, noted: &Mutex<Vec<u8>>) {
    let _ = to.set_nodelay(true);
    let mut bytes = [0; 16 << 10];
    while let Ok(read @ 1..) = from.read(&mut bytes) {
        noted.lock().extend_from_slice(&bytes[..read]);
        if to.write_all(&bytes[..read]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Write);
}
