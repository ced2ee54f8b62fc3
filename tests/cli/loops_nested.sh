#!/bin/sh
# Gradients of loops in loops are the derivative: what ops read before and after an inner loop, or another op, has written over it.
. tests/support/shell.sh

# h = 1.3 w + 0.2, y = w^2; twice: p = h^2, twice: h = sin(h w), then h = h p. The loss is h y.
cat >"$folder/nested.yaml" <<'END'
weft: 1
blocks:
- idx: 0
  parent: -1
  vars:
    w: {float64: [1]}
    h: {float64: [1]}
    "y": {float64: [1]}
    r: {float64: [1]}
    loss: {float64: []}
    i: {int64: [1]}
    "n": {int64: [1]}
    c: {bool: [1]}
    s: {kind: step_scopes}
    loss@GRAD: {float64: []}
    r@GRAD: {float64: [1]}
    h@GRAD: {float64: [1]}
    h@GRAD@0: {float64: [1]}
    y@GRAD: {float64: [1]}
    w@GRAD: {float64: [1]}
    w@GRAD@0: {float64: [1]}
    w@GRAD@1: {float64: [1]}
    w@GRAD@2: {float64: [1]}
  ops:
  - {fill_constant: {}, out: {Out: [w]}, attrs: {shape: !longs [1], value: 0.7, str_value: "0.7", dtype: 6, .role: forward}}
  - {scale: {X: [w]}, out: {Out: [h]}, attrs: {scale: 1.3, bias: 0.2, bias_after_scale: true, .role: forward}}
  - {square: {X: [w]}, out: {Out: ["y"]}, attrs: {.role: forward}}
  - {fill_constant: {}, out: {Out: [i]}, attrs: {shape: !longs [1], value: 0.0, dtype: 3, .role: forward}}
  - {fill_constant: {}, out: {Out: ["n"]}, attrs: {shape: !longs [1], value: 2.0, dtype: 3, .role: forward}}
  - {less_than: {X: [i], "Y": ["n"]}, out: {Out: [c]}, attrs: {axis: -1, .role: forward}}
  - {while: {Condition: [c], X: [h, i, "n", w]}, out: {Out: [h, i, c], StepScopes: [s]}, attrs: {is_test: false, .role: forward, sub_block: !block 1}}
  - {elementwise_mul: {X: [h], "Y": ["y"]}, out: {Out: [r]}, attrs: {axis: -1, .role: forward}}
  - {reduce_sum: {X: [r]}, out: {Out: [loss]}, attrs: {reduce_all: true, dim: [0], keep_dim: false, .role: loss}}
  - {fill_constant: {}, out: {Out: [loss@GRAD]}, attrs: {shape: !longs [], value: 1.0, dtype: 6, op_role: 257}}
  - {reduce_sum_grad: {X: [r], Out@GRAD: [loss@GRAD]}, out: {X@GRAD: [r@GRAD]}, attrs: {reduce_all: true, dim: [0], keep_dim: false, .role: backward}}
  - {elementwise_mul_grad: {X: [h], "Y": ["y"], Out@GRAD: [r@GRAD]}, out: {X@GRAD: [h@GRAD@0], Y@GRAD: [y@GRAD]}, attrs: {axis: -1, .role: backward}}
  - {while_grad: {X: [h, w], Out: [h, i, c], Out@GRAD: [h@GRAD@0], StepScopes: [s]}, out: {X@GRAD: [h@GRAD@0, w@GRAD@0]}, attrs: {is_test: false, .role: backward, original_output_grad: [h@GRAD], sub_block: !block 3}}
  - {square_grad: {X: [w], Out@GRAD: [y@GRAD]}, out: {X@GRAD: [w@GRAD@2]}, attrs: {.role: backward}}
  - {scale: {X: [h@GRAD@0]}, out: {Out: [w@GRAD@1]}, attrs: {scale: 1.3, bias: 0.0, bias_after_scale: true, .role: backward}}
  - {sum: {X: [w@GRAD@0, w@GRAD@1, w@GRAD@2]}, out: {Out: [w@GRAD]}, attrs: {.role: backward}}
- idx: 1
  parent: 0
  vars:
    p: {float64: [1]}
    q: {float64: [1]}
    k: {int64: [1]}
    j: {int64: [1]}
    m: {int64: [1]}
    d: {bool: [1]}
    z: {kind: step_scopes}
  ops:
  - {square: {X: [h]}, out: {Out: [p]}, attrs: {.role: forward}}
  - {fill_constant: {}, out: {Out: [j]}, attrs: {shape: !longs [1], value: 0.0, dtype: 3, .role: forward}}
  - {fill_constant: {}, out: {Out: [m]}, attrs: {shape: !longs [1], value: 2.0, dtype: 3, .role: forward}}
  - {less_than: {X: [j], "Y": [m]}, out: {Out: [d]}, attrs: {axis: -1, .role: forward}}
  - {while: {Condition: [d], X: [h, j, m, w]}, out: {Out: [h, j, d], StepScopes: [z]}, attrs: {is_test: false, .role: forward, sub_block: !block 2}}
  - {elementwise_mul: {X: [h], "Y": [p]}, out: {Out: [q]}, attrs: {axis: -1, .role: forward}}
  - {scale: {X: [i]}, out: {Out: [k]}, attrs: {scale: 1.0, bias: 1.0, bias_after_scale: true, .role: forward}}
  - {assign: {X: [k]}, out: {Out: [i]}, attrs: {.role: forward}}
  - {assign: {X: [q]}, out: {Out: [h]}, attrs: {.role: forward}}
  - {less_than: {X: [i], "Y": ["n"]}, out: {Out: [c]}, attrs: {axis: -1, .role: forward}}
