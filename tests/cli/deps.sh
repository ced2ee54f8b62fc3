#!/bin/sh
# Includes follow the layers and files do not use each other in circles; the checkers do refuse what does not hold.
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

# Object files of the library, its plugins and the command, as built: a machine may lack what a plugin needs.
folders="base dist_attr program ops plan simulate proof passes executor train cli"
# shellcheck disable=SC2086
find $folders -name '*.c' | sed "s|^|${BUILD:-build}/release/|; s|c\$|o|" | while read -r object; do
    [ ! -f "$object" ] || echo "$object"
done >"$copy/objects"
[ "$(wc -l <"$copy/objects")" -gt 400 ]; ok $? "most files have an object: $(wc -l <"$copy/objects")"
xargs python3 tools/circles.py <"$copy/objects"
ok $? "files use each other in a circle"
for pair in 'driver helper' 'helper driver'; do
    # shellcheck disable=SC2086
    set -- $pair
    printf 'void %s(void);\nvoid %s(void);\nvoid %s(void) { %s(); }\n' "$1" "$2" "$1" "$2" >"$copy/$1.c"
    cc -c -o "$copy/$1.o" "$copy/$1.c"
done
python3 tools/circles.py "$copy/driver.o" "$copy/helper.o" 2>"$copy/said"
[ $? = 1 ] && grep -q "driver.o uses $copy/helper.o: helper" "$copy/said"; ok $? "two files that use each other are not found"
rm -rf "$copy"
echo "$passed passed, $failed failed"
[ $failed = 0 ]
