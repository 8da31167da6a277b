//! Names of the objects that are made for a Gateway: bounded, valid for a Service, and different for different Gateways.

/// The longest name of a Service, and the longest value of a label.
const NAME_BYTES_MAX: usize = 63;

/// Hexadecimal digits of a hash behind a name that could not stay as it is.
const HASH_DIGITS: usize = 8;

/// `GATEWAY-CLASS`, as the Gateway API recommends (GEP-1762), in the form of a DNS label that begins with a letter.
pub(crate) fn of_objects(gateway: &str, class: &str) -> String {
    let wanted = format!("{gateway}-{class}");
    let mut name: String =
        wanted.chars().map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '-' }).collect();
    if !name.starts_with(|letter: char| letter.is_ascii_lowercase()) {
        name.insert_str(0, "gateway-");
    }
    // The last hyphen parts gateway and class, so that no two names meet.
    let is_unclear = class.contains('-');
    if name == wanted && name.len() <= NAME_BYTES_MAX && !is_unclear {
        return name;
    }
    bounded(&name, &format!("{gateway}/{class}"))
}

/// A name as the value of a label, cut with a hash behind it where it is too long.
pub(crate) fn of_label(name: &str) -> String {
    if name.len() <= NAME_BYTES_MAX { name.to_owned() } else { bounded(name, name) }
}

/// The start of a name and the hash of what it stands for.
fn bounded(name: &str, whole: &str) -> String {
    let kept: String = name.chars().take(NAME_BYTES_MAX - HASH_DIGITS - 1).collect();
    format!("{}-{}", kept.trim_end_matches(['-', '.', '_']), hash(whole))
}

/// A hash in hexadecimal that stays the same from version to version: names depend on it. FNV-1a, 64 bits folded to 32.
pub(crate) fn hash(text: &str) -> String {
    const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0100_0000_01b3;
    let hash = text.bytes().fold(OFFSET, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(PRIME));
    format!("{:08x}", (hash >> 32) ^ (hash & 0xffff_ffff))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_valid_and_bounded() {
        for (gateway, class, expected) in [
            ("web", "weir", "web-weir"),
            ("same-namespace", "weir", "same-namespace-weir"),
            ("a.b", "weir", "a-b-weir-"),
            ("8080", "weir", "gateway-8080-weir-"),
            ("a-b", "c-d", "a-b-c-d-"),
            (&"x".repeat(253), "weir", &format!("{}-", "x".repeat(54))),
        ] {
            let name = of_objects(gateway, class);
            let is_label =
                |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '-';
            assert!(name.starts_with(expected) && name.len() <= NAME_BYTES_MAX, "{name}");
            assert!(name.chars().all(is_label) && !name.ends_with('-'), "{name}");
            assert_eq!(name.len() == expected.len(), !expected.ends_with('-'), "{name}");
        }
    }

    #[test]
    fn names_of_different_gateways_differ() {
        let names =
            [("a-b", "c-d"), ("a", "b-c-d"), ("a-b-c", "d"), ("a.b", "c-d"), ("a.b-c", "d"), ("a-b.c", "d")]
                .map(|(gateway, class)| of_objects(gateway, class));
        let different: std::collections::BTreeSet<_> = names.iter().collect();
        assert_eq!(different.len(), names.len(), "{names:?}");
    }

    #[test]
    fn labels_are_bounded() {
        assert_eq!(of_label("web.example"), "web.example");
        assert_eq!(of_label(&"x".repeat(64)).len(), NAME_BYTES_MAX);
        assert_ne!(of_label(&"x".repeat(64)), of_label(&"x".repeat(65)));
    }
}
