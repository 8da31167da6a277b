//! What a script has written to its error stream, as lines of Weir's own log.

use crate::relay::fastcgi::ErrorOutput;

/// Lines of one response that are logged.
const LINES_MAX: usize = 16;

/// Bytes of a line.
const LINE_BYTES_MAX: usize = 1024;

/// The lines of `errors`, made fit for a log; how many others there are.
pub(super) fn lines(errors: &ErrorOutput) -> (Vec<String>, usize) {
    let all = errors.bytes.split(|byte| matches!(byte, b'\n' | b'\r'));
    let mut all = all.map(<[u8]>::trim_ascii).filter(|line| !line.is_empty());
    let lines = all.by_ref().take(LINES_MAX).map(clean).collect();
    (lines, all.count() + usize::from(errors.lost > 0))
}

fn clean(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(&line[..line.len().min(LINE_BYTES_MAX)]);
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines_of(text: &[u8]) -> (Vec<String>, usize) {
        let mut errors = ErrorOutput::default();
        errors.take_in(text);
        lines(&errors)
    }

    #[test]
    fn lines_are_clean_and_bounded() {
        let text = b"PHP message: a\x1b[31mb\n\r\n  Primary script unknown \nx\0y\xff\n";
        let expected = ["PHP message: a [31mb", "Primary script unknown", "x y\u{fffd}"];
        assert_eq!(lines_of(text), (expected.map(str::to_owned).into(), 0));
        let (lines, others) = lines_of("line\n".repeat(20).as_bytes());
        assert_eq!((lines.len(), others), (LINES_MAX, 4));
        let (lines, others) = lines_of(&vec![b'x'; 10_000]);
        assert_eq!((lines[0].len(), others), (LINE_BYTES_MAX, 1));
        assert_eq!(lines_of(b""), (Vec::new(), 0));
    }
}
