//! Whether the order of routes matters: not where the most specific one is always the first that matches.

use super::TomlValue;

type Matchers<'m> = &'m [(&'static str, TomlValue)];

/// How many routes are compared with each other.
const ROUTES_MAX: usize = 500;

/// Whether each plain host is named once.
fn are_unique(routes: &[Matchers<'_>]) -> bool {
    let mut seen = std::collections::HashSet::new();
    let hosts = |route| texts(route, "host").or_else(|| texts(route, "sni")).unwrap_or_default();
    routes.iter().flat_map(|route| hosts(route)).all(|host| !host.contains('*') && seen.insert(host))
}

/// Whether the default order of Weir might choose another route than the order of the file.
pub(crate) fn matters(routes: &[Matchers<'_>]) -> bool {
    let all_by_host = routes.iter().all(|route| matches!(route, [("host" | "sni", _)]));
    if all_by_host && are_unique(routes) {
        return false;
    }
    // So many are seldom apart from each other, and to compare each with each takes long.
    if routes.len() > ROUTES_MAX {
        return true;
    }
    for (index, first) in routes.iter().enumerate() {
        for second in &routes[index + 1..] {
            if !are_apart(first, second) && !is_more_specific(first, second) {
                return true;
            }
        }
    }
    false
}

fn texts<'m>(route: Matchers<'m>, key: &str) -> Option<Vec<&'m str>> {
    let (_, value) = route.iter().find(|(known, _)| *known == key)?;
    match value {
        TomlValue::Text(text) => Some(vec![text]),
        TomlValue::Array(list) => list
            .iter()
            .map(|item| if let TomlValue::Text(text) = item { Some(text.as_str()) } else { None })
            .collect(),
        _ => None,
    }
}

/// Whether no request is for both.
fn are_apart(first: Matchers<'_>, second: Matchers<'_>) -> bool {
    for key in ["host", "sni", "method"] {
        if let (Some(one), Some(other)) = (texts(first, key), texts(second, key))
            && !one.iter().any(|text| other.iter().any(|other| meet(text, other)))
        {
            return true;
        }
    }
    match (path_of(first), path_of(second)) {
        (Some((one, true)), Some((other, true))) => one != other,
        (Some((one, true)), Some((prefix, false))) | (Some((prefix, false)), Some((one, true))) => {
            !one.starts_with(prefix)
        }
        (Some((one, false)), Some((other, false))) => !one.starts_with(other) && !other.starts_with(one),
        _ => false,
    }
}

/// Whether a host may be of both patterns.
fn meet(one: &str, other: &str) -> bool {
    match (one.strip_prefix('*'), other.strip_prefix('*')) {
        (None, None) => one == other,
        (Some(suffix), None) => other.ends_with(suffix),
        (None, Some(suffix)) => one.ends_with(suffix),
        (Some(one), Some(other)) => one.ends_with(other) || other.ends_with(one),
    }
}

/// The path of a route, and whether it is the whole of it.
fn path_of<'m>(route: Matchers<'m>) -> Option<(&'m str, bool)> {
    let text = |key: &str| texts(route, key).and_then(|list| list.first().copied());
    text("path_exact")
        .map(|path| (path, true))
        .or_else(|| text("path").or_else(|| text("path_begins")).map(|path| (path, false)))
}

/// By host and path alone.
fn is_more_specific(first: Matchers<'_>, second: Matchers<'_>) -> bool {
    let known = ["host", "sni", "path", "path_exact", "path_begins"];
    if first.iter().chain(second).any(|(key, _)| !known.contains(key)) {
        return false;
    }
    let hosts = |route| texts(route, "host").or_else(|| texts(route, "sni"));
    let rank = |hosts: &Option<Vec<&str>>| match hosts {
        None => 0,
        Some(list) if list.iter().any(|host| host.contains('*')) => 1,
        Some(_) => 2,
    };
    let (one, other) = (hosts(first), hosts(second));
    if rank(&one) != rank(&other) {
        return rank(&one) > rank(&other) && (rank(&one) == 2 || rank(&other) == 0);
    }
    if one != other {
        return false;
    }
    match (path_of(first), path_of(second)) {
        (Some(_), None) => true,
        (Some((_, true)), Some((_, false))) => true,
        (Some((one, false)), Some((other, false))) => one.len() > other.len(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::matters;
    use crate::document::TomlValue;

    type FrontendRoute = Vec<(&'static str, TomlValue)>;

    fn route(keys: &[(&'static str, &str)]) -> FrontendRoute {
        keys.iter().map(|(key, value)| (*key, (*value).into())).collect()
    }

    #[track_caller]
    fn check(routes: &[FrontendRoute], expected: bool) {
        let routes: Vec<&[(&'static str, TomlValue)]> = routes.iter().map(Vec::as_slice).collect();
        assert_eq!(matters(&routes), expected);
    }

    #[test]
    fn order_matters_where_the_first_is_not_the_most_specific() {
        check(&[route(&[("host", "a")]), route(&[("host", "b")])], false);
        check(&[route(&[("host", "a")]), route(&[("path", "/x/")])], false);
        check(&[route(&[("path", "/x/")]), route(&[("host", "a")])], true);
        check(&[route(&[("path", "/x/y/")]), route(&[("path", "/x/")])], false);
        check(&[route(&[("path", "/x/")]), route(&[("path", "/x/y/")])], true);
        check(&[route(&[("path_begins", "/x")]), route(&[("path", "/y/")])], false);
        check(&[route(&[("when", "true")]), route(&[("path", "/y/")])], true);
        check(&[route(&[("host", "a"), ("when", "true")]), route(&[("host", "b")])], false);
        check(&[route(&[("host", "*.a.b")]), route(&[("host", "*.b")])], true);
    }
}
