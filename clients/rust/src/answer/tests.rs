use super::*;

fn answer(status: u16, body: &str) -> Answer {
    Answer { status, retry_after: None, body: Bytes::copy_from_slice(body.as_bytes()) }
}

fn ranges(count: u64) -> Request {
    Request::Segment { tag: "orders".into(), count, as_ranges: true }
}

fn list(count: u64) -> Request {
    Request::Segment { tag: "orders".into(), count, as_ranges: false }
}

#[test]
fn whole_answers_are_read() {
    let two = r#"{"tag":"orders","ranges":[{"start":"7","end":"10"},{"start":"21","end":"23"}]}"#;
    assert_eq!(read(&ranges(5), &answer(200, two)), Meaning::Lease(vec![7..10, 21..23]));
    let last = r#"{"ranges":[{"start":"9223372036854775807","end":"9223372036854775808"}]}"#;
    assert_eq!(read(&ranges(1), &answer(200, last)), Meaning::Lease(joined(&[ID_END - 1])));
    let ids = |ids: &[&str]| ids.iter().map(|&id| id.to_owned()).collect();
    assert_eq!(
        read(&list(2), &answer(200, r#"{"ids":["7","9"]}"#)),
        Meaning::Listed { ids: ids(&["7", "9"]), may_be_kept: true }
    );
    assert_eq!(
        read(&list(2), &answer(200, r#"{"ids":["INV-\u0032","INV-1"],"lease":false}"#)),
        Meaning::Listed { ids: ids(&["INV-2", "INV-1"]), may_be_kept: false }
    );
    let not_kept = r#"{"ranges":[{"start":"7","end":"10"}],"lease":false}"#;
    assert_eq!(read(&ranges(3), &answer(200, not_kept)), Meaning::NotForKeeping);
}

#[test]
fn of_a_malformed_answer_no_id_is_used() {
    let bad_ranges = [
        r#"[{"start":"7","end":"12"},{"start":"11","end":"12"}]"#, // they overlap
        r#"[{"start":"20","end":"23"},{"start":"7","end":"10"}]"#, // they fall
        r#"[{"start":"7","end":"7"},{"start":"8","end":"14"}]"#,   // one is empty
        r#"[{"start":"9","end":"7"},{"start":"10","end":"18"}]"#,  // one runs backward
        r#"[{"start":"7","end":"14"}]"#,                           // too many
        r#"[{"start":"7","end":"12"}]"#,                           // too few
        "[]",
        r#"[{"start":"0","end":"6"}]"#,
        r#"[{"start":"9223372036854775803","end":"9223372036854775809"}]"#,
        r#"[{"start":"-7","end":"-1"}]"#,
        r#"[{"start":"+7","end":"13"}]"#,
        r#"[{"start":7,"end":13}]"#,
        r#"[{"start":"7"}]"#,
    ];
    for bad in bad_ranges {
        let body = format!(r#"{{"ranges":{bad}}}"#);
        let meaning = read(&ranges(6), &answer(200, &body));
        assert!(matches!(meaning, Meaning::Failed { .. }), "{bad}: {meaning:?}");
    }
    let whole = r#"{"ranges":[{"start":"7","end":"13"}]}"#;
    for end in 0..whole.len() {
        let meaning = read(&ranges(6), &answer(200, &whole[..end]));
        assert!(matches!(meaning, Meaning::Failed { .. }), "{}: {meaning:?}", &whole[..end]);
    }
    let bad_lists = [
        r#"{"ids":["7","7"]}"#,
        r#"{"ids":["8","7"]}"#,
        r#"{"ids":["7"]}"#,
        r#"{"ids":["7","8","9"]}"#,
        r#"{"ids":["INV-7","INV-8"]}"#,
        r#"{"ids":["0","1"]}"#,
        r#"{"ids":["INV-7","INV-7"],"lease":false}"#,
        r#"{"ids":["INV-7"],"lease":false}"#,
        r#"{"ranges":[{"start":"7","end":"9"}]}"#,
        "<html>",
    ];
    for bad in bad_lists {
        let meaning = read(&list(2), &answer(200, bad));
        assert!(matches!(meaning, Meaning::Failed { .. }), "{bad}: {meaning:?}");
    }
}

#[test]
fn refusals_end_a_flight_and_failures_do_not() {
    for status in [400, 401, 403, 404, 405, 409, 413, 415, 422, 423, 431, 418] {
        let body = r#"{"code":"some_code","detail":"why"}"#;
        let refusal = Refusal { status, code: "some_code".into(), detail: "why".into() };
        assert_eq!(read(&list(1), &answer(status, body)), Meaning::Refused(refusal));
    }
    for status in [204, 301, 307, 408, 429, 500, 502, 503, 504] {
        let meaning = read(&list(1), &answer(status, r#"{"code":"overloaded"}"#));
        assert!(matches!(meaning, Meaning::Failed { rest: None, .. }), "{status}: {meaning:?}");
    }
}

#[test]
fn an_answer_without_a_code_is_of_no_node_and_its_first_line_is_told() {
    let why = |status: u16, body: &str| match read(&list(1), &answer(status, body)) {
        Meaning::Failed { why, .. } => why,
        other => panic!("{other:?}"),
    };
    assert_eq!(
        why(400, "this port speaks another protocol\n"),
        "answered 400: this port speaks another protocol"
    );
    assert_eq!(why(404, "\r\n\u{7}one\ttwo\r\nthree"), "answered 404: one two");
    assert_eq!(why(403, &"é".repeat(100_000)), format!("answered 403: {}", "é".repeat(200)));
    assert_eq!(why(422, r#"{"count_max":1}"#), "answered 422");
    assert_eq!(why(409, r#"{"code":"","detail":"why"}"#), "answered 409: why");
    assert_eq!(why(502, "<html>"), "answered 502: <html>");
    assert_eq!(why(500, ""), "answered 500");
    let meaning =
        read(&list(1), &Answer { body: Bytes::from_static(b"\xff\n"), ..answer(404, "") });
    assert!(matches!(meaning, Meaning::Failed { .. }), "{meaning:?}");
}

#[test]
fn retry_after_is_heeded() {
    let after = |code: &str, retry_after: Option<&str>| {
        let body = format!(r#"{{"code":"{code}"}}"#);
        let retry_after = retry_after.map(str::to_owned);
        read(&list(1), &Answer { retry_after, ..answer(429, &body) })
    };
    let rest = |meaning| match meaning {
        Meaning::Failed { rest, .. } => rest,
        Meaning::RateLimited { wait, .. } => Some(wait),
        other => panic!("{other:?}"),
    };
    assert_eq!(rest(after("overloaded", Some("2"))), Some(Duration::from_secs(2)));
    assert_eq!(rest(after("overloaded", Some("soon"))), None);
    assert_eq!(rest(after("rate_limited", Some("7"))), Some(Duration::from_secs(7)));
    assert_eq!(rest(after("rate_limited", None)), Some(Duration::from_secs(1)));
    assert_eq!(rest(after("rate_limited", Some("99999999999"))), Some(RETRY_AFTER_MAX));
    assert!(matches!(after("rate_limited", None), Meaning::RateLimited { .. }));
}

#[test]
fn the_zone_is_that_of_the_node_that_answers() {
    let body = r#"{"node_id":2,"nodes":[{"id":1,"zone":"a"},{"id":2,"zone":"b","x":1},{"id":3}]}"#;
    assert_eq!(is_in_zone(&answer(200, body), "b"), Some(true));
    assert_eq!(is_in_zone(&answer(200, body), "a"), Some(false));
    let of = |node: &str| body.replace(":2,\"n", &format!(":{node},\"n"));
    assert_eq!(is_in_zone(&answer(200, &of("3")), "b"), Some(false), "it is in no zone");
    for unclear in
        [answer(200, &of("4")), answer(200, "{}"), answer(200, "<html>"), answer(403, body)]
    {
        assert_eq!(is_in_zone(&unclear, "b"), None, "{unclear:?}");
    }
}

#[test]
fn ids_that_follow_one_another_become_ranges() {
    assert_eq!(joined(&[4, 5, 9]), [4..6, 9..10]);
    assert_eq!(joined(&[]), []);
}
