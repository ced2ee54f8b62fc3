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
finish
