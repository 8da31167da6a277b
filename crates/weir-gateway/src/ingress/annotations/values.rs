//! Values of annotations as ingress-nginx writes them.

use std::time::Duration;

use ipnet::IpNet;
use weir_config::{HeaderTemplate, Size, Template};

use crate::refusal::excerpt;
use crate::store::ObjectKey;

pub(crate) type Parsed<T> = Result<T, String>;

pub(crate) fn boolean(value: &str) -> Parsed<bool> {
    match value.to_ascii_lowercase().as_str() {
        "true" | "t" | "1" => Ok(true),
        "false" | "f" | "0" => Ok(false),
        _ => Err(format!("`{}` is neither \"true\" nor \"false\"", excerpt(value))),
    }
}

pub(super) fn on_off(value: &str) -> Parsed<bool> {
    match value {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err(format!("`{}` is neither \"on\" nor \"off\"", excerpt(value))),
    }
}

pub(super) fn number(value: &str) -> Parsed<u32> {
    value.parse().map_err(|_| format!("`{}` is not a number", excerpt(value)))
}

pub(super) fn positive(value: &str) -> Parsed<u32> {
    number(value)?.checked_sub(1).map(|less| less + 1).ok_or_else(|| "it has to be above 0".to_owned())
}

/// A time: a number of seconds, or one with a unit of nginx.
pub(super) fn time(value: &str) -> Parsed<Duration> {
    let plain = value.bytes().all(|byte| byte.is_ascii_digit());
    let text = if plain { format!("{value}s") } else { value.to_owned() };
    let time = weir_config::parse_duration(&text).ok().filter(|time| !time.is_zero());
    time.ok_or_else(|| format!("`{}` is not a time above 0 such as `30` or `30s`", excerpt(value)))
}

/// A size: a number of bytes, or one with `k`, `m` or `g`.
pub(super) fn size(value: &str) -> Parsed<Size> {
    let wrong = || format!("`{}` is not a size such as `8m`", excerpt(value));
    let (digits, scale) = match value.as_bytes().last() {
        Some(b'k' | b'K') => (&value[..value.len() - 1], 1 << 10),
        Some(b'm' | b'M') => (&value[..value.len() - 1], 1 << 20),
        Some(b'g' | b'G') => (&value[..value.len() - 1], 1 << 30),
        _ => (value, 1_u64),
    };
    let number: u64 = digits.parse().map_err(|_| wrong())?;
    number.checked_mul(scale).map(Size::from_bytes).ok_or_else(wrong)
}

/// Items between commas, without white space; none of them is empty.
pub(super) fn items(value: &str) -> impl Iterator<Item = &str> {
    value.split(',').map(str::trim).filter(|item| !item.is_empty())
}

/// Networks and addresses between commas, at least one.
pub(super) fn networks(value: &str) -> Parsed<Vec<IpNet>> {
    let network = |text: &str| {
        let of_address = || text.parse::<std::net::IpAddr>().ok().map(IpNet::from);
        let network = text.parse::<IpNet>().ok().or_else(of_address);
        network.ok_or_else(|| format!("`{}` is neither a network nor an address", excerpt(text)))
    };
    let networks = items(value).map(network).collect::<Parsed<Vec<_>>>()?;
    if networks.is_empty() { Err("it names no network".to_owned()) } else { Ok(networks) }
}

/// An object of the namespace of the Ingress: its name, or namespace and name.
pub(super) fn own_object(value: &str, namespace: &str) -> Parsed<ObjectKey> {
    match value.split_once('/') {
        None if !value.is_empty() => Ok(ObjectKey::new(namespace, value)),
        Some((of, name)) if of == namespace && !name.is_empty() => Ok(ObjectKey::new(namespace, name)),
        Some((of, name)) if !of.is_empty() && !name.is_empty() => Err(format!(
            "`{}` is in another namespace: an Ingress uses objects of its own only",
            excerpt(value)
        )),
        _ => Err(format!("`{}` is not the name of an object", excerpt(value))),
    }
}

