//! The program of [`weir_fuzz::targets::resp`].

#![cfg_attr(fuzzing, no_main)]

weir_fuzz::program!(resp);
