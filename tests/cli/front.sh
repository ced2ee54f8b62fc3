#!/bin/sh
# What a newcomer meets: the README's commands, ranks that need not be said, configurations found by name, errors told once.
. tests/support/shell.sh
. tests/support/python.sh
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

# --- errors ---
list=tests/golden/full_list/out.yaml
says 1 'no pass "nope"' 'every unknown pass is told: the first' "$weft" opt $list --passes 'nope, prune_grad_scale, nada: {a: 1}'
grep -q 'no pass "nada"' "$folder/err"; ok $? 'every unknown pass is told: the last'
[ "$(grep -c 'no pass "nope"' "$folder/err")" = 1 ]; ok $? 'an error is printed once'
printf 'weft: 1\nblocks: 3\n' >"$folder/bad.yaml"
says 1 'bad.yaml:2:9: error: expected a list of blocks' 'a file that is wrong' "$weft" show "$folder/bad.yaml"
[ "$(grep -c 'list of blocks' "$folder/err")" = 1 ]; ok $? 'its error is printed once'
says 1 'there is no var "NOPE"' 'show --var of no var' "$weft" show $list --var NOPE
prints 0 'sgd' 'show --var of a var' "$weft" show $list --var w

# --- progress: on a terminal alone ---
cat >"$folder/terminal.py" <<'END'
"""Runs a command with its stderr, and with "both" its stdout too, on a terminal of its own; prints what that showed."""
import os
import pty
import subprocess
import sys
leader, follower = pty.openpty()
out = follower if sys.argv[1] == 'both' else subprocess.DEVNULL
child = subprocess.Popen(sys.argv[2:], stdout=out, stderr=follower)
os.close(follower)
shown = b''
try:
    while chunk := os.read(leader, 65536):
        shown += chunk
except OSError:
    pass
sys.stdout.buffer.write(shown)
sys.exit(child.wait())
END
train() { # stderr|both
    "$PYTHON" "$folder/terminal.py" "$1" "$weft" run "$model/serial.pdmodel" --params "$model/params.npz" \
        --feed "$model/feeds.npz" --fetch mean_0.tmp_0
}
prints 0 'step 10/10 .*loss 5.* steps/s  0 s left' 'progress tells rate and time left' train stderr
train both >"$folder/out"; ! grep -q 'steps/s' "$folder/out"; ok $? 'no progress over results on one terminal'
grep -q '^9,0,mean_0' "$folder/out"; ok $? 'the results are there'

# --- benchmark scripts: any python3, and those that need numpy say so ---
mkdir "$folder/without" && echo 'raise ImportError("none here")' >"$folder/without/numpy.py"
for script in client data_parallel breadth; do # client.py takes cases, not options
    says 1 "$script.py: .* has no numpy.*/usr/bin/python3" "$script.py without numpy" \
        env PYTHONPATH="$folder/without" "$PYTHON" "bench/peers/$script.py" --help
    [ $script = client ] || prints 0 "usage: $script.py" "$script.py with numpy" "$PYTHON" "bench/peers/$script.py" --help
done
for script in steps programs profile_cost before; do
    prints 0 "usage: $script.py" "$script.py needs none" env PYTHONPATH="$folder/without" "$PYTHON" "bench/peers/$script.py" --help
done

# --- commands in the documentation work as printed ---
weft_folder=$(cd "$(dirname "$weft")" && pwd)
mkdir "$folder/clone"
for part in examples configs tests; do ln -s "$PWD/$part" "$folder/clone/$part"; done
try_commands() { # FILE: each "$ weft ..." in a copy of the tree; "# exit status N" where that is not 0
    sed -e ':join' -e '/\\$/{N;s/\\\n *//;b join' -e '}' "$1" | sed -n 's/^\$ \(weft .*\)/\1/p' >"$folder/commands"
    while read -r line; do
        expected=$(echo "$line" | sed -n 's/.*# exit status //p')
        (cd "$folder/clone" && PATH="$weft_folder:$PATH" && eval "$line") </dev/null >"$folder/out" 2>"$folder/err"
        got=$?
        [ $got = "${expected:-0}" ] || tail -n 3 "$folder/err"
        ok $((got != ${expected:-0})) "$1: $line"
    done <"$folder/commands"
}
try_commands README.md
try_commands docs/tour.md
for page in README.md docs/*.md docs/guides/*.md; do
    for target in $(grep -o '](\([^)#:]*\))' "$page" | sed 's/](\(.*\))/\1/'); do
        [ -e "$(dirname "$page")/$target" ]; ok $? "$page links to $target"
    done
done
finish
