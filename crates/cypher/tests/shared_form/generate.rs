//! Random queries: what they mean, without names. `spell` writes them.

use super::random::Random;

/// A variable, whatever its name.
pub type Var = usize;

#[derive(Debug, Clone, PartialEq)]
pub struct Query {
    pub stages: Vec<Stage>,
    pub last: Projection,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Stage {
    Unwind { numbers: Vec<i64>, var: Var },
    Match { is_optional: bool, paths: Vec<Path>, conditions: Vec<Condition> },
    With { projection: Projection, conditions: Vec<Condition> },
}

#[derive(Debug, Clone, PartialEq)]
pub struct Path {
    pub name: Option<Var>,
    pub nodes: Vec<Node>,
    pub relationships: Vec<Relationship>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    pub var: Option<Var>,
    pub label: Option<&'static str>,
    pub property: Option<(&'static str, Value)>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Relationship {
    pub var: Option<Var>,
    pub kind: Option<&'static str>,
    /// From left to right, from right to left, or both.
    pub direction: Direction,
    pub hops: Option<(u8, u8)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    Right,
    Left,
    Both,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    Number(i64),
    Var(Var),
    Param,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Condition {
    Compares {
        left: Expr,
        operator: &'static str,
        right: Expr,
    },
    IsNull {
        var: Var,
        key: &'static str,
        is_not: bool,
    },
    Label {
        var: Var,
        label: &'static str,
    },
    In {
        var: Var,
        key: &'static str,
        numbers: Vec<i64>,
    },
    /// May raise an error, or has an `OR`: conjuncts around it keep their order.
    Other(Expr),
}

#[derive(Debug, Clone, PartialEq)]
pub struct Projection {
    pub is_distinct: bool,
    pub items: Vec<Item>,
    /// All columns, so the order is total.
    pub order: Vec<(usize, bool)>,
    pub limit: Option<u8>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Item {
    pub expr: Expr,
    /// The variable of the column, for what follows a WITH.
    pub var: Var,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Expr {
    Var(Var),
    Property(Var, &'static str),
    Number(i64),
    Text(&'static str),
    Count(Option<Var>),
    Call(&'static str, Box<Expr>),
    Infix(Box<Expr>, &'static str, Box<Expr>),
    Case(Box<Expr>, i64),
    List(Vec<Expr>),
    Map(&'static str, Box<Expr>),
}

pub const LABELS: [&str; 3] = ["ZzA", "ZzB", "ZzC"];
pub const KINDS: [&str; 2] = ["ZZR", "ZZS"];
pub const KEYS: [&str; 3] = ["x", "y", "s"];
pub const OPERATORS: [&str; 6] = ["=", "<>", "<", "<=", ">", ">="];
const TEXTS: [&str; 3] = ["'a'", "'n'", "\"it's\""];

/// What the variables are that a later part may use.
#[derive(Default)]
struct Made {
    next: Var,
    elements: Vec<Var>,
    values: Vec<Var>,
}

impl Made {
    fn var(&mut self) -> Var {
        self.next += 1;
        self.next
    }
}

pub fn query(random: &mut Random) -> Query {
    let mut made = Made::default();
    let mut stages = Vec::new();
    if random.chance(20) {
        let var = made.var();
        made.values.push(var);
        stages.push(Stage::Unwind { numbers: numbers(random), var });
    }
    stages.push(matched(random, &mut made, false));
    if random.chance(25) {
        let is_optional = random.chance(50);
        stages.push(matched(random, &mut made, is_optional));
    }
    if random.chance(30) {
        stages.push(with(random, &mut made));
        if random.chance(40) && !made.elements.is_empty() {
            stages.push(matched(random, &mut made, false));
        }
    }
    let last = projection(random, &mut made, false);
    Query { stages, last }
}

fn numbers(random: &mut Random) -> Vec<i64> {
    (0..=random.below(2)).map(|_| small(random)).collect()
}

fn small(random: &mut Random) -> i64 {
    i64::try_from(random.below(5)).unwrap() - 1
}

fn matched(random: &mut Random, made: &mut Made, is_optional: bool) -> Stage {
    let known = made.values.clone();
    let mut anchor = made.elements.clone();
    let count = if random.chance(20) { 2 } else { 1 };
    let paths = (0..count).map(|_| path(random, made, (&known, &mut anchor))).collect();
    let conditions = conditions(random, made);
    Stage::Match { is_optional, paths, conditions }
}

fn path(random: &mut Random, made: &mut Made, (known, anchors): (&[Var], &mut Vec<Var>)) -> Path {
    let name = random.chance(8).then(|| made.var());
    made.values.extend(name);
    let len = [0, 1, 1, 1, 2][random.below(5)];
    let mut nodes = Vec::new();
    let mut relationships = Vec::new();
    for step in 0..=len {
        if step > 0 {
            relationships.push(relationship(random, made));
        }
        let var = match random.below(10) {
            0 => None,
            1..4 if !anchors.is_empty() && step == 0 => Some(random.pick(anchors)),
            _ => {
                let var = made.var();
                made.elements.push(var);
                Some(var)
            }
        };
        let is_labelled = step == 0 || random.chance(35);
        let value = match random.below(6) {
            0 if !known.is_empty() => Value::Var(random.pick(known)),
            1 => Value::Param,
            _ => Value::Number(small(random)),
        };
        let property = random.chance(12).then(|| (random.pick(&KEYS[..2]), value));
        nodes.push(Node { var, label: is_labelled.then(|| random.pick(&LABELS)), property });
    }
    // Only what is matched before the clause may be the start of a path.
    anchors.retain(|var| !nodes.iter().any(|node| node.var == Some(*var)));
    Path { name, nodes, relationships }
}

fn relationship(random: &mut Random, made: &mut Made) -> Relationship {
    let hops = random.chance(12).then(|| random.pick(&[(1, 2), (0, 1), (2, 2)]));
    let var = random.chance(30).then(|| made.var());
    if let Some(var) = var {
        if hops.is_some() { made.values.push(var) } else { made.elements.push(var) }
    }
    let direction = random.pick(&[Direction::Right, Direction::Left, Direction::Right, Direction::Both]);
    Relationship { var, kind: random.chance(60).then(|| random.pick(&KINDS)), direction, hops }
}

fn conditions(random: &mut Random, made: &Made) -> Vec<Condition> {
    let count = [0, 0, 0, 1, 2, 3][random.below(6)];
    if made.elements.is_empty() { Vec::new() } else { (0..count).map(|_| condition(random, made)).collect() }
}

fn condition(random: &mut Random, made: &Made) -> Condition {
    let var = random.pick(&made.elements);
    let key = random.pick(&KEYS);
    match random.below(10) {
        0 => Condition::IsNull { var, key, is_not: random.chance(70) },
        1 => Condition::Label { var, label: random.pick(&LABELS) },
        2 => Condition::In { var, key, numbers: numbers(random) },
        3 => {
            let other = Expr::Property(random.pick(&made.elements), "y");
            let compared = |left, right| Expr::Infix(Box::new(left), "<", Box::new(right));
            let left = compared(Expr::Property(var, "x"), Expr::Number(small(random)));
            let right = compared(other, Expr::Number(small(random)));
            Condition::Other(Expr::Infix(Box::new(left), "OR", Box::new(right)))
        }
        4 => Condition::Compares {
            left: Expr::Property(var, "s"),
            operator: random.pick(&["STARTS WITH", "CONTAINS", "="]),
            right: Expr::Text(random.pick(&TEXTS)),
        },
        5 => Condition::Compares {
            left: Expr::Property(var, key),
            operator: random.pick(&OPERATORS),
            right: Expr::Property(random.pick(&made.elements), key),
        },
        _ => Condition::Compares {
            left: Expr::Property(var, random.pick(&KEYS[..2])),
            operator: random.pick(&OPERATORS),
            right: Expr::Number(small(random)),
        },
    }
}

fn with(random: &mut Random, made: &mut Made) -> Stage {
    let mut projection = projection(random, made, true);
    let (mut elements, mut values) = (Vec::new(), Vec::new());
    for item in &mut projection.items {
        item.var = made.var();
        match item.expr {
            Expr::Var(var) if made.elements.contains(&var) => elements.push(item.var),
            _ => values.push(item.var),
        }
    }
    (made.elements, made.values) = (elements, values);
    let conditions = conditions(random, made);
    Stage::With { projection, conditions }
}

fn projection(random: &mut Random, made: &mut Made, is_with: bool) -> Projection {
    let mut items: Vec<Item> = Vec::new();
    for _ in 0..=random.below(3) {
        let expr = expr(random, made, is_with);
        if items.iter().all(|item| item.expr != expr) {
            items.push(Item { expr, var: 0 });
        }
    }
    let mut order = Vec::new();
    if random.chance(30) {
        order = (0..items.len()).map(|at| (at, random.chance(40))).collect();
        random.shuffle(&mut order);
    }
    let limit = (!order.is_empty() && random.chance(50)).then(|| 1 + u8::try_from(random.below(4)).unwrap());
    Projection { is_distinct: random.chance(20), items, order, limit }
}

fn expr(random: &mut Random, made: &Made, is_with: bool) -> Expr {
    let all: Vec<Var> = made.elements.iter().chain(&made.values).copied().collect();
    if all.is_empty() {
        return Expr::Number(small(random));
    }
    let property = |random: &mut Random| match made.elements.as_slice() {
        [] => Expr::Var(random.pick(&all)),
        elements => Expr::Property(random.pick(elements), random.pick(&KEYS)),
    };
    match random.below(12) {
        0..3 => Expr::Var(random.pick(&all)),
        3 => Expr::Count(random.chance(50).then(|| random.pick(&all))),
        4 if !made.elements.is_empty() => {
            let number = Expr::Property(random.pick(&made.elements), "x");
            let other = Expr::Number(small(random));
            Expr::Infix(Box::new(number), random.pick(&["+", "-", "*"]), Box::new(other))
        }
        5 => Expr::Call(
            random.pick(&["coalesce", "toString"]),
            Box::new(match made.elements.as_slice() {
                [] => Expr::Number(small(random)),
                elements => Expr::Property(random.pick(elements), "x"),
            }),
        ),
        6 if !is_with => Expr::Case(Box::new(property(random)), small(random)),
        7 if !is_with => Expr::List(vec![property(random), Expr::Number(small(random))]),
        8 if !is_with => Expr::Map(random.pick(&["n", "a"]), Box::new(property(random))),
        _ => property(random),
    }
}
