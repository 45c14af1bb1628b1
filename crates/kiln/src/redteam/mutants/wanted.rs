//! Which mutants are asked for: of kernels by a part of their names, and of single lines of one.

use crate::exit::Failure;

/// `attention_cpu`, or `attention_cpu:141,205-210`.
#[derive(Debug)]
pub struct Wanted<'f> {
    kernel: &'f str,
    lines: Lines,
}

/// First and last of each run of lines; none: all there are.
#[derive(Clone, Debug, PartialEq)]
pub struct Lines(Vec<(usize, usize)>);

impl<'f> Wanted<'f> {
    pub fn read(filter: &'f str) -> Result<Wanted<'f>, Failure> {
        let Some((kernel, lines)) = filter.split_once(':') else {
            let lines = Lines(Vec::new());
            return Ok(Wanted {
                kernel: filter,
                lines,
            });
        };
        let number = |text: &str| text.trim().parse::<usize>().ok().filter(|n| *n > 0);
        let run = |text: &str| {
            let (first, last) = text.split_once('-').unwrap_or((text, text));
            let (first, last) = (number(first)?, number(last)?);
            (first <= last).then_some((first, last))
        };
        let lines: Option<Vec<(usize, usize)>> = lines.split(',').map(run).collect();
        let lines = lines.ok_or_else(|| {
            Failure::usage(format!("`{filter}` names no lines of a kernel"))
                .hint("name them like `--match attention_cpu:141,205-210`")
        })?;
        Ok(Wanted {
            kernel,
            lines: Lines(lines),
        })
    }

    /// The lines of a kernel that are asked for, where it is asked for at all.
    pub fn lines_of(&self, kernel: &str) -> Option<&Lines> {
        kernel.contains(self.kernel).then_some(&self.lines)
    }
}

impl Lines {
    pub fn contains(&self, line: usize) -> bool {
        self.0.is_empty() || self.0.iter().any(|(a, b)| (*a..=*b).contains(&line))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_and_lines_are_told_apart() {
        let all = Wanted::read("attention").expect("a name");
        assert!(all.lines_of("attention_cpu").expect("it is").contains(7));
        assert!(all.lines_of("matmul").is_none());
        let some = Wanted::read("attention_cpu:3,10-12").expect("lines");
        let lines = some.lines_of("attention_cpu").expect("it is");
        let found: Vec<usize> = (0..20).filter(|line| lines.contains(*line)).collect();
        assert_eq!(found, [3, 10, 11, 12]);
        for wrong in ["a:", "a:x", "a:3-", "a:5-3", "a:0", "a:1,,2"] {
            assert!(Wanted::read(wrong).is_err(), "{wrong}");
        }
    }
}
