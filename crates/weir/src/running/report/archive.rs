//! A tar archive (POSIX.1-1988, `ustar`), compressed by gzip: files of one folder, in the order in which they are added.

use anyhow::anyhow;
use zlib_rs::{DeflateConfig, ReturnCode, compress_bound, compress_slice};

/// The folder in which all files are.
const FOLDER: &str = "weir-report";

/// The size of a header, and what contents are padded to.
const BLOCK: usize = 512;

/// The window of gzip in bits, with its header and trailer.
const GZIP_WINDOW_BITS: i32 = 15 + 16;

/// Room for the header and the trailer of gzip.
const GZIP_EXTRA: usize = 32;

#[derive(Debug)]
pub(super) struct Archive {
    tar: Vec<u8>,
    /// The time of all files, in seconds since 1970.
    seconds: u64,
}

impl Archive {
    pub(super) fn new(seconds: u64) -> Self {
        Self { tar: Vec::new(), seconds }
    }

    /// Adds a file; its name is a short one without folders.
    pub(super) fn add(&mut self, name: &str, contents: &[u8]) {
        let entry = self.entry(name, contents);
        self.tar.extend(entry);
    }

    /// The whole archive, with `contents` as its first file.
    ///
    /// # Errors
    /// When there is no memory for it.
    pub(super) fn finish(self, contents: &str) -> anyhow::Result<Vec<u8>> {
        let mut tar = self.entry("report.txt", contents.as_bytes());
        tar.extend(&self.tar);
        // The end of the archive.
        tar.resize(tar.len() + 2 * BLOCK, 0);
        let mut packed = vec![0; compress_bound(tar.len()) + GZIP_EXTRA];
        let config = DeflateConfig { window_bits: GZIP_WINDOW_BITS, ..DeflateConfig::default() };
        match compress_slice(&mut packed, &tar, config) {
            (written, ReturnCode::Ok) => Ok(written.to_vec()),
            (_, code) => Err(anyhow!("the archive cannot be compressed: {code:?}")),
        }
    }

    fn entry(&self, name: &str, contents: &[u8]) -> Vec<u8> {
        let mut header = [0; BLOCK];
        let mut put = |at: usize, text: &str| header[at..at + text.len()].copy_from_slice(text.as_bytes());
        put(0, &format!("{FOLDER}/{name}"));
        put(100, "0000600\0");
        put(108, "0000000\0");
        put(116, "0000000\0");
        put(124, &format!("{:011o}\0", contents.len()));
        put(136, &format!("{:011o}\0", self.seconds));
        // The sum is made with spaces in its own place.
        put(148, "        ");
        put(156, "0");
        put(257, "ustar\x0000");
        let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
        header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        let mut entry = header.to_vec();
        entry.extend(contents);
        entry.resize(entry.len().next_multiple_of(BLOCK), 0);
        entry
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn tar_and_gzip_read_it() {
        let folder = tempfile::tempdir().expect("the system has a folder for temporary files");
        let file = folder.path().join("report.tar.gz");
        let mut archive = Archive::new(1_700_000_000);
        archive.add("a.txt", b"alpha");
        archive.add("b.bin", &vec![7; 100_000]);
        std::fs::write(&file, archive.finish("what is in it\n").expect("there is memory"))
            .expect("it is new");
        let tar = Command::new("tar")
            .arg("-xzvf")
            .arg(&file)
            .arg("-C")
            .arg(folder.path())
            .stdin(Stdio::null())
            .output();
        let tar = tar.expect("every system has tar");
        assert!(tar.status.success(), "{tar:?}");
        assert_eq!(
            String::from_utf8_lossy(&tar.stdout),
            "weir-report/report.txt\nweir-report/a.txt\nweir-report/b.bin\n"
        );
        let read = |name: &str| {
            std::fs::read(folder.path().join("weir-report").join(name)).expect("it was unpacked")
        };
        assert_eq!((read("a.txt"), read("b.bin").len()), (b"alpha".to_vec(), 100_000));
    }
}
