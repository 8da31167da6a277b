//! The program and its libraries, as they lie in memory.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use object::{Object as _, ObjectSection as _, ObjectSegment as _, ReadCache, ReadRef};

use super::maps::{Mapping, mapping};

/// The code that the kernel lends to every process.
const VDSO: &str = "[vdso]";

/// What the kernel says of a file that is gone, at the end of its name.
const DELETED: &str = " (deleted)";

/// Largest piece of memory that is taken for the kernel's code.
const VDSO_BYTES_MAX: u64 = 1 << 20;

/// The file of the program, whatever is at its path by now.
const PROGRAM: &str = "/proc/self/exe";

/// Code in memory that belongs together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Image {
    /// The last part of its path.
    pub(super) name: String,
    /// Where it can be read; `None`: only in memory, or gone.
    pub(super) path: Option<PathBuf>,
    pub(super) range: Range<u64>,
    /// What is added to an address in the file to have the one in memory.
    pub(super) bias: u64,
    /// Its bytes, of what has no file.
    pub(super) bytes: Vec<u8>,
}

impl Image {
    /// All of this process.
    ///
    /// # Errors
    /// When `/proc` cannot be read.
    pub(super) fn all() -> io::Result<Vec<Self>> {
        let program = std::fs::read_link(PROGRAM)?;
        let maps = std::fs::read_to_string("/proc/self/maps")?;
        let mappings: Vec<Mapping> = maps.lines().filter_map(mapping).collect();
        Ok(group(&mappings).into_iter().filter_map(|mappings| Self::new(&mappings, &program)).collect())
    }

    /// The image that the mappings of one file make up; `None` when none of them is code.
    fn new(mappings: &[&Mapping], program: &Path) -> Option<Self> {
        let code = mappings.iter().find(|mapping| mapping.is_executable)?;
        let range = mappings.first()?.range.start..mappings.last()?.range.end;
        let path = path_of(&code.name, program);
        let mut image = Self {
            name: code.name.rsplit('/').next().unwrap_or_default().trim_end_matches(DELETED).to_owned(),
            path: code.has_file.then_some(path).flatten(),
            bias: range.start,
            range,
            bytes: Vec::new(),
        };
        if code.name == VDSO {
            image.bytes = read_memory(&image.range).unwrap_or_default();
        } else if image.path.is_none() {
            return None;
        }
        image.bias = image.with_file(|file| bias_of(code, file)).flatten().unwrap_or(image.bias);
        Some(image)
    }

    /// Reads it as an ELF file; `None` when it is not one.
    pub(super) fn with_file<T>(&self, read: impl FnOnce(&dyn ElfImage) -> T) -> Option<T> {
        let Some(path) = &self.path else {
            return Some(read(&object::File::parse(&*self.bytes).ok()?));
        };
        let cache = ReadCache::new(File::open(path).ok()?);
        let file = object::File::parse(&cache).ok()?;
        Some(read(&file))
    }
}

/// What is wanted of an ELF file, wherever its bytes are.
pub(super) trait ElfImage {
    /// Where a section is, by the addresses of the file, and what it holds.
    fn section(&self, name: &str) -> Option<(Range<u64>, Vec<u8>)>;
    /// Where a section is, by the addresses of the file.
    fn section_range(&self, name: &str) -> Option<Range<u64>>;
    /// Address, and place in the file, of each segment.
    fn segments(&self) -> Vec<(u64, Range<u64>)>;
}

impl<'a, R: ReadRef<'a>> ElfImage for object::File<'a, R> {
    fn section(&self, name: &str) -> Option<(Range<u64>, Vec<u8>)> {
        let data = self.section_by_name(name)?.data().ok()?.to_vec();
        Some((self.section_range(name)?, data))
    }

    fn section_range(&self, name: &str) -> Option<Range<u64>> {
        let section = self.section_by_name(name)?;
        Some(section.address()..section.address().saturating_add(section.size()))
    }

    fn segments(&self) -> Vec<(u64, Range<u64>)> {
        let place = |(offset, size): (u64, u64)| offset..offset.saturating_add(size);
        object::Object::segments(self)
            .map(|segment| (segment.address(), place(segment.file_range())))
            .collect()
    }
}

/// What is added to the addresses of a file for the place where its code is mapped.
fn bias_of(code: &Mapping, file: &dyn ElfImage) -> Option<u64> {
    /// The kernel maps whole pages; 64 KiB is the largest one there is.
    const PAGE_MAX: u64 = 64 * 1024;
    let within = |range: &Range<u64>| range.start <= code.offset + PAGE_MAX && code.offset < range.end;
    let segments = file.segments();
    // Of several that could be it, the one that begins closest.
    let (address, range) = segments
        .into_iter()
        .filter(|(_, range)| within(range))
        .min_by_key(|(_, range)| range.start.abs_diff(code.offset))?;
    Some(code.range.start.wrapping_sub(code.offset).wrapping_add(range.start).wrapping_sub(address))
}

/// The mappings of each file, in order; those that belong together follow each other, but for the memory behind a file.
fn group(mappings: &[Mapping]) -> Vec<Vec<&Mapping>> {
    let mut groups: Vec<Vec<&Mapping>> = Vec::new();
    for mapping in mappings.iter().filter(|mapping| mapping.has_file || mapping.name == VDSO) {
        match groups.last_mut() {
            Some(group) if group[0].name == mapping.name => group.push(mapping),
            _ => groups.push(vec![mapping]),
        }
    }
    groups
}

fn path_of(name: &str, program: &Path) -> Option<PathBuf> {
    if Path::new(name) == program || Path::new(name.trim_end_matches(DELETED)) == program {
        return Some(PROGRAM.into());
    }
    // What is at the path now would be something else.
    (!name.ends_with(DELETED)).then(|| name.into())
}

fn read_memory(range: &Range<u64>) -> io::Result<Vec<u8>> {
    let len = range.end.saturating_sub(range.start).min(VDSO_BYTES_MAX);
    let mut bytes = vec![0; len as usize];
    File::open("/proc/self/mem")?.read_exact_at(&mut bytes, range.start)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_program_is_where_its_functions_are() {
        let here = this_program_is_where_its_functions_are as fn() as usize as u64;
        let images = Image::all().unwrap();
        let own = images.iter().find(|image| image.range.contains(&here)).unwrap();
        assert_eq!(own.path.as_deref(), Some(Path::new(PROGRAM)));
        let text = own.with_file(|file| file.section(".text")).flatten().unwrap().0;
        assert!(text.contains(&here.wrapping_sub(own.bias)), "{here:x} {:x} {text:x?}", own.bias);
        assert!(images.iter().any(|image| image.name == VDSO && image.with_file(|_| ()).is_some()));
    }

    #[test]
    fn a_file_that_was_replaced_is_not_read() {
        let program = Path::new("/usr/bin/weir (deleted)");
        assert_eq!(path_of("/usr/bin/weir (deleted)", program), Some(PROGRAM.into()));
        assert_eq!(path_of("/usr/lib/libc.so.6 (deleted)", program), None);
        assert_eq!(path_of("/usr/lib/libc.so.6", program), Some("/usr/lib/libc.so.6".into()));
    }
}
