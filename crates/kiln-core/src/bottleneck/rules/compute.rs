//! Arithmetic that need not be done, or not there.

use super::{Case, Finding, percent};
use crate::bottleneck::Cause;
use crate::bottleneck::load::Unit;
use crate::bottleneck::related::{Wanted, Wish};

const WARP: f64 = 32.0;

/// Instructions that most threads of a warp do not take part in.
pub fn divergence(case: &Case<'_>) -> Option<Finding> {
    let threads = case.counters.threads_per_instruction?;
    if !(1.0..0.8 * WARP).contains(&threads) {
        return None;
    }
    // With all lanes at work a warp has that much fewer instructions to run, and waits that much less often.
    let left = threads / WARP;
    let gain = case.load.gain(left, |unit| match unit {
        Unit::Issue | Unit::Fma | Unit::Alu | Unit::Special | Unit::Fp64 => left,
        _ => 1.0,
    });
    Some(Finding {
        rule: "group-branches-by-warp",
        cause: Cause::Divergence,
        is_inefficiency: true,
        gain,
        evidence: format!("{threads:.1} of 32 threads take part in an instruction on average"),
        change: "give the threads of a warp the same branch and loop count: sort or group elements by kind, or \
                 replace short branches with selections"
            .into(),
        tunables: case.related(&Wish {
            shared: None,
            block: None,
            words: &["GROUP", "SORT", "BRANCH", "PREDICATE"],
            wanted: Wanted::Any,
        }),
    })
}

/// More matrix products than the task needs.
pub fn excess_products(case: &Case<'_>) -> Option<Finding> {
    let needed = case.around.flops.filter(|flops| *flops > 0.0)?;
    let done = case.counters.tensor_flops()?;
    if done < 1.15 * needed {
        return None;
    }
    let left = needed / done;
    let tensor = case.load.get(Unit::Tensor);
    let gain = case.load.gain(left, |unit| match unit {
        Unit::Tensor | Unit::Issue => left,
        _ => 1.0,
    });
    Some(Finding {
        rule: "skip-products-nobody-needs",
        cause: Cause::Tensor,
        is_inefficiency: false,
        gain,
        evidence: format!(
            "the tensor cores, at {}, do {:.2} times the operations that [work] asks for",
            percent(tensor),
            done / needed
        ),
        change:
            "leave out tiles that are masked or padded away, instead of multiplying them by zero"
                .into(),
        tunables: case.related(&Wish {
            shared: None,
            block: None,
            words: &["SKIP", "CAUSAL", "MASK"],
            wanted: Wanted::Any,
        }),
    })
}

/// `mma.sync` on a device with something faster.
pub fn wgmma(case: &Case<'_>) -> Option<Finding> {
    let ceilings = case.around.ceilings?;
    let fastest = ceilings.wgmma_flops_per_second?;
    let c = case.counters;
    let rate = c.tensor_flops()? / (c.duration_ns? / 1e9);
    let reaches = rate / ceilings.mma_flops_per_second;
    let is_wgmma = c.uses_wgmma() || rate > 1.05 * ceilings.mma_flops_per_second;
    if is_wgmma || reaches < 0.6 || fastest < 1.1 * ceilings.mma_flops_per_second {
        return None;
    }
    let left = ceilings.mma_flops_per_second / fastest;
    Some(Finding {
        rule: "use-wgmma",
        cause: Cause::Tensor,
        is_inefficiency: false,
        gain: case.load.gain(left, |unit| match unit {
            Unit::Tensor | Unit::Issue => left,
            _ => 1.0,
        }),
        evidence: format!(
            "{:.0} TFLOP/s is {} of what `mma.sync` reaches on this device; `wgmma` reaches {:.0}",
            rate / 1e12,
            percent(reaches),
            fastest / 1e12
        ),
        change: "issue `wgmma` from warpgroups, with operands in shared memory".into(),
        tunables: Vec::new(),
    })
}

