//! A million ids for a program with threads, and how long they took. A node listens on this machine, or the nodes are named:
//!
//! ```sh
//! mintleaf dev &
//! cargo run --release -p mintleaf-client --example blocking -- http://127.0.0.1:8080
//! ```

use std::env;
use std::time::Instant;

use mintleaf_client::blocking::Client;

const COUNT: u64 = 1_000_000;

fn main() -> Result<(), mintleaf_client::Error> {
    let nodes: Vec<String> = env::args().skip(1).collect();
    let nodes = if nodes.is_empty() { vec!["http://127.0.0.1:8080".to_owned()] } else { nodes };
    let client = Client::builder().endpoints(nodes).build_blocking()?;
    let mut orders = client.handle("orders")?;
    let (began, mut last) = (Instant::now(), 0);
    for _ in 0..COUNT {
        let id = orders.next_id()?;
        assert!(id > last, "ids of one handle rise");
        last = id;
    }
    println!("{COUNT} ids in {:?}; the last is {last}", began.elapsed());
    Ok(())
}
