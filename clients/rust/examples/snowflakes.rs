//! A million snowflakes that threads make by themselves, with a worker id from the nodes. A node listens on this machine, or the
//! nodes are named:
//!
//! ```sh
//! mintleaf dev &
//! mintleaf pool create shops --workers 16-1023
//! cargo run --release -p mintleaf-client --example snowflakes -- http://127.0.0.1:8080
//! ```

use std::env;
use std::thread;
use std::time::Instant;

use mintleaf_client::blocking::Client;
use mintleaf_client::{Error, Layout};

const THREADS: u64 = 4;
const COUNT: u64 = 1_000_000;

fn main() -> Result<(), Error> {
    let nodes: Vec<String> = env::args().skip(1).collect();
    let nodes = if nodes.is_empty() { vec!["http://127.0.0.1:8080".to_owned()] } else { nodes };
    let client = Client::builder().endpoints(nodes).build_blocking()?;
    let lease = client.lease_worker("shops")?;
    println!("worker id {} from {} until {}", lease.worker_id(), lease.from_ms(), lease.until_ms());
    let snowflakes = lease.into_generator(Layout::default())?;
    let began = Instant::now();
    thread::scope(|scope| {
        let take = || (0..COUNT / THREADS).try_for_each(|_| snowflakes.next_id().map(drop));
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(take)).collect();
        threads.into_iter().try_for_each(|thread| thread.join().unwrap_or(Err(Error::Closed)))
    })?;
    println!("{COUNT} ids in {:?}; the next is {}", began.elapsed(), snowflakes.next_id()?);
    client.close();
    Ok(())
}
