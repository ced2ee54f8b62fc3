#!/bin/sh
# shard_updates: each rank updates its part of the parameters. The losses have the bits of data parallelism, the program is proved equal
# to the serial one, and state lies by parts. What cannot be cut is left alone with the reason.
. tests/support/shell.sh

field() { sed -n 's/.*"'"$1"'": "\{0,1\}\([^",]*\)"\{0,1\},\{0,1\}.*/\1/p' "$2" | head -n 1; }
run_it() { # PROGRAM RANKS CASE
    "$weft" run "$1" --ranks "$2" --params "$3/params.npz" --feed "$3/feeds.npz" --fetch "$loss" --steps 4 --save "$1.npz" 2>"$folder/err"
}

trains() { # CASE RANKS
    case=$fixtures/$1 ranks=$2
    [ -f "$case/serial.pdmodel" ] || { skipped=$((skipped + 1)); return; }
    loss=$(field loss "$case/case.json")
    "$weft" opt -q "$case/serial.pdmodel" --passes configs/data_parallel.yaml --set data_parallel.ranks="$ranks" -o "$folder/dp.pdmodel" &&
        "$weft" opt "$case/serial.pdmodel" --passes configs/shard_updates.yaml --set data_parallel.ranks="$ranks" -o "$folder/cut.pdmodel" 2>"$folder/report"
    ok $? "$1: the pass lists run"
    grep -q 'gradients are summed by parts' "$folder/report"
    ok $? "$1: updates are sharded"
    run_it "$folder/dp.pdmodel" "$ranks" "$case" >"$folder/dp.csv" && run_it "$folder/cut.pdmodel" "$ranks" "$case" >"$folder/cut.csv"
    ok $? "$1: both run"
    [ "$(wc -l <"$folder/cut.csv")" -gt 4 ] && cmp -s "$folder/dp.csv" "$folder/cut.csv"
    ok $? "$1: losses of four steps have the bits of data parallelism"
    "$weft" run "$case/serial.pdmodel" --params "$folder/cut.pdmodel.npz" --feed "$case/feeds.npz" --fetch "$loss" --steps 1 >"$folder/a.csv" 2>"$folder/err" &&
        "$weft" run "$case/serial.pdmodel" --params "$folder/dp.pdmodel.npz" --feed "$case/feeds.npz" --fetch "$loss" --steps 1 >"$folder/b.csv" 2>"$folder/err" &&
        cmp -s "$folder/a.csv" "$folder/b.csv"
    ok $? "$1: the saved state is whole, and the same"
    prints 0 "against the serial program: $3" "$1: it is proved" "$weft" verify "$folder/cut.pdmodel" --ranks "$ranks" --against "$case/serial.pdmodel"
}
trains paddle26/mlp_sgd_dp2 2 'same over'
trains paddle26/twoloss_dp2 2 'same over'
trains paddle26/gpt_tiny_adamw_dp2 2 'same over'
trains paddle26/gpt_dropout_dp2 2 'same under'
trains paddle26/lenet_momentum_dp2 4 'same over'
trains paddle3/mlp_adam_dp2 4 'same over'

# Clipped by the global norm: proved over the real numbers; losses are those of data parallelism but for the order of sums.
case=$fixtures/paddle26/bert_tiny_adamw_dp4
if [ -f "$case/serial.pdmodel" ]; then
    loss=$(field loss "$case/case.json")
    "$weft" opt -q "$case/serial.pdmodel" --passes configs/data_parallel.yaml --set data_parallel.ranks=4 -o "$folder/dp.pdmodel" &&
        "$weft" opt "$case/serial.pdmodel" --passes configs/shard_updates.yaml --set data_parallel.ranks=4 --set shard_updates.clip=split \
            -o "$folder/cut.pdmodel" 2>"$folder/report"
    grep -q '45 of 47 gradients are summed by parts' "$folder/report"
    ok $? 'clipped updates are cut'
    prints 0 'against the serial program: same over the real numbers' 'clipped updates are proved' \
        "$weft" verify "$folder/cut.pdmodel" --ranks 4 --against "$case/serial.pdmodel"
    run_it "$folder/dp.pdmodel" 4 "$case" >"$folder/dp.csv" && run_it "$folder/cut.pdmodel" 4 "$case" >"$folder/cut.csv"
    ok $? 'clipped updates run'
    paste -d, "$folder/dp.csv" "$folder/cut.csv" | awk -F, 'NR > 1 { d = $4 - $8; if (d < 0) d = -d; if (d > 1e-5 * $4) exit 1; n++ } END { if (n < 4) exit 1 }'
    ok $? 'losses of clipped updates are those of data parallelism'
fi

# No certificate is claimed that the checker could not follow.
case=$fixtures/paddle26/mlp_sgd_dp2
"$weft" opt -q "$case/serial.pdmodel" --passes configs/shard_updates.yaml --set data_parallel.ranks=2 -o "$folder/cut.pdmodel" --certificate "$folder/c.json"
prints 1 'certificate: no certificate: pass shard_updates gives no certificate' 'a certificate says that the pass gives none' \
    "$weft" verify --certificate "$folder/c.json" "$case/serial.pdmodel" "$folder/cut.pdmodel"

