//! Paths below a folder, resolved name by name: for links that must not lead to hidden names, which the kernel does not look at, and for systems that
//! refuse `openat2(2)`, as units of systemd with `RestrictSUIDSGID=` and some containers do.
//!
//! Each name is opened without following a link, in the folder before it. Links are followed here, and `..` goes back to the folder that was
//! opened before, so that no link and no race leads outside. Several system calls, any of which may wait for a disk.

use std::collections::VecDeque;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;

/// Links on one way, as many as the kernel follows.
const LINKS_MAX: usize = 40;

/// Which links are followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LinkRule {
    /// None.
    Never,
    /// Those that stay in the folder.
    Inside,
    /// Of those, the ones whose way has no hidden name.
    InsideShown,
}

/// Whether a name on the way of a link is hidden. Those with two dots in front are how volumes of Kubernetes (`..data`) change all their files at once:
/// no URL names them, and what is in them is what the volume shows.
fn is_hidden(name: &[u8], depth: usize) -> bool {
    name.starts_with(b".") && !name.starts_with(b"..") && !(depth == 0 && name == b".well-known")
}

/// Opens what is at `path` below `root`, as `openat2(2)` with `RESOLVE_BENEATH` does; with `LinkRule::Never` as with `RESOLVE_NO_SYMLINKS`, too.
///
/// # Errors
/// Those of `openat2(2)`: `XDEV` for a way that leads outside, `LOOP` for a link that is not followed. `NOENT` for a hidden name behind a link.
pub(in crate::net) fn open_beneath(
    root: BorrowedFd<'_>,
    path: &[u8],
    flags: OFlags,
    rule: LinkRule,
) -> Result<OwnedFd, Errno> {
    let mut names = names_of(path)?;
    let mut folders: Vec<OwnedFd> = Vec::new();
    let mut links = 0;
    while let Some(name) = names.pop_front() {
        let here = folders.last().map_or(root, |folder| folder.as_fd());
        match &name[..] {
            b"" | b"." => continue,
            b".." => {
                folders.pop().ok_or(Errno::XDEV)?;
                continue;
            }
            // Names of the path itself have been looked at where it was read.
            _ if links > 0 && rule == LinkRule::InsideShown && is_hidden(&name, folders.len()) => {
                return Err(Errno::NOENT);
            }
            _ => {}
        }
        let found = rustix::fs::openat(
            here,
            &name[..],
            OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC,
            Mode::empty(),
        )?;
        match FileType::from_raw_mode(rustix::fs::fstat(&found)?.st_mode) {
            FileType::Symlink => {
                links += 1;
                if rule == LinkRule::Never || links > LINKS_MAX {
                    return Err(Errno::LOOP);
                }
                let target = rustix::fs::readlinkat(&found, "", Vec::new())?;
                let mut there = names_of(target.as_bytes())?;
                there.append(&mut names);
                names = there;
            }
            FileType::Directory => folders.push(found),
            // Opened by its name again, since not every flag can be had from a descriptor; a link that has come there meanwhile is refused.
            _ if names.is_empty() => {
                return rustix::fs::openat(here, &name[..], flags | OFlags::NOFOLLOW, Mode::empty());
            }
            _ => return Err(Errno::NOTDIR),
        }
    }
    let here = folders.last().map_or(root, |folder| folder.as_fd());
    rustix::fs::openat(here, ".", flags, Mode::empty())
}

/// The names on the way. One that begins at the root of the system leads outside.
fn names_of(path: &[u8]) -> Result<VecDeque<Vec<u8>>, Errno> {
    match path {
        [] => Err(Errno::NOENT),
        [b'/', ..] => Err(Errno::XDEV),
        _ => Ok(path.split(|byte| *byte == b'/').map(<[u8]>::to_vec).collect()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::path::Path;

    use rustix::fs::{CWD, ResolveFlags};

    use super::*;

    const FILE: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::CLOEXEC);

    fn folder(path: &Path) -> OwnedFd {
        rustix::fs::openat(CWD, path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
            .unwrap()
    }

    /// Which file it is.
    fn inode(opened: Result<OwnedFd, Errno>) -> Result<u64, Errno> {
        opened.and_then(|fd| Ok(rustix::fs::fstat(fd)?.st_ino))
    }

    #[test]
    fn a_path_leads_where_it_leads_with_the_kernel() {
        let outside = tempfile::tempdir().unwrap();
        let root = outside.path().join("root");
        std::fs::create_dir_all(root.join("a/b")).unwrap();
        for file in ["secret", "root/file", "root/a/file", "root/a/b/file"] {
            std::fs::write(outside.path().join(file), file).unwrap();
        }
        for (link, target) in [
            ("in", "a/b"),
            ("file-in", "a/file"),
            ("up", "a/../file"),
            ("a/b/back", "../../file"),
            ("out", "../secret"),
            ("a/out", "../../secret"),
            ("absolute", "/etc/passwd"),
            ("to-itself", "to-itself"),
            ("dangling", "nothing"),
            ("twice", "in/back"),
            ("here", "."),
        ] {
            symlink(target, root.join(link)).unwrap();
        }
        let fd = folder(&root);
        let paths = [
            ".",
            "file",
            "file/",
            "a",
            "a/",
            "a/b/file",
            "a//b/./file",
            "a/../file",
            "..",
            "../secret",
            "a/../../secret",
            "in/file",
            "in",
            "file-in",
            "file-in/",
            "up",
            "a/b/back",
            "out",
            "a/out",
            "absolute",
            "/etc/passwd",
            "to-itself",
            "dangling",
            "twice",
            "here/file",
            "in/../file",
            "nothing",
            "file/x",
            "in/../../file",
            "here/here/a/file",
        ];
        for rule in [LinkRule::Inside, LinkRule::InsideShown, LinkRule::Never] {
            let links =
                if rule == LinkRule::Never { ResolveFlags::NO_SYMLINKS } else { ResolveFlags::empty() };
            for path in paths {
                let by_kernel =
                    rustix::fs::openat2(&fd, path, FILE, Mode::empty(), ResolveFlags::BENEATH | links);
                let walked = open_beneath(fd.as_fd(), path.as_bytes(), FILE, rule);
                assert_eq!(inode(walked), inode(by_kernel), "{path}, {rule:?}");
            }
        }
    }

    #[test]
    fn a_folder_that_is_moved_away_leads_to_nothing_else() {
        let outside = tempfile::tempdir().unwrap();
        let (root, elsewhere) = (outside.path().join("root"), outside.path().join("elsewhere"));
        std::fs::create_dir_all(root.join("a")).unwrap();
        std::fs::create_dir_all(&elsewhere).unwrap();
        std::fs::write(outside.path().join("secret"), "").unwrap();
        let fd = folder(&root);
        std::fs::rename(root.join("a"), elsewhere.join("a")).unwrap();
        symlink("../elsewhere/a", root.join("a")).unwrap();
        assert_eq!(
            inode(open_beneath(fd.as_fd(), b"a/../../secret", FILE, LinkRule::Inside)),
            Err(Errno::XDEV)
        );
    }
}