- idx: 2
  parent: 1
  vars:
    t: {float64: [1]}
    u: {float64: [1]}
    l: {int64: [1]}
  ops:
  - {elementwise_mul: {X: [h], "Y": [w]}, out: {Out: [t]}, attrs: {axis: -1, .role: forward}}
  - {sin: {X: [t]}, out: {Out: [u]}, attrs: {.role: forward}}
  - {assign: {X: [u]}, out: {Out: [h]}, attrs: {.role: forward}}
  - {scale: {X: [j]}, out: {Out: [l]}, attrs: {scale: 1.0, bias: 1.0, bias_after_scale: true, .role: forward}}
  - {assign: {X: [l]}, out: {Out: [j]}, attrs: {.role: forward}}
  - {less_than: {X: [j], "Y": [m]}, out: {Out: [d]}, attrs: {axis: -1, .role: forward}}
- idx: 3
  parent: 0
  forward: 1
  vars:
    q@GRAD: {float64: [1]}
    p@GRAD: {float64: [1]}
    h@GRAD: {float64: [1]}
    h@GRAD@0: {float64: [1]}
    h@GRAD@1: {float64: [1]}
    w@GRAD: {float64: [1]}
  ops:
  - {assign: {X: [h@GRAD]}, out: {Out: [q@GRAD]}, attrs: {.role: backward}}
  - {elementwise_mul_grad: {X: [h], "Y": [p], Out@GRAD: [q@GRAD]}, out: {X@GRAD: [h@GRAD@0], Y@GRAD: [p@GRAD]}, attrs: {axis: -1, .role: backward}}
  - {while_grad: {X: [h, w], Out: [h, j, d], Out@GRAD: [h@GRAD@0], StepScopes: [z]}, out: {X@GRAD: [h@GRAD@0, w@GRAD]}, attrs: {is_test: false, .role: backward, original_output_grad: [h@GRAD], sub_block: !block 4}}
  - {square_grad: {X: [h], Out@GRAD: [p@GRAD]}, out: {X@GRAD: [h@GRAD@1]}, attrs: {.role: backward}}
  - {sum: {X: [h@GRAD@0, h@GRAD@1]}, out: {Out: [h@GRAD]}, attrs: {.role: backward}}
- idx: 4
  parent: 3
  forward: 2
  vars:
    u@GRAD: {float64: [1]}
    t@GRAD: {float64: [1]}
    h@GRAD: {float64: [1]}
    w@GRAD: {float64: [1]}
  ops:
  - {assign: {X: [h@GRAD]}, out: {Out: [u@GRAD]}, attrs: {.role: backward}}
  - {sin_grad: {X: [t], Out@GRAD: [u@GRAD]}, out: {X@GRAD: [t@GRAD]}, attrs: {.role: backward}}
  - {elementwise_mul_grad: {X: [h], "Y": [w], Out@GRAD: [t@GRAD]}, out: {X@GRAD: [h@GRAD], Y@GRAD: [w@GRAD]}, attrs: {axis: -1, .role: backward}}
END

