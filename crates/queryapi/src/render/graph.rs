//! Nodes, relationships and paths as JSON.

use hopcache_packstream::{Reader, Token, tag};

use super::value::Renderer;
use super::{Encoding, RenderError};

/// Member names, plain and typed, in the order the server writes them.
pub(super) struct Names {
    pub(super) id: &'static str,
    pub(super) start: &'static str,
    pub(super) end: &'static str,
    pub(super) kind: &'static str,
    pub(super) labels: &'static str,
    pub(super) properties: &'static str,
}

impl Names {
    pub(super) fn of(encoding: Encoding) -> &'static Self {
        if encoding.is_typed() { &TYPED } else { &PLAIN }
    }
}

const PLAIN: Names = Names {
    id: "{\"elementId\":",
    start: ",\"startNodeElementId\":",
    end: ",\"endNodeElementId\":",
    kind: ",\"type\":",
    labels: ",\"labels\":",
    properties: ",\"properties\":",
};
const TYPED: Names = Names {
    id: "{\"_element_id\":",
    start: ",\"_start_node_element_id\":",
    end: ",\"_end_node_element_id\":",
    kind: ",\"_type\":",
    labels: ",\"_labels\":",
    properties: ",\"_properties\":",
};

/// A relationship, wherever its parts came from.
struct Relationship<'a> {
    id: &'a str,
    start: &'a str,
    end: &'a str,
    kind: &'a str,
    properties: &'a [u8],
}

/// Parts of a path's relationship, which does not know its ends.
pub(super) struct Unbound<'a> {
    pub(super) id: &'a str,
    pub(super) kind: &'a str,
    pub(super) properties: &'a [u8],
}

impl Renderer<'_> {
    /// Behind the head of a node structure: id, labels, properties, element id.
    pub(super) fn node(&mut self, reader: &mut Reader<'_>, depth: usize) -> Result<(), RenderError> {
        reader.skip()?;
        let labels = reader.skip()?;
        let properties = reader.skip()?;
        let id = text(reader, tag::NODE)?;
        let names = Names::of(self.encoding);
        self.open("Node");
        self.string(names.id, id);
        self.raw(names.labels);
        self.labels(labels)?;
        self.properties(names.properties, properties, tag::NODE, depth)?;
        self.close();
        Ok(())
    }

    fn labels(&mut self, packed: &[u8]) -> Result<(), RenderError> {
        let mut reader = Reader::new(packed);
        let Token::List(len) = reader.token()? else { return Err(RenderError::Structure(tag::NODE)) };
        self.raw("[");
        let mut first = true;
        for _ in 0..len {
            self.comma(&mut first);
            let label = text(&mut reader, tag::NODE)?;
            crate::json::string(self.out, label);
        }
        self.raw("]");
        Ok(())
    }

    /// Behind the head of a relationship structure: three ids, type, properties, three element ids.
    pub(super) fn relationship(&mut self, reader: &mut Reader<'_>, depth: usize) -> Result<(), RenderError> {
        for _ in 0..3 {
            reader.skip()?;
        }
        let kind = text(reader, tag::RELATIONSHIP)?;
        let properties = reader.skip()?;
        let id = text(reader, tag::RELATIONSHIP)?;
        let start = text(reader, tag::RELATIONSHIP)?;
        let end = text(reader, tag::RELATIONSHIP)?;
        self.relationship_of(&Relationship { id, start, end, kind, properties }, depth)
    }

    fn relationship_of(&mut self, parts: &Relationship<'_>, depth: usize) -> Result<(), RenderError> {
        let names = Names::of(self.encoding);
        self.open("Relationship");
        self.string(names.id, parts.id);
        self.string(names.start, parts.start);
        self.string(names.end, parts.end);
        self.string(names.kind, parts.kind);
        self.properties(names.properties, parts.properties, tag::RELATIONSHIP, depth)?;
        self.close();
        Ok(())
    }

    fn string(&mut self, head: &str, text: &str) {
        self.raw(head);
        crate::json::string(self.out, text);
    }

    fn properties(&mut self, head: &str, packed: &[u8], of: u8, depth: usize) -> Result<(), RenderError> {
        let mut reader = Reader::new(packed);
        let Token::Map(len) = reader.token()? else { return Err(RenderError::Structure(of)) };
        self.raw(head);
        self.members(&mut reader, len, depth)?;
        self.raw("}");
        Ok(())
    }

    /// Behind the head of a path structure: nodes, relationships without ends, and indices that say in
    /// pairs which relationship (from 1; negative against its direction) leads to which node (from 0).
    pub(super) fn path(&mut self, reader: &mut Reader<'_>, depth: usize) -> Result<(), RenderError> {
        let broken = || RenderError::Structure(tag::PATH);
        let nodes = parts(reader)?;
        let relationships = parts(reader)?;
        let Token::List(len) = reader.token()? else { return Err(broken()) };
        self.open("Path");
        self.raw("[");
        let mut here = *nodes.first().ok_or_else(broken)?;
        self.value(&mut Reader::new(here), depth + 1)?;
        if len % 2 != 0 {
            return Err(broken());
        }
        for _ in 0..len / 2 {
            let (Token::Int(step), Token::Int(to)) = (reader.token()?, reader.token()?) else {
                return Err(broken());
            };
            let place =
                usize::try_from(step.unsigned_abs()).ok().and_then(|from_one| from_one.checked_sub(1));
            let packed = *place.and_then(|at| relationships.get(at)).ok_or_else(broken)?;
            let next = *usize::try_from(to).ok().and_then(|at| nodes.get(at)).ok_or_else(broken)?;
            let (from, onto) = if step > 0 { (here, next) } else { (next, here) };
            let Unbound { id, kind, properties } = unbound(packed)?;
            let (start, end) = (node_id(from)?, node_id(onto)?);
            self.raw(",");
            self.relationship_of(&Relationship { id, start, end, kind, properties }, depth + 1)?;
            self.raw(",");
            self.value(&mut Reader::new(next), depth + 1)?;
            here = next;
        }
        self.raw("]");
        self.close();
        Ok(())
    }
}

