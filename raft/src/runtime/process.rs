//! Simulated processes: many nodes run in one thread, and each of them can be paused and killed.
//!
//! Tests use them to drive whole nodes through simulated time. A [`Process`] owns the tasks that are started in it,
//! and the tasks that those start in turn. Its random numbers come from a seed, and its disk is as slow as the test
//! demands.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::task::{AbortHandle, JoinHandle};

tokio::task_local! {
    static PROCESS: Arc<Process>;
}

/// Writing or reading a snapshot waits for the disk this many times: it takes many times as long as a sync, and a lot
/// may happen in that time.
const SNAPSHOT_ACCESSES: usize = 16;

/// One simulated process of a node, from its start to its end.
pub struct Process {
    random: Mutex<u64>,
    tasks: Mutex<Vec<AbortHandle>>,
    disk_latency: Box<dyn Fn() -> Duration + Send + Sync>,
    /// The tasks to wake when the process is resumed; `None` while it runs.
    paused: Mutex<Option<Vec<Waker>>>,
}

impl Process {
    /// Creates a process that draws its random numbers from `seed`, and waits for `disk_latency` before
    /// each sync and several times for each snapshot.
    #[must_use]
    pub fn new(seed: u64, disk_latency: impl Fn() -> Duration + Send + Sync + 'static) -> Self {
        let disk_latency = Box::new(disk_latency);
        let (tasks, paused) = Default::default();
        Self { random: Mutex::new(seed), tasks, disk_latency, paused }
    }

    /// Starts a task of this process.
    pub fn spawn<F>(self: &Arc<Self>, future: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let task = tokio::spawn(Arc::clone(self).own(future));
        let mut tasks = self.tasks.lock();
        if tasks.len() == tasks.capacity() {
            tasks.retain(|task| !task.is_finished());
        }
        tasks.push(task.abort_handle());
        task
    }

    /// Makes a future part of this process: the future stands still while the process is paused.
    pub(crate) fn own<F: Future>(self: Arc<Self>, future: F) -> impl Future<Output = F::Output> {
        let process = Arc::clone(&self);
        PROCESS.scope(self, async move { process.run(future).await })
    }

    /// Runs a future to its end, except while the process is paused.
    pub async fn run<F: Future>(&self, future: F) -> F::Output {
        let mut future = pin!(future);
        poll_fn(|cx| {
            if let Some(waiting) = &mut *self.paused.lock() {
                waiting.push(cx.waker().clone());
                return Poll::Pending;
            }
            future.as_mut().poll(cx)
        })
        .await
    }

    /// Stops every task where it stands until [`resume`](Self::resume) is called. Time goes on.
    pub fn pause(&self) {
        self.paused.lock().get_or_insert_default();
    }

    /// Lets every task go on.
    pub fn resume(&self) {
        let waiting = self.paused.lock().take();
        waiting.into_iter().flatten().for_each(Waker::wake);
    }

    /// Ends every task of this process where it stands.
    pub fn kill(&self) {
        for task in self.tasks.lock().drain(..) {
            task.abort();
        }
    }

    pub(crate) fn current() -> Option<Arc<Self>> {
        PROCESS.try_with(Arc::clone).ok()
    }

    pub(crate) async fn wait_for_disk(&self) {
        tokio::time::sleep((self.disk_latency)()).await;
    }

    async fn wait_for_snapshot(&self) {
        for _ in 0..SNAPSHOT_ACCESSES {
            self.wait_for_disk().await;
        }
    }
}

/// Starts a task as a part of the current process, if there is one.
pub(crate) fn spawn<F>(future: F) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    match Process::current() {
        Some(process) => process.spawn(future),
        None => tokio::spawn(future),
    }
}

/// Waits for as long as blocking work takes on a simulated disk, and returns `true`. Outside of a simulated process
/// it returns `false` at once.
pub(crate) async fn work_is_simulated() -> bool {
    let Some(process) = Process::current() else { return false };
    process.wait_for_snapshot().await;
    true
}

/// Random numbers of the current process.
pub(crate) struct Random;

impl rand::RngCore for Random {
    fn next_u32(&mut self) -> u32 {
        (self.next_u64() >> 32) as u32
    }

    // SplitMix64.
    fn next_u64(&mut self) -> u64 {
        let Some(process) = Process::current() else { return rand::thread_rng().next_u64() };
        let mut state = process.random.lock();
        *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn fill_bytes(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            let random = self.next_u64().to_le_bytes();
            chunk.copy_from_slice(&random[..chunk.len()]);
        }
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), rand::Error> {
        self.fill_bytes(bytes);
        Ok(())
    }
}
