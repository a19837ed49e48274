//! Whole connections of clients, byte by byte, to a node that serves: the real loop, router and
//! service, in simulated time.
#![no_main]

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use mintleaf::http::fuzzing::Connections;
use mintleaf_fuzz::{Service, Site};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

/// A node is as good as new after so many connections.
const CONNECTIONS_MAX: u32 = 500;
/// Bytes on their way in each direction.
const WINDOW: usize = 4096;
/// More than the slowest client can take: one that changes the membership in each of its requests,
/// then keeps the connection open and says nothing more.
const SECONDS_MAX: u64 = 300;
/// A pipelining client could ask for ever.
const ANSWER_BYTES_MAX: u64 = 16 << 20;

struct Server {
    connections: Arc<Connections>,
    served: u32,
    _service: Service,
    site: Site,
}

impl Default for Server {
    fn default() -> Self {
        let site = Site::default();
        let service = Service::start(&site);
        let connections = Arc::new(Connections::new(Arc::clone(&service.service)));
        Self { connections, served: 0, _service: service, site }
    }
}

thread_local! {
    static SERVER: RefCell<Option<Server>> = const { RefCell::new(None) };
}

fuzz_target!(|bytes: &[u8]| {
    let Some((&[chunk, manners], sent)) = bytes.split_first_chunk() else { return };
    SERVER.with_borrow_mut(|slot| {
        if slot.as_ref().is_some_and(|server| server.served == CONNECTIONS_MAX) {
            *slot = None;
        }
        let server = slot.get_or_insert_default();
        server.served += 1;
        let connections = Arc::clone(&server.connections);
        let client = Client {
            chunk: usize::from(chunk) + 1,
            // Bad manners take many simulated seconds; they need not be had by every second client.
            hangs_up: manners & 7 != 7,
            reads: manners & 0x38 != 0x38,
            sent: sent.to_owned(),
        };
        let answers = server.site.run(SECONDS_MAX, async move {
            let (near, far) = duplex(WINDOW);
            let (answers, ()) = tokio::join!(client.converse(near), connections.serve(far));
            answers
        });
        check(&answers);
    });
});

struct Client {
    chunk: usize,
    hangs_up: bool,
    reads: bool,
    sent: Vec<u8>,
}

impl Client {
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
            if !self.reads {
                // Longer than any server waits for its answers to be read.
                tokio::time::sleep(Duration::from_secs(SECONDS_MAX / 2)).await;
            }
            let _ = read.take(ANSWER_BYTES_MAX).read_to_end(&mut answers).await;
        };
        tokio::join!(send, receive);
        answers
    }
}

/// Only Leaf's paths answer 500, in Leaf's words.
fn check(answers: &[u8]) {
    let text = String::from_utf8_lossy(answers);
    assert!(text.is_empty() || text.starts_with("HTTP/1."), "{text}");
    let failures = text.matches("HTTP/1.1 500").count();
    assert!(failures <= text.matches("status=EXCEPTION").count() || failures == 0, "{text}");
}
