//! Ids that are never kept, texts and sequences.

use std::time::Duration;

use futures_like::both;
use serde_json::json;

use super::script::{Act, Line, Script, settled};
use crate::error::Error;
use crate::request::Request;

/// Answers like a tag whose ids must not be kept.
fn not_for_keeping(mut line: Line) -> impl FnMut(usize, &Request) -> Act + Send {
    move |_, request| {
        let start = line.0;
        line.0 += request.count();
        let ids: Vec<_> = (start..line.0).map(|id| id.to_string()).collect();
        Act::Answer(200, json!({"ids": ids, "lease": false}).to_string())
    }
}

#[tokio::test(start_paused = true)]
async fn lease_false_is_never_kept() {
    let script = Script::new(1, not_for_keeping(Line(1)));
    let client = script.client();
    assert_eq!(client.next_id("strict").await, Ok(1));
    assert_eq!(client.next_ids("strict", 3).await, Ok(vec![2, 3, 4]));
    assert_eq!(client.next_id("strict").await, Ok(5));
    assert_eq!(client.next_text("strict").await, Ok("6".to_owned()));
    let mut handle = client.handle("strict").unwrap();
    assert_eq!(handle.next_id().await, Ok(7));
    assert_eq!(handle.next_id().await, Ok(8));
    settled().await;
    let counts = [1, 3, 1, 1, 1, 1].map(|count| format!("/v1/segment/strict?count={count}"));
    assert_eq!(script.paths(), counts, "as many requests as calls, each for what its call wants");
}

#[tokio::test(start_paused = true)]
async fn what_is_not_for_keeping_goes_to_nobody_once_its_call_has_ended() {
    let mut act = not_for_keeping(Line(1));
    let script = Script::new(1, move |endpoint, request| {
        Act::Late(Duration::from_secs(2), Box::new(act(endpoint, request)))
    });
    let client = script.client();
    assert_eq!(client.next_id("strict").await, Ok(1));
    // The caller has given this call up when its answer arrives.
    let gone = tokio::time::timeout(Duration::from_secs(1), client.next_id("strict")).await;
    assert!(gone.is_err());
    assert_eq!(client.next_id("strict").await, Ok(3));
}

#[tokio::test(start_paused = true)]
async fn calls_that_wait_for_the_shape_ask_for_themselves_once_it_is_known() {
    let mut act = not_for_keeping(Line(1));
    let script = Script::new(1, move |endpoint, request| {
        Act::Late(Duration::from_secs(1), Box::new(act(endpoint, request)))
    });
    let client = script.client();
    let (first, second) = both(client.next_id("strict"), client.next_ids("strict", 2)).await;
    assert_eq!((first, second), (Ok(1), Ok(vec![2, 3])));
    assert_eq!(
        script.seen().into_iter().map(|seen| (seen.at_ms, seen.path)).collect::<Vec<_>>(),
        [
            (0, "/v1/segment/strict?count=1".to_owned()),
            (1_000, "/v1/segment/strict?count=2".to_owned())
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn lease_false_in_a_lease() {
    let mut line = Line(1);
    let script = Script::new(1, move |_, request| line.answer(request));
    let client = script.client();
    assert_eq!(client.next_id("orders").await, Ok(1));
    let mut own = not_for_keeping(Line(50));
    script.act(move |endpoint, request| match request.as_ranges() {
        true => {
            let ranges = json!([{"start": "1000", "end": (1000 + request.count()).to_string()}]);
            Act::Answer(200, json!({"ranges": ranges, "lease": false}).to_string())
        }
        false => own(endpoint, request),
    });
    assert_eq!(client.next_id("orders").await, Ok(50));
    assert_eq!(client.next_id("orders").await, Ok(51));
    let paths = script.paths();
    assert_eq!(paths[1], "/v1/segment/orders?count=101&format=ranges");
    assert_eq!(paths[2..], ["/v1/segment/orders?count=1"; 2]);
}

#[tokio::test(start_paused = true)]
async fn first_request_asks_for_what_the_call_wants() {
    let mut line = Line(1);
    let script = Script::new(1, move |_, request| line.answer(request));
    let client = script.client();
    assert_eq!(client.next_id("orders").await, Ok(1));
    settled().await;
    assert_eq!(script.paths(), ["/v1/segment/orders?count=1"]);
    assert_eq!(client.next_ids("orders", 5).await, Ok(vec![2, 3, 4, 5, 6]));
    assert_eq!(script.paths(), ["/v1/segment/orders?count=105&format=ranges"]);
}

#[tokio::test(start_paused = true)]
async fn text_of_a_formatted_tag() {
    let mut number = 0;
    let script = Script::new(1, move |_, _| {
        number += 1;
        let ids = [format!("INV-2026-{number:03}")];
        Act::Answer(200, json!({"ids": ids, "lease": false}).to_string())
    });
    let client = script.client();
    assert_eq!(client.next_text("invoices").await, Ok("INV-2026-001".to_owned()));
    let error = client.next_id("invoices").await.unwrap_err();
    assert_eq!(error, Error::NotANumber("INV-2026-002".to_owned()));
    assert!(error.to_string().contains("next_text"), "{error}");
    assert_eq!(client.next_text("invoices").await, Ok("INV-2026-003".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn text_of_a_tag_of_numbers_comes_from_its_lease() {
    let mut line = Line(1);
    let script = Script::new(1, move |_, request| line.answer(request));
    let client = script.client();
    for id in 1..=50 {
        assert_eq!(client.next_text("orders").await, Ok(id.to_string()));
    }
    assert_eq!(script.paths().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn sequence_is_asked_for_each_call() {
    let script = Script::new(1, not_for_keeping(Line(17)));
    let client = script.client();
    assert_eq!(client.next_id_of("chat", "room/17").await, Ok(17));
    assert_eq!(client.next_id_of("chat", "room/17").await, Ok(18));
    assert_eq!(script.paths(), ["/v1/sequence/chat/room%2F17?count=1"; 2]);
}

#[tokio::test(start_paused = true)]
async fn more_tags_than_a_client_keeps_are_served_too() {
    let mut line = Line(1);
    let script = Script::new(1, move |_, request| line.answer(request));
    let client = script.client();
    for tag in 0..10_000 {
        client.next_id(&format!("tag-{tag}")).await.unwrap();
    }
    script.seen();
    assert_eq!(client.next_ids("one-more", 2).await, Ok(vec![10_001, 10_002]));
    assert_eq!(client.next_id("one-more").await, Ok(10_003));
    let counts = [2, 1].map(|count| format!("/v1/segment/one-more?count={count}"));
    assert_eq!(script.paths(), counts);
}

mod futures_like {
    /// Awaits two calls that start together, in this order.
    pub(super) async fn both<A, B>(
        first: impl Future<Output = A>,
        second: impl Future<Output = B>,
    ) -> (A, B) {
        tokio::join!(biased; first, second)
    }
}
