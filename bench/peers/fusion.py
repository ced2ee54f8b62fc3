"""Fusion passes beside PyTorch's: bench/fuse at the sizes at which the originals were recorded, and at larger ones.

usage: fusion.py [RECORDED]     RECORDED: results.json of the torch fixtures; default: ../shared/fixtures/torch/peers/results.json
The originals' times (PyTorch 2.4.1, torch/_inductor/fx_passes/ddp_fusion.py) are CPU milliseconds of the recording; ours are measured now.
"""
import csv
import json
import os
import subprocess
import sys

ORIGINALS = {'concat': 'fuse_ddp_with_concat_op', 'coalesced': 'fuse_ddp_with_coalesced_op', 'in_place': 'fuse_ddp_with_concat_op',
             'schedule_comm_wait': 'schedule_comm_wait', 'in_place, schedule_comm_wait': 'concat+wait+topo'}
SIZES = ['100', '400', '1600', '1000', '10000', '100000']

recorded = sys.argv[1] if len(sys.argv) > 1 else '../shared/fixtures/torch/peers/results.json'
times = {}
if os.path.exists(recorded):
    for row in json.load(open(recorded))['pass_time']:
        size = 0 if row['pass'] == 'schedule_comm_wait' else row['bucket_mb']
        times[row['n_grads'], row['pass'], size] = (row['cpu_min_ms'], row['collectives_after'])
bench = os.path.join(os.environ.get('BENCH', 'build/release/bench'), 'fuse')
if not os.path.exists(bench):
    sys.exit(f'there is no {bench}: make benches, or BENCH=FOLDER')
out = subprocess.run([bench, *SIZES], check=True, capture_output=True, text=True).stdout
print('| gradients | pass | bucket, MiB | collectives, original | ms | original, ms | times faster |')
print('| --- | --- | --- | --- | --- | --- | --- |')
for row in csv.DictReader(out.splitlines()):
    ms, bucket = 1e3 * float(row['cpu_seconds']), float(row['bucket_mb'])
    theirs = times.get((int(row['gradients']), ORIGINALS[row['pass']], bucket))
    reduces = f"{row['collectives']}, {theirs[1]}" if theirs else row['collectives']
    compared = f'{theirs[0]:.0f} | {theirs[0] / ms:.0f}' if theirs else '| '
    print(f"| {row['gradients']} | {row['pass']} | {bucket:g} | {reduces} | {ms:.2f} | {compared} |")
