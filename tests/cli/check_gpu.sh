#!/bin/sh
# `make check-gpu`'s script, on stand-ins in the place of a GPU, and without one.
. tests/support/shell.sh
built=$(dirname "$weft")
standin=$built/standin
if ! [ -f "$built/weft_cuda.so" ]; then
    skipped=1
    finish
    exit
fi
mkdir "$folder/at" # it writes there what parts said
for file in weft weft_cuda.so; do ln -s "$PWD/$built/$file" "$folder/at/$file"; done
prints 0 '^nccl +passed .* the same bits as a graph and op by op' 'NCCL with one rank' \
    env WEFT_CUDA_PATH="$standin" sh tools/check_gpu.sh "$folder/at" nccl
prints 0 '^several +passed .* the same bits as a graph and op by op' 'NCCL with two ranks' \
    env WEFT_CUDA_PATH="$standin" sh tools/check_gpu.sh "$folder/at" several
prints 0 '^several +skipped .* one GPU' 'which one GPU has no place for' \
    env WEFT_CUDA_PATH="$standin" WEFT_STANDIN_GPUS=1 sh tools/check_gpu.sh "$folder/at" several
# A bare machine: no compiler, no Python, and nothing in the environment.
mkdir "$folder/bin"
for tool in sh env sed awk grep paste cmp date timeout tail head cat mkdir ls dirname rm; do
    ln -s "$(command -v "$tool")" "$folder/bin/$tool"
done
prints 0 '^3 parts ran, 0 failed' 'a machine with nothing but a shell' \
    env -i PATH="$folder/bin" WEFT_CUDA_PATH="$standin" "$folder/bin/sh" tools/check_gpu.sh "$folder/at" \
    info nccl several repeat
prints 0 '^repeat +passed .* the same bits' 'runs again' \
    env WEFT_CUDA_PATH="$standin" sh tools/check_gpu.sh "$folder/at" repeat
prints 1 '^nccl +FAILED .* exit 1: .*a failure of the stand-in' 'a part that fails' \
    env WEFT_CUDA_PATH="$standin" WEFT_STANDIN_FAIL=allreduce:2 sh tools/check_gpu.sh "$folder/at" nccl
prints 1 '^2 parts ran, 1 failed' 'the others run' \
    env WEFT_CUDA_PATH="$standin" WEFT_STANDIN_FAIL=allreduce:2 sh tools/check_gpu.sh "$folder/at" nccl repeat
prints 0 '^CUDA +yes +13.0.*2 devices' 'what there is' \
    env WEFT_CUDA_PATH="$standin" WEFT_STANDIN_GPUS=2 sh tools/check_gpu.sh "$folder/at" info
for gpu in '' 1; do
    prints "${gpu:-0}" '^loopback +skipped +0 s +no GPU: no driver' "without a driver, GPU=$gpu" \
        env GPU="$gpu" WEFT_CUDA_PATH="$standin" WEFT_STANDIN_PROBE=35 sh tools/check_gpu.sh "$folder/at"
done
prints 0 '^0 parts ran: nothing is known of GPUs' 'without a driver nothing is claimed' \
    env WEFT_CUDA_PATH="$standin" WEFT_STANDIN_PROBE=35 sh tools/check_gpu.sh "$folder/at"
says 2 'no part "noise"' 'a part that is none' env WEFT_CUDA_PATH="$standin" sh tools/check_gpu.sh "$folder/at" noise
prints 0 '^tiny bfloat16 .* weft op by op +[0-9.]+ ms' 'a line for each figure' \
    env WEFT_CUDA_PATH="$standin" CHECK_GPU_TINY=1 sh tools/check_gpu.sh "$folder/at" speed
prints 0 '^overlap +passed .* of collectives behind backward' 'what of collectives is hidden' \
    env WEFT_CUDA_PATH="$standin" CHECK_GPU_TINY=1 sh tools/check_gpu.sh "$folder/at" overlap
prints 0 '^sanitize +(passed|skipped) ' 'sanitizers run, or it is said why not' \
    env WEFT_CUDA_PATH="$standin" sh tools/check_gpu.sh "$folder/at" sanitize
finish
