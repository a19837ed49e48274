//! Writes with one system call what one turn of a connection produced.
//!
//! A pipelining client sends many requests at once; a separate write for each answer costs eight times the CPU. So
//! hyper writes into a [`WriteBuffer`], and [`WriteBuffer::drive`] sends its content each time hyper has done what it
//! could. (Hyper's own `pipeline_flush` holds answers back for as long as unread input is buffered: behind a slow
//! request, and for ever when the connection ends there, whether by an error, by `connection: close` or by a shutdown.)

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::connection::answer_budget::OriginBudget;
use crate::connection::buffers::Leftover;
use crate::connection::outbox::Outbox;
use crate::connection::watchdog::Progress;
use crate::limits::UNSENT_BYTES_MAX;

/// A buffer larger than this is given back once it is empty: most connections are idle.
const KEPT_BYTES_MAX: usize = 4 * 1024;

/// The bytes that a connection has written and its socket has not taken yet. Above
/// [`UNSENT_BYTES_MAX`] hyper is held up, and so is the client.
#[derive(Clone, Debug)]
pub(super) struct WriteBuffer {
    unsent: Arc<Mutex<Unsent>>,
    progress: Arc<Progress>,
    answers: OriginBudget,
}

#[derive(Debug, Default)]
struct Unsent {
    outbox: Outbox,
    /// Whether a write was refused since the last look, because the buffer was full. Nothing but
    /// `drive` wakes its writer.
    refused: bool,
}

impl WriteBuffer {
    /// An empty buffer of a connection.
    pub(super) fn new(progress: Arc<Progress>, answers: OriginBudget) -> Self {
        Self { unsent: Arc::default(), progress, answers }
    }

    /// How far the connection has come.
    pub(super) fn progress(&self) -> &Arc<Progress> {
        &self.progress
    }

    /// Whether the client has yet to take some of the written bytes.
    pub(super) fn has_unsent(&self) -> bool {
        !self.unsent.lock().outbox.bytes.is_empty()
    }

    /// The transport for hyper: it reads the leftover input, then from `read`; it writes into this
    /// buffer, which begins with the leftover answers.
    pub(super) fn attach<R>(&self, read: R, leftover: Leftover) -> AttachedTransport<R> {
        self.unsent.lock().outbox.bytes = leftover.unsent;
        AttachedTransport { read, unread: leftover.unread.into(), write_buffer: self.clone() }
    }

    /// Changes what is not sent yet.
    pub(super) fn change_unsent(&self, change: impl FnOnce(&mut Vec<u8>)) {
        change(self.unsent.lock().outbox.unsent());
    }

    /// Runs a connection on an attached transport until it ends, returning its outcome, or until the socket breaks.
    pub(super) async fn drive<F, W>(
        &self,
        mut connection: Pin<&mut F>,
        socket: &mut W,
    ) -> Option<F::Output>
    where
        F: Future,
        W: AsyncWrite + Unpin,
    {
        std::future::poll_fn(|context| {
            loop {
                if let Poll::Ready(ended) = connection.as_mut().poll(context) {
                    return Poll::Ready(Some(ended));
                }
                match self.poll_send(context, socket) {
                    Poll::Ready(Ok(())) if self.had_refused() => {}
                    Poll::Ready(Ok(())) | Poll::Pending => return Poll::Pending,
                    Poll::Ready(Err(_)) => return Poll::Ready(None),
                }
            }
        })
        .await
    }

    /// Sends everything that is left.
    ///
    /// # Errors
    /// The errors of the socket.
    pub(super) async fn send<W: AsyncWrite + Unpin>(&self, socket: &mut W) -> io::Result<()> {
        std::future::poll_fn(|context| self.poll_send(context, socket)).await
    }

    /// Ready when nothing is left; pending when the socket takes no more for now.
    fn poll_send<W: AsyncWrite + Unpin>(
        &self,
        context: &mut Context<'_>,
        socket: &mut W,
    ) -> Poll<io::Result<()>> {
        let outbox = &mut self.unsent.lock().outbox;
        ready!(outbox.poll_send(context, socket, &self.progress, &self.answers))?;
        outbox.bytes.shrink_to(KEPT_BYTES_MAX);
        Poll::Ready(Ok(()))
    }

    fn had_refused(&self) -> bool {
        std::mem::take(&mut self.unsent.lock().refused)
    }
}

/// A transport that writes into a [`WriteBuffer`].
#[derive(Debug)]
pub(super) struct AttachedTransport<R> {
    read: R,
    /// Input that came in before, and was counted then.
    unread: Bytes,
    write_buffer: WriteBuffer,
}

impl<R: AsyncRead + Unpin> AsyncRead for AttachedTransport<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.unread.is_empty() {
            let length = self.unread.len().min(buffer.remaining());
            buffer.put_slice(&self.unread.split_to(length));
            return Poll::Ready(Ok(()));
        }
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.read).poll_read(context, buffer);
        self.write_buffer.progress.received(buffer.filled().len() - before);
        polled
    }
}

