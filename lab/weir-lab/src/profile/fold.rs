//! Reads the output of `perf script` and counts equal stacks. Pure.
//!
//! A sample is a line that names the program, then a frame a line, innermost first: address and symbol. A blank line ends it.

use std::collections::BTreeMap;

use weir_observe::flame::{KERNEL, frame_name};

/// Where the kernel's addresses begin on 64-bit machines.
const KERNEL_MIN: u64 = 1 << 63;

/// Equal stacks and their numbers.
pub fn fold(printed: &str) -> BTreeMap<String, u64> {
    let mut stacks = BTreeMap::new();
    let (mut program, mut frames): (Option<&str>, Vec<String>) = (None, Vec::new());
    for line in printed.lines().chain(std::iter::once("")) {
        let is_frame = line.starts_with([' ', '\t']);
        if line.trim().is_empty() {
            if let Some(program) = program.take().filter(|_| !frames.is_empty()) {
                let stack = std::iter::once(program.to_owned()).chain(frames.drain(..).rev());
                *stacks.entry(stack.collect::<Vec<_>>().join(";")).or_insert(0) += 1;
            }
            frames.clear();
        } else if is_frame {
            frames.extend(frame(line));
        } else {
            program = Some(line.trim());
        }
    }
    stacks
}

/// One frame: its symbol without offset and hash, marked when it is the kernel's.
fn frame(line: &str) -> Option<String> {
    let (addr, symbol) = line.trim().split_once(' ')?;
    let addr = u64::from_str_radix(addr, 16).ok()?;
    let mut name = frame_name(symbol);
    if addr >= KERNEL_MIN {
        name.push_str(KERNEL);
    }
    Some(name)
}

#[cfg(test)]
mod tests {
    use super::fold;

    /// As perf 6.1 prints it with `-F comm,ip,sym`.
    const PRINTED: &str = "weir \n\tffffffff81a0b1c2 tcp_sendmsg\n\tffffffff8100a1b2 do_syscall_64\n\t          12f3a4 weir_proxy::send::h0123456789abcdef\n\
\t          10aaaa main\n\nweir \n\tffffffff81a0b1c2 tcp_sendmsg\n\tffffffff8100a1b2 do_syscall_64\n\t          12f3a4 weir_proxy::send::hfedcba9876543210\n\
\t          10aaaa main\n\nweir-worker 0 \n\t          5c49f [unknown]\n\nempty \n\n";

    #[test]
    fn equal_stacks_are_counted_from_the_outermost_frame_on() {
        let stacks: Vec<(String, u64)> = fold(PRINTED).into_iter().collect();
        let expected = [
            ("weir-worker 0;[unknown]".to_owned(), 1),
            ("weir;main;weir_proxy::send;do_syscall_64_[k];tcp_sendmsg_[k]".to_owned(), 2),
        ];
        assert_eq!(stacks, expected);
    }

    #[test]
    fn other_text_has_no_stacks() {
        for text in ["", "\n\n", "error: no such file\n", "\tffff x\n", "program\n"] {
            assert!(fold(text).is_empty(), "{text:?}");
        }
    }
}
