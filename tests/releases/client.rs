//! A program that takes ids by the Rust client of the release that it is built with, on eight threads, until its input
//! ends. It fails when a call fails or an id comes twice, and prints how many ids it took of each kind.
//! `scripts/release-build` builds it; its arguments are the endpoints.

use std::collections::BTreeSet;
use std::io::Read;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use mintleaf_client::Client;
use mintleaf_client::blocking;

static OVER: AtomicBool = AtomicBool::new(false);

/// The ids of one thread, by kind: of the tag, and snowflakes.
type Taken = [Vec<u64>; 2];

fn take(client: &blocking::Client, thread: u32) -> Result<Taken, mintleaf_client::Error> {
    let mut taken = Taken::default();
    let mut handle = client.handle("orders")?;
    while !OVER.load(Relaxed) {
        let [orders, snowflakes] = &mut taken;
        match thread % 3 {
            0 => orders.append(&mut client.next_ids("orders", 70)?),
            1 => orders.push(
                client.next_text("orders")?.parse().expect("a plain tag's text is its number"),
            ),
            _ => orders.push(handle.next_id()?),
        }
        orders.push(client.next_id("orders")?);
        snowflakes.push(client.next_snowflake()?);
        thread::sleep(Duration::from_millis(1));
    }
    Ok(taken)
}

fn main() {
    // Small leases need the nodes often. A node that starts on a busy machine takes its time.
    let client = Client::builder().endpoints(std::env::args().skip(1)).lease_max(200);
    let client = client.timeout(Duration::from_secs(60)).build_blocking().expect("a client");
    let start = |number| {
        let client = client.clone();
        thread::spawn(move || take(&client, number))
    };
    let threads: Vec<_> = (0..8).map(start).collect();
    std::io::stdin().read_to_end(&mut Vec::new()).expect("an input that ends");
    OVER.store(true, Relaxed);
    let mut all = [BTreeSet::new(), BTreeSet::new()];
    for thread in threads {
        let taken = thread.join().expect("a thread").expect("a call");
        for (all, ids) in all.iter_mut().zip(taken) {
            ids.into_iter().for_each(|id| assert!(all.insert(id), "{id} came twice"));
        }
    }
    println!("{} {}", all[0].len(), all[1].len());
}
