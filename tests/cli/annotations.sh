#!/bin/sh
# What is wrong with annotations is told with file, var and op: as an error, or as a warning that --strict makes one.
. tests/support/shell.sh

cat >"$folder/serial.yaml" <<'END_OF'
weft: 1
version: 2006002
blocks:
- idx: 0
  vars:
    linear_0.w_0: {float32: [4, 6], persistable: true}
    x: {float32: [4, 4], need_check_feed: true}
    h: {float32: [4, 6]}
    out: {float32: [4, 6]}
    n: {float32: [1]}
    c: {bool: [1]}
  ops:
  - {matmul_v2: {X: x, Y: linear_0.w_0}, out: {Out: h}, attrs: {.role: forward}}
  - {relu: {X: h}, out: {Out: out}, attrs: {.role: forward}}
- idx: 1
  parent: 0
  ops:
  - {increment: {X: n}, out: {Out: n}, attrs: {step: 1.0}}
END_OF
annotate() { # VARS OPS
    printf '{"meshes": [{"shape": [2, 2], "ids": [0, 1, 2, 3], "dims": ["dp", "mp"]}], "vars": {%s}, "ops": [%s]}\n' "$1" "$2" >"$folder/annotate.json"
}
expand() { "$weft" opt --no-prove "$folder/serial.yaml" --dist "$folder/annotate.json" --passes spmd_expand -o "$folder/rank{rank}.yaml" "$@"; }
wrong() { # WHAT PATTERN VARS OPS
    annotate "$3" "$4"
    says 1 "annotate.json: error: $2" "$1 is an error" expand
}
# Passed over, and told by a warning or in the report; refused with --strict.
odd() { # WHAT PATTERN VARS OPS
    annotate "$3" "$4"
    says 0 "$2" "$1 is told" expand
    [ -f "$folder/rank3.yaml" ]
    ok $? "$1 is passed over"
    rm -f "$folder"/rank*
    says 1 "$2" "$1 is told with --strict" expand --strict
    [ ! -f "$folder/rank0.yaml" ]
    ok $? "$1 is refused with --strict"
}

annotate '"linear_0.w_0": {"mesh": 0, "dims_mapping": [-1, "mp"]}, "x": {"mesh": 0, "dims_mapping": [["dp"], -1]}' ''
expand -q --strict && "$weft" show "$folder/rank3.yaml" --placements >"$folder/named"
ok $? 'axes by name are read'
annotate '"linear_0.w_0": {"mesh": 0, "dims_mapping": [-1, 1]}, "x": {"mesh": 0, "dims_mapping": [0, -1]}' ''
expand -q --strict && "$weft" show "$folder/rank3.yaml" --placements | cmp -s - "$folder/named"
ok $? 'and mean what numbers do'
rm -f "$folder"/rank*

odd 'a parameter that is partial' 'var linear_0.w_0: the annotation is partial: what comes from outside is no sum' '"linear_0.w_0": {"mesh": 0, "dims_mapping": [-1, -1], "partial": ["mp"]}' ''
odd 'a feed that is partial' 'var x: the annotation is partial' '"x": {"mesh": 0, "dims_mapping": [-1, -1], "partial": ["dp"]}' ''

wrong 'an axis that the mesh does not have' 'var "x": dims_mapping\[0\]: expected -1 or a mesh axis below 2, found 2' '"x": {"mesh": 0, "dims_mapping": [2, -1]}' ''
wrong 'a name that no axis has' 'var "x": expected an axis of dp, mp, found "tp"' '"x": {"mesh": 0, "dims_mapping": ["tp", -1]}' ''
wrong 'a tensor sharded twice on one axis' 'var "x": dims_mapping\[1\]: mesh axis 0 shards another tensor axis too' '"x": {"mesh": 0, "dims_mapping": ["dp", "dp"]}' ''
wrong 'the same of an argument of an op' 'ops entry 0 \(relu\): var "h": dims_mapping\[1\]: mesh axis 1 shards another tensor axis too' \
    '' '{"idx": 1, "type": "relu", "mesh": 0, "inputs": {"h": ["mp", "mp"]}}'
wrong "an argument's axis that the mesh does not have" 'ops entry 0 \(relu\): var "out": dims_mapping\[0\]: .*, found 3' \
    '' '{"idx": 1, "type": "relu", "mesh": 0, "outputs": {"out": [3, -1]}}'
wrong 'a member that is misspelt' 'var "x": unknown member "dim_mapping" \(did you mean "dims_mapping"\?\); known are mesh, dims_mapping, .*, priority' \
    '"x": {"mesh": 0, "dim_mapping": ["dp", -1]}' ''
