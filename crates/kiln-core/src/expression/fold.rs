//! Some names given their values, and everything computed that then can be.
//!
//! What is left means the same as before for every value of the other names: a part is replaced only
//! by what it evaluates to, and one whose evaluation fails stays, to fail when its turn comes.

use super::evaluate::{self, truth};
use super::{Expr, NameRef, Node};
use crate::value::Value;

impl Expr {
    /// The expression with some names replaced by values and everything computed that no other name
    /// takes part in; its text stays.
    pub fn with_values(&self, values: &[(String, Value)]) -> Expr {
        Expr {
            text: self.text.clone(),
            node: folded(&self.node, values),
        }
    }

    /// The value, where no name is left in it.
    pub fn as_value(&self) -> Option<&Value> {
        match &self.node {
            Node::Literal(value) => Some(value),
            _ => None,
        }
    }
}

fn folded(node: &Node<NameRef>, values: &[(String, Value)]) -> Node<NameRef> {
    let each = |nodes: &[Node<NameRef>]| nodes.iter().map(|n| folded(n, values)).collect();
    let boxed = |node: &Node<NameRef>| Box::new(folded(node, values));
    let made = match node {
        Node::Literal(_) => return node.clone(),
        Node::Name(name) => {
            let value = values.iter().find(|(known, _)| *known == name.name);
            return match value {
                Some((_, value)) => Node::Literal(value.clone()),
                None => node.clone(),
            };
        }
        // A list is no value of its own.
        Node::List(items) => return Node::List(each(items)),
        Node::If {
            then,
            condition,
            otherwise,
        } => match folded(condition, values) {
            Node::Literal(value) if truth(&value) => return folded(then, values),
            Node::Literal(_) => return folded(otherwise, values),
            condition => Node::If {
                then: boxed(then),
                condition: Box::new(condition),
                otherwise: boxed(otherwise),
            },
        },
        Node::And(a, b) => match connected(a, b, values, true) {
            Ok(decided) => return decided,
            Err((a, b)) => Node::And(a, b),
        },
        Node::Or(a, b) => match connected(a, b, values, false) {
            Ok(decided) => return decided,
            Err((a, b)) => Node::Or(a, b),
        },
        Node::AndOperand(a, b) => Node::AndOperand(boxed(a), boxed(b)),
        Node::OrOperand(a, b) => Node::OrOperand(boxed(a), boxed(b)),
        Node::Negate(a) => Node::Negate(boxed(a)),
        Node::Not(a) => Node::Not(boxed(a)),
        Node::Binary(op, a, b) => Node::Binary(*op, boxed(a), boxed(b)),
        Node::Chain(first, rest) => Node::Chain(
            boxed(first),
            rest.iter()
                .map(|(op, right)| (*op, folded(right, values)))
                .collect(),
        ),
        Node::Call(function, arguments) => Node::Call(*function, each(arguments)),
    };
    match closed(&made) {
        Some(value) => Node::Literal(value),
        None => made,
    }
}

type Operands = (Box<Node<NameRef>>, Box<Node<NameRef>>);

/// `and` (whose neutral operand is true) or `or` with what is known of its operands: the node it comes
/// down to, or both operands.
fn connected(
    a: &Node<NameRef>,
    b: &Node<NameRef>,
    values: &[(String, Value)],
    neutral: bool,
) -> Result<Node<NameRef>, Operands> {
    let (a, b) = (folded(a, values), folded(b, values));
    match (&a, &b) {
        (Node::Literal(value), _) if truth(value) != neutral => {
            Ok(Node::Literal(Value::Bool(!neutral)))
        }
        (Node::Literal(_), Node::Literal(value)) => Ok(Node::Literal(Value::Bool(truth(value)))),
        (Node::Literal(_), _) if is_boolean(&b) => Ok(b),
        (_, Node::Literal(value)) if truth(value) == neutral && is_boolean(&a) => Ok(a),
        _ => Err((Box::new(a), Box::new(b))),
    }
}

fn is_boolean(node: &Node<NameRef>) -> bool {
    matches!(
        node,
        Node::Not(_) | Node::And(..) | Node::Or(..) | Node::Chain(..)
    )
}

/// What a node without names comes to.
pub(super) fn closed(node: &Node<NameRef>) -> Option<Value> {
    let bound = node.try_map(&mut |_: &NameRef| Err::<usize, ()>(())).ok()?;
    evaluate::eval(&bound, &|_| unreachable!("no names are left")).ok()
}
