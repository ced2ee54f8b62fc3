#!/bin/sh
# Hosts that embed the library, compiled against installed files alone: those of tests/hosts/ and of examples/.
. tests/support/shell.sh
root=$folder/root
make --no-print-directory install DESTDIR="$root" PREFIX=/usr BUILD="${BUILD:-build}" >"$folder/log" 2>&1
ok $? "make install: $(tail -n 3 "$folder/log")"
flags=$(PKG_CONFIG_PATH="$root/usr/lib/pkgconfig" PKG_CONFIG_SYSROOT_DIR="$root" pkg-config --cflags weft)
host() { # SOURCE OUTPUT
    # shellcheck disable=SC2086
    ${CC:-gcc} -std=c17 -O1 -g -Wall -Wextra -Wpedantic -Werror $flags -I"$root/usr/include" -o "$2" "$1" -L"$root/usr/lib" \
        -lweft -lm -pthread -Wl,-rpath,"$root/usr/lib" >"$folder/log" 2>&1
    ok $? "$1 builds against installed files: $(head -n 5 "$folder/log")"
}
for source in tests/hosts/*.c; do
    name=$(basename "$source" .c)
    host "$source" "$folder/$name"
    "$folder/$name" >"$folder/out" 2>&1
    ok $? "$name: $(head -n 5 "$folder/out")"
done

# The pass of examples/overlap_pass.c leaves what overlap_comm leaves, on every recorded program.
host examples/overlap_pass.c "$folder/overlap_pass"
find tests/data "$fixtures" -name '*.pdmodel' -o -name '*.pdmodel.gz' | sort >"$folder/programs"
xargs "$folder/overlap_pass" <"$folder/programs" >"$folder/out" 2>&1
ok $? "the host's pass equals overlap_comm: $(head -n 3 "$folder/out")"
grep -q -E '^[0-9]+ programs, [1-9][0-9]* with gradients to overlap, 0 differ$' "$folder/out"
ok $? "and had something to do: $(tail -n 1 "$folder/out")"
finish
