#!/bin/sh
# Programs that Paddle 2.6.2 or 3.3.1 trained: loops whose number of runs follows from constants, from what is fed or from data, branches
# with gradients, gradients of gradients, recurrent layers, values that are set, ops that come to others. Their losses are Paddle's.
. tests/support/shell.sh
for case in tests/data/loops/*/; do
    loss=$(head -n 1 "$case/losses.txt")
    "$weft" run "$case/serial.yaml" --params "$case/params.npz" --feed "$case/feeds.npz" --steps 5 --fetch "$loss" \
        >"$folder/losses" 2>"$folder/err"
    awk -F, -v file="$case/losses.txt" 'BEGIN { getline < file }
        NR > 1 { getline want < file; n++; off = $4 - want; if (off < 0) off = -off; if (want < 0) want = -want }
        NR > 1 && off > 1e-4 * want + 1e-6 { bad++ }
        END { exit n != 5 || bad }' "$folder/losses"
    ok $? "$case: losses as Paddle's; $(head -n 1 "$folder/err")"
done
# Recurrent layers are proved on ranks, though programs give what only their gradients read no type; second gradients, whose
# products have gradients for operands; and branches that all ranks take alike, whose gradients are sums over ranks.
for case in lstm wgan_gp switch_case; do
    "$weft" opt -q "tests/data/loops/$case/serial.yaml" --passes 'data_parallel: {ranks: 2}' -o "$folder/dp.yaml" 2>"$folder/err"
    for batch in '' '--batch 8'; do
        # shellcheck disable=SC2086
        prints 0 '^against the serial program: same over the real numbers' "$case on ranks is proved $batch" \
            "$weft" verify "$folder/dp.yaml" --against "tests/data/loops/$case/serial.yaml" $batch
    done
done

# --- loops that data end ---
# until: an implicit layer until a tolerance, then greedy decoding until each row gave the end symbol. Each run is planned
# and guarded; a counter says how many there are at most, else 64 are planned.
planned() { # PROGRAM OP: how many are planned
    "$weft" plan "$1" --batch 8 2>/dev/null | grep -c "op: $2,"
}
until=tests/data/loops/until
run_until() { "$weft" run "$1" --params $until/params.npz --feed $until/feeds.npz --steps 5 --fetch tmp_14; }
[ "$(planned $until/serial.yaml reduce_max)" = 64 ] && [ "$(planned $until/serial.yaml arg_max)" = 9 ]
ok $? "64 runs of the first loop are planned, and of the second the 9 that its counter allows"
[ "$(planned $until/serial.yaml assert)" = 1 ]
ok $? "what no counter ends is checked to have ended"
sed 's/value: 0.001}/value: -1.0}/' $until/serial.yaml >"$folder/endless.yaml"
says 1 'while #6: data end this loop, and it needs more than the 64 runs that are planned' \
    "a step that needs more runs than are planned fails" run_until "$folder/endless.yaml"
sed 's/value: 9.0}/value: 100.0}/; s/str_value: "9"/str_value: "100"/' $until/serial.yaml >"$folder/long.yaml"
[ "$(planned "$folder/long.yaml" arg_max)" = 100 ] && run_until "$folder/long.yaml" >"$folder/out" 2>"$folder/err"
ok $? "a counter may allow more: $(head -n 1 "$folder/err")"
[ "$(planned tests/data/loops/while_data/serial.yaml tanh)" = 64 ]
ok $? "without the value that is fed, a loop that it ends is planned as one that data end"
# arrays: a loop that data end reads one and writes another, around a loop that data end, and the last element is read. What
# is written has as many elements as runs were made.
arrays=tests/data/loops/arrays
run_arrays() { "$weft" run "$1" --params $arrays/params.npz --feed $arrays/feeds.npz --steps 5 --fetch "$2"; }
sed 's/^  - {read_from_array: {I: \[\(.*\)\], X: \[array_1.out\]}.*/&\n  - {lod_array_length: {X: [array_1.out]}, out: {Out: [n]}, attrs: {.role: forward}}/
    s/^    "y": .*/&\n    n: {int64: [1]}/' $arrays/serial.yaml >"$folder/length.yaml"
index=$(sed -n '/^- idx: 1/q; s/^  - {read_from_array: {I: \[\(.*\)\], X: \[array_1.out\]}.*/\1/p' "$folder/length.yaml")
run_arrays "$folder/length.yaml" "n,$index" >"$folder/out" 2>"$folder/err" &&
    awk -F, '$3 == "n" { n[$1] = $4 } $3 != "n" { i[$1] = $4 } END { for (s in n) bad += n[s] != i[s] + 1; exit !(length(n) == 5) || bad }' "$folder/out"
