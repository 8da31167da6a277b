//! The body of a stored response, which may still be growing: one writer, many readers, on any threads.
//!
//! A complete body is read without a lock. One that grows has a lock, taken once per chunk.
//!
//! ```text
//! Growing ──finish──> Complete          all chunks are kept
//!    │ └────fail────> Failed
//!    └─unlisted─> Passing ──finish──> Complete     chunks that all readers have taken are gone
//! ```

use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll, Waker};

use slab::Slab;

use super::counters::StoreCounters;
use super::memory::{BodyMemory, ChunkBytes, page_slack};

/// How far the writer of a body that is not kept may be ahead of its slowest reader, in bytes.
pub const READ_WINDOW_BYTES: u64 = 256 * 1024;

/// Chunks smaller than this are put together.
const SMALL_CHUNK_BYTES: usize = 16 * 1024;

/// A complete body up to this size is one chunk.
const SINGLE_CHUNK_BYTES_MAX: u64 = 64 * 1024;

/// Bodies, and what is left of one at its end, from this size on are kept where the kernel can send them from: below it, the copy costs less than
/// the system call that saves it.
const KEPT_BYTES_MIN: usize = 32 * 1024;

/// A body that grows is moved there in pieces of about this size, so that none takes long.
const PIECE_BYTES: usize = 256 * 1024;

/// The body did not come to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BodyFailed;

/// The rest of a body is not wanted any more: it is not kept, and has no reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BodyStopped;

/// What the body of a response is known by in a file: a sum over it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileBodyId(pub(crate) u128);

/// A body in memory.
#[derive(Debug)]
pub struct CacheBody {
    complete: OnceLock<CompleteBody>,
    growing: Mutex<GrowingBody>,
    /// Bytes of all chunks.
    held: AtomicU64,
    /// Bytes that the store has set aside for it.
    reserved: AtomicU64,
    /// In how many slots of the store it can be found.
    listed: Arc<AtomicU32>,
    /// Whether a purge has removed it.
    is_purged: AtomicBool,
    /// What it is known by in a file.
    file_body: OnceLock<FileBodyId>,
    counters: Arc<StoreCounters>,
    memory: Option<Arc<dyn BodyMemory>>,
}

#[derive(Debug)]
struct CompleteBody {
    chunks: Box<[BodyChunk]>,
    len: u64,
}

#[derive(Debug, Clone)]
struct BodyChunk {
    start: u64,
    bytes: ChunkBytes,
}

impl BodyChunk {
    fn end(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }
}

#[derive(Debug, Default)]
struct GrowingBody {
    chunks: VecDeque<BodyChunk>,
    /// How many of them are where they stay, and the bytes of the others.
    settled: usize,
    unsettled_bytes: usize,
    /// Bytes appended so far.
    len: u64,
    state: GrowthState,
    readers: Slab<ReaderPlace>,
    writer: Option<Waker>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum GrowthState {
    #[default]
    Growing,
    Passing,
    Complete,
    Failed,
}

#[derive(Debug)]
struct ReaderPlace {
    position: u64,
    waker: Option<Waker>,
}

impl CacheBody {
    pub(super) fn new(counters: &Arc<StoreCounters>, memory: Option<&Arc<dyn BodyMemory>>) -> Self {
        Self {
            complete: OnceLock::new(),
            growing: Mutex::default(),
            held: AtomicU64::new(0),
            reserved: AtomicU64::new(0),
            listed: Arc::default(),
            is_purged: AtomicBool::new(false),
            file_body: OnceLock::new(),
            counters: Arc::clone(counters),
            memory: memory.cloned(),
        }
    }

    pub(super) fn listed(&self) -> &Arc<AtomicU32> {
        &self.listed
    }

    pub(super) fn is_listed(&self) -> bool {
        self.listed.load(Ordering::Acquire) > 0
    }

    pub(super) fn is_purged(&self) -> bool {
        self.is_purged.load(Ordering::Acquire)
    }

    pub(super) fn set_purged(&self) {
        self.is_purged.store(true, Ordering::Release);
    }

    pub(super) fn file_body(&self) -> Option<FileBodyId> {
        self.file_body.get().copied()
    }

    pub(super) fn set_file_body(&self, id: FileBodyId) {
        // The sum of the same bytes is always the same.
        self.file_body.set(id).ok();
    }

    pub(super) fn reserved(&self) -> u64 {
        self.reserved.load(Ordering::Relaxed)
    }

    pub(super) fn set_reserved(&self, bytes: u64) {
        self.reserved.store(bytes, Ordering::Relaxed);
    }

