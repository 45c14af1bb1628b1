//! The dangerous part of kiln: loads images made from untrusted sources and runs them.
//!
//! Everything here runs inside worker processes. It decides nothing: it answers requests, and the
//! supervisor judges. Flow: [`worker::cpu_main`], [`worker::cuda_main`] or [`worker::compile_main`] reads a request,
//! a [`backend::Backend`] or [`backend::Toolchain`] carries it out, the answer goes back.

pub mod backend;
pub mod cc;
mod compiler_process;
pub mod contents;
pub mod cpu;
pub mod cuda;
pub mod frame;
pub mod includes;
mod lines;
pub mod npy;
pub mod nvcc;
pub mod nvrtc;
mod plain;
mod ptxas;
pub mod python;
pub mod sandbox;
mod symbols;
pub mod worker;