impl<R: Unpin> AsyncWrite for AttachedTransport<R> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(context, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut unsent = self.write_buffer.unsent.lock();
        let (mut wanted, mut taken) = (0, 0);
        for slice in slices {
            let room = UNSENT_BYTES_MAX.saturating_sub(unsent.outbox.bytes.len());
            let fits = slice.len().min(room);
            unsent.outbox.bytes.extend_from_slice(&slice[..fits]);
            (wanted, taken) = (wanted + slice.len(), taken + fits);
        }
        if taken == 0 && wanted > 0 {
            unsent.refused = true;
            return Poll::Pending;
        }
        Poll::Ready(Ok(taken))
    }

    /// Has hyper keep a long answer as it was given, with what it takes of the budget, rather than copy it.
    fn is_write_vectored(&self) -> bool {
        true
    }

    /// Sending is left to [`WriteBuffer::drive`].
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    /// Closing is left to the owner of the socket.
    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connection::answer_budget::AnswerBudget;
    use std::convert::Infallible;
    use std::pin::pin;

    use axum::http::{Request, Response};
    use hyper::body::Incoming;
    use hyper::server::conn::http1;
    use hyper::service::service_fn;
    use hyper_util::rt::TokioIo;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

    const WINDOW: usize = 16 * 1024;

    /// Answers `/slow` never and `/LENGTH` with that many bytes.
    async fn answer(request: Request<Incoming>) -> Result<Response<String>, Infallible> {
        let path = request.uri().path();
        if path == "/slow" {
            std::future::pending::<()>().await;
        }
        Ok(Response::new("x".repeat(path[1..].parse().unwrap_or(0))))
    }

    fn connect() -> DuplexStream {
        let (client, server) = tokio::io::duplex(WINDOW);
        tokio::spawn(async move {
            let (read, mut write) = tokio::io::split(server);
            let write_buffer =
                WriteBuffer::new(Arc::default(), AnswerBudget::new(Arc::default()).of(None));
            let transport = TokioIo::new(write_buffer.attach(read, Leftover::default()));
            let mut connection =
                pin!(http1::Builder::new().serve_connection(transport, service_fn(answer)));
            write_buffer.drive(connection.as_mut(), &mut write).await;
            write_buffer.send(&mut write).await.unwrap();
            write.shutdown().await.unwrap();
        });
        client
    }

    async fn read_to_end(mut client: DuplexStream) -> String {
        let mut answers = String::new();
        client.read_to_string(&mut answers).await.unwrap();
        answers
    }

    #[tokio::test]
    async fn answers_survive_the_error_that_follows_them() {
        let mut client = connect();
        client
            .write_all(b"GET /1 HTTP/1.1\r\n\r\nGET /2 HTTP/1.1\r\n\r\nrubbish\r\n\r\n")
            .await
            .unwrap();
        let answers = read_to_end(client).await;
        assert_eq!(answers.matches("200 OK").count(), 2, "{answers}");
        assert_eq!(answers.matches("400 Bad Request").count(), 1, "{answers}");
    }

    #[tokio::test]
    async fn answers_survive_unread_input_behind_a_closing_request() {
        let mut client = connect();
        client.write_all(b"GET /1 HTTP/1.1\r\nconnection: close\r\n\r\nGET").await.unwrap();
        assert!(read_to_end(client).await.contains("200 OK"));
    }

    #[tokio::test]
    async fn answers_do_not_wait_for_a_slow_request_behind_them() {
        let mut client = connect();
        client.write_all(b"GET /1 HTTP/1.1\r\n\r\nGET /slow HTTP/1.1\r\n\r\nGET").await.unwrap();
        let mut head = [0; 15];
        client.read_exact(&mut head).await.unwrap();
        assert_eq!(&head, b"HTTP/1.1 200 OK");
    }

    #[tokio::test]
    async fn long_answers_pass_through_a_full_write_buffer() {
        let mut client = connect();
        let length = 5 * UNSENT_BYTES_MAX + 7;
        let request = format!("GET /{length} HTTP/1.1\r\nconnection: close\r\n\r\n");
        client.write_all(request.as_bytes()).await.unwrap();
        let answer = read_to_end(client).await;
        let (_, body) = answer.split_once("\r\n\r\n").unwrap();
        assert_eq!(body.len(), length);
    }

    #[tokio::test]
    async fn pipelined_answers_come_in_order() {
        const REQUESTS: usize = 500;
        let (mut read, mut write) = tokio::io::split(connect());
        let mut requests = (1..REQUESTS).map(request).collect::<String>();
        requests.push_str(&format!("GET /{REQUESTS} HTTP/1.1\r\nconnection: close\r\n\r\n"));
        let mut answers = String::new();
        let (sent, received) =
            tokio::join!(write.write_all(requests.as_bytes()), read.read_to_string(&mut answers));
        sent.unwrap();
        received.unwrap();
        let lengths = answers.lines().filter_map(|line| line.strip_prefix("content-length: "));
        let expected = (1..=REQUESTS).map(|length| length.to_string());
        assert_eq!(lengths.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
    }

    fn request(length: usize) -> String {
        format!("GET /{length} HTTP/1.1\r\n\r\n")
    }
}
