#!/bin/sh
# Device cuda through the command, on stand-ins for the libraries of CUDA. Skipped where the plugin is not built.
. tests/support/shell.sh
. tests/support/python.sh
standin=$(dirname "$weft")/standin
case=$fixtures/paddle26/mlp_sgd_dp2
loss=$(sed -n 's/^ *"loss": "\(.*\)".*/\1/p' "$case/case.json" | tail -n 1)
program="$case/serial.pdmodel --params $case/params.npz --feed $case/feeds.npz --fetch $loss"
cuda() { # ENVIRONMENT... COMMAND...
    env WEFT_CUDA_PATH="$standin" "$@"
}

# --- why it cannot be used ----------------------------------------------------------------------------------------------
if ! [ -f "$(dirname "$weft")/weft_cuda.so" ]; then
    prints 0 '^CUDA *no .*no weft_cuda.so beside the program' 'info says that there is no plugin' "$weft" info
    # shellcheck disable=SC2086
    says 1 'device cuda: no weft_cuda.so' 'so does a run' "$weft" run $program --device cuda
    skipped=1
    finish
    exit
fi
cp "$weft" "$folder/weft"
prints 0 '^CUDA *no .*no weft_cuda.so beside the program' 'no plugin' "$folder/weft" info
printf 'int weft_none;' >"$folder/none.c"
gcc -shared -o "$folder/weft_cuda.so" "$folder/none.c"
prints 0 '^CUDA *no .*weft_cuda.so: no plugin of Weft' 'another library of that name' "$folder/weft" info
prints 0 '^CUDA *no .*/libcudart.so.13: cannot open' 'no library' env WEFT_CUDA_PATH="$folder" "$weft" info
cp "$folder/weft_cuda.so" "$folder/libcudart.so.13"
prints 0 '^CUDA *no .*too old: it lacks cudaGetErrorString' 'a library without a function' \
    env WEFT_CUDA_PATH="$folder" "$weft" info
prints 0 '^CUDA *no +no driver' 'no driver' cuda WEFT_STANDIN_PROBE=35 "$weft" info
prints 0 '^CUDA *no +no device' 'no device' cuda WEFT_STANDIN_PROBE=100 "$weft" info
prints 0 '^CUDA *no +no device' 'none counted' cuda WEFT_STANDIN_GPUS=0 "$weft" info
prints 0 '^CUDA *yes +13.0, driver for 13.0, 2 devices, the first sm_90' 'a device' cuda WEFT_STANDIN_GPUS=2 "$weft" info
for asked in version:RuntimeGetVersion driverversion:DriverGetVersion deviceattr:DeviceGetAttribute; do
    prints 0 "^CUDA *no +cuda${asked#*:}: a failure of the stand-in" "a device that does not say its ${asked%:*}" \
        cuda WEFT_STANDIN_FAIL="${asked%:*}:1" "$weft" info
done
prints 0 '^NCCL *no +ncclGetVersion failed' 'an NCCL that does not say its version' cuda WEFT_STANDIN_FAIL=ncclversion:1 "$weft" info
# shellcheck disable=SC2086
says 1 'device cuda: no driver' 'a run without a driver' cuda WEFT_STANDIN_PROBE=35 "$weft" run $program --device cuda

# --- a run --------------------------------------------------------------------------------------------------------------
golden=$case/golden.npz
for seed in 1 2 3; do
    # shellcheck disable=SC2086
    says 0 'recorded  difference' "losses as recorded, seed $seed" \
        cuda WEFT_STANDIN_SEED=$seed "$weft" run $program --device cuda --expect "$golden"
done
# shellcheck disable=SC2086
says 0 'recorded  difference' 'losses as recorded, without graphs' \
    cuda "$weft" run $program --device cuda --no-graph --expect "$golden"
# shellcheck disable=SC2086
says 1 'cudaStreamBeginCaptureToGraph' 'steps are captured' \
    cuda WEFT_STANDIN_FAIL=capture:1 "$weft" run $program --device cuda
