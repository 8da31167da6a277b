//! Standard output of the demo: in a terminal a picture that is drawn over the one before, elsewhere plain lines.

use std::io::{self, IsTerminal as _};

use crate::output;

const HIDE_CURSOR: &str = "\x1b[?25l";
const SHOW_CURSOR: &str = "\x1b[?25h";
/// A line that is too long for the terminal must not become two, or the way back up is wrong.
const NO_WRAP: &str = "\x1b[?7l";
const WRAP: &str = "\x1b[?7h";
const ERASE_BELOW: &str = "\x1b[J";

/// Where the demo draws. Dropping it gives the terminal back as it was.
pub(super) struct DemoScreen {
    live: bool,
    /// Lines of the picture on the screen.
    drawn: usize,
}

impl DemoScreen {
    pub(super) fn new() -> Self {
        let dumb = std::env::var_os("TERM").is_none_or(|terminal| terminal == "dumb");
        Self { live: io::stdout().is_terminal() && !dumb, drawn: 0 }
    }

    /// Whether a picture can be drawn over the one before.
    pub(super) fn is_live(&self) -> bool {
        self.live
    }

    /// Writes text that stays.
    pub(super) fn print(&mut self, text: &str) -> io::Result<()> {
        output::print(&format!("{text}\n"))
    }

    /// Draws a picture in the place of the last one.
    pub(super) fn draw(&mut self, picture: &str) -> io::Result<()> {
        let text = frame(picture, self.drawn, self.live);
        self.drawn = picture.lines().count();
        output::print(&text)
    }
}

impl Drop for DemoScreen {
    fn drop(&mut self) {
        if self.live {
            let _nobody_looks = output::print(&format!("{SHOW_CURSOR}{WRAP}"));
        }
    }
}

/// The output that replaces a picture of `drawn` lines by `picture`.
fn frame(picture: &str, drawn: usize, live: bool) -> String {
    if !live {
        return picture.to_owned();
    }
    let up = if drawn > 0 { format!("\x1b[{drawn}A\r") } else { "\r".to_owned() };
    format!("{HIDE_CURSOR}{NO_WRAP}{up}{ERASE_BELOW}{picture}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_takes_the_place_of_the_last_one() {
        let first = frame("a\nb\n", 0, true);
        assert!(first.ends_with("\r\x1b[Ja\nb\n") && !first.contains("A\r"), "{first:?}");
        assert!(frame("c\nd\n", 2, true).ends_with("\x1b[2A\r\x1b[Jc\nd\n"));
    }

    #[test]
    fn without_a_terminal_it_is_plain_text() {
        assert_eq!(frame("a\nb\n", 2, false), "a\nb\n");
    }
}
