//! How processes on a machine end and pause: a crash, a clean stop, and a drain before it.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use mintleaf::server::hand_over;
use tokio::time::{sleep, timeout};

use super::Machine;
use crate::net::lost_host;

/// The longest time for a clean stop of a machine that will not start again.
const STOP_MAX: Duration = Duration::from_secs(20);

impl Machine {
    /// Shuts it down for good. It must be down already.
    pub(crate) fn retire(&self) {
        self.retired.store(true, Ordering::Relaxed);
        // A restart that was under way may have started it.
        self.end();
    }

    /// Ends the process at once. [`Disk::crash`] decides which unsynced operations survive.
    pub(super) fn end(&self) {
        let Some(running) = self.running.lock().take() else { return };
        running.alive.store(false, Ordering::Relaxed);
        running.ended.send_replace(true);
        self.site.net.leave(self.host());
        running.process.kill();
        running.supervisor.abort();
    }

    /// Stops the process cleanly, as a signal does. From now on it serves no client.
    pub(crate) fn stop(&self) -> bool {
        let mut running = self.running.lock();
        let Some(serving) = running.as_mut().filter(|running| running.serving.is_some()) else {
            return false;
        };
        serving.serving = None;
        serving.ended.send_replace(true);
        serving.stop.take().is_some_and(|stop| stop.send(()).is_ok())
    }

    /// Pauses the process here, if one is running, while time goes on. Returns whether there was one.
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

    /// Ends the process as a stop request does. For `time` it is not ready but keeps serving, and hands
    /// leadership over whenever it leads. Then it stops. Returns whether a process serves here.
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

    /// Shuts it down for good, with a clean stop of its process if that works.
    pub(crate) async fn stop_for_good(&self) {
        self.retired.store(true, Ordering::Relaxed);
        if self.stop() {
            let stopped = async {
                while self.is_up() {
                    sleep(Duration::from_millis(20)).await;
                }
            };
            // A process that does not stop in time is killed.
            drop(timeout(STOP_MAX, stopped).await);
        }
        self.crash();
    }

    /// Starts the node of a retired machine once more, by mistake, at a host that no message reaches.
    pub(crate) fn start_by_mistake(self: &Arc<Self>) {
        self.host.store(lost_host(self.node_id), Ordering::Relaxed);
        self.retired.store(false, Ordering::Relaxed);
        self.start();
    }
}
