#!/bin/sh
# No kernel for GPUs puts registers into memory, but for a list with reasons. The build keeps what ptxas said.
. tests/support/shell.sh
log=$(dirname "$(dirname "$weft")")/cuda/ptxas.log
list=tools/ptxas_spills.txt
cat >"$folder/log" <<'END'
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'one' for 'sm_80'
ptxas info    : Function properties for one
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Compiling entry function 'two' for 'sm_80'
ptxas info    : Function properties for two
    16 bytes stack frame, 12 bytes spill stores, 20 bytes spill loads
END
: >"$folder/none"
prints 1 'two for sm_80: 12 bytes of spill stores, 20 of loads' 'a kernel that spills is found' \
    sh tools/ptxas_spills.sh "$folder/log" "$folder/none"
echo 'tw* * 32 it has so many' >"$folder/list"
prints 0 '^2 kernels compiled' 'one with a reason may' sh tools/ptxas_spills.sh "$folder/log" "$folder/list"
echo 'two sm_90 32 on another GPU' >"$folder/list"
prints 1 'two for sm_80' 'not on another GPU' sh tools/ptxas_spills.sh "$folder/log" "$folder/list"
echo 'two sm_80 31 not so much' >"$folder/list"
prints 1 'two for sm_80' 'nor more than the list says' sh tools/ptxas_spills.sh "$folder/log" "$folder/list"
echo 'two sm_80 32' >"$folder/list"
prints 1 'no reason' 'one without may not' sh tools/ptxas_spills.sh "$folder/log" "$folder/list"
prints 1 '^0 kernels' 'a log that says nothing' sh tools/ptxas_spills.sh "$folder/none" "$folder/none"
if [ -f "$log" ]; then
    prints 0 'kernels compiled' 'of ours none spills' sh tools/ptxas_spills.sh "$log" "$list"
else
    skipped=1
fi
finish
