//! The program of [`weir_fuzz::targets::fastcgi`].

#![cfg_attr(fuzzing, no_main)]

weir_fuzz::program!(fastcgi);
