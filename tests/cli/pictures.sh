#!/bin/sh
# weft show --dot and --svg: a program, the ops around one, the communication of a ring.
. tests/support/shell.sh
cat >"$folder/p.yaml" <<'END2'
weft: 1
blocks:
- idx: 0
  vars:
    w: {float32: [4], persistable: true}
    a: {float32: [4]}
    b: {float32: [4]}
    c: {float32: [4]}
    d: {float32: [4]}
    e: {float32: [4]}
  ops:
  - {relu: {X: [w]}, out: {Out: [a]}}
  - {relu: {X: [a]}, out: {Out: [b]}}
  - {c_allreduce_sum: {X: [b]}, out: {Out: [b]}, attrs: {ring_id: 0}}
  - {relu: {X: [b]}, out: {Out: [c]}}
  - {relu: {X: [c]}, out: {Out: [d]}}
  - {relu: {X: [d]}, out: {Out: [e]}}
END2
picture() { "$weft" show "$folder/p.yaml" --dot "$@"; }
drawn() { sed -n 's/^  op\([0-9]*\) \[.*/\1/p' "$folder/out" | tr '\n' ' '; }
prints 0 'op2 -> op3 \[label="b"\]' 'an arrow goes from the op that wrote the value last' picture
! grep -q 'op1 -> op3' "$folder/out"; ok $? 'and from no other'
grep -q '"v w" -> op0' "$folder/out" && grep -q '"v w" \[shape=oval.*float32\[4\]' "$folder/out"; ok $? 'parameters are ovals with their types'
[ "$(drawn)" = '0 1 2 3 4 5 ' ]; ok $? 'every op is drawn'
picture --around 2 --depth 1 >"$folder/out"; [ "$(drawn)" = '1 2 3 ' ]; ok $? "--around draws what is so far away: $(drawn)"
picture --around 0 >"$folder/out"; [ "$(drawn)" = '0 1 2 ' ]; ok $? "two arrows by default: $(drawn)"
picture --ring 0 >"$folder/out"; [ "$(drawn)" = '1 2 3 ' ]; ok $? "--ring draws its collectives and their neighbours: $(drawn)"
picture --ring 0 --depth 0 >"$folder/out"; [ "$(drawn)" = '2 ' ]; ok $? "or these alone: $(drawn)"
says 1 'no op is on ring 7' 'a ring that nothing uses' picture --ring 7
says 1 'block 0 has 6 ops, found 6' 'an op that is not there' picture --around 6
says 2 '--around: expected --dot or --svg' 'a part of no picture' "$weft" show "$folder/p.yaml" --around 1
says 2 '--json: expected without --dot' 'two forms at once' picture --json
# Events between streams.
"$weft" opt examples/gpt_tiny/serial.pdmodel --quiet --passes 'data_parallel: {ranks: 2}, overlap_comm' -o "$folder/dp.yaml"
prints 0 'style=dashed' 'waits for events are dashed' "$weft" show "$folder/dp.yaml" --dot --ring 0

prints 0 'edgetooltip="' 'a large picture has no names at its arrows' "$weft" show "$folder/dp.yaml" --dot
grep -q 'splines=line' "$folder/out"; ok $? 'and straight arrows'

# --- SVG: by dot, where it is there ---
mkdir "$folder/bin" "$folder/empty"
weft_file=$(cd "$(dirname "$weft")" && pwd)/weft
printf '#!/bin/sh\n[ "$1" = -Tsvg ] || exit 9\necho "<svg>"; sed -n "s/^  op2 -> .*/<!-- & -->/p"\n' >"$folder/bin/dot"
chmod +x "$folder/bin/dot"
prints 0 '<svg>' '--svg hands the picture to dot' env PATH="$folder/bin:$PATH" "$weft" show "$folder/p.yaml" --svg
grep -q 'op2 -> op3' "$folder/out"; ok $? 'the whole of it'
says 1 'there is no "dot" in PATH; --dot prints' 'without dot' env PATH="$folder/empty" "$weft_file" show "$folder/p.yaml" --svg
printf '#!/bin/sh\nexit 3\n' >"$folder/bin/dot"
says 1 'dot: it failed with exit status 3' 'a dot that fails' env PATH="$folder/bin:$PATH" "$weft" show "$folder/p.yaml" --svg
if command -v dot >/dev/null; then
    prints 0 '</svg>' 'Graphviz takes what is printed' "$weft" show "$folder/dp.yaml" --svg --ring 0
else
    skipped=$((skipped + 1))
fi
finish
