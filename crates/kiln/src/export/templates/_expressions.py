"""What the table of a package is written with: its words, and functions of kiln's expressions that Python has no word for."""

import math


class KernelError(RuntimeError):
    """A call that cannot be made, with the reason."""


def _ceil_div(a, b):
    return -(-a // b)


def _align_up(a, b):
    return _ceil_div(a, b) * b


def _gcd(a, b):
    return math.gcd(a, b)


def _lcm(a, b):
    return abs(a * b) // math.gcd(a, b) if a and b else 0


def _is_pow2(a):
    return a > 0 and a & (a - 1) == 0


def _whole_abs(a):
    return abs(a)


def _real_abs(a):
    return abs(a)


def _real_log2(a):
    if a > 0:
        return math.log2(a)
    return -math.inf if a == 0 else math.nan


def _real_sqrt(a):
    return math.sqrt(a) if a >= 0 else math.nan


def _whole_floor(a):
    return math.floor(a)


def _whole_ceil(a):
    return math.ceil(a)


def _whole_trunc(a):
    return math.trunc(a)


def _whole_round(a):
    return math.floor(a + 0.5) if a >= 0 else -math.floor(0.5 - a)


class Config:
    """One config: what its images are, where it is legal, how it is launched."""

    def __init__(self, id, values, images, legal, launch, arguments):
        self.id = id
        self.values = values
        self.images = images
        self.legal = legal
        self.launch = launch
        self.arguments = arguments


class Argument:
    def __init__(self, name, kind, dtype, role=None, tensor=None, swizzle=None):
        self.name = name
        self.kind = kind
        self.dtype = dtype
        self.role = role
        self.tensor = tensor
        self.swizzle = swizzle
