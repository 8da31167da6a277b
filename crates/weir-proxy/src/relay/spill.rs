//! The part of a body that does not fit into memory: an unlinked temporary file.
//!
//! Written by threads of their own, in large pieces, and read again as files are. All files together have a maximum. Nothing of it can be
//! found on the disk by its name, and it is gone with the exchange.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use rustix::fs::{Mode, OFlags};

use crate::net::files::file::{DiskFile, DiskWait};
use crate::net::files::temporary_files;

/// Bytes that are written at a time.
const PIECE: usize = 128 * 1024;

/// Bytes that are read at a time.
const WINDOW: usize = 64 * 1024;

/// A part of a body in a file.
#[derive(Debug)]
pub(crate) struct Spill {
    file: DiskFile,
    fd: Arc<OwnedFd>,
    /// What was given to it.
    len: u64,
    /// What of that is in the file, or on its way there.
    written: u64,
    /// What waits to be written.
    pending: Vec<u8>,
    writing: Option<DiskWait<io::Result<()>>>,
    reading: Option<DiskWait<io::Result<()>>>,
    has_waited: bool,
    /// Up to where it was read.
    read: u64,
    /// What was read and not taken.
    window: Vec<u8>,
    taken: usize,
}

impl Spill {
    /// An empty file in the folder for temporary ones.
    ///
    /// # Errors
    /// Those of `open(2)`.
    pub(crate) fn new() -> io::Result<Self> {
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC | OFlags::EXCL;
        let fd = rustix::fs::open(std::env::temp_dir(), flags, Mode::RUSR | Mode::WUSR)?;
        let fd = Arc::new(fd);
        Ok(Self {
            file: DiskFile::of_temporary(&fd),
            fd,
            len: 0,
            written: 0,
            pending: Vec::new(),
            writing: None,
            reading: None,
            has_waited: false,
            read: 0,
            window: Vec::new(),
            taken: 0,
        })
    }

    /// Takes `data`, if all files together may have that much more.
    pub(crate) fn push(&mut self, data: &[u8]) -> bool {
        let len = data.len() as u64;
        if !temporary_files::take(len) {
            return false;
        }
        self.pending.extend_from_slice(data);
        self.len += len;
        true
    }

    /// Takes `data` although there is no room for it.
    pub(crate) fn push_beyond(&mut self, data: &[u8]) {
        temporary_files::take_beyond(data.len() as u64);
        self.pending.extend_from_slice(data);
        self.len += data.len() as u64;
    }

    /// Whether more waits to be written than may wait, or is being written.
    pub(crate) fn wants_to_write(&self) -> bool {
        self.writing.is_some() || self.pending.len() >= PIECE
    }

    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// Waits until there is room for more; with `all`, until everything is in the file.
    pub(crate) fn poll_written(&mut self, cx: &mut Context<'_>, all: bool) -> Poll<io::Result<()>> {
        loop {
            if let Some(writing) = &mut self.writing {
                let outcome = ready!(writing.poll(cx));
                self.writing = None;
                outcome.and_then(|written| written)?;
            }
            if self.pending.is_empty() || (self.pending.len() < PIECE && !all) {
                return Poll::Ready(Ok(()));
            }
            let (piece, fd, offset) = (std::mem::take(&mut self.pending), Arc::clone(&self.fd), self.written);
            self.written += piece.len() as u64;
            self.writing = Some(DiskWait::run(move || write_all(&fd, &piece, offset)));
        }
    }

    /// Begins to read at its first byte.
    pub(crate) fn rewind(&mut self) {
        (self.read, self.taken) = (0, 0);
        self.window.clear();
    }

    /// What was read and not taken.
    pub(crate) fn data(&self) -> &[u8] {
        &self.window[self.taken..]
    }

    pub(crate) fn take(&mut self, len: usize) {
        self.taken += len;
    }

    /// Whether everything was taken.
    pub(crate) fn is_finished(&self) -> bool {
        self.read == self.len && self.data().is_empty()
    }

    /// Reads more of it, once what was read is taken.
    pub(crate) fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.data().is_empty() && self.read < self.len {
            if let Some(reading) = &mut self.reading {
                let outcome = ready!(reading.poll(cx));
                self.reading = None;
                self.has_waited = true;
                outcome.and_then(|read| read)?;
            }
            let wanted = usize::try_from(self.len - self.read).unwrap_or(usize::MAX).min(WINDOW);
            self.window.resize(wanted, 0);
            self.taken = wanted;
            let read = match std::mem::take(&mut self.has_waited) {
                true => self.file.read_after_wait(&mut self.window, self.read),
                false => self.file.read_at_once(&mut self.window, self.read),
            };
            match read {
                Ok(0) => return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into())),
                Ok(len) => {
                    self.window.truncate(len);
                    (self.taken, self.read) = (0, self.read + len as u64);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.reading = Some(self.file.read_ahead(self.read, self.len - self.read));
                }
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl Drop for Spill {
    fn drop(&mut self) {
        temporary_files::give_back(self.len);
    }
}

fn write_all(fd: &OwnedFd, mut data: &[u8], mut offset: u64) -> io::Result<()> {
    while !data.is_empty() {
        match rustix::io::retry_on_intr(|| rustix::io::pwrite(fd, data, offset))? {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            len => {
                data = &data[len..];
                offset += len as u64;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;

    #[test]
    fn what_is_given_comes_back_as_often_as_it_is_wanted() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("it can be made");
        let content: Vec<u8> = (0..700_000_u32).map(|at| (at % 251) as u8).collect();
        runtime.block_on(async {
            let mut spill = Spill::new().expect("the folder for temporary files takes one");
            for piece in content.chunks(30_000) {
                assert!(spill.push(piece));
                poll_fn(|cx| spill.poll_written(cx, false)).await.expect("it is written");
            }
            poll_fn(|cx| spill.poll_written(cx, true)).await.expect("it is written");
            assert!(temporary_files::bytes() >= 700_000);
            for _ in 0..2 {
                spill.rewind();
                let mut read = Vec::new();
                while !spill.is_finished() {
                    poll_fn(|cx| spill.poll_read(cx)).await.expect("it is read");
                    read.extend_from_slice(spill.data());
                    spill.take(spill.data().len());
                }
                assert!(read == content);
            }
        });
    }
}
