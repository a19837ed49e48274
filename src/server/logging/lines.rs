//! The lines of the log on their way to standard error.
//!
//! The reader of standard error may sleep: a log shipper that is stuck, a pager, a terminal after Ctrl-S. Then a write
//! waits for ever. So a separate thread writes, and every other thread puts its lines into a bounded queue, which takes
//! no lock that is held across a write. A line that finds the queue full is dropped and counted, and once the log is
//! read again, it reports how many were.
//!
//! `tracing-appender` has such a writer. At its end it waits for as long as its own bounds say, it knows nothing of the
//! last words of a panic, and its queue is bounded by lines, although a single line may have megabytes. What is needed
//! of it is less than this file.

use std::fmt::Display;
use std::io::{self, Write};
use std::iter;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{self, Receiver, Sender, SyncSender};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use prometheus_client::metrics::counter::Counter;
use tracing::Metadata;
use tracing_subscriber::fmt::MakeWriter;

/// Bytes of lines that wait at most: ten thousand lines.
const WAITING_BYTES_MAX: usize = 2 << 20;
/// What a line takes in the queue besides its bytes.
const LINE_BYTES: usize = 64;
/// Bytes of one write, unless a single line is longer. A pipe takes this many in one piece (`PIPE_BUF`), so lines of
/// several processes do not mix.
const WRITE_BYTES_MAX: usize = 4_096;
/// How long the first line waits for more. Waking the thread for each line of 10,000 changes a second took a fifth of the
/// processor time of these changes.
const GATHERING: Duration = Duration::from_millis(2);
/// How long the end of a process waits for its last lines to be written.
const LAST_WORDS_MAX: Duration = Duration::from_secs(1);
/// How long a grant waits for its line to be written.
const GRANT_WRITTEN_MAX: Duration = Duration::from_millis(100);
/// Recorders read lines of this target, and check every id against the grants that they have read.
const GRANTS: &str = "mintleaf::grants";

enum Message {
    Line(Vec<u8>),
    /// Signals when everything before it is written.
    Flush(SyncSender<()>),
}

/// The queue of lines; cheap to clone.
#[derive(Clone)]
pub(super) struct Lines {
    messages: Sender<Message>,
    writer: Thread,
    shared: Arc<Shared>,
}

struct Shared {
    waiting_bytes: AtomicUsize,
    dropped: Counter,
    /// Whether a grant has waited without success since the last line was written.
    stuck: AtomicBool,
}

impl Lines {
    /// Starts the thread that writes to `out`. It lives as long as the process. `say_dropped` logs how many lines were
    /// dropped since it did so last.
    pub(super) fn start(
        out: impl Write + Send + 'static,
        dropped: Counter,
        say_dropped: impl Fn(u64) + Send + 'static,
    ) -> io::Result<Self> {
        let (messages, queue) = mpsc::channel();
        let shared = Shared { waiting_bytes: 0.into(), dropped, stuck: false.into() };
        let shared = Arc::new(shared);
        let writes = Arc::clone(&shared);
        let write = move || write_lines(&queue, &writes, out, say_dropped);
        let writer = thread::Builder::new().name("mintleaf-log".to_owned()).spawn(write)?;
        Ok(Self { messages, writer: writer.thread().clone(), shared })
    }

    /// Puts a line into the queue, or drops it where that is full.
    fn push(&self, line: Vec<u8>) {
        let bytes = line.len() + LINE_BYTES;
        let waiting = self.shared.waiting_bytes.fetch_add(bytes, Relaxed);
        if waiting + bytes > WAITING_BYTES_MAX {
            self.shared.waiting_bytes.fetch_sub(bytes, Relaxed);
            self.shared.dropped.inc();
            return;
        }
        // The thread at the other end lives as long as the process.
        let _ = self.messages.send(Message::Line(line));
    }

    /// Puts a message of several lines into the queue.
    pub(super) fn say(&self, text: &impl Display) {
        self.push(format!("{text}\n").into_bytes());
    }

    /// Waits until everything is written that is in the queue, a second at most. Returns when the wait would have
    /// ended.
    pub(super) fn flush(&self) -> Instant {
        let deadline = Instant::now() + LAST_WORDS_MAX;
        self.flush_until(deadline);
        deadline
    }

    fn flush_until(&self, deadline: Instant) -> bool {
        let (written, is_written) = mpsc::sync_channel(1);
        let _ = self.messages.send(Message::Flush(written));
        self.writer.unpark();
        is_written.recv_timeout(deadline.saturating_duration_since(Instant::now())).is_ok()
    }

    /// Waits until the grant that was put in last is written. While nothing reads the log, the first grant waits, and
    /// no further one.
    fn flush_grant(&self) {
        if !self.shared.stuck.load(Relaxed) && !self.flush_until(Instant::now() + GRANT_WRITTEN_MAX)
        {
            self.shared.stuck.store(true, Relaxed);
        }
    }
}

