//! One file per verb.

pub mod cache;
pub mod check;
pub mod compare;
pub mod completions;
pub mod doctor;
pub mod explain;
pub mod export;
pub mod gate;
pub mod init;
pub mod iterate;
pub mod lessons;
pub mod man;
pub mod profile;
pub mod redteam;
pub mod replay;
pub mod report;
pub mod schema;
pub mod selftest;
pub mod space;
pub mod studies;
pub mod toolchain;
pub mod tune;
pub mod verify;
