"""Cases of ops that few programs hold, for record_ops.py: `cases` takes its tools."""
import numpy as np


def cases(rng, f32, case):
    return draws(f32, case)


def draws(f32, case):
    c = [case('exponential', 'a', {'X': f32(2, 3)}, {'Out': 'float32'}, {'lambda': 2.0})]
    c.append(case('poisson', 'a', {'X': f32(3, 2, low=0, high=20)}, {'Out': 'float32'}, {}, ['X'], 'Out'))
    c.append(case('dirichlet', 'a', {'Alpha': f32(2, 3, low=0.2, high=3)}, {'Out': 'float32'}))
    c.append(case('empty', 'a', {}, {'Out': 'float32'}, {'shape': [2, 3], 'dtype': 5}, hidden=('Out',), whole=True))
    return c