wrong 'a member that is unknown' 'var "x": unknown member "placements"; known are mesh, ' '"x": {"mesh": 0, "placements": ["dp", -1]}' ''
wrong "an op's member that is unknown" 'ops entry 0 \(relu\): unknown member "input" \(did you mean "inputs"\?\); known are block, idx, ' \
    '' '{"idx": 1, "type": "relu", "mesh": 0, "input": {"h": ["dp", -1]}}'
wrong "a member of an argument of an op" 'ops entry 0 \(relu\): unknown member "dims"' \
    '' '{"idx": 1, "type": "relu", "mesh": 0, "inputs": {"h": {"mesh": 0, "dims": ["dp", -1]}}}'
for top in '"mesh": [' '"meshes": [{"name": "m", '; do
    printf '{%s"shape": [2], "ids": [0, 1]}]}\n' "$top" | sed 's/"mesh": \[/&{/' >"$folder/annotate.json"
    says 1 'annotate.json: error: (the sidecar: unknown member "mesh" .did you mean "meshes"|mesh 0: unknown member "name"; known are shape, ids, dims)' \
        'a member at the top and of a mesh' expand
done
annotate '"x": {"mesh": 0, "dims_mapping": ["dp"]}' ''
says 1 'x.*expected a (placement|dims_mapping) of 2 (dimensions|entries)' 'another number of dimensions is an error' expand

odd 'a var that is not there' 'annotate.json: warning: vars: the program has no var "linear_0.w_1": ignored; did you mean "linear_0.w_0"\?' \
    '"linear_0.w_1": {"mesh": 0, "dims_mapping": [-1, "mp"]}' ''
odd 'an op that is not there' 'annotate.json: warning: ops entry 1: the program has no op gelu at index 1 of block 0: ignored' \
    '' '{"idx": 1, "type": "relu", "mesh": 0}, {"idx": 1, "type": "gelu", "mesh": 0}'
odd 'what an op does not read' 'relu #1: var x: the annotation is of no argument of the op' \
    '' '{"idx": 1, "type": "relu", "mesh": 0, "inputs": {"x": ["dp", -1]}}'
odd 'an annotation that names no mesh' 'var x: the annotation names no mesh' '"x": {"dims_mapping": [0, -1]}' ''
odd "a var of another block" 'var n: the annotation is of a var that another block uses' '"n": {"mesh": 0, "dims_mapping": [0]}' ''

