use super::*;
use crate::access::auth_file::AuthFile;
use crate::access::token::written_hash;
use crate::http::routes::route;

fn entry(name: &str, token: &str, rest: &str) -> String {
    let hash = written_hash(&hash_of(token.as_bytes()));
    format!("[[token]]\nname = \"{name}\"\nhash = \"{hash}\"\n{rest}\n")
}

fn file(anonymous: &str) -> AuthFile {
    let text = entry("shop", "s3cret", "role = \"issue\"\ntags = [\"pay*\"]")
        + &entry("eye", "see", "role = \"read\"")
        + &entry("nightly", "copy", "role = \"backup\"")
        + &entry("ops", "do", "role = \"admin\"")
        + &entry("pay-ops", "pay", "role = \"admin\"\ntags = [\"pay*\"]");
    AuthFile::parse(&(anonymous.to_owned() + &text)).unwrap()
}

fn asked(tokens: &Tokens, caller: &mut Caller, header: Option<&str>, line: &str) -> Option<Denial> {
    caller.shows(tokens, header.map(str::as_bytes));
    let (method, path) = line.split_once(' ').unwrap();
    let demand = route(method, path);
    caller.check_request(demand.needs, demand.scope, || demand.tag()).err()
}

fn lacks(has: Role, needs: Needs) -> Option<Denial> {
    Some(Denial::Role { has, needs })
}

#[test]
fn a_token_allows_what_its_role_and_tags_say() {
    let tokens = Tokens::new(file(""));
    let caller = &mut Caller::default();
    for (header, line, expected) in [
        (None, "GET /v1/segment/pay", Some(Denial::NoToken)),
        (None, "GET /livez", None),
        (Some("Bearer s3cret"), "GET /v1/segment/pay", None),
        (Some("bearer  s3cret "), "GET /v1/segment/pay", None),
        (Some("Bearer s3cret"), "GET /v1/segment/payments", None),
        (Some("Bearer s3cret"), "POST /api/segment/get/payments", None),
        (Some("Bearer s3cret"), "GET /api/segment/get/%70ay", None),
        (Some("Bearer s3cret"), "GET /v1/segment/pa", Some(Denial::Tags)),
        (Some("Bearer s3cret"), "GET /v1/segment/orders", Some(Denial::Tags)),
        (Some("Bearer s3cret"), "GET /v1/segment/pay%zz", Some(Denial::Tags)),
        (Some("Bearer s3cret"), "GET /v1/snowflake", None),
        (Some("Bearer s3cret"), "GET /v1/snowflake/17", None),
        (Some("Bearer s3cret"), "GET /v1/tags/pay", lacks(Role::Issue, Needs::Read)),
        (Some("Bearer s3cret"), "GET /livez", None),
        (Some("Bearer s3cre"), "GET /v1/segment/pay", Some(Denial::UnknownToken)),
        (Some("Bearer s3crett"), "GET /v1/segment/pay", Some(Denial::UnknownToken)),
        (Some("Bearer "), "GET /v1/segment/pay", Some(Denial::NotBearer)),
        (Some("Basic s3cret"), "GET /v1/segment/pay", Some(Denial::NotBearer)),
        (Some("s3cret"), "GET /v1/segment/pay", Some(Denial::NotBearer)),
        (Some("Bearer s3cret see"), "GET /v1/tags", Some(Denial::NotBearer)),
        (Some("Bearer see"), "GET /v1/segment/pay", lacks(Role::Read, Needs::Issue)),
        (Some("Bearer see"), "HEAD /v1/tags", None),
        (Some("Bearer see"), "OPTIONS /v1/cluster/nodes", None),
        (Some("Bearer see"), "GET /nothing", None),
        (Some("Bearer see"), "POST /v1/tags", lacks(Role::Read, Needs::Admin)),
        (Some("Bearer see"), "BREW /livez", lacks(Role::Read, Needs::Admin)),
        (Some("Bearer copy"), "GET /v1/backup", None),
        (Some("Bearer copy"), "GET /livez", None),
        (Some("Bearer copy"), "GET /v1/snowflake/17", lacks(Role::Backup, Needs::AnyRole)),
        (Some("Bearer copy"), "GET /metrics", lacks(Role::Backup, Needs::Read)),
        (Some("Bearer copy"), "GET /nothing", lacks(Role::Backup, Needs::Read)),
        (Some("Bearer see"), "GET /v1/backup", lacks(Role::Read, Needs::Backup)),
        (Some("Bearer do"), "GET /v1/backup", None),
        (Some("Bearer do"), "GET /v1/segment/any", None),
        (Some("Bearer do"), "DELETE /v1/cluster/nodes/3", None),
        (Some("Bearer pay"), "PATCH /v1/tags/pay", None),
        (Some("Bearer pay"), "PATCH /v1/tags/orders", Some(Denial::Tags)),
        (Some("Bearer pay"), "GET /v1/tags", Some(Denial::Tags)),
        (Some("Bearer pay"), "POST /v1/cluster/level", Some(Denial::Tags)),
        (Some("Bearer pay"), "PUT /nothing", Some(Denial::Tags)),
    ] {
        assert_eq!(asked(&tokens, caller, header, line), expected, "{header:?} {line}");
        let anew = &mut Caller::default();
        assert_eq!(asked(&tokens, anew, header, line), expected, "{header:?} {line}");
    }
}

