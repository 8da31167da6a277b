//! Field sections as a client of QPACK writes them (RFC 9204): literals alone, or with a dynamic table that gets each line when it first comes.

use httlib_hpack::Encoder;

/// Lines that are credentials: no table has them.
const NEVER_INDEXED: [&str; 3] = ["authorization", "cookie", "x-token"];
const ENTRY_OVERHEAD: usize = 32;
/// Indexes of the static table.
const STATIC: [(&str, &str, usize); 6] = [
    (":method", "GET", 17),
    (":method", "HEAD", 18),
    (":method", "POST", 20),
    (":scheme", "https", 23),
    ("content-type", "text/plain", 53),
    ("content-length", "0", 4),
];
/// Names of the static table.
const STATIC_NAMES: [(&str, usize); 4] =
    [(":authority", 0), (":path", 1), ("content-length", 4), ("accept-encoding", 31)];

/// An integer behind the bits of `first`, with a prefix of so many bits.
pub(super) fn integer(first: u8, prefix: u32, number: usize) -> Vec<u8> {
    let mask = (1usize << prefix) - 1;
    if number < mask {
        return vec![first | number as u8];
    }
    let (mut bytes, mut rest) = (vec![first | mask as u8], number - mask);
    while rest >= 128 {
        bytes.push(0x80 | (rest % 128) as u8);
        rest /= 128;
    }
    bytes.push(rest as u8);
    bytes
}

/// A string without Huffman's code, whose length has a prefix of so many bits.
fn plain_string(first: u8, prefix: u32, text: &str) -> Vec<u8> {
    [integer(first, prefix, text.len()), text.as_bytes().to_vec()].concat()
}

/// A string in Huffman's code, by way of a field of HPACK that has it as its value.
fn short_string(text: &str) -> Vec<u8> {
    let mut field = Vec::new();
    let value = (b"x".to_vec(), text.as_bytes().to_vec(), Encoder::NEVER_INDEXED | Encoder::HUFFMAN_VALUE);
    Encoder::default().encode(value, &mut field).expect("a literal can always be written");
    // The kind of the field, the length of its name, the name.
    field.split_off(3)
}

/// A section of literals alone.
pub(super) fn plain_section(fields: &[(String, String)]) -> Vec<u8> {
    let mut section = vec![0, 0];
    for (name, value) in fields {
        section.extend(plain_string(0x20, 3, name));
        section.extend(plain_string(0, 7, value));
    }
    section
}

/// The encoder of a connection.
pub(super) struct ClientSections {
    /// Lines in the table, by their absolute indexes: none is ever dropped.
    lines: Vec<(String, String)>,
    bytes: usize,
    capacity: usize,
}

impl ClientSections {
    pub(super) fn new(capacity: usize) -> Self {
        Self { lines: Vec::new(), bytes: 0, capacity }
    }

    /// A section, and the instructions without which it cannot be read.
    pub(super) fn section(&mut self, fields: &[(String, String)]) -> (Vec<u8>, Vec<u8>) {
        let (mut instructions, mut lines, mut needed) = (Vec::new(), Vec::new(), 0);
        if self.lines.is_empty() {
            instructions.extend(integer(0x20, 5, self.capacity));
        }
        let base = self.lines.len();
        for (name, value) in fields {
            let fixed = STATIC.iter().find(|(known, its, _)| known == name && its == value);
            if let Some((_, _, index)) = fixed {
                lines.extend(integer(0xc0, 6, *index));
                continue;
            }
            if NEVER_INDEXED.contains(&name.as_str()) {
                lines.extend(plain_string(0x30, 3, name));
                lines.extend(short_string(value));
                continue;
            }
            match self.index(name, value, &mut instructions) {
                Some(at) => {
                    needed = needed.max(at + 1);
                    // Those that are newer than the base are counted from there on.
                    lines.extend(match at.checked_sub(base) {
                        Some(behind) => integer(0x10, 4, behind),
                        None => integer(0x80, 6, base - at - 1),
                    });
                }
                None => {
                    lines.extend(plain_string(0x20, 3, name));
                    lines.extend(short_string(value));
                }
            }
        }
        let mut section = if needed == 0 { vec![0, 0] } else { self.prefix(needed, base) };
        section.extend(lines);
        (section, instructions)
    }

    /// Required insert count and base (RFC 9204 section 4.5.1).
    fn prefix(&self, needed: usize, base: usize) -> Vec<u8> {
        let full = 2 * (self.capacity / ENTRY_OVERHEAD);
        let mut prefix = integer(0, 8, needed % full + 1);
        prefix.extend(match base.checked_sub(needed) {
            Some(delta) => integer(0, 7, delta),
            None => integer(0x80, 7, needed - base - 1),
        });
        prefix
    }

    /// The absolute index of a line, which is inserted where there is room.
    fn index(&mut self, name: &str, value: &str, instructions: &mut Vec<u8>) -> Option<usize> {
        let known = self.lines.iter().position(|(known, its)| known == name && its == value);
        if known.is_some() {
            return known;
        }
        let bytes = self.bytes + name.len() + value.len() + ENTRY_OVERHEAD;
        if bytes > self.capacity {
            return None;
        }
        let same_name = self.lines.iter().rposition(|(known, _)| known == name);
        match (STATIC_NAMES.iter().find(|(known, _)| *known == name), same_name) {
            (Some((_, index)), _) => instructions.extend(integer(0xc0, 6, *index)),
            (None, Some(at)) => instructions.extend(integer(0x80, 6, self.lines.len() - at - 1)),
            (None, None) => instructions.extend(plain_string(0x40, 5, name)),
        }
        instructions.extend(short_string(value));
        self.bytes = bytes;
        self.lines.push((name.to_owned(), value.to_owned()));
        Some(self.lines.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use weir_wire::http3::qpack::QpackTable;

    use super::*;

    fn fields(lines: &[(&str, &str)]) -> Vec<(String, String)> {
        lines.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn sections_are_read_behind_their_instructions() {
        let (mut encoder, mut table) = (ClientSections::new(1_000), QpackTable::new(1_000));
        for round in 0..40 {
            let number = round.to_string();
            let long = "x".repeat(150);
            let lines = [
                (":method", "GET"),
                (":path", "/one"),
                ("x-id", number.as_str()),
                ("cookie", "a=b"),
                ("x-long", &long),
            ];
            let list = fields(&lines);
            let (section, instructions) = encoder.section(&list);
            if round == 0 {
                assert!(table.section(&section).unwrap_err().contains("waits"));
            }
            table.instruct(&instructions).unwrap();
            let (read, uses_table) = table.section(&section).unwrap();
            assert_eq!((read.0, uses_table), (list, true));
        }
        assert!(table.insertions() > 4);
        assert_eq!(table.section(&plain_section(&fields(&[("a", "b")]))).unwrap().0.first("a"), Some("b"));
    }
}
