//! Signals that ask a program to end. A program that catches them returns from `main`, so that whatever it owns is
//! dropped: processes, mounts, directories.

use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};

use crate::http::runtime;

/// SIGINT, SIGTERM and SIGHUP, caught: they no longer end this process.
#[derive(Debug)]
pub struct Interrupts(Receiver<()>);

impl Interrupts {
    /// Catches them from now on.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn catch() -> io::Result<Self> {
        let (arrived, interrupts) = channel();
        let _inside = runtime().enter();
        let mut asked = signal(SignalKind::interrupt())?;
        let mut told = signal(SignalKind::terminate())?;
        let mut hung_up = signal(SignalKind::hangup())?;
        runtime().spawn(async move {
            tokio::select! {
                _ = asked.recv() => {}
                _ = told.recv() => {}
                _ = hung_up.recv() => {}
            }
            // The end of the channel is the message: every later look sees it, too.
            drop(arrived);
        });
        Ok(Self(interrupts))
    }

    /// Whether one has arrived.
    pub fn arrived(&self) -> bool {
        self.pause(Duration::ZERO).is_err()
    }

    /// Lets time pass.
    ///
    /// # Errors
    /// When a signal has arrived or arrives before that.
    pub fn pause(&self, time: Duration) -> io::Result<()> {
        match self.0.recv_timeout(time) {
            Err(RecvTimeoutError::Timeout) => Ok(()),
            _ => Err(io::Error::new(io::ErrorKind::Interrupted, "interrupted")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{secs, signal};

    #[test]
    fn signal_ends_every_pause_and_not_the_process() {
        let interrupts = Interrupts::catch().unwrap();
        assert!(interrupts.pause(Duration::from_millis(1)).is_ok());
        assert!(!interrupts.arrived());
        assert!(signal(std::process::id(), "TERM").status().unwrap().success());
        assert!(interrupts.pause(secs(10)).is_err());
        assert!(interrupts.arrived());
    }
}
