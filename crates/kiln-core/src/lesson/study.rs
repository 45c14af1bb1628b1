//! Lessons out of a study.
