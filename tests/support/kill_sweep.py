"""Kills or stops a process of a run before, inside and behind an op: the others must end in time with the right words.

usage: kill_sweep.py WEFT FOLDER KILLS SEED PROGRAM... -- ARGUMENTS...      (a program a rank)
       KILLS: how many, drawn by chance; or SIGKILL or SIGSTOP: that, of each rank at each place of each op
       WEFT_SWEEP_JOBS: so many runs at once, default 1: most of the time they sleep

An op is held up on a rank by --delay. "before": that rank's process goes while it is. "inside": an op that communicates is held
up on another rank, so that the victim waits in it. "behind": the next op is held up.
"""
import concurrent.futures
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time

DELAY_MS, TOKEN = 60000, 'WEFT_KILL_SWEEP'


def members(token):
    """Process ids of the run by rank of MPI."""
    found = {}
    for pid in filter(str.isdigit, os.listdir('/proc')):
        try:
            with open(f'/proc/{pid}/environ', 'rb') as file:
                environ = dict(v.split(b'=', 1) for v in file.read().split(b'\0') if b'=' in v)
        except OSError:
            continue
        rank = environ.get(b'OMPI_COMM_WORLD_RANK', environ.get(b'PMI_RANK'))
        if rank and environ.get(TOKEN.encode()) == token.encode():
            found[int(rank)] = int(pid)
    return found


def cpu_ticks(pid):
    with open(f'/proc/{pid}/stat') as file:
        fields = file.read().rsplit(')', 1)[1].split()
    return int(fields[11]) + int(fields[12])


def threads(pid):
    """Of each thread: whether it runs or has no turn to, and how often it has gone to sleep."""
    found = {}
    for thread in os.listdir(f'/proc/{pid}/task'):
        with open(f'/proc/{pid}/task/{thread}/status') as file:
            status = dict(line.split(':', 1) for line in file)
        found[thread] = 'R' in status['State'], int(status['voluntary_ctxt_switches'])
    return found


def is_calm(now, before):
    """Of a process's ticks and threads: it has hardly computed, and no thread that would has had no turn all the time."""
    (ticks, here), (ticks_before, here_before) = now, before
    return len(here) > 3 and ticks - ticks_before <= 3 and not any(runs and here_before.get(t) == (runs, n) for t, (runs, n) in here.items())


def wait_for_delay(token, nranks, launcher):
    """Until all processes are there and none computes any more: one is held up, and the others wait for it."""
    deadline, calm, before = time.time() + 120, 0, {}
    while time.time() < deadline and launcher.poll() is None:
        found = members(token)
        try:
            now = {rank: (cpu_ticks(pid), threads(pid)) for rank, pid in found.items()}
        except OSError:
            continue
        ready = len(found) == nranks and all(is_calm(now[r], before.get(r, (0, {}))) for r in now)
        calm = calm + 1 if ready else 0
        if calm >= 4:
            return found
        before = now
        time.sleep(0.15)
    return {}


def places(ops, op, where):
    """What may be said of where the victim was: its last collective, or the one that it is in."""
    last = [n for n, communicates in enumerate(ops[:op + (where == 'behind')]) if communicates]
    before = [f'behind all_reduce #{last[-1]},', f'behind c_allreduce_sum #{last[-1]},'] if last else ['before its first collective']
    return before + ([f'in {kind} #{op},' for kind in ('all_reduce', 'c_allreduce_sum')] if ops[op] else [])


def strike(launcher, pid, fault, is_late):
    """is_late: weft has no turn before mpirun has ended all others too, and names the first one all the same."""
    if is_late:
        launcher.send_signal(signal.SIGSTOP)
    os.kill(pid, fault)
    if is_late:
        time.sleep(0.7)
        launcher.send_signal(signal.SIGCONT)


