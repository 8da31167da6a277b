//! Base64 (RFC 4648 section 4) as gRPC-Web sends it as text: decoded and encoded as it arrives.
//!
//! A body is a series of parts that were encoded one by one, so padding may occur anywhere in it, and a group of four characters may
//! arrive in pieces (`PROTOCOL-WEB.md`, Text-encoded (response) streams). Both ways keep less than one group.

/// The characters, by the six bits that they encode.
const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// The six bits that each character encodes, and [`NO_CHARACTER`] for all other bytes.
static VALUES: [u8; 256] = {
    let mut values = [NO_CHARACTER; 256];
    let mut value = 0;
    while value < ALPHABET.len() {
        values[ALPHABET[value] as usize] = value as u8;
        value += 1;
    }
    values
};

/// Above all values of characters, with a bit that none of them has.
const NO_CHARACTER: u8 = 0x80;

/// What is wrong with a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Base64Error {
    /// A byte is not of the alphabet.
    BadCharacter,
    /// A `=` where no group can end, or another byte where the second `=` of a group is missing.
    BadPadding,
    /// The last character of a padded group has bits that encode nothing, and they are not 0.
    TrailingBits,
    /// The text ends within a group.
    Incomplete,
}

/// Decodes one text as it arrives, in the buffer in which it lies.
///
/// ```text
///       character        character        character
///  Zero ────────▶ One ────────▶ Two ────────▶ Three
///   ▲ ▲                          │ '='          │
///   │ └──────── '=' ──────── Padding            │
///   └─────────────────────── character or '=' ──┘
/// ```
#[derive(Debug, Clone, Default)]
pub struct Base64Decoder {
    group: GroupState,
}

/// What was read of a group. `bits` are those of its last character that belong to the next byte.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum GroupState {
    #[default]
    Zero,
    One {
        bits: u8,
    },
    Two {
        bits: u8,
    },
    Three {
        bits: u8,
    },
    /// The first of two `=`.
    Padding,
    Broken(Base64Error),
}

impl Base64Decoder {
    /// Decodes `buf`, and moves what is decoded to its front. Returns the number of bytes there.
    ///
    /// Each byte is given out as soon as its bits have arrived, which is never more than the text has characters.
    ///
    /// # Errors
    ///
    /// What is wrong with the text, now and at every further call; nothing in `buf` may be passed on.
    pub fn decode(&mut self, buf: &mut [u8]) -> Result<usize, Base64Error> {
        let (mut from, mut to) = (0, 0);
        while from < buf.len() {
            if self.group == GroupState::Zero
                && let Some(bytes) = buf[from..].first_chunk().and_then(whole_group)
            {
                buf[to..to + bytes.len()].copy_from_slice(&bytes);
                (from, to) = (from + 4, to + bytes.len());
                continue;
            }
            if let Some(byte) = self.read(buf[from])? {
                buf[to] = byte;
                to += 1;
            }
            from += 1;
        }
        Ok(to)
    }

    /// Says that the text has ended.
    ///
    /// # Errors
    ///
    /// [`Base64Error::Incomplete`] when it ends within a group, or what was wrong with it before.
    pub fn finish(&self) -> Result<(), Base64Error> {
        match self.group {
            GroupState::Zero => Ok(()),
            GroupState::Broken(error) => Err(error),
            _ => Err(Base64Error::Incomplete),
        }
    }

    /// Reads one character, and gives the byte that it completes.
    fn read(&mut self, character: u8) -> Result<Option<u8>, Base64Error> {
        let (group, byte) = match (self.group, character) {
            (GroupState::Broken(error), _) => (GroupState::Broken(error), None),
            (GroupState::Two { bits: 0 }, b'=') => (GroupState::Padding, None),
            (GroupState::Three { bits: 0 } | GroupState::Padding, b'=') => (GroupState::Zero, None),
            (GroupState::Two { .. } | GroupState::Three { .. }, b'=') => {
                (GroupState::Broken(Base64Error::TrailingBits), None)
            }
            (_, b'=') | (GroupState::Padding, _) => (GroupState::Broken(Base64Error::BadPadding), None),
            (group, character) => match (group, VALUES[usize::from(character)]) {
                (_, NO_CHARACTER) => (GroupState::Broken(Base64Error::BadCharacter), None),
                (GroupState::One { bits }, value) => {
                    (GroupState::Two { bits: value & 0xf }, Some(bits << 2 | value >> 4))
                }
                (GroupState::Two { bits }, value) => {
                    (GroupState::Three { bits: value & 3 }, Some(bits << 4 | value >> 2))
                }
                (GroupState::Three { bits }, value) => (GroupState::Zero, Some(bits << 6 | value)),
                (_, value) => (GroupState::One { bits: value }, None),
            },
        };
        self.group = group;
        match group {
            GroupState::Broken(error) => Err(error),
            _ => Ok(byte),
        }
    }
}

