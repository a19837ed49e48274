use super::*;

#[test]
fn urls_are_http_or_https_without_a_trailing_slash() {
    let url = |text: &str| text.parse::<BaseUrl>().map(|url| url.to_string());
    assert_eq!(url("http://127.0.0.1:8080/").unwrap(), "http://127.0.0.1:8080");
    assert_eq!(url(" http://proxy/ids ").unwrap(), "http://proxy/ids");
    assert_eq!(url("https://a:8443").unwrap(), "https://a:8443");
    assert_eq!(url("127.0.0.1:8080").unwrap(), "http://127.0.0.1:8080");
    assert_eq!(url("[::1]:8080/ids/").unwrap(), "http://[::1]:8080/ids");
    for wrong in
        ["", "/", ":8080", "ftp://a", "http://", "http://a?x=1", "a?x=1", "a b", "http:/a:80"]
    {
        assert!(url(wrong).is_err(), "{wrong}");
    }
    for wrong in [
        "http://a:99999",
        "a:0",
        "http://a:",
        "http://a:000080",
        "https://[::1]:65536",
        "http://a:+80",
    ] {
        assert!(url(wrong).unwrap_err().contains("1 to 65535"), "{wrong}");
    }
    assert_eq!(url("https://[::1]:65535/ids").unwrap(), "https://[::1]:65535/ids");
    for secret in [
        "http://user:hunter2@a:8080",
        "http://hunter2@a",
        "http://a:hunter2@",
        "user:hunter2@a:8080",
    ] {
        assert!(!url(secret).unwrap_err().contains("hunter2"), "{secret}");
    }
}

#[tokio::test]
async fn a_token_goes_to_named_nodes_and_to_others_within_tls_or_on_this_machine() {
    let sees = |named: &str, member: &str| {
        #[derive(clap::Parser)]
        struct Line {
            #[command(flatten)]
            tls: TlsArgs,
        }
        let Line { tls } = clap::Parser::parse_from(["a"]);
        let token = "t".parse().unwrap();
        let client = Client::new(vec![named.parse().unwrap()], Some(token), &tls, false).unwrap();
        let client = client.of_member(member, REQUEST_MAX).unwrap();
        assert_eq!(client.token.is_none(), client.withholds_token);
        client.token.is_some()
    };
    assert!(sees("http://a.example:8080", "a.example:8080"));
    assert!(sees("http://a.example:8080/ids", "a.example:8080"));
    assert!(!sees("http://a.example:8080", "b.example:8080"));
    assert!(!sees("http://a.example:8080", "a.example:9090"));
    assert!(!sees("http://127.0.0.1:8080", "10.0.0.1:8080"));
    assert!(sees("http://127.0.0.1:8080", "127.0.0.1:8081"));
    assert!(sees("https://a.example:8080", "b.example:8080"));
}
