//! F3 to F5: flights whose client leaves, whose leader dies, and which thousands wait for.
