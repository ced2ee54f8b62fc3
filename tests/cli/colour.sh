#!/bin/sh
# Colours: on a terminal, unless NO_COLOR or --color say otherwise; nowhere else.
. tests/support/shell.sh
escape=$(printf '\033')
weft_file=$(cd "$(dirname "$weft")" && pwd)/weft
program=tests/golden/full_list/out.yaml
command -v script >/dev/null || { echo "0 passed, 0 failed, 1 skipped (no script)"; exit 0; }
on_terminal() { TERM=xterm script -qec "$*" /dev/null </dev/null >"$folder/out"; }
coloured() { grep -q "$escape\[" "$folder/out"; }

on_terminal "$weft_file" show $program; coloured; ok $? 'show on a terminal is coloured'
on_terminal "NO_COLOR=1 $weft_file" show $program; coloured; [ $? = 1 ]; ok $? 'not with NO_COLOR'
on_terminal "NO_COLOR= $weft_file" show $program; coloured; ok $? 'an empty NO_COLOR says nothing'
on_terminal "TERM=dumb $weft_file" show $program; coloured; [ $? = 1 ]; ok $? 'not on a dumb terminal'
on_terminal "$weft_file" show $program --color=never; coloured; [ $? = 1 ]; ok $? 'not with --color=never'
"$weft" show $program >"$folder/out"; coloured; [ $? = 1 ]; ok $? 'not in a pipe'
"$weft" show $program --color always >"$folder/out"; coloured; ok $? 'but with --color always'
sed "s/$escape\[[0-9;]*m//g" "$folder/out" >"$folder/stripped"
"$weft" show $program | cmp -s - "$folder/stripped"; ok $? 'the text is the same'
NO_COLOR=1 "$weft" show $program --color=always >"$folder/out"; coloured; ok $? '--color=always is stronger than NO_COLOR'
"$weft" diff $program tests/golden/full_list/in.yaml --color=always >"$folder/out" 2>/dev/null; coloured; ok $? 'diff'
"$weft" show "$folder/none.yaml" --color=always >"$folder/ignored" 2>"$folder/out"; coloured; ok $? 'errors'
says 2 '--color: expected auto, always or never, found "red"' 'another word' "$weft" show $program --color=red
prints 0 '--color WHEN' 'every command has it' "$weft" info --help

# --- progress and results on one terminal: no line is written over ---
model=examples/gpt_tiny
on_terminal "$weft_file run $model/serial.pdmodel --params $model/params.npz --feed $model/feeds.npz --fetch mean_0.tmp_0"
[ "$(tr -d '\r' <"$folder/out" | grep -c '^[0-9],0,mean_0.tmp_0,')" = 10 ]; ok $? 'every line of the CSV stands alone'
! grep -q 'steps/s' "$folder/out"; ok $? 'without progress in between'
on_terminal "$weft_file run $model/serial.pdmodel --params $model/params.npz --feed $model/feeds.npz --fetch mean_0.tmp_0 >$folder/csv"
grep -q 'steps/s .*left' "$folder/out" && [ "$(wc -l <"$folder/csv")" = 11 ]; ok $? 'progress has the rate and the time left where results go to a file'
finish
