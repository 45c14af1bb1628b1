//! Memory as kernels in C may expect it: beginning at a multiple of 64 bytes, where a cache line does.

use std::ops::{Deref, DerefMut};

const ALIGNMENT: usize = 64;

/// Numbers that begin at a multiple of 64 bytes.
#[derive(Debug)]
pub struct Aligned<T> {
    memory: Vec<T>,
    start: usize,
    len: usize,
}

impl<T: Copy + Default> Aligned<T> {
    pub fn zeros(len: usize) -> Aligned<T> {
        let memory = vec![T::default(); len + ALIGNMENT / size_of::<T>().max(1)];
        let start = memory.as_ptr().align_offset(ALIGNMENT);
        Aligned { memory, start, len }
    }
}

impl<T: Copy + Default> From<&[T]> for Aligned<T> {
    fn from(numbers: &[T]) -> Aligned<T> {
        let mut made = Aligned::zeros(numbers.len());
        made.copy_from_slice(numbers);
        made
    }
}

impl<T> Deref for Aligned<T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        &self.memory[self.start..self.start + self.len]
    }
}

impl<T> DerefMut for Aligned<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.memory[self.start..self.start + self.len]
    }
}

pub(crate) fn is_aligned<T>(numbers: &[T]) -> bool {
    numbers.as_ptr().addr() % ALIGNMENT == 0
}
