#!/usr/bin/env bash
# Prints the oldest glibc that a kiln binary runs with, e.g. `2.34`.
# Fails where the binary needs a library that is not part of every Linux with glibc, or a newer glibc than allowed.
#
#   packaging/check-binary.sh BINARY [NEWEST_GLIBC]
#
# kiln opens the driver, NVRTC and NVML while it runs, if they are there; a fully static binary could not. So it is
# linked with glibc, and with nothing else that a machine may lack.
set -euo pipefail
export LC_ALL=C

fail() {
    printf 'error: %s\n' "$1" >&2
    shift
    [ $# -eq 0 ] || printf 'hint: %s\n' "$@" >&2
    exit 1
}

[ $# -ge 1 ] && [ $# -le 2 ] || fail "expected a binary, and the newest glibc it may need" \
    "packaging/check-binary.sh target/release/kiln 2.34"
binary=$1
newest_allowed=${2:-}
[ -f "$binary" ] || fail "there is no \`$binary\`"
command -v objdump >/dev/null || fail "objdump is missing" "install binutils; it comes with every C compiler"

headers=$(objdump -p "$binary") || fail "\`$binary\` is not a program that objdump can read"

# What the loader looks for before the program starts.
for library in $(sed -n 's/^ *NEEDED *//p' <<<"$headers"); do
    case $library in
    libc.so.6 | libm.so.6 | libdl.so.2 | libpthread.so.0 | librt.so.1 | libgcc_s.so.1 | ld-linux-*.so.*) ;;
    *) fail "\`$binary\` needs $library, which is not on every machine" \
        "find the crate that links it with \`cargo tree\`; bundle the library or open it at run time" ;;
    esac
done
# And whether it finds all of it here.
if libraries=$(ldd "$binary" 2>&1); then
    if missing=$(grep 'not found' <<<"$libraries"); then
        fail "\`$binary\` does not start here: $missing"
    fi
elif ! grep -q 'statically linked\|not a dynamic executable' <<<"$libraries"; then
    fail "ldd cannot read \`$binary\`: $libraries"
fi

# Versions of symbols, from the table that the loader checks. A private one is tied to a single glibc.
versions=$({ grep -o 'GLIBC_[A-Z0-9._]*' <<<"$headers" || true; } | sort -u)
grep -q '^GLIBC_PRIVATE$' <<<"$versions" && fail "\`$binary\` uses private symbols of this machine's glibc"
floor=$({ sed -n 's/^GLIBC_\([0-9][0-9.]*\)$/\1/p' <<<"$versions"; } | sort -V | tail -n 1)
# Relative relocations in packed form need a loader that knows them, whatever the symbols say.
if grep -q '^GLIBC_ABI_DT_RELR$' <<<"$versions"; then
    floor=$(printf '%s\n2.36\n' "$floor" | sort -V | tail -n 1)
fi
[ -n "$floor" ] || fail "\`$binary\` names no version of glibc: it is static, or not built for glibc"

if [ -n "$newest_allowed" ] && [ "$(printf '%s\n%s\n' "$floor" "$newest_allowed" | sort -V | tail -n 1)" != "$newest_allowed" ]; then
    symbols=$(objdump -T "$binary" | grep -F "GLIBC_$floor" | awk '{print $NF}' | head -n 5 | paste -sd ' ')
    fail "\`$binary\` needs glibc $floor, newer than $newest_allowed: $symbols" \
        "build on a system with an older glibc, or with \`packaging/release.sh --zig $newest_allowed\`" \
        "or accept it: \`packaging/release.sh --max-glibc $floor\`"
fi
printf '%s\n' "$floor"