# shellcheck disable=SC2086
says 0 'recorded  difference' '--no-graph: nothing is captured' \
    cuda WEFT_STANDIN_FAIL=capture:1 "$weft" run $program --device cuda --no-graph --expect "$golden"
# shellcheck disable=SC2086
says 0 'recorded  difference' '--strict-device: every op has a kernel' \
    cuda "$weft" run $program --device cuda --strict-device --expect "$golden"
with_conv=$fixtures/paddle26/lenet_momentum_dp2
if [ -d "$with_conv" ] && [ -f "$standin/libcudnn.so.9" ]; then
    says 0 'recorded  difference' '--strict-device: so do convolutions and pooling' \
        cuda "$weft" run "$with_conv/serial.pdmodel" --params "$with_conv/params.npz" --feed "$with_conv/feeds.npz" \
        --device cuda --strict-device --expect "$with_conv/golden.npz" \
        --fetch "$(sed -n 's/^ *"loss": "\(.*\)".*/\1/p' "$with_conv/case.json" | tail -n 1)"
    mkdir "$folder/no_dnn"
    cp -r "$standin/." "$folder/no_dnn"
    rm "$folder/no_dnn/libcudnn.so.9"
    says 1 'conv2d.*would run on the host: .*libcudnn.so.9: cannot open' '--strict-device refuses' \
        env WEFT_CUDA_PATH="$folder/no_dnn" "$weft" run "$with_conv/serial.pdmodel" --params "$with_conv/params.npz" \
        --feed "$with_conv/feeds.npz" --device cuda --strict-device
fi
with_host=$fixtures/paddle26/twoloss_dp2
# shellcheck disable=SC2086
says 1 'out of memory' 'no memory' cuda WEFT_STANDIN_FAIL=malloc:1 "$weft" run $program --device cuda
for call in launch:9 memcpy:9 memcpy:10; do
    # shellcheck disable=SC2086
    says 1 'a failure of the stand-in' "$call fails" \
        cuda WEFT_STANDIN_FAIL=$call "$weft" run $program --device cuda
done

# --- tools of NVIDIA ------------------------------------------------------------------------------------------------------
if [ -f "$standin/libnvtx.so" ]; then
    ranks="$case/rank0.after.default.pdmodel $case/rank1.after.default.pdmodel"
    # shellcheck disable=SC2086
    says 0 'recorded  difference' 'a run that a tool looks at' \
        cuda NVTX_INJECTION64_PATH="$standin/libnvtx.so" WEFT_STANDIN_RANGES="$folder/ranges" "$weft" run $ranks \
        --params "$case/params.npz" --feed "$case/feeds.npz" --fetch "$loss" --device cuda --expect "$golden"
    prints 0 '^  c_allreduce_sum on ring [0-9]+: .' \
        'a collective is a range with its ring and bucket' cat "$folder/ranges"
    prints 0 '^  matmul_v2: |^  mul: ' 'so is an op, with its result' cat "$folder/ranges"
    prints 0 '^step$' 'they are within their step' cat "$folder/ranges"
fi

prints 0 '^0 of [0-9]+ instructions would run on the host' 'plan --device' \
    cuda "$weft" plan "$case/serial.pdmodel" --device cuda
[ -d "$with_host" ] && prints 0 '^arg_max #[0-9]+: no kernel for GPUs' 'plan --device names what runs on the host' \
    cuda "$weft" plan "$with_host/serial.pdmodel" --device cuda
prints 0 '^0 of [0-9]+ instructions' 'plan --device cpu' "$weft" plan "$case/serial.pdmodel" --device cpu
says 1 'no device "abacus": there are cpu, cuda' 'an unknown device' "$weft" plan "$case/serial.pdmodel" --device abacus