/// Special functions that multiplications could stand for.
pub fn special_functions(case: &Case<'_>) -> Option<Finding> {
    let special = case.load.get(Unit::Special);
    if special < 0.6 {
        return None;
    }
    // Each replaced by one multiply-add: what a recurrence, a table in registers, or exp(a) exp(b) = exp(a + b)
    // comes to. Issued instead of the special function, so the schedulers have as much to do as before.
    let moved = moved_to_fma(case, 1.0);
    let gain = case.load.gain(0.0, |unit| match unit {
        Unit::Special => 0.0,
        Unit::Fma => moved,
        _ => 1.0,
    });
    Some(Finding {
        rule: "replace-special-functions",
        cause: Cause::SpecialFunctions,
        is_inefficiency: false,
        gain,
        evidence: format!(
            "the special-function units are at {}; the next unit is at {}",
            percent(special),
            percent(next_to(case, Unit::Special))
        ),
        change: "compute fewer exponentials, roots and quotients: a recurrence or a hoisted reciprocal in their place, \
                 exp(a) exp(b) = exp(a + b), powers by multiplication"
            .into(),
        tunables: case.related(&Wish {
            shared: None,
            block: None,
            words: &["RECURRENCE", "FAST", "EXP", "POLY", "APPROX", "HOIST"],
            wanted: Wanted::Any,
        }),
    })
}

/// Part of the special functions as polynomials beside the others.
pub fn polynomial(case: &Case<'_>) -> Option<Finding> {
    /// A polynomial of degree 3 with range reduction (counted in SASS).
    const INSTRUCTIONS: f64 = 8.0;
    let c = case.counters;
    let special = case.load.get(Unit::Special);
    if special < 0.6 {
        return None;
    }
    let per_instruction = c.special_instructions? / c.instructions?;
    // The part that balances both sides, found by trying: the curve has one minimum.
    let gain_at = |part: f64| {
        let issue = 1.0 + part * per_instruction * (INSTRUCTIONS - 1.0);
        let fma = moved_to_fma(case, part * INSTRUCTIONS);
        case.load.gain(0.0, |unit| match unit {
            Unit::Special => 1.0 - part,
            Unit::Fma => fma,
            Unit::Issue => issue,
            _ => 1.0,
        })
    };
    let gain = (1..=10)
        .map(|n| gain_at(f64::from(n) / 20.0))
        .fold(1.0, f64::max);
    Some(Finding {
        rule: "exponentials-by-polynomial",
        cause: Cause::SpecialFunctions,
        is_inefficiency: false,
        gain,
        evidence: format!("the special-function units are at {}", percent(special)),
        change: "compute part of the exponentials as polynomials on the multiply-add pipes, beside the others".into(),
        tunables: case.related(&Wish {
            shared: None,
            block: None,
            words: &["POLY", "EXP"],
            wanted: Wanted::Any,
        }),
    })
}

/// How much more the multiply-add pipes have to do with `each` instructions for every special function.
fn moved_to_fma(case: &Case<'_>, each: f64) -> f64 {
    let c = case.counters;
    match (c.special_instructions, c.fma_instructions) {
        (Some(special), Some(fma)) if fma > 0.0 => 1.0 + each * special / fma,
        _ => 1.0,
    }
}

fn next_to(case: &Case<'_>, unit: Unit) -> f64 {
    let ranked = case.load.ranked();
    let next = ranked.iter().find(|(other, _)| *other != unit);
    next.map_or(0.0, |(_, load)| *load)
}

