//! A file, opened: its response, and where its body is.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::header::{FileHeader, FileSum, HeaderFault, HeaderPlace, PREFIX_BYTES};
use super::index::DiskHit;
use super::state::{DiskState, lock};
use crate::rules::{Lifetime, VaryRule};
use crate::store::{CacheKey, FileBodyId, NewResponse, PurgeMode, SlotKey, StoredResponse, tags_of};
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

    /// By what [`DiskFolder::freshen`](super::DiskFolder::freshen) knows its body again.
    pub fn body_id(&self) -> FileBodyId {
        FileBodyId(self.header.body_sum)
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

/// Blocking: the header of a file, and where it is. `Ok(Err(_))`: what is wrong with it.
pub(super) fn read_header(
    file: &mut File,
    state: &DiskState,
) -> io::Result<Result<(FileHeader, HeaderPlace), HeaderFault>> {
    let mut bytes = Vec::with_capacity(FIRST_READ_BYTES);
    file.take(FIRST_READ_BYTES as u64).read_to_end(&mut bytes)?;
    let mut outcome = FileHeader::decode(&bytes, &state.secret);
    if let Err(HeaderFault::Incomplete(len)) = outcome
        && len > PREFIX_BYTES
    {
        file.take((len - bytes.len().min(len)) as u64).read_to_end(&mut bytes)?;
        outcome = FileHeader::decode(&bytes, &state.secret);
    }
    let Ok((header, place)) = outcome else { return Ok(outcome) };
    // Truncated, or with more behind it: not as it was written.
    let is_whole = header.body_len.checked_add(place.body_offset()) == Some(file.metadata()?.len());
    Ok(if is_whole { Ok((header, place)) } else { Err(HeaderFault::Corrupt) })
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
        let (header, place) = read_header(&mut file, self).ok()?.ok()?;
        if *header.key != *key.text() || header.slot != hit.slot {
            return None;
        }
        let header = FileHeader { lifetime: self.times_under_purges(&header)?, ..header };
        let body_offset = place.body_offset();
        // What this process has not written itself is read once before it is sent.
        if !hit.file.is_verified.load(Ordering::Relaxed) {
            is_body_sound(&file, &header, body_offset, self).ok()?.then_some(())?;
            hit.file.is_verified.store(true, Ordering::Relaxed);
        }
        Some(DiskResponse { header, file: Arc::new(file), body_offset })
    }

    /// Blocking: replaces the header of a file; its body stays. `change` says by what, or that it stays as it is: then `None`. The header that the file
    /// has now, otherwise; the error may be that it does not fit.
    pub(super) fn rewrite_header(
        &self,
        slot: SlotKey,
        change: impl FnOnce(&FileHeader) -> Option<FileHeader>,
    ) -> io::Result<Option<FileHeader>> {
        let guard = lock(&self.rewriting);
        let mut file = File::options().read(true).write(true).open(self.paths.of(slot))?;
        let unsound = |_| io::Error::from(io::ErrorKind::InvalidData);
        let (header, place) = read_header(&mut file, self)?.map_err(unsound)?;
        let Some(changed) = change(&header).filter(|_| header.slot == slot) else { return Ok(None) };
        let place = place.next();
        let bytes = changed.encode(&self.secret, place).ok_or(io::ErrorKind::FileTooLarge)?;
        // Over the one that no longer holds: until this one is whole, the one before it does.
        file.write_all_at(&bytes, place.offset())?;
        drop(guard);
        self.written_bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        Ok(Some(changed))
    }

    /// Blocking: gives the file of a response the fields and times that the server has confirmed. Whether it has them: not when there is no file with the
    /// body of the response, or they do not fit.
    pub(super) fn freshen(&self, response: &StoredResponse, now: CacheTime) -> io::Result<bool> {
        let Some((id, file)) = response.file_body().zip(self.index.get(response.slot)) else {
            return Ok(false);
        };
        let writing = self.begin_writing(response.key(), tags_of(response.head()));
        let mut is_newer = false;
        let written = self.rewrite_header(response.slot, |old| {
            let lifetime = response.lifetime();
            let is_its_body = old.body_sum == id.0
                && Some(old.body_len) == response.body().len()
                && *old.key == *response.key();
            is_newer = is_its_body && old.lifetime.received > lifetime.received;
            (is_its_body && !is_newer).then(|| FileHeader {
                head: response.head().clone(),
                lifetime,
                stored: now,
                ..old.clone()
            })
        });
        if let Ok(Some(header)) = &written {
            file.useless_from.store(self.useless_from(header).millis(), Ordering::Relaxed);
            self.heed_purges(writing, response);
        }
        self.end_writing(writing);
        match written {
            Ok(written) => Ok(written.is_some() || is_newer),
            Err(error) if error.kind() == io::ErrorKind::FileTooLarge => Ok(false),
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::InvalidData) => {
                self.index.forget(response.slot, &file);
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    /// Blocking: a file was written: what purges meanwhile have missed is made up for. Whether the file stays.
    pub(super) fn heed_purges(&self, writing: u64, response: &StoredResponse) -> bool {
        let slot = response.slot;
        let purged = self.purged_meanwhile(writing);
        match purged {
            _ if response.is_purged() => self.index.forget_slot(slot),
            Some((PurgeMode::Hard, _)) => self.index.forget_slot(slot),
            Some((PurgeMode::Soft, at)) => {
                self.index.get(slot).is_some_and(|file| self.expire(slot, &file, at))
            }
            None => return true,
        };
        self.remove_left();
        self.index.contains(slot)
    }

    /// The times of a response that will not be used any more.
    pub(super) fn is_useless(&self, header: &FileHeader, lifetime: Lifetime, now: CacheTime) -> bool {
        // A time in the future is that of a clock that was wrong.
        self.useless_behind(header, lifetime) <= now || lifetime.received > now.after(FUTURE_MS_MAX)
    }
}

/// How far ahead the clock may have been.
const FUTURE_MS_MAX: u64 = 24 * 3_600_000;
