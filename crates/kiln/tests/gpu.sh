#!/usr/bin/env bash
# What only a machine with a GPU can show, a section at a time; what it prints goes to docs/results.
#
#     bash crates/kiln/tests/gpu.sh OUT SECTION...        # KILN names the binary, default target/release/kiln
#
# Sections: planted ceilings bottlenecks torch examples verify speed graphs profiles reading walls gate cheats honest.
# Each writes OUT/SECTION.txt (and .json, .jsonl, .csv where there is more to keep), and is stopped after LIMIT seconds.
# TORCH names the checks of the section torch (host,speed).
set -uo pipefail
repository=$(cd "$(dirname "$0")/../../.." && pwd)
kiln=${KILN:-$repository/target/release/kiln}
limit=${LIMIT:-600}
pairs=${PAIRS:-1000}
out=$1
shift
mkdir -p "$out"
out=$(cd "$out" && pwd)

# Studies of these runs are nobody else's.
ground=$(mktemp -d)
trap 'rm -rf "$ground"' EXIT
mkdir "$ground/.git"
cp -r "$repository/kernels" "$repository/redteam" "$repository/crates/kiln/tests/planted_fault" "$ground"
cd "$ground"

k() { timeout -s INT -k 20 "$limit" "$kiln" "$@"; }
attention="HEAD_DIM=64,CAUSAL=false,BF16=false,BLOCK_M=128,BLOCK_N=64,BLOCK_K=64,NUM_WARPS=4,STAGES=3,UNROLL=2,CP_ASYNC=true,SWIZZLE=true,\
HALF2=false,Q_IN_REGISTERS=true,SPLIT=1,ROUNDS=1,OVERLAP=false,LAZY_RESCALE=8,SUM_BY_PRODUCT=true,KV_GROUPS=1,INTERLEAVE=true,LATE_LOADS=true,\
ORDER=0,MIN_BLOCKS=2"

export_attention() { # TARGET FOLDER
    [ -e "$2" ] || k export --winners kernels/attention_sm90/winners.json --manifest kernels/attention_sm90 --arch sm_90a --unconfirmed --to "$1" --out "$2"
}

# The same five lengths for both attention kernels and what PyTorch runs.
sm90_shapes="b32_h8_s128_d64_full target b8_h16_s1024_d64_full b4_h16_s2048_d64_full b2_h16_s4096_d64_full"
sm90_config() {
    python3 - "$1" <<'P'
import json, sys
row = next(r for r in json.load(open("kernels/attention_sm90/winners.json")) if r["shape"] == sys.argv[1])
print(",".join(f"{k}={v}" for k, v in row["config"].items()))
P
}

