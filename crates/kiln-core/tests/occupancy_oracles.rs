//! Occupancy against NVIDIA's own calculator. `oracles/make_occupancy_oracles.cpp` made the values.

use kiln_core::architecture::Architecture;
use kiln_core::occupancy::occupancy;
use kiln_core::protocol::Resources;

#[test]
fn every_case_agrees() {
    let cases = include_str!("oracles/occupancy_oracles.csv");
    let mut seen = 0;
    for line in cases.lines().skip(1) {
        let (name, numbers) = line.split_once(',').unwrap();
        let numbers: Vec<u32> = numbers.split(',').map(|n| n.parse().unwrap()).collect();
        let [registers, fixed, dynamic, barriers, threads, blocks] = numbers[..] else {
            panic!("{line}");
        };
        let resources = Resources {
            registers,
            static_shared_bytes: fixed,
            barriers,
            ..Resources::default()
        };
        let architecture = Architecture::parse(name).unwrap();
        let found = occupancy(&architecture, &resources, dynamic, threads);
        assert_eq!(found.blocks_per_multiprocessor, blocks, "{line}: {found:?}");
        seen += 1;
    }
    assert!(seen > 2000);
}
