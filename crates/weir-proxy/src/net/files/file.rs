//! Files below a folder: opened without ever leading out of it, read without the event loop waiting for a disk.
//!
//! What the kernel has in memory is used at once; for anything else a thread of its own waits. A path is resolved by the kernel
//! (`openat2(2)`, `RESOLVE_BENEATH`), so that no symbolic link and no race leads outside; where the system refuses that call, name by name.

use std::cell::Cell;
use std::io::{self, IoSliceMut};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags, Stat};
use rustix::io::{Errno, ReadWriteFlags};
use tokio::task::JoinHandle;

use super::walk;
pub(crate) use super::walk::LinkRule;

/// `RESOLVE_CACHED` (Linux 5.12): the path is resolved only if nothing has to be read for it.
const RESOLVE_CACHED: ResolveFlags = ResolveFlags::from_bits_retain(0x20);

/// The file system in memory, as `statfs(2)` calls it: it never waits for a disk, but does not say so.
const TMPFS_MAGIC: u64 = 0x0102_1994;

/// What a thread reads at a time so that the event loop finds it in memory.
const READ_AHEAD: u64 = 512 * 1024;

/// How often a path is resolved again that has changed meanwhile.
const RESOLVE_TRIES: usize = 4;

/// Whether a call may wait for a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MayWait {
    /// On a worker.
    No,
    /// On a thread that has nothing else to do.
    Yes,
}

/// What is at a path.
#[derive(Debug)]
pub(crate) enum FolderEntry {
    File(DiskFile),
    Folder(OwnedFd),
}

/// Why there is nothing to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OpenError {
    /// The answer is on the disk.
    WouldWait,
    /// Nothing is there, or nothing that may be sent: a device, a link that leads outside.
    Missing,
    /// The process may not read it.
    Forbidden,
    /// The system has failed.
    Failed(Errno),
}

/// What tells one state of a file from another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileState {
    device: u64,
    inode: u64,
    pub(crate) len: u64,
    /// Time of the last change, in nanoseconds since 1970.
    pub(crate) modified: i128,
    /// Time of the last change of the file or of what is known of it.
    pub(crate) changed: i128,
}

/// An open file.
#[derive(Debug)]
pub(crate) struct DiskFile {
    fd: Arc<OwnedFd>,
    pub(crate) state: FileState,
    reading: Cell<ReadMode>,
}

/// How a file can be read without waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReadMode {
    /// The kernel says when it would wait.
    Tried,
    /// It never waits.
    InMemory,
    /// The kernel does not say: a thread reads everything first.
    Unknown,
}

/// A folder whose files may be opened.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FolderRoot<'a> {
    pub(crate) path: &'a Path,
    pub(crate) links: LinkRule,
}

impl FolderRoot<'_> {
    /// Opens what is at `path` below the folder; an empty path is the folder itself.
    pub(crate) fn open(&self, path: &[u8], may_wait: MayWait) -> Result<FolderEntry, OpenError> {
        let cached = if may_wait == MayWait::Yes { ResolveFlags::empty() } else { RESOLVE_CACHED };
        // Resolved anew each time: the folder itself may be a link that a deployment moves.
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = resolve(CWD, self.path, flags, (cached, LinkRule::Inside), may_wait)?;
        let path = if path.is_empty() { &b"."[..] } else { path };
        let rules = (self.rules() | cached, self.links);
        // A FIFO without a writer must not hold the call up, nor a terminal take the process over.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let fd = resolve(root.as_fd(), path, flags, rules, may_wait)?;
        let stat = rustix::fs::fstat(&fd).map_err(OpenError::Failed)?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => {
                let reading = Cell::new(ReadMode::Tried);
                Ok(FolderEntry::File(DiskFile { fd: Arc::new(fd), state: FileState::new(&stat), reading }))
            }
            FileType::Directory => Ok(FolderEntry::Folder(fd)),
            _ => Err(OpenError::Missing),
        }
    }
}

impl FolderRoot<'_> {
    /// Whether `path` below the folder is a file, which need not be readable: a program runs it.
    pub(crate) fn is_file(&self, path: &[u8], may_wait: MayWait) -> Result<bool, OpenError> {
        let cached = if may_wait == MayWait::Yes { ResolveFlags::empty() } else { RESOLVE_CACHED };
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = resolve(CWD, self.path, flags, (cached, LinkRule::Inside), may_wait)?;
        let rules = (self.rules() | cached, self.links);
        let fd = resolve(root.as_fd(), path, OFlags::PATH | OFlags::CLOEXEC, rules, may_wait)?;
        let stat = rustix::fs::fstat(&fd).map_err(OpenError::Failed)?;
        Ok(FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile)
    }

    fn rules(&self) -> ResolveFlags {
        // The kernel follows links to hidden names: where these are not to be followed, it tells that there is one.
        let links = match self.links {
            LinkRule::Inside => ResolveFlags::empty(),
            LinkRule::Never | LinkRule::InsideShown => ResolveFlags::NO_SYMLINKS,
        };
        ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS | links
    }
}

