//! The renderings of one copy made so far, by name.

use std::sync::OnceLock;

use bytes::Bytes;

use crate::model::rendering::RenderingId;

/// Renderings that one copy keeps. Further forms of a front are made anew for each answer.
const RENDERINGS_MAX: usize = 4;

/// Up to [`RENDERINGS_MAX`] renderings, each made once. Reading takes no lock.
#[derive(Debug, Default)]
pub(super) struct Renderings([OnceLock<(RenderingId, Bytes)>; RENDERINGS_MAX]);

impl Renderings {
    /// The rendering of this name, if it has been made.
    pub(super) fn get(&self, id: RenderingId) -> Option<&Bytes> {
        // Filled from the front: after the first free place all are free.
        let made = self.0.iter().map_while(OnceLock::get).find(|(made, _)| *made == id);
        made.map(|(_, body)| body)
    }

    /// Keeps a rendering and returns the kept one: if two threads make the same, the first.
    ///
    /// Two threads render different forms: both find place 0 free · A takes it · B finds A's name there and goes on.
    pub(super) fn keep(&self, id: RenderingId, body: Bytes) -> Bytes {
        for place in &self.0 {
            let (made, kept) = place.get_or_init(|| (id, body.clone()));
            if *made == id {
                return kept.clone();
            }
        }
        body
    }

    /// All that have been made.
    pub(super) fn all(&self) -> impl Iterator<Item = &Bytes> {
        self.0.iter().map_while(OnceLock::get).map(|(_, body)| body)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rendering_is_kept_once_and_no_more_than_there_are_places() {
        let renderings = Renderings::default();
        let body = |id: u8| Bytes::from(vec![id]);
        for id in 0..6 {
            assert_eq!(renderings.get(RenderingId(id)), None);
            assert_eq!(renderings.keep(RenderingId(id), body(id)), body(id));
        }
        assert_eq!(renderings.keep(RenderingId(1), body(99)), body(1), "the first one is kept");
        assert_eq!(renderings.all().count(), RENDERINGS_MAX);
        assert_eq!(renderings.get(RenderingId(5)), None, "no place");
    }
}
