#!/usr/bin/env python3
"""Packs an unpacked release as a Python wheel, so that `pip install` brings the command `kiln`.

    packaging/wheel.py --release FOLDER --glibc 2.34 --out FOLDER

`packaging/release.sh --wheel` calls it. A wheel is a zip archive with three files of metadata; writing it here needs
nothing but Python's own library, and carries the very bytes of the release's binary. Prints the wheel's path.
"""

import argparse
import base64
import hashlib
import os
import platform
import re
import subprocess
import sys
import time
import zipfile
from pathlib import Path

NAME = "kiln-tuner"
HERE = Path(__file__).resolve().parent
LICENCES = ["LICENSE-MIT", "LICENSE-APACHE", "THIRD-PARTY.txt"]


def fail(message):
    sys.exit(f"error: {message}")


def python_version(version):
    """The version as Python writes it: 1.2.0-rc.1 is 1.2.0rc1."""
    match = re.fullmatch(r"(\d+\.\d+\.\d+)(?:-(alpha|beta|rc)\.(\d+))?", version)
    if not match:
        fail(f"`{version}` has no counterpart among Python's versions; use 1.2.3 or 1.2.3-rc.1")
    number, stage, count = match.groups()
    short = {"alpha": "a", "beta": "b", "rc": "rc"}
    return number + (short[stage] + count if stage else "")


def metadata(version):
    manifest = (HERE.parent / "crates/kiln/Cargo.toml").read_text(encoding="utf-8")
    summary = re.search(r'^description = "(.*)"$', manifest, re.MULTILINE)
    if not summary:
        fail("crates/kiln/Cargo.toml has no description")
    lines = [
        "Metadata-Version: 2.4",
        f"Name: {NAME}",
        f"Version: {version}",
        f"Summary: {summary.group(1)}",
        "License-Expression: MIT OR Apache-2.0",
        *(f"License-File: {name}" for name in LICENCES),
        "Keywords: cuda,gpu,kernel,tuning,autotuning,benchmark",
        "Classifier: Environment :: Console",
        "Classifier: Operating System :: POSIX :: Linux",
        "Classifier: Programming Language :: Rust",
        "Classifier: Topic :: Software Development",
        "Description-Content-Type: text/markdown",
    ]
    description = (HERE / "python/README.md").read_text(encoding="utf-8")
    return "\n".join(lines) + "\n\n" + description


class Wheel:
    """The archive and, of each file in it, the line of RECORD."""

    def __init__(self, path, epoch):
        self.archive = zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED)
        # Zip knows no time before 1980.
        self.date = time.gmtime(max(epoch, 315532800))[:6]
        self.record = []

    def add(self, name, data, mode=0o644):
        entry = zipfile.ZipInfo(name, self.date)
        entry.external_attr = (0o100000 | mode) << 16
        entry.compress_type = zipfile.ZIP_DEFLATED
        self.archive.writestr(entry, data)
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        self.record.append(f"{name},sha256={digest},{len(data)}")

    def close(self, record_name):
        text = "\n".join([*self.record, f"{record_name},,"]) + "\n"
        self.add(record_name, text.encode())
        self.archive.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--release", type=Path, required=True, help="an unpacked release")
    parser.add_argument("--glibc", required=True, help="the oldest glibc it runs with")
    parser.add_argument("--out", type=Path, required=True, help="the folder for the wheel")
    arguments = parser.parse_args()

    glibc = re.fullmatch(r"(\d+)\.(\d+)", arguments.glibc)
    if not glibc:
        fail(f"`{arguments.glibc}` is not a version of glibc, e.g. 2.34")
    kiln = arguments.release / "bin/kiln"
    said = subprocess.run([kiln, "--version"], check=True, capture_output=True, text=True).stdout
    version = python_version(said.split()[1])
    tag = f"py3-none-manylinux_{glibc[1]}_{glibc[2]}_{platform.machine()}"
    base = f"{NAME.replace('-', '_')}-{version}"
    path = arguments.out / f"{base}-{tag}.whl"
    wheel = Wheel(path, int(os.environ.get("SOURCE_DATE_EPOCH", "0")))

    # pip copies `scripts` beside python and `data` below its prefix, where shells and man find it.
    wheel.add(f"{base}.data/scripts/kiln", kiln.read_bytes(), 0o755)
    share = arguments.release / "share"
    for file in sorted(path for path in share.rglob("*") if path.is_file()):
        inside = file.relative_to(arguments.release).as_posix()
        wheel.add(f"{base}.data/data/{inside}", file.read_bytes())
    information = f"{base}.dist-info"
    for name in LICENCES:
        wheel.add(f"{information}/licenses/{name}", (arguments.release / name).read_bytes())
    wheel.add(f"{information}/METADATA", metadata(version).encode())
    wheel.add(
        f"{information}/WHEEL",
        f"Wheel-Version: 1.0\nGenerator: kiln {version}\nRoot-Is-Purelib: false\nTag: {tag}\n".encode(),
    )
    wheel.close(f"{information}/RECORD")
    print(path)


if __name__ == "__main__":
    main()
