#!/bin/sh
# Parts that differ. Classes that ranks do not divide: the losses of softmax with cross entropy, and what is learnt, are
# the serial ones, no logits are gathered, and that is proved. Inputs of a graph of which some ranks have nothing.
. tests/support/shell.sh
. tests/support/python.sh

serial() { # classes, the label that does not count
    cat <<END
weft: 1
version: 2006002
blocks:
- idx: 0
  vars:
    w: {float32: [6, $1], persistable: true}
    x: {float32: [4, 6], need_check_feed: true}
    label: {int64: [4, 1], need_check_feed: true}
    rate: {float32: [1], persistable: true}
    z: {float32: [4, $1]}
    p: {float32: [4, $1]}
    l: {float32: [4, 1]}
    m: {float32: [1]}
    dm: {float32: [1]}
    dl: {float32: [4, 1]}
    dz: {float32: [4, $1]}
    dw: {float32: [6, $1]}
  ops:
  - {matmul_v2: {X: x, Y: w}, out: {Out: z}, attrs: {.role: forward}}
  - {softmax_with_cross_entropy: {Logits: z, Label: label}, out: {Softmax: p, Loss: l}, attrs: {axis: -1, soft_label: false, ignore_index: $2, .role: forward}}
  - {reduce_mean: {X: l}, out: {Out: m}, attrs: {dim: [0], reduce_all: true, .role: forward}}
  - {fill_constant: {}, out: {Out: dm}, attrs: {shape: !longs [1], dtype: 5, value: 1.0, .role: backward}}
  - {reduce_mean_grad: {X: l, Out@GRAD: dm}, out: {X@GRAD: dl}, attrs: {dim: [0], reduce_all: true, .role: backward}}
  - {softmax_with_cross_entropy_grad: {Label: label, Softmax: p, Loss@GRAD: dl}, out: {Logits@GRAD: dz}, attrs: {axis: -1, soft_label: false, ignore_index: $2, .role: backward}}
  - {matmul_v2_grad: {X: x, Y: w, Out@GRAD: dz}, out: {Y@GRAD: dw}, attrs: {.role: backward}}
  - {sgd: {Param: w, LearningRate: rate, Grad: dw}, out: {ParamOut: w}, attrs: {.role: optimize}}
END
}
cat >"$folder/data.py" <<'END'
import sys
import numpy as np
what, folder, *rest = sys.argv[1:]
if what == 'make': # the last rank has labels too
    n, r = int(rest[0]), np.random.RandomState(1)
    np.savez(folder + '/params.npz', w=r.randn(6, n).astype('f'), rate=np.array([0.5], 'f'))
    np.savez(folder + '/feeds.npz', x=3 * r.randn(4, 6).astype('f'), label=np.array([[0], [n - 1], [n // 2], [n - 1]], 'i8'))
else:
    a, b = (np.load(f'{folder}/{name}.npz') for name in rest)
    for name in a.files:
        assert a[name].shape == b[name].shape and np.max(np.abs(a[name] - b[name])) <= 2e-5, name
END
train() { # saved, programs
    saved=$1
    shift
    "$weft" run "$@" --params "$folder/params.npz" --feed "$folder/feeds.npz" --fetch m,l --steps 3 --save "$folder/$saved.npz" >"$folder/csv" 2>"$folder/err"
}
classes() { # mesh, names, ids, how x lies, classes, the label that does not count, ranks
    rm -f "$folder"/rank*
    serial "$5" "$6" >"$folder/serial.yaml"
    printf '{"meshes": [{"shape": %s, "ids": %s, "dims": %s}], "vars": {"x": {"mesh": 0, "dims_mapping": %s}, "w": {"mesh": 0, "dims_mapping": [-1, "mp"]}}}\n' \
        "$1" "$3" "$2" "$4" >"$folder/annotate.json"
    "$PYTHON" "$folder/data.py" make "$folder" "$5" && train serial "$folder/serial.yaml" &&
        "$weft" opt -q "$folder/serial.yaml" --dist "$folder/annotate.json" --passes configs/spmd.yaml -o "$folder/rank{rank}.yaml" &&
        train ranks "$folder"/rank?.yaml --ranks "$7" && "$PYTHON" "$folder/data.py" compare "$folder" serial ranks
    ok $? "$5 classes on $1 are learnt as on one rank"
    ! grep -qE '(c_allgather|c_concat|alltoall|all_to_all): \{[Xx]: \[(z|p|dz|w)' "$folder"/rank?.yaml
    ok $? "$5 classes on $1: logits are where they are"
    prints 0 'against the serial program: same' "$5 classes on $1 are proved" \
        "$weft" verify "$folder"/rank?.yaml --reading by_bytes --against "$folder/serial.yaml"
}
spoil() { # sed script, what
    rm -rf "$folder/wrong"
    mkdir "$folder/wrong"
    cp "$folder"/rank?.yaml "$folder/wrong"
    sed -i "$1" "$folder/wrong/rank1.yaml"
    ! cmp -s "$folder/rank1.yaml" "$folder/wrong/rank1.yaml"
    ok $? "$2: the program is another"
    prints 1 'against the serial program: not proved' "$2 are not proved" \
        "$weft" verify "$folder"/wrong/rank?.yaml --reading by_bytes --against "$folder/serial.yaml"
}
row='[-1, -1]'
classes '[4]' '["mp"]' '[0, 1, 2, 3]' "$row" 10 3 4
classes '[5]' '["mp"]' '[0, 1, 2, 3, 4]' "$row" 9 -100 5
classes '[2, 3]' '["dp", "mp"]' '[0, 1, 2, 3, 4, 5]' '["dp", -1]' 8 -100 6
classes '[2]' '["mp"]' '[0, 1]' "$row" 7 -100 2
spoil 's/pad_value: -3[^,]*/pad_value: 0.0/' 'logits of zero that are filled in'
spoil 's/\(pad_value: -3[^,]*, paddings: \)\[0, 0, 0, 1\]/\1[0, 0, 1, 0]/' 'logits that are filled in before the others'
spoil '/c_softmax_with_cross_entropy_grad:/s/ rank: 1/ rank: 0/' 'gradients of the classes of another rank'

# Rows whose number is open divide: nothing is filled up where they are gathered.
serial 10 -100 | sed 's/\[4, /[-1, /' >"$folder/serial.yaml"
echo '{"meshes": [{"shape": [2], "ids": [0, 1], "dims": ["mp"]}], "vars": {"x": {"mesh": 0, "dims_mapping": ["mp", -1]}, "label": {"mesh": 0, "dims_mapping": ["mp", -1]}, "z": {"mesh": 0, "dims_mapping": [-1, "mp"]}}}' >"$folder/annotate.json"
rm -f "$folder"/rank*
"$PYTHON" "$folder/data.py" make "$folder" 10 && train serial "$folder/serial.yaml" &&
    "$weft" opt -q "$folder/serial.yaml" --dist "$folder/annotate.json" --passes configs/spmd.yaml -o "$folder/rank{rank}.yaml" &&
    train ranks "$folder"/rank?.yaml --ranks 2 && "$PYTHON" "$folder/data.py" compare "$folder" serial ranks
ok $? 'rows whose number is open are learnt from as on one rank'
grep -q 'c_allgather: {X: \[x' "$folder/rank0.yaml"
ok $? 'they are gathered'
! grep -qE '(pad|slice): .*axes: \[0\]|pad:' "$folder/rank0.yaml"
ok $? 'and not filled up'

# Extents that leave ranks without elements: the caller gives each the part that placements_in says, and ops gather it.
graph() { # rows
    cat <<END
{"schema": "fx.json/1", "name": "few", "groups": {"0": {"size": 4, "ranks": [0, 1, 2, 3]}}, "mesh": {"shape": [4], "ids": [0, 1, 2, 3]},
 "inputs": [{"name": "a", "shape": [$1, 6], "dtype": "float32"}, {"name": "b", "shape": [6, 5], "dtype": "float32"}], "constants": [],
 "outputs": [{"ref": "sum_1", "name": "y"}], "world_size": 4, "placements_in": {"a": "S(0)", "b": "R"}, "shapes": "global", "nodes": [
 {"name": "mm", "op": "call", "target": "aten.mm.default", "args": [{"ref": "a"}, {"ref": "b"}], "kwargs": {}, "shape": [$1, 5], "dtype": "float32"},
 {"name": "relu", "op": "call", "target": "aten.relu.default", "args": [{"ref": "mm"}], "kwargs": {}, "shape": [$1, 5], "dtype": "float32"},
 {"name": "sum_1", "op": "call", "target": "aten.sum.dim_IntList", "args": [{"ref": "relu"}, [0]], "kwargs": {}, "shape": [5], "dtype": "float32"}]}
END
}
cat >"$folder/parts.py" <<'END'
import sys
import numpy as np
what, folder, rows = sys.argv[1], sys.argv[2], int(sys.argv[3])
r = np.random.RandomState(2)
a, b, most = r.randn(rows, 6).astype('f'), r.randn(6, 5).astype('f'), -(-rows // 4)
for rank in range(4):
    if what == 'make':
        np.savez(f'{folder}/feed.{rank}.npz', a=a[rank * most:(rank + 1) * most], b=b)
    else:
        assert np.max(np.abs(np.load(f'{folder}/out.{rank}.npz')['fetch.0'] - np.maximum(a @ b, 0).sum(0))) <= 2e-5
END
for rows in 3 5 2; do
    rm -f "$folder"/rank* "$folder"/out.*
    graph $rows >"$folder/few.fx.json"
    says 0 "var a: annotated .* dimension 0 of extent $rows leaves some of 4 ranks without elements" "$rows rows on 4 ranks: told" \
        "$weft" opt "$folder/few.fx.json" --passes spmd_expand -o "$folder/rank{rank}.fx.json"
    "$PYTHON" "$folder/parts.py" make "$folder" $rows &&
        "$weft" run "$folder"/rank?.fx.json --ranks 4 --feed "$folder/feed.{rank}.npz" --steps 1 --save "$folder/out.{rank}.npz" >"$folder/csv" 2>"$folder/err" &&
        "$PYTHON" "$folder/parts.py" compare "$folder" $rows
    ok $? "$rows rows on 4 ranks give what one rank gives"
    prints 0 'against the serial program: same' "$rows rows on 4 ranks are proved" \
        "$weft" verify "$folder"/rank?.fx.json --reading by_bytes --against "$folder/few.fx.json"
done

# Zeros that are as long as a rank's part of a weight, filled up with more of them and gathered.
cat >"$folder/zeros.yaml" <<'END'
weft: 1
version: 2006002
blocks:
- idx: 0
  vars:
    x: {float32: [8, 4], need_check_feed: true}
    w: {float32: [8, 4], persistable: true, parameter: true}
    z: {float32: [8, 4]}
    c: {float32: [8, 4]}
    y: {float32: [8, 4]}
    m: {float32: []}
  ops:
  - {fill_any_like: {X: w}, out: {Out: z}, attrs: {dtype: -1, value: 0.0, .role: forward}}
  - {cumsum: {X: z}, out: {Out: c}, attrs: {axis: 0, .role: forward}}
  - {elementwise_add: {X: c, Y: x}, out: {Out: y}, attrs: {axis: -1, .role: forward}}
  - {reduce_mean: {X: y}, out: {Out: m}, attrs: {dim: [0], reduce_all: true, .role: loss}}
END
echo '{"meshes": [{"shape": [3], "ids": [0, 1, 2], "dims": ["a"]}], "vars": {"w": {"mesh": 0, "dims_mapping": [0, -1]}}}' >"$folder/annotate.json"
"$weft" opt -q "$folder/zeros.yaml" --dist "$folder/annotate.json" --passes spmd_expand -o "$folder/zeros{rank}.yaml" &&
    grep -q '{pad: ' "$folder/zeros2.yaml" && grep -q '{c_allgather: ' "$folder/zeros2.yaml"
ok $? 'zeros are filled up and gathered'
filled() { "$weft" verify "$folder/zeros0.yaml" "$folder/zeros1.yaml" "$folder/zeros2.yaml" --reading by_bytes --against "$folder/zeros.yaml"; }
prints 0 'against the serial program: same' 'zeros with zeros behind them are proved' filled
sed '/{fill_any_like: /s/value: 0.0/value: 1.0/' "$folder/zeros2.yaml" >"$folder/ones.yaml"
sed '/{pad: /s/pad_value: 0.0/pad_value: 1.0/' "$folder/zeros2.yaml" >"$folder/behind.yaml"
for with in ones behind; do
    cp "$folder/$with.yaml" "$folder/zeros2.yaml"
    prints 1 'not proved' "zeros beside $with are not" filled
done
finish
