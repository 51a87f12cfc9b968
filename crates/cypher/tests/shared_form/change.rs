//! Changes of a query after which it is another query, however it is spelled: each changes how often some token stands
//! in it, or which of two differently labelled nodes is meant.

use super::generate::{Condition, Direction, Expr, KEYS, KINDS, LABELS, OPERATORS, Path, Query, Stage};
use super::random::Random;

/// The query with one change.
pub fn changed(query: &Query, random: &mut Random) -> Query {
    loop {
        let mut other = query.clone();
        if change(&mut other, random).is_some() && other != *query {
            return other;
        }
    }
}

fn another(of: &[&'static str], than: &str, random: &mut Random) -> &'static str {
    let others: Vec<&'static str> = of.iter().copied().filter(|each| *each != than).collect();
    random.pick(&others)
}

fn change(query: &mut Query, random: &mut Random) -> Option<()> {
    match random.below(10) {
        0 => query.last.is_distinct = !query.last.is_distinct,
        1 => {
            query.last.limit =
                Some(query.last.limit.map_or(3, |limit| limit + 1)).filter(|_| !query.last.order.is_empty());
        }
        2 => {
            let (_, is_down) = query.last.order.first_mut()?;
            *is_down = !*is_down;
        }
        3 => {
            query.last.items.pop().filter(|_| !query.last.items.is_empty())?;
            query.last.order.retain(|(at, _)| *at < query.last.items.len());
        }
        4 => {
            let item = random.below(query.last.items.len());
            return change_expr(&mut query.last.items[item].expr, random);
        }
        _ => {
            let at = random.below(query.stages.len());
            return change_stage(&mut query.stages[at], random);
        }
    }
    Some(())
}

fn change_expr(expr: &mut Expr, random: &mut Random) -> Option<()> {
    match expr {
        Expr::Property(_, key) => *key = another(&KEYS, key, random),
        Expr::Number(number) | Expr::Case(_, number) => *number += 7,
        Expr::Call(name, _) => *name = if *name == "toString" { "coalesce" } else { "toString" },
        Expr::Infix(_, _, inner) | Expr::Map(_, inner) => return change_expr(inner, random),
        Expr::List(items) => items.push(Expr::Number(9)),
        Expr::Var(_) | Expr::Count(_) | Expr::Text(_) => return None,
    }
    Some(())
}

fn change_stage(stage: &mut Stage, random: &mut Random) -> Option<()> {
    match stage {
        Stage::Unwind { numbers, .. } => numbers.push(8),
        Stage::With { projection, conditions } => match random.below(2) {
            0 => projection.is_distinct = !projection.is_distinct,
            _ => return change_condition(conditions.first_mut()?, random),
        },
        Stage::Match { is_optional, paths, conditions } => match random.below(8) {
            0 => *is_optional = !*is_optional,
            1 | 2 => return change_condition(conditions.first_mut()?, random),
            3 => drop(conditions.pop()?),
            _ => {
                let at = random.below(paths.len());
                return change_path(&mut paths[at], random);
            }
        },
    }
    Some(())
}

fn change_condition(condition: &mut Condition, random: &mut Random) -> Option<()> {
    match condition {
        Condition::Compares { operator, .. } if OPERATORS.contains(operator) => {
            *operator = another(&OPERATORS, operator, random);
        }
        Condition::Compares { operator, .. } => {
            *operator = if *operator == "CONTAINS" { "ENDS WITH" } else { "CONTAINS" }
        }
        Condition::IsNull { is_not, .. } => *is_not = !*is_not,
        Condition::Label { label, .. } => *label = another(&LABELS, label, random),
        Condition::In { numbers, .. } => numbers.push(8),
        Condition::Other(expr) => return change_expr(expr, random),
    }
    Some(())
}

fn change_path(path: &mut Path, random: &mut Random) -> Option<()> {
    let node = random.below(path.nodes.len());
    match random.below(5) {
        0 => {
            let label = path.nodes[node].label.as_mut()?;
            *label = another(&LABELS, label, random);
        }
        1 => path.nodes[node].label = if path.nodes[node].label.is_some() { None } else { Some(LABELS[0]) },
        2 => {
            let kind = path.relationships.first_mut()?.kind.as_mut()?;
            *kind = another(&KINDS, kind, random);
        }
        3 => {
            let hops = &mut path.relationships.first_mut()?.hops;
            *hops = Some(hops.map_or((1, 3), |(from, to)| (from, to + 1)));
        }
        _ => {
            let labels = [path.nodes.first()?.label, path.nodes.last()?.label];
            let only = path.relationships.len() == 1;
            let relationship = path.relationships.first_mut()?;
            relationship.direction = match relationship.direction {
                Direction::Both => Direction::Right,
                Direction::Right if only && labels[0] != labels[1] => Direction::Left,
                _ => Direction::Both,
            };
        }
    }
    Some(())
}
