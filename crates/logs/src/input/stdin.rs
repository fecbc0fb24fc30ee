//! Reads standard input, and ends it on a stop even if a pipe is silent.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

/// The longest wait for input between two checks of `stop`. It is short, because a signal just before the wait does not interrupt the wait.
const LOOK: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 250_000_000,
};

/// Standard input, which ends once `stop` is true.
pub(super) struct Stdin {
    file: File,
    stop: Arc<AtomicBool>,
}

impl Stdin {
    pub(super) fn new(stop: Arc<AtomicBool>) -> io::Result<Self> {
        let file = io::stdin().as_fd().try_clone_to_owned()?.into();
        Ok(Self { file, stop })
    }
}

impl Read for Stdin {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while !self.stop.load(Ordering::Relaxed) {
            let mut inputs = [PollFd::new(&self.file, PollFlags::IN)];
            match poll(&mut inputs, Some(&LOOK)) {
                Ok(0) | Err(Errno::INTR) => {}
                Ok(_) => return self.file.read(buffer),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(0)
    }
}
