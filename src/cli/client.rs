//! A small HTTP client: several nodes, deadlines, and errors that a person can act on.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use hyper::{Method, Request, Response, StatusCode, Uri};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use parking_lot::Mutex;
use serde_json::Value;

use super::failure::Failure;
use super::https::{TlsArgs, explained};
use super::output::{print, print_json, warn};
use crate::text::address::{PortRule, check_host_port, is_loopback};

const CONNECT_MS_MAX: u64 = 3_000;
/// Longest wait for the head of an answer, for all of a short one, and for a piece of a long one: a little longer than
/// a node works on any request, so that the node's own answer comes first.
const REQUEST_MAX: Duration = Duration::from_secs(15);
/// Longest answer: above the longest to any request made here, which is a page of 1,000 tags.
const ANSWER_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Where a node is: `http://HOST[:PORT]` or `https://HOST[:PORT]`, with an optional path before the interface's own.
/// Without a scheme it is http.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BaseUrl(String);

impl FromStr for BaseUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let has_scheme = text.contains(":/");
        let text = text.trim().trim_end_matches('/');
        let text = match has_scheme {
            true => text.to_owned(),
            false => format!("http://{text}"),
        };
        let uri: Uri = text.parse().map_err(|_| expected_url())?;
        let known = matches!(uri.scheme_str(), Some("http" | "https")) && uri.query().is_none();
        if uri.authority().is_some_and(|authority| authority.as_str().contains('@')) {
            return Err("must name no user and no password: --token-file takes a token".to_owned());
        }
        let Some(authority) = uri.authority().filter(|it| known && !it.host().is_empty()) else {
            return Err(expected_url());
        };
        // The parser lets any digits through, and a port that it cannot read would count as none, so as 80 or 443.
        match authority.as_str().strip_prefix(authority.host()).unwrap_or_default() {
            "" => Ok(Self(text)),
            port if is_port(port) => Ok(Self(text)),
            _ => {
                Err("must name a port of 1 to 65535 behind the last colon, or have none".to_owned())
            }
        }
    }
}

impl BaseUrl {
    fn is_https(&self) -> bool {
        self.0.get(..8).is_some_and(|scheme| scheme.eq_ignore_ascii_case("https://"))
    }

    pub(super) fn host_port(&self) -> &str {
        self.0.split('/').nth(2).unwrap_or_default()
    }
}

/// Whether a text is a colon and a port that can be connected to.
fn is_port(text: &str) -> bool {
    check_host_port(&format!("host{text}"), PortRule::Real).is_ok()
}

fn expected_url() -> String {
    "must be HOST:PORT, http://HOST:PORT or https://HOST:PORT".to_owned()
}

impl fmt::Display for BaseUrl {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// A token of the command line. Its debug form does not show it.
#[derive(Clone)]
pub(super) struct ShownToken(HeaderValue);

impl FromStr for ShownToken {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let is_sound = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
        let mut header = is_sound.then(|| HeaderValue::from_str(&format!("Bearer {text}")).ok());
        let mut header = header.take().flatten().ok_or("must be visible ASCII without spaces")?;
        header.set_sensitive(true);
        Ok(Self(header))
    }
}

impl fmt::Debug for ShownToken {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("ShownToken")
    }
}

/// The failure of one attempt.
enum Attempt {
    /// The request was never sent.
    Unconnected(Failure),
    /// The request may have been carried out: the connection broke, or time ran out.
    Lost(Failure),
    /// The node cannot serve at the moment.
    Unavailable(Failure),
    /// The node does not accept the token, or wants one: it has done nothing.
    Unauthenticated(Failure),
    /// The node refused.
    Refused(Failure),
}

/// Asks the given nodes in order until one answers.
#[derive(Clone, Debug)]
pub(super) struct Client {
    urls: Vec<BaseUrl>,
    token: Option<ShownToken>,
    /// Whether there is a token that these nodes must not see.
    withholds_token: bool,
    /// Nodes that have refused the token, and of which the user has been warned.
    refusing: Arc<Mutex<BTreeSet<String>>>,
    http: legacy::Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    /// Longest wait for the head of an answer, and for all of a short one.
    patience: Duration,
    /// Whether the user wants JSON.
    pub(super) json: bool,
}

