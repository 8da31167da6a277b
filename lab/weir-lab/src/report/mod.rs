//! The report: the results of a run, in one type for people (Markdown) and machines (JSON).
//!
//! `summary` condenses rounds into medians, spreads and ratios; `verdict` holds them against the bars; `markdown` and `html`
//! write it down, `figures` for spreadsheets; `folder` saves it with the configurations used. Nothing here measures.

pub mod compare;
pub mod folder;
pub mod markdown;
pub mod html;
pub mod verdict;
mod memory;
mod profile;
mod remarks;
pub mod summary;
mod figures;
#[cfg(test)]
mod tests;
