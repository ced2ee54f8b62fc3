#!/bin/sh
# `make install` gives library, headers and command; each public header compiles alone as C17 and C++17; a host builds
# and runs against the installed copy.
. tests/support/shell.sh
root=$folder/root
make --no-print-directory install DESTDIR="$root" PREFIX=/usr BUILD="${BUILD:-build}" >"$folder/log" 2>&1
ok $? "make install: $(tail -n 3 "$folder/log")"
for header in "$root"/usr/include/weft/*.h; do
    name=weft/$(basename "$header")
    printf '#include "%s"\n' "$name" >"$folder/alone.c"
    cp "$folder/alone.c" "$folder/alone.cc"
    gcc -std=c17 -Wall -Wextra -Wpedantic -Werror -I"$root/usr/include" -fsyntax-only "$folder/alone.c"
    ok $? "$name alone as C17"
    g++ -std=c++17 -Wall -Wextra -Wpedantic -Werror -I"$root/usr/include" -fsyntax-only "$folder/alone.cc"
    ok $? "$name alone as C++17"
done
flags=$(PKG_CONFIG_PATH="$root/usr/lib/pkgconfig" PKG_CONFIG_SYSROOT_DIR="$root" pkg-config --cflags --libs weft)
ok $? "pkg-config knows weft"
# shellcheck disable=SC2086
gcc -std=c17 -o "$folder/embed" examples/embed.c -I"$root/usr/include" -L"$root/usr/lib" $flags -Wl,-rpath,"$root/usr/lib"
ok $? "examples/embed.c builds against the installed copy"
"$folder/embed" >"$folder/out" && grep -q 'relu ops: 1' "$folder/out"
ok $? "the embedded pass ran: $(cat "$folder/out")"
"$root/usr/bin/weft" --version | grep -q '^weft [0-9]'
ok $? "the installed command runs"
[ -f "$root/usr/share/man/man1/weft.1" ]
ok $? "the manual page is installed"
"$root/usr/bin/weft" simulate examples/gpt_tiny/serial.pdmodel --cluster "$root/usr/share/weft/configs/clusters/h100_nodes.yaml" 2>&1 |
    grep -q '0 races seen'
ok $? "the cluster files are installed"
finish