    /// Bytes of memory that its chunks take.
    pub(super) fn chunk_bytes(&self) -> u64 {
        let count = self.complete.get().map_or_else(|| self.lock().chunks.len(), |body| body.chunks.len());
        self.held.load(Ordering::Relaxed) + (count * CHUNK_OVERHEAD_BYTES) as u64
    }

    /// Its length, once it is complete.
    pub fn len(&self) -> Option<u64> {
        self.complete.get().map(|body| body.len)
    }

    /// How many bytes of it have come.
    pub fn grown(&self) -> u64 {
        self.len().unwrap_or_else(|| self.lock().len)
    }

    /// Whether it is complete, and empty.
    pub fn is_empty(&self) -> bool {
        self.len() == Some(0)
    }

    /// The chunks of a complete body.
    pub fn chunks(&self) -> Option<impl Iterator<Item = &[u8]>> {
        self.complete.get().map(|body| body.chunks.iter().map(|chunk| &*chunk.bytes))
    }

    fn lock(&self) -> MutexGuard<'_, GrowingBody> {
        // A panic of another worker leaves chunks that are whole.
        self.growing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn hold(&self, bytes: usize) {
        self.held.fetch_add(bytes as u64, Ordering::Relaxed);
        self.counters.body_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    fn release(&self, bytes: usize) {
        self.held.fetch_sub(bytes as u64, Ordering::Relaxed);
        self.counters.body_bytes.fetch_sub(bytes as u64, Ordering::Relaxed);
    }

    /// Makes it one that is not kept, if it still grows.
    pub(super) fn pass_through(&self) {
        let mut growing = self.lock();
        if growing.state == GrowthState::Growing {
            growing.state = GrowthState::Passing;
            self.drop_taken(&mut growing);
        }
    }

    /// Makes it one that is not kept, if it still grows and can not be found any more.
    pub(super) fn pass_through_unlisted(&self) {
        if self.complete.get().is_none() && !self.is_listed() {
            self.pass_through();
        }
    }

    /// Adds bytes at the end.
    pub(super) fn append(&self, bytes: &[u8]) -> Result<(), BodyStopped> {
        let mut growing = self.lock();
        if growing.is_unwanted() {
            return Err(BodyStopped);
        }
        if bytes.is_empty() {
            return Ok(());
        }
        let start = growing.len;
        growing.len += bytes.len() as u64;
        self.hold(bytes.len());
        match growing.chunks.back_mut() {
            Some(last) if last.bytes.len() + bytes.len() <= SMALL_CHUNK_BYTES => {
                last.bytes = [&*last.bytes, bytes].concat().into();
            }
            _ => growing.chunks.push_back(BodyChunk { start, bytes: bytes.into() }),
        }
        growing.unsettled_bytes += bytes.len();
        if growing.unsettled_bytes >= PIECE_BYTES {
            self.settle(&mut growing);
        }
        let wakers = growing.take_wakers();
        drop(growing);
        wakers.into_iter().for_each(Waker::wake);
        Ok(())
    }

    /// Whether more may be appended.
    pub(super) fn poll_ready(&self, cx: &mut Context<'_>) -> Poll<Result<(), BodyStopped>> {
        let mut growing = self.lock();
        if growing.is_unwanted() {
            return Poll::Ready(Err(BodyStopped));
        }
        if growing.state == GrowthState::Passing && growing.ahead() > READ_WINDOW_BYTES {
            growing.writer = Some(cx.waker().clone());
            return Poll::Pending;
        }
        Poll::Ready(Ok(()))
    }

    /// Forgets chunks that all readers of a body that is not kept have taken.
    fn drop_taken(&self, growing: &mut GrowingBody) {
        let slowest = growing.slowest();
        while let Some(first) = growing.chunks.front()
            && first.end() <= slowest
        {
            self.release(first.bytes.held());
            growing.chunks.pop_front();
        }
    }

    /// Moves the chunks that have come since the last time where the kernel can send them from, if there is such a place and the body is kept.
    fn settle(&self, growing: &mut GrowingBody) {
        let unsettled = std::mem::take(&mut growing.unsettled_bytes);
        let Some(memory) = self.memory.as_ref().filter(|_| growing.state == GrowthState::Growing) else {
            return;
        };
        let new: Vec<BodyChunk> = growing.chunks.iter().skip(growing.settled).cloned().collect();
        let bytes: Vec<&[u8]> = new.iter().map(|chunk| &*chunk.bytes).collect();
        let kept = (unsettled >= KEPT_BYTES_MIN).then(|| memory.keep(&bytes)).flatten();
        if let (Some(kept), Some(first)) = (kept, new.first()) {
            growing.chunks.truncate(growing.settled);
            let chunk = BodyChunk { start: first.start, bytes: ChunkBytes::Kept(kept.into()) };
            self.hold(chunk.bytes.held());
            new.iter().for_each(|chunk| self.release(chunk.bytes.held()));
            growing.chunks.push_back(chunk);
        }
        growing.settled = growing.chunks.len();
    }

    /// Ends it: whole, or passed through.
    pub(super) fn finish(&self) {
        let mut growing = self.lock();
        let is_kept = growing.state == GrowthState::Growing;
        self.settle(&mut growing);
        growing.state = GrowthState::Complete;
        if is_kept {
            let len = growing.len;
            let mut chunks: Vec<BodyChunk> = std::mem::take(&mut growing.chunks).into();
            if chunks.len() > 1 && len <= SINGLE_CHUNK_BYTES_MAX {
                let whole: Vec<u8> = chunks.iter().flat_map(|chunk| chunk.bytes.iter()).copied().collect();
                chunks = vec![BodyChunk { start: 0, bytes: whole.into() }];
            }
            self.complete.get_or_init(|| CompleteBody { chunks: chunks.into(), len });
        }
        let wakers = growing.take_wakers();
        growing.readers.shrink_to_fit();
        drop(growing);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Ends it before its end.
    pub(super) fn fail(&self) {
        let mut growing = self.lock();
        if growing.state == GrowthState::Complete {
            return;
        }
        growing.state = GrowthState::Failed;
        let wakers = growing.take_wakers();
        drop(growing);
        wakers.into_iter().for_each(Waker::wake);
    }
}

/// What a chunk takes beside its bytes: its place in the list, the counts of its `Arc`, the rounding of the allocation.
const CHUNK_OVERHEAD_BYTES: usize = size_of::<BodyChunk>() + 32;

/// Bytes of memory that a body of this length takes at most, in chunks as large as they come.
pub(super) fn bytes_of_len(len: u64) -> u64 {
    let pages = if len < KEPT_BYTES_MIN as u64 { 0 } else { page_slack(len, PIECE_BYTES as u64) };
    len + (len / SMALL_CHUNK_BYTES as u64 + 1) * CHUNK_OVERHEAD_BYTES as u64 + pages
}

impl Drop for CacheBody {
    fn drop(&mut self) {
        self.counters.body_bytes.fetch_sub(*self.held.get_mut(), Ordering::Relaxed);
    }
}

impl GrowingBody {
    /// The least position of all readers.
    fn slowest(&self) -> u64 {
        self.readers.iter().map(|(_, reader)| reader.position).min().unwrap_or(self.len)
    }

    /// How many bytes wait for the slowest reader; one who wants a part may be ahead of them.
    fn ahead(&self) -> u64 {
        self.len.saturating_sub(self.slowest())
    }

    fn is_unwanted(&self) -> bool {
        self.state == GrowthState::Passing && self.readers.is_empty()
    }

    fn take_wakers(&mut self) -> Vec<Waker> {
        self.readers.iter_mut().filter_map(|(_, reader)| reader.waker.take()).collect()
    }

    fn chunk_at(&self, position: u64) -> Option<&BodyChunk> {
        let index = self.chunks.partition_point(|chunk| chunk.end() <= position);
        self.chunks.get(index).filter(|chunk| chunk.start <= position)
    }
}

/// One who reads a body, from its own position.
#[derive(Debug)]
pub struct BodyReader {
    body: Arc<CacheBody>,
    position: u64,
    /// The chunk at the position, of a body that is complete.
    index: usize,
    /// The chunk that was taken while the body grew.
    current: Option<BodyChunk>,
    /// Where it is registered while the body grows.
    id: Option<usize>,
    is_ended: bool,
}

impl BodyReader {
    pub(super) fn new(body: &Arc<CacheBody>, start: u64) -> Option<Self> {
        let mut reader = Self {
            body: Arc::clone(body),
            position: start,
            index: 0,
            current: None,
            id: None,
            is_ended: false,
        };
        if body.complete.get().is_some() {
            reader.seek();
            return Some(reader);
        }
        let mut growing = body.lock();
        if body.complete.get().is_some() {
            drop(growing);
            reader.seek();
            return Some(reader);
        }
        let is_gone = match growing.chunks.front() {
            Some(first) => start < first.start,
            None => start < growing.len,
        };
        if is_gone || growing.state == GrowthState::Failed {
            return None;
        }
        let id = growing.readers.insert(ReaderPlace { position: start, waker: None });
        reader.id = Some(id);
        drop(growing);
        Some(reader)
    }

    /// Finds the chunk of a complete body.
    fn seek(&mut self) {
        if let Some(complete) = self.body.complete.get() {
            self.index = complete.chunks.partition_point(|chunk| chunk.end() <= self.position);
        }
    }

    fn chunk(&self) -> Option<&BodyChunk> {
        let of_growth = self.current.as_ref().filter(|chunk| self.position < chunk.end());
        of_growth.or_else(|| {
            let chunk = self.body.complete.get()?.chunks.get(self.index)?;
            (chunk.start..chunk.end()).contains(&self.position).then_some(chunk)
        })
    }

    /// The next bytes, as many as lie together; empty at the end, and where more has to be asked for by [`BodyReader::poll_more`].
    pub fn available(&self) -> &[u8] {
        self.chunk().map_or(&[], |chunk| &chunk.bytes[(self.position - chunk.start) as usize..])
    }

    /// The file that has the bytes that are available, and where in it they begin, if they are kept in one.
    pub fn file(&self) -> Option<(BorrowedFd<'_>, u64)> {
        let chunk = self.chunk()?;
        let (file, start) = chunk.bytes.file()?;
        Some((file, start + (self.position - chunk.start)))
    }

    /// Goes on behind so many bytes of those that are available.
    pub fn consume(&mut self, len: usize) {
        debug_assert!(len <= self.available().len(), "only what is available can be consumed");
        let is_of_growth = self.current.as_ref().is_some_and(|chunk| self.position < chunk.end());
        self.position += len as u64;
        if is_of_growth {
            return;
        }
        if let Some(complete) = self.body.complete.get()
            && complete.chunks.get(self.index).is_some_and(|chunk| chunk.end() <= self.position)
        {
            self.index += 1;
        }
    }

    /// How many bytes of the body are behind it.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Length of the whole body, once it is known.
    pub fn body_len(&self) -> Option<u64> {
        self.body.len()
    }

    /// Whether all of a complete body is behind it.
    pub fn is_finished(&self) -> bool {
        self.is_ended || self.body.complete.get().is_some_and(|body| self.position >= body.len)
    }

    /// Waits for more: `true` when something is available, `false` at the end.
    ///
    /// # Errors
    /// When the body fails.
    pub fn poll_more(&mut self, cx: &mut Context<'_>) -> Poll<Result<bool, BodyFailed>> {
        if self.is_finished() {
            return Poll::Ready(Ok(false));
        }
        if !self.available().is_empty() {
            return Poll::Ready(Ok(true));
        }
        self.current = None;
        if self.body.complete.get().is_some() {
            self.seek();
            return Poll::Ready(Ok(!self.available().is_empty()));
        }
        let body = Arc::clone(&self.body);
        let mut growing = body.lock();
        self.report(&mut growing, Some(cx));
        if let Some(chunk) = growing.chunk_at(self.position) {
            self.current = Some(chunk.clone());
            return Poll::Ready(Ok(true));
        }
        match growing.state {
            GrowthState::Failed => Poll::Ready(Err(BodyFailed)),
            GrowthState::Complete => {
                drop(growing);
                self.seek();
                self.is_ended = self.available().is_empty();
                Poll::Ready(Ok(!self.is_ended))
            }
            GrowthState::Growing | GrowthState::Passing => Poll::Pending,
        }
    }

    /// Says where it is, so that the writer of a body that is not kept goes on.
    fn report(&self, growing: &mut GrowingBody, cx: Option<&mut Context<'_>>) {
        let Some(place) = self.id.and_then(|id| growing.readers.get_mut(id)) else { return };
        place.position = self.position;
        if let Some(cx) = cx {
            place.waker = Some(cx.waker().clone());
        }
        if growing.state == GrowthState::Passing {
            self.body.drop_taken(growing);
            if growing.ahead() <= READ_WINDOW_BYTES
                && let Some(writer) = growing.writer.take()
            {
                writer.wake();
            }
        }
    }
}

impl Drop for BodyReader {
    fn drop(&mut self) {
        let Some(id) = self.id else { return };
        let mut growing = self.body.lock();
        growing.readers.try_remove(id);
        if growing.state == GrowthState::Passing {
            self.body.drop_taken(&mut growing);
            if let Some(writer) = growing.writer.take() {
                writer.wake();
            }
        }
    }
}
