#!/bin/sh
# Wrong input: a clear error that names the thing, exit 1, nothing half written. Wrong usage: exit 2 and the usage line.
. tests/support/shell.sh
. tests/support/python.sh
case=$fixtures/paddle26/mlp_sgd_dp2
"$PYTHON" - "$case" "$folder" <<'END'
import sys
import numpy as np
case, out = sys.argv[1:]
feeds, params = dict(np.load(f'{case}/feeds.npz')), dict(np.load(f'{case}/params.npz'))
np.savez(f'{out}/extra.npz', **feeds, **{'0/no_such_var': np.zeros(3, np.float32)})
np.savez(f'{out}/dtype.npz', **{**feeds, '0/x': feeds['0/x'].astype(np.float64)})
np.savez(f'{out}/shape.npz', **{**feeds, '0/x': feeds['0/x'][:, :31]})
np.savez(f'{out}/rows.npz', **{k: v[:15] for k, v in feeds.items()})
np.savez(f'{out}/missing.npz', **{k: v for k, v in params.items() if k != 'linear_1.w_0'})
np.savez(f'{out}/wide.npz', **{**params, 'linear_1.w_0': np.zeros((65, 10), np.float32)})
END
run() { "$weft" run "$@" --params "$case/params.npz" --fetch mean_0.tmp_0 --save "$folder/result.npz"; }
serial=$case/serial.pdmodel

says 1 'no_such_var' 'a feed that the program does not have is named' run "$serial" --feed "$folder/extra.npz"
says 1 'x.*(float64|float32)' 'a feed of the wrong dtype is named' run "$serial" --feed "$folder/dtype.npz"
says 1 'x.*31' 'a feed of the wrong shape is named' run "$serial" --feed "$folder/shape.npz"
says 1 'linear_1.w_0' 'a missing parameter is named' \
    "$weft" run "$serial" --params "$folder/missing.npz" --feed "$case/feeds.npz" --save "$folder/result.npz"
says 1 'linear_1.w_0.*65' 'a parameter of the wrong shape is named' \
    "$weft" run "$serial" --params "$folder/wide.npz" --feed "$case/feeds.npz" --save "$folder/result.npz"
says 1 'no_such_fetch' 'a fetch that the program does not have is named' \
    "$weft" run "$serial" --params "$case/params.npz" --feed "$case/feeds.npz" --fetch no_such_fetch
says 1 'no/such/file' 'a missing program is named' "$weft" run no/such/file.pdmodel
says 1 'no_such.npz' 'a missing feed file is named' run "$serial" --feed no_such.npz
[ ! -e "$folder/result.npz" ]; ok $? 'a failed run saves nothing'

printf 'weft: 1\nblocks:\n- idx: 0\n  vars:\n    x: {float32: [2]}\n    y: {float32: [2]}\n  ops:\n  - {no_such_op: {X: [x]}, out: {Out: [y]}}\n' >"$folder/unknown.yaml"
says 1 'no_such_op' 'an op without kernel is named' "$weft" run "$folder/unknown.yaml"
"$weft" opt "$folder/unknown.yaml" -o "$folder/unknown.pdmodel" 2>/dev/null; ok $? 'an unknown op is legal in opt'

# More memory than there is. A sanitizer reserves more than any limit that could be set.
printf 'weft: 1\nblocks:\n- vars:\n    w: {float32: [65536, 65536], persistable: true}\n  ops:\n  - {fill_constant: {}, out: {Out: w}, attrs: {shape: !longs [65536, 65536], dtype: 5, value: 1.0}}\n' >"$folder/large.yaml"
[ -n "${WEFT_SANITIZED-}" ] || says 1 'no 16.0 GiB for parameters.*"w", 16.0 GiB' 'what there is no memory for is named' \
    sh -c "ulimit -v 8000000; exec '$weft' run '$folder/large.yaml'"

