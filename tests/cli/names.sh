#!/bin/sh
# No part of an op's type is looked at: what an op is stands in tables (ops/), by whole types.
passed=0 failed=0
ok() { if [ "$1" = 0 ]; then passed=$((passed + 1)); else failed=$((failed + 1)); echo "FAIL $2"; fi; }
folders="base dist_attr program ops plan simulate proof passes executor train cli bench examples"
parts='strncmp|strncasecmp|strstr|strcasestr|strspn|strpbrk|has_prefix|starts_with|ends_with|fnmatch'
types='(->|\.)type(->bytes)?\b|weft_op_type\(|op_type\b|\btype(,|_of\()|text_of\b'

# Lines of the given folders that compare a type by part. A name for the type of a file, an attr or a var is none.
looks() { grep -rnE "\b($parts)\(.*($types)" --include='*.[ch]' --include='*.def' "$@" 2>/dev/null; }

found=$(looks $folders)
[ -z "$found" ]; ok $? "a part of an op's type is looked at:
$found"

copy=$(mktemp -d)
for line in 'strncmp(op->type->bytes, "c_allreduce_", 12)' 'strstr(c->schema->type, "_grad")' \
    'strncmp(type, "aten_", 5)' 'strncmp(weft_op_type(op), "all_reduce", 10)' 'ends_with(op->type, "_grad", &left)'; do
    echo "int x = $line == 0;" >"$copy/wrong.c"
    [ -n "$(looks "$copy")" ]; ok $? "not found: $line"
done
rm -rf "$copy"
echo "$passed passed, $failed failed"
[ $failed = 0 ]
