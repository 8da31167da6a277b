//! Draws folded stacks as a flame graph (Gregg 2016): a box for each function, as wide as its share of the samples, callers below.
//!
//! SVG without scripts, fonts or anything from outside: a browser shows a box's whole name and share where the pointer rests.
//! Colours are bright enough for dark letters on them, on pages of either brightness.

use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The suffix of a frame of the kernel, as in folded stacks everywhere.
pub const KERNEL: &str = "_[k]";

/// Longest name of a function that is kept: names of generics can fill a page.
const NAME_MAX: usize = 160;

/// Most frames of a stack that are drawn or folded.
pub const DEPTH_MAX: usize = 256;

/// Width of the drawing, in pixels.
const WIDTH: f64 = 1200.0;

/// Height of a box.
const HEIGHT: f64 = 17.0;

/// Boxes narrower than this are not drawn: they would not be visible.
const WIDTH_MIN: f64 = 0.4;

/// Width of a letter of the font.
const LETTER: f64 = 6.7;

/// A function in its callers.
#[derive(Debug, Default)]
struct Frame<'a> {
    samples: u64,
    callees: BTreeMap<&'a str, Frame<'a>>,
}

impl<'a> Frame<'a> {
    fn add(&mut self, stack: &'a str, count: u64) {
        self.samples += count;
        let mut frame = self;
        for name in stack.split(';').take(DEPTH_MAX) {
            frame = frame.callees.entry(name).or_default();
            frame.samples += count;
        }
    }

    fn depth(&self) -> usize {
        self.callees.values().map(|callee| 1 + callee.depth()).max().unwrap_or(0)
    }
}

/// The name of a function in a folded stack: short, without the hash of Rust's older scheme.
pub fn frame_name(symbol: &str) -> String {
    let name = symbol.trim().replace(';', ":").replace(['\n', '\r'], " ");
    let name = without_hash(&name);
    if name.chars().count() <= NAME_MAX {
        return name.to_owned();
    }
    name.chars().take(NAME_MAX).chain(std::iter::once('…')).collect()
}

/// A name of Rust's older scheme without the hash at its end.
fn without_hash(name: &str) -> &str {
    match name.rsplit_once("::h") {
        Some((rest, hash)) if hash.len() == 16 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()) => rest,
        _ => name,
    }
}

/// The stacks as text, a line each: frames from the outermost on between semicolons, then their number.
pub fn folded(stacks: &BTreeMap<String, u64>) -> String {
    let mut out = String::new();
    for (stack, count) in stacks {
        writeln!(out, "{stack} {count}").expect("a String takes every write");
    }
    out
}

/// The flame graph of `stacks`; `title` is written into the box below all others.
pub fn svg(title: &str, stacks: &BTreeMap<String, u64>) -> String {
    let mut root = Frame::default();
    for (stack, count) in stacks {
        root.add(stack, *count);
    }
    let height = (root.depth() + 1) as f64 * HEIGHT;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"100%\" \
         font-family=\"ui-monospace, monospace\" font-size=\"11\">\n"
    );
    let drawing = Drawing { all: root.samples.max(1) as f64, height };
    drawing.frame(&mut out, title, &root, 0, 0.0);
    out.push_str("</svg>\n");
    out
}

struct Drawing {
    /// All samples.
    all: f64,
    height: f64,
}

impl Drawing {
    /// Draws a function and its callees, from `left` on.
    fn frame(&self, out: &mut String, name: &str, frame: &Frame<'_>, level: usize, left: f64) {
        let width = frame.samples as f64 / self.all * WIDTH;
        if width < WIDTH_MIN {
            return;
        }
        let top = self.height - (level + 1) as f64 * HEIGHT;
        let share = 100.0 * frame.samples as f64 / self.all;
        let whole = escaped(name);
        let written = write!(
            out,
            "<g><title>{whole}: {} samples, {share:.1} %</title><rect x=\"{left:.1}\" y=\"{top}\" width=\"{:.1}\" height=\"{}\" \
             rx=\"1\" fill=\"{}\"/>",
            frame.samples,
            (width - 0.3).max(0.2),
            HEIGHT - 1.0,
            colour(name)
        );
        written.expect("a String takes every write");
        let letters = ((width - 6.0) / LETTER) as usize;
        if letters >= 3 {
            let label = escaped(&shortened(name, letters));
            let written = write!(
                out,
                "<text x=\"{:.1}\" y=\"{}\" fill=\"#1a1a1a\">{label}</text>",
                left + 3.0,
                top + 12.0
            );
            written.expect("a String takes every write");
        }
        out.push_str("</g>\n");
        let mut left = left;
        for (name, callee) in &frame.callees {
            self.frame(out, name, callee, level + 1, left);
            left += callee.samples as f64 / self.all * WIDTH;
        }
    }
}

