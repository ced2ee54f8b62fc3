"""What a call of optimize() takes beyond the framework's own work, in milliseconds of processor time. For a quiet machine.

    overhead.py paddle|torch [RUNS]     a program of 1,600 layers; a graph of 2,010 nodes
"""

import ctypes
import gc
import os
import statistics
import sys
import time


def clocked(function, *args, **kwargs):
    begun = time.process_time()
    function(*args, **kwargs)
    return 1e3 * (time.process_time() - begun)


def timed(function, *args, **kwargs):
    gc.collect()  # what earlier runs left is not this one's
    return clocked(function, *args, **kwargs)


def settle():
    """Lets libc sort what was freed, which it does only when it is next asked for more than a KB."""
    libc = ctypes.CDLL(None)
    libc.malloc.restype, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
    for _ in range(200):
        libc.free(libc.malloc(1 << 16))


class Serialized:
    """A ProgramDesc that is asked for its bytes once, and what that took; then the program has its own again."""

    def __init__(self, program):
        self.program, self.desc, self.took, self.settling = program, program.desc, 0.0, 0.0
        program.desc = self

    def __getattr__(self, name):
        return getattr(self.desc, name)

    def serialize_to_string(self):
        self.program.desc = self.desc
        begun = time.process_time()
        written = self.desc.serialize_to_string()
        self.took = 1e3 * (time.process_time() - begun)
        self.settling = clocked(settle)
        return written


def paddle():
    """(Weft's, Paddle's serialization in the same call, ops). What the serialization left for libc to sort is Paddle's."""
    import paddle
    import weft.paddle
    from test_paddle import mlp

    paddle.enable_static()
    main, startup, _ = mlp(layers=1600)  # a script has both: what dropping one frees, libc would sort in optimize()
    nops = len(main.global_block().ops)
    own = Serialized(main)
    whole = timed(weft.paddle.optimize, main, ranks=2)
    print(f"{own.settling:.0f} ms of libc's behind the serialization")
    del startup
    return whole - own.took - own.settling, own.took + own.settling, nops


def torch():
    """(Weft's there and back, torch's recompile(), nodes)"""
    import weft.torch
    from test_torch import GROUPS, traced

    module = traced(layers=154)
    count = len(module.graph.nodes)
    return timed(weft.torch.optimize, module.graph, groups=GROUPS), timed(module.recompile), count


if __name__ == "__main__":
    import weft

    print(f"weft of {os.path.dirname(weft.__file__)}")
    found = []
    for _ in range(int(sys.argv[2]) if len(sys.argv) > 2 else 5):
        mine, own, count = globals()[sys.argv[1]]()
        found.append(mine)
        print(f"{count} nodes: {mine:.0f} ms beside {own:.0f} ms of the framework's", flush=True)
    print(f"median {statistics.median(found):.0f} ms")
