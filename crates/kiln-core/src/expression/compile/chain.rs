//! Chains of comparisons and memberships, compiled. Every operand is there once, however many links read
//! it: chains nest, and with a copy per link a chain of chains would double at every level.

use super::{Domains, Int, Number, Typed, compare, tabulate, truth, typed};
use crate::expression::{CompareOp, Node};

/// `a < b <= c`: links between neighbouring operands, all of which must hold.
#[derive(Clone, Debug)]
pub(in crate::expression) struct Chain {
    /// One more than there are links; `None` where no link needs the value itself.
    pub(in crate::expression) operands: Box<[Option<Typed>]>,
    pub(in crate::expression) links: Box<[Link]>,
}

#[derive(Clone, Debug)]
pub(in crate::expression) enum Link {
    /// Reads a single name, so that a table decides; this is what makes text comparisons fast.
    Known(Int),
    Compare(CompareOp),
    /// The left operand is one of these, or none of them; always the last link.
    Membership {
        items: Box<[Item]>,
        negated: bool,
    },
}

/// One member of a list, compared with the left operand.
#[derive(Clone, Debug)]
pub(in crate::expression) enum Item {
    Known(Int),
    Equals(Typed),
}

impl Chain {
    /// 1 or 0; `None` when evaluation is an error. As in the language, nothing is evaluated behind a
    /// link that fails.
    pub(super) fn run(&self, positions: &[u16]) -> Option<i64> {
        let operand = |place: usize| self.operands[place].as_ref()?.run(positions);
        // The value of the operand left of the next link, where the link before has read it.
        let mut left = None;
        for (place, link) in self.links.iter().enumerate() {
            let mut right = None;
            let holds = match link {
                Link::Known(test) => test.run(positions)? != 0,
                Link::Compare(op) => {
                    let a = left.or_else(|| operand(place))?;
                    let b = operand(place + 1)?;
                    right = Some(b);
                    a.compares(*op, b)?
                }
                Link::Membership { items, negated } => {
                    let mut found = false;
                    for item in items {
                        found = match item {
                            Item::Known(test) => test.run(positions)? != 0,
                            Item::Equals(item) => {
                                let a = left.or_else(|| operand(place))?;
                                left = Some(a);
                                a.compares(CompareOp::Equal, item.run(positions)?)?
                            }
                        };
                        if found {
                            break;
                        }
                    }
                    found != *negated
                }
            };
            if !holds {
                return Some(0);
            }
            left = right;
        }
        Some(1)
    }

    pub(super) fn compile(
        first: &Node<usize>,
        rest: &[(CompareOp, Node<usize>)],
        domains: &Domains<'_>,
    ) -> Option<Chain> {
        let nodes: Vec<&Node<usize>> = std::iter::once(first)
            .chain(rest.iter().map(|(_, node)| node))
            .collect();
        let mut operands: Vec<Option<Typed>> = nodes.iter().map(|_| None).collect();
        let mut links = Vec::with_capacity(rest.len());
        for (place, (op, right)) in rest.iter().enumerate() {
            let left = nodes[place];
            links.push(match (op, right) {
                (CompareOp::In | CompareOp::NotIn, Node::List(items)) => {
                    // Comparing the list further is an error, but only where the membership holds.
                    // The left side is evaluated even when the list is empty.
                    if place + 1 < rest.len() || items.is_empty() {
                        return None;
                    }
                    let is_number = need(&mut operands, &nodes, place, domains).is_some();
                    let items = items
                        .iter()
                        .map(|item| member(left, is_number, item, domains));
                    Link::Membership {
                        items: items.collect::<Option<_>>()?,
                        negated: *op == CompareOp::NotIn,
                    }
                }
                (CompareOp::In | CompareOp::NotIn, _) => return None,
                _ => match known(*op, left, right, domains) {
                    Some(test) => Link::Known(test?),
                    None => {
                        need(&mut operands, &nodes, place, domains)?;
                        need(&mut operands, &nodes, place + 1, domains)?;
                        Link::Compare(*op)
                    }
                },
            });
        }
        Some(Chain {
            operands: operands.into(),
            links: links.into(),
        })
    }
}

/// Compiles an operand unless it is there already.
fn need(
    operands: &mut [Option<Typed>],
    nodes: &[&Node<usize>],
    place: usize,
    domains: &Domains<'_>,
) -> Option<()> {
    if operands[place].is_none() {
        operands[place] = Some(typed(nodes[place], domains)?);
    }
    Some(())
}

fn member(
    left: &Node<usize>,
    is_number: bool,
    item: &Node<usize>,
    domains: &Domains<'_>,
) -> Option<Item> {
    match is_number.then(|| typed(item, domains)).flatten() {
        Some(number) => Some(Item::Equals(number)),
        // Text has no compiled value, but comparing it may still read a single name.
        None => known(CompareOp::Equal, left, item, domains)?.map(Item::Known),
    }
}

/// A comparison that reads at most one name as a table; the outer `None` when it reads more, the inner
/// one when it cannot be tabulated.
fn known(
    op: CompareOp,
    left: &Node<usize>,
    right: &Node<usize>,
    domains: &Domains<'_>,
) -> Option<Option<Int>> {
    if matches!(right, Node::List(_)) {
        return None;
    }
    let mut slots = Vec::new();
    let mut visit = |&slot: &usize| {
        if domains.varies(slot) && !slots.contains(&slot) {
            slots.push(slot);
        }
    };
    left.visit_names(&mut visit);
    right.visit_names(&mut visit);
    if slots.len() > 1 {
        return None;
    }
    let node = Node::Chain(Box::new(left.clone()), vec![(op, right.clone())]);
    Some(tabulate(&node, slots.first().copied(), domains).map(truth))
}

impl Typed {
    fn run(&self, positions: &[u16]) -> Option<Number> {
        Some(match self {
            Typed::Int(a) => Number::Int(a.run(positions)?),
            Typed::Real(a) => Number::Real(a.run(positions)?),
        })
    }
}

impl Number {
    /// Integers are compared as such, anything else as real numbers.
    fn compares(self, op: CompareOp, other: Number) -> Option<bool> {
        match (self, other) {
            (Number::Int(a), Number::Int(b)) => compare(op, &a, &b),
            (a, b) => compare(op, &a.real(), &b.real()),
        }
    }

    fn real(self) -> f64 {
        match self {
            Number::Int(a) => a as f64,
            Number::Real(a) => a,
        }
    }
}
