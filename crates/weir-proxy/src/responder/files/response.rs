//! What of a file the client gets: the form that it accepts, the whole or parts, or that it has it already.

use std::collections::VecDeque;

use weir_config::FileEncoding;
use weir_http::{
    AcceptedCodings, ByteRange, ConditionOutcome, ContentCoding, FieldName, Fields, Method, RangeSelection,
    Validators, select_ranges,
};

use crate::relay::file::BodyPiece;
use crate::responder::Answer;
use crate::responder::ranges::{RangeBody, multipart_type, select};
use crate::state::routes::static_files::OpenFile;

/// The response of a file: its head, and what its body is made of.
#[derive(Debug)]
pub(crate) struct FileResponse<'a> {
    /// The file, or an encoded form of it.
    pub(crate) file: &'a OpenFile,
    /// Without body.
    pub(crate) head: Answer<'a>,
    pub(crate) body: RangeBody,
}

/// What a route has besides the file itself.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ResponseRules {
    /// Whether there may be encoded forms.
    pub(crate) has_forms: bool,
    /// How many parts of a file may be asked for; 0: there are none.
    pub(crate) ranges_max: u32,
}

/// The response to a GET or HEAD with these fields: only GET has ranges (RFC 9110 section 14.2). `boundary` parts several ranges.
pub(crate) fn respond<'a>(
    method: Method,
    file: &'a OpenFile,
    fields: &Fields,
    text: &[u8],
    rules: ResponseRules,
    boundary: u64,
) -> FileResponse<'a> {
    let (form, encoding) = choose_form(file, fields, text);
    let validators = Validators { etag: &form.etag, modified: form.modified };
    let outcome = validators.evaluate(fields, text);
    if outcome == ConditionOutcome::Failed {
        return FileResponse { file: form, head: Answer::new(412), body: RangeBody::None };
    }
    let is_known = outcome == ConditionOutcome::NotModified;
    let ranges = match fields.get_by_name(text, "range") {
        Some(range)
            if method == Method::Get
                && rules.ranges_max > 0
                && !is_known
                && validators.allow_range(fields, text) =>
        {
            select_ranges(range.value.of(text), form.len(), rules.ranges_max)
        }
        _ => RangeSelection::Whole,
    };
    let (status, body, about_range) = select(form.len(), &file.media_type, &ranges, boundary);
    let mut head = Answer::new(if is_known { 304 } else { status });
    head.media_type = Some(&file.media_type);
    if status == 416 {
        head = head.with(b"Content-Range", about_range.unwrap_or_default());
        return FileResponse { file: form, head, body };
    }
    if !is_known {
        head = match ranges {
            RangeSelection::Several(_) => head.with(b"Content-Type", multipart_type(boundary)),
            _ => head.with(b"Content-Type", &*file.media_type),
        };
    }
    head = head.with(b"Last-Modified", &form.last_modified[..]).with(b"ETag", &*form.etag);
    if rules.has_forms {
        head = head.with(b"Vary", &b"Accept-Encoding"[..]);
    }
    if is_known {
        return FileResponse { file: form, head, body: RangeBody::None };
    }
    if let Some(encoding) = encoding {
        head = head.with(b"Content-Encoding", encoding);
    }
    if rules.ranges_max > 0 {
        head = head.with(b"Accept-Ranges", &b"bytes"[..]);
    }
    if let Some(range) = about_range {
        head = head.with(b"Content-Range", range);
    }
    FileResponse { file: form, head, body }
}

/// The whole of a file, as parts.
pub(crate) fn whole(file: &OpenFile) -> (VecDeque<BodyPiece>, u64) {
    ([BodyPiece::Range(ByteRange { start: 0, end: file.len() })].into(), file.len())
}

/// The form that the client likes best of those that there are, with its coding; among equals, that of the config comes first.
fn choose_form<'a>(
    file: &'a OpenFile,
    fields: &Fields,
    text: &[u8],
) -> (&'a OpenFile, Option<&'static [u8]>) {
    if file.beside.is_empty() {
        return (file, None);
    }
    let values = fields.all(FieldName::AcceptEncoding).map(|field| field.value.of(text));
    let accepted = AcceptedCodings::parse(values);
    let preferred = accepted.preferred(file.beside.iter().map(|(encoding, _)| coding_of(*encoding)));
    let found = file.beside.iter().find(|(encoding, _)| Some(coding_of(*encoding)) == preferred);
    found.map_or((file, None), |(encoding, form)| (form, Some(encoding.name().as_bytes())))
}

const fn coding_of(encoding: FileEncoding) -> ContentCoding {
    match encoding {
        FileEncoding::Brotli => ContentCoding::Brotli,
        FileEncoding::Zstd => ContentCoding::Zstd,
        FileEncoding::Gzip => ContentCoding::Gzip,
    }
}
