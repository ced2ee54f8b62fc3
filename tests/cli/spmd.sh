#!/bin/sh
# A serial program and a few placements become the programs of all ranks: they train to the serial losses, and are
# proved equal to the whole. With the long tests all recorded cases, else some of each kind.
. tests/support/shell.sh
. tests/support/python.sh
cases=$fixtures/spmd/paddle26
[ -d "$cases" ] || { skipped=1; finish; exit 0; }
some='mlp_tp_mp2 mlp_deep_dp2_mp2_sp2 mlp_fsdp_dp2 gpt_tp_dp2_mp2 gpt_vocab_dp2_mp2_2layers gpt_sp_reshard_mp2
    emb_rows_mp2 lenet_inputs_dp2 op_batch_norm_p0_dp4 opt_adamw_clip_mp2 opt_lamb_mp2 op_identity_move_row_col_mp2 op_cross_entropy_p1_mp2
    mlp_batch5_dp2 mlp_hidden33_mp2 op_reduce_max1_p0_mp2'
[ -z "$WEFT_LONG_TESTS" ] || some=$(cd "$cases" && for c in */annotate.json; do echo "${c%/*}"; done)

# steps and losses that are not the serial ones, by more than 1e-4
compare='NR == FNR { if (FNR > 1) serial[$1] = $4; next }
    FNR > 1 { d = $4 - serial[$1]; m = serial[$1] < 0 ? -serial[$1] : serial[$1]; if (m < 0.01) m = 0.01
              n++; if (d > 1e-4 * m || -d > 1e-4 * m) { print; bad++ } }
    END { exit !n || bad }'
field() { sed -n 's/.*"'"$1"'": "\{0,1\}\([^",]*\)"\{0,1\},\{0,1\}.*/\1/p' "$2" | head -n 1; }

train() { # case, pass list
    case=$cases/$1 ranks=$(field world "$cases/$1/case.json") loss=$(field loss "$cases/$1/case.json")
    rm -f "$folder"/rank*
    cp "$case/serial.pdmodel" "$folder/serial.pdmodel"
    "$weft" opt -q "$folder/serial.pdmodel" --dist "$case/annotate.json" --passes "$2" -o "$folder/rank{rank}.pdmodel" || return 1
    "$weft" show "$folder/rank0.pdmodel" >"$folder/text"
    of_all=$(i=0; while [ $i -lt "$ranks" ]; do echo "$folder/rank$i.pdmodel"; i=$((i + 1)); done)
    "$weft" run "$folder/serial.pdmodel" --params "$case/params.npz" --feed "$case/feeds.npz" --fetch "$loss" >"$folder/serial.csv" 2>/dev/null &&
        "$weft" run $of_all --ranks "$ranks" --params "$case/params.npz" --feed "$case/feeds.npz" --fetch "$loss" >"$folder/ranks.csv" 2>"$folder/err" &&
        awk -F, "$compare" "$folder/serial.csv" "$folder/ranks.csv" && "$weft" verify $of_all --reading by_bytes >"$folder/verify" 2>&1
}

for name in $some; do
    for passes in spmd_expand configs/spmd.yaml; do
        train "$name" $passes
        ok $? "$name trains to the serial losses after $passes"
    done
done

for name in gpt_sp_reshard_mp2 gpt_sp_reshard_dp2_mp2 mlp_sp_axis0_reshard_mp4; do
    train "$name" 'spmd_expand, micro_pipeline_tp: {guard: off}' && grep -q p_send "$folder/text" 2>/dev/null
    ok $? "$name trains to the serial losses with rows sent in chunks"
done
for name in gpt_tp_dp2_mp2 mlp_tp_mp4; do
    train "$name" 'spmd_expand, micro_pipeline_tp: {guard: off}' && "$weft" opt -q "$folder/rank0.pdmodel" | grep -q 'micro_pipeline: matmul_all_reduce 0'
    ok $? "$name trains to the serial losses with sums reduced in pieces"
