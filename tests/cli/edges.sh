#!/bin/sh
# Ops that only order, hand in or out (feed, fetch, feed_v2, fetch_v2), or ask, and are in no recording: a program
# computes with them what it computes without.
. tests/support/shell.sh
. tests/support/python.sh
write() { # NAME LINES
    {
        cat <<'END'
weft: 1
blocks:
- vars:
    feed: {kind: feed_minibatch, persistable: true}
    fetch: {kind: fetch_list, persistable: true}
    x: {float32: [2, 2], need_check_feed: true}
    i: {int64: [1]}
    n: {int64: [1]}
    n_too: {bool: [1]}
    list: {kind: dense_tensor_array}
    y: {float32: [2, 2]}
    z: {float32: []}
  ops:
END
        sed 's/^ *//; s/^/  - /' <<END
$2
END
    } >"$folder/$1.yaml"
}
value() { "$weft" run "$folder/$1.yaml" --feed "$folder/feed.npz" --steps 1 --fetch "$2" 2>"$folder/err" | tail -n 1; }
"$PYTHON" -c 'import numpy, sys; numpy.savez(sys.argv[1], x=numpy.array([[1, -2], [3, 0.5]], "f4"))' "$folder/feed.npz" || exit 1
plain='{square: {X: x}, out: {Out: y}}
{mean: {X: y}, out: {Out: z}}'
write plain "$plain"
wanted=$(value plain z)
[ -n "$wanted" ]
ok $? "the plain program runs: $(head -n 1 "$folder/err")"
for edge in c_sync_calc_stream c_sync_comm_stream c_wait_compute c_wait_comm; do
    write "$edge" "{square: {X: x}, out: {Out: y}}
{$edge: {X: y}, out: {Out: y}, attrs: {ring_id: 0}}
{mean: {X: y}, out: {Out: z}}"
    [ "$(value "$edge" z)" = "$wanted" ]
    ok $? "$edge changes nothing: $(head -n 1 "$folder/err")"
done
for era in '' _v2; do
    write "feed$era" "{feed$era: {X: feed}, out: {Out: x}, attrs: {col: 0}}
$plain
{fetch$era: {X: z}, out: {Out: fetch}, attrs: {col: 0}}"
    [ "$("$weft" run "$folder/feed$era.yaml" --feed "$folder/feed.npz" --steps 1 2>"$folder/err" | tail -n 1)" = \
        "$(echo "$wanted" | sed 's/,z,/,fetch.0,/')" ]
    ok $? "feed$era and fetch$era: $(head -n 1 "$folder/err")"
done
count='{fill_constant: {}, out: {Out: i}, attrs: {shape: [1], value: 0.0, dtype: 3}}
{write_to_array: {X: x, I: i}, out: {Out: list}}
{increment: {X: i}, out: {Out: i}, attrs: {step: 1.0}}
{write_to_array: {X: x, I: i}, out: {Out: list}}
{lod_array_length: {X: list}, out: {Out: n}}'
write length "$count"
value length n | grep -q ',2$'
ok $? "lod_array_length counts: $(head -n 1 "$folder/err")"
for than in equal not_equal; do
    write "assert_$than" "$count
{increment: {X: i}, out: {Out: i}, attrs: {step: 1.0}}
{$than: {X: n, Y: i}, out: {Out: n_too}}
{assert: {Cond: n_too, Data: [n]}}
$plain"
done
[ "$(value assert_equal z)" = "$wanted" ]
ok $? "assert of what holds changes nothing: $(head -n 1 "$folder/err")"
says 1 'assert' 'what does not hold ends the run' "$weft" run "$folder/assert_not_equal.yaml" --feed "$folder/feed.npz" --steps 1 --fetch z
finish
