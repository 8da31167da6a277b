//! `compression` of a listener or a route in the text.

use weir_http::ContentCoding;

use crate::config::{Compression, MediaPattern};
use crate::key::{
    Bounds, ConfigSection, ConfigValue, NonEmpty, TextFormat, TreeReader, ValueKind, choice, section,
    text_values,
};
use crate::source::{Tree, TreeNode};
use crate::value::{Size, ValueError, is_token};

section! {
    /// Compression of responses for clients that accept it (`Accept-Encoding`), as they pass. Responses that are encoded already, that have
    /// `Cache-Control: no-transform`, or that are part of a body (206) pass as they are. So do all responses of gRPC.
    #[derive(Debug, Clone)]
    pub(crate) struct CompressionText at "listener.NAME.route.compression" {
        /// The algorithms, the first choice first among those that a client wants equally (weights, `q=`).
        algorithms: NonEmpty<CompressionAlgorithm> = ["zstd", "br", "gzip"], like "Traefik `compress.encodings`, HAProxy `compression algo`";
        /// The level of gzip: 1 is fast, 9 small. The output of each level is about as small as that of zlib at the same level.
        gzip_level: u32 = 4, in 1..=9, like "nginx `gzip_comp_level`";
        /// The level of Brotli. Higher ones than these are for files that are compressed in advance: they take a millisecond or more at a time.
        brotli_level: u32 = 4, in 0..=6, like "nginx `brotli_comp_level`";
        /// The level of Zstandard. Higher ones than these are for files that are compressed in advance.
        zstd_level: u32 = 3, in 1..=9, like "nginx `zstd_comp_level`";
        /// Bodies that are known to be shorter pass as they are.
        min_length: Size = "1KiB", in 0..=1_073_741_824, like "nginx `gzip_min_length`, Traefik `compress.minResponseBodyBytes`";
        /// The media types of responses that are compressed: `text/css`, `text/*`, `application/*+json`, or `*` for all. The default are
        /// those that gain by it.
        types: Vec<MediaPattern> = [
            "text/*", "application/json", "application/*+json", "application/x-ndjson", "application/javascript",
            "application/x-javascript", "application/xml", "application/*+xml", "application/wasm", "application/rtf",
            "application/vnd.ms-fontobject", "application/x-font-ttf", "font/ttf", "font/otf", "font/collection", "image/svg+xml",
            "image/bmp", "image/x-icon", "image/vnd.microsoft.icon"
        ], like "nginx `gzip_types`, HAProxy `compression type`";
        /// Whether event streams (`text/event-stream`) are compressed, too. Each event goes out at once then.
        event_streams: bool = false;
        /// Whether a body that a server has compressed is decompressed for clients that do not accept its coding.
        decompress: bool = false, like "nginx `gunzip`, Envoy `decompressor`";
    }
}

choice! {
    /// A coding of bodies.
    pub(crate) enum CompressionAlgorithm {
        /// gzip (RFC 1952): all clients have it
        #[default]
        Gzip = "gzip",
        /// Brotli (RFC 7932): smaller than gzip
        Brotli = "br",
        /// Zstandard (RFC 8878): smaller than gzip, and faster
        Zstd = "zstd",
    }
}

impl CompressionAlgorithm {
    const fn coding(self) -> ContentCoding {
        match self {
            Self::Gzip => ContentCoding::Gzip,
            Self::Brotli => ContentCoding::Brotli,
            Self::Zstd => ContentCoding::Zstd,
        }
    }
}

/// `true`, `false`, or a table.
#[derive(Debug, Clone)]
pub(crate) struct CompressionSwitch(Option<Box<CompressionText>>);

impl CompressionSwitch {
    /// `None`: off.
    pub(crate) fn to_compression(&self) -> Option<Box<Compression>> {
        self.0.as_ref().map(|text| Box::new(text.to_compression()))
    }
}

impl ConfigValue for CompressionSwitch {
    fn kind(bounds: Bounds) -> ValueKind {
        ValueKind::Either(vec![ValueKind::Boolean, CompressionText::kind(bounds)])
    }

    fn read(node: &TreeNode, bounds: Bounds, reader: &mut TreeReader<'_>) -> Option<Self> {
        match &node.tree {
            Tree::Table(_) => {
                CompressionText::read(node, bounds, reader).map(|text| Self(Some(Box::new(text))))
            }
            tree if ValueKind::Boolean.accepts(tree) => {
                bool::read(node, bounds, reader).map(|is_on| Self(is_on.then(Box::default)))
            }
            _ => {
                reader.wrong_type(node, &Self::kind(bounds));
                None
            }
        }
    }

    fn write(&self) -> String {
        self.0.as_ref().map_or_else(|| false.write(), |text| text.inline())
    }

