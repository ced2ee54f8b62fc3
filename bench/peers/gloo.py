"""A 16 MiB all-reduce of torch over Gloo between processes, alone and beside computing, as bench/comm.c measures Weft's.

usage: gloo.py RANK RANKS ENDPOINT MS     one for each rank, in torch's environment; GLOO_SOCKET_IFNAME names the network
"""
import sys
import time

import torch
import torch.distributed as dist

ROUNDS, NBYTES = 10, 16 << 20


def compute(seconds):
    """On one processor, by the clock."""
    x = torch.ones(64, 64)
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        x = torch.mm(x, x).clamp_(0, 1)


def main():
    rank, ranks, endpoint, ms = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], float(sys.argv[4])
    torch.set_num_threads(1)
    dist.init_process_group('gloo', f'tcp://{endpoint}', rank=rank, world_size=ranks)
    x = torch.zeros(NBYTES // 4)
    best = {False: float('inf'), True: float('inf')}
    for i in range(ROUNDS):
        computes = i % 2 == 1
        dist.barrier()
        start = time.perf_counter()
        work = dist.all_reduce(x, async_op=True)
        if computes:
            compute(ms / 1e3)
        work.wait()
        best[computes] = min(best[computes], 1e3 * (time.perf_counter() - start))
    if rank == 0:
        hidden = (best[False] + ms - best[True]) / min(best[False], ms)
        print(f'Gloo, 16 MiB: {best[False]:.1f} ms; beside {ms:.0f} ms of computing: {best[True]:.1f} ms, '
              f'{100 * hidden:.0f}% hidden', flush=True)
    dist.destroy_process_group()


if __name__ == '__main__':
    main()
