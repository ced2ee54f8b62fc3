"""Writes docs/paddle-verdicts.md: what `weft verify` says of the recorded programs that Paddle's data-parallel pass made.
usage: paddle_verdicts.py WEFT FIXTURES > docs/paddle-verdicts.md"""
import collections
import glob
import json
import os
import re
import subprocess
import sys

weft, root = sys.argv[1:]
ANY = ('--reading', 'by_name', '--launch', 'any')
COLUMNS = (('--reading', 'in_order'), ('--reading', 'by_name'), ANY, ('--reading', 'by_bytes'))
HEAD = """# What Paddle's data-parallel pass made, judged

Recorded programs of Paddle 2.6.2 and 3.3.1 after the real pass (`rankN.after.VARIANT.pdmodel`), all ranks of each, under the readings of
[verify.md](verify.md). A cell counts findings; `safe` is none. Written by `tools/paddle_verdicts.py`.

In order, most of these programs race: the pass moves reduces to a stream and writes no events; it relies on the executor to derive them. By name
they are safe while worker threads launch in the usual order. Where any order of launches counts, some are not: `nop(last gradient -> bucket)` names
only the last gradient, so another producer of the bucket may be launched behind the event that the reduce waits for. By bytes all that can be planned
is safe but for the missing reduces of biases, which no reading mends.

`shown`: of these races, how many change the losses of two steps when a plan by name launches the one op as late as it may and starts it 20 ms
late (`weft run --reading by_name --unsafe --late OP --delay OP:20`), against a plan by bytes. Without `--late` and `--delay` the losses are those
of the plan by bytes, to the bit; where one is not it says so.

`streams unknown`: the program has no sidecar of its own, so all is on the compute stream and safe; the last column assumes that its data-parallel
reduces are on a stream of their own (`--stream dp_reduce:gradient_sync`, in order).

| program | variant | in_order | by_name | by_name, any launch | shown | by_bytes | streams unknown |
| --- | --- | --- | --- | --- | --- | --- | --- |"""


def verify(programs, *options):
    run = subprocess.run([weft, 'verify', *programs, *options, '--json'], capture_output=True, text=True)
    if run.returncode == 2 or not run.stdout:
        sys.exit(run.stderr)
    return json.loads(run.stdout)['result']


def count(found):
    kinds = collections.Counter(f['verdict'].replace('_', ' ') for f in found)
    return ', '.join(f'{n} {kind}{"s" if n > 1 and kind == "race" else ""}' for kind, n in sorted(kinds.items())) or 'safe'


def pair(finding):
    names = [f'{op["type"]} #{op["index"]}' + (f' ({op["stream"]})' if op.get('stream') else '') for op in finding['ops']]
    return ' and '.join(names) + (f': `{finding["value"]}`' if 'value' in finding else '')


def losses(case, programs, *options):
    """What two steps print; None where the program cannot be run."""
    try:
        loss = json.load(open(case + 'case.json'))['loss']
    except (OSError, KeyError):
        return None
    run = subprocess.run([weft, 'run', *programs, '--params', case + 'params.npz', '--feed', case + 'feeds.npz', '--fetch', loss,
                          '--steps', '2', *options], capture_output=True, text=True)
    return run.stdout if run.returncode == 0 else None


def show_races(case, programs, races):
    by_name, right = ('--reading', 'by_name', '--unsafe'), losses(case, programs)
    if right is None:
        return ''
    if losses(case, programs, *by_name) != right:
        return 'other losses'
    late = [str(race['ops'][0]['index']) for race in races]
    found = [losses(case, programs, *by_name, '--late', op, '--delay', op + ':20') for op in late]
    return f'{sum(f not in (None, right) for f in found)} of {len(races)}' if races else ''


print(HEAD)
details = []
for case in sorted(glob.glob(f'{root}/paddle26/*/') + glob.glob(f'{root}/paddle3/*/')):
    name = '/'.join(case.rstrip('/').split('/')[-2:])
    for first in sorted(os.listdir(case)):
        match = re.match(r'rank0\.after\.(\w+)\.pdmodel(\.gz)?$', first)
        if not match:
            continue
        programs = [case + first.replace('rank0', f'rank{i}', 1) for i in range(64)]
        programs = [p for p in programs if os.path.exists(p)]
        results = [verify(programs, *options) for options in COLUMNS]
        unknown = any('unknown' in note for note in results[0]['notes'])
        assumed = count(verify(programs, '--reading', 'in_order', '--stream', 'dp_reduce:gradient_sync')['findings']) if unknown else ''
        shown = show_races(case, programs, [f for f in results[2]['findings'] if f['verdict'] == 'race'])
        counts = [count(r['findings']) for r in results]
        print('| ' + ' | '.join([name, match[1], *counts[:3], shown, counts[3], assumed]) + ' |', flush=True)
        for column, result in ((0, results[0]), (2, results[2])):
            races = [f for f in result['findings'] if f['verdict'] == 'race']
            if races and (column == 2 or match[1] in ('default', 'overlap')):
                reading = 'by name, any launch' if column == 2 else 'in order, the first'
                details.append(f'| {name} {match[1]} | {reading} | ' + '<br>'.join(pair(f) for f in races[:1 if column == 0 else 8]) + ' |')
        for f in results[1]['findings']:
            if f['verdict'] != 'race':
                details.append(f'| {name} {match[1]} | {f["verdict"]} | {pair(f)} |')
print('\n## The ops\n\n| program | reading or verdict | ops, and the bytes or value |\n| --- | --- | --- |')
print('\n'.join(details))
