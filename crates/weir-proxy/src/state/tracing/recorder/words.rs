//! The few words of a request that are kept: its id, method, path and host, cut where they are long. The query is not kept: secrets
//! stand there.

use std::ops::Range;

use weir_http::Method;

/// Bytes of all words together.
const BYTES: usize = 208;

/// Bytes of a path or of a host; a request id may have as many.
const WORD_BYTES_MAX: usize = 128;

/// The words of a request as its head has them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RequestWords<'a> {
    pub(crate) method: Method,
    /// The method as it was sent.
    pub(crate) method_text: &'a [u8],
    pub(crate) path: &'a [u8],
    pub(crate) host: &'a [u8],
}

/// Words of one request, one behind the other.
#[derive(Debug, Clone, Copy)]
pub struct Words {
    method: Method,
    /// Where id, method, path and host end; the method has letters of its own only if it is none of those with a number.
    ends: [u8; 4],
    /// Whether the path or the host is longer than that.
    pub is_cut: bool,
    bytes: [u8; BYTES],
}

const _: () = assert!(BYTES <= u8::MAX as usize, "an end fits a byte");

impl Words {
    pub(crate) const fn none() -> Self {
        Self { method: Method::Get, ends: [0; 4], is_cut: false, bytes: [0; BYTES] }
    }

    /// These words, cut to the room that there is.
    pub fn new(id: &[u8], method: Method, path: &[u8], host: &[u8]) -> Self {
        let mut words = Self { method, ..Self::none() };
        let id = words.push(0, id);
        let path = words.push(id, path);
        words.ends = [id as u8, id as u8, path as u8, words.push(path, host) as u8];
        words
    }

    /// Sets the words of a request, whose id is `id`.
    #[inline(always)]
    pub(crate) fn set(&mut self, id: &[u8], words: &RequestWords<'_>) {
        let mut end = self.set_id(id);
        self.method = words.method;
        if self.method == Method::Other {
            end = self.push(end, words.method_text);
        }
        self.ends[1] = end as u8;
        end = self.push(end, words.path);
        self.ends[2] = end as u8;
        end = self.push(end, words.host);
        self.ends[3] = end as u8;
    }

    /// Sets what is known of a request without a head: the beginning of its first line, and a host.
    #[cold]
    pub(crate) fn set_without_head(&mut self, id: &[u8], line: &[u8], host: &[u8]) {
        let end = self.set_id(id);
        self.method = Method::Other;
        self.ends[1] = end as u8;
        let line_end = self.push(end, line);
        self.ends[2] = line_end as u8;
        self.ends[3] = self.push(line_end, host) as u8;
    }

    /// Begins with the id of a request; gives where it ends.
    #[inline(always)]
    fn set_id(&mut self, id: &[u8]) -> usize {
        self.is_cut = false;
        let end = match <&[u8; 32]>::try_from(id) {
            Ok(made) => {
                self.bytes[..32].copy_from_slice(made);
                32
            }
            Err(_) => self.push(0, id),
        };
        self.ends[0] = end as u8;
        end
    }

    /// Appends as much of a word as there is room for; gives where it ends.
    #[inline(always)]
    fn push(&mut self, at: usize, word: &[u8]) -> usize {
        let len = word.len().min(WORD_BYTES_MAX).min(BYTES - at);
        self.is_cut |= len < word.len();
        self.bytes[at..at + len].copy_from_slice(&word[..len]);
        at + len
    }

    fn word(&self, range: Range<u8>) -> &[u8] {
        &self.bytes[usize::from(range.start)..usize::from(range.end)]
    }

    /// The id of the request.
    pub fn id(&self) -> &[u8] {
        self.word(0..self.ends[0])
    }

    /// The method; empty when the head could not be read.
    pub fn method(&self) -> &[u8] {
        if self.method == Method::Other {
            self.word(self.ends[0]..self.ends[1])
        } else {
            self.method.as_str().as_bytes()
        }
    }

    /// The path; without a method, the beginning of what came instead of a head.
    pub fn path(&self) -> &[u8] {
        self.word(self.ends[1]..self.ends[2])
    }

    /// The host of the request, or the SNI of a TCP listener's client.
    pub fn host(&self) -> &[u8] {
        self.word(self.ends[2]..self.ends[3])
    }

    /// The same in no more memory than they need.
    pub(crate) fn packed(&self) -> PackedWords {
        let bytes = self.bytes[..usize::from(self.ends[3])].into();
        PackedWords { method: self.method, ends: self.ends, is_cut: self.is_cut, bytes }
    }
}

/// Words that are kept for long.
#[derive(Debug)]
pub(crate) struct PackedWords {
    method: Method,
    ends: [u8; 4],
    is_cut: bool,
    bytes: Box<[u8]>,
}

impl PackedWords {
    pub(crate) fn unpack_into(&self, words: &mut Words) {
        (words.method, words.ends, words.is_cut) = (self.method, self.ends, self.is_cut);
        words.bytes[..self.bytes.len()].copy_from_slice(&self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_words_are_cut_and_leave_room() {
        let mut words = Words::none();
        let end = words.push(0, &[b'i'; 128]);
        let path_end = words.push(end, &[b'p'; 300]);
        assert_eq!((end, path_end, words.is_cut), (128, BYTES, true));
        assert_eq!(words.push(path_end, b"host"), BYTES);
    }

    #[test]
    fn packed_words_are_the_same_again() {
        let mut words = Words::none();
        let id = words.push(0, b"an-id") as u8;
        let path = words.push(id.into(), b"/path") as u8;
        let host = words.push(path.into(), b"example.test") as u8;
        words.ends = [id, id, path, host];
        let mut again = Words::none();
        words.packed().unpack_into(&mut again);
        let texts =
            |words: &Words| [words.id(), words.method(), words.path(), words.host()].map(<[u8]>::to_vec);
        assert_eq!(texts(&again), texts(&words));
        assert_eq!(again.method(), b"GET");
    }
}
