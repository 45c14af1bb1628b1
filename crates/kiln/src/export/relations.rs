//! What a manifest says about dimensions beside their sizes: `HD = "H * D"` in a shape is a promise to the kernel, which
//! may read as far as H and D tell it.

use kiln_core::expression::{Expr, ExprError};
use kiln_core::manifest::{Manifest, Shape};
use kiln_core::value::Value;

/// A dimension that shapes give as expressions over others.
pub struct Relation {
    pub dimension: String,
    /// One of them has to hold; mostly there is one.
    pub formulas: Vec<Expr>,
}

impl Relation {
    /// Each formula as a condition on the dimensions.
    pub fn conditions(&self) -> impl Iterator<Item = Result<Expr, ExprError>> {
        let formulas = self.formulas.iter();
        formulas.map(|formula| {
            Expr::parse(&format!(
                "{} == ({})",
                self.dimension,
                formula.text().trim()
            ))
        })
    }

    /// For an error: "`H * D`".
    pub fn told(&self) -> String {
        let each: Vec<String> = self
            .formulas
            .iter()
            .map(|formula| format!("`{}`", formula.text().trim()))
            .collect();
        each.join(" or ")
    }
}

/// A dimension that some shape gives as a number no formula leads to is free: kernels were checked with it so.
pub fn of(manifest: &Manifest) -> Vec<Relation> {
    let mut found: Vec<Relation> = Vec::new();
    let written = manifest.shapes.iter().flat_map(|shape| &shape.formulas);
    for (dimension, formula) in written {
        let at = found.iter().position(|r| r.dimension == *dimension);
        match at {
            None => found.push(Relation {
                dimension: dimension.clone(),
                formulas: vec![formula.clone()],
            }),
            Some(at) => {
                let known = &mut found[at].formulas;
                if !known.iter().any(|other| other.says_the_same(formula)) {
                    known.push(formula.clone());
                }
            }
        }
    }
    found.retain(|relation| {
        let mut shapes = manifest.shapes.iter();
        shapes.all(|shape| holds(relation, shape))
    });
    found
}

fn holds(relation: &Relation, shape: &Shape) -> bool {
    let sizes: Vec<(String, Value)> = shape
        .dimensions
        .iter()
        .map(|(name, size)| (name.clone(), Value::Int(*size)))
        .collect();
    let own = sizes.iter().find(|(name, _)| *name == relation.dimension);
    let mut formulas = relation.formulas.iter();
    formulas.any(|formula| {
        let found = formula.with_values(&sizes);
        own.is_some_and(|(_, size)| found.as_value().is_some_and(|v| v.loosely_equals(size)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(shapes: &str) -> Vec<String> {
        let text = format!(
            "[kernel]\nsource = \"k.c\"\nentry = \"k\"\n[tunables]\nU = [1, 2]\n{shapes}\n[arguments]\n\
             x = {{ dtype = \"f32\", shape = [\"HD\"] }}\ny = {{ dtype = \"f32\", shape = [\"H\"], role = \"output\" }}\n\
             d = {{ dtype = \"i32\", value = \"D\" }}\n[reference]\nc = \"r.c:k\"\n[baseline]\nconfig = {{ U = 1 }}\n"
        );
        let manifest = Manifest::parse(&text).expect("a manifest");
        let of_one = |relation: &Relation| {
            let formulas: Vec<&str> = relation.formulas.iter().map(Expr::text).collect();
            format!("{} = {}", relation.dimension, formulas.join(" or "))
        };
        of(&manifest).iter().map(of_one).collect()
    }

    #[test]
    fn formulas_bind_calls_unless_a_shape_does_without() {
        let derived = "[shapes.target]\nH = 8\nD = 64\nHD = \"H * D\"\n";
        assert_eq!(told(derived), ["HD = H * D"]);
        let same = format!("{derived}[shapes.odd]\nH = 5\nD = 7\nHD = 35\n");
        assert_eq!(told(&same), ["HD = H * D"]);
        let two = format!("{derived}[shapes.odd]\nH = 5\nD = 7\nHD = \"2 * H * D\"\n");
        assert_eq!(told(&two), ["HD = H * D or 2 * H * D"]);
        let free = format!("{derived}[shapes.odd]\nH = 5\nD = 7\nHD = 36\n");
        assert_eq!(told(&free), [""; 0]);
    }
}
