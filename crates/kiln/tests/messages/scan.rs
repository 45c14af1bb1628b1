//! Finds the error messages in Rust source: where they are made, their fixed words, and whether a hint is attached.
//!
//! What counts as one: what `Failure`, `Diagnostic` and closures or functions that make them are given, what is
//! written in `#[error("…")]`, and text inside `Err(…)`, `ok_or(…)`, `ok_or_else(…)` and `map_err(…)`.

use std::collections::BTreeSet;

use syn::visit::{self, Visit};
use syn::{Attribute, Expr, ExprCall, ExprMethodCall, Item, Local, Pat};

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Message {
    /// With `…` for what is filled in.
    pub words: String,
    pub is_hinted: bool,
}

/// Functions and methods that make an error of the text they are given; closures are found by themselves.
const MAKERS: [&str; 7] = [
    "error",
    "start",
    "bad",
    "refuse",
    "malformed",
    "usage_error",
    "problem",
];

/// Text inside an error that is no message: the name of what a worker was asked for.
const NOT_MAKERS: [&str; 1] = ["misplaced"];

/// What closures that make errors are given as a part of a sentence.
const NOT_MESSAGES: [&str; 2] = ["write to", "the shared memory"];

/// All messages of a file, tests left out.
pub fn messages(source: &str) -> Vec<Message> {
    let file = syn::parse_file(source).expect("a source of this repository is Rust");
    let mut scan = Scan {
        helpful: helpful_types(&file),
        ..Scan::default()
    };
    scan.visit_file(&file);
    scan.found
}

/// The fixed words of a format string, on one line.
pub fn fixed_words(format: &str) -> String {
    let mut out = String::new();
    let mut rest = format.chars().peekable();
    while let Some(c) = rest.next() {
        match (c, rest.peek()) {
            ('{', Some('{')) | ('}', Some('}')) => {
                rest.next();
                out.push(c);
            }
            ('{', _) => {
                for inner in rest.by_ref() {
                    if inner == '}' {
                        break;
                    }
                }
                out.push('…');
            }
            _ => out.push(c),
        }
    }
    out.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[derive(Default)]
struct Scan {
    found: Vec<Message>,
    /// Closures of the function being read that make errors.
    closures: BTreeSet<String>,
    /// Variables of it that hold an error, and get a hint wherever they are used.
    hinted: BTreeSet<String>,
    /// Types with a method `hint` or `fix` that always answers: what to do about each of their errors.
    helpful: BTreeSet<String>,
    is_helpful: bool,
}

fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|a| {
        a.path().is_ident("test")
            || a.path().is_ident("cfg")
                && matches!(&a.meta, syn::Meta::List(list) if list.tokens.to_string().contains("test"))
    })
}

/// Whether an expression makes an error, and of what.
enum Made<'e> {
    /// The argument that is the message.
    Of(&'e Expr),
    /// It brings its own way out: a fixed hint, or text with one in it.
    SpeaksForItself,
}

