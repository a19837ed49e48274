//! Closing a client.

use std::time::Duration;

use tokio::runtime::Handle;

use super::script::{Act, Line, Script, settled, take};
use crate::error::Error;

#[tokio::test(start_paused = true)]
async fn close_while_leasing() {
    let script = Script::new(1, |_, _| Act::Silence);
    let client = script.client();
    let calls: Vec<_> = (0..10)
        .map(|number| {
            let client = client.clone();
            tokio::spawn(async move {
                match number % 3 {
                    0 => client.next_id("orders").await,
                    1 => client.next_snowflake().await,
                    _ => client.next_id_of("chat", "room").await,
                }
            })
        })
        .collect();
    settled().await;
    assert_eq!(script.seen().len(), 5, "one for the tag, one for snowflakes, three for the key");
    client.close();
    for call in calls {
        assert_eq!(call.await.unwrap(), Err(Error::Closed));
    }
    assert_eq!(script.now_ms(), 0, "at once");
    settled().await;
    assert_eq!(Handle::current().metrics().num_alive_tasks(), 0, "no task is left");
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_comes_after_close_is_not_used() {
    let mut line = Line(1);
    let script = Script::new(1, move |_, request| {
        Act::Late(Duration::from_secs(1), Box::new(line.answer(request)))
    });
    let client = script.client();
    take(&client, 2).await;
    let waiting = tokio::spawn({
        let client = client.clone();
        async move { client.next_ids("orders", 1_000).await }
    });
    settled().await;
    client.close();
    assert_eq!(waiting.await.unwrap(), Err(Error::Closed));
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(client.next_id("orders").await, Err(Error::Closed));
}

#[tokio::test(start_paused = true)]
async fn nothing_after_close() {
    let mut line = Line(1);
    let script = Script::new(1, move |_, request| line.answer(request));
    let client = script.client();
    take(&client, 10).await;
    client.next_snowflake().await.unwrap();
    let mut handle = client.handle("orders").unwrap();
    script.seen();
    client.close();
    client.close();
    assert_eq!(client.next_id("orders").await, Err(Error::Closed));
    assert_eq!(client.next_id("another").await, Err(Error::Closed));
    assert_eq!(client.next_ids("orders", 3).await, Err(Error::Closed));
    assert_eq!(client.next_text("orders").await, Err(Error::Closed));
    assert_eq!(client.next_snowflake().await, Err(Error::Closed));
    assert_eq!(handle.next_id().await, Err(Error::Closed));
    let keyed = client.next_id_of("chat", "room").await;
    assert_eq!(keyed, Err(Error::Closed));
    assert_eq!(script.seen(), [], "nobody is asked");
    assert_eq!(Handle::current().metrics().num_alive_tasks(), 0);
}

#[tokio::test(start_paused = true)]
async fn the_end_of_the_last_clone_closes() {
    let script = Script::new(1, |_, _| Act::Silence);
    let client = script.client();
    let clone = client.clone();
    let call = tokio::spawn(async move {
        let _ = tokio::time::timeout(Duration::from_secs(1), clone.next_id("orders")).await;
    });
    settled().await;
    drop(client);
    call.await.unwrap();
    settled().await;
    assert_eq!(Handle::current().metrics().num_alive_tasks(), 0);
}
