//! The admin listener and the runtime socket: who may do what there, what they show of the running process, and what can be changed.
//!
//! What they only pass on belongs elsewhere: metrics and the stories of exchanges to `observability`, the effect of a drain to
//! `upstream`.

mod guard;
mod overview;
mod status_page;
mod profile;
mod runtime_socket;
mod sessions;
