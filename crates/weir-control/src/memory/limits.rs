//! The limits on memory that hold for the process: those of its cgroup and of the groups above it, and the memory of the machine.
//!
//! The files are opened at start, before the root folder may change, and read again and again. Must not decide anything.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use weir_config::MemoryMax;
use weir_observe::CgroupStats;

/// The part of a limit that is not Weir's, by default: files that the kernel keeps, programs beside it, what grows between two looks.
const LEFT_ONE_IN: u64 = 8;

/// The part of the limit of a cgroup that all its processes leave.
const LEFT_OF_CGROUP_ONE_IN: u64 = 16;

/// The budget of the process where `limit` bounds it.
pub(super) fn budget(wanted: Option<MemoryMax>, limit: u64) -> Option<u64> {
    match wanted? {
        MemoryMax::Exactly(size) => Some(size.bytes()),
        MemoryMax::Auto => Some(limit - limit / LEFT_ONE_IN),
    }
}

/// What all processes of a cgroup may use before Weir frees memory as if its own budget were used up.
pub(super) fn budget_of_cgroup(max: u64) -> u64 {
    max - max / LEFT_OF_CGROUP_ONE_IN
}

/// The memory of the machine.
pub(super) fn machine_bytes() -> u64 {
    let info = rustix::system::sysinfo();
    (info.totalram as u64).saturating_mul(u64::from(info.mem_unit.max(1)))
}

/// The groups that the process is in, from its own up to the root.
#[derive(Debug, Default)]
pub(crate) struct CgroupFiles(Vec<CgroupLevel>);

/// The files of one group.
#[derive(Debug)]
struct CgroupLevel {
    limit: File,
    used: File,
    stat: File,
    /// The lines of `stat` that name what the kernel can take back.
    reclaimable: &'static [&'static str],
}

/// How a version of cgroups names its files (cgroups(7)).
struct CgroupNames {
    limit: &'static str,
    used: &'static str,
    reclaimable: &'static [&'static str],
}

const VERSION_2: CgroupNames = CgroupNames {
    limit: "memory.max",
    used: "memory.current",
    reclaimable: &["inactive_file", "active_file", "slab_reclaimable"],
};

const VERSION_1: CgroupNames = CgroupNames {
    limit: "memory.limit_in_bytes",
    used: "memory.usage_in_bytes",
    reclaimable: &["total_inactive_file", "total_active_file"],
};

impl CgroupFiles {
    /// Those of this process.
    pub(crate) fn open() -> Self {
        let groups = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        Self::below(Path::new("/sys/fs/cgroup"), &groups)
    }

    /// `groups` is what `/proc/self/cgroup` says.
    fn below(root: &Path, groups: &str) -> Self {
        let mut levels = Vec::new();
        for line in groups.lines() {
            let mut fields = line.splitn(3, ':').skip(1);
            let (Some(controllers), Some(group)) = (fields.next(), fields.next()) else { continue };
            match controllers {
                "" => add_levels(&mut levels, root, group, &VERSION_2),
                _ if controllers.split(',').any(|controller| controller == "memory") => {
                    add_levels(&mut levels, &root.join("memory"), group, &VERSION_1);
                }
                _ => {}
            }
        }
        Self(levels)
    }

    /// The group whose limit is the least, and what its processes use; `None` where no group has a limit.
    pub(super) fn read(&self) -> Option<CgroupStats> {
        let limits = self.0.iter().filter_map(|level| Some((number(&text(&level.limit)?)?, level)));
        let (max_bytes, level) = limits.min_by_key(|(limit, _)| *limit)?;
        let (used, stat) = (number(&text(&level.used)?)?, text(&level.stat)?);
        let reclaimable = level.reclaimable.iter().filter_map(|name| line_of(&stat, name)).sum();
        Some(CgroupStats { used_bytes: used.saturating_sub(reclaimable), max_bytes })
    }
}

