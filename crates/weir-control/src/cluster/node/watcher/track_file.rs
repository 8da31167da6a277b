//! keepalived's track file: a number by which it changes the priority of this node.
//!
//! keepalived reads the file when a writer closes it, or when another file takes its place. The number has a fixed width, so that a reader at any other
//! moment sees the one before or the one after.

use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use weir_config::Keepalived;

use super::availability::Availability;

/// The number that stands for the state FAULT in keepalived.
const FAULT: i32 = -254;

/// All may read it.
const MODE: u32 = 0o644;

/// The file, and what is written to it.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct TrackFile {
    pub(super) path: PathBuf,
    hand_over_weight: u32,
}

impl TrackFile {
    pub(super) fn new(keepalived: &Keepalived) -> Option<Self> {
        let path = PathBuf::from(&**keepalived.track_file.as_ref()?);
        Some(Self { path, hand_over_weight: keepalived.hand_over_weight })
    }

    /// Makes the file if it is not there, and gives it to the user with this number.
    pub(super) fn prepare(&self, user: Option<u32>) -> io::Result<()> {
        let mut options = OpenOptions::new();
        options.write(true).mode(MODE).custom_flags(libc::O_NOFOLLOW);
        let file = match options.clone().create_new(true).open(&self.path) {
            Ok(mut file) => {
                file.write_all(self.text(Availability::Unavailable).as_bytes())?;
                file
            }
            Err(error) if error.kind() == ErrorKind::AlreadyExists => options.open(&self.path)?,
            Err(error) => return Err(error),
        };
        if user.is_some() && rustix::process::geteuid().is_root() {
            std::os::unix::fs::fchown(&file, user, None)?;
        }
        Ok(())
    }

    /// The number as it is written.
    pub(super) fn text(&self, availability: Availability) -> String {
        let number = match availability {
            Availability::Available => 0,
            Availability::HandedOver => -i32::try_from(self.hand_over_weight).unwrap_or(-FAULT - 1),
            Availability::Unavailable => FAULT,
        };
        format!("{number:>4}\n")
    }

    /// Writes the number, unless the file has it already; gives whether it was written.
    pub(super) fn write(&self, availability: Availability) -> io::Result<bool> {
        let text = self.text(availability);
        if fs::read(&self.path).is_ok_and(|there| there == text.as_bytes()) {
            return Ok(false);
        }
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false).mode(MODE).custom_flags(libc::O_NOFOLLOW);
        match options.open(&self.path) {
            Ok(file) => {
                file.write_all_at(text.as_bytes(), 0)?;
                if file.metadata()?.len() != text.len() as u64 {
                    file.set_len(text.len() as u64)?;
                }
            }
            // The file of another user, such as one that keepalived has made, in a folder of this one.
            Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                self.replace(&text).map_err(|_| error)?;
            }
            Err(error) => return Err(error),
        }
        Ok(true)
    }

    fn replace(&self, text: &str) -> io::Result<()> {
        let new = Path::new(&self.path).with_extension(format!("new-{}", std::process::id()));
        let put = fs::write(&new, text).and_then(|()| fs::rename(&new, &self.path));
        if put.is_err() {
            let _gone = fs::remove_file(&new);
        }
        put
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_replaces_whatever_was_there() {
        let folder = std::env::temp_dir().join(format!("weir-track-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join("track");
        let file = TrackFile { path: path.clone(), hand_over_weight: 60 };
        file.prepare(None).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "-254\n");
        assert!(!file.write(Availability::Unavailable).unwrap(), "it is there already");
        for (before, availability, after) in [
            ("-254\n", Availability::Available, "   0\n"),
            ("a longer text\nof an operator", Availability::HandedOver, " -60\n"),
            ("", Availability::Unavailable, "-254\n"),
        ] {
            fs::write(&path, before).unwrap();
            file.prepare(None).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), before);
            assert!(file.write(availability).unwrap());
            assert_eq!(fs::read_to_string(&path).unwrap(), after);
        }
        fs::remove_file(&path).unwrap();
        assert!(file.write(Availability::Available).unwrap());
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(file.write(Availability::Available).unwrap_err().kind(), ErrorKind::NotFound);
    }
}
