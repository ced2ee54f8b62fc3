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
page=$root/usr/share/man/man1/weft.1
for command in $("$root/usr/bin/weft" help | sed -n 's/^  \([a-z]*\) .*/\1/p'); do
    missing=$("$root/usr/bin/weft" "$command" --help | grep -o -e '^  [-a-z, ]*--[a-z-]*' | grep -o -e '--[a-z-]*' |
        while read -r option; do grep -q -e "$option" "$page" || echo "$option"; done)
    [ -z "$missing" ]; ok $? "the manual page has the options of $command: $missing"
done
grep -q '^\.Ss weft run' "$page"; ok $? "the manual page has a section for each command"
for completion in bash-completion/completions/weft zsh/site-functions/_weft fish/vendor_completions.d/weft.fish; do
    grep -q -e 'passes' "$root/usr/share/$completion"; ok $? "$completion knows the options"
done
bash -n "$root/usr/share/bash-completion/completions/weft"; ok $? "the script for bash parses"
for file in bin/weft lib/libweft.so.0; do
    ! readelf -S "$root/usr/$file" | grep -q '\.debug_info'; ok $? "$file has no debug information"
done
tree=$PWD
(cd "$folder" && "$root/usr/bin/weft" opt "$tree/examples/gpt_tiny/serial.pdmodel" --quiet --passes data_parallel.yaml \
    --set data_parallel.ranks=2 -o dp.pdmodel && "$root/usr/bin/weft" simulate dp.pdmodel --cluster h100_nodes.yaml) 2>"$folder/err"
ok $? "pass lists and cluster files are found by name: $(tail -n 1 "$folder/err")"
make --no-print-directory uninstall DESTDIR="$root" PREFIX=/usr BUILD="${BUILD:-build}" >>"$folder/log" 2>&1
left=$(find "$root" -type f -o -type l)
[ -z "$left" ]; ok $? "uninstall leaves nothing: $left"
finish
