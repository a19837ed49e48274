//! openraft's runtime, which is tokio. With the feature `simulation`, tasks, random numbers and blocking work belong
//! to the simulated process that started them.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use openraft::{AsyncRuntime, OptionalSend, TokioRuntime};
use rand::RngCore;
use tokio::runtime::Handle;
use tokio::task::{JoinError, JoinHandle};
use tokio::time::{Sleep, Timeout};

#[cfg(feature = "simulation")]
use super::process::{Random, spawn};

/// A future behind a trait object.
pub type Pending<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// openraft waits this long for the answer to a message. Whether a message counts as lost before that depends on the
/// link and on the disk at its other end, which openraft does not know: `client/network.rs` decides.
pub(crate) const MESSAGE_MAX: Duration = Duration::from_secs(60);
/// Added to the time between two ticks of openraft.
const TICK_DELAY: Duration = Duration::from_secs(1);

/// The type that openraft uses to spawn tasks, sleep and draw random numbers.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Runtime;

#[cfg(not(feature = "simulation"))]
type Random = <TokioRuntime as AsyncRuntime>::ThreadLocalRng;

/// Spawns a task that ends with its process.
#[cfg(not(feature = "simulation"))]
fn spawn<T>(future: T) -> JoinHandle<T::Output>
where
    T: Future + Send + 'static,
    T::Output: Send + 'static,
{
    tokio::spawn(future)
}

/// Starts tasks of the process that created it, on that process's runtime. Callers may run elsewhere.
pub(crate) struct Spawner {
    runtime: Handle,
    #[cfg(feature = "simulation")]
    process: Option<std::sync::Arc<super::process::Process>>,
}

impl Spawner {
    pub(crate) fn current() -> Self {
        Self {
            runtime: Handle::current(),
            #[cfg(feature = "simulation")]
            process: super::process::Process::current(),
        }
    }

    pub(crate) fn spawn<T>(&self, future: T) -> JoinHandle<T::Output>
    where
        T: Future + Send + 'static,
        T::Output: Send + 'static,
    {
        #[cfg(feature = "simulation")]
        if let Some(process) = &self.process {
            return process.spawn(future);
        }
        self.runtime.spawn(future)
    }
}

/// Makes a task part of the process that creates it: a simulated process is paused and killed together with all of
/// its tasks.
pub(crate) fn in_process<T: Send + 'static>(
    task: impl Future<Output = T> + Send + 'static,
) -> Pending<'static, T> {
    #[cfg(feature = "simulation")]
    if let Some(process) = super::process::Process::current() {
        return Box::pin(process.own(task));
    }
    Box::pin(task)
}

/// Runs a future to its end, even if its caller is dropped first. A server drops the answer to a peer that hangs up,
/// and the change that was being made for it must not stay half done.
pub(crate) async fn to_completion<T: Send + 'static>(
    future: impl Future<Output = T> + Send + 'static,
) -> T {
    match spawn(future).await {
        Ok(output) => output,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The runtime ends, and this task with it.
            Err(_) => std::future::pending().await,
        },
    }
}

/// Random numbers from the operating system's seed.
#[cfg(not(feature = "simulation"))]
pub(crate) fn random() -> Random {
    TokioRuntime::thread_rng()
}

/// Random numbers of the current simulated process.
#[cfg(feature = "simulation")]
pub(crate) fn random() -> Random {
    Random
}

/// A random number of 128 bits.
pub(crate) fn random_u128() -> u128 {
    let mut random = random();
    u128::from(random.next_u64()) << 64 | u128::from(random.next_u64())
}

/// A random duration below `max`.
pub(crate) fn random_below(max: Duration) -> Duration {
    max.mul_f64(random_u128() as f64 / u128::MAX as f64)
}

/// Runs work that blocks its thread, such as writing a snapshot, outside of the threads of the tasks.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, JoinError> {
    #[cfg(feature = "simulation")]
    if super::process::work_is_simulated().await {
        return Ok(work());
    }
    tokio::task::spawn_blocking(work).await
}

impl AsyncRuntime for Runtime {
    type JoinError = JoinError;
    type JoinHandle<T: OptionalSend + 'static> = JoinHandle<T>;
    type Sleep = Sleep;
    type Instant = <TokioRuntime as AsyncRuntime>::Instant;
    type TimeoutError = <TokioRuntime as AsyncRuntime>::TimeoutError;
    type Timeout<R, T: Future<Output = R> + OptionalSend> = Timeout<T>;
    type ThreadLocalRng = Random;
    type OneshotSender<T: OptionalSend> = <TokioRuntime as AsyncRuntime>::OneshotSender<T>;
    type OneshotReceiver<T: OptionalSend> = <TokioRuntime as AsyncRuntime>::OneshotReceiver<T>;
    type OneshotReceiverError = <TokioRuntime as AsyncRuntime>::OneshotReceiverError;

    fn spawn<T>(future: T) -> Self::JoinHandle<T::Output>
    where
        T: Future + OptionalSend + 'static,
        T::Output: OptionalSend + 'static,
    {
        spawn(future)
    }

    fn sleep(duration: Duration) -> Self::Sleep {
        TokioRuntime::sleep(duration)
    }

    fn sleep_until(deadline: Self::Instant) -> Self::Sleep {
        // openraft waits like this only between its ticks. With its elections and heartbeats switched off, all that a
        // tick still does is to end the leadership of a leader that was removed from the membership.
        TokioRuntime::sleep_until(deadline + TICK_DELAY)
    }

    fn timeout<R, F: Future<Output = R> + OptionalSend>(
        duration: Duration,
        future: F,
    ) -> Self::Timeout<R, F> {
        // Nearly everything that openraft waits for with a timeout is a message.
        TokioRuntime::timeout(duration.max(MESSAGE_MAX), future)
    }

    fn timeout_at<R, F: Future<Output = R> + OptionalSend>(
        deadline: Self::Instant,
        future: F,
    ) -> Self::Timeout<R, F> {
        TokioRuntime::timeout_at(deadline, future)
    }

    fn is_panic(error: &Self::JoinError) -> bool {
        error.is_panic()
    }

    fn thread_rng() -> Random {
        random()
    }

    fn oneshot<T: OptionalSend>() -> (Self::OneshotSender<T>, Self::OneshotReceiver<T>) {
        TokioRuntime::oneshot()
    }
}
