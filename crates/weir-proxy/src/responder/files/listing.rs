//! The page that lists what is in a folder.

use std::borrow::Cow;

use weir_http::digits;

use crate::responder::Answer;

/// Names that a page shows at most.
pub(crate) const NAMES_MAX: usize = 10_000;

/// The page of a folder: `path` is that of the request, `names` those in it, folders with a slash behind them.
pub(crate) fn answer(path: &[u8], names: &[Vec<u8>], shows_hidden: bool) -> Answer<'static> {
    let mut page = b"<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n".to_vec();
    page.extend_from_slice(b"<meta name=\"viewport\" content=\"width=device-width\">\n<title>");
    escape(path, &mut page);
    page.extend_from_slice(b"</title>\n</head>\n<body>\n<h1>");
    escape(path, &mut page);
    page.extend_from_slice(b"</h1>\n<ul>\n");
    if path != b"/" {
        page.extend_from_slice(b"<li><a href=\"../\">../</a></li>\n");
    }
    for name in names.iter().filter(|name| shows_hidden || !name.starts_with(b".")) {
        if matches!(&name[..], b"." | b".." | b"./" | b"../") {
            continue;
        }
        // Behind `./`, a name with a colon is no scheme.
        page.extend_from_slice(b"<li><a href=\"./");
        encode(name, &mut page);
        page.extend_from_slice(b"\">");
        escape(name, &mut page);
        page.extend_from_slice(b"</a></li>\n");
    }
    page.extend_from_slice(b"</ul>\n");
    if names.len() >= NAMES_MAX {
        page.extend_from_slice(b"<p>There is more than is shown.</p>\n");
    }
    page.extend_from_slice(b"</body>\n</html>\n");
    let mut answer = Answer::new(200)
        .with(b"Content-Type", &b"text/html; charset=utf-8"[..])
        .with(b"Cache-Control", &b"no-cache"[..]);
    answer.body = Cow::Owned(page);
    answer
}

/// Text of a page. What is not UTF-8 is shown as such.
fn escape(text: &[u8], out: &mut Vec<u8>) {
    for byte in String::from_utf8_lossy(text).bytes() {
        match byte {
            b'<' => out.extend_from_slice(b"&lt;"),
            b'>' => out.extend_from_slice(b"&gt;"),
            b'&' => out.extend_from_slice(b"&amp;"),
            b'"' => out.extend_from_slice(b"&quot;"),
            byte => out.push(byte),
        }
    }
}

/// A name as part of a URL.
fn encode(name: &[u8], out: &mut Vec<u8>) {
    for &byte in name {
        match byte {
            b'-' | b'.' | b'_' | b'~' | b'/' => out.push(byte),
            byte if byte.is_ascii_alphanumeric() => out.push(byte),
            byte => digits::percent_encoded(out, byte),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_text_and_links_and_nothing_else() {
        let names: Vec<Vec<u8>> =
            [&b"a b.txt"[..], b"<script>\"&", b"sub/", b".git/", b"javascript:x", b"\xff"]
                .into_iter()
                .map(<[u8]>::to_vec)
                .collect();
        let page = answer(b"/x/<y>/", &names, false);
        let page = String::from_utf8(page.body.into_owned()).unwrap();
        for part in [
            "<title>/x/&lt;y&gt;/</title>",
            "<li><a href=\"../\">../</a></li>",
            "<li><a href=\"./a%20b.txt\">a b.txt</a></li>",
            "<li><a href=\"./%3Cscript%3E%22%26\">&lt;script&gt;&quot;&amp;</a></li>",
            "<li><a href=\"./sub/\">sub/</a></li>",
            "<li><a href=\"./javascript%3Ax\">javascript:x</a></li>",
            "<li><a href=\"./%FF\">\u{fffd}</a></li>",
        ] {
            assert!(page.contains(part), "{part} in {page}");
        }
        assert!(!page.contains(".git"), "{page}");
    }
}
