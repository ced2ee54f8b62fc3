"""What data_parallel makes of training programs: ranks together must compute what one rank computes, or be refused in words.

usage: data_parallel.py WEFT [CASE ...]    a line for each failure; last 'N passed, M failed'
"""
import sys, tempfile
import data_parallel_rows, data_parallel_updates

only = set(sys.argv[2:])
passed = failed = 0
for name, case in [(n[5:], f) for kind in (data_parallel_updates, data_parallel_rows) for n, f in vars(kind).items() if n.startswith('case_')]:
    if only and name not in only:
        continue
    with tempfile.TemporaryDirectory() as where:
        try:
            case(where)
            passed += 1
        except AssertionError as e:
            failed += 1
            print(f'FAIL {name}: {e}')
print(f'{passed} passed, {failed} failed')
sys.exit(failed > 0)