done
for name in gpt_sp_mp2 gpt_sp_explicit_mp2 gpt_sp_reshard_mp2 mlp_sp_mp2; do
    "$weft" opt -q "$cases/$name/serial.pdmodel" --dist "$cases/$name/annotate.json" --passes spmd_expand -o "$folder/whole{rank}.pdmodel"
    rm -f "$folder"/rank*
    "$weft" opt -q "$cases/$name/serial.pdmodel" --dist "$cases/$name/annotate.json" --passes 'spmd_expand, micro_pipeline_tp: {guard: off}' -o "$folder/rank{rank}.pdmodel"
    prints 0 'what ranks ran before: same over the real numbers' "$name in chunks is proved to be what it was" \
        "$weft" verify "$folder"/rank*.pdmodel --reading in_order --against "$folder/whole{rank}.pdmodel"
done
train gpt_sp_reshard_dp2_mp2 'spmd_expand, micro_pipeline_tp: {guard: off}'
"$weft" opt -q "$folder/rank0.pdmodel" | sed '/micro_pipeline_ring/s/, Output: \[\([^],]*\), \([^],]*\)\]/, Output: [\2, \1]/' >"$folder/wrong.yaml"
prints 1 missing_reduce 'gathered rows that do not lie where their rank stands are no replicas' \
    "$weft" verify "$folder/wrong.yaml" "$folder/rank1.pdmodel" "$folder/rank2.pdmodel" "$folder/rank3.pdmodel" --reading by_bytes

train mlp_batch5_dp2 spmd_expand
"$weft" show "$folder/rank1.pdmodel" --vars | grep -q ' relu_0.tmp_0: float32\[2, ' &&
    "$weft" show "$folder/rank0.pdmodel" --vars | grep -q ' relu_0.tmp_0: float32\[3, '
ok $? 'five rows on two ranks are three and two'
for name in mlp_tp_mp2 mlp_deep_dp2_mp2_sp2 gpt_vocab_dp2_mp2_2layers op_identity_move_row_col_mp2 op_batch_norm_p0_dp4 mlp_batch5_dp2 emb_rowscols_dp2_mp2; do
    train "$name" configs/spmd.yaml && "$weft" verify $of_all --reading by_bytes --against "$folder/serial.pdmodel" >"$folder/verify" 2>&1
    ok $? "$name is proved to be the serial program"
done

count() { "$weft" opt "$1" 2>/dev/null | grep -cE '^  - \{"?(c_allreduce_sum|c_allgather|c_concat|c_reducescatter|alltoall)"?:'; }
train gpt_tp_mp2 spmd_expand
[ "$(count "$folder/rank0.pdmodel")" = 4 ]; ok $? 'a block of GPT: four collectives'
for role in forward backward; do
    [ "$("$weft" show "$folder/rank0.pdmodel" | grep -c "^ *[0-9]* *$role *c_allreduce_sum")" = 2 ]; ok $? "a block of GPT: two all-reduces $role"
done

# Sequence parallel at a width where values are less than weights: the recorded block, 64 times as wide.
wide() { # case
    "$weft" opt -q "$cases/$1/serial.pdmodel" --passes 'passes: []' | sed '/^rings:/,/^meshes:/{/^ /d;/^rings/d}
        s/\b16\b/1024/g; s/\b64\b/4096/g; s/\[\([0-9, ]*\), 4, 4\]/[\1, 4, 256]/; s/\[4, 4, 8, 4\]/[4, 4, 8, 256]/
        s/, dist: {.*}}$/}/; s/, dist: {[^}]*}//' >"$folder/wide.yaml"
    "$weft" opt -q --no-prove "$folder/wide.yaml" --dist "$cases/$1/annotate.json" --passes spmd_expand -o "$folder/wide{rank}.yaml" &&
        "$weft" show "$folder/wide0.yaml" >"$folder/text"
}
made() { grep -cE "^ *[0-9]* *$1 *$2\(X=(linear|layer_norm)_[0-9]*\.tmp_" "$folder/text"; }
for name in gpt_sp_mp2 gpt_sp_explicit_mp2; do
    wide "$name"
    ok $? "$name is partitioned at a width of 1,024"
    for role in forward backward; do
        [ "$(made $role c_reducescatter)" = 2 ] && [ "$(made $role c_allgather)" = 2 ] && [ "$(made $role '(alltoall|c_concat|c_allreduce_sum)')" = 0 ]
        ok $? "$name: two reduce-scatters and two all-gathers $role"
    done
    ! grep -q 'optimize *c_' "$folder/text"; ok $? "$name: biases lie as their layers use them, so that no update is gathered"