/// At most this many letters, the last of them dots when there were more.
fn shortened(name: &str, letters: usize) -> String {
    if name.chars().count() <= letters {
        return name.to_owned();
    }
    name.chars().take(letters.saturating_sub(2)).chain("..".chars()).collect()
}

/// Blue for the kernel, from yellow to red for programs; the same name always has the same one.
fn colour(name: &str) -> String {
    // FNV-1a.
    let hash =
        name.bytes().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    let (one, two) = (hash % 40, hash / 40 % 15);
    let (hue, light) = if name.ends_with(KERNEL) { (195 + one / 2, 68 + two) } else { (14 + one, 62 + two) };
    format!("hsl({hue} 78% {light}%)")
}

/// Text that is valid in XML (1.0, 2.4).
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::{folded, frame_name, shortened, svg};

    #[test]
    fn a_box_is_as_wide_as_its_share_and_above_its_caller() {
        let stacks = [("weir;main;read", 1), ("weir;main;send_[k]", 3)];
        let stacks: BTreeMap<String, u64> = stacks.map(|(stack, count)| (stack.to_owned(), count)).into();
        let svg = svg("all", &stacks);
        let rect = |name: &str| {
            let after = svg.split(&format!("<title>{name}: ")).nth(1).unwrap();
            after.split("<rect ").nth(1).unwrap().split(" rx").next().unwrap().to_owned()
        };
        // Four levels of 17: all, weir, main, and the two on top.
        assert_eq!(rect("all"), "x=\"0.0\" y=\"51\" width=\"1199.7\" height=\"16\"");
        assert_eq!(rect("read"), "x=\"0.0\" y=\"0\" width=\"299.7\" height=\"16\"");
        assert_eq!(
            rect("send_\\[k]".replace('\\', "").as_str()),
            "x=\"300.0\" y=\"0\" width=\"899.7\" height=\"16\""
        );
        assert!(svg.contains("send_[k]: 3 samples, 75.0 %") && !svg.contains("<script"), "{svg}");
    }

    #[test]
    fn names_are_short_and_never_split_a_stack() {
        for (symbol, name) in [
            (" main ", "main"),
            ("weir_proxy::send::h0123456789abcdef", "weir_proxy::send"),
            ("weir_proxy::send::h0123", "weir_proxy::send::h0123"),
            ("<[u8; 4] as X>::f\n", "<[u8: 4] as X>::f"),
        ] {
            assert_eq!(frame_name(symbol), name);
        }
        assert_eq!(frame_name(&"x".repeat(1000)).chars().count(), 161);
        let stacks = BTreeMap::from([("a;b".to_owned(), 2), ("a;c".to_owned(), 1)]);
        assert_eq!(folded(&stacks), "a;b 2\na;c 1\n");
    }

    #[test]
    fn a_stack_without_an_end_is_cut() {
        let stacks = BTreeMap::from([(["f"; 100_000].join(";"), 1)]);
        assert_eq!(svg("all", &stacks).matches("<rect").count(), 257);
    }

    #[test]
    fn names_are_text_and_not_markup() {
        let stacks = BTreeMap::from([("<core::fmt as X>::f&\"".to_owned(), 5)]);
        let svg = svg("all", &stacks);
        assert!(svg.contains("&lt;core::fmt as X&gt;::f&amp;&quot;") && !svg.contains("<core"), "{svg}");
    }

    #[test]
    fn invisible_boxes_are_not_drawn_and_labels_fit() {
        let mut stacks = BTreeMap::from([("weir;busy".to_owned(), 100_000)]);
        stacks.insert("weir;idle".to_owned(), 1);
        assert!(!svg("all", &stacks).contains("idle"));
        assert_eq!([shortened("abcdef", 6), shortened("abcdef", 5)], ["abcdef", "abc.."]);
        assert!(!svg("all", &BTreeMap::new()).contains("<rect"));
    }
}