/// Adds a group and those above it. Where the group is not to be seen, as in some containers, the root of the tree is the own group.
fn add_levels(levels: &mut Vec<CgroupLevel>, root: &Path, group: &str, names: &CgroupNames) {
    let mut path: PathBuf = root.join(group.trim_start_matches('/'));
    if !path.is_dir() {
        path = root.to_owned();
    }
    loop {
        let open = |name: &str| File::open(path.join(name)).ok();
        if let (Some(limit), Some(used), Some(stat)) =
            (open(names.limit), open(names.used), open("memory.stat"))
        {
            levels.push(CgroupLevel { limit, used, stat, reclaimable: names.reclaimable });
        }
        if path == root || !path.pop() {
            return;
        }
    }
}

/// All of a small file, from its beginning.
pub(super) fn text(file: &File) -> Option<String> {
    let mut bytes = vec![0; 8 * 1024];
    let mut len = 0;
    loop {
        match file.read_at(&mut bytes[len..], len as u64).ok()? {
            0 => break,
            more => len += more,
        }
        if len == bytes.len() {
            bytes.resize(2 * len, 0);
        }
    }
    bytes.truncate(len);
    String::from_utf8(bytes).ok()
}

/// A limit or a sum; `None`: no limit, which version 1 writes as a number beyond any memory.
fn number(text: &str) -> Option<u64> {
    text.trim().parse().ok().filter(|number| *number < 1 << 60)
}

/// The value of a line `name value`.
fn line_of(text: &str, name: &str) -> Option<u64> {
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?;
    value.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// A folder of its own, removed at the end.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("weir-{name}-{}", std::process::id()));
            fs::create_dir_all(&path).unwrap();
            Self(path)
        }

        fn group(&self, path: &str, files: [(&str, &str); 3]) {
            let folder = self.0.join(path);
            fs::create_dir_all(&folder).unwrap();
            for (name, text) in files {
                fs::write(folder.join(name), text).unwrap();
            }
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _gone = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn the_least_limit_of_all_groups_counts_with_what_is_used_there() {
        let root = Folder::new("cgroup2");
        let stat = "anon 500\ninactive_file 100\nactive_file 20\nslab_reclaimable 3\nslab 9\n";
        root.group("a/b", [("memory.max", "max\n"), ("memory.current", "700\n"), ("memory.stat", stat)]);
        root.group("a", [("memory.max", "4096\n"), ("memory.current", "1000\n"), ("memory.stat", stat)]);
        root.group("", [("memory.max", "8192\n"), ("memory.current", "5000\n"), ("memory.stat", stat)]);
        let files = CgroupFiles::below(&root.0, "0::/a/b\n");
        assert_eq!(files.read(), Some(CgroupStats { used_bytes: 877, max_bytes: 4096 }));
        fs::write(root.0.join("a/memory.max"), "max\n").unwrap();
        assert_eq!(files.read(), Some(CgroupStats { used_bytes: 4877, max_bytes: 8192 }), "it has changed");
        let elsewhere = CgroupFiles::below(&root.0, "0::/not/seen\n");
        assert_eq!(elsewhere.read().map(|read| read.max_bytes), Some(8192), "the root is its own");
    }

    #[test]
    fn version_1_has_other_names_and_a_number_for_no_limit() {
        let root = Folder::new("cgroup1");
        let none = "9223372036854771712\n";
        let files = |limit: &'static str| {
            let stat = "inactive_file 1\ntotal_inactive_file 30\ntotal_active_file 20\n";
            [("memory.limit_in_bytes", limit), ("memory.usage_in_bytes", "100\n"), ("memory.stat", stat)]
        };
        root.group("memory/x", files(none));
        root.group("memory", files(none));
        let groups = "5:cpu,cpuacct:/y\n4:memory:/x\n0::/\n";
        assert_eq!(CgroupFiles::below(&root.0, groups).read(), None);
        root.group("memory/x", files("2000\n"));
        let read = CgroupFiles::below(&root.0, groups).read();
        assert_eq!(read, Some(CgroupStats { used_bytes: 50, max_bytes: 2000 }));
    }

    #[test]
    fn an_eighth_is_left_by_default() {
        let exactly = MemoryMax::Exactly(weir_config::Size::from_bytes(77));
        let budgets = [None, Some(exactly), Some(MemoryMax::Auto)].map(|wanted| budget(wanted, 1600));
        assert_eq!((budgets, budget_of_cgroup(1600)), ([None, Some(77), Some(1400)], 1500));
        assert!(machine_bytes() > 1 << 20);
    }
}
