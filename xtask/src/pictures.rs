//! Pictures that are drawn from a text: `NAME.svg` from `NAME.dot` beside it, by Graphviz.
//!
//! The drawing ends with a digest of its text. So `tidy` notices a text that was changed alone, also on a machine without
//! Graphviz, and whichever version has drawn it.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use crate::command::finish;

/// Draws every `.dot` of `docs/images` anew.
pub(crate) fn draw(root: &Path) -> Result<()> {
    let folder = root.join("docs/images");
    for entry in std::fs::read_dir(&folder).with_context(|| format!("cannot list {}", folder.display()))? {
        let text = entry?.path();
        if text.extension().is_some_and(|extension| extension == "dot") {
            draw_one(&text)?;
        }
    }
    Ok(())
}

fn draw_one(text: &Path) -> Result<()> {
    let drawing = text.with_extension("svg");
    let mut dot = Command::new("dot");
    finish(dot.args(["-Tsvg", "-o"]).arg(&drawing).arg(text), "dot (Debian and Ubuntu: graphviz)")?;
    let content = std::fs::read_to_string(text).context("cannot read the text")?;
    let drawn = std::fs::read_to_string(&drawing).context("cannot read the drawing")?;
    std::fs::write(&drawing, format!("{}\n{}\n", drawn.trim_end(), mark(&content)))?;
    println!("{}", drawing.display());
    Ok(())
}

/// Whether the drawing beside a text was made from it as it is now.
pub(crate) fn is_current(text: &str, drawing: &str) -> bool {
    drawing.trim_end().ends_with(&mark(text))
}

/// The last line of a drawing.
fn mark(text: &str) -> String {
    format!("<!-- drawn by cargo xtask pictures, from a text with the digest {:016x} -->", digest(text))
}

/// FNV-1a: it only has to notice a change.
fn digest(text: &str) -> u64 {
    let step = |digest: u64, byte: u8| (digest ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    text.bytes().filter(|byte| *byte != b'\r').fold(0xcbf2_9ce4_8422_2325, step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digest_is_that_of_the_algorithm() {
        assert_eq!(digest(""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(digest("foobar"), 0x8594_4171_f739_67e8);
    }

    #[test]
    fn a_text_that_was_changed_alone_is_noticed() {
        let drawing = format!("<svg/>\n{}\n", mark("a -> b"));
        assert!(is_current("a -> b", &drawing));
        assert!(!is_current("a -> c", &drawing) && !is_current("a -> b", "<svg/>"));
    }
}
