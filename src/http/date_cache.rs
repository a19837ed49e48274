//! hyper's own copy of the date, read once before a thread serves requests.
//!
//! hyper keeps the `date` of its answers for each thread, and reads the machine's clock anew once the second is over.
//! It panics when a thread's first reading shows a time before 1970. It ignores a later reading below the first one,
//! and goes on with the date that it has. The clock of a machine may be set to anything while its node runs, and that
//! must not end the node. So every thread makes its first reading before the node serves its first client: the node has
//! checked the clock by then.

use std::convert::Infallible;
use std::future::ready;

use axum::http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;

/// Has hyper read the clock on this thread: it does so on each connection, even on one that has ended.
pub(crate) async fn fill() {
    let empty = TokioIo::new(tokio::io::empty());
    let unasked =
        service_fn(|_: Request<Incoming>| ready(Ok::<_, Infallible>(Response::new(String::new()))));
    let ended = http1::Builder::new().header_read_timeout(None).serve_connection(empty, unasked);
    // The connection carries no request and sends no answer.
    let _ = ended.await;
}
