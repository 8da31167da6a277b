//! What was seen of an answer whose content the lab does not know: what a site of others sends.

/// See the module.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SeenAnswer {
    /// The status; 0 until the head is read.
    pub status: u16,
    /// Bytes of the body so far.
    pub len: u64,
    /// The text that is looked for was in the body.
    pub has_text: bool,
    /// The end of the body so far, in which the text may begin.
    pub tail: Vec<u8>,
}

impl SeenAnswer {
    /// Takes a part of the body, in which `text` may end.
    pub fn body(&mut self, part: &[u8], text: Option<&[u8]>) {
        self.len += part.len() as u64;
        let Some(text) = text.filter(|text| !self.has_text && !text.is_empty()) else { return };
        if memchr::memmem::find(part, text).is_some() {
            self.has_text = true;
            return;
        }
        let kept = text.len() - 1;
        self.tail.extend_from_slice(&part[..part.len().min(kept)]);
        self.has_text = memchr::memmem::find(&self.tail, text).is_some();
        if part.len() > kept {
            self.tail.clear();
            self.tail.extend_from_slice(&part[part.len() - kept..]);
        }
        let surplus = self.tail.len().saturating_sub(kept);
        self.tail.drain(..surplus);
    }
}

#[cfg(test)]
mod tests {
    use super::SeenAnswer;

    #[test]
    fn a_text_is_found_however_the_body_is_cut() {
        let body = b"<html>Welcome back, Ann</html>";
        for piece in 1..=body.len() {
            let (mut with, mut without) = (SeenAnswer::default(), SeenAnswer::default());
            for part in body.chunks(piece) {
                with.body(part, Some(b"back, Ann<"));
                without.body(part, Some(b"back, Bob<"));
            }
            assert!(with.has_text && !without.has_text, "in pieces of {piece}");
            assert_eq!((with.len, without.len), (30, 30));
        }
    }
}
