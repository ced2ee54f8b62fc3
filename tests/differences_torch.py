"""The second table of docs/differences.md: buckets of PyTorch's fuse_ddp_with_concat_op on traced graphs, and Weft's.

usage: differences_torch.py WEFT FIXTURES [--check DOCUMENT]     prints the table, or compares it with the rows of a document
A bucket is told by how many gradients it holds, in the order of the collectives.
"""
import json
import os
import subprocess
import sys
import tempfile

SIZES = {'M': 1.0, 'K': 1 / 1024}


def mebibytes(text):
    return float(text[:-1]) * SIZES[text[-1]]


def limits(setting):
    """First and later thresholds in MiB: "f4K_c16K", or "25M", where the original's first one is 1 MiB."""
    if setting.startswith('f'):
        first, later = setting[1:].split('_c')
        return mebibytes(first), mebibytes(later)
    return 1.0, mebibytes(setting)


def original(entry):
    if entry.get('error'):
        return entry['error'].split(':')[0]
    counts = [b.get('count') or len(b['members']) for b in entry['buckets']]
    return str(counts) if counts else 'not matched'


def buckets(graph):
    """How many gradients each all-reduce of a fused graph holds."""
    members, counts = {}, []
    for node in graph['nodes']:
        if node['target'] == 'weft.coalesce_tensor':
            members.update(dict.fromkeys(node['kwargs']['weft.out'], len(node['kwargs']['Input'])))
        elif node['target'].startswith('_c10d_functional.all_reduce'):
            counts.append(members.get(node['args'][0]['ref'], 1))
    return counts


def ours(weft, before, setting):
    first, later = limits(setting)
    with tempfile.TemporaryDirectory() as folder:
        after = os.path.join(folder, 'after.fx.json')
        passes = f'fuse_allreduce_buckets: {{mode: concat, bucket_mb: {later}, first_bucket_mb: {first}}}'
        done = subprocess.run([weft, 'opt', before, '--passes', passes, '-o', after], capture_output=True, text=True)
        if done.returncode:
            return 'refused: ' + done.stderr.strip().splitlines()[-1]
        return str(buckets(json.load(open(after))))


def rows(weft, fixtures):
    root = os.path.join(fixtures, 'torch', 'ddp')
    manifest = os.path.join(root, 'manifest.json')
    for case in json.load(open(manifest)) if os.path.exists(manifest) else []:
        before = os.path.join(root, case['case'], 'before.fx.json')
        if not os.path.exists(before):
            continue
        for key, entry in case['after'].items():
            setting = key.removeprefix('concat.')
            if setting == key or entry.get('same_as'):
                continue
            theirs, found = original(entry), ours(weft, before, setting)
            yield f"| ddp/{case['case']} {setting} | {theirs} | {'the same' if found == theirs else found} |"


def main():
    weft, fixtures = sys.argv[1:3]
    found = list(rows(weft, fixtures))
    if '--check' not in sys.argv:
        print('\n'.join(found))
        return
    told = [line.rstrip('\n') for line in open(sys.argv[-1]) if line.startswith('| ddp/')]
    wrong = [row for row in found if row not in told]
    for row in wrong:
        print('FAIL not in the document:', row)
    print(f'{len(found) - len(wrong)} passed, {len(wrong)} failed, {0 if found else 1} skipped')
    sys.exit(bool(wrong))


main()
