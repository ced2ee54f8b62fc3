"""The table of docs/differences.md: what the real data-parallel pass left of each recorded rank program, and what Weft's do.

usage: differences.py WEFT FIXTURES [--check DOCUMENT]     prints the table, or compares it with the rows of a document
"""
import gzip
import json
import os
import struct
import subprocess
import sys
import tempfile


def fields(data):
    """(number, value) of each field of a protobuf message."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(data):
        key = varint()
        wire = key & 7
        if wire == 0:
            yield key >> 3, varint()
        else:
            n = varint() if wire == 2 else 8 if wire == 1 else 4
            yield key >> 3, data[at:at + n]
            at += n


def read_op(data):
    """Type, attrs (ints, floats, strings), and how many inputs slot Input has."""
    kind, attrs, members = '', {}, 0
    for number, value in fields(data):
        if number == 3:
            kind = value.decode()
        elif number == 1:
            parts = list(fields(value))
            if parts[0][1] == b'Input':
                members = len(parts) - 1
        elif number == 4:
            attr = dict(fields(value))
            attrs[attr[1].decode()] = attr.get(3, attr.get(5, struct.unpack('<f', attr[4])[0] if 4 in attr else None))
    return kind, attrs, members


def summary(path):
    """Reduces, scales, value of the loss-gradient seed and bucket sizes of block 0."""
    data = open(path, 'rb').read()
    data = gzip.decompress(data) if path.endswith('.gz') else data
    block = next(v for n, v in fields(data) if n == 1)
    reduces = scales = 0
    seeds, buckets = [], []
    for number, value in fields(block):
        if number != 4:
            continue
        kind, attrs, members = read_op(value)
        ours = b'data_parallel' in (attrs.get('op_namescope') or b'')
        reduces += ours and (kind.startswith('c_allreduce') or kind == 'all_reduce')
        scales += ours and kind == 'scale'
        if kind == 'fill_constant' and attrs.get('op_role') == 257:
            seeds.append(f"{attrs['value']:g}")
        if kind == 'coalesce_tensor':
            buckets.append(str(members))
    return f"{reduces} reduces, {scales} scales, seed {' '.join(seeds)}, buckets [{', '.join(buckets)}]"


def paddle_result(folder, suffix):
    path = f'{folder}/rank0.after.default.pdmodel{suffix}'
    if os.path.exists(path):
        return summary(path)
    variants = json.load(open(f'{folder}/case.json')).get('variants') or {}
    error = variants.get('default', {}).get('all_ranks', {}).get('error', 'no result')
    return error.split(':')[0]


def weft_result(weft, path, configs):
    with tempfile.TemporaryDirectory() as folder:
        out = f'{folder}/out.pdmodel'
        done = subprocess.run([weft, 'opt', '-q', path, '-o', out, '--passes', f'{configs}/data_parallel_optimization.yaml'],
                              capture_output=True, text=True)
        return summary(out) if done.returncode == 0 else 'refused'


def rows(weft, root):
    configs = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), 'configs')
    for family in ('paddle26', 'paddle3'):
        for name in sorted(os.listdir(f'{root}/{family}')) if os.path.isdir(f'{root}/{family}') else ():
            for suffix in ('', '.gz'):
                path = f'{root}/{family}/{name}/rank0.pdmodel{suffix}'
                if os.path.exists(path):
                    real, ours = paddle_result(os.path.dirname(path), suffix), weft_result(weft, path, configs)
                    yield f'| {family}/{name} | {real} | {"the same" if real == ours else ours} |'


def main():
    table = list(rows(os.path.abspath(sys.argv[1]), sys.argv[2]))
    if '--check' not in sys.argv:
        print('\n'.join(table))
        return
    document = open(sys.argv[sys.argv.index('--check') + 1]).read().splitlines()
    missing = [row for row in table if row not in document]
    for row in missing:
        print(f'FAIL not in the document: {row}')
    print(f'{len(table) - len(missing)} passed, {len(missing)} failed')
    sys.exit(bool(missing) or not table)


main()
