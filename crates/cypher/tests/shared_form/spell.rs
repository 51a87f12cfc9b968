//! Writes a query in a random spelling: names of variables and columns, directions of paths, order of conjuncts, case of
//! keywords, white space. Each spelling means the same, so all of it keeps to the rules of Neo4j and to no rule of the
//! product.

use std::collections::BTreeMap;

use super::generate::{
    Condition, Direction, Expr, Item, Node, Path, Projection, Query, Relationship, Stage, Value, Var,
};
use super::random::Random;

const NAMES: [&str; 18] = [
    "a", "b", "n", "m", "x", "y", "s", "node", "user", "count", "type", "v0", "v1", "v2", "ZzA", "N",
    "start", "r_1",
];
const COLUMNS: [&str; 8] = ["total", "first name", "c", "a.b", "n.x", "count(*)", "it`s", "x"];

struct Speller<'a> {
    random: &'a mut Random,
    names: BTreeMap<Var, String>,
    out: String,
}

pub fn spell(query: &Query, random: &mut Random) -> String {
    let mut speller = Speller { random, names: BTreeMap::new(), out: String::new() };
    for stage in &query.stages {
        speller.stage(stage);
    }
    speller.word("RETURN");
    speller.projection(&query.last, false);
    if speller.random.chance(20) {
        speller.out.push_str(" ;");
    }
    speller.out
}

