//! The secrets of connections with TLS as the other side knows them, to compare with those that Weir writes down.

use std::path::Path;
use std::sync::Mutex;

/// The secrets that a peer of Weir has, as it would log them itself.
#[derive(Debug, Default)]
pub(crate) struct OfPeer(Mutex<Vec<String>>);

impl OfPeer {
    /// The lines so far, sorted.
    pub(crate) fn lines(&self) -> Vec<String> {
        let mut lines = self.0.lock().expect("no thread panics while it holds the lines").clone();
        lines.sort();
        lines
    }
}

impl rustls::KeyLog for OfPeer {
    fn log(&self, label: &str, client_random: &[u8], secret: &[u8]) {
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let line = format!("{label} {} {}", hex(client_random), hex(secret));
        self.0.lock().expect("no thread panics while it holds the lines").push(line);
    }
}

/// The lines of a file, sorted; none when there is no file.
pub(crate) fn lines(file: &Path) -> Vec<String> {
    let mut lines: Vec<String> =
        std::fs::read_to_string(file).unwrap_or_default().lines().map(str::to_owned).collect();
    lines.sort();
    lines
}
