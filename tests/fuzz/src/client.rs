//! A client that sends its input in pieces, with manners that the input decides, and the node that must cope with it.

use std::time::Duration;

use mintleaf::service::Services;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

use crate::{Service, Site};

/// A node is replaced after this many connections, so that it is as good as new.
const CONNECTIONS_MAX: u32 = 500;
/// Bytes under way in each direction.
const WINDOW: usize = 4096;
/// A pipelining client could ask without end.
const ANSWER_BYTES_MAX: u64 = 16 << 20;

/// A node that serves one connection after another.
pub struct Server {
    served: u32,
    service: Service,
    site: Site,
}

impl Default for Server {
    /// # Panics
    /// When the node does not start.
    fn default() -> Self {
        let site = Site::default();
        Self { served: 0, service: Service::start(&site), site }
    }
}

impl Server {
    /// The answers to a client on a connection that `serve` serves. The client is made from `input`.
    ///
    /// # Panics
    /// When that takes longer than `seconds_max` simulated seconds.
    pub fn converse<F>(
        &mut self,
        input: &[u8],
        seconds_max: u64,
        serve: impl FnOnce(DuplexStream, Services) -> F,
    ) -> Vec<u8>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        if self.served == CONNECTIONS_MAX {
            *self = Self::default();
        }
        self.served += 1;
        let Some(client) = Client::of(input, seconds_max) else { return Vec::new() };
        let (near, far) = duplex(WINDOW);
        let served = serve(far, self.service.services.clone());
        self.site.run(seconds_max, async move {
            let (answers, ()) = tokio::join!(client.converse(near), served);
            answers
        })
    }
}

struct Client {
    chunk: usize,
    hangs_up: bool,
    /// The simulated second when it begins to read.
    reads_at: u64,
    sent: Vec<u8>,
}

impl Client {
    /// The first two bytes decide how the client behaves; it sends the others.
    fn of(input: &[u8], seconds_max: u64) -> Option<Self> {
        let (&[chunk, manners], sent) = input.split_first_chunk()?;
        Some(Self {
            chunk: usize::from(chunk) + 1,
            // Bad manners take many simulated seconds, so they are rare.
            hangs_up: manners & 7 != 7,
            reads_at: if manners & 0x38 == 0x38 { seconds_max / 2 } else { 0 },
            sent: sent.to_owned(),
        })
    }

    async fn converse(self, stream: DuplexStream) -> Vec<u8> {
        let (read, mut write) = tokio::io::split(stream);
        let mut answers = Vec::new();
        let send = async {
            for chunk in self.sent.chunks(self.chunk) {
                if write.write_all(chunk).await.is_err() {
                    return;
                }
                tokio::task::yield_now().await;
            }
            if self.hangs_up {
                let _ = write.shutdown().await;
            }
        };
        let receive = async {
            tokio::time::sleep(Duration::from_secs(self.reads_at)).await;
            let _ = read.take(ANSWER_BYTES_MAX).read_to_end(&mut answers).await;
        };
        tokio::join!(send, receive);
        answers
    }
}
