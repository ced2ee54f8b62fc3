#!/bin/sh
# Programs that Paddle 2.6.2 or 3.3.1 trained: loops whose number of runs follows from constants or from what is fed, branches
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
# Recurrent layers are proved on ranks, though programs give what only their gradients read no type; and second gradients,
# whose products have gradients for operands.
for case in lstm wgan_gp; do
    "$weft" opt -q "tests/data/loops/$case/serial.yaml" --passes 'data_parallel: {ranks: 2}' -o "$folder/dp.yaml" 2>"$folder/err"
    for batch in '' '--batch 8'; do
        # shellcheck disable=SC2086
        prints 0 '^against the serial program: same over the real numbers' "$case on ranks is proved $batch" \
            "$weft" verify "$folder/dp.yaml" --against "tests/data/loops/$case/serial.yaml" $batch
    done
done
says 1 'how often it runs depends on data' "a number of runs that only a run knows is refused" \
    "$weft" plan tests/data/loops/while_data/serial.yaml
finish
