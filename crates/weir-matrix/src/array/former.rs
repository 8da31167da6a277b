//! Combinations of three and more values in which the program had a fault once: pairs alone would leave it to chance whether they are tried.

use super::factors::Case;

/// By the names of the patches in `faults/` that restore them.
const FORMER: &[(&str, &[&str])] = &[
    (
        "bodies-beyond-their-length",
        &[
            "h2c/h1-length/POST/behind-zero/none/plain",
            "h1/h2c/GET/behind-zero/none/plain",
            "h1/h2c/HEAD/behind-zero/none/plain",
            "h1/h2c/GET/behind-204/none/plain",
            "h1/h2c/GET/behind-304/none/plain",
        ],
    ),
    ("lost-wake-up", &["h1/h2c/GET/late/none/cache"]),
    ("closed-window", &["h1/h2c/GET/beyond-window/none/cache"]),
    (
        "reset-is-stale",
        &["h1/h2c/GET/one-read/server-resets/plain", "h1/h2c/GET/one-read/server-resets/retries"],
    ),
    (
        "rules-before-authentication",
        &[
            "h1/h1-length/GET/one-read/none/lists+basic",
            "h1/h1-length/GET/one-read/none/lists+jwt",
            "h1/h1-length/GET/one-read/limit-reached/basic",
            "h1/h1-length/GET/one-read/limit-reached/jwt",
        ],
    ),
    ("one-partition", &["h1/h1-length/GET/one-read/none/cache+two-routes"]),
    (
        "proofs-are-ignored",
        &[
            "h1/h1-length/GET/one-read/none/cache+jwt",
            "h1/h1-length/GET/one-read/none/cache+forward-auth",
            "h2-certificate/h1-length/GET/one-read/none/cache",
        ],
    ),
    (
        "trailers-pass",
        &["h1/h1-chunked/POST/trailers/none/header-rules", "h2c/h2c/GET/trailers/none/header-rules"],
    ),
    ("coding-not-accepted", &["h1/h1-length/GET/one-read/none/cache+coded-servers"]),
    ("early-accept", &["h1/h1-length/GET/one-read/upgrade/discovered"]),
    ("frame-without-end", &["h3/h1-chunked/GET/many/none/plain"]),
    ("end-alone-is-body", &["h3/h1-length/GET/one-read/none/plain"]),
    ("cut-at-once", &["h3/h2c/GET/cut/none/buffer-responses"]),
    ("cut-drops-buffer", &["h1/h2c/GET/cut/none/buffer-responses"]),
];

/// All of them.
pub(super) fn cases() -> Vec<Case> {
    let names = FORMER.iter().flat_map(|(_, names)| *names);
    names.map(|name| Case::named(name).expect("a case has this name")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::array::possible;

    #[test]
    fn former_faults_are_in_cases_that_exist() {
        let bases = possible::all();
        for case in cases() {
            assert!(bases.iter().any(|base| base.is_of(&case)), "{case}");
        }
    }
}
