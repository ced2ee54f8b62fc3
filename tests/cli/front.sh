#!/bin/sh
# What a newcomer meets: the README's commands, ranks that need not be said, configurations found by name, errors told once.
. tests/support/shell.sh
model=examples/gpt_tiny

# --- ranks ---
"$weft" opt "$model/serial.pdmodel" --quiet --passes 'data_parallel: {ranks: 2}' -o "$folder/dp.pdmodel"
prints 0 '^0,1,mean_0' 'one program: its rings say how many ranks run it' \
    "$weft" run "$folder/dp.pdmodel" --params "$model/params.npz" --feed "$model/feeds.npz" --steps 1 --fetch mean_0.tmp_0
says 0 'on 2 ranks' 'simulate asks the rings too' "$weft" simulate "$folder/dp.pdmodel" --feed "$model/feeds.npz" --steps 1
says 1 'dp.pdmodel: its rings are made for 2 ranks, --ranks asks for 3' 'a program made for other ranks says so' \
    "$weft" run "$folder/dp.pdmodel" --ranks 3 --params "$model/params.npz" --feed "$model/feeds.npz" --steps 1
prints 0 '^0,0,mean_0' 'a program without rings runs on one rank' \
    "$weft" run "$model/serial.pdmodel" --params "$model/params.npz" --feed "$model/feeds.npz" --steps 1 --fetch mean_0.tmp_0
finish
