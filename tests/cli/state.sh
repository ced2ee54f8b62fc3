#!/bin/sh
# What a run begins with and leaves: startup programs, saved states, inference models, feeds of changing shape.
. tests/support/shell.sh
. tests/support/python.sh

# Dropout without a seed of its own, and adam: what a run goes on with is parameters, moments, and the step.
cat >"$folder/net.yaml" <<'END'
weft: 1
blocks:
- idx: 0
  vars:
    x: {float32: [-1, 16]}
    w: {float32: [16, 8], persistable: true, parameter: true}
    h: {float32: [-1, 8]}
    d: {float32: [-1, 8]}
    mask: {uint8: [-1, 8]}
    loss: {float32: []}
    loss@GRAD: {float32: []}
    d@GRAD: {float32: [-1, 8]}
    h@GRAD: {float32: [-1, 8]}
    w@GRAD: {float32: [16, 8]}
    lr: {float32: [1], persistable: true}
    m1: {float32: [16, 8], persistable: true}
    m2: {float32: [16, 8], persistable: true}
    b1: {float32: [1], persistable: true}
    b2: {float32: [1], persistable: true}
  ops:
  - {matmul_v2: {X: [x], "Y": [w]}, out: {Out: [h]}, attrs: {trans_x: false, trans_y: false, op_role: 0}}
  - {dropout: {X: [h]}, out: {Mask: [mask], Out: [d]}, attrs: {fix_seed: false, seed: 0, dropout_implementation: upscale_in_train, dropout_prob: 0.5, is_test: false, op_role: 0}}
  - {reduce_mean: {X: [d]}, out: {Out: [loss]}, attrs: {dim: [], keep_dim: false, reduce_all: true, op_role: 256}}
  - {fill_constant: {}, out: {Out: [loss@GRAD]}, attrs: {dtype: 5, shape: !longs [], value: 1.0, op_role: 257}}
  - {reduce_mean_grad: {Out@GRAD: [loss@GRAD], X: [d]}, out: {X@GRAD: [d@GRAD]}, attrs: {dim: [], keep_dim: false, reduce_all: true, op_role: 1}}
  - {dropout_grad: {Mask: [mask], Out@GRAD: [d@GRAD]}, out: {X@GRAD: [h@GRAD]}, attrs: {fix_seed: false, seed: 0, dropout_implementation: upscale_in_train, dropout_prob: 0.5, is_test: false, op_role: 1}}
  - {matmul_v2_grad: {Out@GRAD: [h@GRAD], X: [x], "Y": [w]}, out: {Y@GRAD: [w@GRAD]}, attrs: {trans_x: false, trans_y: false, op_role: 1, op_role_var: [w, w@GRAD]}}
  - {adam: {Beta1Pow: [b1], Beta2Pow: [b2], Grad: [w@GRAD], LearningRate: [lr], Moment1: [m1], Moment2: [m2], Param: [w]}, out: {Beta1PowOut: [b1], Beta2PowOut: [b2], Moment1Out: [m1], Moment2Out: [m2], ParamOut: [w]}, attrs: {beta1: 0.9, beta2: 0.999, epsilon: 1e-08, op_role: 2, op_role_var: [w, w@GRAD]}}
END
cat >"$folder/startup.yaml" <<'END'
weft: 1
blocks:
- idx: 0
  vars:
    w: {float32: [16, 8], persistable: true}
    lr: {float32: [1], persistable: true}
    m1: {float32: [16, 8], persistable: true}
    m2: {float32: [16, 8], persistable: true}
    b1: {float32: [1], persistable: true}
    b2: {float32: [1], persistable: true}
    unset: {float32: [1], persistable: true}
  ops:
  - {uniform_random: {}, out: {Out: [w]}, attrs: {dtype: 5, min: -1.0, max: 1.0, seed: 0, shape: !longs [16, 8]}}
  - {fill_constant: {}, out: {Out: [lr]}, attrs: {dtype: 5, shape: !longs [1], value: 0.01}}
  - {fill_constant: {}, out: {Out: [m1]}, attrs: {dtype: 5, shape: !longs [16, 8], value: 0.0}}
  - {fill_constant: {}, out: {Out: [m2]}, attrs: {dtype: 5, shape: !longs [16, 8], value: 0.0}}
  - {fill_constant: {}, out: {Out: [b1]}, attrs: {dtype: 5, shape: !longs [1], value: 0.9}}
  - {fill_constant: {}, out: {Out: [b2]}, attrs: {dtype: 5, shape: !longs [1], value: 0.999}}