done

# A weight that all ranks have, used by values of which each has a part: its gradient is summed, once (physicsnemo #1944,
# torchtitan #1373).
for name in gpt_sp_mp2 gpt_sp_explicit_mp2 gpt_sp_reshard_dp2_mp2; do
    train "$name" spmd_expand
    "$weft" show "$folder/rank0.pdmodel" | sed -n 's/.*backward *c_\(allreduce_sum\|reducescatter\)(X=\([a-z_0-9]*\.[wb]_0@GRAD\).*/\2/p' | sort >"$folder/summed"
    [ "$(grep -c '^layer_norm_[014]\.[wb]_0@GRAD$' "$folder/summed")" = 6 ] && [ -z "$(uniq -d "$folder/summed")" ]
    ok $? "$name: gradients of norms over parts of a sequence are summed, each once"
done
train op_batch_norm_p0_dp4 spmd_expand
grep -q 'c_batch_norm_grad(' "$folder/text" && ! grep -q 'c_batch_norm.*@RESHARD\|batch_norm_0.[wb]_0@GRAD) -> ' "$folder/text"
ok $? 'a batch is normalised where its rows are: nothing is gathered, and gradients of scale and bias are summed inside'

# Each rank by its own rows: the ops stay, gradients are summed as any others are.
train op_batch_norm_p0_dp4 'spmd_expand: {batch_statistics: own}' >/dev/null
grep -q ' batch_norm_grad(' "$folder/text" && ! grep -q 'c_batch_norm\|c_allgather\|c_concat' "$folder/text" &&
    [ "$(grep -c 'c_allreduce_sum(X=batch_norm_0.[wb]_0@GRAD)' "$folder/text")" = 2 ]
ok $? 'batch_statistics: own leaves each rank its rows, and sums gradients of scale and bias'
case=$cases/op_batch_norm_p0_dp4
"$weft" verify "$folder"/rank[0-3].pdmodel --reading by_bytes >"$folder/verify" 2>&1 &&
    "$weft" run "$folder"/rank[0-3].pdmodel --ranks 4 --params "$case/params.npz" --feed "$case/feeds.npz" --fetch "$(field loss "$case/case.json")" >"$folder/ranks.csv" 2>"$folder/err" &&
    ! awk -F, "$compare" "$folder/serial.csv" "$folder/ranks.csv" >/dev/null
ok $? 'such ranks are safe and train, to other losses than the serial ones'
says 0 "normalised by a rank's own rows" 'the report tells how many are normalised so' \
    "$weft" opt --no-prove "$folder/serial.pdmodel" --dist "$case/annotate.json" --passes 'spmd_expand: {batch_statistics: own}' -o "$folder/rank{rank}.pdmodel"

