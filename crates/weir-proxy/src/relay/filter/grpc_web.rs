//! The bodies of gRPC-Web, for servers that speak gRPC (`PROTOCOL-WEB.md` in the repository grpc/grpc).
//!
//! A request in text is decoded. A response gets its trailers as the last frame of its body, and is encoded for a client that wants text.

use weir_http::Rule;
use weir_http::grpc::{Base64Decoder, Base64Encoder, MessageObserver, TrailersFrame};

use crate::relay::ends::Source;

/// A request in text.
#[derive(Debug, Default)]
pub(crate) struct GrpcWebRequest {
    decoder: Base64Decoder,
}

impl GrpcWebRequest {
    pub(super) fn pass(&mut self, data: &[u8], out: &mut Vec<u8>) -> Result<(), Rule> {
        let start = out.len();
        out.extend_from_slice(data);
        let decoded = self.decoder.decode(&mut out[start..]);
        out.truncate(start + decoded.unwrap_or_default());
        decoded.map(|_| ()).map_err(|_| Rule::GrpcWebText)
    }

    pub(super) fn finish(&self) -> Result<(), Rule> {
        self.decoder.finish().map_err(|_| Rule::GrpcWebText)
    }
}

/// A response, in bytes or in text.
#[derive(Debug)]
pub(crate) struct GrpcWebResponse {
    encoder: Option<Base64Encoder>,
    messages: MessageObserver,
}

impl GrpcWebResponse {
    pub(crate) fn new(is_text: bool) -> Self {
        Self { encoder: is_text.then(Base64Encoder::default), messages: MessageObserver::default() }
    }

    /// Whether a frame may follow: within a message, its bytes would pass for more of that.
    pub(super) fn is_between_messages(&self) -> bool {
        self.messages.is_at_boundary()
    }

    pub(super) fn pass(&mut self, data: &[u8], out: &mut Vec<u8>) {
        self.messages.observe(data);
        self.append(data, out);
    }

    fn append(&mut self, data: &[u8], out: &mut Vec<u8>) {
        match &mut self.encoder {
            None => out.extend_from_slice(data),
            Some(encoder) => encoder.encode(data, out),
        }
    }

    /// Padding may stand in the middle of a text: a client can decode a message as soon as it is here.
    pub(super) fn flush(&mut self, out: &mut Vec<u8>) {
        if let Some(encoder) = &mut self.encoder {
            encoder.flush(out);
        }
    }

    pub(super) fn finish(&mut self, source: &impl Source, out: &mut Vec<u8>) {
        if source.has_trailers() {
            let mut frame = Vec::new();
            source.write_trailers(&mut TrailersFrame::begin(&mut frame));
            self.append(&frame, out);
            self.flush(out);
        }
    }
}