# Rings: one that lacks this rank, and ranks whose collectives disagree.
collective() { # FILE TYPE RING
    printf 'weft: 1\nrings: {7: [1, 2]}\nblocks:\n- idx: 0\n  vars:\n    x: {float32: [2]}\n  ops:\n  - {fill_constant: {}, out: {Out: [x]}, attrs: {shape: !longs [2], dtype: 5, value: 1.0}}\n  - {%s: {X: [x]}, out: {Out: [x]}, attrs: {ring_id: %s, use_calc_stream: true}}\n' "$2" "$3" >"$1"
}
collective "$folder/a.yaml" c_allreduce_sum 7
says 1 'ring 7' 'a ring without this rank is named' "$weft" run "$folder/a.yaml" --ranks 3
collective "$folder/a.yaml" c_allreduce_sum 0
collective "$folder/b.yaml" c_allreduce_max 0
says 1 'c_allreduce_(sum|max)' 'ranks whose collectives disagree are named' "$weft" run "$folder/a.yaml" "$folder/b.yaml"

# A rank that hangs: named, with what it does, in bounded time.
says 1 'c_allreduce_sum #1, ring 0: waited .* for rank 1 \(at fill_constant #0\)' 'a rank that never comes is named' \
    "$weft" run "$folder/a.yaml" --ranks 2 --delay 0:1000000:1 --watchdog 0.2:0.2
"$weft" run "$folder/a.yaml" --ranks 2 --delay 0:100:1 --watchdog 0.02:0.02 --no-watchdog 2>/dev/null
ok $? 'without a watchdog ranks wait'
says 2 'expected seconds, S or S:F' 'a malformed limit is a usage error' \
    "$weft" run "$folder/a.yaml" --ranks 2 --watchdog 5:x

# Pass lists are strict, with line and column.
printf 'passes:\n  - prune_grad_scale\n  - coalesce_grads: {bucket_md: 3}\n' >"$folder/list.yaml"
says 1 'list.yaml:3:[0-9]+.*bucket_md' 'an unknown option is an error with line and column' \
    "$weft" opt "$serial" --passes "$folder/list.yaml" -o "$folder/never.pdmodel"
says 1 'prune_grad_scales' 'an unknown pass is named' "$weft" opt "$serial" --passes 'prune_grad_scales' -o "$folder/never.pdmodel"
says 1 '(divide|batch)' 'a batch that does not divide is an error' \
    "$weft" opt "$serial" --passes 'data_parallel: {ranks: 3}' -o "$folder/never.pdmodel"
[ ! -e "$folder/never.pdmodel" ]; ok $? 'a refused pass list writes nothing'

# Errors alike are told a hundred times, and then counted.
{
    printf 'weft: 1\nblocks:\n- vars:\n    x: {float32: [2]}\n  ops:\n'
    for _ in $(seq 150); do printf '  - {relu: {X: [x]}, out: {Out: [x]}, attrs: {.role: forward, op_role: 1}}\n'; done
} >"$folder/many.yaml"
says 1 'weft: 50 more errors like these' 'errors that are many are counted' "$weft" opt "$folder/many.yaml" --passes prune_grad_scale -o "$folder/never.pdmodel"
[ "$("$weft" opt "$folder/many.yaml" --passes prune_grad_scale -o "$folder/never.pdmodel" 2>&1 | grep -c 'is there twice')" -eq 101 ]
ok $? 'a hundred of them are printed, and the first again with what it ends'

says 2 'usage: weft opt' 'opt without a program is a usage error' "$weft" opt
says 2 'one file is for all ranks' 'a certificate has no place for a rank' "$weft" opt "$serial" --certificate "$folder/c{rank}.json" -o "$folder/o.pdmodel"
says 2 'no option' 'an unknown option is a usage error' "$weft" run "$serial" --no-such-option
says 2 'expected a whole number' 'a malformed number is a usage error' "$weft" run "$serial" --ranks two
says 2 'no command' 'an unknown command is a usage error' "$weft" frobnicate
"$weft" --version | grep -q '^weft [0-9]'; ok $? '--version'
for command in opt run show diff plan info ops passes help; do
    "$weft" "$command" --help | grep -q "usage: weft $command"; ok $? "$command --help"
done
finish
