#!/bin/sh
# Work is not lost: signals, states that are saved meanwhile, outputs that cannot be written, memory of long runs.
. tests/support/shell.sh
. tests/support/python.sh

cat >"$folder/net.yaml" <<'END'
weft: 1
rings: {0: [0, 1]}
blocks:
- vars:
    x: {float32: [4, 8]}
    w: {float32: [8, 8], persistable: true}
    h: {float32: [4, 8]}
    d: {float32: [4, 8]}
    mask: {uint8: [4, 8]}
    g: {float32: [8, 8]}
    loss: {float32: []}
  ops:
  - {matmul_v2: {X: [x], "Y": [w]}, out: {Out: [h]}}
  - {dropout: {X: [h]}, out: {Mask: [mask], Out: [d]}, attrs: {dropout_prob: 0.5, is_test: false}}
  - {reduce_mean: {X: [d]}, out: {Out: [loss]}, attrs: {dim: [0, 1], reduce_all: true}}
  - {matmul_v2: {X: [x], "Y": [d]}, out: {Out: [g]}, attrs: {trans_x: true}}
  - {c_allreduce_sum: {X: [g]}, out: {Out: [g]}, attrs: {ring_id: 0, use_calc_stream: true}}
  - {scale: {X: [g]}, out: {Out: [g]}, attrs: {scale: 0.001}}
  - {elementwise_sub: {X: [w], "Y": [g]}, out: {Out: [w]}}
END
"$PYTHON" - "$folder" <<'END'
import sys, numpy as np
r = np.random.default_rng(0)
np.savez(sys.argv[1] + '/x.npz', x=r.normal(size=(8, 8)).astype('f4'))
np.savez(sys.argv[1] + '/w.npz', w=r.normal(size=(8, 8)).astype('f4'))
END
net="$folder/net.yaml --ranks 2 --unsafe --feed $folder/x.npz --fetch loss"
fresh="$net --params $folder/w.npz"
run() {
    "$weft" run "$@" 2>"$folder/err"
}
step_of() { # FILE: the number of the next step
    "$PYTHON" -c 'import sys, numpy as np; print(int(np.load(sys.argv[1])["weft.step"][0]))' "$1"
}

# Sends signals to a run that has begun, and prints its exit status and how long it took to end.
cat >"$folder/interrupt.py" <<'END'
import os, signal, subprocess, sys, time
signals, csv, command = sys.argv[1].split(','), sys.argv[2], sys.argv[3:]
with open(csv, 'wb') as out, open(csv + '.err', 'wb') as err:
    # These tests may themselves run under nohup.
    hangup = signal.SIG_IGN if 'hangup_ignored' in os.environ else signal.SIG_DFL
    child = subprocess.Popen(command, stdout=out, stderr=err, preexec_fn=lambda: signal.signal(signal.SIGHUP, hangup))
    while child.poll() is None and b'step,rank,name,value\n' not in open(csv, 'rb').read():
        time.sleep(0.01)
    time.sleep(0.3)
    began = time.monotonic()
    for name in signals:
        child.send_signal(getattr(signal, name))
        time.sleep(0.1)
    status = child.wait(60)
print(status, 'soon' if time.monotonic() - began < 8 else 'late')
END
interrupt() {
    "$PYTHON" "$folder/interrupt.py" "$@"
}

# --- signals
for signal in 'SIGINT 130' 'SIGHUP 129' 'SIGTERM 143'; do
    # shellcheck disable=SC2086
    set -- $signal
    # shellcheck disable=SC2086
    [ "$(interrupt "$1" "$folder/csv" "$weft" run $fresh --delay 0:5 --steps 100000 --save "$folder/stopped.npz")" = "$2 soon" ]
    ok $? "$1: exit $2"
    done=$(step_of "$folder/stopped.npz")
    [ "$done" -gt 1 ] && grep -q "stopped by $1 behind step $((done - 1)); $folder/stopped.npz has the state behind step $((done - 1))" "$folder/csv.err" &&
        [ "$(tail -n 1 "$folder/csv" | cut -d, -f1-3)" = "$((done - 1)),1,loss" ] && [ "$(tail -c 1 "$folder/csv")" = "" ]
    ok $? "$1: the step ends, the state and all lines are there, a line says so"
    # shellcheck disable=SC2086
    run $fresh --steps $((done + 5)) --save "$folder/whole.npz" >"$folder/whole.csv" &&
        run $net --resume "$folder/stopped.npz" --steps 5 --save "$folder/rest.npz" >"$folder/rest.csv" &&
        cmp -s "$folder/whole.npz" "$folder/rest.npz" && tail -n +2 "$folder/rest.csv" | cat "$folder/csv" - | cmp -s - "$folder/whole.csv"
    ok $? "$1: what was stopped goes on, to the bit"