# --- what is left alone ---
step() { # ROWS UPDATE
    cat <<END
weft: 1
blocks:
- idx: 0
  vars:
    x: {float32: [4, $1], need_check_feed: true}
    w: {float32: [$1, 2], persistable: true, parameter: true}
    m: {float32: [$1, 2], persistable: true}
    v: {float32: [$1, 2], persistable: true}
    p1: {float32: [1], persistable: true}
    p2: {float32: [1], persistable: true}
    rate: {float32: [1], persistable: true}
    h: {float32: [4, 2]}
    loss: {float32: [1]}
    norm: {float32: [1]}
    loss@GRAD: {float32: [1]}
    h@GRAD: {float32: [4, 2]}
    w@GRAD: {float32: [$1, 2]}
  ops:
  - {matmul_v2: {X: [x], Y: [w]}, out: {Out: [h]}, attrs: {trans_x: false, trans_y: false, op_role: 0}}
  - {reduce_mean: {X: [h]}, out: {Out: [loss]}, attrs: {dim: !ints [0], keep_dim: false, reduce_all: true, op_role: 256}}
  - {fill_constant: {}, out: {Out: [loss@GRAD]}, attrs: {shape: !longs [1], value: 1.0, dtype: 5, op_role: 257}}
  - {reduce_mean_grad: {X: [h], Out@GRAD: [loss@GRAD]}, out: {X@GRAD: [h@GRAD]}, attrs: {dim: !ints [0], keep_dim: false, reduce_all: true, op_role: 1}}
  - {matmul_v2_grad: {X: [x], Y: [w], Out@GRAD: [h@GRAD]}, out: {Y@GRAD: [w@GRAD]}, attrs: {trans_x: false, trans_y: false, op_role: 1, op_role_var: [w, w@GRAD]}}
$2
END
}
sgd='  - {sgd: {Param: [w], Grad: [w@GRAD], LearningRate: [rate]}, out: {ParamOut: [w]}, attrs: {op_role: 2, op_role_var: [w, w@GRAD]}}'
lamb='  - {lamb: {Param: [w], Grad: [w@GRAD], LearningRate: [rate], Moment1: [m], Moment2: [v], Beta1Pow: [p1], Beta2Pow: [p2]}, out: {ParamOut: [w], Moment1Out: [m], Moment2Out: [v], Beta1PowOut: [p1], Beta2PowOut: [p2]}, attrs: {op_role: 2, op_role_var: [w, w@GRAD]}}'
norm='  - {squared_l2_norm: {X: [w@GRAD]}, out: {Out: [norm]}, attrs: {op_role: 2}}'
reads='  - {sqrt: {X: [norm]}, out: {Out: [loss]}, attrs: {op_role: 2}}'
other='  - {scale: {X: [w@GRAD]}, out: {Out: [h]}, attrs: {scale: 2.0, op_role: 2}}'
later='  - {scale: {X: [w]}, out: {Out: [h]}, attrs: {scale: 2.0, op_role: 2}}'
left() { # ROWS UPDATE REASON [OPTIONS]
    step "$1" "$2" >"$folder/step.yaml"
    says 0 "$3" "left alone: $3" "$weft" opt -v "$folder/step.yaml" --passes "data_parallel: {ranks: 2}, shard_updates: {$4}" -o "$folder/o.yaml"
}
left 4 "$sgd" '1 of 1 gradients are summed by parts'
left 3 "$sgd" 'the ranks do not divide its rows'
left 4 "$lamb" 'norms of the whole parameter'
left 4 "$other
$sgd" 'more than one optimizer op uses it'
left 4 "$norm
$sgd" 'it is clipped; clip: split'
left 4 "$norm
$sgd" 'its norm is read before others are made, or never' 'clip: split'
left 4 "$norm
$reads
$sgd" '1 of 1 gradients are summed by parts' 'clip: split'
grep -q 'all_reduce_coalesced: {x: .norm., out: .norm.' "$folder/o.yaml" || grep -q 'all_reduce_coalesced: {x: .norm.}' "$folder/o.yaml"
ok $? 'norms of parts are added up'
left 4 "$sgd
$later" 'the parameter is used behind its update'
left 4 "$sgd" 'it is smaller than min_kb' 'min_kb: 1'
says 1 'expected two streams, found "a" twice' 'two streams of one name are refused' \
    "$weft" opt "$folder/step.yaml" --passes 'data_parallel: {ranks: 2}, shard_updates: {reduce_stream: a, gather_stream: a}' -o "$folder/o.yaml"
left 4 "$sgd" '1 of 1 gradients' "reduce_stream: '', gather_stream: ''"
grep -qE 'c_reducescatter.*dist: .*(stream|record)' "$folder/o.yaml"
[ $? = 1 ]
ok $? 'without streams all stays on the compute stream'
finish
