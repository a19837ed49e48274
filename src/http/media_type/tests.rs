use super::*;
use axum::http::HeaderValue;

fn accepts(accept: &str) -> Option<Vec<MediaType>> {
    accepted(&HeaderMap::from_iter([(ACCEPT, HeaderValue::from_str(accept).unwrap())]))
}

fn order(accept: &str) -> Vec<String> {
    let names = accepts(accept).unwrap().into_iter();
    names.map(|range| format!("{}/{}", range.kind, range.subtype)).collect()
}

#[test]
fn narrower_ranges_come_first_and_then_better_ones() {
    for (accept, expected) in [
        ("", vec!["*/*"]),
        (",", vec!["*/*"]),
        ("*/*, text/html", vec!["text/html", "*/*"]),
        ("text/*, TEXT/Html;q=0.1", vec!["text/html", "text/*"]),
        ("a/b;q=0.2, c/d;q=0.9", vec!["c/d", "a/b"]),
        ("a/b;q=0, c/d", vec!["c/d", "a/b"]),
        ("a/b, c/d", vec!["a/b", "c/d"]),
        ("*;q=.2, a/b", vec!["a/b", "*/*"]),
        ("a/*+x, a/x", vec!["a/x", "a/*+x"]),
    ] {
        assert_eq!(order(accept), expected, "{accept}");
    }
    assert_eq!(accepted(&HeaderMap::new()).unwrap(), [MediaType::new("*", "*")]);
}

#[test]
fn types_that_stand_in_a_circle_have_one_order_all_the_same() {
    let circle = ["a/b;q=0.5", "c/d;q=0.9", "a/*"];
    assert_eq!(order(&circle.join(",")), ["a/*", "c/d", "a/b"].map(str::to_owned));
    let many = vec!["a/b;q=0.5, c/d;q=0.9, a/*"; 20].join(", ");
    assert_eq!(order(&many).len(), RANGES_MAX);
}

#[test]
fn one_malformed_range_spoils_all() {
    for accept in [
        "nonsense",
        "text/html, x",
        "a/",
        "/b",
        "*/b",
        "a/b/c",
        "a b/c",
        "a/b;q=2",
        "a/b;q=-1",
        "a/b;q=x",
        "a/b;q =1",
        "a/b;x=",
        "a/b;=1",
        "a/b;x=a b",
        "a/b;q=NaN",
        "a/b;charset=nosuch",
        "\u{7f}/a",
    ] {
        let headers = HeaderMap::from_iter([(
            ACCEPT,
            HeaderValue::from_bytes(accept.as_bytes()).unwrap_or(HeaderValue::from_static("x")),
        )]);
        assert_eq!(accepted(&headers), None, "{accept}");
    }
    for accept in ["a/b;x", "a/b;", "a/b;x=\"a;b\"", "a/b; q=\"0.5\"", " a/b ,, c/d"] {
        assert!(accepts(accept).is_some(), "{accept}");
    }
}

#[test]
fn the_narrowest_type_that_both_know_is_chosen() {
    let json = ["json", "*+json"].map(|subtype| MediaType::new("application", subtype));
    for (accept, expected) in [
        ("*/*", Some("application/json;charset=UTF-8")),
        ("application/*", Some("application/json;charset=UTF-8")),
        ("application/*+json, application/json", Some("application/json;charset=UTF-8")),
        (
            "application/hal+json;v=1;charset=utf-16",
            Some("application/hal+json; v=1;charset=UTF-8"),
        ),
        ("application/*+json", None),
        ("application/xml", None),
        ("application/*+xml", None),
        ("text/*", None),
    ] {
        let chosen = chosen(&accepts(accept).unwrap(), &json);
        let chosen = chosen.map(|chosen| chosen.named());
        assert_eq!(chosen.as_deref(), expected, "{accept}");
    }
}
