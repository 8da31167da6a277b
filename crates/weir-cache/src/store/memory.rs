//! Where the large parts of bodies are kept: on the heap, or where the kernel can send them from without a copy.

use std::fmt::Debug;
use std::ops::Deref;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

/// Memory in pages that a file has, too. Its user makes it: the store knows no system calls.
pub trait BodyMemory: Debug + Send + Sync {
    /// Copies these bytes, one behind the other, into pages of their own; `None` when there is no room: they stay on the heap.
    fn keep(&self, chunks: &[&[u8]]) -> Option<Box<dyn KeptBytes>>;
}

/// Bytes in such pages; freed when it is dropped.
pub trait KeptBytes: Debug + Send + Sync {
    /// The bytes.
    fn bytes(&self) -> &[u8];

    /// The file that has them, and where in it they begin.
    fn file(&self) -> (BorrowedFd<'_>, u64);
}

/// A page: what is kept takes whole ones.
const PAGE_BYTES: usize = 4096;

/// The bytes of a chunk, shared by all who read it.
#[derive(Debug, Clone)]
pub(super) enum ChunkBytes {
    Heap(Arc<[u8]>),
    Kept(Arc<dyn KeptBytes>),
}

impl ChunkBytes {
    /// Bytes of memory that they take.
    pub(super) fn held(&self) -> usize {
        match self {
            Self::Heap(bytes) => bytes.len(),
            Self::Kept(kept) => kept.bytes().len().next_multiple_of(PAGE_BYTES),
        }
    }

    /// The file that has them, and where in it they begin.
    pub(super) fn file(&self) -> Option<(BorrowedFd<'_>, u64)> {
        match self {
            Self::Heap(_) => None,
            Self::Kept(kept) => Some(kept.file()),
        }
    }
}

impl Deref for ChunkBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Heap(bytes) => bytes,
            Self::Kept(kept) => kept.bytes(),
        }
    }
}

impl From<&[u8]> for ChunkBytes {
    fn from(bytes: &[u8]) -> Self {
        Self::Heap(bytes.into())
    }
}

impl From<Vec<u8>> for ChunkBytes {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Heap(bytes.into())
    }
}

/// A body of this length takes at most so many bytes more because of whole pages, in pieces of at least `piece` bytes.
pub(super) fn page_slack(len: u64, piece: u64) -> u64 {
    (len / piece + 1) * PAGE_BYTES as u64
}