# ATen's too: rows stay where they are, and the ranks are proved.
cat >"$folder/aten.yaml" <<'END'
weft: 1
version: 2006002
meshes:
- {shape: [2], ids: [0, 1], dims: [dp]}
blocks:
- idx: 0
  vars:
    x: {float32: [6, 4, 3], persistable: true, dist: {mesh: 0, dims_mapping: [0, -1, -1]}}
    s: {float32: [4], persistable: true}
    b: {float32: [4], persistable: true}
    m: {float32: [4], persistable: true}
    v: {float32: [4], persistable: true}
    rate: {float32: [1], persistable: true}
    "y": {float32: [6, 4, 3]}
    dy: {float32: [6, 4, 3]}
    dx: {float32: [6, 4, 3]}
    sm: {float32: [4]}
    sv: {float32: [4]}
    ds: {float32: [4]}
    db: {float32: [4]}
  ops:
  - {aten_batch_norm: {input: x, weight: s, bias: b, running_mean: m, running_var: v}, out: {out: "y", running_mean_out: m, running_var_out: v, save_mean: sm, save_invstd: sv}, attrs: {training: true, epsilon: !double 0.125, .role: forward}}
  - {tanh: {X: "y"}, out: {Out: dy}, attrs: {.role: backward}}
  - {aten_batch_norm_backward: {grad_out: dy, input: x, weight: s, running_mean: m, running_var: v, save_mean: sm, save_invstd: sv}, out: {grad_input: dx, grad_weight: ds, grad_bias: db}, attrs: {training: true, epsilon: !double 0.125, .role: backward}}
  - {sgd: {Param: x, LearningRate: rate, Grad: dx}, out: {ParamOut: x}, attrs: {.role: optimize}}
  - {sgd: {Param: s, LearningRate: rate, Grad: ds}, out: {ParamOut: s}, attrs: {.role: optimize}}
  - {sgd: {Param: b, LearningRate: rate, Grad: db}, out: {ParamOut: b}, attrs: {.role: optimize}}
END
"$weft" opt -q --no-prove "$folder/aten.yaml" --passes spmd_expand -o "$folder/aten{rank}.yaml" &&
    "$weft" show "$folder/aten0.yaml" >"$folder/text" && grep -q ' c_aten_batch_norm_backward(' "$folder/text" && grep -q ' c_aten_batch_norm(' "$folder/text" &&
    ! grep -q 'RESHARD' "$folder/text"
ok $? 'a batch is normalised where its rows are by the op of a traced graph too'
"$weft" verify "$folder/aten0.yaml" "$folder/aten1.yaml" --reading by_bytes --against "$folder/aten.yaml" >"$folder/verify" 2>&1
ok $? 'and is proved to be the serial program'
train mlp_tp_mp2 spmd_expand
[ "$(count "$folder/rank0.pdmodel")" = 1 ]; ok $? 'column, then row: one all-reduce'

cp "$cases/mlp_tp_mp2/serial.pdmodel" "$folder/s.pdmodel"
"$weft" opt -q "$folder/s.pdmodel" --dist "$cases/mlp_tp_mp2/annotate.json" --passes spmd_propagate -o "$folder/placed.pdmodel"
prints 0 '^linear_0.b_0: \[mp\]' 'show --placements' "$weft" show "$folder/placed.pdmodel" --placements
prints 0 'from linear_1.tmp_0 through elementwise_add #1' 'show --why names the op' "$weft" show "$folder/placed.pdmodel" --why linear_0.b_0
prints 0 'linear_0.w_0 is annotated' 'show --why ends at the annotation' "$weft" show "$folder/placed.pdmodel" --why linear_0.b_0
says 1 'there is no var "none"' 'show --why of what is not there' "$weft" show "$folder/placed.pdmodel" --why none
says 0 'did: 1 all-reduce on ring 1, a rank receives 256 bytes: matmul_v2, for elementwise_add' 'the report tells kind, ring, bytes and what for' \
    "$weft" opt "$folder/s.pdmodel" --dist "$cases/mlp_tp_mp2/annotate.json" --passes spmd_expand -o "$folder/rank{rank}.pdmodel"

cp "$cases/emb_rows_mp2/serial.pdmodel" "$folder/s.pdmodel"
"$weft" opt "$folder/s.pdmodel" --dist "$cases/emb_rows_mp2/annotate.json" --passes spmd_expand -o "$folder/one.pdmodel" 2>"$folder/err"
[ $? = 1 ] && grep -q 'the programs of ranks differ.*{rank}' "$folder/err" && [ ! -f "$folder/one.pdmodel" ]
ok $? 'programs that differ are refused without {rank}'
cp "$cases/mlp_tp_mp2/serial.pdmodel" "$folder/s.pdmodel"
"$weft" opt -q "$folder/s.pdmodel" --dist "$cases/mlp_tp_mp2/annotate.json" --passes spmd_expand -o "$folder/one.pdmodel"
ok $? 'one program for all ranks where theirs are equal'
"$weft" opt "$folder/s.pdmodel" --passes spmd_expand -o "$folder/one.pdmodel" 2>&1 | grep -q 'the program has no mesh'
ok $? 'a program without a mesh is refused'

