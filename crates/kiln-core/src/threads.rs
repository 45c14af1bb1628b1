//! How many threads to split plain number work over.

/// Threads worth starting for so many independent pieces; a few pieces are done at once.
pub fn worth(pieces: usize) -> usize {
    if pieces < 8 {
        return 1;
    }
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
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
