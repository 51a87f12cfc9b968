//! How numbers of lessons are written and read.
