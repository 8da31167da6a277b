//! The program of [`weir_fuzz::targets::session_responses`].

#![cfg_attr(fuzzing, no_main)]

weir_fuzz::program!(session_responses);