/// The bytes of a group without padding; `None` when it is none.
#[inline]
fn whole_group(characters: &[u8; 4]) -> Option<[u8; 3]> {
    let [first, second, third, fourth] = characters.map(|character| VALUES[usize::from(character)]);
    let is_whole = (first | second | third | fourth) & NO_CHARACTER == 0;
    is_whole.then_some([first << 2 | second >> 4, second << 4 | third >> 2, third << 6 | fourth])
}

/// Encodes one body as it arrives.
///
/// ```
/// use weir_http::grpc::Base64Encoder;
///
/// let (mut encoder, mut text) = (Base64Encoder::default(), Vec::new());
/// encoder.encode(b"gRPC", &mut text);
/// assert_eq!(text, b"Z1JQ");
/// encoder.flush(&mut text);
/// assert_eq!(text, b"Z1JQQw==");
/// ```
#[derive(Debug, Clone, Default)]
pub struct Base64Encoder {
    held: HeldBytes,
}

/// Bytes that do not fill a group yet.
#[derive(Debug, Clone, Copy, Default)]
enum HeldBytes {
    #[default]
    None,
    One(u8),
    Two([u8; 2]),
}

impl Base64Encoder {
    /// Appends the text of `bytes`, except of up to two at their end, which are held until others follow or [`Base64Encoder::flush`].
    ///
    /// At most four characters are appended for every three bytes, and four more.
    pub fn encode(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        let (first, rest) = match (self.held, bytes) {
            (HeldBytes::None, rest) => (None, rest),
            (HeldBytes::One(one), [two, three, rest @ ..]) => (Some([one, *two, *three]), rest),
            (HeldBytes::Two([one, two]), [three, rest @ ..]) => (Some([one, two, *three]), rest),
            (HeldBytes::One(one), [two]) => {
                self.held = HeldBytes::Two([one, *two]);
                return;
            }
            (_, []) => return,
        };
        let (groups, tail) = rest.as_chunks();
        self.held = match *tail {
            [] => HeldBytes::None,
            [one] => HeldBytes::One(one),
            [one, two, ..] => HeldBytes::Two([one, two]),
        };
        let mut at = out.len();
        out.resize(at + 4 * (groups.len() + usize::from(first.is_some())), 0);
        if let Some(first) = first {
            out[at..at + 4].copy_from_slice(&characters(first));
            at += 4;
        }
        for (to, group) in out[at..].as_chunks_mut().0.iter_mut().zip(groups) {
            *to = characters(*group);
        }
    }

    /// Appends the text of the bytes that are held, with padding.
    ///
    /// The receiver can then decode all bytes that were given. Needed at the end of a body, and useful where one pauses.
    pub fn flush(&mut self, out: &mut Vec<u8>) {
        match std::mem::take(&mut self.held) {
            HeldBytes::None => {}
            HeldBytes::One(one) => {
                let [first, second, ..] = characters([one, 0, 0]);
                out.extend_from_slice(&[first, second, b'=', b'=']);
            }
            HeldBytes::Two([one, two]) => {
                let [first, second, third, _] = characters([one, two, 0]);
                out.extend_from_slice(&[first, second, third, b'=']);
            }
        }
    }
}

