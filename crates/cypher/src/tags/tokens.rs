//! The tokens that a write may create, from its tree: rule T11 of [`crate::tags::rules`].

use std::collections::BTreeSet;

use crate::procedures::is_pure;
use crate::syntax::tree::{Change, Clause, Element, Filter, LabelExpr, Labels, Path, Query};
use crate::tags::limits::TOKENS_MAX;
use crate::tags::params::Params;
use crate::tags::rules::Token;
use hopcache_core::tags::TagId;

/// The tokens that `query` may create, as sorted numbers; `None` if they are not known.
pub(crate) fn tokens(query: &Query<'_>, params: Params<'_, '_>) -> Option<Vec<TagId>> {
    let mut walk = Walk { params, found: BTreeSet::new() };
    walk.query(query)?;
    (walk.found.len() <= TOKENS_MAX).then(|| walk.found.into_iter().collect())
}

/// What a name is the name of.
type Kind = fn(&str) -> Token<'_>;

/// Each step is `None` if it finds a name that is not known.
struct Walk<'a, 'q> {
    params: Params<'a, 'q>,
    found: BTreeSet<TagId>,
}

impl Walk<'_, '_> {
    fn query(&mut self, query: &Query<'_>) -> Option<()> {
        query.branches.iter().try_for_each(|branch| self.clauses(branch))
    }

    fn clauses(&mut self, clauses: &[Clause<'_>]) -> Option<()> {
        clauses.iter().try_for_each(|clause| self.clause(clause))
    }

    fn clause(&mut self, clause: &Clause<'_>) -> Option<()> {
        match clause {
            Clause::Create(paths) => paths.iter().try_for_each(|path| self.path(path)),
            Clause::Merge { path, on_create, on_match } => {
                self.path(path)?;
                on_create.iter().chain(on_match).try_for_each(|change| self.change(change))
            }
            Clause::Set(changes) => changes.iter().try_for_each(|change| self.change(change)),
            Clause::Foreach { body, .. } => self.clauses(body),
            Clause::Call(call) => self.query(&call.query),
            Clause::Procedure(called) if is_pure(&called.name) => Some(()),
            Clause::Procedure(_) => None,
            Clause::New(clause) => clause.queries().into_iter().try_for_each(|query| self.query(query)),
            // What is read or removed gets no token.
            Clause::Match(_)
            | Clause::Unwind { .. }
            | Clause::With(_)
            | Clause::Return(_)
            | Clause::LoadCsv { .. }
            | Clause::Remove(_)
            | Clause::Delete { .. }
            | Clause::Finish => Some(()),
        }
    }

    fn path(&mut self, path: &Path<'_>) -> Option<()> {
        path.elements.iter().try_for_each(|element| match element {
            Element::Node(node) => {
                self.named_if(node.labels.as_ref(), |name| Token::Label(name))?;
                self.filter(&node.filter)
            }
            Element::Relationship(found) => {
                self.named_if(found.types.as_ref(), |name| Token::Type(name))?;
                self.filter(&found.filter)
            }
            // No pattern that can be created.
            Element::Group { .. } => None,
        })
    }

    fn filter(&mut self, filter: &Filter<'_>) -> Option<()> {
        filter.entries().for_each(|(key, _)| self.add_one(key.as_str(), |name| Token::Key(name)));
        let Some(parameter) = &filter.parameter else { return Some(()) };
        let keys = self.params.keys(parameter.as_str())?;
        self.add(&keys, |name| Token::Key(name));
        Some(())
    }

    fn change(&mut self, change: &Change<'_>) -> Option<()> {
        let keys = match change {
            Change::Labels { labels, .. } => return self.named(&labels.expr, |name| Token::Label(name)),
            Change::Key { key, .. } => self.params.key_names(key)?,
            Change::Keys { value, .. } => self.params.keys_of(value)?,
        };
        self.add(&keys, |name| Token::Key(name));
        Some(())
    }

    fn named_if(&mut self, labels: Option<&Labels<'_>>, kind: Kind) -> Option<()> {
        labels.map_or(Some(()), |labels| self.named(&labels.expr, kind))
    }

    fn named(&mut self, labels: &LabelExpr<'_>, kind: Kind) -> Option<()> {
        match labels {
            LabelExpr::Name(name) => self.add_one(name.as_str(), kind),
            LabelExpr::And(parts) | LabelExpr::Or(parts) => {
                return parts.iter().try_for_each(|part| self.named(part, kind));
            }
            LabelExpr::Dynamic(expr) => {
                let names = self.params.names_of(expr)?;
                self.add(&names, kind);
            }
            LabelExpr::Not(_) | LabelExpr::Any => return None,
        }
        Some(())
    }

    fn add(&mut self, names: &[String], kind: Kind) {
        names.iter().for_each(|name| self.add_one(name, kind));
    }

    fn add_one(&mut self, name: &str, kind: Kind) {
        self.found.insert(TagId::from(kind(name)));
    }
}
