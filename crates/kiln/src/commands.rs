//! One file per verb.

pub mod cache;
pub mod check;
pub mod doctor;
pub mod init;
pub mod replay;
pub mod schema;
pub mod selftest;
pub mod space;
pub mod studies;
pub mod toolchain;
pub mod tune;