done
# shellcheck disable=SC2086
(export hangup_ignored=1; interrupt SIGHUP,SIGINT "$folder/csv" "$weft" run $fresh --delay 0:5 --steps 100000 --save "$folder/stopped.npz" >/dev/null)
grep -q 'stopped by SIGINT behind step' "$folder/csv.err"; ok $? 'where SIGHUP is ignored it stays so'
cp "$folder/stopped.npz" "$folder/kept.npz"
# shellcheck disable=SC2086
[ "$(interrupt SIGTERM,SIGTERM "$folder/csv" "$weft" run $net --load "$folder/kept.npz" --delay 0:60000 --steps 9 --save "$folder/stopped.npz")" = '143 soon' ] &&
    cmp -s "$folder/kept.npz" "$folder/stopped.npz"
ok $? 'a second signal ends a step at once, and what was saved stays'
# shellcheck disable=SC2086
[ "$(interrupt SIGINT "$folder/csv" "$weft" run $net --load "$folder/kept.npz" --delay 0:60000:1 --watchdog 1:1 --steps 9 --save "$folder/stopped.npz")" = '130 soon' ] &&
    cmp -s "$folder/kept.npz" "$folder/stopped.npz" && grep -q 'waited 1.* s (limit 1 s)' "$folder/csv.err" && grep -q 'stopped by SIGINT in the first step' "$folder/csv.err"
ok $? 'a collective that cannot complete ends a stopped run by its deadline'
! ls "$folder" | grep -q tmp; ok $? 'no temporary file stays'

# --- ranks in processes: all end behind the same step
if "$weft" info | grep -q '^MPI *yes'; then
    for signal in 'SIGINT 130' 'SIGHUP 143' 'SIGTERM 143'; do
        # shellcheck disable=SC2086
        set -- $signal
        # shellcheck disable=SC2086
        [ "$(interrupt "$1" "$folder/csv" "$weft" run $fresh --launch --delay 0:5 --steps 100000 --save "$folder/stopped.npz" --trace "$folder/t.json")" = "$2 soon" ]
        ok $? "processes, $1: exit $2"
        done=$(step_of "$folder/stopped.npz")
        # shellcheck disable=SC2086
        run $fresh --steps $((done + 5)) --save "$folder/whole.npz" >"$folder/whole.csv" &&
            run $net --resume "$folder/stopped.npz" --steps 5 --save "$folder/rest.npz" >"$folder/rest.csv" &&
            cmp -s "$folder/whole.npz" "$folder/rest.npz" && tail -n +2 "$folder/rest.csv" | cat "$folder/csv" - | cmp -s - "$folder/whole.csv"
        ok $? "processes, $1: what was stopped goes on, to the bit"
        "$PYTHON" -c 'import json, sys
t = json.load(open(sys.argv[1]))["traceEvents"]; assert {e["pid"] for e in t if e["ph"] == "X"} == {0, 1}' "$folder/t.json"
        ok $? "processes, $1: one timeline of all ranks"
    done
    # shellcheck disable=SC2086
    [ "$(interrupt SIGINT,SIGINT "$folder/csv" "$weft" run $fresh --launch --delay 0:60000 --steps 9 --save "$folder/stopped.npz" | cut -d' ' -f2)" = soon ]
    ok $? 'processes: a second signal ends them at once'
else
    skipped=$((skipped + 1))
fi

# --- states meanwhile
# shellcheck disable=SC2086
run $fresh --steps 7 --save "$folder/at{step}.npz" --save-every 3 >"$folder/csv" &&
    [ "$(cd "$folder" && ls at*.npz | tr '\n' ' ')" = 'at3.npz at6.npz at7.npz ' ] && [ "$(step_of "$folder/at3.npz")" = 3 ]
