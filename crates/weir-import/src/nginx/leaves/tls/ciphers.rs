//! Lists of cipher suites in the language of OpenSSL (`openssl ciphers`), as far as Weir's suites are concerned.

/// The suites of TLS 1.3, which OpenSSL's lists do not name.
pub(super) const TLS13: [&str; 3] =
    ["TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"];

/// What a list lets in.
pub(super) struct CipherChoice {
    /// Weir's suites of TLS 1.2, by their IANA names, in order of preference.
    pub(super) suites: Vec<&'static str>,
    /// Whether it lets in suites that Weir does not have.
    pub(super) has_others: bool,
}

/// A suite: its name at IANA and in OpenSSL, and the words that select it.
struct CipherSuiteWords {
    iana: &'static str,
    openssl: &'static str,
    words: &'static [&'static str],
}

const COMMON: [&str; 10] = [
    "ALL",
    "COMPLEMENTOFDEFAULT",
    "DEFAULT",
    "HIGH",
    "ECDHE",
    "EECDH",
    "kEECDH",
    "kECDHE",
    "TLSv1.2",
    "AEAD",
];

const SUITES: [CipherSuiteWords; 6] = [
    CipherSuiteWords {
        iana: "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
        openssl: "ECDHE-ECDSA-AES128-GCM-SHA256",
        words: &["ECDSA", "aECDSA", "AES", "AES128", "AESGCM", "SHA256"],
    },
    CipherSuiteWords {
        iana: "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
        openssl: "ECDHE-RSA-AES128-GCM-SHA256",
        words: &["RSA", "aRSA", "AES", "AES128", "AESGCM", "SHA256"],
    },
    CipherSuiteWords {
        iana: "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
        openssl: "ECDHE-ECDSA-AES256-GCM-SHA384",
        words: &["ECDSA", "aECDSA", "AES", "AES256", "AESGCM", "SHA384"],
    },
    CipherSuiteWords {
        iana: "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
        openssl: "ECDHE-RSA-AES256-GCM-SHA384",
        words: &["RSA", "aRSA", "AES", "AES256", "AESGCM", "SHA384"],
    },
    CipherSuiteWords {
        iana: "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
        openssl: "ECDHE-ECDSA-CHACHA20-POLY1305",
        words: &["ECDSA", "aECDSA", "CHACHA20", "SHA256"],
    },
    CipherSuiteWords {
        iana: "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
        openssl: "ECDHE-RSA-CHACHA20-POLY1305",
        words: &["RSA", "aRSA", "CHACHA20", "SHA256"],
    },
];

/// What a list lets in: `NAME` adds, `-NAME` and `!NAME` remove, `+NAME` only moves.
pub(super) fn choice(text: &str) -> CipherChoice {
    let mut suites: Vec<&'static str> = Vec::new();
    let mut banned: Vec<&'static str> = Vec::new();
    let mut has_others = false;
    for item in text.split([':', ',', ' ']).filter(|item| !item.is_empty() && !item.starts_with('@')) {
        let selected = |item: &str| {
            SUITES.iter().filter(|suite| selects(item, suite)).map(|suite| suite.iana).collect::<Vec<_>>()
        };
        if let Some(item) = item.strip_prefix('!') {
            banned.extend(selected(item));
            suites.retain(|suite| !banned.contains(suite));
        } else if let Some(item) = item.strip_prefix('-') {
            let removed = selected(item);
            suites.retain(|suite| !removed.contains(suite));
        } else if !item.starts_with('+') {
            let found = selected(item);
            has_others |= !is_ours_alone(item);
            for suite in found {
                if !suites.contains(&suite) && !banned.contains(&suite) {
                    suites.push(suite);
                }
            }
        }
    }
    CipherChoice { suites, has_others }
}

/// Whether all suites that an item selects are Weir's.
fn is_ours_alone(item: &str) -> bool {
    TLS13.contains(&item)
        || SUITES.iter().any(|suite| suite.openssl.eq_ignore_ascii_case(item))
        || (item.split('+').any(|word| matches!(word, "ECDHE" | "EECDH" | "kEECDH"))
            && item.split('+').any(|word| matches!(word, "AESGCM" | "CHACHA20")))
}

fn selects(item: &str, suite: &CipherSuiteWords) -> bool {
    if suite.openssl.eq_ignore_ascii_case(item) || suite.iana == item {
        return true;
    }
    item.split('+').all(|word| {
        let known = |name: &&str| name.eq_ignore_ascii_case(word);
        COMMON.iter().any(known) || suite.words.iter().any(known)
    })
}

#[cfg(test)]
mod tests {
    use super::choice;

    #[test]
    fn lists_of_openssl() {
        let all = choice("HIGH:!aNULL:!MD5");
        assert_eq!((all.suites.len(), all.has_others), (6, true));
        let two = choice("ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256");
        assert_eq!((two.suites.len(), two.has_others), (2, false));
        let mixed =
            choice("ECDHE-RSA-AES256-GCM-SHA384:DHE-RSA-AES256-GCM-SHA384:!ECDHE-RSA-AES256-GCM-SHA384");
        assert_eq!((mixed.suites.len(), mixed.has_others), (0, true));
        let words = choice("EECDH+AESGCM:EDH+AESGCM");
        assert_eq!((words.suites.len(), words.has_others), (4, true));
        assert_eq!(choice("ECDHE+CHACHA20").suites.len(), 2);
        assert_eq!(choice("AES128-SHA").suites.len(), 0);
    }
}
