"""Graphs of one pattern each for micro_pipeline_tp, with feeds, and whether two runs agree.

usage: micro_patterns.py write CASE RANKS FOLDER [ints]   writes graph.fx.json or graph.yaml and feed.RANK.npz; ints: sums are exact in any order;
                                                           wide_*: no feeds, to be simulated
       micro_patterns.py all RANKS FOLDER                 all of them but wide ones, in FOLDER/CASE and with ints in FOLDER/CASE.ints
       micro_patterns.py same FOLDER A B [TOLERANCE]      outputs saved as A.RANK.npz and B.RANK.npz are equal, or that close
       micro_patterns.py pairs                            of each line TOLERANCE FOLDER A B WHAT on stdin: "0 WHAT", or "1 WHAT: why not"
       micro_patterns.py list"""
import glob, os, sys
import numpy as np
import micro_backs, micro_exchanges, micro_gathers, micro_sums, micro_wide
from micro_graphs import Graph, Program

kinds = micro_gathers, micro_sums, micro_exchanges, micro_backs
cases = {k: v for kind in kinds for k, v in vars(kind).items() if callable(v) and "_" in k and not k.startswith("left_")}
left = {k: v for k, v in vars(micro_gathers).items() if k.startswith("left_")}
wide = {k: v for k, v in vars(micro_wide).items() if k.startswith("wide_")}


def write(case, n, folder, ints):
    g = (Program if case.endswith("_in_paddle") else Graph)(n)
    {**cases, **left, **wide}[case](g)
    open(f"{folder}/{g.file}", "w").write(g.text(case))
    for r in range(0 if case in wide else n):
        rng, feed = np.random.default_rng(r), {}
        for i in g.inputs:
            v = rng.integers(-2, 3, i["shape"]).astype(np.float32) if ints else rng.standard_normal(i["shape"]).astype(np.float32)
            feed[i["name"]] = v.astype(np.float16) if i["dtype"] == "float16" else (v.view(np.uint32) >> 16).astype(np.uint16) if i["dtype"] == "bfloat16" else v
        np.savez(f"{folder}/feed.{r}.npz", **feed)


def write_all(n, folder):
    for case in cases:
        for ints in False, True:
            to = f"{folder}/{case}{'.ints' if ints else ''}"
            os.makedirs(to)
            write(case, n, to, ints)


def values(a):
    return (a.astype(np.uint32) << 16).view(np.float32) if a.dtype == np.uint16 else a


def same(folder, a, b, tolerance):
    paths = sorted(glob.glob(f"{folder}/{a}.*.npz"))
    assert paths, f"{folder} has no {a}"
    for path in paths:
        x, y = np.load(path), np.load(path.replace(f"/{a}.", f"/{b}."))
        assert sorted(x.files) == sorted(y.files) and x.files, path
        for k in x.files:
            assert x[k].shape == y[k].shape and x[k].dtype == y[k].dtype, (path, k, x[k].shape, y[k].shape)
            if x[k].tobytes() != y[k].tobytes():
                u, v = values(x[k]).astype(np.float64), values(y[k]).astype(np.float64)
                off = np.abs(u - v).max() / max(np.abs(u).max(), 1e-6)
                assert off <= tolerance, (path, k, off)


def pairs(lines):
    for line in lines:
        tolerance, folder, a, b, what = line.rstrip("\n").split(" ", 4)
        try:
            same(folder, a, b, float(tolerance))
            print("0", what)
        except (AssertionError, OSError) as e:
            print("1", f"{what}: {e}".replace("\n", " "))


if sys.argv[1] == "write":
    write(sys.argv[2], int(sys.argv[3]), sys.argv[4], "ints" in sys.argv[5:])
elif sys.argv[1] == "all":
    write_all(int(sys.argv[2]), sys.argv[3])
elif sys.argv[1] == "same":
    same(*sys.argv[2:5], float(sys.argv[5]) if len(sys.argv) > 5 else 0)
elif sys.argv[1] == "pairs":
    pairs(sys.stdin)
else:
    print("\n".join(cases))
