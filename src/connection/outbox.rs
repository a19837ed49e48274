//! Answers on their way to a client.

use std::io;
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::AsyncWrite;

use super::answer_budget::{HeldBytes, OriginBudget};
use super::watchdog::Progress;

/// The answers of a connection that its socket has not taken yet.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    pub(crate) bytes: Vec<u8>,
    /// How many of the bytes the socket has taken.
    sent: usize,
    /// What the bytes take of the node's budget, once the socket has not taken all of them.
    held: Option<HeldBytes>,
}

impl Outbox {
    /// What is not sent yet.
    pub(crate) fn unsent(&mut self) -> &mut Vec<u8> {
        self.bytes.drain(..mem::take(&mut self.sent));
        &mut self.bytes
    }

    /// Sends the answers. Ready when nothing is left; pending when the socket takes no more for now. What it does not
    /// take at once is held against the budget.
    ///
    /// # Errors
    /// The errors of the socket; and that the budget has no room.
    pub(crate) fn poll_send<W: AsyncWrite + Unpin>(
        &mut self,
        context: &mut Context<'_>,
        socket: &mut W,
        progress: &Progress,
        answers: &OriginBudget,
    ) -> Poll<io::Result<()>> {
        let taken = self.poll_hand_over(context, socket, progress);
        if taken.is_pending() && self.held.is_none() {
            self.held = answers.hold_buffer(self.bytes.capacity())?;
        }
        ready!(taken)?;
        self.sent = 0;
        self.bytes.clear();
        self.held = None;
        Poll::Ready(Ok(()))
    }

    fn poll_hand_over<W: AsyncWrite + Unpin>(
        &mut self,
        context: &mut Context<'_>,
        socket: &mut W,
        progress: &Progress,
    ) -> Poll<io::Result<()>> {
        while self.sent < self.bytes.len() {
            let rest = &self.bytes[self.sent..];
            match ready!(Pin::new(&mut *socket).poll_write(context, rest))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                taken => {
                    self.sent += taken;
                    progress.sent(taken);
                }
            }
        }
        // A layer of TLS may hold what it took until the socket takes it.
        if self.sent == 0 { Poll::Ready(Ok(())) } else { Pin::new(socket).poll_flush(context) }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::sync::Arc;

    use tokio::io::AsyncReadExt;

    use super::*;
    use crate::connection::answer_budget::AnswerBudget;

    #[tokio::test]
    async fn bytes_that_a_layer_below_has_taken_are_flushed() {
        let (mut client, server) = tokio::io::duplex(1024);
        let mut keeps_bytes = tokio::io::BufWriter::new(server);
        let answers = AnswerBudget::new(Arc::default()).of(None);
        let mut outbox = Outbox { bytes: b"answer".to_vec(), ..Outbox::default() };
        let progress = Progress::default();
        poll_fn(|context| outbox.poll_send(context, &mut keeps_bytes, &progress, &answers))
            .await
            .unwrap();
        let mut heard = [0; 6];
        let within = std::time::Duration::from_secs(5);
        let read = tokio::time::timeout(within, client.read_exact(&mut heard)).await;
        read.expect("the bytes are not kept").unwrap();
        assert!(&heard == b"answer" && outbox.unsent().is_empty());
    }
}
