//! Nodes that die, hang, rest and come back.

use std::time::Duration;

use tokio::time::advance;

use super::script::{Act, Line, Script, settled, take};
use crate::settings::Settings;

const fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

/// Two endpoints. The one that is asked first behaves as `act` says; when it answers, its ids start at
/// 1,000,000. The ids of the other start at 1.
fn two_endpoints(mut act: impl FnMut(Act) -> Act + Send + 'static) -> Script {
    let (mut bad, mut good) = (Line(1_000_000), Line(1));
    let mut first = None;
    Script::new(2, move |endpoint, request| {
        if endpoint == *first.get_or_insert(endpoint) {
            act(bad.answer(request))
        } else {
            good.answer(request)
        }
    })
}

#[tokio::test(start_paused = true)]
async fn node_dies_before_the_answer() {
    let script = two_endpoints(|_| Act::Break);
    let client = script.client();
    assert_eq!(take(&client, 1).await, [1]);
    let asked = script.asked();
    assert_eq!(asked.len(), 2);
    assert_ne!(asked[0], asked[1], "the next endpoint answers");
    assert_eq!(take(&client, 3).await, [2, 3, 4]);
    assert_eq!(script.asked(), [asked[1]], "the dead one rests");
    assert_eq!(script.now_ms(), 0, "nobody waited");
}

#[tokio::test(start_paused = true)]
async fn node_dies_after_the_answer() {
    let mut line = Line(1);
    let script = Script::new(2, move |_, request| line.answer(request));
    let client = script.client();
    assert_eq!(take(&client, 2).await, [1, 2]);
    script.act(|_, _| Act::Break);
    assert_eq!(take(&client, 99).await, (3..=101).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn answer_is_slow() {
    let script = two_endpoints(|answer| Act::Late(secs(3), Box::new(answer)));
    let client = script.client();
    assert_eq!(take(&client, 1).await, [1]);
    assert_eq!(script.now_ms(), 2_500, "the attempt's deadline");
    tokio::time::sleep(secs(60)).await;
    // By now the client has asked it again. It is slow again, and none of its ids arrive.
    assert!(take(&client, 1_000).await.into_iter().all(|id| id < 1_000_000));
}

#[tokio::test(start_paused = true)]
async fn slow_prefetch_disturbs_nobody() {
    let mut line = Line(1);
    let script = Script::new(1, move |_, request| line.answer(request));
    let client = script.client();
    take(&client, 2).await; // one by itself, then the first of a lease of 101: one for the call, 100 ahead
    let mut line = Line(500);
    script.act(move |_, request| Act::Late(secs(2), Box::new(line.answer(request))));
    let before = script.now_ms();
    assert_eq!(take(&client, 100).await, (3..=102).collect::<Vec<_>>());
    assert_eq!(script.now_ms(), before, "nobody waited");
    assert_eq!(take(&client, 1).await, [500]);
    assert_eq!(script.now_ms(), before + 2_000);
}

#[tokio::test(start_paused = true)]
async fn all_nodes_are_away() {
    let mut line = Line(1);
    let script = Script::new(3, move |_, request| line.answer(request));
    let client = script.client();
    take(&client, 2).await;
    script.act(|_, _| Act::Break);
    assert_eq!(take(&client, 100).await.len(), 100, "what is held is handed out");
    tokio::time::sleep(secs(60)).await;
    let before = script.now_ms();
    let error = client.next_id("orders").await.unwrap_err();
    let met = error.to_string();
    let is_named =
        met.starts_with("no node answered in time: n") && met.ends_with(":80: connection refused");
    assert!(is_named, "{met}");
    assert_eq!(script.now_ms() - before, 10_000, "at the deadline");
    let mut line = Line(700);
    script.act(move |_, request| line.answer(request));
    assert_eq!(take(&client, 1).await, [700]);
    assert!(script.now_ms() - before < 15_001, "within the longest rest");
}

#[tokio::test(start_paused = true)]
async fn while_all_are_away_they_are_not_flooded() {
    let script = Script::new(3, |_, _| Act::Break);
    let client = script.client();
    client.next_id("orders").await.unwrap_err();
    let asked = script.seen().len();
    assert!((12..=40).contains(&asked), "{asked} requests in 10 s to three endpoints");
}

#[tokio::test(start_paused = true)]
async fn malformed_answer() {
    let bad = r#"{"ids":["5","5"],"ranges":[{"start":"5","end":"4"}]}"#;
    let script = two_endpoints(move |_| Act::Answer(200, bad.to_owned()));
    let client = script.client();
    let ids = take(&client, 300).await;
    assert_eq!(ids, (1..=300).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn own_zone_first() {
    let mut line = Line(1);
    let cluster = |endpoint: usize, request: &crate::request::Request| {
        let zone = if endpoint == 1 { "z1" } else { "z2" };
        let own = format!(r#"{{"node_id":7,"nodes":[{{"id":7,"zone":"{zone}"}}]}}"#);
        (request.path() == "/v1/cluster").then_some(Act::Answer(200, own))
    };
    let answer = move |endpoint: usize, request: &crate::request::Request| {
        cluster(endpoint, request).unwrap_or_else(|| line.answer(request))
    };
    let script = Script::new(3, answer);
    let settings = || Settings { zone: Some("z1".into()), ..Settings::default() };
    for _ in 0..20 {
        let client = script.client_with(settings());
        settled().await;
        assert_eq!(script.asked(), [0, 1, 2], "each for its zone");
        take(&client, 200).await;
        assert!(script.asked().iter().all(|&endpoint| endpoint == 1));
        client.close();
    }
    let client = script.client_with(settings());
    settled().await;
    script.seen();
    let mut line = Line(100_000);
    script.act(move |endpoint, request| match endpoint {
        1 => Act::Break,
        _ => line.answer(request),
    });
    take(&client, 10).await;
    let asked = script.asked();
    assert_eq!(asked[0], 1, "first the own zone");
    assert!(asked[1..].iter().all(|&endpoint| endpoint != 1), "others while it rests");
    let mut line = Line(200_000);
    script.act(move |_, request| line.answer(request));
    advance(Duration::from_millis(50)).await;
    take(&client, 1_000).await;
    assert!(script.asked().iter().all(|&endpoint| endpoint == 1), "it again");
}

#[tokio::test(start_paused = true)]
async fn zones_that_nobody_tells_leave_the_order_as_it_was() {
    let mut line = Line(1);
    let script = Script::new(2, move |_, request| match request.path().as_str() {
        "/v1/cluster" => super::script::problem(403, "forbidden"),
        _ => line.answer(request),
    });
    let client = script.client_with(Settings { zone: Some("z1".into()), ..Settings::default() });
    settled().await;
    assert_eq!(take(&client, 3).await, [1, 2, 3]);
}
