#!/bin/sh
# check_gpu.sh FOLDER [PART...]: what must hold on a machine with a GPU, a line each. FOLDER has weft, weft_cuda.so and
# tests/, as `make check-gpu` puts them together; the machine needs a driver, CUDA's libraries, and nothing else. Run it
# from the repository's root. Each part takes less than 8 minutes; no PART: all. GPU=1: no GPU is an error. The machine's
# own WEFT_CUDA_PATH is heeded, so that the stand-ins can take a GPU's place: that says nothing of GPUs.
set -u
at=$1
shift
parts=${*:-info kernels joined programs nccl several loopback repeat speed overlap sanitize}
limit=470
weft=$at/weft
[ -d "$at/lib" ] && export LD_LIBRARY_PATH="$at/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
# PyTorch's packages have CUDA's libraries where the system does not look.
if [ -z "${WEFT_CUDA_PATH:-}" ]; then
    wheels=$(python3 -c 'import glob, nvidia
print(":".join(d for p in nvidia.__path__ for d in sorted(glob.glob(p + "/*/lib"))))' 2>/dev/null)
    [ -n "$wheels" ] && export LD_LIBRARY_PATH="${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$wheels"
fi
export WEFT_TEST_GPU=1 WEFT_FIXTURES=tests/data WEFT_PLUGIN_PATH="$at"
logs=$at/check-gpu
mkdir -p "$logs"
nfailed=0 nran=0

row() { # PART RESULT SECONDS WORDS
    printf '%-10s %-8s %5s s  %s\n' "$1" "$2" "$3" "$4"
}

# A part prints what it found, in its last line, and fails as a command does.
run_part() { # PART COMMAND...
    part=$1
    shift
    begun=$(date +%s)
    timeout $limit "$@" >"$logs/$part.log" 2>&1
    status=$?
    took=$(($(date +%s) - begun))
    words=$(tail -n 1 "$logs/$part.log")
    case $status in
    0) case $words in
        skipped:*) row "$part" skipped "$took" "${words#skipped: }" ; return ;;
        *) row "$part" passed "$took" "$words" ;;
        esac ;;
    124) row "$part" FAILED "$took" "not done after $limit s ($logs/$part.log)" ;;
    *) row "$part" FAILED "$took" "exit $status: $words ($logs/$part.log)" ;;
    esac
    nran=$((nran + 1))
    [ $status = 0 ] || nfailed=$((nfailed + 1))
}

# --- parts made of commands: the functions run in a shell of their own, below --------------------------------------------
case=tests/data/paddle26/mlp_sgd_dp2
loss=$(sed -n 's/^ *"loss": "\(.*\)".*/\1/p' "$case/case.json" | tail -n 1)
train() { # PROGRAMS OPTIONS... : three steps or more of a recorded program
    programs=$1
    shift
    # shellcheck disable=SC2086
    "$weft" run $programs --params "$case/params.npz" --feed "$case/feeds.npz" --fetch "$loss" "$@"
}
same_losses() { # FILE FILE : within 1e-4
    paste -d, "$1" "$2" | awk -F, '
        NR > 1 { n++; d = $4 - $8; d = d < 0 ? -d : d; m = $4 < 0 ? -$4 : $4; if (d > 1e-4 * m || $8 == "") bad++ }
        END { exit !(n > 2 && !bad) }'
}

# One rank through all of NCCL: what it sums is its own, so that CPUs compute the same. The program is that of a rank of
# two, with the rings and the batch of one.
part_nccl() {
    "$weft" opt "$case/serial.pdmodel" -o "$logs/two.yaml" --passes configs/data_parallel.yaml \
        --set data_parallel.ranks=2 || return 1
    sed -e 's/\[8, /[16, /g' -e 's/^  0: \[0, 1\]/  0: [0]/' -e 's/shape: \[2\], ids: \[0, 1\]/shape: [1], ids: [0]/' \
        "$logs/two.yaml" >"$logs/alone.yaml"
    grep -q c_allreduce_sum "$logs/alone.yaml" || return 1
    train "$logs/alone.yaml" --ranks 1 --unsafe >"$logs/nccl.cpu.csv" || return 1
    for graph in '' --no-graph; do
        # shellcheck disable=SC2086
        train "$logs/alone.yaml" --ranks 1 --unsafe --device cuda --rings nccl $graph \
            --save "$logs/nccl$graph.npz" >"$logs/nccl$graph.csv" || return 1
        same_losses "$logs/nccl.cpu.csv" "$logs/nccl$graph.csv" || { echo "losses differ from those of CPUs"; return 1; }
    done
    cmp "$logs/nccl.npz" "$logs/nccl--no-graph.npz" || return 1
    echo "1 rank over NCCL: losses of CPUs, the same bits as a graph and op by op"
}

ranks="$case/rank0.after.default.pdmodel $case/rank1.after.default.pdmodel"

