use super::*;
use crate::access::{AuthFile, hash_of, written_hash};
use crate::http::id_answers::RUNS_OF_SEGMENTS;
use crate::http::ids::IdQuery;
use crate::service::tests::alone;
use http_body_util::BodyExt;

/// The status and the body of an answer.
async fn ask(dispatch: &Dispatch, path: &str) -> (u16, String) {
    send(dispatch, Request::get(path).body(Full::default()).unwrap()).await
}

async fn create(dispatch: &Dispatch, body: &'static str) {
    let request = Request::post("/v1/tags").header("content-type", "application/json");
    let (status, body) = send(dispatch, request.body(Full::from(body)).unwrap()).await;
    assert_eq!(status, 201, "{body}");
}

async fn send(dispatch: &Dispatch, mut request: Request<Full<Bytes>>) -> (u16, String) {
    request.headers_mut().insert("host", HeaderValue::from_static("a"));
    let answer = dispatch.call(&mut Caller::default(), request).await.unwrap();
    let (head, body) = answer.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    (head.status.as_u16(), String::from_utf8(body.to_vec()).unwrap())
}

#[tokio::test]
async fn a_long_answer_that_finds_no_memory_has_taken_no_id() {
    let dir = tempfile::tempdir().unwrap();
    let node = alone(&dir, 20, |state| state).await;
    let address = Some([10, 0, 0, 1].into());
    let doors = AccessPolicy { tokens: None, insecure: true };
    let dispatch = Dispatch::new(node.services.clone(), doors).for_connection(address);
    let id = "/api/segment/get/orders";
    assert_eq!(ask(&dispatch, id).await, (200, "1".to_owned()));
    create(&dispatch, r#"{"tag":"chat","kind":"sequence"}"#).await;

    // Some memory is left, and less than any long answer needs.
    let answers = node.services.answers.of(address);
    let mut held = Vec::new();
    for bytes in [200_000, 10_000] {
        held.extend(std::iter::from_fn(|| answers.reserve(bytes)));
    }
    assert!(!answers.is_spent());
    // The first is held as a whole; the others are not.
    for path in [
        "/v1/segment/orders?count=900",
        "/v1/segment/orders?count=10000",
        "/v1/snowflake?count=900",
        "/v1/sequence/chat/room?count=900",
    ] {
        let (status, body) = ask(&dispatch, path).await;
        assert!(status == 429 && body.contains("overloaded"), "{path}: {status} {body}");
    }
    assert_eq!(ask(&dispatch, id).await, (200, "2".to_owned()));
    drop(held);
    let (status, body) = ask(&dispatch, "/v1/segment/orders?count=900").await;
    assert!(status == 200 && body.contains(r#":["3","#), "{status} {body}");
    let (status, body) = ask(&dispatch, "/v1/sequence/chat/room?count=900").await;
    assert!(status == 200 && body.contains(r#":["1","#), "{status} {body}");
    node.stop().await;
}

#[test]
fn the_memory_that_is_reserved_is_enough_for_the_longest_answer() {
    let tag = "\"".repeat(128);
    let ids = u64::MAX / 2 - 10_000..u64::MAX / 2;
    for (query, accept, taken) in [
        ("count=10000", "application/json", vec![ids.clone()]),
        ("count=10000", "text/plain", vec![ids.clone()]),
        ("count=10000&format=ranges", "application/json", ids.map(|id| id..id + 1).collect()),
    ] {
        let wanted = IdQuery::of(Some(query), accept == "text/plain").unwrap();
        let reserved = wanted.long_bytes_max(Some(&tag), 1).unwrap();
        let length = wanted.answer(Some(&tag), None, &taken).unwrap().into_body().len();
        assert!(length <= reserved && reserved < 2 * length, "{query}: {length} of {reserved}");
    }
    let few = IdQuery::of(Some("count=1000000&format=ranges"), false).unwrap();
    assert_eq!(few.long_bytes_max(Some(&tag), RUNS_OF_SEGMENTS), None);
}

/// A client whose request spells a path with more slashes than it needs has the rights of the plain path.
#[tokio::test]
async fn a_path_in_another_spelling_needs_what_it_needs_in_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let node = alone(&dir, 20, |state| state).await;
    let entry = |name: &str, rest: &str| {
        let hash = written_hash(&hash_of(name.as_bytes()));
        format!("[[token]]\nname = \"{name}\"\nhash = \"{hash}\"\n{rest}\n")
    };
    let lines = entry("shop", "role = \"issue\"\ntags = [\"pay*\"]")
        + &entry("free", "role = \"issue\"")
        + &entry("eye", "role = \"read\"");
    let tokens = Some(Arc::new(Tokens::new(AuthFile::parse(&lines).unwrap())));
    let dispatch = Dispatch::new(node.services.clone(), AccessPolicy { tokens, insecure: false });
    let mut seen = Vec::new();
    for token in ["shop", "free", "eye"] {
        for path in ["/api/segment/get/orders", "/api/snowflake/get/x", "/db"] {
            let [plain, odd] = [path.to_owned(), format!("/{path}/")].map(|path| {
                Request::get(path)
                    .header("host", "a")
                    .header("authorization", format!("Bearer {token}"))
                    .body(Full::<Bytes>::default())
                    .unwrap()
            });
            let plain = dispatch.call(&mut Caller::default(), plain).await.unwrap().status();
            let odd = dispatch.call(&mut Caller::default(), odd).await.unwrap().status();
            assert_eq!(plain, odd, "{token} {path}");
            seen.push(odd.as_u16());
        }
    }
    assert_eq!(seen, [403, 200, 403, 200, 200, 403, 403, 403, 200]);
    node.stop().await;
}
