"""What a call of optimize() takes beyond the framework's own work, in milliseconds of processor time. For a quiet machine.

    overhead.py paddle|torch [RUNS]     a program of 1,600 layers; a graph of 2,010 nodes
"""

import gc
import statistics
import sys
import time


def timed(function, *args, **kwargs):
    gc.collect()  # what earlier runs left is not this one's
    begun = time.process_time()
    function(*args, **kwargs)
    return 1e3 * (time.process_time() - begun)


def paddle():
    """(Weft's, Paddle's serialization, ops)"""
    import paddle
    import weft.paddle
    from test_paddle import mlp

    paddle.enable_static()
    main, _, _ = mlp(layers=1600)
    nops = len(main.global_block().ops)
    alone = timed(main.desc.serialize_to_string)
    return timed(weft.paddle.optimize, main, ranks=2) - alone, alone, nops


def torch():
    """(Weft's there and back, torch's recompile(), nodes)"""
    import weft.torch
    from test_torch import GROUPS, traced

    module = traced(layers=154)
    count = len(module.graph.nodes)
    return timed(weft.torch.optimize, module.graph, groups=GROUPS), timed(module.recompile), count


if __name__ == "__main__":
    found = []
    for _ in range(int(sys.argv[2]) if len(sys.argv) > 2 else 5):
        mine, own, count = globals()[sys.argv[1]]()
        found.append(mine)
        print(f"{count} nodes: {mine:.0f} ms beside {own:.0f} ms of the framework's", flush=True)
    print(f"median {statistics.median(found):.0f} ms")