# --- several ranks: rings of NCCL ---------------------------------------------------------------------------------------
prints 0 '^NCCL *yes +2\.' 'NCCL' cuda "$weft" info
ranks() { # FORM OPTIONS... : rank programs of the case
    form=$1
    shift
    # shellcheck disable=SC2086
    "$weft" run "$case/rank0.$form" "$case/rank1.$form" --ranks 2 ${program#* } "$@"
}
for form in pdmodel after.default.pdmodel; do
    ranks $form >"$folder/cpu.csv" 2>"$folder/err"
    ok $? "$form on CPUs"
    for seed in 1 2 3; do
        WEFT_CUDA_PATH=$standin WEFT_STANDIN_SEED=$seed ranks $form --device cuda >"$folder/cuda.csv" 2>"$folder/err"
        ok $? "$form on 2 GPUs: $(cat "$folder/err")"
        "$PYTHON" - "$folder/cpu.csv" "$folder/cuda.csv" <<'PY'
import csv, sys
a, b = ([float(r['value']) for r in csv.DictReader(open(f))] for f in sys.argv[1:])
assert len(a) == len(b) > 4 and all(abs(x - y) <= 1e-4 * abs(x) for x, y in zip(a, b)), (a, b)
PY
        ok $? "$form, seed $seed: losses on GPUs are those of CPUs"
        [ $seed = 1 ] && cp "$folder/cuda.csv" "$folder/first.csv"
        cmp "$folder/first.csv" "$folder/cuda.csv"
        ok $? "$form, seed $seed: the bits of seed 1"
    done
done
fails() { # FAIL PATTERN WHAT
    WEFT_CUDA_PATH=$standin WEFT_STANDIN_FAIL=$1 ranks pdmodel --device cuda --watchdog 0.3:0.5 >"$folder/out" 2>"$folder/err"
    [ $? = 1 ] && grep -q -E "$2" "$folder/err"
    ok $? "$3: $(cat "$folder/err")"
}
fails allreduce:3 'rank [01], .*c_allreduce_sum.*ring.*a failure of the stand-in' 'a collective that is refused'
fails hang:5 'ring' 'a collective that does not end'
fails init:2 'ncclCommInitRankConfig' 'a rank without a communicator'
WEFT_CUDA_PATH=$standin WEFT_STANDIN_GPUS=1 ranks pdmodel --device cuda 2>"$folder/err"
grep -q '2 ranks on 1 GPU: NCCL needs one for each' "$folder/err"
ok $? 'fewer GPUs than ranks'

# --- what a release of NCCL lacks is done without -------------------------------------------------------------------------
WEFT_CUDA_PATH=$standin WEFT_STANDIN_FAIL=window:1 ranks after.default.pdmodel --device cuda 2>"$folder/err"
grep -q 'ncclCommWindowRegister: a failure of the stand-in' "$folder/err"
ok $? 'buffers are registered as windows'
lacking() { # FAIL FUNCTION... : without the functions nothing calls what would fail
    fail=$1
    shift
    mkdir "$folder/lacking"
    cp -r "$standin/." "$folder/lacking"
    for function; do
        LC_ALL=C sed -i "s/$function/$(echo "$function" | tr 'm' 'M')/g" "$folder/lacking/libnccl.so.2"
    done
    WEFT_CUDA_PATH=$folder/lacking WEFT_STANDIN_FAIL=$fail ranks after.default.pdmodel --device cuda >"$folder/cuda.csv" 2>"$folder/err"
    ok $? "NCCL without $*: $(cat "$folder/err")"
    cmp "$folder/first.csv" "$folder/cuda.csv"
    ok $? "NCCL without $*: the same bits"
    rm -r "$folder/lacking"
}
lacking window:1 ncclCommWindowRegister
lacking register:1 ncclCommWindowRegister ncclCommRegister
lacking window:1 ncclMemAlloc

# --- how NCCL runs a collective: by attrs of its op ---------------------------------------------------------------------------
configured() { # FILE ATTRS: sums, and each other kind that can be told
    cat >"$folder/$1" <<EOF
weft: 1
rings: {0: [0, 1]}
blocks:
- vars:
    x: {float32: [4, 3]}
    sum: {float32: [4, 3]}
    root: {float32: [4, 3]}
    sent: {float32: [4, 3]}
    all: {float32: [8, 3]}
    part: {float32: [2, 3]}
  ops:
  - {c_allreduce_sum: {X: [x]}, out: {Out: [sum]}, attrs: {ring_id: 0$2}}
  - {c_reduce_sum: {X: [x]}, out: {Out: [root]}, attrs: {ring_id: 0, root_id: 1$2}}
  - {c_broadcast: {X: [sum]}, out: {Out: [sent]}, attrs: {ring_id: 0, root: 1$2}}
  - {c_allgather: {X: [sent]}, out: {Out: [all]}, attrs: {ring_id: 0, nranks: 2$2}}
  - {c_reducescatter: {X: [sum]}, out: {Out: [part]}, attrs: {ring_id: 0, nranks: 2$2}}
EOF
}
"$PYTHON" -c "import numpy, sys; numpy.savez(sys.argv[1], x=numpy.arange(24, dtype='float32').reshape(8, 3))" "$folder/x.npz"
feed="--feed $folder/x.npz --fetch root,sent,all,part --steps 1"
configured told.yaml ', nccl_algorithm: "RING_LL,TREE_LL", nccl_ctas: 8, nccl_policy: 1'
# shellcheck disable=SC2086
"$weft" run "$folder/told.yaml" --ranks 2 $feed --save "$folder/cpu.npz" >"$folder/out" 2>"$folder/err"
ok $? "on CPUs nobody is told: $(cat "$folder/err")"
# shellcheck disable=SC2086
cuda WEFT_STANDIN_CONFIGS="$folder/configs" "$weft" run "$folder/told.yaml" --ranks 2 $feed --device cuda \
    --save "$folder/told.npz" >"$folder/out" 2>"$folder/err"
ok $? "NCCL is told of each collective: $(cat "$folder/err")"
same_bits "$folder/cpu.npz" "$folder/told.npz" 'NCCL is told'
for call in 'AllReduce of op 0' 'AllReduce of op 1' 'Broadcast of op 2' 'AllGather of op 3' 'ReduceScatter of op 4'; do
    [ "$(grep -c "^nccl$call: RING_LL,TREE_LL, CTAs 8, policy 1\$" "$folder/configs")" = 2 ]
    ok $? "both ranks say it of nccl$call: $(cat "$folder/configs")"
done
# shellcheck disable=SC2086
says 1 'all_reduce: a failure of the stand-in' 'a configuration that is refused' \
    cuda WEFT_STANDIN_FAIL=config:1 "$weft" run "$folder/told.yaml" --ranks 2 $feed --device cuda
for call in ncclBroadcast ncclAllGather ncclReduceScatter; do
    # shellcheck disable=SC2086
    says 1 'rank [01], .*a failure of the stand-in' "$call fails" \
        cuda WEFT_STANDIN_FAIL=$call:1 "$weft" run "$folder/told.yaml" --ranks 2 $feed --device cuda
    # shellcheck disable=SC2086
    says 1 'rank [01], .*a failure of the stand-in' "$call fails, and an abort launches late what another began" \
        cuda WEFT_STANDIN_FAIL=$call:1 WEFT_STANDIN_BEND=groupend.slow:1,abort.late:0 \
        "$weft" run "$folder/told.yaml" --ranks 2 $feed --device cuda
done
cat >"$folder/pair.yaml" <<EOF
weft: 1
rings: {0: [0, 1]}
blocks:
- vars:
    x: {float32: [4, 3]}
    "y": {float32: [4, 3]}
  ops:
  - {alltoall: {X: [x]}, out: {Out: ["y"]}, attrs: {ring_id: 0}}
EOF
for n in 1 2 5; do # sends and receives
    says 1 'rank [01], .*a failure of the stand-in' "send or receive $n fails" cuda WEFT_STANDIN_FAIL="ncclSend or ncclRecv:$n" \
        "$weft" run "$folder/pair.yaml" --ranks 2 --feed "$folder/x.npz" --fetch "y" --steps 1 --device cuda
done
# shellcheck disable=SC2086
cuda WEFT_STANDIN_LOSE=config:2 "$weft" run "$folder/told.yaml" --ranks 2 $feed --device cuda >"$folder/out" 2>"$folder/err"
grep -q 'ranks configure a collective differently' "$folder/err"
ok $? 'a rank that does not say it is found'
breaks() { # WORDS WHAT WAY PROGRAM FETCHES: a device that breaks a rule
    cuda "$3" "$weft" run "$4" --ranks 2 --feed "$folder/x.npz" --fetch "$5" --steps 1 --device cuda >"$folder/out" 2>"$folder/err"
    grep -q "$1" "$folder/err"
    ok $? "$2: $(cat "$folder/err")"
}
breaks "a collective's config that was not initialised" 'a config that is none' WEFT_STANDIN_BEND=config.raw:1 "$folder/told.yaml" root,sent
breaks "a collective's config that forces 2" 'a config that forces' WEFT_STANDIN_BEND=config.forces:1 "$folder/told.yaml" root,sent
breaks 'nothing can go: stream' 'sends and receives that no group joins' WEFT_STANDIN_LOSE=groupstart:0,groupend:0 "$folder/pair.yaml" y
cp -r "$standin" "$folder/untold"
LC_ALL=C sed -i 's/nccl\([A-Za-z]*\)Config/nccl\1COnfig/g; s/ncclCommInitRankCOnfig/ncclCommInitRankConfig/g' "$folder/untold/libnccl.so.2"
# shellcheck disable=SC2086
says 0 '' 'a release that cannot be told' env WEFT_CUDA_PATH="$folder/untold" WEFT_STANDIN_FAIL=config:1 \
    "$weft" run "$folder/told.yaml" --ranks 2 $feed --device cuda
configured none.yaml ', nccl_ctas: 0'
# shellcheck disable=SC2086
says 1 'c_allreduce_sum.*nccl_ctas is 0: expected 1 to 64' 'no CTA' \
    cuda "$weft" run "$folder/none.yaml" --ranks 2 $feed --device cuda
# A pass says it, of programs that data_parallel made.
case=$fixtures/paddle26/mlp_sgd_dp2
if [ -f "$case/serial.pdmodel" ]; then
    printf 'machine: h100\nlinks: [{ranks: 8, bytes_per_second: 3.7e+11}, {bytes_per_second: 5.0e+10}]\n' >"$folder/h100.yaml"
    printf 'passes:\n  - data_parallel: {ranks: 2}\n  - overlap_comm\n  - coalesce_grads\n' >"$folder/plain.yaml"
    { cat "$folder/plain.yaml" && echo "  - configure_nccl: {cluster: $folder/h100.yaml, ctas_beside: 4, policy: 1}"; } >"$folder/said.yaml"
    rm -f "$folder/configs"
    for list in plain said; do
        "$weft" opt -q "$case/serial.pdmodel" --passes "$folder/$list.yaml" -o "$folder/$list.pdmodel" &&
            cuda WEFT_STANDIN_CONFIGS="$folder/configs" "$weft" run "$folder/$list.pdmodel" --ranks 2 --params "$case/params.npz" \
                --feed "$case/feeds.npz" --device cuda --save "$folder/$list.npz" >"$folder/out" 2>"$folder/err"
        ok $? "$list trains: $(cat "$folder/err")"
    done
    same_bits "$folder/plain.npz" "$folder/said.npz" 'what configure_nccl writes'
    [ -s "$folder/configs" ] && ! grep -v '^ncclAllReduce of op [0-9]*: [A-Z]*_[A-Z0-9]*, CTAs 4, policy 1$' "$folder/configs"
    ok $? "NCCL gets what configure_nccl wrote: $(head -n 3 "$folder/configs")"
fi
configured one.yaml ', nccl_ctas: 8'
sed 's/^weft: 1/weft: 1\nrank: 0/' "$folder/told.yaml" >"$folder/rank0.yaml"
sed 's/^weft: 1/weft: 1\nrank: 1/' "$folder/one.yaml" >"$folder/rank1.yaml"
# shellcheck disable=SC2086
says 1 'ring 0: ranks 0 and 1 say different things of how NCCL runs its collectives' 'ranks that do not agree' \
    cuda "$weft" run "$folder/rank0.yaml" "$folder/rank1.yaml" $feed --unsafe --device cuda

# --- truth is a byte: sums of it are "or", products "and" --------------------------------------------------------------------
cat >"$folder/truth.yaml" <<EOF
weft: 1
rings: {0: [0, 1, 2]}
blocks:
- vars:
    x: {bool: [2, 4]}
    any: {bool: [2, 4]}
    all: {bool: [2, 4]}
    most: {bool: [2, 4]}
  ops:
  - {c_allreduce_sum: {X: [x]}, out: {Out: [any]}, attrs: {ring_id: 0}}
  - {c_allreduce_prod: {X: [x]}, out: {Out: [all]}, attrs: {ring_id: 0}}
  - {c_allreduce_max: {X: [x]}, out: {Out: [most]}, attrs: {ring_id: 0}}
EOF
"$PYTHON" - "$folder/x.npz" <<'EOF'
import numpy, sys
n = numpy.arange(24)
x = ((n // 8 + 1) >> (n % 4) & 1 == 1) | (n % 8 == 7)
x = x.reshape(3, 2, 4)
assert (x.sum(0) > 1).any() and (x.sum(0) == 0).any() and x.all(0).any(), x.sum(0)
numpy.savez(sys.argv[1], x=x.reshape(6, 4))
EOF
ok $? 'some are true on several ranks, some on none, some on all'
for device in cpu cuda; do
    cuda "$weft" run "$folder/truth.yaml" --ranks 3 --feed "$folder/x.npz" --fetch any,all,most --steps 1 \
        --device $device --save "$folder/$device.npz" >"$folder/out" 2>"$folder/err"
    ok $? "truth on $device: $(cat "$folder/err")"
done
same_bits "$folder/cpu.npz" "$folder/cuda.npz" 'truth'
# Kernels of two rings start in the order of launches, unless the user has it otherwise.
NCCL_LAUNCH_ORDER_IMPLICIT=0 WEFT_CUDA_PATH=$standin ranks pdmodel --device cuda >"$folder/out" 2>"$folder/err"
grep -q 'NCCL_LAUNCH_ORDER_IMPLICIT is 0' "$folder/err"
ok $? "what the user says of NCCL's order stays: $(cat "$folder/err")"

# --- several ranks on one GPU --------------------------------------------------------------------------------------------
for seed in 1 2 3; do
    WEFT_CUDA_PATH=$standin WEFT_STANDIN_GPUS=1 WEFT_STANDIN_SEED=$seed ranks pdmodel --device cuda --rings loopback \
        >"$folder/loop.csv" 2>"$folder/err"
    ok $? "--rings loopback: $(cat "$folder/err")"
    WEFT_CUDA_PATH=$standin ranks pdmodel --device cuda >"$folder/cuda.csv" 2>"$folder/err"
    cmp "$folder/cuda.csv" "$folder/loop.csv"
    ok $? "--rings loopback, seed $seed: the bits of a GPU for each"
done
# shellcheck disable=SC2086
says 1 'no engine "morse" of rings on GPUs: there are nccl, loopback' 'another engine' \
    cuda "$weft" run "$case/rank0.pdmodel" "$case/rank1.pdmodel" --ranks 2 ${program#* } --device cuda --rings morse
# shellcheck disable=SC2086
says 1 'rings of engine loopback: device cpu has its own' 'on CPUs' "$weft" run $program --rings loopback
# shellcheck disable=SC2086
says 2 'rings: expected nccl, loopback or loopback:GB, found "loopback:fast"' 'no bandwidth' \
    "$weft" run $program --device cuda --rings loopback:fast
finish