fn resolve(
    at: BorrowedFd<'_>,
    path: impl rustix::path::Arg + Copy,
    flags: OFlags,
    (rules, links): (ResolveFlags, LinkRule),
    may_wait: MayWait,
) -> Result<OwnedFd, OpenError> {
    for _ in 0..RESOLVE_TRIES {
        match rustix::fs::openat2(at, path, flags, Mode::empty(), rules).or_else(|error| {
            match (error, may_wait) {
                // The system refuses the call, whatever it is about; or there is a link on the way, that the kernel must not follow alone.
                (Errno::NOSYS, _) => resolve_by_names(at, path, flags, (rules, links), may_wait),
                (Errno::LOOP, _) if links == LinkRule::InsideShown => {
                    resolve_by_names(at, path, flags, (rules, links), may_wait)
                }
                _ => Err(error),
            }
        }) {
            Ok(fd) => return Ok(fd),
            Err(Errno::INTR) => {}
            // A folder on the way was renamed meanwhile.
            Err(Errno::AGAIN) if may_wait == MayWait::Yes => {}
            // A kernel that does not know `RESOLVE_CACHED`.
            Err(Errno::AGAIN | Errno::INVAL) if may_wait == MayWait::No => return Err(OpenError::WouldWait),
            Err(Errno::ACCESS | Errno::PERM) => return Err(OpenError::Forbidden),
            Err(
                Errno::NOENT
                | Errno::NOTDIR
                | Errno::NAMETOOLONG
                | Errno::LOOP
                | Errno::XDEV
                | Errno::NXIO
                | Errno::NODEV
                | Errno::INVAL,
            ) => return Err(OpenError::Missing),
            Err(errno) => return Err(OpenError::Failed(errno)),
        }
    }
    Err(OpenError::Missing)
}

#[cold]
fn resolve_by_names(
    at: BorrowedFd<'_>,
    path: impl rustix::path::Arg,
    flags: OFlags,
    (rules, links): (ResolveFlags, LinkRule),
    may_wait: MayWait,
) -> Result<OwnedFd, Errno> {
    if may_wait == MayWait::No {
        return Err(Errno::AGAIN);
    }
    if !rules.contains(ResolveFlags::BENEATH) {
        return rustix::fs::openat(at, path, flags, Mode::empty());
    }
    let path = path.into_c_str()?;
    walk::open_beneath(at, path.to_bytes(), flags, links)
}

impl FileState {
    fn new(stat: &Stat) -> Self {
        let nanos = |seconds: i64, nanos: u64| i128::from(seconds) * 1_000_000_000 + i128::from(nanos);
        Self {
            device: stat.st_dev,
            inode: stat.st_ino,
            len: u64::try_from(stat.st_size).unwrap_or(0),
            modified: nanos(stat.st_mtime, stat.st_mtime_nsec),
            changed: nanos(stat.st_ctime, stat.st_ctime_nsec),
        }
    }
}

impl DiskFile {
    /// A temporary file, of which only the bytes matter.
    pub(crate) fn of_temporary(fd: &Arc<OwnedFd>) -> Self {
        let state = FileState { device: 0, inode: 0, len: 0, modified: 0, changed: 0 };
        Self { fd: Arc::clone(fd), state, reading: Cell::new(ReadMode::Tried) }
    }

    /// Reads at `offset` what is in memory; `WouldBlock` when that is nothing.
    pub(crate) fn read_at_once(&self, space: &mut [u8], offset: u64) -> io::Result<usize> {
        loop {
            let outcome = match self.reading.get() {
                ReadMode::Tried => {
                    let mut slices = [IoSliceMut::new(space)];
                    rustix::io::preadv2(&self.fd, &mut slices, offset, ReadWriteFlags::NOWAIT)
                }
                ReadMode::InMemory => rustix::io::pread(&self.fd, &mut *space, offset),
                ReadMode::Unknown => return Err(io::ErrorKind::WouldBlock.into()),
            };
            match outcome {
                Ok(len) => return Ok(len),
                Err(Errno::INTR) => {}
                Err(Errno::OPNOTSUPP) if self.reading.get() == ReadMode::Tried => self.settle_mode(),
                Err(errno) => return Err(errno.into()),
            }
        }
    }

    /// The file system does not say whether a read would wait.
    #[cold]
    fn settle_mode(&self) {
        let is_memory = rustix::fs::fstatfs(&self.fd).is_ok_and(|system| system.f_type as u64 == TMPFS_MAGIC);
        self.reading.set(if is_memory { ReadMode::InMemory } else { ReadMode::Unknown });
    }

