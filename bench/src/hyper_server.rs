//! The reference for latency: hyper with no work behind it, on one thread.

use std::convert::Infallible;
use std::net::SocketAddr;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};

use crate::Result;

/// The body of every answer, as long as an id.
const BODY: &[u8] = b"123456789";

/// Answers requests until the process ends.
///
/// # Errors
/// When the server cannot listen at the address.
pub(crate) fn serve(listen: SocketAddr) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind(listen).await?;
        loop {
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            tokio::spawn(converse(stream));
        }
    })
}

async fn converse(stream: TcpStream) {
    let answer = service_fn(async |_: Request<Incoming>| {
        let mut response = Response::new(Full::new(Bytes::from_static(BODY)));
        let kind = HeaderValue::from_static("text/plain;charset=UTF-8");
        response.headers_mut().insert(CONTENT_TYPE, kind);
        Ok::<_, Infallible>(response)
    });
    let mut server = http1::Builder::new();
    server.pipeline_flush(true);
    // An error means that the client's connection has ended.
    let _ = server.serve_connection(TokioIo::new(stream), answer).await;
}