END
"$PYTHON" - "$folder" <<'END'
import sys, numpy as np
folder, r = sys.argv[1], np.random.default_rng(0)
x = [r.normal(size=(rows, 16)).astype('f4') for rows in (8, 8, 8, 8, 8, 8)]
np.savez(folder + '/x.npz', **{f'{s}/x': v for s, v in enumerate(x)})
np.savez(folder + '/varied.npz', **{f'{s}/x': v[:rows] for s, (v, rows) in enumerate(zip(x, (8, 4, 8, 2, 4, 8)))})
np.savez(folder + '/same.npz', x=x[0])
np.savez(folder + '/w.npz', w=np.ones((16, 8), 'f4'))
END
net="$folder/net.yaml --startup $folder/startup.yaml --feed $folder/x.npz"
same() { # A B: saved files are equal to the bit
    cmp -s "$1" "$2"
}
run() {
    "$weft" run "$@" 2>"$folder/err"
}

# --- startup
run $net --seed 7 --save "$folder/all.npz" && run $net --seed 7 --save "$folder/again.npz" && same "$folder/all.npz" "$folder/again.npz"
ok $? 'a startup program makes what no file gives, equal with an equal seed'
run "$folder/net.yaml" --startup "$folder/startup.yaml" --seed 8 --steps 1 --feed "$folder/x.npz" --fetch loss >"$folder/8.csv" &&
    run "$folder/net.yaml" --startup "$folder/startup.yaml" --seed 7 --steps 1 --feed "$folder/x.npz" --fetch loss >"$folder/7.csv" &&
    ! same "$folder/7.csv" "$folder/8.csv"
ok $? 'another seed gives other values'
run $net --params "$folder/w.npz" --steps 1 --fetch w --save "$folder/w1.npz" && "$PYTHON" -c '
import sys, numpy as np
assert abs(np.load(sys.argv[1])["w"] - 1).max() < 0.02' "$folder/w1.npz"
ok $? 'a given parameter wins over the startup program'
sed '/uniform_random/d' "$folder/startup.yaml" >"$folder/less.yaml"
says 1 'parameter "w" is read by matmul_v2 #0 \(rank 0\) but not in the startup program' 'what is given nowhere is named' \
    "$weft" run "$folder/net.yaml" --startup "$folder/less.yaml" --feed "$folder/x.npz"

# --- going on from a saved state
for form in npz pdiparams; do
    more=
    [ $form = pdiparams ] && more='--first-step 2 --seed 7'
    run $net --seed 7 --save "$folder/whole.$form" && run $net --seed 7 --steps 2 --save "$folder/two.$form" &&
        run "$folder/net.yaml" --load "$folder/two.$form" $more --feed "$folder/x.npz" --fetch loss --save "$folder/rest.$form" >"$folder/csv" &&
        run "$folder/net.yaml" --load "$folder/rest.$form" --feed "$folder/x.npz" --first-step 5 --seed 7 --save "$folder/end.npz" &&
        run "$folder/net.yaml" --load "$folder/whole.$form" --feed "$folder/x.npz" --first-step 5 --seed 7 --save "$folder/other.npz" &&
        same "$folder/end.npz" "$folder/other.npz" && grep -q '^2,0,loss,' "$folder/csv" && ! grep -q '^1,' "$folder/csv"
    ok $? "2 steps, a state in .$form, 4 steps: the bits of 6 steps"
done
for first in 1 2; do
    run "$folder/net.yaml" --load "$folder/two.npz" --first-step $first --feed "$folder/same.npz" --save "$folder/$first.pdiparams" || break
