#!/usr/bin/env bash
# Prints the licences of everything that is linked into kiln: each text once, with the packages that carry it.
#
#   packaging/third-party.sh > THIRD-PARTY.txt
#
# The list is cargo's, of the lock file; the texts are in the packages' sources, which are on the disk after a build.
set -euo pipefail
export LC_ALL=C
cd "$(dirname "$0")/.."

target="$(uname -m)-unknown-linux-gnu"
# `name version|licence` of every package whose code ends up in the binary; kiln's own are left out by their path.
packages=$(cargo tree --package kiln --edges normal,no-proc-macro --target "$target" --prefix none --locked \
    --format '{p}|{l}' | sed 's/ (\*)$//; s/^\([^ ]*\) v/\1 /' | { grep -v '^[^|]* (/' || true; } | sort -u)
folders=$(cargo metadata --format-version 1 --locked --filter-platform "$target" |
    { grep -o '"manifest_path":"[^"]*"' || true; } | sed 's/^"manifest_path":"//; s/\/Cargo.toml"$//' | sort -u)

declare -A carriers files
listing=""
while IFS='|' read -r package licence; do
    name=${package% *}
    version=${package#* }
    [ -n "$licence" ] || { printf 'error: the package %s states no licence\n' "$package" >&2; exit 1; }
    # The registry's folders are called NAME-VERSION, those of `cargo vendor` also NAME.
    folder=$(awk -F/ -v full="$name-$version" -v bare="$name" \
        '$NF == full { found = $0 } $NF == bare && !found { found = $0 } END { print found }' <<<"$folders")
    [ -n "$folder" ] || { printf 'error: the source of %s is not here; run `cargo fetch`\n' "$package" >&2; exit 1; }
    listing+="  $package: $licence"$'\n'
    found=no
    for file in "$folder"/[Ll][Ii][Cc][Ee][Nn][CcSs][Ee]* "$folder"/COPYING* "$folder"/COPYRIGHT* "$folder"/NOTICE* "$folder"/UNLICENSE*; do
        [ -f "$file" ] || continue
        found=yes
        hash=$(sha256sum <"$file" | cut -d ' ' -f 1)
        carriers[$hash]+="${carriers[$hash]:+, }$package"
        files[$hash]=$file
    done
    if [ $found = no ]; then
        authors=$(sed -n '/^authors = \[/,/\]/p' "$folder/Cargo.toml" | tr -d '\n' | sed 's/^authors = //')
        listing+="    (its package holds no text of the licence; authors: ${authors:-not stated})"$'\n'
    fi
done <<<"$packages"

cat <<END
kiln is linked with the packages below, each under its own licence. SQLite, which libsqlite3-sys brings, is in the
public domain. Rust's standard library is MIT OR Apache-2.0, copyright The Rust Project Contributors.

$listing
END
# In the order of the packages, so that the same lock file gives the same text.
for hash in "${!carriers[@]}"; do
    printf '%s|%s\n' "${carriers[$hash]}" "$hash"
done | sort | while IFS='|' read -r names hash; do
    printf '%s\n%s\n\n' '--------------------------------------------------------------------------------' "$names:" | fold -s -w 120
    tr -d '\r' <"${files[$hash]}"
    printf '\n\n'
done
