#!/usr/bin/env bash
# Builds what is published of a version: a tar.gz with the binary, completions, manual pages and licences, on request
# a Python wheel with the same binary, and SHA256SUMS of both.
#
#   packaging/release.sh [--out FOLDER] [--wheel] [--max-glibc VERSION] [--zig VERSION] [--binary FILE]
#
#   --out FOLDER         where it goes [default: target/release-VERSION]
#   --wheel              also the wheel; needs python3
#   --max-glibc VERSION  fail when the binary needs a newer glibc [default: 2.34, or what --zig says]
#   --zig VERSION        link for this older glibc, e.g. 2.28; needs `cargo zigbuild` and zig
#   --binary FILE        pack this binary instead of building one
#
# Needs Rust, a C compiler with binutils, GNU tar and gzip. The same sources, Rust and C compiler give the same bytes, in
# whatever folder: paths are mapped away, times are SOURCE_DATE_EPOCH [default: the time of the last commit].
set -euo pipefail
export LC_ALL=C
here=$(cd "$(dirname "$0")" && pwd -P)
root=$(dirname "$here")

say() { printf '%s\n' "$*" >&2; }
fail() {
    say "error: $1"
    shift
    for hint in "$@"; do say "hint: $hint"; done
    exit 1
}

out= binary= wheel=no zig= max_glibc=
while [ $# -gt 0 ]; do
    case $1 in
    --wheel) wheel=yes ;;
    --out | --binary | --max-glibc | --zig)
        [ $# -ge 2 ] || fail "$1 needs a value"
        case $1 in
        --out) out=$2 ;;
        --binary) binary=$2 ;;
        --max-glibc) max_glibc=$2 ;;
        --zig) zig=$2 ;;
        esac
        shift
        ;;
    -h | --help)
        sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p;}' "$0"
        exit 0
        ;;
    *) fail "unknown option $1" "packaging/release.sh --help" ;;
    esac
    shift
done
for version in $max_glibc $zig; do
    [[ $version =~ ^2\.[0-9]+$ ]] || fail "\`$version\` is not a version of glibc" "e.g. 2.34"
done
max_glibc=${max_glibc:-${zig:-2.34}}
[ -z "$binary" ] || [ -z "$zig" ] || fail "--zig builds, --binary does not" "leave one of them out"
[ -z "$binary" ] || binary=$(realpath -e "$binary")
[ -z "$out" ] || { mkdir -p "$out" && out=$(cd "$out" && pwd -P); }
cd "$root"

if [ -z "${SOURCE_DATE_EPOCH:-}" ]; then
    # Without git, as in a tarball of the sources, the first second a wheel can express.
    SOURCE_DATE_EPOCH=$(git log -1 --format=%ct 2>/dev/null || echo 315532800)
fi
export SOURCE_DATE_EPOCH
commit=$(git rev-parse HEAD 2>/dev/null || echo "not known")
if [ -n "$(git status --porcelain --untracked-files=no 2>/dev/null)" ]; then
    say "note: there are changes that are not committed; the release holds them"
    commit="$commit, changed"
fi