# What no rule covers is gathered, and told; or refused.
sed 's/{relu: /{nobody_knows: /' >"$folder/unknown.yaml" <<'END'
weft: 1
version: 2006002
rank: -1
meshes:
- {shape: [2], ids: [0, 1], dims: [mp]}
blocks:
- idx: 0
  parent: -1
  vars:
    a: {float32: [4, 6], persistable: true, dist: {mesh: 0, dims_mapping: [0, -1]}}
    b: {float32: [4, 6]}
  ops:
  - {relu: {X: [a]}, out: {Out: [b]}, attrs: {.role: forward}}
END
says 0 'nobody_knows.*var a is gathered for it: its type is not known' 'what is gathered for an unknown op is told' \
    "$weft" opt -v --no-prove "$folder/unknown.yaml" --passes spmd_expand -o "$folder/unknown{rank}.yaml"
says 1 'nobody_knows.* needs the whole of var a, which is sharded: its type is not known' '--strict refuses to gather for it' \
    "$weft" opt --strict --no-prove "$folder/unknown.yaml" --passes spmd_expand -o "$folder/unknown{rank}.yaml"
says 0 'c_allreduce_sum, ring 1, ' '--stats tells collectives by ring' \
    "$weft" opt --stats "$folder/s.pdmodel" --dist "$cases/mlp_tp_mp2/annotate.json" --passes spmd_expand -o "$folder/rank{rank}.pdmodel"

# Traced graphs: inputs by placements_in, outputs by placements_out.
cat >"$folder/graph.py" <<'END'
import json, sys
import numpy as np
what, graph, folder = sys.argv[1:]
g, z = json.load(open(graph + '/before.fx.json')), np.load(graph + '/numeric.npz')
def part(x, p, r):
    if p[0] != 'S': return x
    d = int(p.strip('S()')); k = -(-x.shape[d] // g['world_size'])
    return np.take(x, range(min(r * k, x.shape[d]), min((r + 1) * k, x.shape[d])), axis=d)
for r in range(g['world_size']):
    if what == 'make':
        np.savez(f'{folder}/feed.{r}.npz', **{n: part(z['in.' + n], p, r) for n, p in g['placements_in'].items()})
        continue
    o, at = np.load(f'{folder}/out.{r}.npz'), json.load(open(f'{folder}/rank{r}.fx.json'))['placements_out']
    for i, x in enumerate(g['outputs']):
        if 'out.' + x['name'] not in z.files: continue
        want, got = part(z['out.' + x['name']], at[i], r), o[f'fetch.{i}']
        assert got.shape == want.shape and np.max(np.abs(got - want)) <= 2e-5 * max(np.max(np.abs(want)), 1e-6), x['name']
END
for graph in mlp_tp.w2 mlp_dp_sgd.w4 gpt_dp.w2 block_tp.w4 block_vocab.w4 fn_mm_S0_S0.w4 fn_uneven.w4; do
    at=$fixtures/torch/spmd/graphs/$graph ranks=${graph##*.w}
    rm -f "$folder"/rank* "$folder"/feed.* "$folder"/out.*
    "$weft" opt -q "$at/before.fx.json" --passes spmd_expand -o "$folder/rank{rank}.fx.json" && "$PYTHON" "$folder/graph.py" make "$at" "$folder" &&
        "$weft" run "$folder"/rank*.fx.json --ranks "$ranks" --feed "$folder/feed.{rank}.npz" --steps 1 --save "$folder/out.{rank}.npz" >"$folder/csv" 2>"$folder/err" &&
        "$PYTHON" "$folder/graph.py" compare "$at" "$folder"
    ok $? "$graph gives what the whole graph gives"
done
finish
