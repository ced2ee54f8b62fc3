#!/bin/sh
# "-": every text form on stdin, told apart by how it begins; stdout likewise.
. tests/support/shell.sh
program=tests/golden/full_list/out.yaml
graph=$fixtures/torch/ddp/mlp6.w2/before.fx.json
for command in 'show' 'plan --summary' 'verify --ranks 2' 'simulate --ranks 2 --unsafe' 'info' 'opt --quiet'; do
    name=${command%% *} rest=${command#"$name"}
    for file in "$program" "$graph"; do
        # shellcheck disable=SC2086
        "$weft" "$name" "$file" $rest >"$folder/by_name" 2>"$folder/err_by_name"
        expected=$?
        # shellcheck disable=SC2086
        "$weft" "$name" - $rest <"$file" >"$folder/by_stdin" 2>"$folder/err"
        got=$?
        sed -i "s|$file|stdin|g" "$folder/by_name"
        [ $got = $expected ] && cmp -s "$folder/by_name" "$folder/by_stdin"
        ok $? "$name - takes what $name $file takes: exit $got, expected $expected: $(head -n 1 "$folder/err")"
    done
done
"$weft" opt "$graph" --quiet --form fx | cmp -s - "$graph"; ok $? 'opt --form fx writes a graph on stdout'
"$weft" opt "$graph" --quiet | "$weft" opt - --quiet --form fx | cmp -s - "$graph"; ok $? 'through YAML in a pipe and back'
"$weft" plan "$program" -o "$folder/p.plan" && "$weft" plan - <"$folder/p.plan" | cmp -s - "$folder/p.plan"
ok $? 'plan - takes a plan'
printf '{"weft": 1, "blocks": []}\n' | "$weft" opt - --quiet >"$folder/out"; ok $? 'YAML that begins with a brace is YAML'
says 1 'stdin:1' 'an error on stdin has its line' "$weft" show - </dev/null
says 2 '--form: expected yaml or fx, found "json"' 'no such form' "$weft" opt "$program" --form json
says 2 "a file's form is that of its name" '--form with a file' "$weft" opt "$program" --form fx -o "$folder/x.yaml"
finish
