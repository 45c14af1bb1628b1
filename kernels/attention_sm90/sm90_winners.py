"""winners.json: the best config known for each tuned shape, and what it was measured at; candidates.json: good ones."""

import json
import os

import sm90_space

WINNERS = os.path.join(sm90_space.HERE, "winners.json")
CANDIDATES = os.path.join(sm90_space.HERE, "candidates.json")
FIELDS = ("shape", "dimensions", "config", "device", "time_us", "time_us_ci_95", "ratio", "ratio_ci_95", "date")


def read(path):
    try:
        with open(path) as file:
            return json.load(file)
    except (OSError, ValueError) as error:
        raise SystemExit(f"{path}: {error}") from None


def check(manifest, winners):
    """Ends the program, with all that is wrong, unless every winner is one of the manifest's."""
    mistakes = []
    if not isinstance(winners, list) or not all(isinstance(winner, dict) for winner in winners):
        raise SystemExit("winners.json is not a list of winners")
    for winner in winners:
        name = winner.get("shape")
        if missing := [field for field in FIELDS if field not in winner]:
            mistakes.append(f"{name}: no {', '.join(missing)}")
        elif name not in manifest.tuned:
            mistakes.append(f"{name}: no such shape to tune in kiln.toml")
        elif winner["dimensions"] != manifest.tuned[name]:
            mistakes.append(f"{name}: dimensions are {manifest.tuned[name]} in kiln.toml")
        elif winner["config"].get("SMS") not in manifest.values["SMS"] or winner["config"].get("BF16") != 0:
            mistakes.append(f"{name}: SMS and BF16 are not kiln.toml's")
        elif broken := manifest.broken(winner["config"], winner["dimensions"]):
            mistakes.append(f"{name}: {broken}")
    names = [winner.get("shape") for winner in winners]
    mistakes += [f"{name}: more than one winner" for name in sorted(set(names), key=str) if names.count(name) > 1]
    mistakes += [f"{name}: no winner" for name in manifest.tuned if name not in names]
    if mistakes:
        raise SystemExit("winners.json does not fit kiln.toml:\n  " + "\n  ".join(mistakes))


def load(manifest):
    winners = read(WINNERS)
    check(manifest, winners)
    return winners


def candidates(manifest, shape):
    """Configs of candidates.json that are legal at a shape; they say nothing of the mask, the type and the machine."""
    fixed = {"CAUSAL": int(shape["MASK"] == 2), "BF16": 0, "SMS": manifest.values["SMS"][0]}
    configs = [{**fixed, **candidate} for candidate in read(CANDIDATES)]
    configs = [{name: config.get(name) for name in manifest.values} for config in configs]
    return [config for config in configs if manifest.broken(config, shape) is None]


def from_study(manifest, document, date):
    """A winner from what `kiln studies show --json` prints; ValueError with what is the matter with it."""
    shape = dict(document.get("shape") or {})
    name = shape.pop("name", None)
    if document.get("schema_version") != 1:
        raise ValueError("not a study, or of another version of kiln")
    if document.get("kernel") != manifest.name:
        raise ValueError(f"a study of `{document.get('kernel')}`, not of `{manifest.name}`")
    if document.get("replayed_from") is not None:
        raise ValueError("replayed, not measured")
    if not document.get("finished") or not document.get("best_config") or document.get("best_latency_ms") is None:
        raise ValueError(f"the study of {name} has no confirmed winner")
    return {
        "shape": name,
        "dimensions": shape,
        "config": {tunable: int(value) for tunable, value in document["best_config"].items()},
        "device": document["device"],
        "time_us": round(document["best_latency_ms"] * 1e3, 3),
        "time_us_ci_95": [round(bound * 1e3, 3) for bound in pair(document["ci_95"])],
        "ratio": round(document["speedup"], 4),
        "ratio_ci_95": [round(bound, 4) for bound in pair(document["speedup_ci_95"])],
        "date": date,
    }


def measured_again(manifest, document, winners, date):
    """Winners with the times of `kiln verify --json`; ValueError with what is the matter with it."""
    if document.get("schema_version") != 1 or document.get("kernel") != manifest.name:
        raise ValueError(f"no verified package of `{manifest.name}`, or of another version of kiln")
    for found in document["shapes"]:
        name = found["shape"]
        if name not in winners:
            raise ValueError(f"{name} has no winner")
        if not found["right"] or found["speedup"] is None:
            raise ValueError(f"{name} was not measured: {found['wrong'] or found['note']}")
        yield {
            **winners[name],
            "device": document["device"],
            "time_us": round(found["kernel_ns"] / 1e3, 3),
            "time_us_ci_95": [round(bound / 1e3, 3) for bound in found["kernel_ns_ci_95"]],
            "ratio": round(found["speedup"], 4),
            "ratio_ci_95": [round(bound, 4) for bound in found["speedup_ci"]],
            "date": date,
        }


def pair(interval):
    """Both ends, however they are written."""
    return [interval["low"], interval["high"]] if isinstance(interval, dict) else list(interval)


def update(manifest, paths, date):
    """Puts the studies' winners in the place of those for the same shapes, or new times beside their configs, and writes
    winners.json."""
    winners = {winner["shape"]: winner for winner in load(manifest)}
    for path in paths:
        document = read(path)
        try:
            again = isinstance(document, dict) and "package" in document
            fresh = list(measured_again(manifest, document, winners, date)) if again else [from_study(manifest, document, date)]
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise SystemExit(f"{path}: {error}; winners.json is as it was") from None
        for found in fresh:
            before = winners.get(found["shape"])
            if before is not None:
                print(
                    f"{found['shape']}: {before['time_us']} us, {before['ratio']}x -> {found['time_us']} us, {found['ratio']}x"
                )
            winners[found["shape"]] = found
    check(manifest, list(winners.values()))
    write(list(winners.values()))


def write(winners):
    """One line per winner but for its config, so that a change is easy to see."""
    blocks = []
    for winner in winners:
        lines = [f"    {json.dumps(field)}: {json.dumps(winner[field])}" for field in FIELDS]
        blocks.append("  {\n" + ",\n".join(lines) + "\n  }")
    with open(WINNERS + ".new", "w") as file:
        file.write("[\n" + ",\n".join(blocks) + "\n]\n")
    os.replace(WINNERS + ".new", WINNERS)


def show(winners):
    def interval(ends, digits):
        return "" if ends is None else f" [{ends[0]:.{digits}f}, {ends[1]:.{digits}f}]"

    print("| shape | us | over the default | date | config |\n| --- | --- | --- | --- | --- |")
    for winner in winners:
        time = f"{winner['time_us']:.2f}" + interval(winner["time_us_ci_95"], 2)
        ratio = f"{winner['ratio']:.3f}x" + interval(winner["ratio_ci_95"], 3)
        print(
            f"| {winner['shape']} | {time} | {ratio} | {winner['date']} | {sm90_space.short_name(winner['config'])} |"
        )
    ratios = [winner["ratio"] for winner in winners]
    print(
        f"winners: {len(winners)}, all legal; over the default {geometric_mean(ratios):.3f}x, least {min(ratios):.3f}x"
    )


def geometric_mean(ratios):
    product = 1.0
    for ratio in ratios:
        product *= ratio
    return product ** (1 / len(ratios))
