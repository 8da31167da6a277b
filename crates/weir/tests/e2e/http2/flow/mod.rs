//! Windows, priorities and many streams at once: who may send when.

mod windows;
mod many_streams;
mod priorities;
mod flow_control;
