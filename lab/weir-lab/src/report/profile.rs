//! The part of a report about where targets spend their CPU time.

use maud::{Markup, PreEscaped, html};

use crate::results::run::Run;

/// The flame graph of every target, or why there is none; nothing when no profile was asked for.
pub(super) fn section(run: &Run) -> Markup {
    if run.profiles.is_empty() {
        return html! {};
    }
    html! {
        section {
            h2 { "Where the CPU time goes" }
            p {
                "Flame graphs of one more round, which counts nowhere else. A box is a function, as wide as its share of the samples; it stands on the one \
                 that called it, blue in the kernel. The pointer on a box shows its whole name."
            }
            @for (target, profile) in &run.profiles {
                figure {
                    figcaption { (target) ": " (profile.sentence()) }
                    @if let Ok(svg) = profile.svg() {
                        div.wide tabindex="0" role="img" aria-label={ "Flame graph of " (target) } {
                            div style="min-width: 60rem" { (PreEscaped(svg)) }
                        }
                    }
                }
            }
        }
    }
}

/// The same in words.
pub(super) fn remarks(run: &Run) -> impl Iterator<Item = String> {
    run.profiles.iter().map(|(target, profile)| {
        let file =
            if profile.svg().is_ok() { format!(" (profiles/{})", file_of(target)) } else { String::new() };
        format!("Profile of {target}: {}{file}.", profile.sentence())
    })
}

/// Name of the drawing of `target` as a file.
pub(super) fn file_of(target: &str) -> String {
    format!("{}.svg", target.replace('/', "-"))
}
