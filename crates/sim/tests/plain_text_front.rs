//! A second front: it renders results as plain text. The engine, unchanged, caches, shares and forwards its renderings
//! beside the Query API's.

use hopcache_core::result::ResultSet;
use hopcache_engine::rendering::{RenderError, Renderer, RenderingId};
use hopcache_packstream::Reader;
use hopcache_sim::world::query_api_renderer::QueryApiRenderer;

use crate::prelude::*;
use bytes::Bytes;

const PLAIN_TEXT: RenderingId = RenderingId(40);

/// The renderings of a node with both fronts.
struct BothFronts;

impl Renderer for BothFronts {
    fn knows(&self, id: RenderingId) -> bool {
        id == PLAIN_TEXT || QueryApiRenderer.knows(id)
    }

    fn render(
        &self,
        id: RenderingId,
        result: &ResultSet,
        bookmark: Option<&str>,
    ) -> Result<Vec<u8>, RenderError> {
        if id != PLAIN_TEXT {
            return QueryApiRenderer.render(id, result, bookmark);
        }
        let mut text = result.fields.join(" | ") + "\n";
        let mut reader = Reader::new(&result.records);
        while !reader.is_empty() {
            let record = reader.value().map_err(|_| RenderError::BadRecords)?;
            text += &format!("{record:?}\n");
        }
        Ok(text.into_bytes())
    }

    /// Plain text shows no bookmarks.
    fn with_bookmark(&self, id: RenderingId, rendered: Bytes, bookmark: &str) -> Bytes {
        if id == PLAIN_TEXT { rendered } else { QueryApiRenderer.with_bookmark(id, rendered, bookmark) }
    }

    /// Spellings share nothing in this world.
    fn has_columns(&self, _: RenderingId, _: &[u8], _: &[Box<str>]) -> bool {
        true
    }

    fn with_columns(&self, _: RenderingId, _: &[u8], _: &[Box<str>]) -> Option<Bytes> {
        None
    }
}

fn text_of(outcome: &Outcome) -> String {
    match &outcome.answer {
        Answer::Body(body) => String::from_utf8_lossy(body).into_owned(),
        Answer::Failed(failure) => format!("{failure:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_second_front_needs_no_change_in_the_engine() {
    let world = World::with_renderer(3, 51, Arc::new(BothFronts));
    let json = world.ask(READ);
    let plain = Ask { rendering: PLAIN_TEXT, ..json.clone() };
    let records = Ask { rendering: RenderingId::RECORDS, ..json.clone() };
    let owner = world.owner_of(&json);
    let elsewhere = (owner + 1) % 3;

    let miss = world.send(elsewhere, &plain).await.unwrap();
    assert!(matches!(miss.how.class, Class::Miss { .. }), "{miss:?}");
    assert!(text_of(&miss).starts_with("version | "), "{}", text_of(&miss));
    for node in 0..3 {
        let hit = world.send(node, &plain).await.unwrap();
        assert_eq!((hit.how.class, text_of(&hit)), (Class::Hit, text_of(&miss)));
    }
    // The same entry, in the other front's rendering and as the records that the origin sent.
    let hit = world.send(elsewhere, &json).await.unwrap();
    assert_eq!(hit.how.class, Class::Hit);
    assert!(text_of(&hit).starts_with("{\"data\":"), "{}", text_of(&hit));
    let hit = world.send((owner + 2) % 3, &records).await.unwrap();
    let Answer::Body(body) = &hit.answer else { unreachable!("{hit:?}") };
    assert_eq!(ResultSet::from_bytes(body).unwrap().fields[0], "version");
    assert_eq!(world.origin.runs(), 1);
}
