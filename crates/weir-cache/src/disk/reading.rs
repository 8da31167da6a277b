//! A file, opened: its response, and where its body is.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::header::{FileHeader, FileSum, HeaderFault, PREFIX_BYTES};
use super::index::DiskHit;
use super::state::DiskState;
use crate::rules::{Freshened, Lifetime, VaryRule};
use crate::store::{CacheKey, NewResponse};
use crate::time::CacheTime;

/// What is read at first: most heads fit.
const FIRST_READ_BYTES: usize = 4_096;
/// What is read at a time to verify a body.
const VERIFY_BYTES: usize = 128 * 1024;

/// A stored response in a file.
#[derive(Debug)]
pub struct DiskResponse {
    /// Status, fields, times, key.
    pub header: FileHeader,
    /// The file: the body is sent from it.
    pub file: Arc<File>,
    /// Where its body begins.
    pub body_offset: u64,
}

impl DiskResponse {
    /// Length of its body.
    pub fn body_len(&self) -> u64 {
        self.header.body_len
    }

    /// For which requests it is.
    pub fn vary(&self) -> &VaryRule {
        &self.header.vary
    }

    /// Blocking: its body, to be taken to memory.
    ///
    /// # Errors
    /// As the file has them.
    pub fn read_body(&self) -> io::Result<Vec<u8>> {
        let len = usize::try_from(self.header.body_len).map_err(io::Error::other)?;
        let mut body = vec![0; len];
        self.file.read_exact_at(&mut body, self.body_offset)?;
        Ok(body)
    }

    /// As a response to be stored in memory.
    pub fn to_new(&self) -> NewResponse {
        NewResponse {
            status: self.header.status,
            head: self.header.head.clone(),
            lifetime: self.header.lifetime,
            vary: self.header.vary.clone(),
            len: Some(self.header.body_len),
        }
    }
}

/// Blocking: the header of a file, and where its body begins. `Ok(Err(_))`: what is wrong with it.
pub(super) fn read_header(
    file: &mut File,
    state: &DiskState,
) -> io::Result<Result<(FileHeader, usize), HeaderFault>> {
    let mut bytes = Vec::with_capacity(FIRST_READ_BYTES);
    file.take(FIRST_READ_BYTES as u64).read_to_end(&mut bytes)?;
    let mut outcome = FileHeader::decode(&bytes, &state.secret);
    if let Err(HeaderFault::Incomplete(len)) = outcome
        && len > PREFIX_BYTES
    {
        file.take((len - bytes.len().min(len)) as u64).read_to_end(&mut bytes)?;
        outcome = FileHeader::decode(&bytes, &state.secret);
    }
    let Ok((header, region)) = outcome else { return Ok(outcome) };
    // Truncated, or with more behind it: not as it was written.
    let is_whole = header.body_len.checked_add(region as u64) == Some(file.metadata()?.len());
    Ok(if is_whole { Ok((header, region)) } else { Err(HeaderFault::Corrupt) })
}

/// Blocking: whether the body has its sum.
fn is_body_sound(file: &File, header: &FileHeader, offset: u64, state: &DiskState) -> io::Result<bool> {
    let mut space = vec![0; VERIFY_BYTES];
    let mut sum = FileSum::new(&state.secret);
    let mut at = 0;
    while at < header.body_len {
        let want = usize::try_from(header.body_len - at).unwrap_or(usize::MAX).min(VERIFY_BYTES);
        match file.read_at(&mut space[..want], offset + at) {
            Ok(0) => return Ok(false),
            Ok(len) => {
                sum.add(&space[..len]);
                at += len as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(sum.get() == header.body_sum)
}

impl DiskState {
    /// Blocking: opens what [`DiskIndex::find`](super::index::DiskIndex::find) has found. A file that is not what it should be is forgotten.
    pub(super) fn open(&self, key: &CacheKey<'_>, hit: &DiskHit) -> Option<DiskResponse> {
        let opened = self.try_open(key, hit);
        if opened.is_none() {
            self.index.forget(hit.slot, &hit.file);
            self.remove_left();
        }
        opened
    }

    fn try_open(&self, key: &CacheKey<'_>, hit: &DiskHit) -> Option<DiskResponse> {
        let mut file = File::options().read(true).write(true).open(self.paths.of(hit.slot)).ok()?;
        let (header, region) = read_header(&mut file, self).ok()?.ok()?;
        let is_asked_for = *header.key == *key.text() && header.slot == hit.slot && !self.is_purged(&header);
        if !is_asked_for {
            return None;
        }
        let body_offset = region as u64;
        // What this process has not written itself is read once before it is sent.
        if !hit.file.is_verified.load(Ordering::Relaxed) {
            is_body_sound(&file, &header, body_offset, self).ok()?.then_some(())?;
            hit.file.is_verified.store(true, Ordering::Relaxed);
        }
        Some(DiskResponse { header, file: Arc::new(file), body_offset })
    }

    /// Blocking: gives a file other fields and times, which the server has confirmed. When they do not fit, the file is forgotten.
    pub(super) fn freshen(&self, hit: &DiskHit, old: &DiskResponse, new: &Freshened, now: CacheTime) -> bool {
        let header =
            FileHeader { head: new.head.clone(), lifetime: new.lifetime, stored: now, ..old.header.clone() };
        let region = usize::try_from(old.body_offset).ok();
        let is_written =
            region.and_then(|region| header.encode(&self.secret, Some(region))).is_some_and(|bytes| {
                let file = File::options().write(true).open(self.paths.of(hit.slot));
                // Torn by a crash it has another sum: it is forgotten then.
                file.and_then(|file| file.write_all_at(&bytes, 0)).is_ok()
            });
        if is_written && !self.is_purged(&old.header) {
            hit.file.useless_from.store(self.useless_from(&header).millis(), Ordering::Relaxed);
        } else {
            self.index.forget(hit.slot, &hit.file);
            self.remove_left();
        }
        is_written
    }

    /// The times of a response that will not be used any more.
    pub(super) fn is_useless(&self, header: &FileHeader, now: CacheTime) -> bool {
        let Lifetime { received, .. } = header.lifetime;
        // A time in the future is that of a clock that was wrong.
        self.useless_from(header) <= now || received > now.after(FUTURE_MS_MAX)
    }
}

/// How far ahead the clock may have been.
const FUTURE_MS_MAX: u64 = 24 * 3_600_000;
