//! One file per verb.

pub mod cache;
pub mod check;
pub mod init;
pub mod schema;
pub mod studies;
pub mod tune;
