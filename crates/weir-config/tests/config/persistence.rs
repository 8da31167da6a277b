//! What the keys of persistence come to.

use std::time::Duration;

use weir_config::{CookieMode, CookiePersistence};
use weir_traffic::affinity::SameSite;

use crate::config;

fn persistence(text: &str) -> CookiePersistence {
    let text = format!(
        "[listener.web]\naddress = \":0\"\nupstream = \"app\"\n[upstream.app]\nservers = [\"a:80\"]\npersistence = {text}\n"
    );
    config(&text).upstreams.remove(0).persistence.clone().expect("it was given")
}

#[test]
fn without_a_word_weir_gives_out_a_cookie() {
    let CookiePersistence { cookie, mode } = persistence("{}");
    let CookieMode::Insert { secret: None, attributes } = mode else { panic!("{mode:?}") };
    assert_eq!(
        (&*cookie, attributes.to_string().as_str()),
        ("weir-server-app", "; Path=/; HttpOnly; SameSite=Lax")
    );
}

#[test]
fn attributes_are_taken_over() {
    let text = "{ cookie = \"S\", secret = \"0123456789abcdef\", lifetime = \"1d\", path = \"/a\", domain = \"a.test\", \
                secure = true, http_only = false, same_site = \"none\" }";
    let CookiePersistence { cookie, mode } = persistence(text);
    let CookieMode::Insert { secret: Some(secret), attributes } = mode else { panic!("{mode:?}") };
    assert_eq!((&*cookie, attributes.lifetime), ("S", Some(Duration::from_secs(86_400))));
    assert_eq!(
        (attributes.secure, attributes.http_only, attributes.same_site),
        (true, false, SameSite::None)
    );
    assert!(!format!("{secret:?}").contains("0123"), "no log shows a secret");
}

#[test]
fn the_cookie_of_an_application_is_marked_or_learned() {
    assert_eq!(
        persistence("{ mode = \"prefix\", cookie = \"S\" }").mode,
        CookieMode::Prefix { secret: None }
    );
    assert_eq!(
        persistence("{ mode = \"learn\", cookie = \"S\", entries_max = 8, idle = \"1s\" }").mode,
        CookieMode::Learn { entries_max: 8, idle: Duration::from_secs(1) }
    );
}