pub(super) fn text<'a>(reader: &mut Reader<'a>, of: u8) -> Result<&'a str, RenderError> {
    match reader.token()? {
        Token::Str(text) => Ok(text),
        _ => Err(RenderError::Structure(of)),
    }
}

pub(super) fn parts<'a>(reader: &mut Reader<'a>) -> Result<Vec<&'a [u8]>, RenderError> {
    let Token::List(len) = reader.token()? else { return Err(RenderError::Structure(tag::PATH)) };
    let mut parts = Vec::new();
    for _ in 0..len {
        parts.push(reader.skip()?);
    }
    Ok(parts)
}

pub(super) fn unbound(packed: &[u8]) -> Result<Unbound<'_>, RenderError> {
    let mut reader = Reader::new(packed);
    let Token::Struct { tag: tag::UNBOUND_RELATIONSHIP, len: 4 } = reader.token()? else {
        return Err(RenderError::Structure(tag::UNBOUND_RELATIONSHIP));
    };
    reader.skip()?;
    let kind = text(&mut reader, tag::UNBOUND_RELATIONSHIP)?;
    let properties = reader.skip()?;
    let id = text(&mut reader, tag::UNBOUND_RELATIONSHIP)?;
    Ok(Unbound { id, kind, properties })
}

pub(super) fn node_id(packed: &[u8]) -> Result<&str, RenderError> {
    let mut reader = Reader::new(packed);
    let Token::Struct { tag: tag::NODE, len: 4 } = reader.token()? else {
        return Err(RenderError::Structure(tag::PATH));
    };
    for _ in 0..3 {
        reader.skip()?;
    }
    text(&mut reader, tag::NODE)
}