#[test]
fn every_token_that_holds_is_no_stranger_s_whatever_its_role() {
    let tokens = Tokens::new(file(""));
    let open = Tokens::new(file("anonymous = \"read\"\n"));
    for (header, alone, with_anonymous) in [
        (Some("Bearer copy"), false, false),
        (Some("Bearer s3cret"), false, false),
        (Some("Bearer x"), true, true),
        (Some("nonsense"), true, true),
        (None, true, false),
    ] {
        for (tokens, is_stranger) in [(&tokens, alone), (&open, with_anonymous)] {
            let caller = &mut Caller::default();
            caller.shows(tokens, header.map(str::as_bytes));
            assert_eq!(caller.is_stranger(), is_stranger, "{header:?}");
        }
    }
}

#[test]
fn anonymous_callers_may_do_so_much_and_unknown_tokens_nothing() {
    let tokens = Tokens::new(file("anonymous = \"issue\"\n"));
    let caller = &mut Caller::default();
    assert_eq!(asked(&tokens, caller, None, "GET /v1/segment/any"), None);
    assert_eq!(asked(&tokens, caller, None, "GET /v1/tags"), Some(Denial::NoToken));
    let unknown = asked(&tokens, caller, Some("Bearer x"), "GET /v1/segment/any");
    assert_eq!(unknown, Some(Denial::UnknownToken));
    assert_eq!(asked(&tokens, caller, None, "GET /v1/segment/any"), None);
}

#[test]
fn what_was_remembered_holds_no_longer_than_the_tokens() {
    let tokens = Tokens::new(file(""));
    let caller = &mut Caller::default();
    let get = "GET /v1/segment/pay";
    assert_eq!(asked(&tokens, caller, Some("Bearer s3cret"), get), None);
    tokens.replace(AuthFile::parse("anonymous = \"read\"").unwrap());
    let gone = asked(&tokens, caller, Some("Bearer s3cret"), get);
    assert_eq!(gone, Some(Denial::UnknownToken));
    assert_eq!(asked(&tokens, caller, None, "GET /v1/tags"), None);
    tokens.replace(file(""));
    assert_eq!(asked(&tokens, caller, Some("Bearer s3cret"), get), None);
    assert_eq!(asked(&tokens, caller, None, "GET /v1/tags"), Some(Denial::NoToken));
}

#[test]
fn a_login_lasts_until_its_token_leaves_and_a_wrong_one_changes_nothing() {
    let tokens = Tokens::new(file(""));
    let mut caller = Caller::default();
    for (name, token) in [
        (Some(&b"shop"[..]), &b"see"[..]),
        (Some(b"nobody"), b"s3cret"),
        (None, b"x"),
        (Some(b"shop"), b""),
    ] {
        assert!(!caller.log_in(&tokens, name, token));
    }
    assert!(!caller.log_in(&tokens, None, &[b'x'; TOKEN_BYTES_MAX + 1]));
    assert_eq!(caller.check(Needs::AnyRole), Err(Denial::NoToken));
    assert!(caller.log_in(&tokens, Some(b"shop"), b"s3cret"));
    assert_eq!(caller.check(Needs::Issue), Ok(()));
    assert!(!caller.log_in(&tokens, Some(b"shop"), b"x"));
    assert_eq!(caller.check(Needs::Issue), Ok(()));
    tokens.replace(AuthFile::parse("anonymous = \"admin\"").unwrap());
    caller.refresh(&tokens);
    assert_eq!(
        caller.check(Needs::AnyRole),
        Err(Denial::UnknownToken),
        "it fell back to anonymous"
    );
}

#[test]
fn an_overlong_authorization_is_no_token_and_is_not_taken_for_none() {
    let tokens = Tokens::new(file("anonymous = \"admin\"\n"));
    let caller = &mut Caller::default();
    for length in [SHOWN_BYTES_MAX, SHOWN_BYTES_MAX + 1, SHOWN_BYTES_MAX + 2] {
        let long = format!("Bearer {}", "x".repeat(length));
        let refused = asked(&tokens, caller, Some(&long), "GET /v1/tags");
        assert_eq!(refused, Some(Denial::NotBearer));
    }
    let padded = format!("Bearer{}s3cret", " ".repeat(SHOWN_BYTES_MAX));
    let refused = asked(&tokens, caller, Some(&padded), "GET /v1/snowflake");
    assert_eq!(refused, Some(Denial::NotBearer));
    assert_eq!(asked(&tokens, caller, None, "GET /v1/tags"), None);
}
