"""What verify.py draws from: kiln.toml's tunables under its constraints, and problems beyond its shapes.

A job is a config with what a launch of it needs, and the cases to launch it on: shape, grid, inputs, seed, launches.
"""

import itertools
import os
import random
import tomllib

HERE = os.path.dirname(os.path.abspath(__file__))
SHARED_LIMIT = 227 * 1024
FUNCTIONS = {"min": min, "max": max, "ceil_div": lambda a, b: -(-a // b), "__builtins__": {}}
MOST_TRIES = 20_000
# Drawn in this order, what decides most first, so that most of what is not legal is given up after a few.
DRAWN_FIRST = ["KEY_SPLIT", "SINGLES_LAST", "CONSUMERS", "BACK_AND_FORTH", "UNIT_TILES", "PERSISTENT", "OVERLAP", "QUERY_STAGES"]
DRAWN_FIRST += ["CLUSTER", "PING_PONG", "TMA_STORE"]
# Multiprocessors that persistent blocks are for: few, so that blocks take many units of small problems.
FEWER_BLOCKS = [132, 132, 132, 40, 7, 3, 1]
# Inputs that are hard on a softmax (sm90_gpu.py draws them).
HARD = ["rising", "falling", "huge key", "very negative", "mixed"]
DIMENSIONS = ("B", "H", "HKV", "SQ", "SKV", "D", "MASK")


class Manifest:
    """kiln.toml. Its expressions are Python's as far as they are used there; booleans are 0 and 1."""

    def __init__(self, path=os.path.join(HERE, "kiln.toml")):
        with open(path, "rb") as file:
            text = tomllib.load(file)
        self.name = text["kernel"]["name"]
        self.values = {name: self.values_of(choices) for name, choices in text["tunables"].items()}
        self.constraints = {name: self.parse(rule) for name, rule in text["constraints"].items()}
        self.grid, self.block, self.shared = (self.parse(text["launch"][key]) for key in ("grid", "block", "shared"))
        self.flops = self.parse(text["work"]["flops"])
        self.tuned, self.checked = {}, {}
        for name, shape in text["shapes"].items():
            use = shape.pop("use", "target" if name == "target" else "check")
            (self.checked if use == "check" else self.tuned)[name] = shape

    @staticmethod
    def values_of(choices):
        if isinstance(choices, dict):
            choices = [choices["value"]] if "value" in choices else range(choices["from"], choices["to"] + 1)
        return [int(choice) for choice in choices]

    @staticmethod
    def parse(expression):
        return compile(" ".join(expression.split()), expression, "eval")

    @staticmethod
    def evaluate(expression, config, shape):
        return eval(expression, FUNCTIONS, {**config, **shape})

    def broken(self, config, shape):
        """The first rule that a config breaks at a shape, in words; None for a legal one."""
        for name, choices in self.values.items():
            if name not in config:
                return f"{name} is missing"
            if config[name] not in choices and name not in ("BF16", "SMS"):
                return f"{name} = {config[name]} is none of its values"
        for name in config:
            if name not in self.values:
                return f"{name} is no tunable"
        for name, rule in self.constraints.items():
            if not self.evaluate(rule, config, shape):
                return f"constraint `{name}`"
        if self.evaluate(self.shared, config, shape) > SHARED_LIMIT:
            return "more shared memory than a block may have"
        return None

    def draw(self, rng, shape, **fixed):
        """A config that is legal at `shape` and has the `fixed` values; None when none is found."""
        fixed = {"HEAD_DIM": shape["D"], "CAUSAL": int(shape["MASK"] == 2), **fixed}
        order = list(dict.fromkeys([*fixed, *DRAWN_FIRST, *self.values]))
        ripe, known = [], set(shape) | set(FUNCTIONS)
        for tunable in order:  # Which rules can be judged from here on.
            rules = [rule for rule in self.constraints.values() if not set(rule.co_names) <= known]
            known.add(tunable)
            ripe.append([rule for rule in rules if set(rule.co_names) <= known])
        for _ in range(MOST_TRIES):
            scope = dict(shape)
            for place, (name, rules) in enumerate(zip(order, ripe)):
                scope[name] = fixed[name] if name in fixed else rng.choice(self.values[name])
                if not all(eval(rule, FUNCTIONS, scope) for rule in rules):
                    break
            else:
                config = {name: scope[name] for name in self.values}
                if self.broken(config, shape) is None:
                    return config
                continue
            if place < len(fixed):  # Nothing was left to chance.
                return None
        return None

    def case(self, config, shape, seed, inputs="normal", launches=2):
        return {
            "shape": shape,
            "grid": self.evaluate(self.grid, config, shape),
            "inputs": inputs,
            "seed": seed,
            "launches": launches,
        }

    def job(self, config, cases):
        shape = cases[0]["shape"]
        return {
            "config": config,
            "threads": self.evaluate(self.block, config, shape),
            "shared": self.evaluate(self.shared, config, shape),
            "cases": cases,
        }


def shape_of(*sizes):
    return dict(zip(DIMENSIONS, sizes))


def short_name(config):
    """As in docs/results/attention_sm90.md."""
    letters = {"C": "CONSUMERS", "N": "BLOCK_N", "S": "STAGES", "U": "UNIT_TILES", "P": "PERSISTENT", "O": "OVERLAP"}
    letters |= {"L": "LAZY_RESCALE", "B": "BLOCKS_PER_SM", "T": "TMA_STORE", "R": "ROW_SUMS", "Q": "QUERY_STAGES"}
    name = " ".join(f"{letter}{config[tunable]}" for letter, tunable in letters.items())
    name += " singles" if config["SINGLES_LAST"] else ""
    name += " back and forth" if config["BACK_AND_FORTH"] else ""
    name += " ping-pong" if config["PING_PONG"] else ""
    name += f" CLUSTER={config['CLUSTER']}" if config["CLUSTER"] > 1 else ""
    return name + (f" KEY_SPLIT={config['KEY_SPLIT']}" if config["KEY_SPLIT"] > 1 else "")


def full_name(config):
    mask, dtype = "causal" if config["CAUSAL"] else "full", "bf16" if config["BF16"] else "f16"
    return f"D{config['HEAD_DIM']} {mask} {dtype} {short_name(config)}"


# --- Draws. ---


def draw_length(rng, longest):
    return rng.choice([1, rng.randint(2, 80), rng.randint(60, 300), rng.randint(200, longest)])


def draw_shape(rng, hard):
    depth, mask = rng.choice([64, 64, 128]), rng.randint(1, 2)
    if hard:  # Several blocks of keys, and scores that stay below some thousands.
        queries, keys = rng.randint(30, 500), rng.randint(130, 700)
        return shape_of(rng.randint(1, 2), 2, rng.randint(1, 2), queries, keys, depth, mask)
    if rng.random() < 0.15:  # More units than multiprocessors.
        queries = rng.randint(1, 200)
        keys = rng.choice([queries, rng.randint(1, 200)])
        return shape_of(rng.randint(17, 40), 8, rng.choice([1, 4, 8]), queries, keys, depth, mask)
    key_heads, group, queries = rng.choice([1, 2, 3]), rng.choice([1, 1, 2, 4, 7]), draw_length(rng, 1100)
    keys = queries if rng.random() < 0.4 else draw_length(rng, 1500)
    return shape_of(rng.randint(1, 3), key_heads * group, key_heads, queries, keys, depth, mask)


def wanted_values(manifest, rng):
    """Endless (tunable, value): tunables by turns, and their values by turns: rare ones are not left to chance."""
    free = {name: values for name, values in manifest.values.items() if len(values) > 1}
    for turn in itertools.count():
        for name, values in rng.sample(sorted(free.items()), len(free)):
            yield name, values[turn % len(values)]


def spread_draws(manifest, rng, shapes, count, **fixed):
    """`count` times a shape and a config that is legal there, by turns with every value of every tunable."""
    wanted = wanted_values(manifest, rng)
    drawn = []
    while len(drawn) < count:
        name, value = next(wanted)
        extra = {key: rng.choice(values) for key, values in fixed.items()}
        for _ in range(20):  # Not every value is legal at every shape.
            shape = shapes(len(drawn))
            own = {"HEAD_DIM": shape["D"], "CAUSAL": int(shape["MASK"] == 2)}
            config = manifest.draw(rng, shape, **extra, **{name: value}) if own.get(name, value) == value else None
            if config is not None:
                drawn.append((shape, config))
                break
    return drawn


def draw_fuzz(manifest, count, seed):
    """A config on a problem each; every tenth has inputs that are hard on a softmax."""
    rng = random.Random(seed)
    jobs = []
    drawn = spread_draws(
        manifest, rng, lambda index: draw_shape(rng, index % 10 == 9), count, BF16=[0, 1], SMS=FEWER_BLOCKS
    )
    for index, (shape, config) in enumerate(drawn):
        inputs = HARD[index // 10 % len(HARD)] if index % 10 == 9 else "normal"
        jobs.append(manifest.job(config, [manifest.case(config, shape, rng.getrandbits(32), inputs)]))
    return jobs


def draw_space(manifest, count, seed):
    """Configs that are legal at one of the tuned shapes, with all check shapes at which they are legal."""
    rng = random.Random(seed)
    tuned = list(manifest.tuned.values())
    jobs, seen = [], set()
    while len(jobs) < count:
        for _, config in spread_draws(manifest, rng, lambda _: rng.choice(tuned), count - len(jobs)):
            key = tuple(config.values())
            shapes = [s for s in manifest.checked.values() if manifest.broken(config, s) is None]
            if key not in seen and shapes:
                jobs.append(manifest.job(config, [manifest.case(config, shape, 1) for shape in shapes]))
            seen.add(key)
    return jobs


def small_cases(manifest, config):
    """Problems that a sanitizer gets through in seconds; few blocks, so that persistent ones take several units."""
    depth, mask, few = config["HEAD_DIM"], 1 + config["CAUSAL"], {**config, "SMS": 2}
    sizes = [(1, 2, 1, 200, 200), (2, 2, 2, 77, 77), (1, 3, 3, 130, 65), (1, 2, 2, 1, 150)]
    shapes = [shape_of(*size, depth, mask) for size in sizes]
    return [manifest.case(few, s, 1, launches=1) for s in shapes if manifest.broken(config, s) is None]
