//! Lines on their way to a file that may take a part of one only, such as on a full disk: the next one does not begin behind that part.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt as _;

/// What is known of the end of a file that lines are appended to.
#[derive(Debug, Default)]
pub(crate) struct WholeLines {
    /// A part of a line was written last.
    is_cut: bool,
}

impl WholeLines {
    /// Writes lines, each with its line break, behind one where the last line was cut. `write` is one write(2).
    ///
    /// # Errors
    /// When no more is taken: with how many bytes of `lines` were.
    pub(super) fn write(
        &mut self,
        lines: &[u8],
        mut write: impl FnMut(&[u8]) -> io::Result<usize>,
    ) -> Result<(), (usize, io::Error)> {
        if self.is_cut {
            write_all(b"\n", &mut write).map_err(|(_, error)| (0, error))?;
            self.is_cut = false;
        }
        write_all(lines, &mut write).inspect_err(|(written, _)| {
            self.is_cut = *written > 0 && lines[written - 1] != b'\n';
        })
    }

    /// The same to a descriptor.
    ///
    /// # Errors
    /// As [`WholeLines::write`].
    pub(super) fn write_to(&mut self, file: &impl AsFd, lines: &[u8]) -> Result<(), (usize, io::Error)> {
        self.write(lines, |bytes| Ok(rustix::io::write(file, bytes)?))
    }

    /// Lines go to `next` from now on, which may be the same file as `before`.
    pub(super) fn begin_other(&mut self, before: &File, next: &File) {
        let place = |file: &File| file.metadata().map(|data| (data.dev(), data.ino(), data.len() > 0)).ok();
        self.is_cut &= place(before) == place(next) && place(next).is_some_and(|(.., has_bytes)| has_bytes);
    }
}

/// Writes all bytes, or says how many were written.
fn write_all(
    bytes: &[u8],
    write: &mut impl FnMut(&[u8]) -> io::Result<usize>,
) -> Result<(), (usize, io::Error)> {
    let mut written = 0;
    while written < bytes.len() {
        match write(&bytes[written..]) {
            Ok(0) => return Err((written, io::ErrorKind::WriteZero.into())),
            Ok(len) => written += len,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err((written, error)),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_was_cut_ends_before_the_next() {
        let (mut disk, mut lines) = (Vec::new(), WholeLines::default());
        // Each with the room that there is by then, how many bytes are written, and whether all are.
        for (text, mut room, expected) in [
            ("first\n", 100, None),
            ("one\ntwo is long\n", 9, Some(9)),
            ("none\n", 0, Some(0)),
            ("not even this\n", 1, Some(0)),
            ("next\nlast\n", 100, None),
            ("whole\ncut\n", 6, Some(6)),
            ("end\n", 100, None),
        ] {
            let written = lines.write(text.as_bytes(), |bytes| {
                let len = bytes.len().min(room);
                room -= len;
                disk.extend_from_slice(&bytes[..len]);
                if len == 0 { Err(io::ErrorKind::StorageFull.into()) } else { Ok(len) }
            });
            assert_eq!(written.err().map(|(written, _)| written), expected, "{text}");
        }
        let text = String::from_utf8(disk).unwrap();
        assert_eq!(text, "first\none\ntwo i\nnext\nlast\nwhole\nend\n");
    }
}