fn write_lines(
    queue: &Receiver<Message>,
    shared: &Shared,
    mut out: impl Write,
    say_dropped: impl Fn(u64),
) {
    let mut said = 0;
    while let Ok(first) = queue.recv() {
        if matches!(first, Message::Line(_)) {
            // A flush ends this wait.
            thread::park_timeout(GATHERING);
        }
        let mut gathered = Gathered::default();
        for message in iter::once(first).chain(queue.try_iter()) {
            match message {
                Message::Line(line) => gathered.add(&line, &mut out, shared),
                Message::Flush(written) => {
                    gathered.write(&mut out, shared);
                    let _ = written.try_send(());
                }
            }
        }
        gathered.write(&mut out, shared);
        let dropped = shared.dropped.get();
        if dropped > said && shared.waiting_bytes.load(Relaxed) < WAITING_BYTES_MAX / 2 {
            say_dropped(dropped - said);
            said = dropped;
        }
    }
}

/// Lines that are written at once.
#[derive(Default)]
struct Gathered {
    bytes: Vec<u8>,
    lines: usize,
}

impl Gathered {
    /// Adds a line. First writes those that would be too long together with it.
    fn add(&mut self, line: &[u8], out: &mut impl Write, shared: &Shared) {
        if self.bytes.len() + line.len() > WRITE_BYTES_MAX {
            self.write(out, shared);
        }
        self.bytes.extend_from_slice(line);
        self.lines += 1;
    }

    fn write(&mut self, out: &mut impl Write, shared: &Shared) {
        // A log that was closed has no reader who could miss a line.
        let _ = out.write_all(&self.bytes);
        let counted = self.bytes.len() + self.lines * LINE_BYTES;
        shared.waiting_bytes.fetch_sub(counted, Relaxed);
        shared.stuck.store(false, Relaxed);
        self.bytes.clear();
        self.lines = 0;
    }
}

/// Takes one line from the formatter, which writes it in one piece.
pub(super) struct LineWriter<'a> {
    lines: &'a Lines,
    is_grant: bool,
}

impl Write for LineWriter<'_> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.lines.push(line.to_vec());
        if self.is_grant {
            self.lines.flush_grant();
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Lines {
    type Writer = LineWriter<'a>;

    fn make_writer(&'a self) -> LineWriter<'a> {
        LineWriter { lines: self, is_grant: false }
    }

    fn make_writer_for(&'a self, line: &Metadata<'_>) -> LineWriter<'a> {
        LineWriter { lines: self, is_grant: line.target() == GRANTS }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Passes on what is written, as soon as it is let.
    struct Reader {
        is_back: Receiver<()>,
        read: Sender<Vec<u8>>,
    }

    impl Write for Reader {
        fn write(&mut self, line: &[u8]) -> io::Result<usize> {
            // Reads everything, once the holder of the other end has gone.
            let _ = self.is_back.recv();
            let _ = self.read.send(line.to_vec());
            Ok(line.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn lines_that_come_together_are_written_together_in_pieces_that_a_pipe_takes_whole() {
        let (comes_back, is_back) = mpsc::channel();
        let (read, pieces) = mpsc::channel();
        drop(comes_back);
        let lines = Lines::start(Reader { is_back, read }, Counter::default(), |_| {}).unwrap();
        let long = vec![b'y'; 2 * WRITE_BYTES_MAX];
        (0..100).for_each(|_| lines.push(vec![b'x'; 100]));
        lines.push(long.clone());
        lines.flush();
        let pieces: Vec<Vec<u8>> = pieces.try_iter().filter(|piece| !piece.is_empty()).collect();
        let (last, short) = pieces.split_last().unwrap();
        assert_eq!(*last, long);
        assert!(short.len() < 100, "{} writes", short.len());
        assert!(short.iter().all(|piece| piece.len() <= WRITE_BYTES_MAX && piece.len() % 100 == 0));
        assert_eq!(short.concat(), [b'x'; 10_000]);
    }

    #[test]
    fn a_log_that_nobody_reads_holds_nobody_up_and_says_later_what_it_lost() {
        let (comes_back, is_back) = mpsc::channel();
        let (read, lines_read) = mpsc::channel();
        let (say, said) = mpsc::channel();
        let dropped = Counter::default();
        let say_dropped = move |count| say.send(count).unwrap();
        let lines = Lines::start(Reader { is_back, read }, dropped.clone(), say_dropped).unwrap();
        let line = [b'x'; 1_000];
        let fitting = WAITING_BYTES_MAX / (line.len() + LINE_BYTES);
        for _ in 0..fitting + 100 {
            lines.push(line.to_vec());
        }
        assert_eq!(dropped.get(), 100);
        let began = Instant::now();
        let deadline = lines.flush();
        assert!(Instant::now() >= deadline, "nothing was written");
        assert!(began.elapsed() < 2 * LAST_WORDS_MAX);
        let mut grant = LineWriter { lines: &lines, is_grant: true };
        let began = Instant::now();
        (0..1_000).for_each(|_| drop(grant.write(b"granted")));
        assert!(began.elapsed() < 10 * GRANT_WRITTEN_MAX, "only the first one waits");

        let lost = dropped.get();
        drop(comes_back);
        assert_eq!(said.recv().unwrap(), lost);
        lines.say(&"the end");
        lines.flush();
        let read: Vec<u8> = lines_read.try_iter().flatten().collect();
        let count = |text: &[u8]| read.windows(text.len()).filter(|it| *it == text).count() as u64;
        let whole = count(b"granted") + count(b"x") / line.len() as u64;
        assert_eq!(whole, fitting as u64 + 100 + 1_000 - lost);
        assert!(read.ends_with(b"the end\n"));
        assert!(said.try_recv().is_err(), "once");
    }
}
