#!/bin/sh
# Includes follow the layers, and the checker does refuse one that does not.
passed=0 failed=0
ok() { if [ "$1" = 0 ]; then passed=$((passed + 1)); else failed=$((failed + 1)); echo "FAIL $2"; fi; }
sh tools/check_deps.sh; ok $? "an include breaks the layers"
copy=$(mktemp -d)
mkdir "$copy/tools" "$copy/base"
cp tools/check_deps.sh "$copy/tools/"
echo '#include "passes/pass_manager.h"' >"$copy/base/wrong.c"
sh "$copy/tools/check_deps.sh" >/dev/null 2>&1; [ $? = 1 ]; ok $? "base including passes is not refused"
rm "$copy/base/wrong.c"
mkdir -p "$copy/proof/certificate"
echo '#include "ops/ops.h"' >"$copy/proof/certificate/wrong.c"
sh "$copy/tools/check_deps.sh" >/dev/null 2>&1; [ $? = 1 ]; ok $? "the checker of certificates including ops is not refused"
mv "$copy/proof/certificate/wrong.c" "$copy/proof/other.c"
sh "$copy/tools/check_deps.sh" >/dev/null 2>&1; ok $? "proof including ops is refused"
rm -rf "$copy"
echo "$passed passed, $failed failed"
[ $failed = 0 ]
