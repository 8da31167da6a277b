//! The meaning of the keys of affinity.

use std::time::Duration;

use weir_config::{AffinitySettings, CookieMode};
use weir_traffic::affinity::{LearnSource, SameSite};

use crate::config;

fn affinity(text: &str) -> AffinitySettings {
    let text = format!(
        "[listener.web]\naddress = \":0\"\nupstream = \"app\"\n[upstream.app]\nservers = [\"a:80\"]\naffinity = {text}\n"
    );
    config(&text).upstreams[0].affinity.clone().expect("it was given")
}

#[test]
fn without_a_word_weir_gives_out_a_cookie() {
    let AffinitySettings { cookie, mode, .. } = affinity("{}");
    let CookieMode::Insert { secret: None, attributes } = mode else { panic!("{mode:?}") };
    assert_eq!(
        (&*cookie, attributes.to_string().as_str()),
        ("weir-server-app", "; Path=/; HttpOnly; SameSite=Lax")
    );
}

#[test]
fn attributes_are_taken_over() {
    let text = "{ cookie = \"S\", secret = \"0123456789abcdef\", max_age = \"1d\", path = \"/a\", domain = \"a.test\", \
                secure = true, http_only = false, same_site = \"none\" }";
    let AffinitySettings { cookie, mode, .. } = affinity(text);
    let CookieMode::Insert { secret: Some(secret), attributes } = mode else { panic!("{mode:?}") };
    assert_eq!((&*cookie, attributes.lifetime), ("S", Some(Duration::from_secs(86_400))));
    assert_eq!(
        (attributes.secure, attributes.http_only, attributes.same_site),
        (true, false, SameSite::None)
    );
    assert!(!format!("{secret:?}").contains("0123"), "no log shows a secret");
}

#[test]
fn a_key_is_learned_where_it_is_named() {
    let sources = |text: &str| match affinity(text).mode {
        CookieMode::Key { learn_from, .. } => learn_from.into_vec(),
        other => panic!("{other:?}"),
    };
    let header = LearnSource::Header("mcp-session-id".into());
    assert_eq!(
        sources("{ mode = \"learn\", key = \"{header.Mcp-Session-Id}\" }"),
        std::slice::from_ref(&header)
    );
    assert_eq!(
        sources(
            "{ mode = \"learn\", key = \"{query.s}\", learn_from = [\"header:mcp-session-id\", \"cookie:S\"] }"
        ),
        [header, LearnSource::Cookie("S".into())]
    );
    assert_eq!(sources("{ mode = \"stick\", key = \"{client_address}:{header.x}\" }"), []);
    let strict = affinity(
        "{ mode = \"stick\", key = \"{client_address}\", strict = true, forget_when = \"status == 404\" }",
    );
    assert!(strict.strict && strict.forget_when.is_some() && strict.mode.name() == "stick");
}

#[test]
fn the_cookie_of_an_application_is_marked_or_learned() {
    assert_eq!(affinity("{ mode = \"prefix\", cookie = \"S\" }").mode, CookieMode::Prefix { secret: None });
    assert_eq!(
        affinity("{ mode = \"learn\", cookie = \"S\", entries_max = 8, expire = \"1s\" }").mode,
        CookieMode::Learn { entries_max: 8, expire: Duration::from_secs(1) }
    );
}
