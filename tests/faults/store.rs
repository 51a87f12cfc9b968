//! F15 to F22 and F24: a Redis that is slow, gone, empty, full, read-only or lying, under load.