    /// Whether the bytes from `start` to `end` are in memory, as far as their first and last tell.
    pub(crate) fn is_resident(&self, start: u64, end: u64) -> bool {
        let has = |at: u64| self.read_at_once(&mut [0], at).is_ok();
        self.reading.get() == ReadMode::InMemory || (has(start) && has(end.saturating_sub(1).max(start)))
    }

    /// Reads up to `READ_AHEAD` bytes from `offset` on a thread of its own, so that they are in memory.
    pub(crate) fn read_ahead(&self, offset: u64, len: u64) -> DiskWait<io::Result<()>> {
        let (fd, end) = (Arc::clone(&self.fd), offset.saturating_add(len.min(READ_AHEAD)));
        DiskWait::run(move || read_through(&fd, offset, end))
    }

    /// Reads what a thread has just brought to memory; where the kernel does not tell, without asking.
    pub(crate) fn read_after_wait(&self, space: &mut [u8], offset: u64) -> io::Result<usize> {
        match self.reading.get() {
            ReadMode::Unknown => {
                Ok(rustix::io::retry_on_intr(|| rustix::io::pread(&self.fd, &mut *space, offset))?)
            }
            _ => self.read_at_once(space, offset),
        }
    }

    /// Reads the whole; waits for the disk if it may.
    pub(crate) fn read_whole(&self, may_wait: MayWait) -> io::Result<Box<[u8]>> {
        let mut content = vec![0; usize::try_from(self.state.len).unwrap_or(0)];
        let mut filled = 0;
        while filled < content.len() {
            let (space, offset) = (&mut content[filled..], filled as u64);
            let len = match may_wait {
                MayWait::No => self.read_at_once(space, offset)?,
                MayWait::Yes => {
                    rustix::io::retry_on_intr(|| rustix::io::pread(&self.fd, &mut *space, offset))?
                }
            };
            if len == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            filled += len;
        }
        Ok(content.into())
    }

    /// The descriptor, for `sendfile(2)`.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

fn read_through(fd: &OwnedFd, start: u64, end: u64) -> io::Result<()> {
    let mut space = vec![0; 64 * 1024];
    let mut at = start;
    while at < end {
        let len = usize::try_from(end - at).unwrap_or(usize::MAX).min(space.len());
        match rustix::io::retry_on_intr(|| rustix::io::pread(fd, &mut space[..len], at))? {
            0 => break,
            len => at += len as u64,
        }
    }
    Ok(())
}

/// The outcome of something that may wait for a disk, on a thread of its own.
#[derive(Debug)]
pub(crate) struct DiskWait<T>(JoinHandle<T>);

impl<T: Send + 'static> DiskWait<T> {
    /// Begins it.
    pub(crate) fn run(work: impl FnOnce() -> T + Send + 'static) -> Self {
        Self(tokio::task::spawn_blocking(work))
    }

    /// Its outcome.
    ///
    /// # Errors
    /// When it has panicked, or the worker ends.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<T>> {
        let outcome = ready!(Pin::new(&mut self.0).poll(cx));
        Poll::Ready(outcome.map_err(io::Error::other))
    }
}

