//! Commands that print documents of Weir: completions of shells, manual pages, the reference of the config.

pub(crate) mod completions;
pub(crate) mod manual;
pub(crate) mod reference;

#[cfg(test)]
mod commands_page;