# Two ranks over NCCL, where there are two GPUs.
part_several() {
    ngpus=$("$weft" info | sed -n 's/^CUDA *yes.*, \([0-9]*\) devices*,.*/\1/p')
    [ "${ngpus:-1}" -gt 1 ] || { echo 'skipped: one GPU'; return 0; }
    train "$ranks" --ranks 2 >"$logs/several.cpu.csv" || return 1
    for graph in '' --no-graph; do
        # shellcheck disable=SC2086
        train "$ranks" --ranks 2 --device cuda $graph --save "$logs/several$graph.npz" >"$logs/several$graph.csv" ||
            return 1
        same_losses "$logs/several.cpu.csv" "$logs/several$graph.csv" || { echo "losses differ from those of CPUs"; return 1; }
    done
    cmp "$logs/several.npz" "$logs/several--no-graph.npz" || return 1
    echo "2 ranks over NCCL: losses of CPUs, the same bits as a graph and op by op"
}

part_repeat() {
    for time in 1 2 3 4 5; do
        train "$ranks" --ranks 2 --device cuda --rings loopback --save "$logs/repeat$time.npz" >"$logs/repeat$time.csv" ||
            return 1
        cmp "$logs/repeat1.npz" "$logs/repeat$time.npz" && cmp "$logs/repeat1.csv" "$logs/repeat$time.csv" || return 1
    done
    echo "2 ranks by loop-back, 5 runs: the same bits"
}

part_joined() {
    "$at/tests/plain/cuda_epilogues" && "$at/tests/plain/cuda_halves"
}

# Drawn networks, beside torch. CHECK_GPU_TINY=1: of a few rows, which only shows that the script works.
has_numpy() {
    for python in python3 /usr/bin/python3; do
        "$python" -c 'import numpy' 2>/dev/null && return 0
    done
    echo 'skipped: python3 has no numpy'
    return 1
}
part_speed() {
    has_numpy || return 0
    "$python" tools/gpu_speed.py "$weft" ${CHECK_GPU_TINY:+--tiny --steps 4}
}

# 4 ranks on one GPU, whose rings are as slow as links of 25 GB a second.
part_overlap() {
    has_numpy || return 0
    "$python" tools/gpu_speed.py "$weft" --overlap ${CHECK_GPU_TINY:+--tiny --steps 4}
}

part_sanitize() {
    tool=$(command -v compute-sanitizer || ls /usr/local/cuda*/bin/compute-sanitizer 2>/dev/null | head -n 1)
    [ -n "$tool" ] || { echo 'skipped: there is no compute-sanitizer'; return 0; }
    for kind in memcheck racecheck synccheck; do
        # shellcheck disable=SC2086
        "$tool" --tool $kind --error-exitcode 7 "$weft" run $ranks --ranks 2 --params "$case/params.npz" --feed "$case/feeds.npz" \
            --fetch "$loss" --steps 3 --device cuda --rings loopback >"$logs/$kind.log" 2>&1 || {
            cat "$logs/$kind.log"
            grep -q 'Device not supported' "$logs/$kind.log" && { echo "skipped: $kind: Device not supported"; return 0; }
            echo "$kind is not clean"
            return 1
        }
    done
    echo 'memcheck, racecheck and synccheck are clean'
}

if [ "${CHECK_GPU_PART:-}" ]; then
    "part_$CHECK_GPU_PART"
    exit
fi

# --- what there is -------------------------------------------------------------------------------------------------------
"$weft" info >"$logs/info.log" 2>&1
why=$(sed -n 's/^CUDA *no *//p' "$logs/info.log")
if ! grep -q '^CUDA *yes' "$logs/info.log"; then
    for part in $parts; do
        [ "$part" = info ] || row "$part" skipped 0 "no GPU: ${why:-the command does not run}"
    done
    echo "0 parts ran: nothing is known of GPUs from this"
    [ "${GPU:-}" != 1 ]
    exit
fi
for part in $parts; do
    case $part in
    info) date -u '+%Y-%m-%d %H:%M UTC'
        grep -E '^(CUDA|NCCL)' "$logs/info.log"
        nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader 2>/dev/null ;;
    kernels) run_part kernels "$at/tests/plain/cuda_kernels" ;;
    programs) run_part programs "$at/tests/plain/cuda_device" ;;
    loopback) run_part loopback "$at/tests/plain/cuda_loopback" ;;
    joined | nccl | several | repeat | sanitize) run_part "$part" env CHECK_GPU_PART="$part" sh "$0" "$at" ;;
    speed | overlap)
        run_part "$part" env CHECK_GPU_PART="$part" sh "$0" "$at"
        sed '$d' "$logs/$part.log" ;;
    *) echo "no part \"$part\": there are info, kernels, joined, programs, nccl, several, loopback, repeat, speed, overlap, sanitize" >&2; exit 2 ;;
    esac
done
echo "$nran parts ran, $nfailed failed"
[ $nfailed = 0 ]
