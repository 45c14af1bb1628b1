"""Writes stats_oracles.json, the values that tests/stats_oracles.rs compares with.

    python -m venv venv && venv/bin/pip install numpy scipy
    venv/bin/python make_stats_oracles.py

The output is the same on every run with the same versions, which it records.
"""

import json
import pathlib

import numpy as np
import scipy
from scipy import stats

BOOTSTRAP_RESAMPLES = 100_000
LEVEL = 0.95

rng = np.random.default_rng(20240229)


def times(n, centre=50_000.0, spread=0.02, spikes=0.0, decimals=1):
    """Timing-like samples in ns: log-normal noise, some of it spikes of twice the time."""
    samples = centre * np.exp(spread * rng.standard_normal(n))
    samples = np.where(rng.random(n) < spikes, 2 * samples, samples)
    return np.round(samples, decimals)


def describe_cases():
    sets = [times(n) for n in (1, 2, 3, 10, 11, 100)]
    sets += [times(50, spikes=0.1), np.array([5.0] * 7), times(40, decimals=-3)]
    for samples in sets:
        first, third = np.quantile(samples, [0.25, 0.75])
        reach = 1.5 * (third - first)
        yield {
            "samples": samples.tolist(),
            "median": np.median(samples),
            "mad": stats.median_abs_deviation(samples),
            "quantiles": [[q, np.quantile(samples, q)] for q in (0, 0.01, 0.05, 0.25, 0.5, 0.9, 0.99, 1)],
            "outliers_below": int((samples < first - reach).sum()),
            "outliers_above": int((samples > third + reach).sum()),
        }


def two_sample_cases():
    # Around the size limit of the exact distribution, with ties and without, equal and apart.
    pairs = [
        (times(n), times(m, centre=50_000 * shift))
        for n, m in [(1, 1), (1, 9), (3, 4), (7, 7), (8, 8), (8, 9), (9, 8), (9, 9), (8, 100), (2, 300)]
        for shift in (1.0, 1.02)
    ]
    pairs += [
        (times(n, decimals=-3), times(m, centre=50_000 * shift, decimals=-3))
        for n, m in [(5, 6), (8, 20), (30, 40), (100, 100)]
        for shift in (1.0, 1.02)
    ]
    pairs += [
        (times(100, spikes=0.05), times(100, centre=50_000 * shift, spikes=0.05))
        for shift in (1.0, 1.005, 1.02, 1.2)
    ]
    pairs.append((np.array([5.0] * 10), np.array([5.0] * 12)))
    for first, second in pairs:
        result = stats.mannwhitneyu(first, second, alternative="two-sided", method="auto")
        larger = (first[:, None] > second[None, :]).sum()
        smaller = (first[:, None] < second[None, :]).sum()
        yield {
            "first": first.tolist(),
            "second": second.tolist(),
            "u": result.statistic,
            "p_value": result.pvalue,
            "cliffs_delta": (larger - smaller) / (len(first) * len(second)),
        }


def rank_interval_cases():
    # 2^-1200 is not a double.
    for n in (5, 6, 7, 20, 101, 1200):
        samples = times(n)
        ordered = np.sort(samples)
        below = stats.binom.cdf(np.arange(n), n, 0.5)
        intervals = []
        for level in (0.5, 0.9, 0.95, 0.99):
            depth = int((below <= (1 - level) / 2).sum())
            ends = [ordered[depth - 1], ordered[n - depth]] if depth else None
            intervals.append([level, ends])
        yield {"samples": samples.tolist(), "intervals": intervals}


def bootstrap(data, statistic):
    result = stats.bootstrap(
        data,
        statistic,
        n_resamples=BOOTSTRAP_RESAMPLES,
        batch=1000,
        confidence_level=LEVEL,
        method="percentile",
        rng=rng,
    )
    return [result.confidence_interval.low, result.confidence_interval.high]


def median_bootstrap_cases():
    for samples in (times(12), times(31), times(100), times(100, spread=0.1, spikes=0.1)):
        yield {"samples": samples.tolist(), "ends": bootstrap((samples,), np.median)}


def ratio_bootstrap_cases():
    def ratio(numerator, denominator, axis):
        return np.median(numerator, axis=axis) / np.median(denominator, axis=axis)

    for n, m, spread, shift in [(20, 20, 0.02, 1.0), (100, 100, 0.02, 1.1), (100, 60, 0.1, 0.8)]:
        numerator = times(n, centre=50_000 * shift, spread=spread, spikes=0.03)
        denominator = times(m, spread=spread, spikes=0.03)
        yield {
            "numerator": numerator.tolist(),
            "denominator": denominator.tolist(),
            "ends": bootstrap((numerator, denominator), ratio),
        }


def hierarchical_bootstrap_cases():
    """No package has this one; spelled out with plain numpy instead."""
    for rounds, n in [(5, 20), (8, 10)]:
        factors = np.exp(0.05 * rng.standard_normal(rounds))
        numerator = np.array([times(n, centre=55_000 * f) for f in factors])
        denominator = np.array([times(n, centre=50_000 * f) for f in factors])
        ratios = np.empty(BOOTSTRAP_RESAMPLES)
        for i in range(BOOTSTRAP_RESAMPLES):
            drawn = rng.integers(rounds, size=rounds)
            sides = [
                np.take_along_axis(side[drawn], rng.integers(n, size=(rounds, n)), axis=1)
                for side in (numerator, denominator)
            ]
            ratios[i] = np.median(sides[0]) / np.median(sides[1])
        yield {
            "numerator": numerator.tolist(),
            "denominator": denominator.tolist(),
            "ends": np.quantile(ratios, [(1 - LEVEL) / 2, (1 + LEVEL) / 2]).tolist(),
        }


def main():
    oracles = {
        "made_with": {"numpy": np.__version__, "scipy": scipy.__version__},
        "level": LEVEL,
        "normal_upper_tail": [
            {"z": z, "p": stats.norm.sf(z)}
            for z in (-3.0, 0.01, 0.5, 1.0, 1.96, 2.9, 2.9999, 3.0, 3.5, 5.0, 8.0, 20.0, 37.0)
        ],
        "describe": list(describe_cases()),
        "two_sample": list(two_sample_cases()),
        "rank_interval": list(rank_interval_cases()),
        "median_bootstrap": list(median_bootstrap_cases()),
        "ratio_bootstrap": list(ratio_bootstrap_cases()),
        "hierarchical_bootstrap": list(hierarchical_bootstrap_cases()),
    }
    # One case per line, so that a change shows as the cases it touches.
    parts = []
    for name, value in oracles.items():
        if isinstance(value, list):
            body = ",\n".join(json.dumps(case) for case in value)
            parts.append(f"{json.dumps(name)}: [\n{body}\n]")
        else:
            parts.append(f"{json.dumps(name)}: {json.dumps(value)}")
    path = pathlib.Path(__file__).with_name("stats_oracles.json")
    path.write_text("{\n" + ",\n".join(parts) + "\n}\n")


if __name__ == "__main__":
    main()
