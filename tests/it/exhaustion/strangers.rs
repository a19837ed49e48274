//! Callers without a token, on nodes that require one.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;

use mintleaf::access::{hash_of, written_hash};

use super::{Door, HERE, connect, dev_with_few_places_and, raise_own_limit};
use crate::auth::write;
use crate::harness::{Dev, eventually, secs};

/// Requests with the token, by protocol.
const PROVEN: [&[u8]; 2] = [
    b"GET /api/segment/get/orders HTTP/1.1\r\nhost: a\r\nauthorization: Bearer t\r\n\r\n",
    b"AUTH t\r\n",
];

/// `mintleaf dev` with few places and one token, the number of places, and a directory to keep.
fn guarded() -> (Dev, usize, tempfile::TempDir) {
    raise_own_limit();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("auth.toml");
    let hash = written_hash(&hash_of(b"t"));
    write(&file, &format!("[[token]]\nname = \"a\"\nhash = \"{hash}\"\nrole = \"issue\"\n"));
    let setting = format!("MINTLEAF_AUTH_FILE={}", file.display());
    let (dev, places) = dev_with_few_places_and(&[setting]);
    (dev, places, dir)
}

fn ask(stream: &mut TcpStream, request: &[u8]) -> String {
    let mut answer = [0; 512];
    let length = stream.write_all(request).and_then(|()| stream.read(&mut answer));
    String::from_utf8_lossy(&answer[..length.unwrap_or_default()]).into_owned()
}

/// Checks that a caller gets an answer, whatever the cluster answers.
#[track_caller]
fn assert_served(stream: &mut TcpStream, request: &[u8]) {
    let answer = ask(stream, request);
    let is_refused = answer.starts_with("HTTP/1.1 401 ") || answer.contains("too many connections");
    let is_heard = answer.starts_with("HTTP/1.1 ") && !is_refused;
    assert!(is_heard || answer == "+OK\r\n", "{answer:?}");
}

/// Fills every place with callers that send these bytes, each from a different address.
fn crowd(door: Door, sent: &[u8], count: usize) -> Vec<TcpStream> {
    let address = |n: usize| Ipv4Addr::new(127, 0, 1 + (n / 250) as u8, 1 + (n % 250) as u8);
    let callers = (0..count).map(|n| {
        let mut caller = connect(address(n), door.address, None);
        caller.write_all(sent).unwrap();
        caller
    });
    callers.collect()
}

#[test]
fn callers_without_a_token_keep_out_none_that_has_one() {
    let (dev, places, _dir) = guarded();
    for (door, proven) in Door::both(&dev).into_iter().zip(PROVEN) {
        let half = &door.request[..door.request.len() - 3];
        for sent in [&b""[..], half, door.request] {
            let _strangers = crowd(door, sent, 2 * places);
            let mut known: Vec<_> = (0..places / 2)
                .map(|_| {
                    let mut caller = connect(HERE, door.address, None);
                    assert_served(&mut caller, proven);
                    caller
                })
                .collect();
            let _more = crowd(door, sent, 2 * places);
            known.iter_mut().for_each(|caller| assert_served(caller, proven));
            let mut one_more = connect(HERE, door.address, None);
            let answer = ask(&mut one_more, proven);
            assert!(answer.starts_with(door.turned_away), "all of its half are in use: {answer}");
        }
    }
}

#[test]
fn callers_that_come_again_and_again_push_out_their_own() {
    let (dev, places, _dir) = guarded();
    for (door, proven) in Door::both(&dev).into_iter().zip(PROVEN) {
        let (stop, came) = (AtomicBool::new(false), AtomicU64::new(0));
        thread::scope(|scope| {
            scope.spawn(|| {
                let mut held = Vec::new();
                while !stop.load(Relaxed) {
                    held.extend(crowd(door, b"", 8));
                    came.fetch_add(8, Relaxed);
                    held.drain(..held.len().saturating_sub(4 * places));
                }
            });
            let mut known = Vec::new();
            while known.len() < places / 2 {
                let before = came.load(Relaxed);
                eventually("more strangers", secs(20), || {
                    (came.load(Relaxed) > before + places as u64).then_some(())
                });
                let mut caller = connect(HERE, door.address, None);
                eventually("more strangers", secs(20), || {
                    (came.load(Relaxed) > before + 4 * places as u64).then_some(())
                });
                assert_served(&mut caller, proven);
                known.push(caller);
            }
            known.iter_mut().for_each(|caller| assert_served(caller, proven));
            stop.store(true, Relaxed);
        });
    }
}