ok $? "the length is that of what was written: $(head -n 1 "$folder/err")"
sed 's/^  - {read_from_array: {I: \[\(.*\)\], X: \[array_1.out\]}\(.*\)/  - {tensor_array_to_tensor: {X: [array_1.out]}, out: {Out: [n], OutIndex: [o]}, attrs: {axis: 0}}\n&/
    s/^    "y": .*/&\n    n: {float32: [-1, 3]}\n    o: {int32: [-1]}/' $arrays/serial.yaml >"$folder/joined.yaml"
says 1 'tensor_array_to_tensor #.*: how many elements the array has depends on data' "they are not joined" run_arrays "$folder/joined.yaml" n

# A loop that parameters end runs alike on all ranks, and is proved with its gradient; one that a rank's rows end is not, nor is
# another body.
cat >"$folder/root.yaml" <<'END'
weft: 1
blocks:
- idx: 0
  parent: -1
  vars:
    x: {float32: [-1, 4], need_check_feed: true}
    w: {float32: [4], persistable: true, parameter: true}
    v: {float32: [1], persistable: true, parameter: true}
    lr: {float32: [1], persistable: true}
    "y": {float32: [1]}
    e: {float32: [1]}
    limit: {float32: [1]}
    c: {bool: [1]}
    s: {kind: step_scopes}
    xw: {float32: [-1, 4]}
    z: {float32: [-1, 4]}
    loss: {float32: []}
    loss@GRAD: {float32: []}
    z@GRAD: {float32: [-1, 4]}
    xw@GRAD: {float32: [-1, 4]}
    y@GRAD: {float32: [1]}
    v@GRAD: {float32: [1]}
    w@GRAD: {float32: [4]}
  ops:
  - {fill_constant: {}, out: {Out: ["y"]}, attrs: {shape: !longs [1], value: 3.0, dtype: 5, .role: forward}}
  - {fill_constant: {}, out: {Out: [e]}, attrs: {shape: !longs [1], value: 1.0, dtype: 5, .role: forward}}
  - {fill_constant: {}, out: {Out: [limit]}, attrs: {shape: !longs [1], value: 0.001, dtype: 5, .role: forward}}
  - {greater_than: {X: [e], "Y": [limit]}, out: {Out: [c]}, attrs: {axis: -1, .role: forward}}
  - {while: {Condition: [c], X: ["y", e, limit, v]}, out: {Out: ["y", e, c], StepScopes: [s]}, attrs: {is_test: false, .role: forward, sub_block: !block 1}}
  - {elementwise_mul: {X: [x], "Y": [w]}, out: {Out: [xw]}, attrs: {axis: -1, .role: forward}}
  - {elementwise_mul: {X: [xw], "Y": ["y"]}, out: {Out: [z]}, attrs: {axis: -1, .role: forward}}
  - {reduce_mean: {X: [z]}, out: {Out: [loss]}, attrs: {reduce_all: true, .role: loss}}
  - {fill_constant: {}, out: {Out: [loss@GRAD]}, attrs: {shape: !longs [], value: 1.0, dtype: 5, op_role: 257}}
  - {reduce_mean_grad: {X: [z], Out@GRAD: [loss@GRAD]}, out: {X@GRAD: [z@GRAD]}, attrs: {reduce_all: true, .role: backward}}
  - {elementwise_mul_grad: {X: [xw], "Y": ["y"], Out@GRAD: [z@GRAD]}, out: {X@GRAD: [xw@GRAD], Y@GRAD: [y@GRAD]}, attrs: {axis: -1, .role: backward}}
  - {while_grad: {X: ["y", v], Out: ["y", e, c], Out@GRAD: [y@GRAD], StepScopes: [s]}, out: {X@GRAD: [y@GRAD, v@GRAD]}, attrs: {is_test: false, op_role: 1, op_role_var: [v, v@GRAD], original_output_grad: [y@GRAD], sub_block: !block 2}}
  - {elementwise_mul_grad: {X: [x], "Y": [w], Out@GRAD: [xw@GRAD]}, out: {Y@GRAD: [w@GRAD]}, attrs: {axis: -1, op_role: 1, op_role_var: [w, w@GRAD]}}
  - {sgd: {Param: [w], Grad: [w@GRAD], LearningRate: [lr]}, out: {ParamOut: [w]}, attrs: {op_role: 2, op_role_var: [w, w@GRAD]}}
  - {sgd: {Param: [v], Grad: [v@GRAD], LearningRate: [lr]}, out: {ParamOut: [v]}, attrs: {op_role: 2, op_role_var: [v, v@GRAD]}}
