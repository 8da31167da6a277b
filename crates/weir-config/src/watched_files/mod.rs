//! Files that are read when a config names them, and again when they have changed: users, keys of tokens, entries of maps.

mod credential_files;
mod map_files;

pub use credential_files::{doubt_about_users, load_keys, load_users};
pub(crate) use map_files::read_map;
pub use map_files::{load_map, map_marks};
