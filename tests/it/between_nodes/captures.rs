//! What a recording of the traffic between nodes reveals, and what an attacker can do with one.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;

use serde_json::json;

use super::tap::{Conversation, Tap};
use super::{
    assert_all_run, assert_no_secret, await_said, garbage, holds, new_secret, prepare_with,
    replace, secret_file, term,
};
use crate::harness::{Cluster, mintleaf, ms, pause, secs};

/// A tag that resembles nothing else in the messages between nodes.
const TAG: &str = "a-tag-of-the-recorded-cluster";

/// Three nodes that reach each other through taps, after some typical activity.
fn recorded(secret: Option<&str>) -> (Cluster, Vec<Tap>) {
    let mut cluster = match secret {
        Some(secret) => prepare_with(secret),
        None => mintleaf().prepare(3, &[]),
    };
    let files: Vec<_> = cluster.ids().into_iter().map(|id| secret_file(&cluster, id)).collect();
    let taps = Tap::all(&mut cluster, |id| match secret {
        Some(_) => {
            let file = files[id as usize - 1].to_str().unwrap();
            vec!["--cluster-secret-file".to_owned(), file.to_owned()]
        }
        None => Vec::new(),
    });
    cluster.start_all();
    for id in cluster.ids() {
        let tag = format!("{TAG}-{id}");
        cluster.api(id).post("/v1/tags", &json!({ "tag": tag, "step": 1 })).ok();
        for other in cluster.ids() {
            cluster.api(other).get(&format!("/v1/segment/{tag}?count=30")).ok();
        }
    }
    (cluster, taps)
}

/// All bytes in both directions.
fn all_bytes(taps: &[Tap]) -> Vec<u8> {
    let conversations = taps.iter().flat_map(Tap::conversations);
    let both = |it: Arc<Conversation>| [&it.to_node.lock()[..], &it.from_node.lock()].concat();
    conversations.flat_map(both).collect()
}

/// Sends bytes to a node's internal port, and returns its answer up to the end of the connection.
#[track_caller]
fn say(to: SocketAddr, what: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(to).unwrap();
    // A connection has 5 s to prove itself.
    stream.set_read_timeout(Some(secs(8))).unwrap();
    // The node may have hung up before it has read everything.
    let _ = stream.write_all(what);
    let mut heard = Vec::new();
    match stream.read_to_end(&mut heard) {
        Ok(_) => {}
        Err(error) if error.kind() == ErrorKind::ConnectionReset => {}
        Err(error) => panic!("{error} after {} bytes", heard.len()),
    }
    let _ = stream.shutdown(Shutdown::Both);
    heard
}

#[test]
fn a_recording_holds_neither_the_secret_nor_what_nodes_say() {
    let secret = new_secret();
    let (mut cluster, taps) = recorded(Some(&secret));
    // A secret is replaced during the recording.
    let next = new_secret();
    for lines in [format!("{next}\n{secret}\n"), format!("{next}\n")] {
        for id in cluster.ids() {
            replace(&secret_file(&cluster, id), &lines);
            cluster.process(id).signal("HUP");
        }
        pause(secs(1));
    }
    let leader = cluster.leader();
    cluster.kill(leader);
    cluster.start_node(leader);
    cluster.await_ready();
    let bytes = all_bytes(&taps);
    assert!(bytes.len() > 20_000, "{} bytes are hardly all", bytes.len());
    assert_no_secret(&bytes, &secret);
    assert_no_secret(&bytes, &next);
    for word in [TAG, "MLRP", "127.0.0.1", "node-1", "mintleaf/3"] {
        // TLS sends the name of the protocol in clear text; everything else is encrypted.
        assert_eq!(holds(&bytes, word.as_bytes()), word == "mintleaf/3", "{word}");
    }
}

#[test]
fn a_recording_without_tls_holds_everything_and_shows_that_it_is_one() {
    let (_cluster, taps) = recorded(None);
    let bytes = all_bytes(&taps);
    for word in [TAG, "MLRP", "127.0.0.1"] {
        assert!(holds(&bytes, word.as_bytes()), "{word}");
    }
}

#[test]
fn replayed_and_damaged_bytes_change_nothing_and_end_nobody() {
    let secret = new_secret();
    let (mut cluster, taps) = recorded(Some(&secret));
    let leader = cluster.leader();
    let (target, term_before) = (cluster.raft(leader), term(cluster.api(leader)));
    let conversations = taps[leader as usize - 1].conversations();
    let recorded = conversations.iter().map(|one| one.to_node.lock().clone());
    let longest = recorded.max_by_key(Vec::len).unwrap();
    assert!(longest.len() > 1_000, "{} bytes are no conversation", longest.len());

    let mut attempts = vec![longest.clone(), longest[..longest.len() / 2].to_vec()];
    // The handshake alone, the handshake cut short, and with one byte changed.
    let hello = 5 + usize::from(u16::from_be_bytes([longest[3], longest[4]]));
    attempts.extend([longest[..hello].to_vec(), longest[..hello - 7].to_vec()]);
    for at in [0, 1, 4, 5, 9, 40, hello / 2, hello + 1] {
        let mut damaged = longest.clone();
        damaged[at] ^= 0x55;
        attempts.push(damaged);
    }
    // Garbage, a record that announces more bytes than it has, and the recording of a connection without TLS.
    attempts.push(garbage(9_000));
    attempts.push([&[0x16, 3, 3, 0x40, 0][..], &[1; 300]].concat());
    attempts.push([&b"MLRP\x02\0\0"[..], &[0xff; 64]].concat());
    let threads: Vec<_> = attempts
        .into_iter()
        .map(|what| std::thread::spawn(move || (say(target, &what).len(), what.len())))
        .collect();
    for thread in threads {
        let (heard, said) = thread.join().expect("the node ends every connection");
        // This is a handshake's first flight and an alert. An answer to a frame would look the same, but the
        // log would show it.
        assert!(heard < 3_000, "{heard} bytes in answer to {said}");
    }
    await_said(&mut cluster, leader, "a connection to the internal port proved nothing");
    pause(ms(500));
    assert_all_run(&mut cluster, &[1, 2, 3]);
    assert_eq!((cluster.leader(), term(cluster.api(leader))), (leader, term_before));
    cluster.api(leader).post("/v1/tags", &json!({ "tag": "more" })).ok();
}

#[test]
fn a_frame_without_tls_is_refused_with_the_flag_that_is_missing() {
    let secret = new_secret();
    let mut cluster = super::start_with(&secret);
    // As long as the shortest frame of a request; its contents do not matter.
    let frame = [&b"MLRP\x03"[..], &[20, 0, 0, 0], &[7; 20]].concat();
    let heard = say(cluster.raft(1), &frame);
    assert_eq!(heard.first(), Some(&1), "a refusal");
    let told = String::from_utf8_lossy(&heard);
    assert!(told.contains("--cluster-secret-file"), "{told}");
    let heard = say(cluster.raft(1), b"GET /v1/cluster HTTP/1.1\r\nhost: a\r\n\r\n");
    assert!(heard.starts_with(b"HTTP/1.1 400 "), "{}", String::from_utf8_lossy(&heard));
    assert_all_run(&mut cluster, &[1, 2, 3]);
}