- idx: 1
  parent: 0
  vars:
    q: {float32: [1]}
    a: {float32: [1]}
    n: {float32: [1]}
    d: {float32: [1]}
    g: {float32: [1]}
  ops:
  - {elementwise_div: {X: [v], "Y": ["y"]}, out: {Out: [q]}, attrs: {axis: -1, .role: forward}}
  - {elementwise_add: {X: ["y"], "Y": [q]}, out: {Out: [a]}, attrs: {axis: -1, .role: forward}}
  - {scale: {X: [a]}, out: {Out: [n]}, attrs: {scale: 0.5, bias: 0.0, bias_after_scale: true, .role: forward}}
  - {elementwise_sub: {X: [n], "Y": ["y"]}, out: {Out: [d]}, attrs: {axis: -1, .role: forward}}
  - {abs: {X: [d]}, out: {Out: [g]}, attrs: {.role: forward}}
  - {assign: {X: [n]}, out: {Out: ["y"]}, attrs: {.role: forward}}
  - {assign: {X: [g]}, out: {Out: [e]}, attrs: {.role: forward}}
  - {greater_than: {X: [e], "Y": [limit]}, out: {Out: [c]}, attrs: {axis: -1, .role: forward}}
- idx: 2
  parent: 0
  forward: 1
  vars:
    n@GRAD: {float32: [1]}
    a@GRAD: {float32: [1]}
    q@GRAD: {float32: [1]}
    y0@GRAD: {float32: [1]}
    y1@GRAD: {float32: [1]}
    v@GRAD: {float32: [1]}
  ops:
  - {assign: {X: [y@GRAD]}, out: {Out: [n@GRAD]}, attrs: {.role: backward}}
  - {scale: {X: [n@GRAD]}, out: {Out: [a@GRAD]}, attrs: {scale: 0.5, bias: 0.0, bias_after_scale: true, .role: backward}}
  - {elementwise_add_grad: {X: ["y"], "Y": [q], Out@GRAD: [a@GRAD]}, out: {X@GRAD: [y0@GRAD], Y@GRAD: [q@GRAD]}, attrs: {axis: -1, .role: backward}}
  - {elementwise_div_grad: {X: [v], "Y": ["y"], Out: [q], Out@GRAD: [q@GRAD]}, out: {X@GRAD: [v@GRAD], Y@GRAD: [y1@GRAD]}, attrs: {axis: -1, .role: backward}}
  - {sum: {X: [y0@GRAD, y1@GRAD]}, out: {Out: [y@GRAD]}, attrs: {.role: backward}}
END
"$weft" opt "$folder/root.yaml" --passes 'data_parallel: {ranks: 2}' -o "$folder/dp.yaml" 2>"$folder/report"
for batch in '' '--batch 8'; do
    # shellcheck disable=SC2086
    prints 0 '^against the serial program: same over the real numbers' "a loop that parameters end is proved $batch" \
        "$weft" verify "$folder/dp.yaml" --against "$folder/root.yaml" $batch
done
while IFS='|' read -r what change; do
    sed "$change" "$folder/dp.yaml" >"$folder/mutant.yaml"
    cmp -s "$folder/dp.yaml" "$folder/mutant.yaml" && ok 1 "$what: nothing was changed"
    prints 1 '^against the serial program: not proved' "$what" "$weft" verify "$folder/mutant.yaml" --against "$folder/root.yaml"
done <<'END'
another step|/X: \[a\]/s/scale: 0.5/scale: 0.25/
another tolerance|s/value: 0.001/value: 0.1/
another beginning|s/value: 3.0/value: 2.0/
the condition is not written|/^- idx: 1/,/^- idx: 2/s/out: {Out: \[c\]}/out: {Out: [c2]}/
a rank's rows end it|s/greater_than: {X: \[e\]/greater_than: {X: [x]/
another gradient of the step|/X: \["*n"*@GRAD\]/s/scale: 0.5/scale: 0.25/
half of the step's gradient is left out|s/{sum: {X: \[y0@GRAD, y1@GRAD\]}/{sum: {X: [y0@GRAD, y0@GRAD]}/
the gradient is not carried from run to run|s/{X: \[y0@GRAD, y1@GRAD\]}, out: {Out: \["*y"*@GRAD\]}/{X: [y0@GRAD, y1@GRAD]}, out: {Out: [y0@GRAD]}/
END
! grep -q 'own rows' "$folder/report"
ok $? "no rows of a rank end it"
says 0 'while #6: each rank runs it as its own rows of abs_0.tmp_0 say' "rows of a rank end the other, and the report says so" \
    "$weft" opt $until/serial.yaml --passes 'data_parallel: {ranks: 2}' -o "$folder/dp.yaml"