/// The names of what is in a folder, those of folders with a slash behind them, in order; at most `count_max`, whichever come first.
pub(crate) fn list(folder: &OwnedFd, count_max: usize) -> Result<Vec<Vec<u8>>, OpenError> {
    let entries = rustix::fs::Dir::read_from(folder).map_err(OpenError::Failed)?;
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry.map_err(OpenError::Failed)?;
        let mut name = entry.file_name().to_bytes().to_vec();
        match entry.file_type() {
            FileType::Directory => name.push(b'/'),
            FileType::RegularFile | FileType::Symlink | FileType::Unknown => {}
            _ => continue,
        }
        names.push(name);
        if names.len() >= count_max {
            break;
        }
    }
    names.sort_unstable();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn open(root: &Path, path: &str) -> Result<FolderEntry, OpenError> {
        FolderRoot { path: root, links: LinkRule::InsideShown }.open(path.as_bytes(), MayWait::Yes)
    }

    #[test]
    fn nothing_outside_of_the_folder_is_opened() {
        let place = tempfile::tempdir().expect("there is room");
        let (root, outside) = (place.path().join("root"), place.path().join("outside"));
        std::fs::create_dir_all(root.join("sub")).unwrap();
        std::fs::create_dir(&outside).unwrap();
        std::fs::write(root.join("file"), "in").unwrap();
        std::fs::write(outside.join("secret"), "out").unwrap();
        symlink("../outside/secret", root.join("up")).unwrap();
        symlink(outside.join("secret"), root.join("absolute")).unwrap();
        symlink("../../outside", root.join("sub/folder")).unwrap();
        symlink("file", root.join("inside")).unwrap();
        symlink("loop", root.join("loop")).unwrap();
        symlink("/proc/self/fd/0", root.join("magic")).unwrap();
        rustix::fs::mknodat(CWD, root.join("fifo"), FileType::Fifo, Mode::RUSR, 0).unwrap();
        let _listener = std::os::unix::net::UnixListener::bind(root.join("socket")).unwrap();
        for path in ["file", "inside", "sub/../file"] {
            assert!(matches!(open(&root, path), Ok(FolderEntry::File(_))), "{path}");
        }
        for path in ["", "sub"] {
            assert!(matches!(open(&root, path), Ok(FolderEntry::Folder(_))), "{path}");
        }
        for path in [
            "..",
            "../outside/secret",
            "/etc/passwd",
            "sub/../../outside/secret",
            "up",
            "absolute",
            "sub/folder/secret",
            "loop",
            "magic",
            "fifo",
            "socket",
            "file/x",
            "none",
        ] {
            assert_eq!(open(&root, path).map(|_| ()), Err(OpenError::Missing), "{path}");
        }
        let strict = FolderRoot { path: &root, links: LinkRule::Never };
        assert!(matches!(strict.open(b"inside", MayWait::Yes), Err(OpenError::Missing)));
        let missing = FolderRoot { path: &place.path().join("none"), links: LinkRule::Inside };
        assert!(matches!(missing.open(b"file", MayWait::Yes), Err(OpenError::Missing)));
    }

    #[test]
    fn links_lead_to_nothing_hidden() {
        let place = tempfile::tempdir().expect("there is room");
        let root = place.path();
        for folder in [".git", "sub/.well-known", ".well-known", "..data"] {
            std::fs::create_dir_all(root.join(folder)).unwrap();
            std::fs::write(root.join(folder).join("file"), "").unwrap();
        }
        std::fs::write(root.join(".env"), "").unwrap();
        for (link, target) in [
            ("config", ".git/file"),
            ("repository", ".git"),
            ("sub/env", "../.env"),
            ("twice", "sub/env"),
            ("other", "sub/.well-known/file"),
            ("known", ".well-known/file"),
            ("volume", "..data/file"),
        ] {
            symlink(target, root.join(link)).unwrap();
        }
        let opens = |links, path: &str| {
            let opened = FolderRoot { path: root, links }.open(path.as_bytes(), MayWait::Yes);
            assert_eq!(
                FolderRoot { path: root, links }.is_file(path.as_bytes(), MayWait::Yes).is_ok(),
                opened.is_ok(),
                "{path}"
            );
            opened.is_ok()
        };
        for path in ["config", "repository/file", "sub/env", "twice", "other", "known", "volume"] {
            let is_shown = matches!(path, "known" | "volume");
            let found =
                [LinkRule::Inside, LinkRule::InsideShown, LinkRule::Never].map(|rule| opens(rule, path));
            assert_eq!(found, [true, is_shown, false], "{path}");
        }
        // What a path names itself is decided where it is read.
        assert!(opens(LinkRule::InsideShown, ".env"));
    }

    #[test]
    fn a_file_is_read_in_parts_and_whole() {
        let place = tempfile::tempdir().expect("there is room");
        let content: Vec<u8> = (0..100_000_u32).map(|at| (at % 251) as u8).collect();
        std::fs::write(place.path().join("file"), &content).unwrap();
        let Ok(FolderEntry::File(file)) = open(place.path(), "file") else { panic!("it is a file") };
        assert_eq!(&*file.read_whole(MayWait::Yes).unwrap(), content);
        // What was just written is in memory.
        assert!(file.is_resident(0, file.state.len));
        let mut space = [0; 1000];
        assert_eq!(file.read_at_once(&mut space, 99_500).unwrap(), 500);
        assert_eq!(space[..500], content[99_500..]);
        assert_eq!(file.read_at_once(&mut space, 100_000).unwrap(), 0);
        std::fs::write(place.path().join("file"), "short").unwrap();
        assert!(file.read_whole(MayWait::Yes).is_err(), "it is shorter than it was");
    }

    #[test]
    fn a_folder_is_listed_in_order() {
        let place = tempfile::tempdir().expect("there is room");
        for name in ["b", "a", ".hidden"] {
            std::fs::write(place.path().join(name), "").unwrap();
        }
        std::fs::create_dir(place.path().join("c")).unwrap();
        let Ok(FolderEntry::Folder(folder)) = open(place.path(), "") else { panic!("it is a folder") };
        let names = list(&folder, 100).unwrap();
        let expected: [&[u8]; 6] = [b"../", b"./", b".hidden", b"a", b"b", b"c/"];
        assert_eq!(names, expected);
        assert_eq!(list(&folder, 2).unwrap().len(), 2);
    }
}
