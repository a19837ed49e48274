//! How processes on a machine end, and pause: a crash, a clean stop, and a drain before it.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use mintleaf::server::hand_over;
use tokio::time::{sleep, timeout};

use super::Machine;
use crate::net::lost_host;

/// Longest time that a clean stop takes of a machine that shall not start again.
const STOP_MAX: Duration = Duration::from_secs(20);

impl Machine {
    /// Ends it for good. It must be down.
    pub(crate) fn retire(&self) {
        self.retired.store(true, Ordering::Relaxed);
        // A restart that was under way may have brought it up.
        self.end();
    }

    /// Ends the process at once. [`Disk::crash`] decides what is left of unsynced operations.
    pub(super) fn end(&self) {
        let Some(running) = self.running.lock().take() else { return };
        running.alive.store(false, Ordering::Relaxed);
        running.ended.send_replace(true);
        self.site.net.leave(self.host());
        running.process.kill();
        running.supervisor.abort();
    }

    /// Stops the process cleanly, as a signal does. It serves no client from now on.
    pub(crate) fn stop(&self) -> bool {
        let mut running = self.running.lock();
        let Some(serving) = running.as_mut().filter(|running| running.serving.is_some()) else {
            return false;
        };
        serving.serving = None;
        serving.ended.send_replace(true);
        serving.stop.take().is_some_and(|stop| stop.send(()).is_ok())
    }

    /// Pauses the process here, if one runs, while time goes on. Returns whether it did.
    pub(crate) fn pause(&self, time: Duration) -> bool {
        let process = self.running.lock().as_ref().map(|running| Arc::clone(&running.process));
        let Some(process) = process.filter(|_| !self.disk.is_failing()) else { return false };
        process.pause();
        tokio::spawn(async move {
            sleep(time).await;
            process.resume();
        });
        true
    }

    /// Ends a pause.
    pub(crate) fn resume(&self) {
        if let Some(running) = &*self.running.lock() {
            running.process.resume();
        }
    }

    /// Crashes the machine, which stays down until it is started. Returns how many operations were lost.
    pub(crate) fn crash(&self) -> usize {
        self.end();
        self.disk.crash()
    }

    /// Ends the process as a request to stop does: for `time` it is not ready and goes on serving, and hands
    /// leadership over whenever it leads; then it stops. Returns whether a process serves here.
    pub(crate) fn drain(self: &Arc<Self>, time: Duration) -> bool {
        let Some(serving) = self.serving() else { return false };
        serving.services.cluster.begin_draining();
        let (machine, services) = (Arc::clone(self), serving.services.clone());
        let handing_over = serving.process.spawn(async move { hand_over(&services).await });
        let mut ended = serving.ended;
        tokio::spawn(async move {
            let ended = timeout(time, ended.wait_for(|ended| *ended)).await.is_ok();
            handing_over.abort();
            if !ended {
                machine.stop();
            }
        });
        true
    }

    /// Ends it for good, with a clean stop of its process where that serves.
    pub(crate) async fn stop_for_good(&self) {
        self.retired.store(true, Ordering::Relaxed);
        if self.stop() {
            let stopped = async {
                while self.is_up() {
                    sleep(Duration::from_millis(20)).await;
                }
            };
            // What does not stop is killed.
            drop(timeout(STOP_MAX, stopped).await);
        }
        self.crash();
    }

    /// Starts the node of a machine that was ended for good once more, by mistake, where nobody calls it.
    pub(crate) fn start_by_mistake(self: &Arc<Self>) {
        self.host.store(lost_host(self.node_id), Ordering::Relaxed);
        self.retired.store(false, Ordering::Relaxed);
        self.start();
    }
}
