//! What a location does with its requests: an answer, files, or a server.

mod error_pages;
mod files;
mod answer;
mod status;

pub(super) use answer::{answer, closes, denied, empty_picture, redirect, unavailable};
pub(super) use error_pages::error_pages;
pub(super) use files::{FilesPlace, files};
pub(super) use status::status;
