//! Reads `/proc/self/maps`: what is mapped where (proc_pid_maps(5)). Pure.

use std::ops::Range;

/// A mapping.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mapping {
    pub(super) range: Range<u64>,
    pub(super) is_writable: bool,
    pub(super) is_executable: bool,
    pub(super) is_shared: bool,
    /// Where in its file it begins.
    pub(super) offset: u64,
    /// Whether there is a file behind it.
    pub(super) has_file: bool,
    /// Its file, or what the kernel calls it; empty for memory without a name.
    pub(super) name: String,
}

/// The mapping that a line tells of; `None` when the line is something else.
pub(super) fn mapping(line: &str) -> Option<Mapping> {
    let mut rest = line;
    let mut word = || {
        let (word, after) = rest.split_once(' ').unwrap_or((rest, ""));
        rest = after.trim_start_matches(' ');
        word
    };
    let (range, rights, offset, _device, inode) = (word(), word(), word(), word(), word());
    let hex = |digits: &str| u64::from_str_radix(digits, 16).ok();
    let (low, high) = range.split_once('-')?;
    let [_, write, execute, share] = *rights.as_bytes() else { return None };
    Some(Mapping {
        range: hex(low)?..hex(high)?,
        is_writable: write == b'w',
        is_executable: execute == b'x',
        is_shared: share == b's',
        offset: hex(offset)?,
        has_file: inode.parse::<u64>().ok()? != 0,
        name: rest.trim_end().to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_kernel_are_read() {
        let line = "55d0c0a2b000-55d0c0b4f000 r-xp 00021000 fe:00 123456                     /usr/bin/my weir (deleted)";
        let expected = Mapping {
            range: 0x55d0_c0a2_b000..0x55d0_c0b4_f000,
            is_writable: false,
            is_executable: true,
            is_shared: false,
            offset: 0x21000,
            has_file: true,
            name: "/usr/bin/my weir (deleted)".into(),
        };
        assert_eq!(mapping(line), Some(expected));
        let line = "7f1e10000000-7f1e10021000 rw-s 00000000 00:00 0 ";
        let read = mapping(line).unwrap();
        assert!(read.is_shared && read.is_writable && !read.has_file && read.name.is_empty(), "{read:?}");
    }

    #[test]
    fn other_lines_are_none() {
        for line in [
            "",
            "Rss:      4 kB",
            "1-2",
            "x-y rw-p 0 0:0 0",
            "1-2 rw 0 0:0 0",
            "VmFlags: rd ex mr mw me dw sd",
        ] {
            assert_eq!(mapping(line), None, "{line}");
        }
    }
}