/// A URL with variables of nginx, as a template of Weir. Braces are text in nginx.
pub(super) fn url_template(value: &str) -> Parsed<Template> {
    if !value.starts_with("http://") && !value.starts_with("https://") && !value.starts_with('/') {
        return Err(format!("`{}` is not a URL that begins with http://, https:// or /", excerpt(value)));
    }
    let text = with_placeholders(value)?;
    text.parse().map_err(|error| format!("`{}`: {error}", excerpt(value)))
}

/// The value of a header with variables of nginx.
pub(super) fn header_template(value: &str) -> Parsed<HeaderTemplate> {
    let text = with_placeholders(value)?;
    text.parse().map_err(|error| format!("`{}`: {error}", excerpt(value)))
}

/// The placeholders of Weir in the places of the variables of nginx.
fn with_placeholders(value: &str) -> Parsed<String> {
    if let Some(bad) = value.chars().find(|c| !c.is_ascii_graphic() || matches!(c, '{' | '}')) {
        return Err(format!("{bad:?} cannot be in a URL"));
    }
    let known = [
        ("$request_uri", "{path}{query}"),
        ("$is_args$args", "{query}"),
        ("$best_http_host", "{host}"),
        ("$http_host", "{host}"),
        ("$host", "{host}"),
        ("$uri", "{path}"),
        ("$scheme", "{scheme}"),
    ];
    let (mut text, mut rest) = (String::new(), value);
    while let Some(at) = rest.find('$') {
        text.push_str(&rest[..at]);
        let found = known.iter().find(|(variable, _)| {
            let behind = rest[at..].strip_prefix(variable);
            behind.is_some_and(|behind| !behind.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_'))
        });
        let Some((variable, placeholder)) = found else {
            return Err(format!("the variable `{}` has no equivalent here", excerpt(&rest[at..])));
        };
        text.push_str(placeholder);
        rest = &rest[at + variable.len()..];
    }
    text.push_str(rest);
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_those_of_nginx() {
        assert_eq!(size("8m"), Ok(Size::from_kib(8192)));
        assert_eq!(size("0"), Ok(Size::from_bytes(0)));
        assert!(size("8 MB").is_err() && size("").is_err() && size("m").is_err());
        assert_eq!(time("30"), Ok(Duration::from_secs(30)));
        assert_eq!(time("5m"), Ok(Duration::from_secs(300)));
        assert!(time("0").is_err() && time("soon").is_err() && time("").is_err());
        assert_eq!(boolean("True"), Ok(true));
        assert!(boolean("yes").is_err());
        assert_eq!(positive("1"), Ok(1));
        assert!(positive("0").is_err() && positive("-1").is_err());
    }

    #[test]
    fn networks_are_addresses_too() {
        let read = networks("10.0.0.0/8, 192.0.2.1,2001:db8::/32").unwrap();
        assert_eq!(
            read.iter().map(ToString::to_string).collect::<Vec<_>>(),
            ["10.0.0.0/8", "192.0.2.1/32", "2001:db8::/32"]
        );
        assert!(networks("10.0.0.0/33").is_err() && networks("").is_err() && networks(" , ").is_err());
    }

    #[test]
    fn variables_of_nginx_are_placeholders() {
        let written = |value: &str| url_template(value).map(|template| template.to_string());
        assert_eq!(written("https://a.example$request_uri").as_deref(), Ok("https://a.example{path}{query}"));
        assert_eq!(written("https://$host/x").as_deref(), Ok("https://{host}/x"));
        assert!(written("https://$hostname/").is_err(), "a longer name is another variable");
        for wrong in ["ftp://a", "a.example", "https://a/{b}", "https://a/ b", "https://a/$1"] {
            assert!(written(wrong).is_err(), "{wrong}");
        }
    }
}
