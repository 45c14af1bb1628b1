//! The dangerous part of kiln: loads images made from untrusted sources and runs them.
//!
//! Everything here runs inside worker processes. It decides nothing: it answers requests, and the
//! supervisor judges. Flow: [`worker::run_main`] or [`worker::compile_main`] reads a request,
//! a [`backend::Backend`] or [`backend::Toolchain`] carries it out, the answer goes back.

pub mod backend;
pub mod cc;
pub mod cpu;
pub mod frame;
pub mod worker;
