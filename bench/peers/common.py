"""What the scripts of this folder share: where things are, workers that step on command, tables.

A worker is a process that has one model ready. It reads a number of steps from a line of stdin, puts its parameters back,
runs so many steps and prints a line of JSON: {"seconds": [...], "losses": [...]}. So the runs of several frameworks
alternate within one measurement, and each starts from the same state.
"""
import json
import os
import shlex
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
BUILD = os.path.abspath(os.environ.get('BUILD', os.path.join(ROOT, 'build')))
RELEASE = os.path.join(BUILD, 'release')
WEFT = os.path.abspath(os.environ.get('WEFT', os.path.join(RELEASE, 'weft')))
STEPS = os.path.join(RELEASE, 'bench', 'steps')
PEERS = os.path.abspath(os.environ.get('BENCH_PEERS', os.path.join(BUILD, 'peers')))
RESULTS = os.path.abspath(os.environ.get('BENCH_RESULTS', os.path.join(BUILD, 'bench-results')))
UNDER = shlex.split(os.environ.get('BENCH_UNDER', ''))  # a command that starts each worker: chrt -r 1
PADDLES = ['paddle-2.6.2', 'paddle-3.3.1']


def numpy():
    """The module, or an exit that says which interpreter has it."""
    try:
        import numpy as module
    except ImportError:
        script = os.path.relpath(sys.argv[0])
        sys.exit(f'{script}: {sys.executable} has no numpy. Debian\'s python3-numpy belongs to /usr/bin/python3: '
                 f'/usr/bin/python3 {script}, or PYTHON=/usr/bin/python3 make bench')
    return module


def fixtures():
    shared = os.path.join(ROOT, '..', 'shared', 'fixtures')
    found = os.environ.get('WEFT_FIXTURES') or (shared if os.path.isdir(shared) else os.path.join(ROOT, 'tests', 'data'))
    return os.path.abspath(found)


def config(name):
    return os.path.join(ROOT, 'configs', name)


def python(peer):
    """The interpreter of a peer's environment, None if it was not set up."""
    path = os.path.join(PEERS, peer, 'bin', 'python')
    return path if os.path.exists(path) else None


def missing(peer):
    print(f'{peer}: not set up in {PEERS}; left out (bench/peers/setup {PEERS})', file=sys.stderr)


def environment(peer, threads):
    """Variables under which a peer runs with so many threads, at its fastest setting."""
    env = dict(os.environ, OMP_NUM_THREADS=str(threads), MKL_NUM_THREADS=str(threads), GLOG_minloglevel='2')
    if 'AuthenticAMD' in open('/proc/cpuinfo').read():
        env['MKL_DEBUG_CPU_TYPE'] = '5'  # MKL takes a slow path on AMD otherwise
    if peer.startswith('paddle-3'):
        # The serialized program itself, not a translation of it.
        env.update(FLAGS_enable_pir_api='0', FLAGS_enable_pir_in_executor='0')
    return env


def weft(*args):
    """Runs the command; its stdout. A failure is an exception with what it said."""
    done = subprocess.run([WEFT, *map(str, args)], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr.strip().split('\n')[-1] or f'weft {shlex.join(map(str, args))}: {done.returncode}')
    return done.stdout


class Worker:
    """A process that steps on command. `cpus`: the processors that it may use, None for all."""

    def __init__(self, name, argv, env=None, cpus=None):
        os.makedirs(RESULTS, exist_ok=True)
        self.name = name
        self.log = open(os.path.join(RESULTS, f'{name}.log'), 'w+')
        pin = (lambda: os.sched_setaffinity(0, cpus)) if cpus else None
        self.process = subprocess.Popen([*UNDER, *argv], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=self.log, text=True, preexec_fn=pin, cwd=RESULTS)  # Paddle leaves an http.log behind

    def ask(self, nsteps):
        self.send(nsteps)
        return self.receive()

    def send(self, nsteps):
        self.process.stdin.write(f'{nsteps}\n')
        self.process.stdin.flush()

    def receive(self):
        for line in self.process.stdout:
            if line.startswith('{'):
                return json.loads(line)
        self.log.seek(0)
        said = [line.strip() for line in self.log if line.strip()]
        raise RuntimeError(f'{self.name} stopped: {said[-1] if said else "no message"} ({self.log.name})')

    def close(self):
        try:
            self.process.stdin.close()
            self.process.wait(timeout=20)
        except (OSError, subprocess.TimeoutExpired):
            self.process.kill()
            self.process.wait()
        self.log.close()


class Team:
    """Workers that step together, one a rank; a step lasts as long as the slowest rank's, its loss is their mean."""

    def __init__(self, name, workers):
        self.name, self.workers = name, workers

    def ask(self, nsteps):
        try:
            for worker in self.workers:
                worker.send(nsteps)
            answers = [worker.receive() for worker in self.workers]
        except BrokenPipeError:
            answers = [worker.receive() for worker in self.workers]  # says who stopped, and why
        return {'seconds': [max(s) for s in zip(*(a['seconds'] for a in answers))],
                'losses': [statistics.fmean(s) for s in zip(*(a['losses'] for a in answers))]}

    def close(self):
        for worker in self.workers:
            worker.process.stdin.close()
        for worker in self.workers:
            worker.close()


def alternate(runners, rounds, seconds, pause, least=3):
    """Times of `rounds` rounds in which each runner in turn steps for about `seconds`, `least` steps or more, and the
    losses that each began with. The first step of a turn does not count. A runner that fails is told of and left out."""
    counts, times, losses = {}, {}, {}
    for runner in list(runners):
        try:
            runner.ask(5)  # the first steps choose kernels, allocate, compile
            answer = runner.ask(10)
        except (RuntimeError, OSError) as error:
            print(error, file=sys.stderr)
            runners.remove(runner)
            continue
        losses[runner.name] = answer['losses']
        counts[runner.name] = max(2, least, min(400, round(seconds / statistics.median(answer['seconds']))))
        times[runner.name] = []
    for round_index in range(rounds):
        for runner in runners[round_index % len(runners):] + runners[:round_index % len(runners)]:
            time.sleep(pause)  # the one before may still spin
            times[runner.name] += runner.ask(counts[runner.name])['seconds'][1:]
    return times, losses


def agree(losses, reference, tolerance):
    """The names whose losses differ from the reference's by more than `tolerance` of the first loss."""
    worst = {name: max(abs(a - b) for a, b in zip(values, losses[reference])) / max(abs(losses[reference][0]), 1e-9)
             for name, values in losses.items()}
    return worst, [name for name, error in worst.items() if not error <= tolerance]


def print_table(rows):
    """Rows of text, columns aligned: the first to the left, the others to the right."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        print('  '.join(cell.ljust(w) if i == 0 else cell.rjust(w) for i, (cell, w) in enumerate(zip(row, widths))))
    sys.stdout.flush()


def save_results(name, results):
    os.makedirs(RESULTS, exist_ok=True)
    path = os.path.join(RESULTS, name)
    with open(path, 'w') as file:
        json.dump(results, file, indent=1)
    print(f'saved: {path}', file=sys.stderr)


def machine():
    model = next((line.split(':')[1].strip() for line in open('/proc/cpuinfo') if line.startswith('model name')), '?')
    load = os.getloadavg()[0]
    return f'{model}, {os.cpu_count()} processors, load {load:.2f}'
