//! Memory in pages that are also those of a file: read as slices, and sent by the kernel without a copy (sendfile(2)).
//!
//! The file is one of memory (memfd_create(2)) that no other process has. Pages are written before anyone can read them, never changed
//! afterwards, and given back when nothing reads them any more: bytes that the kernel still sends keep their pages until they have left.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::{FallocateFlags, MemfdFlags};

/// What is given out is a multiple of this.
const PAGE: u64 = 4096;

/// Places that are tried for a piece before there is none: the search must end soon, since a worker waits for it.
const PLACES_TRIED: usize = 256;

/// A range of addresses with a file behind it. Only what is in use takes memory.
#[derive(Debug)]
pub(crate) struct PageMemory {
    file: OwnedFd,
    mapping: MappedFile,
    places: Mutex<FreePlaces>,
}

/// Some pages of it, freed when it is dropped.
#[derive(Debug)]
pub(crate) struct Pages {
    memory: Arc<PageMemory>,
    start: u64,
    len: usize,
}

impl PageMemory {
    /// One of up to `len` bytes.
    ///
    /// # Errors
    /// When the system gives no such file, or no addresses.
    pub(crate) fn new(len: u64) -> io::Result<Arc<Self>> {
        let len = len.next_multiple_of(PAGE).max(PAGE);
        let file = rustix::fs::memfd_create("weir-cache", MemfdFlags::CLOEXEC)?;
        rustix::fs::ftruncate(&file, len)?;
        let mapping = MappedFile::new(file.as_fd(), usize::try_from(len).map_err(io::Error::other)?)?;
        Ok(Arc::new(Self { file, mapping, places: Mutex::new(FreePlaces::new(len)) }))
    }

    /// Copies these bytes, one behind the other, into pages of their own; `None` when there is no room for them.
    pub(crate) fn keep(self: &Arc<Self>, chunks: &[&[u8]]) -> Option<Pages> {
        let len: usize = chunks.iter().map(|chunk| chunk.len()).sum();
        let start = self.lock().take(len as u64)?;
        // From here on they are given back by its drop.
        let pages = Pages { memory: Arc::clone(self), start, len };
        let mut at = start;
        for chunk in chunks {
            self.write(chunk, at).ok()?;
            at += chunk.len() as u64;
        }
        Some(pages)
    }

    fn write(&self, mut bytes: &[u8], mut at: u64) -> io::Result<()> {
        while !bytes.is_empty() {
            let written = rustix::io::retry_on_intr(|| rustix::io::pwrite(&self.file, bytes, at))?;
            if written == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            (bytes, at) = (&bytes[written..], at + written as u64);
        }
        Ok(())
    }

