//! A record of streams, whose bytes have an order each and none among each other: pieces one behind the other.

/// What came on a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StreamPiece {
    /// More of its bytes.
    Bytes(Vec<u8>),
    /// The end, in order.
    End,
    /// The end, with a code.
    Reset(u64),
    /// The other direction is not wanted any more.
    Stop(u64),
    /// The connection is closed by the application, with a code.
    Close(u64),
}

/// A piece, and the stream that it is of; 0 where it is of the connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedPiece {
    /// The number of the stream.
    pub stream: u64,
    /// What came.
    pub what: StreamPiece,
}

/// Kind, stream, length.
const HEADER: usize = 1 + 8 + 4;

impl RecordedPiece {
    /// A piece.
    pub fn new(stream: u64, what: StreamPiece) -> Self {
        Self { stream, what }
    }

    /// The piece as bytes of a record.
    pub fn write(&self) -> Vec<u8> {
        let (kind, payload) = match &self.what {
            StreamPiece::Bytes(bytes) => (0, bytes.clone()),
            StreamPiece::End => (1, Vec::new()),
            StreamPiece::Reset(code) => (2, code.to_be_bytes().to_vec()),
            StreamPiece::Stop(code) => (3, code.to_be_bytes().to_vec()),
            StreamPiece::Close(code) => (4, code.to_be_bytes().to_vec()),
        };
        let len = u32::try_from(payload.len()).unwrap_or(u32::MAX).to_be_bytes();
        [&[kind][..], &self.stream.to_be_bytes(), &len, &payload].concat()
    }

    /// The first piece of a record, and how many bytes of it are the piece; `None` at its end.
    ///
    /// # Errors
    /// It is no record.
    pub fn read(record: &[u8]) -> Result<Option<(Self, usize)>, String> {
        if record.is_empty() {
            return Ok(None);
        }
        let Some((header, rest)) = record.split_first_chunk::<HEADER>() else {
            return Err("no record: it ends inside of a piece".to_owned());
        };
        let stream = header[1..].first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes));
        let len = header[9..].first_chunk().map_or(0, |bytes| u32::from_be_bytes(*bytes)) as usize;
        let payload = rest.get(..len).ok_or_else(|| "no record: a piece is not whole".to_owned())?;
        let code = || {
            let code = payload.first_chunk().filter(|_| len == 8);
            code.map(|bytes| u64::from_be_bytes(*bytes)).ok_or_else(|| "no record: no code".to_owned())
        };
        let what = match header[0] {
            0 => StreamPiece::Bytes(payload.to_vec()),
            1 => StreamPiece::End,
            2 => StreamPiece::Reset(code()?),
            3 => StreamPiece::Stop(code()?),
            4 => StreamPiece::Close(code()?),
            kind => return Err(format!("no record: a piece of kind {kind}")),
        };
        Ok(Some((Self { stream, what }, HEADER + len)))
    }
}
