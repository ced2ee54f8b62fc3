#!/bin/sh
# Ops that are fused by tiles of rows, threads that share them, and parts that lie in the whole change nothing in the results.
. tests/support/shell.sh
model=examples/gpt_tiny
run() {
    name=$1
    shift
    "$weft" run $model/serial.pdmodel --params $model/params.npz --feed $model/feeds.npz --steps 2 \
        --save "$folder/$name.npz" "$@" >/dev/null 2>&1
}
"$weft" plan $model/serial.pdmodel -o "$folder/gpt.plan"
grep -q 'fused: 2' "$folder/gpt.plan"; ok $? 'the plan says which instructions are fused'
grep 'op: softmax_grad' -B1 "$folder/gpt.plan" | grep -q 'op: matmul_v2_grad.*fused: 2'; ok $? 'products of a batch do, with what follows'
"$weft" plan "$folder/gpt.plan" | cmp -s - "$folder/gpt.plan"; ok $? 'and is read back with them'
sed 's/fused: 2/fused: 9/' "$folder/gpt.plan" >"$folder/wrong.plan"
"$weft" plan "$folder/wrong.plan" 2>&1 | grep -q 'cannot be fused'; ok $? 'instructions that cannot are refused'
run fused && run alone --no-fuse && run shared --threads 2; ok $? 'it runs fused, op by op, and on 2 threads'
cmp -s "$folder/fused.npz" "$folder/alone.npz"; ok $? 'fused or not, the same bytes'
cmp -s "$folder/fused.npz" "$folder/shared.npz"; ok $? 'on 2 threads, the same bytes'

# Fetched parts are values of their own: the ops that take apart and stack run.
cat >"$folder/parts.yaml" <<'END'
weft: 1
blocks:
- vars:
    a: {float32: [2, 4, 16]}
    b: {float32: [2, 4, 16]}
    c: {float32: [4, 16]}
    d: {float32: [4, 16]}
    e: {float32: [4, 16]}
    f: {float32: [4, 16]}
    g: {float32: [2, 4, 16]}
    h: {float32: [2, 4, 16]}
    i: {float32: []}
  ops:
  - {gaussian_random: {}, out: {Out: [a]}, attrs: {shape: !longs [2, 4, 16], dtype: 5, seed: 3, mean: 0.0, std: 1.0}}
  - {tanh: {X: [a]}, out: {Out: [b]}}
  - {unstack: {X: [b]}, out: {"Y": [c, d]}, attrs: {axis: 0, num: 2}}
  - {scale: {X: [c]}, out: {Out: [e]}, attrs: {scale: 3.0, bias: 0.5, bias_after_scale: true}}
  - {elementwise_mul: {X: [e], "Y": [d]}, out: {Out: [f]}, attrs: {axis: -1}}
  - {stack: {X: [f, e]}, out: {"Y": [g]}, attrs: {axis: 0}}
  - {tanh: {X: [g]}, out: {Out: [h]}}
  - {reduce_mean: {X: [h]}, out: {Out: [i]}, attrs: {dim: !ints [], keep_dim: false, reduce_all: true}}
END
"$weft" plan "$folder/parts.yaml" >"$folder/parts.plan"
grep -q 'removed_ops: 1' "$folder/parts.plan"; ok $? 'a tensor taken apart has its parts in it'
"$weft" run "$folder/parts.yaml" --steps 2 --fetch i >"$folder/placed" 2>/dev/null; ok $? 'it runs with parts in place'
"$weft" run "$folder/parts.yaml" --steps 2 --fetch i,c,d >"$folder/apart" 2>/dev/null; ok $? 'and apart'
[ -s "$folder/placed" ] && cmp -s "$folder/placed" "$folder/apart"; ok $? 'in place or apart, the same numbers'
finish
