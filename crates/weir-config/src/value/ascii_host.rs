//! Hosts with letters beyond ASCII, and the form that DNS, certificates and clients have of them (RFC 5890).
//!
//! For a help text alone: nothing is translated. Punycode is that of RFC 3492.

/// The numbers of RFC 3492 section 5.
const BASE: u32 = 36;
const THRESHOLD_MIN: u32 = 1;
const THRESHOLD_MAX: u32 = 26;
const SKEW: u32 = 38;
const DAMP: u32 = 700;
const BIAS: u32 = 72;
const FIRST: u32 = 128;

/// What to write instead of a host with letters beyond ASCII.
pub(crate) fn ascii_help(host: &str) -> Option<String> {
    if host.is_ascii() {
        return None;
    }
    Some(match ascii_form(host) {
        Some(ascii) => format!("write it as DNS and clients do: `{ascii}`"),
        None => {
            "write it as DNS and clients do: labels with letters beyond ASCII begin with `xn--`".to_owned()
        }
    })
}

/// The form of a host in ASCII, if that needs no tables of Unicode.
fn ascii_form(host: &str) -> Option<String> {
    let is_combining = |letter: char| ('\u{300}'..'\u{370}').contains(&letter);
    if host.chars().any(|letter| letter.is_control() || is_combining(letter)) {
        return None;
    }
    let labels = host.split('.').map(|label| {
        let label = label.to_lowercase();
        if label.is_ascii() { Some(label) } else { Some(format!("xn--{}", punycode(&label)?)) }
    });
    labels.collect::<Option<Vec<_>>>().map(|labels| labels.join("."))
}

/// RFC 3492 section 6.3; `None` for a label that is far too long.
fn punycode(label: &str) -> Option<String> {
    let mut code: String = label.chars().filter(char::is_ascii).collect();
    let plain = u32::try_from(code.len()).ok()?;
    let count = u32::try_from(label.chars().count()).ok()?;
    if plain > 0 {
        code.push('-');
    }
    let (mut next, mut delta, mut bias, mut done) = (FIRST, 0u32, BIAS, plain);
    while done < count {
        let least = label.chars().map(u32::from).filter(|letter| *letter >= next).min()?;
        delta = delta.checked_add((least - next).checked_mul(done + 1)?)?;
        next = least;
        for letter in label.chars().map(u32::from) {
            if letter < next {
                delta = delta.checked_add(1)?;
            }
            if letter == next {
                write_number(&mut code, delta, bias);
                bias = adapt(delta, done + 1, done == plain);
                (delta, done) = (0, done + 1);
            }
        }
        (delta, next) = (delta + 1, next + 1);
    }
    Some(code)
}

/// A number of variable length (section 3.3).
fn write_number(code: &mut String, mut number: u32, bias: u32) {
    let digit = |value: u32| char::from_digit(value, 36).unwrap_or_default();
    // `a` to `z` are 0 to 25, and then come the digits: the other way round than in other numbers of this base.
    let letter = |value: u32| if value < 26 { digit(value + 10) } else { digit(value - 26) };
    for step in (BASE..).step_by(BASE as usize) {
        let threshold = step.saturating_sub(bias).clamp(THRESHOLD_MIN, THRESHOLD_MAX);
        if number < threshold {
            break;
        }
        code.push(letter(threshold + (number - threshold) % (BASE - threshold)));
        number = (number - threshold) / (BASE - threshold);
    }
    code.push(letter(number));
}

/// The bias for the next number (section 6.1).
fn adapt(delta: u32, count: u32, is_first: bool) -> u32 {
    let mut delta = if is_first { delta / DAMP } else { delta / 2 };
    delta += delta / count;
    let mut steps = 0;
    while delta > (BASE - THRESHOLD_MIN) * THRESHOLD_MAX / 2 {
        delta /= BASE - THRESHOLD_MIN;
        steps += BASE;
    }
    steps + (BASE - THRESHOLD_MIN + 1) * delta / (delta + SKEW)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_said_in_ascii() {
        for (host, ascii) in [
            ("m\u{fc}ller.de", "xn--mller-kva.de"),
            ("B\u{dc}CHER.example", "xn--bcher-kva.example"),
            ("*.\u{f8}l.test", "*.xn--l-4ga.test"),
            ("\u{4f8b}\u{3048}.\u{30c6}\u{30b9}\u{30c8}", "xn--r8jz45g.xn--zckzah"),
            ("\u{43f}\u{440}\u{438}\u{43c}\u{435}\u{440}.\u{440}\u{444}", "xn--e1afmkfd.xn--p1ai"),
        ] {
            assert_eq!(ascii_form(host).as_deref(), Some(ascii));
        }
        assert!(ascii_help("a.test").is_none());
        assert!(ascii_help("mu\u{308}ller.de").is_some_and(|help| help.ends_with("`xn--`")), "not composed");
    }
}