ok $? '--save-every: a file for every N steps and the last one'
# shellcheck disable=SC2086
run $net --resume "$folder/at3.npz" --steps 4 --save "$folder/other{rank}-{step}.npz" --save-every 2 >"$folder/csv" &&
    [ "$(cd "$folder" && ls other*.npz | tr '\n' ' ')" = 'other0-4.npz other0-6.npz other0-7.npz other1-4.npz other1-6.npz other1-7.npz ' ] &&
    "$PYTHON" -c 'import sys, numpy as np; a, b = (np.load(f)["w"] for f in sys.argv[1:]); assert (a == b).all()' "$folder/at7.npz" "$folder/other1-7.npz"
ok $? 'steps count on, and ranks have their files'
# shellcheck disable=SC2086
[ "$(interrupt SIGKILL "$folder/csv" "$weft" run $fresh --delay 0:5 --steps 100000 --save "$folder/one.npz" --save-every 10)" = '-9 soon' ] &&
    [ $(($(step_of "$folder/one.npz") % 10)) = 0 ]
ok $? 'one file, replaced as a whole: a run that was killed left a good one'
rm -f "$folder"/*.tmp
# shellcheck disable=SC2086
says 2 'resume is --load' 'one state to go on from' "$weft" run $net --load "$folder/at3.npz" --resume "$folder/at3.npz"
# shellcheck disable=SC2086
says 2 'save-every: expected --save' 'nowhere to save' "$weft" run $fresh --save-every 2

# --- outputs, before the first step
for option in "--save $folder/no/such.npz" "--trace $folder/no/such.json" "--profile=$folder/no/such.csv" "--save $folder/no{rank}/x.npz"; do
    # shellcheck disable=SC2086
    says 1 'cannot write there: No such file' "$option" "$weft" run $fresh $option
    [ ! -s "$folder/out" ]; ok $? "$option: no step ran"
done
mkdir "$folder/folder.npz"
# shellcheck disable=SC2086
says 1 'cannot write there: it is a folder' 'a folder in the place of a file' "$weft" run $fresh --save "$folder/folder.npz"
# shellcheck disable=SC2086
says 2 'trace: expected F.json or F.html, found ".*t.txt"' 'a form that no timeline has' "$weft" run $fresh --trace "$folder/t.txt"
# shellcheck disable=SC2086
says 2 'trace: expected F.json or F.html' 'the same of a simulation' "$weft" simulate "$folder/net.yaml" --ranks 2 --trace "$folder/t.txt"
# shellcheck disable=SC2086
says 2 'save: expected F.npz or F.pdiparams, found "s.npy"' 'a form that no state has' "$weft" run $fresh --save s.npy

# --- long runs
steps_of() { # the first and the last step of a timeline, and how many there are
    "$PYTHON" -c 'import json, sys
s = sorted({e["args"]["step"] for e in json.load(open(sys.argv[1]))["traceEvents"] if e["ph"] == "X"}); print(s[0], s[-1], len(s))' "$1"
}
# shellcheck disable=SC2086
run $fresh --steps 50 --trace "$folder/t.json" >"$folder/csv" && [ "$(steps_of "$folder/t.json")" = '30 49 20' ] &&
    grep -q 'all ranks, last 20 steps:' "$folder/err"
ok $? 'a timeline has the last 20 steps'
# shellcheck disable=SC2086
run $fresh --steps 50 --trace "$folder/t.json" --trace-steps 7 >"$folder/csv" && [ "$(steps_of "$folder/t.json")" = '43 49 7' ] &&
    run $fresh --steps 50 --trace "$folder/t.json" --trace-steps 0 >"$folder/csv" && [ "$(steps_of "$folder/t.json")" = '0 49 50' ] &&
    run $fresh --steps 5 --trace "$folder/t.json" >"$folder/csv" && [ "$(steps_of "$folder/t.json")" = '0 4 5' ]
ok $? '--trace-steps says how many, 0 all'
cat >"$folder/memory.py" <<'END'
import os, subprocess, sys
def peak(nsteps):
    child = subprocess.Popen(sys.argv[1:] + ['--steps', nsteps], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    assert status == 0, status
    return usage.ru_maxrss
few, many = peak('500'), peak('20000')
print(f'{few} KiB for 500 steps, {many} KiB for 20000')
sys.exit(many > few + 2048)
END
# shellcheck disable=SC2086
"$PYTHON" "$folder/memory.py" "$weft" run $fresh --trace "$folder/t.json" --profile="$folder/p.csv"
ok $? 'memory does not grow with steps'
finish
