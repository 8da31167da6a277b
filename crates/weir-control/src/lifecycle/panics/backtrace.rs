//! A backtrace as text: one line for each function, with its file and line where the program knows them.
//!
//! A stripped program, as in packages, knows no names: its lines say where in the file of the program the function is, for `addr2line` with
//! the program before it was stripped.

use std::backtrace::Backtrace;
use std::fmt::Write as _;
use std::sync::LazyLock;

/// Lines of a backtrace that are kept.
const FRAMES_MAX: usize = 64;

/// Functions of the machinery of panics, which come first.
const OF_PANICS: [&str; 6] = [
    "std::backtrace",
    "std::panicking",
    "core::panicking",
    "weir_control::lifecycle::panics",
    "<alloc::boxed::Box<",
    "rust_begin_unwind",
];

/// Where the file of the program begins in memory; the addresses differ with each start.
static BASE: LazyLock<Option<u64>> =
    LazyLock::new(|| base(&std::fs::read_to_string("/proc/self/maps").ok()?));

/// The text; takes some time, since names are looked up.
pub(super) fn render(backtrace: &Backtrace) -> String {
    compose(&format!("{backtrace:#}"), *BASE)
}

fn compose(full: &str, base: Option<u64>) -> String {
    let mut text = String::new();
    let (mut frames, mut has_begun) = (0, false);
    let mut lines = full.lines().map(str::trim).peekable();
    while let Some(line) = lines.next() {
        let Some((address, name)) = frame(line) else { continue };
        let place = lines.next_if(|next| next.starts_with("at "));
        if !has_begun && OF_PANICS.iter().any(|part| name.contains(part)) {
            continue;
        }
        has_begun = true;
        if frames == FRAMES_MAX {
            text.push_str("  ...\n");
            break;
        }
        frames += 1;
        let offset = base.map_or(address, |base| address.wrapping_sub(base));
        writeln!(text, "  {offset:#x} {} {}", without_hash(name), place.unwrap_or_default())
            .expect("a String takes every write");
    }
    text
}

/// The address and the name of a line such as `12: 0x55d0d6c2b3a1 - weir::main`.
fn frame(line: &str) -> Option<(u64, &str)> {
    let (number, rest) = line.split_once(": ")?;
    number.parse::<u32>().ok()?;
    let (address, name) = rest.trim_start().split_once(" - ")?;
    Some((u64::from_str_radix(address.strip_prefix("0x")?, 16).ok()?, name))
}

/// The name of a function without the hash that the compiler adds.
fn without_hash(name: &str) -> &str {
    match name.rsplit_once("::h") {
        Some((name, hash)) if hash.len() == 16 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()) => name,
        _ => name,
    }
}

/// The start of the first mapping of the program, which is that of the first file in `/proc/self/maps`.
fn base(maps: &str) -> Option<u64> {
    let first = maps.lines().find(|line| line.contains('/'))?;
    u64::from_str_radix(first.split_once('-')?.0, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machinery_of_panics_is_left_out() {
        let full = "
   0:     0x555500001000 - std::backtrace_rs::backtrace::libunwind::trace::h0123456789abcdef
                               at /rustc/x/library/std/src/lib.rs:1:2
   1:     0x555500001010 - core::panicking::panic_fmt::h0123456789abcdef
   2:     0x555500001020 - weir_proxy::exchange::carry::{{closure}}::h0123456789abcdef
                               at /src/exchange/mod.rs:7:9
   3:     0x555500001030 - core::panicking::odd";
        let expected = "  0x1020 weir_proxy::exchange::carry::{{closure}} at /src/exchange/mod.rs:7:9\n  0x1030 core::panicking::odd \n";
        assert_eq!(compose(full, Some(0x5555_0000_0000)), expected);
    }

    #[test]
    fn a_stripped_program_has_places() {
        let full = "   0:     0x555500001000 - <unknown>\n   1:     0x555500002000 - <unknown>\n";
        assert_eq!(compose(full, Some(0x5555_0000_0000)), "  0x1000 <unknown> \n  0x2000 <unknown> \n");
        assert_eq!(
            base("555500000000-555500001000 r--p 0 fe:00 1 /usr/bin/weir\n7f00-7f01 r 0 0 0 /lib/c\n"),
            Some(0x5555_0000_0000)
        );
    }

    #[test]
    fn this_test_is_in_its_own_backtrace() {
        let text = render(&Backtrace::force_capture());
        assert!(text.lines().count() <= FRAMES_MAX + 1, "{text}");
        assert!(text.contains("this_test_is_in_its_own_backtrace"), "{text}");
    }
}
