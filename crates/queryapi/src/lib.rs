//! queryapi
