"""Initial values of a program's parameters and optimizer state, from Paddle. Runs in a Paddle environment.

usage: paddle_init.py STARTUP.pdmodel MAIN.pdmodel OUT.npz [SEED]
"""
import sys

import numpy as np
import paddle

startup, main, out = sys.argv[1:4]
paddle.enable_static()
paddle.seed(int(sys.argv[4]) if len(sys.argv) > 4 else 2024)
paddle.static.Executor(paddle.CPUPlace()).run(paddle.static.Program.parse_from_string(open(startup, 'rb').read()))
program = paddle.static.Program.parse_from_string(open(main, 'rb').read())
scope = paddle.static.global_scope()
np.savez(out, **{v.name: np.array(scope.var(v.name).get_tensor()) for v in program.list_vars()
                 if v.persistable and v.name not in ('feed', 'fetch')})
