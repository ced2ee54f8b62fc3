#!/bin/sh
# In a graph of values what is pending reaches its readers through the wait, and verify says where it does not.
. tests/support/shell.sh
. tests/support/python.sh
cat >"$folder/pending.fx.json" <<'END'
{"schema":"fx.json/1",
"groups":{"0":{"size":2,"ranks":[0,1]}},
"inputs":[
{"name":"x","shape":[4,2],"dtype":"float32","role":"data"}
],
"constants":[],
"nodes":[
{"name":"r","op":"call","target":"_c10d_functional.all_reduce.default","args":[{"ref":"x"},"sum","0"],"kwargs":{},"shape":[4,2],"dtype":"float32"},
{"name":"v","op":"call","target":"aten.view.default","args":[{"ref":"r"},[8]],"kwargs":{},"shape":[8],"dtype":"float32"},
{"name":"y","op":"call","target":"aten.relu.default","args":[{"ref":"v"}],"kwargs":{},"shape":[8],"dtype":"float32"},
{"name":"z","op":"call","target":"aten.relu.default","args":[{"ref":"r"}],"kwargs":{},"shape":[4,2],"dtype":"float32"}
],
"outputs":[
{"ref":"y"},
{"ref":"z"}
]}
END
# The wait stands before its readers, but their values do not come from it.
"$PYTHON" - "$folder" <<'END'
import json, sys
g = json.load(open(sys.argv[1] + '/pending.fx.json'))
g['nodes'].insert(2, {'name': 'w', 'op': 'call', 'target': '_c10d_functional.wait_tensor.default', 'args': [{'ref': 'r'}], 'kwargs': {},
                      'shape': [4, 2], 'dtype': 'float32'})
json.dump(g, open(sys.argv[1] + '/by_order.fx.json', 'w'))
END
reads_waited() { # FILE: whether both readers get their value from a wait of r
    "$PYTHON" - "$1" <<'END'
import json, sys
nodes = {n['name']: n for n in json.load(open(sys.argv[1]))['nodes']}
for reader, views in (('y', 1), ('z', 0)):
    n = nodes[nodes[reader]['args'][0]['ref']]
    for _ in range(views):
        assert n['target'] == 'aten.view.default', n
        n = nodes[n['args'][0]['ref']]
    assert n['target'] == '_c10d_functional.wait_tensor.default' and n['args'][0] == {'ref': 'r'}, n
assert sum('wait_tensor' in n['target'] for n in nodes.values()) == 1
END
}
"$weft" opt -q "$folder/pending.fx.json" --passes insert_comm_wait -o "$folder/a.fx.json" && reads_waited "$folder/a.fx.json"
ok $? 'insert_comm_wait: wait, then view'
"$weft" verify "$folder/a.fx.json" >/dev/null 2>&1; ok $? 'verify finds nothing'
prints 1 'unwaited_read: .*relu #3.* reads "v".*wait #2' 'verify: a wait that is there by order alone' "$weft" verify "$folder/by_order.fx.json"
"$weft" opt -q "$folder/by_order.fx.json" --passes schedule_comm_wait -o "$folder/b.fx.json" && reads_waited "$folder/b.fx.json"
ok $? 'schedule_comm_wait mends it'
"$weft" verify "$folder/b.fx.json" >/dev/null 2>&1; ok $? 'verify finds nothing then'
"$weft" opt -q "$folder/by_order.fx.json" --passes schedule_comm_wait -o "$folder/c.fx.json" --certificate "$folder/c.json" &&
    "$weft" verify --certificate "$folder/c.json" "$folder/by_order.fx.json" "$folder/c.fx.json" >/dev/null 2>&1
ok $? 'its certificate holds'
finish