impl Scan {
    fn made<'e>(&self, call: &'e ExprCall) -> Option<Made<'e>> {
        let Expr::Path(path) = &*call.func else {
            return None;
        };
        let words: Vec<String> = path
            .path
            .segments
            .iter()
            .map(|s| s.ident.to_string())
            .collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        match words[..] {
            // Both are held to it by tests beside them.
            [.., "Failure", "io" | "bad_path" | "rendered"] => Some(Made::SpeaksForItself),
            [.., "Failure", "new"] if is_bug(call.args.first()) => Some(Made::SpeaksForItself),
            [.., "Failure", "new"] => call.args.get(1).map(Made::Of),
            [.., "Failure", "usage" | "machine"] => call.args.first().map(Made::Of),
            [.., "Diagnostic", "new" | "whole_file"] => call.args.first().map(Made::Of),
            [name] if self.closures.contains(name) || MAKERS.contains(&name) => call
                .args
                .iter()
                .find(|a| text_of(a).is_some())
                .map(Made::Of),
            _ => None,
        }
    }

    fn note(&mut self, text: &str, is_hinted: bool) {
        let words = fixed_words(text);
        // One word, or nothing but what is filled in, is no message of its own.
        let says_something = words
            .split(' ')
            .filter(|w| w.chars().any(char::is_alphabetic))
            .count()
            > 1;
        if says_something && !NOT_MESSAGES.contains(&words.as_str()) {
            self.found.push(Message { words, is_hinted });
        }
    }

    /// Walks down a chain of methods; `is_hinted` says whether one above was `hint`.
    fn chain(&mut self, expr: &Expr, is_hinted: bool) {
        match expr {
            Expr::MethodCall(call) => {
                let hints = is_hinted || call.method == "hint";
                let is_maker = call.method == "error" || call.method == "because";
                let text = call.args.iter().find_map(text_of).filter(|_| is_maker);
                if let Some(text) = text {
                    self.note(&text, hints);
                }
                self.reasons(call, hints);
                self.chain(&call.receiver, hints);
                for argument in &call.args {
                    self.visit_expr(argument);
                }
            }
            Expr::Call(call) => {
                match self.made(call) {
                    Some(Made::Of(message)) => {
                        if let Some(text) = text_of(message) {
                            self.note(&text, is_hinted);
                        }
                    }
                    Some(Made::SpeaksForItself) => {}
                    None if is_path(&call.func, "Err") => {
                        let told = call.args.first().and_then(|a| self.reason(a));
                        if let Some(text) = told {
                            self.note(&text, is_hinted);
                        }
                    }
                    None => {}
                }
                visit::visit_expr_call(self, call);
            }
            _ => visit::visit_expr(self, expr),
        }
    }

    /// `ok_or`, `ok_or_else` and `map_err` with text for the error.
    fn reasons(&mut self, call: &ExprMethodCall, is_hinted: bool) {
        let argument = match (call.method.to_string().as_str(), call.args.first()) {
            ("ok_or", Some(argument)) => argument,
            ("ok_or_else" | "map_err", Some(Expr::Closure(closure))) => &closure.body,
            _ => return,
        };
        if let Some(text) = self.reason(argument) {
            self.note(&text, is_hinted);
        }
    }

    /// The text of an error that is text, or one value around text. What `made` knows is noted where it stands.
    fn reason(&self, expr: &Expr) -> Option<String> {
        if let Some(text) = text_of(expr) {
            return Some(text);
        }
        match expr {
            Expr::Call(call) if self.made(call).is_none() => {
                let name = match &*call.func {
                    Expr::Path(path) => path.path.segments.last()?.ident.to_string(),
                    _ => return None,
                };
                match NOT_MAKERS.contains(&name.as_str()) {
                    true => None,
                    false => call.args.iter().find_map(text_of),
                }
            }
            Expr::Struct(value) => value.fields.iter().find_map(|f| text_of(&f.expr)),
            _ => None,
        }
    }

    /// Closures that make errors, and variables that hold one and are never used without a hint.
    fn learn(&mut self, block: &syn::Block) {
        for statement in &block.stmts {
            let syn::Stmt::Local(Local {
                pat,
                init: Some(init),
                ..
            }) = statement
            else {
                continue;
            };
            let name = match pat {
                Pat::Ident(name) => name.ident.to_string(),
                _ => continue,
            };
            if let Expr::Closure(closure) = &*init.expr {
                if makes_errors(&closure.body) {
                    self.closures.insert(name);
                }
            } else if makes_errors(&init.expr) {
                let mut uses = Uses {
                    name: &name,
                    plain: 0,
                    hinted: 0,
                };
                uses.visit_block(block);
                if uses.hinted > 0 && uses.plain == 0 {
                    self.hinted.insert(name);
                }
            }
        }
    }
}

impl<'ast> Visit<'ast> for Scan {
    fn visit_item(&mut self, item: &'ast Item) {
        let attributes = match item {
            Item::Mod(m) => &m.attrs,
            Item::Fn(f) => &f.attrs,
            Item::Impl(i) => &i.attrs,
            Item::Enum(e) => &e.attrs,
            Item::Struct(s) => &s.attrs,
            _ => return visit::visit_item(self, item),
        };
        self.is_helpful = match item {
            Item::Enum(e) => self.helpful.contains(&e.ident.to_string()),
            Item::Struct(s) => self.helpful.contains(&s.ident.to_string()),
            _ => false,
        };
        if !is_test(attributes) {
            visit::visit_item(self, item);
        }
    }

    fn visit_attribute(&mut self, attribute: &'ast Attribute) {
        if !attribute.path().is_ident("error") {
            return;
        }
        let text = match &attribute.meta {
            syn::Meta::List(list) => first_string(list.tokens.clone()),
            _ => None,
        };
        if let Some(text) = text {
            self.note(&text, self.is_helpful);
        }
    }

    fn visit_block(&mut self, block: &'ast syn::Block) {
        let outer = (self.closures.clone(), self.hinted.clone());
        self.learn(block);
        visit::visit_block(self, block);
        (self.closures, self.hinted) = outer;
    }

