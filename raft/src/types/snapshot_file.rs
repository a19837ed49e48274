//! The snapshot file that openraft reads and writes.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::pin::Pin;
use std::task::{Context, Poll};

use mintleaf_storage::SnapshotTemp;
use tokio::io::{AsyncRead, AsyncSeek, AsyncWrite, ReadBuf};

/// A snapshot file that is being sent or received.
///
/// Reads and writes block the thread: a chunk is at most 1 MiB of page cache, and a detour through a thread pool per
/// chunk would cost more than it saves.
pub(crate) enum SnapshotFile {
    Sending(File),
    Receiving(SnapshotTemp),
}

/// The operations that both kinds of file support.
trait ReadWriteSeek: Read + Write + Seek {}

impl<T: Read + Write + Seek> ReadWriteSeek for T {}

impl SnapshotFile {
    fn file(&mut self) -> &mut dyn ReadWriteSeek {
        match self {
            Self::Sending(file) => file,
            Self::Receiving(temp) => temp,
        }
    }
}

impl AsyncRead for SnapshotFile {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = self.file().read(buf.initialize_unfilled());
        Poll::Ready(read.map(|len| buf.advance(len)))
    }
}

impl AsyncWrite for SnapshotFile {
    fn poll_write(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Poll::Ready(self.file().write(bytes))
    }

    fn poll_flush(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.file().flush())
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_flush(cx)
    }
}

impl AsyncSeek for SnapshotFile {
    fn start_seek(mut self: Pin<&mut Self>, position: SeekFrom) -> io::Result<()> {
        self.file().seek(position).map(|_| ())
    }

    fn poll_complete(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<u64>> {
        Poll::Ready(self.file().stream_position())
    }
}
