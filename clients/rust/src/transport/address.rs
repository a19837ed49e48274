//! The addresses of endpoints: `http://HOST:PORT` or `https://HOST:PORT`.

use hyper::Uri;
use hyper::header::HeaderValue;

use crate::error::Error;

/// The address of a node.
#[derive(Clone, Debug)]
pub(crate) struct Address {
    pub(crate) is_https: bool,
    /// A name, or an IP address without brackets.
    pub(crate) host: String,
    pub(crate) port: u16,
    /// `HOST:PORT` as requests carry it.
    pub(crate) authority: HeaderValue,
}

impl Address {
    /// Reads an endpoint as users write it.
    pub(crate) fn parse(text: &str) -> Result<Self, Error> {
        let fault = || {
            let form = "must be http://HOST:PORT or https://HOST:PORT";
            Error::InvalidArgument(format!("endpoint {text:?} {form}"))
        };
        let uri: Uri = text.parse().map_err(|_| fault())?;
        let is_https = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => return Err(fault()),
        };
        let authority = uri.authority().ok_or_else(fault)?;
        let is_bare = matches!(uri.path(), "" | "/") && uri.query().is_none();
        if !is_bare || authority.as_str().contains('@') || authority.host().is_empty() {
            return Err(fault());
        }
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        let port = match authority.port() {
            Some(port) => port.as_u16(),
            // A colon without a port, or with something that is not a port number.
            None if authority.as_str().len() > authority.host().len() => return Err(fault()),
            None if is_https => 443,
            None => 80,
        };
        let authority = HeaderValue::from_str(authority.as_str()).map_err(|_| fault())?;
        Ok(Self { is_https, host, port, authority })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_a_scheme_a_host_and_perhaps_a_port() {
        let read = |text: &str| {
            let address = Address::parse(text).unwrap();
            (address.is_https, address.host, address.port)
        };
        assert_eq!(read("http://a:8080"), (false, "a".into(), 8080));
        assert_eq!(read("https://ids.example.org/"), (true, "ids.example.org".into(), 443));
        assert_eq!(read("http://[::1]:80"), (false, "::1".into(), 80));
        let bad = ["a:8080", "ftp://a", "http://", "http://u:p@a", "http://a/x", "http://a?b", ""];
        for bad in bad.into_iter().chain(["http://a:99999", "http://a:"]) {
            let fault = Address::parse(bad).unwrap_err();
            assert!(matches!(fault, Error::InvalidArgument(_)), "{bad}: {fault}");
        }
    }
}
