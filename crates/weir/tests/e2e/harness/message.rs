//! A small strict reader of HTTP/1 heads, written from RFC 9112 and independent of Weir's.
//!
//! Text is held as Latin-1: one `char` per byte, so nothing is lost and everything prints. What a head may not hold
//! (a bare CR or LF, a field without colon) is a malformed head: Weir must not have sent it.

/// Every byte as the `char` of the same number, so that any message prints and compares byte by byte.
pub(crate) fn latin1(bytes: &[u8]) -> String {
    bytes.iter().map(|&byte| char::from(byte)).collect()
}

/// A start line and its fields, in order, in the case they arrived in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) start_line: String,
    pub(crate) fields: Fields,
}

/// Names and values in order of arrival.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Fields(pub(crate) Vec<(String, String)>);

impl Fields {
    /// All values of the field `name`, in order.
    pub(crate) fn all(&self, name: &str) -> Vec<&str> {
        self.0.iter().filter(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, v)| v.as_str()).collect()
    }

    /// The one value of the field `name`, `None` when there is none; panics when there are several.
    pub(crate) fn one(&self, name: &str) -> Option<&str> {
        let all = self.all(name);
        assert!(all.len() < 2, "`{name}` stands {} times: {all:?}", all.len());
        all.first().copied()
    }

    /// Whether the comma-separated list in `name` holds `member`, in any case.
    pub(crate) fn lists(&self, name: &str, member: &str) -> bool {
        self.all(name).iter().flat_map(|v| v.split(',')).any(|v| v.trim().eq_ignore_ascii_case(member))
    }
}

/// How the end of a body is found (RFC 9112 section 6.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Framing {
    Empty,
    Length(usize),
    Chunked,
    UntilClose,
}

impl Head {
    /// Reads the head at the front of `bytes`: `Ok(None)` while it is incomplete, else the head and its length.
    pub(crate) fn read(bytes: &[u8]) -> Result<Option<(Head, usize)>, String> {
        let Some(end) = bytes.windows(4).position(|w| w == b"\r\n\r\n") else { return Ok(None) };
        let text = latin1(&bytes[..end]);
        let mut lines = text.split("\r\n");
        let start_line = lines.next().unwrap_or_default().to_owned();
        if let Some(bad) = text.replace("\r\n", "").find(['\r', '\n', '\0']) {
            return Err(format!("a bare CR, a bare LF or a NUL at {bad} of the head {text:?}"));
        }
        let fields = lines.map(read_field).collect::<Result<Vec<_>, _>>()?;
        Ok(Some((Head { start_line, fields: Fields(fields) }, end + 4)))
    }

    /// The word of the start line at `index`.
    pub(crate) fn word(&self, index: usize) -> &str {
        self.start_line.split(' ').nth(index).unwrap_or_default()
    }

    /// How the body of this request is framed.
    pub(crate) fn request_framing(&self) -> Result<Framing, String> {
        match self.declared_framing()? {
            Framing::UntilClose => Ok(Framing::Empty),
            framing => Ok(framing),
        }
    }

    /// How the body of this response to `method` is framed.
    pub(crate) fn response_framing(&self, method: &str) -> Result<Framing, String> {
        let status = self.status()?;
        let bodiless = method == "HEAD" || status < 200 || status == 204 || status == 304;
        let tunnel = method == "CONNECT" && (200..300).contains(&status);
        if bodiless || tunnel { Ok(Framing::Empty) } else { self.declared_framing() }
    }

    /// The status code of a response.
    pub(crate) fn status(&self) -> Result<u16, String> {
        let line = &self.start_line;
        let good_version = line.starts_with("HTTP/1.1 ") || line.starts_with("HTTP/1.0 ");
        let digits = self.word(1);
        if !good_version || digits.len() != 3 {
            return Err(format!("malformed status line {line:?}"));
        }
        digits.parse().map_err(|_| format!("malformed status line {line:?}"))
    }

    fn declared_framing(&self) -> Result<Framing, String> {
        let lengths = self.fields.all("content-length");
        let codings = self.fields.all("transfer-encoding");
        match (lengths.as_slice(), codings.as_slice()) {
            ([], []) => Ok(Framing::UntilClose),
            ([], [coding]) if coding.eq_ignore_ascii_case("chunked") => Ok(Framing::Chunked),
            ([length], []) if length.bytes().all(|b| b.is_ascii_digit()) => {
                length.parse().map(Framing::Length).map_err(|_| format!("bad Content-Length {length:?}"))
            }
            _ => Err(format!("ambiguous framing: Content-Length {lengths:?}, Transfer-Encoding {codings:?}")),
        }
    }
}

fn read_field(line: &str) -> Result<(String, String), String> {
    let (name, value) =
        line.split_once(':').ok_or_else(|| format!("a field line without colon: {line:?}"))?;
    if name.is_empty() || !name.bytes().all(is_token_byte) {
        return Err(format!("a malformed field name: {line:?}"));
    }
    Ok((name.to_owned(), value.trim_matches([' ', '\t']).to_owned()))
}

fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}
