//! A file being written: under another name until it is whole.

use std::fs::File;
use std::io::{self, BufWriter, Seek as _, SeekFrom, Write as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::header::{FileHeader, FileSum, HeaderPlace};
use super::paths::remove_file;
use super::state::DiskState;
use crate::store::{FileBodyId, StoredResponse, tags_of};
use crate::time::CacheTime;

/// Takes the body of a response that is stored in a file. Dropped before [`DiskWriter::finish`], nothing is stored. Every function is blocking.
pub struct DiskWriter {
    state: Arc<DiskState>,
    response: Arc<StoredResponse>,
    header: FileHeader,
    place: HeaderPlace,
    file: BufWriter<File>,
    path: PathBuf,
    sum: FileSum,
    id: u64,
}

impl std::fmt::Debug for DiskWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DiskWriter").field("path", &self.path).finish_non_exhaustive()
    }
}

impl DiskWriter {
    pub(super) fn begin(
        state: &Arc<DiskState>,
        response: &Arc<StoredResponse>,
        now: CacheTime,
    ) -> io::Result<Self> {
        let header = FileHeader {
            slot: response.slot,
            primary: state.primary(response.key()),
            status: response.status(),
            lifetime: response.lifetime(),
            stored: now,
            key: response.key().into(),
            vary: response.vary().clone(),
            head: response.head().clone(),
            body_len: 0,
            body_sum: 0,
        };
        let too_large = || io::Error::new(io::ErrorKind::FileTooLarge, "the head is too large");
        let place = header.first_place().ok_or_else(too_large)?;
        let id = state.begin_writing(&header.key, tags_of(&header.head));
        let path = state.paths.writing().join(format!("{:032x}.{id}", header.slot.0));
        let create = || File::options().write(true).create_new(true).open(&path);
        let file = state.create_with_folders(create).and_then(|mut file| {
            // As long as there is no header before its body, this is no file of ours.
            file.seek(SeekFrom::Start(place.body_offset()))?;
            Ok(file)
        });
        let file = file.inspect_err(|_| state.end_writing(id))?;
        Ok(Self {
            state: Arc::clone(state),
            response: Arc::clone(response),
            header,
            place,
            file: BufWriter::with_capacity(64 * 1024, file),
            path,
            sum: FileSum::new(&state.secret),
            id,
        })
    }

    /// Adds bytes of the body.
    ///
    /// # Errors
    /// As the file has them, and when the body is larger than it may be.
    pub fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.header.body_len += bytes.len() as u64;
        if self.header.body_len > self.state.limits.object_max {
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, "the body is too large"));
        }
        self.sum.add(bytes);
        self.file.write_all(bytes)
    }

    /// The body is whole: from now on it is found. Whether it is stored: not when it was purged meanwhile.
    ///
    /// # Errors
    /// As the file has them.
    pub fn finish(mut self) -> io::Result<bool> {
        self.header.body_sum = self.sum.get();
        // A soft purge may have changed its times.
        self.header.lifetime = self.response.lifetime();
        let bytes = self.header.encode(&self.state.secret, self.place);
        let bytes = bytes.ok_or_else(|| io::Error::other("a header has the length that it had before"))?;
        self.file.flush()?;
        let file = self.file.get_mut();
        file.seek(SeekFrom::Start(0))?;
        file.write_all(&bytes)?;
        if self.header.body_len == 0 {
            // The second place of a header is there as well: a file that ends before it is none that was written whole.
            file.set_len(self.place.body_offset())?;
        }
        let written = self.header.body_len + bytes.len() as u64;
        self.state.written_bytes.fetch_add(written, Ordering::Relaxed);
        let place = self.state.paths.of(self.header.slot);
        if let Err(error) = std::fs::rename(&self.path, &place) {
            if error.kind() != io::ErrorKind::NotFound {
                return Err(error);
            }
            let folder = place.parent().ok_or(error)?;
            std::fs::create_dir_all(folder)?;
            std::fs::rename(&self.path, &place)?;
        }
        let useless_from = self.state.useless_from(&self.header);
        self.state.index.insert(&self.header, self.place.body_offset(), true, useless_from);
        self.response.set_file_body(FileBodyId(self.header.body_sum));
        // Asked behind the insertion: a purge marks what is being written first, and looks at the files then.
        let stays = self.state.heed_purges(self.id, &self.response);
        self.state.remove_left();
        Ok(stays)
    }
}

impl Drop for DiskWriter {
    fn drop(&mut self) {
        self.state.end_writing(self.id);
        // Gone when it was given its name.
        remove_file(&self.path).ok();
    }
}