impl Client {
    /// # Errors
    /// When a file that https needs cannot be used.
    pub(super) fn new(
        urls: Vec<BaseUrl>,
        token: Option<ShownToken>,
        tls: &TlsArgs,
        json: bool,
    ) -> Result<Self, Failure> {
        let mut connector = HttpConnector::new();
        connector.set_connect_timeout(Some(Duration::from_millis(CONNECT_MS_MAX)));
        connector.set_nodelay(true);
        // The next layer checks the scheme.
        connector.enforce_http(false);
        let connector = tls.connector(connector, urls.iter().any(BaseUrl::is_https))?;
        let http = legacy::Client::builder(TokioExecutor::new()).build(connector);
        let (withholds_token, refusing, patience) = (false, Arc::default(), REQUEST_MAX);
        Ok(Self { urls, token, withholds_token, refusing, http, patience, json })
    }

    /// The same client for one member of the cluster, at the address that the cluster reports. The user has not named
    /// that node, and the cluster may report any address. So the token goes there only within TLS, or where no network
    /// lies between.
    ///
    /// # Errors
    /// When the member has not reported an address.
    pub(super) fn of_member(&self, address: &str, patience: Duration) -> Result<Self, Failure> {
        let scheme = if self.urls.iter().any(BaseUrl::is_https) { "https" } else { "http" };
        let untold = |_| Failure::new("it has not reported the address at which it serves clients");
        let url: BaseUrl = format!("{scheme}://{address}").parse().map_err(untold)?;
        let is_named = self.urls.iter().any(|named| named.host_port() == url.host_port());
        let may_see = is_named || url.is_https() || is_loopback(url.host_port());
        let token = self.token.clone().filter(|_| may_see);
        let withholds_token = self.token.is_some() && !may_see;
        Ok(Self { urls: vec![url], token, withholds_token, patience, ..self.clone() })
    }

    /// Prints what was done, as JSON or as text. The text may hold what others have written.
    ///
    /// # Errors
    /// When stdout fails.
    pub(super) fn show(&self, done: &Value, text: impl FnOnce() -> String) -> Result<(), Failure> {
        if self.json { print_json(done) } else { print(&text()) }
    }

    /// The nodes that are asked, for messages.
    pub(super) fn asked(&self) -> String {
        self.urls.iter().map(BaseUrl::to_string).collect::<Vec<_>>().join(" or ")
    }

    /// Whether there are several nodes to ask.
    pub(super) fn has_several_nodes(&self) -> bool {
        self.urls.len() > 1
    }

    /// Whether the first node that can answer is ready, and why not; and which node that is.
    ///
    /// # Errors
    /// The failure at the last node.
    pub(super) async fn readiness(&self) -> Result<(BaseUrl, Value), Failure> {
        let ask = async |url: &BaseUrl| {
            let response = self.open(url, &Method::GET, "/readyz", None).await?;
            // A node that is not ready answers 503, with its reasons.
            let body = self.whole(url, response.into_body()).await?;
            Ok((url.clone(), as_json(url, &body)?))
        };
        self.first(true, ask).await
    }

    /// Reads `path` from the first node that can answer.
    ///
    /// # Errors
    /// Why the last node that answered could not serve; if none answered, the failure at the last node.
    pub(super) async fn get(&self, path: &str) -> Result<Value, Failure> {
        self.call(&Method::GET, path, None).await
    }