/// The characters of a group.
#[inline]
fn characters([one, two, three]: [u8; 3]) -> [u8; 4] {
    let values = [one >> 2, one << 4 | two >> 4, two << 2 | three >> 6, three];
    values.map(|value| ALPHABET[usize::from(value & 0x3f)])
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::{Just, Strategy, any, prop_assert, prop_assert_eq, prop_oneof, proptest};

    use super::*;

    /// Decodes the pieces of a text, to its end.
    fn decode(pieces: &[&[u8]]) -> Result<Vec<u8>, Base64Error> {
        let (mut decoder, mut decoded) = (Base64Decoder::default(), Vec::new());
        for piece in pieces {
            let mut buf = piece.to_vec();
            let len = decoder.decode(&mut buf)?;
            decoded.extend_from_slice(&buf[..len]);
        }
        decoder.finish().map(|()| decoded)
    }

    /// Encodes the pieces of a body, and flushes behind each of them or at the end.
    fn encode(pieces: &[&[u8]], flushes_each: bool) -> Vec<u8> {
        let (mut encoder, mut text) = (Base64Encoder::default(), Vec::new());
        for piece in pieces {
            let before = text.len();
            encoder.encode(piece, &mut text);
            assert!(text.len() - before <= piece.len().div_ceil(3) * 4 + 4);
            if flushes_each {
                encoder.flush(&mut text);
            }
        }
        encoder.flush(&mut text);
        text
    }

    /// `bytes` in pieces of these lengths, and the rest.
    fn cut<'a>(bytes: &'a [u8], lens: &[usize]) -> Vec<&'a [u8]> {
        let (mut pieces, mut rest) = (Vec::new(), bytes);
        for len in lens {
            let (piece, tail) = rest.split_at((*len).min(rest.len()));
            pieces.push(piece);
            rest = tail;
        }
        pieces.push(rest);
        pieces
    }

    fn assert_decodes(text: &str, expected: Result<&[u8], Base64Error>) {
        let expected = expected.map(<[u8]>::to_vec);
        let text = text.as_bytes();
        assert_eq!(decode(&[text]), expected, "{text:?}");
        assert_eq!(decode(&text.chunks(1).collect::<Vec<_>>()), expected, "{text:?}");
        for at in 0..=text.len() {
            assert_eq!(decode(&[&text[..at], &text[at..]]), expected, "{text:?} cut at {at}");
        }
    }

    #[test]
    fn texts_are_decoded() {
        let rows: [(&str, &[u8]); 12] = [
            // RFC 4648 section 10.
            ("", b""),
            ("Zg==", b"f"),
            ("Zm8=", b"fo"),
            ("Zm9v", b"foo"),
            ("Zm9vYg==", b"foob"),
            ("Zm9vYmE=", b"fooba"),
            ("Zm9vYmFy", b"foobar"),
            ("+/+/", &[0xfb, 0xff, 0xbf]),
            // Parts that were encoded one by one.
            ("Zg==Zg==", b"ff"),
            ("Zm8=Zm9vZg==Zm8=", b"fofooffo"),
            ("AAAAAAA=", &[0; 5]),
            ("AAAAAAQ=dGVzdA==", b"\0\0\0\0\x04test"),
        ];
        for (text, bytes) in rows {
            assert_decodes(text, Ok(bytes));
        }
    }

    #[test]
    fn other_texts_are_errors() {
        for (text, error) in [
            ("Z", Base64Error::Incomplete),
            ("Zg", Base64Error::Incomplete),
            ("Zg=", Base64Error::Incomplete),
            ("Zm8", Base64Error::Incomplete),
            ("Zm9vZ", Base64Error::Incomplete),
            ("Zg==Zg", Base64Error::Incomplete),
            ("=", Base64Error::BadPadding),
            ("====", Base64Error::BadPadding),
            ("Z===", Base64Error::BadPadding),
            ("Zg=a", Base64Error::BadPadding),
            ("Zg=-", Base64Error::BadPadding),
            ("Zg===", Base64Error::BadPadding),
            ("Zm8==", Base64Error::BadPadding),
            ("Zm9v=", Base64Error::BadPadding),
            ("Zh==", Base64Error::TrailingBits),
            ("Zm9=", Base64Error::TrailingBits),
            ("Zm9v\r\nZg==", Base64Error::BadCharacter),
            ("Zm 9v", Base64Error::BadCharacter),
            ("Zm-_", Base64Error::BadCharacter),
            ("Zm9v\0", Base64Error::BadCharacter),
            ("caf\u{e9}", Base64Error::BadCharacter),
        ] {
            assert_decodes(text, Err(error));
        }
    }

    #[test]
    fn each_byte_at_each_place() {
        for byte in 0..=255_u8 {
            for place in 0..8 {
                let mut text = *b"AAAAAAAA";
                text[place] = byte;
                let value = ALPHABET.iter().position(|character| *character == byte);
                let expected = match (value, byte, place) {
                    (Some(value), _, _) => {
                        let group = (value as u64) << (6 * (7 - place));
                        Ok(group.to_be_bytes()[2..].to_vec())
                    }
                    // Padding at the end of the text, or with more behind it.
                    (None, b'=', 7) => Ok(vec![0; 5]),
                    (None, b'=', 3) => Ok(vec![0; 5]),
                    (None, b'=', _) => Err(Base64Error::BadPadding),
                    _ => Err(Base64Error::BadCharacter),
                };
                assert_eq!(decode(&[&text]), expected, "{byte} at {place}");
                assert_eq!(decode(&text.each_ref().map(std::slice::from_ref)), expected, "{byte} at {place}");
            }
        }
    }

    #[test]
    fn an_error_is_for_good() {
        let mut decoder = Base64Decoder::default();
        assert_eq!(decoder.decode(&mut b"Zm9v?".to_vec()), Err(Base64Error::BadCharacter));
        assert_eq!(decoder.decode(&mut b"Zm9v".to_vec()), Err(Base64Error::BadCharacter));
        assert_eq!(decoder.finish(), Err(Base64Error::BadCharacter));
    }

    #[test]
    fn bytes_are_given_out_as_soon_as_they_are_known() {
        let mut decoder = Base64Decoder::default();
        for (character, known) in b"Zm9vZg==".iter().zip([0, 1, 1, 1, 0, 1, 0, 0]) {
            assert_eq!(decoder.decode(&mut [*character]), Ok(known));
        }
    }

    #[test]
    fn bodies_are_encoded() {
        for (pieces, text) in [
            (&[][..], ""),
            (&[&b""[..]][..], ""),
            (&[b"f"], "Zg=="),
            (&[b"f", b"", b"o"], "Zm8="),
            (&[b"f", b"oo"], "Zm9v"),
            (&[b"fo", b"o"], "Zm9v"),
            (&[b"fo", b"ob", b"ar"], "Zm9vYmFy"),
            (&[b"foob", b"a"], "Zm9vYmE="),
        ] {
            assert_eq!(encode(pieces, false), text.as_bytes());
        }
        assert_eq!(encode(&[b"f", b"", b"fo", b"foo"], true), b"Zg==Zm8=Zm9v");
        let all: Vec<u8> = (0..64).collect();
        let groups: Vec<u8> = all
            .chunks(4)
            .flat_map(|values| {
                let bits = values.iter().fold(0_u32, |bits, value| bits << 6 | u32::from(*value));
                bits.to_be_bytes()[1..].to_vec()
            })
            .collect();
        assert_eq!(encode(&[&groups], false), ALPHABET);
    }

    proptest! {
        #[test]
        fn any_way_of_cutting_gives_the_same_text(
            body in vec(any::<u8>(), 0..200),
            lens in vec(0..20_usize, 0..20),
            text_lens in vec(0..20_usize, 0..20),
        ) {
            let text = encode(&[&body], false);
            prop_assert_eq!(text.len(), body.len().div_ceil(3) * 4);
            let pieces = cut(&body, &lens);
            prop_assert_eq!(&encode(&pieces, false), &text);
            prop_assert_eq!(decode(&cut(&text, &text_lens)), Ok(body.clone()));
            let in_parts = encode(&pieces, true);
            prop_assert_eq!(decode(&cut(&in_parts, &text_lens)), Ok(body));
        }

        #[test]
        fn any_way_of_cutting_gives_the_same_outcome(
            text in vec(prop_oneof![60 => (0..64_usize).prop_map(|value| ALPHABET[value]), 3 => Just(b'='), 1 => any::<u8>()], 0..60),
            lens in vec(0..9_usize, 0..12),
        ) {
            let whole = decode(&[&text]);
            prop_assert_eq!(&decode(&cut(&text, &lens)), &whole);
            prop_assert_eq!(&decode(&text.chunks(1).collect::<Vec<_>>()), &whole);
            if let Ok(bytes) = whole {
                prop_assert!(bytes.len() <= text.len() / 4 * 3);
            }
        }
    }
}