    fn visit_local(&mut self, local: &'ast Local) {
        let name = match &local.pat {
            Pat::Ident(name) => name.ident.to_string(),
            _ => String::new(),
        };
        match &local.init {
            Some(init) if self.hinted.contains(&name) => self.chain(&init.expr, true),
            _ => visit::visit_local(self, local),
        }
    }

    fn visit_expr(&mut self, expr: &'ast Expr) {
        match expr {
            Expr::MethodCall(_) | Expr::Call(_) => self.chain(expr, false),
            _ => visit::visit_expr(self, expr),
        }
    }
}

fn helpful_types(file: &syn::File) -> BTreeSet<String> {
    let always_answers = |method: &syn::ImplItemFn| {
        let is_named = method.sig.ident == "hint" || method.sig.ident == "fix";
        let answer = match &method.sig.output {
            syn::ReturnType::Type(_, answer) => &**answer,
            syn::ReturnType::Default => return false,
        };
        let may_be_silent = matches!(answer, syn::Type::Path(p) if p.path.segments.iter().any(|s| s.ident == "Option"));
        is_named && method.sig.inputs.len() == 1 && !may_be_silent
    };
    let mut found = BTreeSet::new();
    for item in &file.items {
        let Item::Impl(block) = item else {
            continue;
        };
        let methods = block.items.iter().filter_map(|i| match i {
            syn::ImplItem::Fn(method) => Some(method),
            _ => None,
        });
        if let (syn::Type::Path(path), true) =
            (&*block.self_ty, methods.into_iter().any(always_answers))
        {
            found.extend(path.path.segments.last().map(|s| s.ident.to_string()));
        }
    }
    found
}

fn is_bug(exit: Option<&Expr>) -> bool {
    matches!(exit, Some(Expr::Path(p)) if p.path.segments.last().is_some_and(|s| s.ident == "Bug"))
}

fn is_path(expr: &Expr, name: &str) -> bool {
    matches!(expr, Expr::Path(p) if p.path.is_ident(name))
}

fn makes_errors(expr: &Expr) -> bool {
    struct Finds(bool);
    impl<'ast> Visit<'ast> for Finds {
        fn visit_expr_path(&mut self, path: &'ast syn::ExprPath) {
            let segments: Vec<String> = path
                .path
                .segments
                .iter()
                .map(|s| s.ident.to_string())
                .collect();
            let known = ["Failure", "Diagnostic"];
            self.0 |= segments.len() > 1 && known.contains(&segments[segments.len() - 2].as_str());
        }
    }
    let mut finds = Finds(false);
    finds.visit_expr(expr);
    finds.0
}

/// How often a variable is given a hint, and how often it is used without.
struct Uses<'n> {
    name: &'n str,
    plain: usize,
    hinted: usize,
}

impl<'ast> Visit<'ast> for Uses<'_> {
    fn visit_expr_method_call(&mut self, call: &'ast ExprMethodCall) {
        if call.method == "hint" && is_path(&call.receiver, self.name) {
            self.hinted += 1;
            for argument in &call.args {
                self.visit_expr(argument);
            }
            return;
        }
        visit::visit_expr_method_call(self, call);
    }

    fn visit_expr_path(&mut self, path: &'ast syn::ExprPath) {
        self.plain += usize::from(path.path.is_ident(self.name));
    }
}

/// The text of a literal or of `format!`, also behind `.to_string()` and the like.
fn text_of(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Lit(literal) => match &literal.lit {
            syn::Lit::Str(text) => Some(text.value()),
            _ => None,
        },
        Expr::Macro(call) if call.mac.path.is_ident("format") => {
            first_string(call.mac.tokens.clone())
        }
        Expr::MethodCall(call)
            if ["to_string", "into", "to_owned"]
                .iter()
                .any(|m| call.method == m) =>
        {
            text_of(&call.receiver)
        }
        Expr::Call(call) => match &*call.func {
            Expr::Path(p) if p.path.segments.len() == 2 && p.path.segments[0].ident == "String" => {
                call.args.first().and_then(text_of)
            }
            _ => None,
        },
        Expr::Reference(reference) => text_of(&reference.expr),
        Expr::Paren(inner) => text_of(&inner.expr),
        Expr::Block(block) => match block.block.stmts.last() {
            Some(syn::Stmt::Expr(tail, None)) => text_of(tail),
            _ => None,
        },
        _ => None,
    }
}

fn first_string(tokens: proc_macro2::TokenStream) -> Option<String> {
    tokens.into_iter().find_map(|token| match token {
        proc_macro2::TokenTree::Literal(literal) => {
            syn::parse_str::<syn::LitStr>(&literal.to_string())
                .ok()
                .map(|s| s.value())
        }
        _ => None,
    })
}
