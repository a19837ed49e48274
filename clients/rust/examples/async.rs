//! Ids for an async program, from a node on this machine or from the nodes that are named:
//!
//! ```sh
//! mintleaf dev &
//! cargo run -p mintleaf-client --example async -- http://127.0.0.1:8080
//! ```

use std::env;

use mintleaf_client::Client;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), mintleaf_client::Error> {
    let nodes: Vec<String> = env::args().skip(1).collect();
    let nodes = if nodes.is_empty() { vec!["http://127.0.0.1:8080".to_owned()] } else { nodes };
    let client = Client::builder().endpoints(nodes).build()?;
    println!("one id of `orders`: {}", client.next_id("orders").await?);
    println!("five more: {:?}", client.next_ids("orders", 5).await?);
    println!("a snowflake: {}", client.next_snowflake().await?);
    client.close();
    Ok(())
}