def run_one(weft, folder, programs, arguments, ops, op, rank, where, fault, is_late):
    """None, or what is wrong. The folder is made and taken away."""
    nranks, token = len(programs), folder
    os.mkdir(folder)
    held = rank if where != 'inside' else (rank + 1) % nranks
    delayed = op + 1 if where == 'behind' else op
    save = os.path.join(folder, 'never.npz')
    with open(os.path.join(folder, 'err'), 'w+') as err:
        launcher = subprocess.Popen([weft, 'run', *programs, *arguments, '--steps', '3', '--launch', '--save', save, '--delay',
                                     f'{delayed}:{DELAY_MS}:{held}', '--watchdog', '1:15'],
                                    env=dict(os.environ, **{TOKEN: token}), stdout=subprocess.DEVNULL, stderr=err)
        found = wait_for_delay(token, nranks, launcher)
        if rank not in found:
            launcher.kill()
            return 'the run did not begin'
        strike(launcher, found[rank], fault, is_late)
        since = time.time()
        try:
            status = launcher.wait(120)
        except subprocess.TimeoutExpired:
            for pid in members(token).values():
                os.kill(pid, signal.SIGKILL)
            launcher.kill()
            return 'it did not end'
        seconds = time.time() - since
        time.sleep(0.2)
        err.seek(0)
        said = err.read()
    # A death ends all within 2 s; one more for a machine that has much else to do, and more where that is more than twice its cores.
    word, limit = ('has died', 3) if fault == signal.SIGKILL else ('is stopped', 30)
    limit *= max(1, os.getloadavg()[0] / 2 / os.cpu_count())
    if not status:
        return 'exit status 0'
    if seconds > limit:
        return f'it took {seconds:.1f} s'
    named = re.search(rf'process {rank} \(pid {found[rank]} on [^)]*\) {word}: rank {rank}, (.*)', said)
    if not named or not any(words in named[1] for words in places(ops, op, where)):
        return f'other words: {said[-600:]}'
    if members(token):
        return 'a process is left'
    if os.listdir(folder) != ['err']:
        return 'a file is left'
    shutil.rmtree(folder)
    return None


def main():
    weft, folder, kills, seed = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
    at = sys.argv.index('--')
    programs, arguments = sys.argv[5:at], sys.argv[at + 1:]
    shown = subprocess.run([weft, 'show', programs[0]], capture_output=True, text=True, check=True).stdout
    kinds = re.findall(r'^ +\d+  \S+ +(\w+)\(', shown, re.M)
    ops = ['all_reduce' in kind or 'allreduce' in kind for kind in kinds]
    communicate = [n for n, communicates in enumerate(ops) if communicates]
    draw, failed, nranks = random.Random(seed), 0, len(programs)
    if not kills.isdigit():
        cases = [(where, op, rank, signal.Signals[kills]) for op in range(len(ops) - 1) for where in ('before', 'inside', 'behind')
                 for rank in range(nranks) if where != 'inside' or ops[op]]
    else:
        cases = []
        for k in range(int(kills)):
            where = ('before', 'inside', 'behind')[k % 3]
            op = draw.choice(communicate) if where == 'inside' else draw.randrange(len(ops) - 1)
            cases.append((where, op, draw.randrange(nranks), signal.SIGSTOP if k % 4 == 3 else signal.SIGKILL))

    def run(k):
        where, op, rank, fault = cases[k]
        return run_one(weft, f'{folder}/{os.getpid()}.{k}', programs, arguments, ops, op, rank, where, fault,
                       k % 3 == 2 and fault == signal.SIGKILL)

    with concurrent.futures.ThreadPoolExecutor(int(os.environ.get('WEFT_SWEEP_JOBS', 1))) as jobs:
        for (where, op, rank, fault), wrong in zip(cases, jobs.map(run, range(len(cases)))):
            if wrong:
                failed += 1
                print(f'{signal.Signals(fault).name} of rank {rank} {where} op {op}, {kinds[op]}: {wrong}', flush=True)
    print(f'{len(cases)} kills, {failed} failed')
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