/// The schedulers are busy with everything at once.
pub fn instructions(case: &Case<'_>) -> Option<Finding> {
    let issue = case.load.get(Unit::Issue);
    let pipe = case.load.get(Unit::Alu).max(case.load.get(Unit::Fma));
    let tensor = case.load.get(Unit::Tensor);
    let busy = issue.max(pipe);
    if busy < 0.6 || tensor > busy {
        return None;
    }
    let c = case.counters;
    let counted = [
        ("integer and logic", c.alu_instructions),
        ("multiply-add", c.fma_instructions),
        ("memory", c.memory_instructions),
        ("control", c.control_instructions),
        ("special", c.special_instructions),
    ];
    let all = c.instructions.unwrap_or(0.0);
    let mix: Vec<String> = counted
        .into_iter()
        .filter_map(|(name, count)| Some((name, count? / all)))
        .filter(|(_, share)| share.is_finite() && *share >= 0.05)
        .map(|(name, share)| format!("{name} {}", percent(share)))
        .collect();
    Some(Finding {
        rule: "issue-fewer-instructions",
        cause: if issue >= pipe { Cause::Instructions } else { Cause::Arithmetic },
        is_inefficiency: false,
        // A quarter less is what hoisting addresses and wider accesses are good for.
        gain: case.load.gain(0.75, |unit| match unit {
            Unit::Issue | Unit::Alu | Unit::Fma => 0.75,
            _ => 1.0,
        }),
        evidence: format!(
            "instructions are issued in {} of the clocks: {}",
            percent(issue),
            mix.join(", ")
        ),
        change: "do more with each instruction: 16-byte accesses, packed halves (`half2`), addresses hoisted out of loops, \
                 unrolling; products on the tensor cores"
            .into(),
        tunables: case.related(&Wish {
            shared: None,
            block: None,
            words: &["UNROLL", "VECTOR", "VEC", "HALF2", "ITEMS"],
            wanted: Wanted::Larger,
        }),
    })
}

/// Warps wait for their own last instruction.
pub fn independent_instructions(case: &Case<'_>) -> Option<Finding> {
    let waiting = case.waiting.plain + case.waiting.shared + case.waiting.special;
    let (unit, busy) = case.load.busiest().unwrap_or((Unit::Issue, 0.0));
    if waiting < 0.3 || busy > 0.6 {
        return None;
    }
    Some(Finding {
        rule: "more-independent-instructions",
        cause: Cause::InstructionLatency,
        is_inefficiency: false,
        gain: case.load.gain(1.0 - waiting / 2.0, |_| 1.0),
        evidence: format!(
            "warps wait {} of their time for the latency of arithmetic and shared memory; the busiest unit, {}, is at {}",
            percent(waiting),
            unit.in_words(),
            percent(busy)
        ),
        change: "give each thread several independent chains: unroll, two accumulators in place of one, more \
                 elements per thread"
            .into(),
        tunables: case.related(&Wish {
            shared: None,
            block: None,
            words: &["UNROLL", "ITEMS", "ROWS", "COLS", "WARPS", "CHAINS"],
            wanted: Wanted::Larger,
        }),
    })
}

/// Units that work one after the other, where they could work at once.
pub fn turns(case: &Case<'_>) -> Option<Finding> {
    /// Of the longer of two kinds of work, what the best overlap that was measured hides the other behind: softmax and
    /// products of attention on an H200, three warpgroups.
    const OVERLAP: f64 = 0.75;
    const UNITS: [Unit; 6] = [
        Unit::Tensor,
        Unit::Special,
        Unit::Dram,
        Unit::DataStage,
        Unit::Fma,
        Unit::Alu,
    ];
    let ranked = case.load.ranked();
    let mut busy = ranked.into_iter().filter(|(unit, _)| UNITS.contains(unit));
    let (first, second) = (busy.next()?, busy.next()?);
    let together = first.1 + second.1;
    let (_, busiest) = case.load.busiest()?;
    if second.1 < 0.3 || together < 0.75 || busiest > OVERLAP {
        return None;
    }
    Some(Finding {
        rule: "overlap-what-takes-turns",
        cause: Cause::Turns,
        is_inefficiency: false,
        gain: case.load.gain(first.1 / OVERLAP, |_| 1.0),
        evidence: format!(
            "busy are {} {} of the time and {} {}: together {}, so that they {}",
            first.0.in_words(),
            percent(first.1),
            second.0.in_words(),
            percent(second.1),
            percent(together),
            match together > 1.05 {
                true => "work at once for a part of it only",
                false => "mostly take turns",
            }
        ),
        change: "let one part of the block do the one while another does the other: warps with different roles, or the \
                 next tile's products issued before this tile's arithmetic"
            .into(),
        tunables: case.related(&Wish {
            shared: None,
            block: Some(Wanted::Any),
            words: &["STAGES", "WARP", "OVERLAP", "PINGPONG", "CONSUMERS", "SCHEDULE"],
            wanted: Wanted::Any,
        }),
    })
}
