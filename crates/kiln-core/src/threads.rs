//! How many threads to split plain number work over.

/// Threads worth starting for so many independent pieces; a few pieces are done at once.
pub fn worth(pieces: usize) -> usize {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    worth_on(cores, pieces)
}

fn worth_on(cores: usize, pieces: usize) -> usize {
    if pieces < 8 {
        return 1;
    }
    cores.min(pieces / 4).max(1)
}

/// Results of all pieces, in order.
pub fn map<T: Send>(pieces: usize, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let threads = worth(pieces);
    if threads <= 1 {
        return (0..pieces).map(work).collect();
    }
    let share = pieces.div_ceil(threads);
    let work = &work;
    std::thread::scope(|scope| {
        let parts: Vec<_> = (0..threads)
            .map(|part| {
                let range = part * share..pieces.min((part + 1) * share);
                scope.spawn(move || range.map(work).collect::<Vec<T>>())
            })
            .collect();
        parts
            .into_iter()
            .flat_map(|part| part.join().expect("the work does not panic"))
            .collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A piece that is left out would be one that nobody compares.
    #[test]
    fn every_piece_is_done_once_and_in_order() {
        for pieces in 0..50 {
            let done: Vec<usize> = map(pieces, |piece| piece + 1);
            assert_eq!(done, (1..=pieces).collect::<Vec<_>>());
        }
    }

    #[test]
    fn few_pieces_are_not_worth_threads() {
        for (cores, pieces, threads) in [
            (64, 0, 1),
            (64, 7, 1),
            (64, 8, 2),
            (64, 100, 25),
            (2, 1000, 2),
            (1, 1000, 1),
        ] {
            assert_eq!(worth_on(cores, pieces), threads, "{cores} {pieces}");
        }
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        assert_eq!(worth(1 << 20), cores);
    }
}
