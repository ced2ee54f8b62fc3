#!/bin/sh
# weft run refuses programs whose replicas would drift apart, before the first step.
. tests/support/shell.sh
gpt=examples/gpt_tiny
train() { # PROGRAM OPTION...
    program=$1
    shift
    "$weft" run "$program" --ranks 4 --params $gpt/params.npz --feed $gpt/feeds.npz --steps 1 --fetch mean_0.tmp_0 "$@"
}
says 1 '^weft run: embedding_0.w_0: replicas would drift apart on 4 ranks: .*the pass data_parallel; 36 more' \
    'a serial program on several ranks: the parameter and the pass' train $gpt/serial.pdmodel
[ ! -s "$folder/out" ]; ok $? 'no step was run'
says 1 'unsafe runs it all the same' 'the way out is named' train $gpt/serial.pdmodel
prints 0 '^0,3,mean_0.tmp_0,' '--unsafe runs it all the same' train $gpt/serial.pdmodel --unsafe
prints 0 '^0,0,mean_0.tmp_0,' 'one rank is no replica' \
    "$weft" run $gpt/serial.pdmodel --params $gpt/params.npz --feed $gpt/feeds.npz --steps 1 --fetch mean_0.tmp_0

"$weft" opt $gpt/serial.pdmodel -o "$folder/dp.yaml" --passes 'data_parallel: {ranks: 4}' 2>/dev/null
prints 0 '^0,3,mean_0.tmp_0,' 'made data-parallel it runs' train "$folder/dp.yaml"
# One reduce less: the parameter and the reduce are named, not the pass that has run.
sed '0,/^ *- .*c_allreduce_sum/{/c_allreduce_sum/d}' "$folder/dp.yaml" >"$folder/lacking.yaml"
says 1 'replicas would drift apart .*mended by a reduce of "[^"]*" over' 'one reduce is missing' \
    train "$folder/lacking.yaml"

# An update by hand: no optimizer op, a gradient of the rank's own rows.
cat >"$folder/byhand.yaml" <<'END'
weft: 1
rings:
  0: [0, 1]
blocks:
- vars:
    x: {float32: [-1, 2], need_check_feed: true}
    g: {float32: [2]}
    step: {float32: [2]}
    new: {float32: [2]}
    w: {float32: [2], persistable: true, parameter: true, stop_gradient: false}
    mean: {float32: [2], persistable: true, parameter: true, stop_gradient: true}
  ops:
  - {reduce_mean: {X: [x]}, out: {Out: [g]}, attrs: {dim: [0]}}
  - {assign: {X: [g]}, out: {Out: [mean]}}
  - {c_allreduce_sum: {X: [g]}, out: {Out: [g]}, attrs: {ring_id: 0, use_calc_stream: true}}
  - {scale: {X: [g]}, out: {Out: [step]}, attrs: {scale: 0.1}}
  - {elementwise_sub: {X: [w], Y: [step]}, out: {Out: [new]}}
  - {assign: {X: [new]}, out: {Out: [w]}}
END
prints 0 'in_order: safe' 'an update by hand with its reduce' "$weft" verify "$folder/byhand.yaml" --ranks 2
sed -i '/c_allreduce_sum/d' "$folder/byhand.yaml"
prints 1 '^missing_reduce: assign #4 updates "w", which must be equal on all ranks' 'an update by hand without one' \
    "$weft" verify "$folder/byhand.yaml" --ranks 2 --reading in_order
says 1 'w: replicas would drift apart on 2 ranks: assign #4' 'nor is it run' "$weft" run "$folder/byhand.yaml" --ranks 2
finish
