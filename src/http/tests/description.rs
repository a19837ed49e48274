//! The description of the interface for programs, compared with the actual routes.

use std::collections::{BTreeMap, BTreeSet};

use axum::http::header::ALLOW;
use axum::http::{Method, StatusCode};
use serde_json::Value;

use super::Served;
use crate::http::ops;
use crate::http::routes::ROUTES;

/// The methods of each path in the description, without HEAD and OPTIONS, which OpenAPI lets be left out.
fn described() -> BTreeMap<String, BTreeSet<String>> {
    let document: Value = serde_json::from_str(ops::OPENAPI).unwrap();
    let paths = document["paths"].as_object().unwrap();
    let methods = |item: &Value| {
        let keys = item.as_object().unwrap().keys().filter(|key| *key != "parameters");
        keys.map(|key| key.to_uppercase()).collect()
    };
    paths.iter().map(|(path, item)| (path.clone(), methods(item))).collect()
}

#[test]
fn every_route_is_described_and_every_description_is_routed() {
    let served = Served::start();
    let mut routed = BTreeMap::new();
    for path in ROUTES.iter().map(|row| row.path) {
        let (status, headers, _) = served.ask(Method::TRACE, &path.replace(['{', '}'], ""), "*/*");
        assert_eq!(status, StatusCode::METHOD_NOT_ALLOWED, "{path}");
        let allowed = headers[ALLOW].to_str().unwrap().split(',');
        let allowed = allowed.filter(|name| !["HEAD", "OPTIONS"].contains(name));
        routed.insert(path.to_owned(), allowed.map(str::to_owned).collect::<BTreeSet<_>>());
    }
    assert_eq!(described(), routed);
    // The methods in the table of routes, where one row may stand for all methods.
    let mut judged = BTreeMap::<_, BTreeSet<_>>::new();
    for row in ROUTES {
        judged.entry(row.path.to_owned()).or_default().insert(row.method);
    }
    for (path, methods) in judged.iter().filter(|(_, methods)| !methods.contains("*")) {
        assert!(
            methods.iter().eq(routed[path].iter()),
            "{path}: a verdict is about another method than its handler"
        );
    }
    assert!(judged.keys().eq(routed.keys()));
}

#[test]
fn every_reference_in_the_description_leads_somewhere() {
    let document: Value = serde_json::from_str(ops::OPENAPI).unwrap();
    let mut left = vec![&document];
    while let Some(value) = left.pop() {
        match value {
            Value::Object(object) => left.extend(object.values()),
            Value::Array(array) => left.extend(array),
            Value::String(text) if text.starts_with("#/") => {
                assert!(document.pointer(&text[1..]).is_some(), "{text}");
            }
            _ => {}
        }
    }
}