    /// Changes something; the next node is asked only when the request cannot have been sent,
    /// since a change that was made must not be reported as a conflict with itself.
    ///
    /// # Errors
    /// The failure at the last node.
    pub(super) async fn change(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Value, Failure> {
        self.call(&method, path, body).await
    }

    /// The same as [`change`](Self::change), for a request that may be carried out twice: if an answer is lost, the
    /// next node is asked.
    pub(super) async fn repeatable(&self, path: &str, body: &Value) -> Result<Value, Failure> {
        self.first(true, async |url| self.attempt(url, &Method::POST, path, Some(body)).await).await
    }

    /// Begins to read a long answer from the first node that gives one.
    ///
    /// # Errors
    /// The failure at the last node.
    pub(super) async fn stream(&self, path: &str) -> Result<BodyStream, Failure> {
        self.first(true, async |url| self.begin(url, path).await).await
    }

    async fn call(
        &self,
        method: &Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Value, Failure> {
        let repeatable = method == Method::GET;
        self.first(repeatable, async |url| self.attempt(url, method, path, body).await).await
    }

    /// The answer of the first node that gives one. A request that must not be repeated goes to the next node only when
    /// it cannot have been sent, or was refused for its token: nodes get their auth files one after the other. Where all
    /// fail, an error from a node that answered takes precedence over one from a node that could not be reached: it is
    /// more useful.
    async fn first<T>(
        &self,
        repeatable: bool,
        ask: impl AsyncFn(&BaseUrl) -> Result<T, Attempt>,
    ) -> Result<T, Failure> {
        let mut last = Failure::new("no node to ask");
        let mut said = None;
        for (at, url) in self.urls.iter().enumerate() {
            last = match ask(url).await {
                Ok(answer) => return Ok(answer),
                Err(Attempt::Unconnected(failure)) => failure,
                Err(Attempt::Unauthenticated(failure)) => {
                    let has_next = at + 1 < self.urls.len();
                    if has_next && self.refusing.lock().insert(url.to_string()) {
                        warn(&format!("{url} refuses: {}; the next node is asked", failure.detail));
                    }
                    said = Some(failure);
                    continue;
                }
                Err(Attempt::Lost(failure)) if repeatable => failure,
                Err(Attempt::Unavailable(failure)) if repeatable => {
                    said = Some(failure);
                    continue;
                }
                Err(
                    Attempt::Lost(failure)
                    | Attempt::Unavailable(failure)
                    | Attempt::Refused(failure),
                ) => return Err(failure),
            };
        }
        Err(said.unwrap_or(last))
    }

    async fn begin(&self, url: &BaseUrl, path: &str) -> Result<BodyStream, Attempt> {
        let response = self.open(url, &Method::GET, path, None).await?;
        if !response.status().is_success() {
            return Err(self.refusal(url, response).await);
        }
        Ok(BodyStream { url: url.clone(), body: response.into_body() })
    }

    async fn attempt(
        &self,
        url: &BaseUrl,
        method: &Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Value, Attempt> {
        let response = self.open(url, method, path, body).await?;
        self.read(url, response).await
    }

    /// Sends a request, and awaits the head of the answer.
    async fn open(
        &self,
        url: &BaseUrl,
        method: &Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Response<Incoming>, Attempt> {
        let mut request = request(url, method, path, body).map_err(Attempt::Refused)?;
        if let Some(ShownToken(header)) = &self.token {
            request.headers_mut().insert(AUTHORIZATION, header.clone());
        }
        let response = tokio::time::timeout(self.patience, self.http.request(request)).await;
        response.map_err(|_| Attempt::Lost(late(url, self.patience)))?.map_err(|error| {
            if error.is_connect() { unconnected(url, &error) } else { lost(url, &error) }
        })
    }

    /// Reads a short answer.
    async fn read(&self, url: &BaseUrl, response: Response<Incoming>) -> Result<Value, Attempt> {
        if !response.status().is_success() {
            return Err(self.refusal(url, response).await);
        }
        let body = self.whole(url, response.into_body()).await?;
        if body.is_empty() { Ok(Value::Null) } else { as_json(url, &body) }
    }

    /// Why a node did not do what was asked.
    async fn refusal(&self, url: &BaseUrl, response: Response<Incoming>) -> Attempt {
        let status = response.status();
        match self.whole(url, response.into_body()).await {
            Err(failure) => failure,
            Ok(body) if status == StatusCode::SERVICE_UNAVAILABLE => {
                Attempt::Unavailable(Failure::refused(status, &body))
            }
            Ok(_) if status == StatusCode::UNAUTHORIZED && self.withholds_token => {
                Attempt::Refused(Failure::new(format!(
                    "the token is not sent in the clear to {url}, which --url does not name: name it there, or use https"
                )))
            }
            Ok(body) if status == StatusCode::UNAUTHORIZED => {
                Attempt::Unauthenticated(Failure::refused(status, &body))
            }
            Ok(body) => Attempt::Refused(Failure::refused(status, &body)),
        }
    }

    /// The body of a short answer.
    async fn whole(&self, url: &BaseUrl, body: Incoming) -> Result<Bytes, Attempt> {
        let body = Limited::new(body, ANSWER_BYTES_MAX).collect();
        let body = tokio::time::timeout(self.patience, body).await;
        let body = body.map_err(|_| Attempt::Lost(late(url, self.patience)))?;
        Ok(body.map_err(|error| lost(url, &*error))?.to_bytes())
    }
}

fn as_json(url: &BaseUrl, body: &[u8]) -> Result<Value, Attempt> {
    serde_json::from_slice(body).map_err(|_| {
        let detail = format!("{url} answered with something that is not JSON");
        Attempt::Refused(Failure::hinting(detail, "is it a mintleaf node?"))
    })
}

/// A long answer, piece by piece.
pub(super) struct BodyStream {
    url: BaseUrl,
    body: Incoming,
}

impl BodyStream {
    /// The next piece; `None` after the last one.
    ///
    /// # Errors
    /// When the answer broke off.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, Failure> {
        let broke_off = |why: &dyn fmt::Display| {
            Failure::new(format!("the answer from {} broke off: {why}", self.url))
        };
        loop {
            let frame = tokio::time::timeout(REQUEST_MAX, self.body.frame()).await;
            let frame = frame.map_err(|_| broke_off(&"nothing more arrived in time"))?;
            match frame {
                None => return Ok(None),
                Some(Err(error)) => return Err(broke_off(&root_cause(&error))),
                Some(Ok(frame)) => {
                    if let Ok(piece) = frame.into_data() {
                        return Ok(Some(piece));
                    }
                }
            }
        }
    }
}

fn late(url: &BaseUrl, patience: Duration) -> Failure {
    Failure::new(format!("{url} did not answer in {} s", patience.as_secs())).unanswered()
}

fn request(
    url: &BaseUrl,
    method: &Method,
    path: &str,
    body: Option<&Value>,
) -> Result<Request<Full<Bytes>>, Failure> {
    let mut request = Request::builder().method(method).uri(format!("{url}{path}"));
    if body.is_some() {
        request = request.header(CONTENT_TYPE, "application/json");
    }
    let body = body.map_or_else(String::new, Value::to_string);
    request
        .body(Full::new(Bytes::from(body)))
        .map_err(|error| Failure::new(format!("cannot ask {url}: {error}")))
}

fn unconnected(url: &BaseUrl, error: &(dyn std::error::Error + 'static)) -> Attempt {
    if let Some(why) = explained(error) {
        return Attempt::Unconnected(Failure::new(format!("cannot trust {url}: {why}")));
    }
    let detail = format!("cannot reach {url}: {}", root_cause(error));
    let hint = "`mintleaf dev` starts a node; --url or MINTLEAF_URL names another";
    Attempt::Unconnected(Failure::hinting(detail, hint).unanswered())
}

fn lost(url: &BaseUrl, error: &(dyn std::error::Error + 'static)) -> Attempt {
    // Within TLS 1.3, a node rejects a client only after the client believes that it is connected.
    let why = explained(error).unwrap_or_else(|| root_cause(error));
    Attempt::Lost(Failure::new(format!("lost {url}: {why}")).unanswered())
}

/// The innermost cause; the layers above it only repeat that something failed.
fn root_cause(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}

#[cfg(test)]
mod tests;