    fn lines(&self, path: &str, lines: &mut Vec<String>) {
        match &self.0 {
            None => false.lines(path, lines),
            Some(text) => text.lines(path, lines),
        }
    }
}

impl CompressionText {
    fn to_compression(&self) -> Compression {
        let Self {
            algorithms,
            gzip_level,
            brotli_level,
            zstd_level,
            min_length,
            types,
            event_streams,
            decompress,
        } = self;
        let mut levels = [0; ContentCoding::COUNT];
        levels[ContentCoding::Gzip as usize] = *gzip_level;
        levels[ContentCoding::Brotli as usize] = *brotli_level;
        levels[ContentCoding::Zstd as usize] = *zstd_level;
        Compression {
            algorithms: algorithms.0.iter().map(|algorithm| algorithm.coding()).collect(),
            levels,
            length_min: min_length.bytes(),
            types: types.clone(),
            event_streams: *event_streams,
            decompress: *decompress,
        }
    }
}

text_values! {
    MediaPattern, parse_media, print_media, TextFormat {
        name: "media type",
        article: "a media type",
        examples: &["text/css", "text/*", "application/*+json", "*"],
        pattern: r"^(\*|[^/*\s]+/([^/*\s]+|\*[^/*\s]*))$",
        about: "A media type without parameters. One `*` behind the slash stands for any text; `*` alone is every type.",
    };
}

impl MediaPattern {
    /// The media types that a text names.
    pub(crate) fn parse(text: &str) -> Result<Self, ValueError> {
        parse_media(text)
    }
}

fn parse_media(text: &str) -> Result<MediaPattern, ValueError> {
    let wrong =
        |message: String| ValueError::new(message).help("write for example `text/css`, `text/*` or `*`");
    if text == "*" {
        return Ok(MediaPattern { start: "".into(), end: Some("".into()) });
    }
    let lower = text.to_ascii_lowercase();
    let Some((kind, subtype)) = lower.split_once('/') else {
        return Err(wrong(format!("`{text}` is not a media type: it has no `/`")));
    };
    if let Some(at) = text.find(';') {
        return Err(wrong(format!("`{text}` has a parameter, which is not compared")).range(at..text.len()));
    }
    let (before, end) = match subtype.split_once('*') {
        Some((before, end)) => (before, Some(end)),
        None => (subtype, None),
    };
    let is_token = |part: &str| part.chars().all(|c| is_token(c) && c != '*');
    let has_subtype = end.is_some() || !before.is_empty();
    if kind.is_empty() || !has_subtype || ![kind, before, end.unwrap_or_default()].into_iter().all(is_token) {
        return Err(wrong(format!("`{text}` is not a media type")));
    }
    Ok(MediaPattern { start: format!("{kind}/{before}").into(), end: end.map(Into::into) })
}

fn print_media(media: &MediaPattern) -> String {
    match &media.end {
        None => media.start.to_string(),
        Some(end) => format!("{}*{end}", media.start),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn media_types_are_read_and_printed() {
        for text in ["text/css", "text/*", "application/*+json", "application/vnd.*", "*"] {
            assert_eq!(print_media(&parse_media(text).unwrap()), text);
        }
        for text in
            ["", "text", "text/", "/css", "text/html;charset=utf-8", "text/a b", "*/*", "text/**", "a/b/c"]
        {
            assert!(parse_media(text).is_err(), "{text}");
        }
    }

    #[test]
    fn types_are_compared_without_parameters_and_case() {
        let usual = CompressionText::default().to_compression();
        let one = Compression { types: vec![parse_media("application/*+json").unwrap()], ..usual.clone() };
        let all = Compression { types: vec![parse_media("*").unwrap()], ..usual.clone() };
        let events = Compression { event_streams: true, types: Vec::new(), ..usual.clone() };
        for (rule, content_type, expected) in [
            (&usual, "text/html", true),
            (&usual, "Text/HTML; charset=utf-8", true),
            (&usual, "text/html ;charset=utf-8", true),
            (&usual, "application/json", true),
            (&usual, "application/problem+json", true),
            (&usual, "image/svg+xml", true),
            (&usual, "image/png", false),
            (&usual, "application/octet-stream", false),
            (&usual, "application/grpc", false),
            (&usual, "text/event-stream", false),
            (&usual, "text/event-stream; charset=utf-8", false),
            (&usual, "", false),
            (&usual, "text", false),
            (&one, "application/ld+json", true),
            (&one, "application/json", false),
            (&one, "application/+json", true),
            (&one, "text/html", false),
            (&all, "image/png", true),
            (&all, "text/event-stream", false),
            (&events, "text/event-stream", true),
            (&events, "text/html", false),
        ] {
            assert_eq!(rule.covers(content_type.as_bytes()), expected, "{content_type}");
        }
    }
}
