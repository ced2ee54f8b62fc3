#!/bin/sh
# The Python package: its own tests with numpy alone, and the wheel installed as users do.
. tests/support/shell.sh
. tests/support/python.sh
build=${BUILD:-build}
make --no-print-directory BUILD="$build" python WHEELS="$folder/wheels" >"$folder/log" 2>&1
ok $? "make python: $(tail -n 3 "$folder/log")"
PYTHONPATH=$build/release/python "$PYTHON" -m unittest discover -s python/tests -v >"$folder/log" 2>&1
ran=$(sed -n 's/^Ran \([0-9]*\) test.*/\1/p' "$folder/log")
bad=$(grep -c -E '^(ERROR|FAIL):' "$folder/log")
[ "$bad" = 0 ] || grep -v ' ok$' "$folder/log" | tail -n 40
passed=$((passed + ${ran:-0} - bad)) failed=$((failed + bad))
[ "${ran:-0}" -gt 0 ]
ok $? "tests of the package ran: $(tail -n 3 "$folder/log")"

# The wheel lies as installers lay it, and finds its libraries beside itself.
mkdir "$folder/site" && (cd "$folder/site" && "$PYTHON" -m zipfile -e ../wheels/weft-*.whl .)
(cd / && env -u PYTHONPATH "$PYTHON" -c '
import sys; sys.path.insert(0, sys.argv[1])
import weft; assert weft.__file__.startswith(sys.argv[1]); print(weft.preset("data_parallel"))' "$folder/site") >"$folder/log" 2>&1
ok $? "the wheel imports: $(tail -n 1 "$folder/log")"
maps=$("$PYTHON" -c '
import sys; sys.path.insert(0, sys.argv[1])
import weft; print({line.split()[-1] for line in open("/proc/self/maps") if "libyaml" in line or "libzip" in line})' "$folder/site")
case $maps in *"$folder/site/weft/libs/libyaml"*) ;; *) false ;; esac
ok $? "libraries come from the wheel: $maps"
finish
