//! F31, F32, F34: slow, many, never reading and smuggling clients.