    /// Bytes of memory behind it now.
    pub(crate) fn used_bytes(&self) -> u64 {
        // In units of 512 bytes (inode(7)).
        rustix::fs::fstat(&self.file).map_or(0, |stat| u64::try_from(stat.st_blocks).unwrap_or(0) * 512)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, FreePlaces> {
        // Its functions do not panic between two changes that belong together.
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pages {
    /// The bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: the range lies inside the mapping (`FreePlaces` gives out no other) and has been given to this value alone, whose bytes were
        // written before it was returned. Nothing writes to them until its drop, which no borrow outlives; no other process has the file.
        unsafe { self.memory.mapping.slice(self.start as usize, self.len) }
    }

    /// The file, and where in it the bytes begin.
    pub(crate) fn file(&self) -> (BorrowedFd<'_>, u64) {
        (self.memory.file.as_fd(), self.start)
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        let len = (self.len as u64).next_multiple_of(PAGE);
        // Whole pages leave the file with what is in them; bytes of theirs that a socket still has are not touched.
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        let is_free =
            rustix::io::retry_on_intr(|| rustix::fs::fallocate(&self.memory.file, flags, self.start, len));
        // Pages that the kernel does not take back must not be written again: a socket may still send from them.
        if is_free.is_ok() {
            self.memory.lock().give_back(self.start, len);
        }
    }
}

/// The file in the address space, to be read.
#[derive(Debug)]
struct MappedFile {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: it is a range of addresses that stays valid until it is dropped, whichever thread reads from it.
unsafe impl Send for MappedFile {}
// SAFETY: as above; nothing is written through it.
unsafe impl Sync for MappedFile {}

impl MappedFile {
    fn new(file: BorrowedFd<'_>, len: usize) -> io::Result<Self> {
        // SAFETY: a new mapping at an address of the kernel's choice overlaps no other; the descriptor is open for the call, and the mapping
        // does not need it afterwards.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                len,
                libc::PROT_READ,
                libc::MAP_SHARED | libc::MAP_NORESERVE,
                file.as_raw_fd(),
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::InvalidData)?;
        Ok(Self { start, len })
    }

    /// # Safety
    /// The range lies inside, and its bytes do not change for the life of the slice.
    unsafe fn slice(&self, start: usize, len: usize) -> &[u8] {
        debug_assert!(start + len <= self.len, "only what is mapped is read");
        // SAFETY: what is mapped is readable, the file is as long as the mapping, and the caller promises the rest.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr().add(start), len) }
    }
}

impl Drop for MappedFile {
    fn drop(&mut self) {
        // SAFETY: exactly what `new` has mapped; no slice outlives the borrow of this value.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.len) };
    }
}

/// The places that are free: where they begin, and their lengths. None borders on another.
#[derive(Debug)]
struct FreePlaces {
    by_start: BTreeMap<u64, u64>,
    /// Where the last search ended: the next begins there, so that the places in front of it have time to grow together.
    next: u64,
}

impl FreePlaces {
    fn new(len: u64) -> Self {
        Self { by_start: BTreeMap::from([(0, len)]), next: 0 }
    }

    fn take(&mut self, len: u64) -> Option<u64> {
        let len = len.next_multiple_of(PAGE).max(PAGE);
        let behind = self.by_start.range(self.next..).chain(self.by_start.range(..self.next));
        let (&start, &free) = behind.take(PLACES_TRIED).find(|(_, free)| **free >= len)?;
        self.by_start.remove(&start);
        if free > len {
            self.by_start.insert(start + len, free - len);
        }
        self.next = start + len;
        Some(start)
    }

    fn give_back(&mut self, start: u64, len: u64) {
        let (mut start, mut len) = (start, len);
        if let Some((&before, &free)) = self.by_start.range(..start).next_back()
            && before + free == start
        {
            self.by_start.remove(&before);
            (start, len) = (before, free + len);
        }
        if let Some(free) = self.by_start.remove(&(start + len)) {
            len += free;
        }
        self.by_start.insert(start, len);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_read_in_memory_and_in_the_file() {
        let memory = PageMemory::new(1 << 20).expect("the system has such files");
        let one = memory.keep(&[b"first ", b"piece"]).expect("there is room");
        let other = memory.keep(&[&[7; 5_000]]).expect("there is room");
        assert_eq!(one.bytes(), b"first piece");
        assert_eq!(other.bytes(), [7; 5_000]);
        let (file, start) = other.file();
        let mut read = [0; 5_001];
        assert_eq!(rustix::io::pread(file, &mut read, start), Ok(5_001));
        assert_eq!((read[0], read[4_999], read[5_000]), (7, 7, 0));
    }

    #[test]
    fn what_is_dropped_takes_no_memory_and_its_place_is_used_again() {
        let memory = PageMemory::new(16 * PAGE).expect("the system has such files");
        let blocks = |memory: &PageMemory| rustix::fs::fstat(&memory.file).expect("it is open").st_blocks;
        for round in 0..100_u8 {
            let kept: Vec<Pages> =
                (0..4).map(|_| memory.keep(&[&[round; 4 * PAGE as usize]]).expect("there is room")).collect();
            assert!(memory.keep(&[b"more"]).is_none(), "all of it is in use");
            assert!(kept.iter().all(|pages| pages.bytes().iter().all(|byte| *byte == round)));
        }
        assert_eq!(blocks(&memory), 0);
        assert_eq!(memory.lock().by_start, BTreeMap::from([(0, 16 * PAGE)]));
    }

    #[test]
    fn places_grow_together_whatever_the_order() {
        let mut places = FreePlaces::new(10 * PAGE);
        let taken: Vec<u64> = (0..5).map(|_| places.take(2 * PAGE).expect("there is room")).collect();
        assert_eq!((places.take(1), places.by_start.len()), (None, 0));
        for index in [1, 3, 2, 4, 0] {
            places.give_back(taken[index], 2 * PAGE);
        }
        assert_eq!(places.by_start, BTreeMap::from([(0, 10 * PAGE)]));
        assert_eq!(places.take(10 * PAGE), Some(0));
    }
}