impl Speller<'_> {
    fn word(&mut self, word: &str) {
        let gap = self.random.pick(&[" ", " ", " ", "\n", "  ", " /* n */ "]);
        let is_lower = self.random.chance(20);
        self.out.push_str(gap);
        self.out.push_str(&if is_lower { word.to_lowercase() } else { word.to_owned() });
    }

    fn put(&mut self, text: &str) {
        self.out.push_str(text);
    }

    /// The name of a variable, chosen where it is declared. Backticks are no part of it.
    fn var(&mut self, var: Var) -> String {
        if !self.names.contains_key(&var) {
            let free = self.free_name();
            self.names.insert(var, free);
        }
        let name = self.names[&var].clone();
        if self.random.chance(10) { format!("`{name}`") } else { name }
    }

    fn free_name(&mut self) -> String {
        loop {
            let name = self.random.pick(&NAMES).to_owned();
            if !self.names.values().any(|taken| *taken == name) {
                return name;
            }
            let name = format!("{name}{}", self.random.below(100));
            if !self.names.values().any(|taken| *taken == name) {
                return name;
            }
        }
    }

    fn stage(&mut self, stage: &Stage) {
        match stage {
            Stage::Unwind { numbers, var } => {
                self.word("UNWIND");
                self.put(&format!(" {numbers:?} "));
                self.word("AS");
                let name = self.var(*var);
                self.put(&format!(" {name}"));
            }
            Stage::Match { is_optional, paths, conditions } => {
                if *is_optional {
                    self.word("OPTIONAL");
                }
                self.word("MATCH");
                self.put(" ");
                for (at, path) in paths.iter().enumerate() {
                    self.put(if at == 0 { "" } else { ", " });
                    self.path(path);
                }
                self.conditions(conditions);
            }
            Stage::With { projection, conditions } => {
                self.word("WITH");
                self.projection(projection, true);
                self.conditions(conditions);
            }
        }
    }

    fn path(&mut self, path: &Path) {
        if let Some(name) = path.name {
            let name = self.var(name);
            self.put(&format!("{name} = "));
        }
        let shows = path.name.is_some()
            || path.relationships.iter().any(|each| each.hops.is_some() && each.var.is_some());
        let is_turned = !shows && self.random.chance(50);
        let count = path.nodes.len();
        for step in 0..count {
            let at = if is_turned { count - 1 - step } else { step };
            if step > 0 {
                self.relationship(&path.relationships[if is_turned { at } else { at - 1 }], is_turned);
            }
            self.node(&path.nodes[at]);
        }
    }

    fn node(&mut self, node: &Node) {
        let name = node.var.map(|var| self.var(var)).unwrap_or_default();
        let label = node.label.map(|label| format!(":{label}")).unwrap_or_default();
        self.put(&format!("({name}{label}"));
        if let Some((key, value)) = &node.property {
            let value = match value {
                Value::Number(number) => number.to_string(),
                Value::Var(var) => self.var(*var),
                Value::Param => "$p".to_owned(),
            };
            self.put(&format!(" {{{key}: {value}}}"));
        }
        self.put(")");
    }

    fn relationship(&mut self, relationship: &Relationship, is_turned: bool) {
        let mut inner = relationship.var.map(|var| self.var(var)).unwrap_or_default();
        if let Some(kind) = relationship.kind {
            inner += &format!(":{kind}");
        }
        if let Some((from, to)) = relationship.hops {
            inner += &format!("*{from}..{to}");
        }
        let brackets = inner.is_empty() && self.random.chance(70);
        let inner = if brackets { String::new() } else { format!("[{inner}]") };
        let is_right = (relationship.direction == Direction::Right) != is_turned;
        self.put(&match relationship.direction {
            Direction::Both => format!("-{inner}-"),
            _ if is_right => format!("-{inner}->"),
            _ => format!("<-{inner}-"),
        });
    }

    fn conditions(&mut self, conditions: &[Condition]) {
        let mut order: Vec<usize> = (0..conditions.len()).collect();
        if !conditions.iter().any(|each| matches!(each, Condition::Other(_))) {
            self.random.shuffle(&mut order);
        }
        for (at, place) in order.into_iter().enumerate() {
            self.word(if at == 0 { "WHERE" } else { "AND" });
            let text = self.condition(&conditions[place]);
            self.put(&format!(" {text}"));
        }
    }

    fn condition(&mut self, condition: &Condition) -> String {
        match condition {
            Condition::Compares { left, operator, right } => {
                format!("{} {operator} {}", self.expr(left), self.expr(right))
            }
            Condition::IsNull { var, key, is_not } => {
                format!("{}.{key} IS {}NULL", self.var(*var), if *is_not { "NOT " } else { "" })
            }
            Condition::Label { var, label } => format!("{}:{label}", self.var(*var)),
            Condition::In { var, key, numbers } => format!("{}.{key} IN {numbers:?}", self.var(*var)),
            Condition::Other(expr) => format!("({})", self.expr(expr)),
        }
    }

    fn expr(&mut self, expr: &Expr) -> String {
        match expr {
            Expr::Var(var) => self.var(*var),
            Expr::Property(var, key) => format!("{}.{key}", self.var(*var)),
            Expr::Number(number) => number.to_string(),
            Expr::Text(text) => (*text).to_owned(),
            Expr::Count(None) => "count(*)".to_owned(),
            Expr::Count(Some(var)) => format!("count({})", self.var(*var)),
            Expr::Call(name, inner) => format!("{name}({})", self.expr(inner)),
            Expr::Infix(left, operator, right) => {
                format!("{} {operator} {}", self.expr(left), self.expr(right))
            }
            Expr::Case(inner, number) => {
                format!("CASE WHEN {} = {number} THEN 'yes' ELSE 'no' END", self.expr(inner))
            }
            Expr::List(items) => {
                let items: Vec<String> = items.iter().map(|item| self.expr(item)).collect();
                format!("[{}]", items.join(", "))
            }
            Expr::Map(key, inner) => format!("{{{key}: {}}}", self.expr(inner)),
        }
    }

    fn projection(&mut self, projection: &Projection, is_with: bool) {
        if projection.is_distinct {
            self.word("DISTINCT");
        }
        let before = self.names.clone();
        let mut columns: Vec<(Item, String)> = Vec::new();
        for (at, item) in projection.items.iter().enumerate() {
            self.put(if at == 0 { " " } else { ", " });
            let text = self.expr(&item.expr);
            self.put(&text);
            let is_ordered = !projection.order.is_empty();
            let taken = |name: &str| columns.iter().any(|(_, other)| *other == name);
            let name = if is_with || is_ordered {
                let name = self.free_name();
                // Reserved until the projection ends.
                self.names.insert(usize::MAX - at, name.clone());
                name
            } else if self.random.chance(40) || taken(&text.replace('`', "")) {
                let fits = |name: &&&str| !taken(name);
                COLUMNS.iter().find(fits).map_or_else(|| format!("c{at}"), ToString::to_string)
            } else {
                columns.push((item.clone(), text.replace('`', "")));
                continue;
            };
            self.word("AS");
            let quoted = if name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
                name.clone()
            } else {
                format!("`{}`", name.replace('`', "``"))
            };
            self.put(&format!(" {quoted}"));
            columns.push((item.clone(), name));
        }
        for (at, (column, is_down)) in projection.order.iter().enumerate() {
            self.word(if at == 0 { "ORDER BY" } else { "," });
            let name = columns[*column].1.clone();
            self.put(&format!(" {name}"));
            if *is_down {
                self.word("DESC");
            }
        }
        if let Some(limit) = projection.limit {
            self.word("LIMIT");
            self.put(&format!(" {limit}"));
        }
        if is_with {
            self.names = columns.into_iter().map(|(item, name)| (item.var, name)).collect();
        } else {
            self.names = before;
        }
    }
}
