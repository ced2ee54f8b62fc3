#!/bin/sh
# What people get wrong in YAML is told, with its line.
. tests/support/shell.sh
. tests/support/python.sh
write() { # Y_DIMS ARGUMENT ATTRS [KEY]
    cat >"$folder/p.yaml" <<END
weft: 1
${4:-}
blocks:
- vars:
    x: {float32: [4, 8]}
    y: {float32: [$1]}
    z: {float32: [4, 8]}
  ops:
  - {relu: {X: [x]}, out: {Out: [y]}}
  - {scale: {X: [$2]}, out: {Out: [z]}, attrs: {$3}}
  - {scale: {X: [$2]}, out: {Out: [z]}, attrs: {$3}}
END
}
"$PYTHON" -c 'import numpy, sys; numpy.savez(sys.argv[1], x=numpy.ones((4, 8), "f"))' "$folder/f.npz"
train() { "$weft" run "$folder/p.yaml" --feed "$folder/f.npz" --fetch z --save "$folder/saved.npz"; }
convert() { "$weft" opt -q "$folder/p.yaml" -o "$folder/q.pdmodel"; }
verify() { "$weft" verify "$folder/p.yaml"; }
silent() { # WHAT COMMAND...
    what=$1
    shift
    "$@" >/dev/null 2>"$folder/err" && [ ! -s "$folder/err" ]; ok $? "$what"
}

for value in '"3"' '[3]' 'true'; do
    write '4, 8' y "scale: $value"
    says 1 'p.yaml:10:55: error: attr "scale" of op "scale": expected a number' "scale: $value" convert
done
for value in 3 3.0 1e-5 '!double 3.0'; do
    write '4, 8' y "scale: $value"
    silent "scale: $value is a number" convert
done

write '4, 8' y 'scael: 3.0'
says 0 'p.yaml:10:48: warning: op "scale" has no attr "scael"' 'an attr that the op does not know' convert
[ "$(grep -c scael "$folder/err")" = 1 ]; ok $? 'it is told once'
write '4, 8' y 'scale: 3.0, Scale_x: 1.0, mkldnn_data_type: float32, op_role: 0, with_quant_attr: false'
silent 'attrs that Paddle writes are no news' convert

write '4, 8' yy 'scale: 3.0'
says 0 'p.yaml:10:18: warning: variable "yy" is not declared' 'a misspelt var: its line' convert
says 1 'scale #1: input "yy" is not declared, and no op writes it' 'a misspelt var is not run' train
prints 1 '^invalid_program: .*the first: scale #1: input "yy"' 'nor verified' verify

write '5, 8' y 'scale: 3.0'
says 1 'relu #0: output "y": expected float32 \[4, 8\], found float32 \[5, 8\] declared' 'a wrong shape is not run' train
says 1 'relu #0: output "y": expected' 'nor verified' verify
silent 'but converted' convert
for dims in '-1, 8' '-1, -1'; do
    write "$dims" y 'scale: 3.0'
    prints 0 'in_order: safe' "[$dims] contradicts nothing" verify
done
write '5, 8' y 'scale: 3.0' 'version: 2006002'
prints 0 'in_order: safe' 'what Paddle declares is not asked' verify
write '-3, 8' y 'scale: 3.0'
says 1 'variable "y": expected extents of -1 or more, found -3 on axis 0' 'an extent below -1' verify
write '4, 8' y 'scale: 3.0'
sed -i 's/z: {float32: .*/z: {dtype: 77, dims: [4, 8]}/' "$folder/p.yaml"
says 1 'variable "z": expected an element type, found number 77' 'an element type that has no name' verify
finish
