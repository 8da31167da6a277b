//! A request of Weir's own, in the form that a received one has: so that it can go to a server in the same way.

use super::limits::HeadLimits;
use super::method::Method;
use super::request::RequestHead;
use super::rule::Rule;
use super::span::TextSpan;
use super::version::Version;

impl RequestHead {
    /// Makes it a GET for `target`, a path with or without a query, on `host`, with these fields behind `Host`. Appends the text that its spans
    /// refer to. There is no body, so none of the fields may be about one.
    ///
    /// # Errors
    /// The rule that target or host break.
    pub fn compose_get<'a>(
        &mut self,
        text: &mut Vec<u8>,
        target: &[u8],
        host: &[u8],
        fields: impl Iterator<Item = (&'a [u8], &'a [u8])>,
    ) -> Result<(), Rule> {
        self.reset();
        (self.method, self.version) = (Method::Get, Version::Http11);
        self.method_span = append(text, b"GET");
        text.push(b' ');
        let span = append(text, target);
        self.target.read(text, span, Method::Get, &HeadLimits::default())?;
        text.extend_from_slice(b"\r\n");
        if !host.is_empty() {
            let span = self.fields.append(text, b"Host", host);
            self.facts.add_host(span, host)?;
        }
        for (name, value) in fields {
            self.fields.append(text, name, value);
        }
        text.extend_from_slice(b"\r\n");
        Ok(())
    }
}

fn append(text: &mut Vec<u8>, bytes: &[u8]) -> TextSpan {
    let start = text.len();
    text.extend_from_slice(bytes);
    TextSpan::new(start, text.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http1::ParsedRequest;
    use crate::{Framing, TargetForm};

    #[test]
    fn it_is_what_would_have_been_received() {
        let (mut head, mut text) = (RequestHead::new(), Vec::new());
        let fields = [(&b"Cookie"[..], &b"a=b"[..]), (b"x-own", b""), (b"X_Under", b"1")];
        head.compose_get(&mut text, b"/verify?x=1", b"a.test:81", fields.into_iter()).expect("it is sound");
        let line = text.iter().position(|byte| *byte == b'\r').expect("there are lines");
        let received = [&text[..line], b" HTTP/1.1", &text[line..]].concat();
        let mut parsed = ParsedRequest::new();
        parsed.parse(&received, &HeadLimits::default()).expect("it is well-formed");
        assert_eq!(
            (head.method(), head.version(), head.target_form()),
            (Method::Get, Version::Http11, TargetForm::Origin)
        );
        assert_eq!((head.target().of(&text), head.path().of(&text)), (&b"/verify?x=1"[..], &b"/verify"[..]));
        assert_eq!(
            (head.host().of(&text), head.port(), head.body()),
            (&b"a.test"[..], Some(81), Framing::None)
        );
        assert_eq!(head.fields().len(), parsed.fields().len());
        for (one, other) in head.fields().iter().zip(parsed.fields()) {
            assert_eq!(one.known, other.known);
            assert_eq!(
                (one.name.of(&text), one.value.of(&text)),
                (other.name.of(&received), other.value.of(&received))
            );
        }
        assert!(text.ends_with(b"\r\n\r\n"));
    }

    #[test]
    fn a_host_that_is_none_is_refused() {
        let compose =
            |host: &[u8]| RequestHead::new().compose_get(&mut Vec::new(), b"/", host, std::iter::empty());
        assert_eq!(compose(b"a b"), Err(Rule::BadHost));
        assert_eq!(compose(b""), Ok(()));
    }
}
