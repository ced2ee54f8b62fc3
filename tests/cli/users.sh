#!/bin/sh
# Training programs as Paddle 2.6.2 writes them (tests/data/users), with the batch left open: two ranks are proved, their
# certificate holds, and what is saved is what Paddle has.
. tests/support/shell.sh
. tests/support/python.sh
users=tests/data/users

for program in $users/*.yaml; do
    case $program in *_startup.yaml) continue ;; esac
    name=$(basename "$program" .yaml)
    "$weft" opt "$program" -q --passes configs/data_parallel.yaml --set data_parallel.ranks=2 -o "$folder/$name.pdmodel" \
        --certificate "$folder/$name.json"
    ok $? "$name: two ranks"
    prints 0 '^against the serial program: same' "$name: proved" \
        "$weft" verify "$folder/$name.pdmodel" --ranks 2 --against "$program"
    prints 0 '^against the serial program: same' "$name: proved for 8 rows" \
        "$weft" verify "$folder/$name.pdmodel" --ranks 2 --against "$program" --batch 8
    prints 0 'certificate: holds' "$name: the certificate" \
        "$weft" verify --certificate "$folder/$name.json" "$program" "$folder/$name.pdmodel"
done

# The buffer of a recurrent layer's weights (gru_0.w_0) is the weights one after another, after training too.
"$PYTHON" - "$folder/feed.npz" <<'END'
import sys
import numpy as np
rng = np.random.default_rng(3)
draw = lambda *shape: rng.standard_normal(shape).astype('float32')
np.savez(sys.argv[1], **{f'{step}/{name}': value for step in range(3) for name, value in
                         [('x', draw(4, 3, 2)), ('t', draw(4, 1))]})
END
for ranks in 1 2; do
    program=$users/flat_gru.yaml
    [ $ranks = 2 ] && program=$folder/flat_gru.pdmodel
    "$weft" run "$program" --ranks $ranks --startup $users/flat_gru_startup.yaml --feed "$folder/feed.npz" --seed 5 \
        --save "$folder/saved.npz" >"$folder/losses"
    ok $? "a recurrent layer trains on $ranks ranks"
    "$PYTHON" - "$folder/saved.npz" <<'END'
import sys
import numpy as np
saved = np.load(sys.argv[1])
parts = [saved[f'gru_cell_0.{n}'].ravel() for n in ('w_0', 'w_1', 'b_0', 'b_1')]
assert np.abs(parts[2]).max() > 0, 'biases began as zeros: nothing was trained'
assert saved['gru_0.w_0'].tobytes() == np.concatenate(parts).tobytes()
END
    ok $? "its buffer has the weights after $ranks ranks' steps"
done

# So it is where ranks have parts of the weights, and of the buffer.
"$weft" run $users/flat_gru.yaml --startup $users/flat_gru_startup.yaml --feed "$folder/feed.npz" --seed 5 --steps 0 \
    --save "$folder/begin.npz" >"$folder/losses"
for buffer in '' ', "gru_0.w_0": {"mesh": 0, "dims_mapping": [0]}'; do
    echo '{"meshes": [{"shape": [2], "ids": [0, 1], "dims": ["mp"]}], "vars": {
        "gru_cell_0.w_0": {"mesh": 0, "dims_mapping": [0, -1]}, "gru_cell_0.w_1": {"mesh": 0, "dims_mapping": [-1, 0]}'"$buffer}}" \
        >"$folder/annotate.json"
    "$weft" opt -q $users/flat_gru.yaml --dist "$folder/annotate.json" --passes spmd_expand -o "$folder/part{rank}.yaml" &&
        "$weft" run "$folder/part0.yaml" "$folder/part1.yaml" --ranks 2 --params "$folder/begin.npz" --feed "$folder/feed.npz" \
            --save "$folder/parts.npz" >"$folder/losses"
    ok $? "two ranks train parts of its weights${buffer:+ and of the buffer}"
    "$PYTHON" - "$folder" <<'END'
import sys
import numpy as np
begin, saved = np.load(sys.argv[1] + '/begin.npz'), np.load(sys.argv[1] + '/parts.npz')
parts = [saved[f'gru_cell_0.{n}'].ravel() for n in ('w_0', 'w_1', 'b_0', 'b_1')]
assert np.abs(saved['gru_0.w_0'] - begin['gru_0.w_0']).max() > 0, 'nothing was trained'
assert saved['gru_0.w_0'].tobytes() == np.concatenate(parts).tobytes()
END
    ok $? "its buffer has the weights of which ranks had parts${buffer:+, and so of the buffer}"
done
finish
