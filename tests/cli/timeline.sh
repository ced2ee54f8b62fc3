#!/bin/sh
# Timelines: arrows where a stream waits for another, what a collective waits for its members, the page's script.
. tests/support/shell.sh
. tests/support/python.sh
model=examples/gpt_tiny
"$weft" opt $model/serial.pdmodel --quiet --passes configs/data_parallel.yaml --set data_parallel.ranks=4 --set coalesce_grads.bucket_mb=0.1 \
    -o "$folder/dp.pdmodel"
"$weft" simulate "$folder/dp.pdmodel" --steps 3 --delay 5:4:1 --trace "$folder/t.json" --trace "$folder/t.html" 2>"$folder/err"
ok $? "simulate: $(tail -n 1 "$folder/err")"
cat >"$folder/look.py" <<'END2'
"""Arrows of both forms join events that are there, in the order of time."""
import json
import re
import sys
events = json.load(open(sys.argv[1]))['traceEvents']
spans = {}
for e in events:
    if e['ph'] == 'X':
        spans.setdefault((e['pid'], e['tid']), []).append((e['ts'], e['ts'] + e['dur']))
begins = {e['id']: e for e in events if e['ph'] == 's'}
ends = {e['id']: e for e in events if e['ph'] == 'f'}
assert len(begins) > 9 and begins.keys() == ends.keys(), (len(begins), len(ends))
assert len(begins) == sum(e['ph'] == 's' for e in events), 'numbers of arrows are their own'
for number, b in begins.items():
    e = ends[number]
    assert b['pid'] == e['pid'] and b['tid'] != e['tid'] and b['ts'] <= e['ts'], (b, e)
    assert any(s <= b['ts'] < t for s, t in spans[b['pid'], b['tid']]), 'an arrow begins within an event'
    assert any(s == e['ts'] for s, t in spans[e['pid'], e['tid']]), 'and ends where one begins'
page = open(sys.argv[2]).read()
trace = json.loads(re.search(r'^const trace = (.*?\});$', page, re.M | re.S).group(1))
assert sum(len(i) > 7 for p in trace['plans'] for i in p['instrs']) > 0, 'waits'
narrows = 0
for rank in range(trace['ranks']):
    when = {}
    lanes = [l for l in trace['lanes'] if l['rank'] == rank]
    for n, lane in enumerate(lanes):
        for i in range(0, len(lane['events']), 4):
            instr, step, start, length = lane['events'][i:i + 4]
            when[instr, step] = (n, start, start + length)
    for (instr, step), (n, start, _) in when.items():
        op = trace['plans'][lanes[n]['plan']]['instrs'][instr]
        for other in op[7] if len(op) > 7 else []:
            assert when[other, step][0] != n and when[other, step][2] <= start, (instr, other)
            narrows += 1
assert narrows == len(begins), (narrows, len(begins))
script = page[page.index('<script>') + 8:page.index('</script>')]
open(sys.argv[3], 'w').write(script)
END2
"$PYTHON" "$folder/look.py" "$folder/t.json" "$folder/t.html" "$folder/page.js" 2>"$folder/err"
ok $? "arrows join an end with a later start: $(tail -n 1 "$folder/err")"

# --- the script, where something runs it: members of a collective have met when the last one came ---
if command -v node >/dev/null; then
    node --check "$folder/page.js" 2>"$folder/err"; ok $? "the script parses: $(head -n 3 "$folder/err")"
    sed '/^\/\* --- drawing ---/,$d' "$folder/page.js" >"$folder/data.js"
    cat >>"$folder/data.js" <<'END2'
const assert = require('assert');
let ncollectives = 0, most = [0, 0, 0, 0];
for (const lane of lanes)
  for (let i = 0; i < lane.events.length; i += WIDTH) {
    const waited = waitingOf(lane, i);
    if (instr(lane, i)[RING] < 0) { assert.equal(waited, 0); continue; }
    ncollectives++;
    assert.ok(waited >= 0 && waited <= lane.events[i + LENGTH]);
    most[lane.rank] = Math.max(most[lane.rank], waited);
  }
assert.ok(ncollectives > 9);
assert.ok(most[0] > 3e6 && most[2] > 3e6 && most[1] < 1e6, 'the others wait for rank 1, which is late: ' + most);
assert.ok(search('allreduce').length >= 9 && search('ring 0').length === ncollectives && search('nothing of that').length === 0);
assert.ok(search('#5').every(([lane, i]) => instr(lane, i)[INDEX] === 5));
const [lane, i] = search('ring 0')[0];
assert.ok(/waited .* for other ranks, moved for /.test(describe(lane, i)), describe(lane, i));
for (const [other, at] of waitersOf(lane, i))
  assert.ok(waitsOf(other, at).some(([a, k]) => a === lane && k === i), 'who waits is waited for');
END2
    node "$folder/data.js" 2>"$folder/err"; ok $? "waiting and moving, search, arrows: $(grep -m 1 Error "$folder/err")"
else
    skipped=$((skipped + 2))
fi
finish
