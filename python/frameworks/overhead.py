"""What a call of optimize() takes beyond the framework's own work, in milliseconds of processor time. For a quiet machine.

    overhead.py paddle|torch [RUNS]     a program of 1,600 layers; a graph of 2,010 nodes

It is built once. Each run is a first call, in a process that is forked from that.
"""

import ctypes
import gc
import json
import os
import re
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
    """Builds the program, which takes a minute. What the serialization left for libc to sort is Paddle's."""
    import paddle
    import weft.paddle
    from test_paddle import mlp

    paddle.enable_static()
    main, *held = mlp(layers=1600)  # a script has the startup program too: what dropping it frees, libc would sort

    def measure():
        own = Serialized(main)
        whole = timed(weft.paddle.optimize, main, ranks=2)
        return whole - own.took - own.settling, own.took + own.settling

    return measure, len(main.global_block().ops), held


def torch():
    """Traces the graph. The framework's own is recompile()."""
    import weft.torch
    from test_torch import GROUPS, traced

    module = traced(layers=154)

    def measure():
        return timed(weft.torch.optimize, module.graph, groups=GROUPS), timed(module.recompile)

    return measure, len(module.graph.nodes), None


def own_pages():
    """Copies what a forked process shares with its parent: faults on it would be counted as the call's."""
    libc = ctypes.CDLL(None, use_errno=True)
    page, populate_write = os.sysconf("SC_PAGESIZE"), 23
    with open("/proc/self/maps") as maps:
        private = [line.split()[0].split("-") for line in maps if line.split()[1] == "rw-p"]
    for begin, end in [(int(begin, 16), int(end, 16)) for begin, end in private]:
        present = ctypes.create_string_buffer((end - begin) // page)
        libc.mincore(ctypes.c_void_p(begin), ctypes.c_size_t(end - begin), present)
        for run in re.finditer(b"\x01+", present.raw):
            at, size = begin + run.start() * page, (run.end() - run.start()) * page
            if libc.madvise(ctypes.c_void_p(at), ctypes.c_size_t(size), populate_write):
                raise OSError(ctypes.get_errno(), "madvise(MADV_POPULATE_WRITE), of Linux 5.14")


def in_child(measure):
    """What measure() returns in a process of its own: each is a first call on a program that was just built."""
    receive, send = os.pipe()
    child = os.fork()
    if not child:
        own_pages()
        os.write(send, json.dumps(measure()).encode())
        os._exit(0)
    os.close(send)
    with os.fdopen(receive) as result:
        answer = result.read()
    os.waitpid(child, 0)
    return json.loads(answer)


if __name__ == "__main__":
    import weft

    print(f"weft of {os.path.dirname(weft.__file__)}")
    measure, count, held = globals()[sys.argv[1]]()
    found = []
    for _ in range(int(sys.argv[2]) if len(sys.argv) > 2 else 10):
        mine, own = in_child(measure)
        found.append(mine)
        print(f"{count} nodes: {mine:.0f} ms beside {own:.0f} ms of the framework's", flush=True)
    print(f"least {min(found):.0f}, median {statistics.median(found):.0f} ms")
