//! A client of the admin listener that polls Weir while it is measured: status page, metrics and overview, each once a second.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Context as _;

use crate::target::admin_socket;

/// The path to request.
const PLACES: [&str; 3] = ["/", "/metrics", "/api/overview"];

const EVERY: Duration = Duration::from_secs(1);

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// Watches until it is stopped.
pub(super) struct Watcher {
    stop: Sender<()>,
    thread: JoinHandle<anyhow::Result<u64>>,
}

impl Watcher {
    /// Begins to watch the Weir whose files are in `dir`.
    pub(super) fn start(dir: &Path) -> Self {
        let (stop, stopped) = channel();
        let socket = admin_socket(dir);
        let thread = std::thread::spawn(move || {
            let mut looks = 0;
            loop {
                for place in PLACES {
                    look(&socket, place).with_context(|| format!("{place} of the admin socket"))?;
                }
                looks += 1;
                match stopped.recv_timeout(EVERY) {
                    Err(RecvTimeoutError::Timeout) => {}
                    Ok(()) | Err(RecvTimeoutError::Disconnected) => return Ok(looks),
                }
            }
        });
        Self { stop, thread }
    }

    /// Ends it; says how often it looked.
    ///
    /// # Errors
    /// When it was not answered once.
    pub(super) fn stop(self) -> anyhow::Result<String> {
        drop(self.stop);
        let looks = self.thread.join().map_err(|_| anyhow::anyhow!("the watcher panicked"))??;
        Ok(format!("page, metrics and overview were asked for {looks} times each, once a second"))
    }
}

/// Asks for one thing and takes the whole answer, which must be a 200.
fn look(socket: &PathBuf, place: &str) -> anyhow::Result<()> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    // In one piece: the server may close after its answer before it has read a second one.
    stream.write_all(format!("GET {place} HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes())?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    let line = answer.split(|byte| *byte == b'\r').next().unwrap_or_default();
    anyhow::ensure!(answer.starts_with(b"HTTP/1.1 200 "), "{}", String::from_utf8_lossy(line));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    #[test]
    fn answers_other_than_200_are_reported() {
        let dir = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(admin_socket(dir.path())).unwrap();
        let server = std::thread::spawn(move || {
            for status in ["200 OK", "200 OK", "401 Unauthorized"] {
                let (mut stream, _) = listener.accept().unwrap();
                let mut asked = [0; 64];
                let _len = stream.read(&mut asked).unwrap();
                write!(stream, "HTTP/1.1 {status}\r\n\r\n").unwrap();
            }
        });
        let watcher = Watcher::start(dir.path());
        server.join().unwrap();
        let error = format!("{:#}", watcher.stop().unwrap_err());
        assert_eq!(error, "/api/overview of the admin socket: HTTP/1.1 401 Unauthorized");
    }
}