planted() {
    cd planted_fault
    local begun=$(date +%s%N)
    k tune kiln.cuda.toml 2>&1
    k explain 2>&1
    echo "from the first command to the rule and the line: $((($(date +%s%N) - begun) / 1000000)) ms"
}
ceilings() { k profile --ceilings --fresh; }
bottlenecks() { k selftest --only bottlenecks --json >"$out/bottlenecks.json"; echo "exit code $?"; }
torch() {
    export_attention torch "$ground/packages/attention_sm90"
    timeout "$limit" python3 "$repository/crates/kiln/tests/export/check_torch.py" ${TORCH:+--only "$TORCH"} "$ground/packages/attention_sm90"
    echo "exit code $?"
}
examples() {
    export_attention cpp "$ground/packages/cpp"
    (cd packages/cpp && sh build.sh && timeout 60 ./example)
    echo "exit code of the C++ example $?"
    export_attention rust "$ground/packages/rust"
    # Without cargo here: RUST_EXAMPLE names the example of the same package, built elsewhere.
    if [ -n "${RUST_EXAMPLE:-}" ]; then
        (cd packages/rust && timeout 60 "$RUST_EXAMPLE")
    else
        (cd packages/rust && cargo run --release --example run)
    fi
    echo "exit code of the Rust example $?"
}
verify() {
    export_attention torch "$ground/packages/attention_sm90"
    k verify packages/attention_sm90 --shapes "${VERIFY_SHAPES:-target,b32_h8_s128_d64_full}" --seconds 10
    echo "exit code $?"
}
# The package in PyTorch against what kiln measured where it was tuned; where less is kept than promised, or in VERIFY_SHAPES, against
# what kiln itself measures on this machine and in the same minutes.
speed() {
    export_attention torch "$ground/packages/attention_sm90"
    check() { timeout "$limit" python3 "$repository/crates/kiln/tests/export/check_torch.py" --only speed "$@" "$ground/packages/attention_sm90"; }
    check | tee "$ground/speed.txt"
    local again=${VERIFY_SHAPES:-$(sed -n 's/^FAILED  speed \([^:]*\):.*/\1/p' "$ground/speed.txt" | paste -sd,)}
    [ -n "$again" ] || return
    k verify packages/attention_sm90 --seconds "${VERIFY_SECONDS:-6}" --json --shapes "$again" >"$out/speed.json"
    check --shapes "$again" --verified "$out/speed.json"
}
graphs() {
    export_attention torch "$ground/packages/attention_sm90"
    timeout "$limit" python3 "$repository/crates/kiln/tests/export/graphs_before.py" "$ground/packages/attention_sm90"
}
profiles() {
    k profile kernels/attention --config "$attention" --shapes b32h8s128,target,b8h16s1024,b4h16s2048,b2h16s4096 --json >"$out/profiles_attention.json"
    echo "exit code $?"
    for shape in $sm90_shapes; do
        k profile kernels/attention_sm90 --config "$(sm90_config "$shape")" --shape "$shape" --json
        echo "$shape: exit code $?" >&2
    done >"$out/profiles_sm90.json"
}
# ncu's own tables and rules for the same launches, for somebody who has not seen what kiln says.
reading() {
    export_attention torch "$ground/packages/attention_sm90"
    python3 - "$attention" >winners.json <<'P'
import json, sys
config = {}
for part in sys.argv[1].split(","):
    name, value = part.split("=")
    config[name] = value == "true" if value in ("true", "false") else int(value)
sizes = {"b32h8s128": (32, 8, 128), "target": (32, 8, 512), "b8h16s1024": (8, 16, 1024), "b4h16s2048": (4, 16, 2048), "b2h16s4096": (2, 16, 4096)}
print(json.dumps([{"shape": n, "dimensions": {"B": b, "H": h, "H_KV": h, "S": s, "S_KV": s, "D": 64}, "config": config} for n, (b, h, s) in sizes.items()]))
P
    k export --winners winners.json --manifest kernels/attention --arch sm_90a --to torch --unconfirmed --out packages/attention
    cat >launches.py <<'P'
import sys, torch, torch.nn.functional as F
sys.path.insert(0, "packages")
import attention, attention_sm90
for B, H, S in ((32, 8, 128), (32, 8, 512), (8, 16, 1024), (4, 16, 2048), (2, 16, 4096)):
    q, k, v = (torch.randn(B, H, S, 64, device="cuda", dtype=torch.float16) for _ in range(3))
    for call in (F.scaled_dot_product_attention, attention.attention, attention_sm90.attention_sm90):
        call(q, k, v)
        torch.cuda.synchronize()
        torch.cuda.profiler.start()
        call(q, k, v)
        torch.cuda.synchronize()
        torch.cuda.profiler.stop()
P
    timeout "$limit" ncu --set full --clock-control none --profile-from-start off --csv --page details --log-file "$out/reading.csv" python3 launches.py
    echo "exit code $?"
}
walls() { k selftest --only walls --json >"$out/walls.json"; echo "exit code $?"; }
gate() { k selftest --only gate --pairs "$pairs" --rows "$out/gate.jsonl" --json >"$out/gate.json"; echo "exit code $?"; }
cheats() { k redteam --backend cuda --only cheats --rows "$out/cheats.jsonl"; echo "exit code $?"; }
honest() { k redteam --backend cuda --only honest --rows "$out/honest.jsonl"; echo "exit code $?"; }

for section in "$@"; do
    begun=$(date +%s)
    ("$section") >"$out/$section.txt" 2>&1
    echo "$section: $(($(date +%s) - begun)) s"
    tail -n "${LINES_SHOWN:-3}" "$out/$section.txt"
done
