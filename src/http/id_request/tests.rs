use super::*;

fn read<'a>(target: &'a str) -> Option<(IdPath, Cow<'a, str>)> {
    IdPath::read(target.split('?').next()?)
}

fn bare(accept: Option<&str>) -> Option<String> {
    let accept = accept.map(|accept| (ACCEPT, HeaderValue::from_str(accept).unwrap()));
    let media_type = bare_type(&HeaderMap::from_iter(accept))?;
    Some(media_type.to_str().unwrap().to_owned())
}

#[test]
fn ids_are_asked_for_at_four_paths() {
    use IdPath::{LeafSegment, LeafSnowflake, Segment, Snowflake};
    for (target, expected) in [
        ("/api/segment/get/a.b;c", Some((LeafSegment, "a.b;c"))),
        ("/api/segment/get/%E8%AE%A2?x=1", Some((LeafSegment, "订"))),
        ("/api/segment/get/%zz", Some((LeafSegment, ""))),
        ("/api/snowflake/get/a%2Fb", Some((LeafSnowflake, "a/b"))),
        ("/v1/segment/a", Some((Segment, "a"))),
        ("/v1/snowflake", Some((Snowflake, ""))),
        ("/v1/snowflake?count=3", Some((Snowflake, ""))),
        ("/api/segment/get/", None),
        ("/api/segment/get/a/b", None),
        ("/v1/segment/", None),
        ("/v1/snowflake/5", None),
        ("/API/segment/get/a", None),
        ("/", None),
    ] {
        let expected = expected.map(|(path, tag)| (path, Cow::Borrowed(tag)));
        assert_eq!(read(target), expected, "{target}");
    }
}

#[test]
fn a_bare_id_has_the_media_type_that_leaf_would_give_it() {
    const TEXT: Option<&str> = Some("text/plain;charset=UTF-8");
    assert_eq!(bare(None).as_deref(), TEXT);
    for (accept, expected) in [
        ("*/*", TEXT),
        ("", TEXT),
        ("*/*;q=0.5", TEXT),
        ("text/plain", TEXT),
        ("text/*", TEXT),
        ("application/json", Some("application/json;charset=UTF-8")),
        ("application/json, application/*+json", Some("application/json;charset=UTF-8")),
        ("application/*", Some("application/json;charset=UTF-8")),
        ("application/xml", Some("application/xml;charset=UTF-8")),
        ("text/plain, application/json, */*", TEXT),
        ("application/json, text/plain, */*", Some("application/json;charset=UTF-8")),
        ("text/html, image/gif, image/jpeg, *; q=.2, */*; q=.2", Some("text/html;charset=UTF-8")),
        ("text/plain;charset=iso-8859-1", Some("text/plain;charset=iso-8859-1")),
        ("application/json; charset=us-ascii", Some("application/json;charset=us-ascii")),
        ("text/plain;charset=\"utf-8\"", Some("text/plain;charset=utf-8")),
        ("text/plain;charset=utf-16", TEXT),
        ("application/json;v=1;q=0.5", Some("application/json; v=1;charset=UTF-8")),
        ("application/octet-stream", TEXT),
        ("image/png", TEXT),
        ("image/*", TEXT),
        ("image/png, text/html;q=0.5", Some("text/html;charset=UTF-8")),
        ("application/*+json", None),
        ("video/*", None),
        ("nonsense", None),
    ] {
        assert_eq!(bare(Some(accept)).as_deref(), expected, "{accept}");
    }
}

fn asked(target: &str) -> String {
    let uri = target.parse::<Uri>().unwrap();
    let request = IdRequest::read(&uri, &HeaderMap::new()).unwrap();
    match request.demand() {
        IdDemand::Segment(tag) => format!("one of {tag}"),
        IdDemand::Segments(tag, wanted) => format!("{} of {tag}", wanted.count),
        IdDemand::Snowflake => "snowflake".to_owned(),
        IdDemand::Snowflakes(wanted) => format!("{} snowflakes", wanted.count),
        IdDemand::Invalid => "nothing".to_owned(),
    }
}

#[test]
fn one_id_is_told_from_many_and_from_none() {
    for (target, expected) in [
        ("/api/segment/get/a?count=5", "one of a"),
        ("/api/segment/get/%zz", "nothing"),
        ("/api/snowflake/get/%zz?count=5", "snowflake"),
        ("/v1/segment/a?count=1", "one of a"),
        ("/v1/segment/a?", "one of a"),
        ("/v1/segment/a?count=1&format=ranges", "1 of a"),
        ("/v1/segment/a?count=7", "7 of a"),
        ("/v1/segment/a?count=0", "nothing"),
        ("/v1/segment/%zz?count=7", "nothing"),
        ("/v1/snowflake", "snowflake"),
        ("/v1/snowflake?count=7&format=ranges", "7 snowflakes"),
        ("/v1/snowflake?n=7", "nothing"),
    ] {
        assert_eq!(asked(target), expected, "{target}");
    }
}

#[test]
fn leafs_paths_take_ids_by_every_method_that_leaf_takes() {
    for path in [IdPath::LeafSegment, IdPath::Segment] {
        for method in ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE"] {
            let takes = path.takes_by(&Method::from_bytes(method.as_bytes()).unwrap());
            let leafs = path.is_leafs() && !["HEAD", "OPTIONS", "TRACE"].contains(&method);
            assert_eq!(takes, leafs || method == "GET", "{path:?} {method}");
        }
    }
}