done
[ -f "$folder/2.pdiparams" ] && ! same "$folder/1.pdiparams" "$folder/2.pdiparams"; ok $? 'dropout draws by the number of the step'
run "$folder/net.yaml" --load "$folder/two.npz" --params "$folder/w.npz" --feed "$folder/x.npz" --save "$folder/other.npz" &&
    same "$folder/whole.npz" "$folder/other.npz"
ok $? 'a state wins over parameters'
says 1 'the feeds have 6 steps: there is none from 6 on' 'no steps are left' \
    "$weft" run "$folder/net.yaml" --load "$folder/whole.npz" --feed "$folder/x.npz"

# --- feeds that change shape
varied="$folder/net.yaml --startup $folder/startup.yaml --feed $folder/varied.npz --seed 7"
run $varied --save "$folder/8.npz" && grep -q 'planned 3 times, 3 plans kept, 0 gone' "$folder/err"; ok $? 'a plan per shape'
run $varied --plans 1 --save "$folder/1.npz" && same "$folder/8.npz" "$folder/1.npz" && grep -q '1 plans kept, 5 gone' "$folder/err"
ok $? 'plans that go and come back change nothing'
run $varied --steps 3 --save "$folder/3.npz" &&
    run "$folder/net.yaml" --load "$folder/3.npz" --feed "$folder/varied.npz" --save "$folder/6.npz" && same "$folder/8.npz" "$folder/6.npz"
ok $? 'a state goes on under another shape'
"$weft" opt "$folder/net.yaml" --passes configs/data_parallel.yaml --set data_parallel.ranks=2 -o "$folder/dp.yaml" 2>/dev/null &&
    run "$folder/dp.yaml" --ranks 2 --startup "$folder/startup.yaml" --feed "$folder/varied.npz" --save "$folder/r{rank}.npz" &&
    same "$folder/r0.npz" "$folder/r1.npz"
ok $? 'data-parallel with an open batch: replicas stay equal'
run "$folder/dp.yaml" --ranks 2 --startup "$folder/startup.yaml" --feed "$folder/varied.npz" --steps 3 --save "$folder/s{rank}.npz" &&
    run "$folder/dp.yaml" --ranks 2 --load "$folder/s{rank}.npz" --feed "$folder/varied.npz" --save "$folder/t{rank}.npz" &&
    same "$folder/r0.npz" "$folder/t0.npz" && same "$folder/r1.npz" "$folder/t1.npz"
ok $? 'a state per rank goes on'

# --- saved inference models: feed and fetch ops, feeds by name, any batch
for model in "$fixtures"/infer/*.npz; do
    stem=${model%.npz}
    [ -f "$stem.pdmodel" ] || { skipped=$((skipped + 1)); continue; }
    "$PYTHON" - "$model" "$folder/in.npz" "$folder/row.npz" <<'END'
import sys, numpy as np
d = np.load(sys.argv[1])
ins = {k[3:]: d[k] for k in d if k.startswith('in/')}
np.savez(sys.argv[2], **ins)
np.savez(sys.argv[3], **{f'{s}/{k}': v[:s + 1] for k, v in ins.items() for s in range(2)})
END
    run "$stem.pdmodel" --params "$stem.pdiparams" --feed "$folder/in.npz" --save "$folder/out.npz" >"$folder/csv" &&
        run "$stem.pdmodel" --params "$stem.pdiparams" --feed "$folder/row.npz" --save "$folder/two.npz" >"$folder/csv"
    "$PYTHON" - "$model" "$folder/out.npz" "$folder/two.npz" <<'END'
import sys, numpy as np
want, got, two = map(np.load, sys.argv[1:])
for column, key in enumerate(sorted(k for k in want if k.startswith('out/'))):
    w, g, t = want[key], got[f'fetch.{column}'], two[f'fetch.{column}']
    assert g.shape == w.shape and abs(g - w).max() <= 1e-5 * abs(w).max(), key
    assert t.shape == w[:2].shape and abs(t - w[:2]).max() <= 1e-5 * abs(w).max(), key
END
    ok $? "$(basename "$stem"): the recorded outputs, and other batches"
done
finish
