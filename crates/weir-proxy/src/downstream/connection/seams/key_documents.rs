//! Documents of keys, from every server to what fetches them.

use super::client::Reading;
use super::script::Content;
use super::server::{self, Plan};
use super::tls::TlsSides;
use super::{Failures, NO_TIME, Rig, SHAPES, Shape, in_event_loop, same};
use crate::state::routes::access::KeyFetchError;

/// The default of `body_size`.
const DOCUMENT_MAX: usize = 256 * 1024;

async fn fetch(rig: &mut Rig, shape: Shape) -> Result<(), String> {
    rig.begin(
        Reading::AtOnce,
        &[Plan { status: 200, fields: &[], shape, content: Content::Salted(0), is_early: false }],
    );
    let mut outcome = rig.fetch_keys();
    rig.drive(&mut [], NO_TIME).await?;
    let document = outcome.try_recv().map_err(|error| format!("no outcome: {error}"))?;
    match document {
        Ok(_) if shape.is_cut() => Err("what is cut passes for whole".to_owned()),
        Ok(_) if shape.len() > DOCUMENT_MAX => Err("it is longer than it may be".to_owned()),
        Ok(document) => same(&document.text.ok_or("no text")?, &shape.body(0)),
        Err(KeyFetchError::NoResponse(_)) if shape.is_cut() => Ok(()),
        Err(KeyFetchError::TooLong) if shape.len() > DOCUMENT_MAX => Ok(()),
        Err(error) => Err(error.to_string()),
    }
}

#[test]
fn documents_of_keys_are_the_same_from_all() {
    in_event_loop(async {
        let mut failures = Failures::default();
        for (speech, tls) in [
            (server::Speech::Length, TlsSides::NEITHER),
            (server::Speech::Chunked, TlsSides::NEITHER),
            (server::Speech::UntilClose, TlsSides::NEITHER),
            (server::Speech::UntilClose, TlsSides::SERVERS),
            (server::Speech::Http2, TlsSides::NEITHER),
        ] {
            let mut rig = Rig::open(speech, tls);
            for shape in SHAPES {
                // The end of a connection is the end of such a body, unless TLS shows that it was cut.
                if speech == server::Speech::UntilClose && shape.is_cut() && !tls.servers {
                    continue;
                }
                let outcome = fetch(&mut rig, shape).await;
                if failures.note(|| format!("{speech:?} {tls:?} {shape:?}"), outcome) {
                    rig = Rig::open(speech, tls);
                }
            }
        }
        failures.check();
    });
}
