//! The normal form of paths, on which routes are matched.

/// Whether a path is in its normal form, which no request's path is not: one in another form matches nothing.
pub fn is_normal_path(path: &str) -> bool {
    let mut normal = Vec::with_capacity(path.len());
    weir_http::write_normal_path(&mut normal, path.as_bytes(), weir_http::EncodedSlashRule::Keep);
    normal == path.as_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dots_doubled_slashes_and_needless_escapes_are_not_normal() {
        for (path, is_normal) in [
            ("/", true),
            ("/a/b", true),
            ("/a%2Fb", true),
            ("/a//b", false),
            ("/a/../b", false),
            ("/%61", false),
        ] {
            assert_eq!(is_normal_path(path), is_normal, "{path}");
        }
    }
}