# How often a loop of a fed number runs is any number: what is planned without it proves nothing.
"$weft" opt -q tests/data/loops/while_data/serial.yaml --passes 'data_parallel: {ranks: 2}' -o "$folder/dp.yaml" 2>"$folder/err"
prints 1 "a block's values are not followed" "a loop that a fed number ends is not proved" \
    "$weft" verify "$folder/dp.yaml" --against tests/data/loops/while_data/serial.yaml
# A block that changes an outer value has its gradient where it runs, and leaves what is there where it does not.
changed() { # P: tanh(P) > 0 is the condition
    cat >"$folder/changed.yaml" <<END
weft: 1
blocks:
- idx: 0
  parent: -1
  vars:
    b: {float32: [1]}
    p: {float32: [1]}
    w: {float32: [1]}
    zero: {float32: [1]}
    a: {float32: [1]}
    c: {bool: [1]}
    s: {kind: step_scopes}
    loss: {float32: []}
    loss@GRAD: {float32: []}
    a@GRAD: {float32: [1]}
    w@GRAD: {float32: [1]}
  ops:
  - {fill_constant: {}, out: {Out: [b]}, attrs: {shape: !longs [1], value: $1, dtype: 5, .role: forward}}
  - {tanh: {X: [b]}, out: {Out: [p]}, attrs: {.role: forward}}
  - {fill_constant: {}, out: {Out: [w]}, attrs: {shape: !longs [1], value: 0.5, dtype: 5, .role: forward}}
  - {fill_constant: {}, out: {Out: [zero]}, attrs: {shape: !longs [1], value: 0.0, dtype: 5, .role: forward}}
  - {elementwise_mul: {X: [p], "Y": [w]}, out: {Out: [a]}, attrs: {axis: -1, .role: forward}}
  - {greater_than: {X: [p], "Y": [zero]}, out: {Out: [c]}, attrs: {axis: -1, .role: forward}}
  - {conditional_block: {Cond: [c], Input: [a]}, out: {Out: [a], Scope: [s]}, attrs: {is_scalar_condition: true, .role: forward, sub_block: !block 1}}
  - {reduce_mean: {X: [a]}, out: {Out: [loss]}, attrs: {reduce_all: true, .role: loss}}
  - {fill_constant: {}, out: {Out: [loss@GRAD]}, attrs: {shape: !longs [], value: 1.0, dtype: 5, op_role: 257}}
  - {reduce_mean_grad: {X: [a], Out@GRAD: [loss@GRAD]}, out: {X@GRAD: [a@GRAD]}, attrs: {reduce_all: true, .role: backward}}
  - {conditional_block_grad: {Cond: [c], Input: [a], Out: [a], Out@GRAD: [a@GRAD], Scope: [s]}, out: {Input@GRAD: [a@GRAD]}, attrs: {is_scalar_condition: true, .role: backward, sub_block: !block 2}}
  - {elementwise_mul_grad: {X: [p], "Y": [w], Out@GRAD: [a@GRAD]}, out: {Y@GRAD: [w@GRAD]}, attrs: {axis: -1, .role: backward}}
- idx: 1
  parent: 0
  vars:
    t: {float32: [1]}
  ops:
  - {tanh: {X: [a]}, out: {Out: [t]}, attrs: {.role: forward}}
  - {assign: {X: [t]}, out: {Out: [a]}, attrs: {.role: forward}}
- idx: 2
  parent: 0
  forward: 1
  vars:
    t@GRAD: {float32: [1]}
  ops:
  - {assign: {X: [a@GRAD]}, out: {Out: [t@GRAD]}, attrs: {.role: backward}}
  - {tanh_grad: {Out: [t], Out@GRAD: [t@GRAD]}, out: {X@GRAD: [a@GRAD]}, attrs: {.role: backward}}
END
}
for case in '1.0 0.66101' '-1.0 -0.76159'; do
    changed "${case% *}"
    prints 0 "w@GRAD,${case#* }" "the gradient of a value that a block changes, tanh(${case% *}) > 0" \
        "$weft" run "$folder/changed.yaml" --steps 1 --fetch w@GRAD
done
finish
