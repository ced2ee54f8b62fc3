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

on_two='weft: 1
version: 2006002
meshes:
- {shape: [2], ids: [0, 1], dims: [a]}
blocks:
- vars:'
# An output differs as what it is made of does: sums that a gradient op adds up are not of its gradient, and what shows a
# weight is not of the rows beside it.
outputs() { # what the last op is
    cat <<END
$on_two
    x: {float32: [4, 3], need_check_feed: true, dist: {mesh: 0, dims_mapping: [-1, -1]}}
    own: {float32: [4, 3], need_check_feed: true, dist: {mesh: 0, dims_mapping: [0, -1]}}
    label: {int64: [4, 1], need_check_feed: true, dist: {mesh: 0, dims_mapping: [-1, -1]}}
    means: {float32: [3], persistable: true}
    scales: {float32: [3], persistable: true}
    size: {float32: [3], persistable: true, parameter: true, stop_gradient: false}
    table: {float32: [4, 3], persistable: true, parameter: true, stop_gradient: false}
    bias: {float32: [4, 1], persistable: true}
    rate: {float32: [1], persistable: true}
    size_grad: {float32: [3]}
    x_grad: {float32: [4, 3]}
    shown: {float32: [4, 3]}
    cost: {float32: [4, 1]}
    before: {float32: [4, 2]}
  ops:
  - {data_norm_grad: {X: x, Means: means, Scales: scales, Y@GRAD: own}, out: {X@GRAD: x_grad, BatchSize@GRAD: size_grad}}
  - {hierarchical_sigmoid: {X: own, W: table, Label: label, Bias: bias}, out: {Out: cost, PreOut: before, W_Out: shown},
     attrs: {num_classes: 5}}
  - {$1}
END
}
outputs 'sgd: {Param: size, Grad: size_grad, LearningRate: rate}, out: {ParamOut: size}' >"$folder/sums.yaml"
outputs 'assign: {X: shown}, out: {Out: table}' >"$folder/shown.yaml"
outputs 'sgd: {Param: table, Grad: x_grad, LearningRate: rate}, out: {ParamOut: table}' >"$folder/gradient.yaml"
outputs 'assign: {X: own}, out: {Out: table}' >"$folder/rows.yaml"
prints 0 'in_order: safe' 'sums of what all ranks have' "$weft" verify "$folder/sums.yaml" --ranks 2 --reading in_order
prints 0 'in_order: safe' 'a weight that an op shows' "$weft" verify "$folder/shown.yaml" --ranks 2 --reading in_order
prints 1 '^missing_reduce: sgd #2 updates "table"' 'the gradient beside the sums' \
    "$weft" verify "$folder/gradient.yaml" --ranks 2 --reading in_order
prints 1 '^missing_reduce: assign #2 updates "table"' 'rows of a rank' \
    "$weft" verify "$folder/rows.yaml" --ranks 2 --reading in_order

# The shape that an op leaves for its gradient has no elements: none differ, though what had that shape does.
shape() { # what the gradient is of
    cat <<END
$on_two
    x: {float32: [3, 4], need_check_feed: true, dist: {mesh: 0, dims_mapping: [-1, -1]}}
    own: {float32: [4, 3], need_check_feed: true, dist: {mesh: 0, dims_mapping: [0, -1]}}
    turned: {float32: [3, 4]}
    shape: {float32: [0, 4, 3]}
    table: {float32: [4, 3], persistable: true, parameter: true, stop_gradient: false}
    rate: {float32: [1], persistable: true}
    table_grad: {float32: [4, 3]}
  ops:
  - {transpose2: {X: own}, out: {Out: turned, XShape: shape}, attrs: {axis: [1, 0]}}
  - {transpose2_grad: {XShape: shape, Out@GRAD: $1}, out: {X@GRAD: table_grad}, attrs: {axis: [1, 0]}}
  - {sgd: {Param: table, Grad: table_grad, LearningRate: rate}, out: {ParamOut: table}}
END
}
shape x >"$folder/shape.yaml"
shape turned >"$folder/turned.yaml"
prints 0 'in_order: safe' 'a shape alone' "$weft" verify "$folder/shape.yaml" --ranks 2 --reading in_order
prints 1 '^missing_reduce: sgd #2 updates "table"' 'elements of that shape' \
    "$weft" verify "$folder/turned.yaml" --ranks 2 --reading in_order

# An einsum keeps a copy of each operand for its gradient: that of a weight differs as the weight does, not as the rows.
kept() { # which copy is written to the table
    cat <<END
$on_two
    own: {float32: [4, 3], need_check_feed: true, dist: {mesh: 0, dims_mapping: [0, -1]}}
    whole: {float32: [4, 3], persistable: true}
    table: {float32: [4, 3], persistable: true, parameter: true, stop_gradient: false}
    out: {float32: [4, 4]}
    first: {float32: [4, 3]}
    second: {float32: [4, 3]}
    first_shape: {float32: [0, 4, 3]}
    second_shape: {float32: [0, 4, 3]}
  ops:
  - {einsum: {Operands: [own, whole]}, out: {Out: out, InnerCache: [first, second], XShape: [first_shape, second_shape]},
     attrs: {equation: "ab,cb->ac"}}
  - {assign: {X: $1}, out: {Out: table}}
END
}
kept second >"$folder/second.yaml"
kept first >"$folder/first.yaml"
prints 0 'in_order: safe' 'the copy of what all ranks have' "$weft" verify "$folder/second.yaml" --ranks 2 --reading in_order
prints 1 '^missing_reduce: assign #1 updates "table"' "the copy of a rank's rows" \
    "$weft" verify "$folder/first.yaml" --ranks 2 --reading in_order
finish
