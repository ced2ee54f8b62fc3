#!/bin/sh
# cuda_clock.sh: stand-ins for the libraries of CUDA on virtual clocks say when each op of a step begins and ends. weft
# simulate, told what ops take, says the same. Ranks on one GPU wait as long as links of a bandwidth would take.
. tests/support/shell.sh
built=$(cd "$(dirname "$weft")" && pwd)
if ! [ -f "$built/weft_cuda.so" ]; then
    skipped=1
    finish
    exit
fi

# Times of both are compared rank by rank, from the first op on, in microseconds.
cat >"$folder/compare.py" <<'EOF'
import json, sys

def lanes(path):
    events = [e for e in json.load(open(path))["traceEvents"] if e.get("ph") == "X"]
    first = {e["pid"]: min(o["ts"] for o in events if o["pid"] == e["pid"]) for e in events}
    out = {}
    for e in sorted(events, key=lambda e: e["ts"]):
        out.setdefault((e["pid"], e["tid"]), []).append((e["name"], e["ts"] - first[e["pid"]], e["dur"]))
    return out

a, b = lanes(sys.argv[1]), lanes(sys.argv[2])
assert a.keys() == b.keys(), "other streams"
n = 0
for lane in a:
    assert len(a[lane]) == len(b[lane]), f"{lane}: {len(a[lane])} ops, {len(b[lane])}"
    for x, y in zip(a[lane], b[lane]):
        assert x[0] == y[0] and abs(x[1] - y[1]) < 0.05 and abs(x[2] - y[2]) < 0.05, f"{lane}: {x} is not {y}"
        n += 1
print(n, "ops at the same times")
EOF

# clock CASE FORM OPTION: the case's programs FORM, one a rank.
clock() {
    case=$fixtures/paddle26/$1
    # shellcheck disable=SC2086
    programs=$(ls "$case"/$2)
    # shellcheck disable=SC2086
    env WEFT_CUDA_PATH="$built/standin" WEFT_STANDIN_CLOCK=1 "$weft" run $programs \
        --params "$case/params.npz" --feed "$case/feeds.npz" --device cuda --steps 2 --profile="$folder/times.json" \
        --trace "$folder/run.json" --trace-steps 1 $3 >/dev/null 2>&1 || return 1
    # shellcheck disable=SC2086
    "$weft" simulate $programs --feed "$case/feeds.npz" --steps 1 --times "$folder/times.json" \
        --trace "$folder/simulated.json" >/dev/null 2>&1 || return 1
    python3 "$folder/compare.py" "$folder/run.json" "$folder/simulated.json"
}

for option in '' --no-graph; do
    prints 0 '^40 ops at the same times' "mlp $option" clock mlp_sgd_dp2 'rank?.after.default.pdmodel' "$option"
    prints 0 'ops at the same times' "gpt $option" clock gpt_tiny_adamw_dp2 'rank?.after.default.pdmodel' "$option"
done

# --- links of a bandwidth ------------------------------------------------------------------------------------------------
cat >"$folder/shaped.py" <<'EOF'
import json, sys

def reduces(path):
    return [e["dur"] for e in json.load(open(path))["traceEvents"] if e.get("name", "").startswith("c_allreduce")]

fast, slow = reduces(sys.argv[1]), reduces(sys.argv[2])
us = 5120 * 4 / 0.1e9 * 1e6  # of two members each sends as much as the bucket has, 5120 floats, at 0.1 GB/s
assert len(fast) == len(slow) == 6, (fast, slow)
assert all(abs(s - f - us) < 0.05 for f, s in zip(fast, slow)), (fast, slow)
print("as long as the link takes")
EOF
shaped() { # OPTION
    case=$fixtures/paddle26/mlp_sgd_dp2
    for rings in loopback loopback:0.1; do
        # shellcheck disable=SC2086
        env WEFT_CUDA_PATH="$built/standin" WEFT_STANDIN_CLOCK=1 "$weft" run "$case"/rank?.after.default.pdmodel \
            --params "$case/params.npz" --feed "$case/feeds.npz" --device cuda --rings $rings --steps 3 \
            --trace "$folder/$rings.json" $1 >/dev/null 2>&1 || return 1
    done
    python3 "$folder/shaped.py" "$folder/loopback.json" "$folder/loopback:0.1.json"
}
for option in '' --no-graph; do
    prints 0 'as long as the link takes' "--rings loopback:0.1 $option" shaped "$option"
done
finish