at() { # PROGRAM NAME W: the value of a var where w is that
    sed "s/value: 0.7, str_value: \"0.7\"/value: $3, str_value: \"$3\"/" "$1" >"$folder/at.yaml"
    "$weft" run "$folder/at.yaml" --steps 1 --fetch "$2" 2>"$folder/err" | sed -n '2s/.*,//p'
}
is_derivative() { # PROGRAM WHAT
    found=$(at "$1" w@GRAD 0.7)
    echo "$found $(at "$1" loss 0.7001) $(at "$1" loss 0.6999)" |
        awk 'NF == 3 { want = ($2 - $3) / 2e-4; off = $1 - want; if (off < 0) off = -off; size = want < 0 ? -want : want }
             END { exit !(NF == 3 && size > 1e-3 && off < 1e-4 * size) }'
    ok $? "$2: $found is the derivative; $(head -n 1 "$folder/err")"
}
is_derivative "$folder/nested.yaml" "ops read a carried value before and after an inner loop"
# Twice in one body: h = h p, then h = h^2, whose gradients have one name.
sed '/^- idx: 1$/,/^- idx: 2$/s/^  - {assign: {X: \[q\]}.*/&\n  - {square: {X: [h]}, out: {Out: [b]}, attrs: {.role: forward}}\n  - {assign: {X: [b]}, out: {Out: [h]}, attrs: {.role: forward}}/
    /^- idx: 3$/,/^- idx: 4$/s/^  - {assign: {X: \[h@GRAD\]}.*/  - {assign: {X: [h@GRAD]}, out: {Out: [b@GRAD]}, attrs: {.role: backward}}\n  - {square_grad: {X: [h], Out@GRAD: [b@GRAD]}, out: {X@GRAD: [h@GRAD@2]}, attrs: {.role: backward}}\n  - {assign: {X: [h@GRAD@2]}, out: {Out: [q@GRAD]}, attrs: {.role: backward}}/
    s/^    q: .*/&\n    b: {float64: [1]}/
    s/^    q@GRAD: .*/&\n    b@GRAD: {float64: [1]}\n    h@GRAD@2: {float64: [1]}/' "$folder/nested.yaml" >"$folder/twice.yaml"
sed '/^- idx: 3$/,/^- idx: 4$/s/X: \[h@GRAD@0, h@GRAD@1\]/X: [h@GRAD@0, h@GRAD@1, h@GRAD@2]/' "$folder/twice.yaml" >"$folder/sum.yaml"
is_derivative "$folder/twice.yaml" "a body writes a carried value twice"
is_derivative "$folder/sum.yaml" "what is before a writer has no part in the gradient that the writer's takes"
# What is no derivative is told, once a var, and runs; what is one is not. w is a parameter now.
sed 's/^    w: .*/    w: {float64: [1], persistable: true, parameter: true}/; /out: {Out: \[w\]}/d' "$folder/nested.yaml" >"$folder/right.yaml"
quiet() { # WHAT PROGRAM
    "$weft" plan --batch 4 --summary "$2" >/dev/null 2>"$folder/err"
    [ $? = 0 ] && [ ! -s "$folder/err" ]
    ok $? "$1 is the derivative: $(head -n 1 "$folder/err")"
}
told() { # WHAT SED PATTERN
    sed "$2" "$folder/right.yaml" >"$folder/wrong.yaml"
    says 0 "warning: .*the gradient of \"[a-z]*\" is not the derivative: $3\$" "$1" "$weft" plan --summary "$folder/wrong.yaml"
    [ "$(grep -o 'the gradient of "[a-z]*"' "$folder/err" | sort | uniq -d)" = "" ]
    ok $? "$1: once a var"
}
quiet "a gradient of nested loops" "$folder/right.yaml"
quiet "one of two writers" "$folder/sum.yaml"
for case in composed cond_grad lstm misc switch_case until; do quiet "$case" tests/data/loops/$case/serial.yaml; done
told "a sum without one part" 's/X: \[h@GRAD@0, h@GRAD@1\]/X: [h@GRAD@0]/' 'what square_grad adds to it is not in "q@GRAD", which elementwise_mul_grad reads'
told "a sum with one part twice" 's/X: \[h@GRAD@0, h@GRAD@1\]/X: [h@GRAD@0, h@GRAD@1, h@GRAD@1]/' 'what square_grad adds to it is twice in "q@GRAD", which elementwise_mul_grad reads'
told "a parameter's sum without its loop" 's/X: \[w@GRAD@0, w@GRAD@1, w@GRAD@2\]/X: [w@GRAD@1, w@GRAD@2]/' 'what is added to it is not what is in "w@GRAD"'
told "an op in a loop without a gradient" '/- {square_grad: {X: \[h\]/d; s/X: \[h@GRAD@0, h@GRAD@1\]/X: [h@GRAD@0]/' 'square, which reads it, has no gradient'
told "a gradient that leaves an input out" 's/X@GRAD: \[h@GRAD@0\], Y@GRAD: \[p@GRAD\]/X@GRAD: [h@GRAD@0]/; /- {square_grad: {X: \[h\]/d; s/X: \[h@GRAD@0, h@GRAD@1\]/X: [h@GRAD@0]/' 'elementwise_mul_grad leaves it out'
told "what only block 0 leaves out" '/- {square_grad: {X: \[w\]/d; s/, w@GRAD@2\]/]/' 'square, which reads it, has no gradient'
told "a mark on what a loop carries" 's/^    h: .*/    h: {float64: [1], stop_gradient: true}/; s/X@GRAD: \[h@GRAD@0\], Y@GRAD: \[y@GRAD\]/Y@GRAD: [y@GRAD]/' 'it is marked stop_gradient, but comes of parameters'
# Names that tell no op: which of the values it needs is not known.
sed 's/b@GRAD/e@GRAD/g; s/h@GRAD@2/g@GRAD/g' "$folder/twice.yaml" >"$folder/unknown.yaml"
says 1 'while_grad #12: its op square_grad reads "h", which is written more than once there' "a gradient of no op is refused" \
    "$weft" run "$folder/unknown.yaml" --steps 1 --fetch loss
finish