# An extent that is smaller than the mesh is whole on all ranks.
printf '{"meshes": [{"shape": [8], "ids": [0, 1, 2, 3, 4, 5, 6, 7], "dims": ["r"]}], "vars": {"x": {"mesh": 0, "dims_mapping": ["r", -1]}, "linear_0.w_0": {"mesh": 0, "dims_mapping": [-1, 0]}}}\n' >"$folder/annotate.json"
for var in x:0:4 linear_0.w_0:1:6; do
    d=${var#*:}
    says 0 "var ${var%%:*}: annotated .*, but dimension ${d%:*} of extent ${d#*:} leaves some of 8 ranks without elements: it is whole" \
        "${var%%:*} is smaller than the mesh: told" expand -v --strict
done
# A batch that is left open: what is wanted as a part of it comes from a part that is fed; a gather fills nothing up.
sed 's/x: {float32: \[4, 4\]/x: {float32: [-1, 4]/; s/h: {float32: \[4, 6\]/h: {float32: [-1, 6]/; s/out: {float32: \[4, 6\]/out: {float32: [-1, 6]/' \
    "$folder/serial.yaml" >"$folder/open.yaml"
open_batch() { "$weft" opt --no-prove "$folder/open.yaml" --dist "$folder/annotate.json" --passes "$1" -o "$folder/rank{rank}.yaml"; }
annotate '"out": {"mesh": 0, "dims_mapping": [["dp"], -1]}' ''
says 0 '' 'a part of an open batch is wanted' open_batch spmd_expand
grep -q 'x: {float32: \[-1, 4\].*dims_mapping: \[0, -1\]' "$folder/rank0.yaml"; ok $? 'what is fed lies as it does'
annotate '"x": {"mesh": 0, "dims_mapping": [["mp", "dp"], -1]}, "out": {"mesh": 0, "dims_mapping": [-1, -1]}' ''
says 0 '' 'an open batch is gathered' open_batch spmd_expand
grep -q 'c_allgather' "$folder/rank0.yaml" && ! grep -q ' pad: \| slice: ' "$folder/rank0.yaml"; ok $? 'and not filled up'
annotate '"x": {"mesh": 0, "dims_mapping": [-1, -1]}, "out": {"mesh": 0, "dims_mapping": [["dp"], -1]}' ''
says 0 '' 'a part is taken of an open batch that is fed whole' open_batch spmd_expand
grep -q '{split: ' "$folder/rank0.yaml" && ! cmp -s "$folder/rank0.yaml" "$folder/rank2.yaml"; ok $? 'each rank has another output of its split'
sed 's/^- idx: 1/  - {reduce_mean: {X: out}, out: {Out: n}, attrs: {dim: [], reduce_all: true, .role: forward}}\n  - {fetch: {X: n}, out: {Out: fetch}, attrs: {col: 0}}\n&/; s/^    n: .*/    n: {float32: []}\n    fetch: {kind: fetch_list, persistable: true}/; /^- idx: 1/,$d' "$folder/open.yaml" >"$folder/mean.yaml"
"$weft" opt -q --no-prove "$folder/mean.yaml" --dist "$folder/annotate.json" --passes spmd_expand -o "$folder/rank{rank}.yaml"
against() { "$weft" verify "$folder/$1.yaml" "$folder/rank1.yaml" "$folder/rank2.yaml" "$folder/rank3.yaml" --against "$folder/mean.yaml"; }
prints 0 'against the serial program: same' 'a mean of such parts is proved, whatever the batch' against rank0
prints 1 'against the serial program: not_proved|against the serial program: not proved' 'but not where two ranks have one part' against rank2

# Of several open extents a reshape keeps those in front; rows are told by nothing else.
cat >"$folder/heads.yaml" <<'END_OF'
weft: 1
version: 2006002
blocks:
- idx: 0
  vars:
    linear_0.w_0: {float32: [8, 8], persistable: true}
    x: {float32: [-1, -1, 8], need_check_feed: true}
    h: {float32: [-1, -1, 8]}
    heads: {float32: [-1, -1, 2, 4]}
    shape: {float32: [0, -1, -1, 8]}
  ops:
  - {matmul_v2: {X: x, Y: linear_0.w_0}, out: {Out: h}, attrs: {.role: forward}}
  - {reshape2: {X: h}, out: {Out: heads, XShape: shape}, attrs: {shape: [0, 0, 2, 4], .role: forward}}
END_OF
annotate '"x": {"mesh": 0, "dims_mapping": ["dp", -1, -1]}, "linear_0.w_0": {"mesh": 0, "dims_mapping": [-1, "mp"]}' ''
"$weft" opt -q --no-prove "$folder/heads.yaml" --dist "$folder/annotate.json" --passes spmd_expand -o "$folder/rank{rank}.yaml" &&
    "$weft" show "$folder/rank0.yaml" --placements | grep -q '^heads: \[dp, -, mp, -\]' && ! grep -q 'c_allgather\|c_concat\|split: ' "$folder/rank0.yaml"
ok $? 'heads of an open batch of open lengths are on their ranks'

# A sum passes through a reshape; what only tells extents is not summed.
cat >"$folder/sum.yaml" <<'END_OF'
weft: 1
version: 2006002
blocks:
- idx: 0
  vars:
    linear_0.w_0: {float32: [8, 6], persistable: true}
    x: {float32: [4, 8], need_check_feed: true}
    h: {float32: [4, 6]}
    heads: {float32: [4, 2, 3]}
    shape: {float32: [0, 4, 6]}
    out: {float32: [4, 2, 3]}
  ops:
  - {matmul_v2: {X: x, Y: linear_0.w_0}, out: {Out: h}, attrs: {.role: forward}}
  - {reshape2: {X: h}, out: {Out: heads, XShape: shape}, attrs: {shape: [4, 2, 3], .role: forward}}
  - {relu: {X: heads}, out: {Out: out}, attrs: {.role: forward}}
END_OF
annotate '"linear_0.w_0": {"mesh": 0, "dims_mapping": ["mp", -1]}' ''
"$weft" opt -q --no-prove "$folder/sum.yaml" --dist "$folder/annotate.json" --passes spmd_expand -o "$folder/rank{rank}.yaml" &&
    [ "$(grep -c '{c_allreduce_sum: ' "$folder/rank0.yaml")" = 1 ] && grep -q '{c_allreduce_sum: {X: \[heads\]' "$folder/rank0.yaml"
ok $? 'a sum behind a reshape is one collective'

# Rows of a table as a gradient: ranks have other rows.
rows=$fixtures/users/paddle26/deepfm_sparse_grad_adam_lazy
if [ -f "$rows/serial.pdmodel" ]; then
    printf '{"meshes": [{"shape": [2], "ids": [0, 1], "dims": ["dp"]}], "vars": {"ids": {"mesh": 0, "dims_mapping": ["dp", -1]}}}\n' >"$folder/annotate.json"
    says 0 'ids is gathered for it: a gradient is rows of a table \(SelectedRows\)' 'rows that ranks have of their own are told' \
        "$weft" opt --no-prove "$rows/serial.pdmodel" --dist "$folder/annotate.json" --passes spmd_expand -o "$folder/rank{rank}.pdmodel"
    prints 1 'against the serial program: same' 'and they make the same step, though the batch is open' \
        "$weft" verify "$folder/rank0.pdmodel" "$folder/rank1.pdmodel" --reading by_bytes --against "$rows/serial.pdmodel"
fi

finish