build() {
    local triple cargo_home target_folder
    triple="$(uname -m)-unknown-linux-gnu"
    cargo_home=$(cd "${CARGO_HOME:-$HOME/.cargo}" && pwd -P)
    mkdir -p "${CARGO_TARGET_DIR:-target}"
    target_folder=$(cd "${CARGO_TARGET_DIR:-target}" && pwd -P)
    # The user's own flags (a CPU to build for, another linker) must not reach what others run. With a target named,
    # build scripts and macros keep the plain flags.
    unset RUSTFLAGS CFLAGS CXXFLAGS CARGO_BUILD_RUSTFLAGS
    local separator=$'\x1f'
    CARGO_ENCODED_RUSTFLAGS="--remap-path-prefix=$root=/kiln"
    CARGO_ENCODED_RUSTFLAGS+="$separator--remap-path-prefix=$cargo_home=/cargo"
    CARGO_ENCODED_RUSTFLAGS+="$separator--remap-path-prefix=$target_folder=/target"
    export CARGO_ENCODED_RUSTFLAGS CARGO_TARGET_DIR=$target_folder CARGO_INCREMENTAL=0
    # SQLite's and BLAKE3's C code.
    export CFLAGS="-ffile-prefix-map=$cargo_home=/cargo -ffile-prefix-map=$target_folder=/target"
    if [ -n "$zig" ]; then
        command -v cargo-zigbuild >/dev/null || fail "\`cargo zigbuild\` is missing" \
            "\`cargo install --locked cargo-zigbuild\` and zig, or \`pip install cargo-zigbuild\`, which brings both"
        cargo zigbuild --locked --profile dist --package kiln --target "$triple.$zig" >&2
    else
        cargo build --locked --profile dist --package kiln --target "$triple" >&2
    fi
    binary=$target_folder/$triple/dist/kiln
}
# A binary that was there may be of any commit, whatever the checkout is of.
built_from="not known" built_with="not known: a binary that was there"
if [ -z "$binary" ]; then
    build
    built_from=$commit
    if [ -n "$zig" ]; then
        linker=$(cargo-zigbuild --version)
    else
        linker=$("${CC:-cc}" --version | head -n 1)
    fi
    built_with="$(rustc --version), $linker"
fi

glibc=$("$here/check-binary.sh" "$binary" "$max_glibc")
version=$("$binary" --version | awk '{print $2}')
name="kiln-$version-$(uname -m)-linux"
out=${out:-$root/target/release-$version}
mkdir -p "$out"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
umask 022
folder=$work/$name
share=$folder/share
mkdir -p "$folder/bin" "$share/man/man1" "$share/bash-completion/completions" "$share/zsh/site-functions" \
    "$share/fish/vendor_completions.d"
# Without symbols and debug information, also where the binary was not built here. Stripping twice changes nothing.
strip --strip-all -o "$folder/bin/kiln" "$binary"
chmod 755 "$folder/bin/kiln"
kiln=$folder/bin/kiln
said=$("$kiln" man --out "$share/man/man1" 2>&1) || fail "no manual pages: $said"
"$kiln" completions bash >"$share/bash-completion/completions/kiln"
"$kiln" completions zsh >"$share/zsh/site-functions/_kiln"
"$kiln" completions fish >"$share/fish/vendor_completions.d/kiln.fish"
cp README.md CHANGELOG.md LICENSE-MIT LICENSE-APACHE "$folder/"
# Documentation and worked examples, but nothing that was made while using them.
if git ls-files --error-unmatch docs kernels >/dev/null 2>&1; then
    git ls-files -z docs kernels | xargs -0 cp --parents --target-directory="$folder"
else
    cp -R docs kernels "$folder/"
fi
"$here/third-party.sh" >"$folder/THIRD-PARTY.txt"
cat >"$folder/BUILD.txt" <<END
kiln $version, commit $built_from
needs glibc $glibc or newer
built with $built_with
documentation and examples of commit $commit
END
find "$folder" -type d -exec chmod 755 {} +
find "$folder" -type f ! -path "$kiln" -exec chmod 644 {} +
(cd "$folder" && find . -type f ! -name SHA256SUMS -printf '%P\0' | sort -z | xargs -0 sha256sum >SHA256SUMS && chmod 644 SHA256SUMS)
tar --create --directory "$work" --sort=name --format=ustar --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 \
    --numeric-owner "$name" | gzip --no-name -9 >"$work/$name.tar.gz"
mv "$work/$name.tar.gz" "$out/"
made=("$name.tar.gz")

if [ $wheel = yes ]; then
    command -v python3 >/dev/null || fail "--wheel needs python3"
    path=$(python3 "$here/wheel.py" --release "$folder" --glibc "$glibc" --out "$out") || fail "no wheel was made"
    made+=("$(basename "$path")")
fi
(cd "$out" && sha256sum "${made[@]}" >SHA256SUMS)

say "kiln $version needs glibc $glibc or newer, and of libraries:"
ldd "$kiln" | awk '{print "  " $1}' >&2
for file in "${made[@]}" SHA256SUMS; do
    printf '%s\n' "$out/$file"
done
