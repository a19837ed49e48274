//! Which requests are repeated, when, and which are not.

use std::time::Duration;

use super::script::{Act, Line, Script, problem, settled, take};
use crate::error::{Error, Refusal};
use crate::settings::Settings;

fn refused(status: u16, code: &str) -> Error {
    Error::Refused(Refusal { status, code: code.to_owned(), detail: "why".to_owned() })
}

#[tokio::test(start_paused = true)]
async fn refusals_are_not_retried() {
    for (status, code) in [
        (400, "invalid_argument"),
        (401, "unauthenticated"),
        (403, "forbidden"),
        (404, "unknown_tag"),
        (409, "conflict"),
        (422, "exhausted"),
        (423, "frozen"),
    ] {
        let script = Script::new(3, move |_, _| problem(status, code));
        let client = script.client();
        assert_eq!(client.next_id("orders").await, Err(refused(status, code)));
        assert_eq!(client.next_id_of("orders", "key").await, Err(refused(status, code)));
        assert_eq!(client.next_snowflake().await, Err(refused(status, code)));
        settled().await;
        assert_eq!(script.seen().len(), 3, "one request each");
        assert_eq!(script.now_ms(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn overloaded_goes_to_the_next() {
    for status in [429, 503] {
        let mut line = Line(1);
        let mut first = None;
        let script = Script::new(2, move |endpoint, request| {
            if endpoint == *first.get_or_insert(endpoint) {
                Act::RetryAfter(status, r#"{"code":"overloaded"}"#.to_owned(), 3)
            } else {
                line.answer(request)
            }
        });
        let client = script.client();
        assert_eq!(take(&client, 1).await, [1]);
        let asked = script.asked();
        assert_eq!(asked.len(), 2);
        while script.now_ms() < 2_900 {
            take(&client, 100).await;
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        assert!(!script.asked().contains(&asked[0]), "not before its time");
        tokio::time::sleep(Duration::from_millis(200)).await;
        take(&client, 50_000).await;
        assert!(script.asked().contains(&asked[0]), "and then again");
    }
}

#[tokio::test(start_paused = true)]
async fn rate_limited_waits() {
    let mut line = Line(1);
    let mut is_first = true;
    let limited = || Act::RetryAfter(429, r#"{"code":"rate_limited","detail":"why"}"#.into(), 2);
    let script = Script::new(2, move |_, request| {
        if std::mem::take(&mut is_first) { limited() } else { line.answer(request) }
    });
    let client = script.client();
    assert_eq!(take(&client, 1).await, [1]);
    assert_eq!(script.now_ms(), 2_000);
    let asked = script.asked();
    assert_eq!(asked, [asked[0]; 2], "the same endpoint");

    // A call that times out sooner fails with the refusal. The next call does not shorten the wait.
    script.act(move |_, _| limited());
    let timeout = Duration::from_millis(500);
    let client = script.client_with(Settings { timeout, ..Settings::default() });
    let before = script.now_ms();
    for _ in 0..3 {
        assert_eq!(client.next_id("orders").await, Err(refused(429, "rate_limited")));
    }
    assert_eq!(script.now_ms() - before, 1_500);
    assert_eq!(script.seen().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn lease_over_the_rate_limit_shrinks() {
    let over = |count_max: &str| {
        let body = format!(r#"{{"code":"count_over_rate_limit","detail":"why"{count_max}}}"#);
        Act::Answer(422, body)
    };
    let mut line = Line(1);
    let script = Script::new(2, move |_, request| match request.count() {
        51.. => over(r#","count_max":50"#),
        _ => line.answer(request),
    });
    let client = script.client();
    assert_eq!(take(&client, 1).await, [1]);
    assert_eq!(take(&client, 300).await, (2..=301).collect::<Vec<_>>());
    assert_eq!(client.next_ids("orders", 130).await.map(|ids| ids.len()), Ok(130));
    let paths = script.paths();
    assert_eq!(paths[1], "/v1/segment/orders?count=101&format=ranges");
    assert_eq!(paths[2], "/v1/segment/orders?count=50&format=ranges");
    assert_eq!(script.now_ms(), 0);

    for no_less in ["", r#","count_max":0"#, r#","count_max":101"#, r#","count_max":"50""#] {
        let mut line = Line(1);
        let script = Script::new(1, move |_, request| match request.count() {
            51.. => over(no_less),
            _ => line.answer(request),
        });
        let client = script.client();
        take(&client, 1).await;
        let refusal = client.next_id("orders").await;
        assert!(matches!(refusal, Err(Error::Refused(_))), "{no_less}: {refusal:?}");
        assert_eq!(script.seen().len(), 2, "no second try");
    }
}

#[tokio::test(start_paused = true)]
async fn frozen_runs_out() {
    let mut line = Line(1);
    let script = Script::new(1, move |_, request| line.answer(request));
    let client = script.client();
    take(&client, 2).await;
    script.act(|_, _| problem(423, "frozen"));
    assert_eq!(take(&client, 100).await, (3..=102).collect::<Vec<_>>());
    assert_eq!(client.next_id("orders").await, Err(refused(423, "frozen")));
    let mut line = Line(103);
    script.act(move |_, request| line.answer(request));
    assert_eq!(take(&client, 300).await, (103..403).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn tag_made_again() {
    let mut line = Line(1);
    let script = Script::new(1, move |_, request| line.answer(request));
    let client = script.client();
    take(&client, 2).await;
    script.act(|_, _| problem(404, "unknown_tag"));
    assert_eq!(take(&client, 100).await, (3..=102).collect::<Vec<_>>());
    assert_eq!(client.next_id("orders").await, Err(refused(404, "unknown_tag")));
    script.seen();
    let mut line = Line(5_000);
    script.act(move |_, request| line.answer(request));
    assert_eq!(take(&client, 2).await, [5_000, 5_001]);
    assert_eq!(script.paths()[0], "/v1/segment/orders?count=1", "the shape is asked for anew");
}

#[tokio::test(start_paused = true)]
async fn lost_answer_is_wasted() {
    let mut line = Line(1);
    let mut losses = 0;
    let script = Script::new(1, move |_, request| {
        let answer = line.answer(request);
        losses += 1;
        if losses % 2 == 1 { Act::Break } else { answer }
    });
    let client = script.client();
    // The first answer, with id 1, is lost; the second gives 2. After that every second lease is lost.
    assert_eq!(take(&client, 1).await, [2]);
    let ids = take(&client, 500).await;
    assert!(ids.windows(2).all(|pair| pair[0] < pair[1]));
    assert!(!ids.contains(&3), "the lost lease began there");
}

#[tokio::test(start_paused = true)]
async fn arguments_out_of_bounds_reach_no_node() {
    let script = Script::new(1, |_, _| Act::Break);
    let client = script.client();
    let fault = |result: Result<_, Error>| matches!(result, Err(Error::InvalidArgument(_)));
    assert!(fault(client.next_id("").await));
    assert!(fault(client.next_id("a\u{7f}").await));
    assert!(fault(client.next_id_of("chat", "").await));
    assert!(fault(client.next_ids("orders", 0).await.map(|_| 0)));
    assert!(fault(client.next_ids("orders", 10_001).await.map(|_| 0)));
    assert!(fault(client.handle("").map(|_| 0)));
    assert_eq!(script.seen(), []);
}
