#!/bin/sh
# The libraries show the functions of include/weft/ and nothing else. They live in a host that calls its own functions as Weft calls its
# inner ones.
. tests/support/shell.sh
root=$folder/root
make --no-print-directory install DESTDIR="$root" PREFIX=/usr BUILD="${BUILD:-build}" >"$folder/log" 2>&1
ok $? "make install: $(tail -n 3 "$folder/log")"
# Comments name functions too: only what the compiler sees counts.
for header in include/weft/*.h; do echo "#include \"$header\""; done |
    gcc -std=c17 -E -P -Iinclude -I. -x c - | grep -o -E '\bweft_[a-z0-9_]+\(' | tr -d '(' | sort -u >"$folder/declared"
nm -D --defined-only "$root/usr/lib/libweft.so" | awk '{ print $3 }' | sort >"$folder/shared"
nm --defined-only --extern-only "$root/usr/lib/libweft.a" | awk 'NF == 3 { print $3 }' | sort >"$folder/static"
for kind in shared static; do
    diff "$folder/declared" "$folder/$kind" >"$folder/diff"
    ok $? "the $kind library shows what headers declare: $(head -n 5 "$folder/diff")"
done
[ "$(wc -l <"$folder/declared")" -gt 200 ]
ok $? "the headers declare functions"

cat >"$folder/host.c" <<'END'
#include <stdio.h>
#include <string.h>
#include "weft/pass.h"
#define MINE(name) int name(void); int name(void) { puts("the host's " #name " was called"); return 7; }
MINE(arena_init) MINE(arena_alloc) MINE(base_alloc) MINE(base_free) MINE(base_hash) MINE(table_find) MINE(interner_add)
int main(void) {
    static const char text[] = "weft: 1\nblocks:\n- idx: 0\n  vars:\n    x: {float32: [4]}\n    y: {float32: [4]}\n"
                               "  ops:\n  - {relu: {X: [x]}, out: {Out: [y]}}\n";
    weft_context *context = NULL;
    weft_program *program = NULL;
    weft_pass_list *list = NULL;
    weft_status s = weft_context_create(NULL, &context);
    if (!s) s = weft_program_parse(context, WEFT_FORM_YAML, text, strlen(text), NULL, 0, "host", &program);
    if (!s) s = weft_pass_list_parse(context, "prune_grad_scale", 16, "host", &list);
    if (!s) s = weft_pass_list_run(list, program, NULL);
    if (!s) printf("%zu ops\n", weft_program_nops(program));
    if (s) puts(weft_status_message(s));
    weft_pass_list_destroy(list);
    weft_program_destroy(program);
    weft_context_destroy(context);
    return s != NULL;
}
END
flags=$(PKG_CONFIG_PATH="$root/usr/lib/pkgconfig" PKG_CONFIG_SYSROOT_DIR="$root" pkg-config --cflags weft)
static=$(sed -n 's/^Libs.private: *//p' "$root/usr/lib/pkgconfig/weft.pc")
# shellcheck disable=SC2086
gcc -std=c17 $flags -I"$root/usr/include" -o "$folder/shared_host" "$folder/host.c" -rdynamic -L"$root/usr/lib" -lweft \
    -Wl,-rpath,"$root/usr/lib" >"$folder/log" 2>&1
ok $? "a host with functions of our inner names links with the shared library: $(head -n 3 "$folder/log")"
# shellcheck disable=SC2086
gcc -std=c17 $flags -I"$root/usr/include" -o "$folder/static_host" "$folder/host.c" "$root/usr/lib/libweft.a" \
    $(pkg-config --libs yaml-0.1 jansson libzip zlib libprotobuf-c) -lm -ldl -pthread \
    $(ldd "$root/usr/lib/libweft.so" | grep -q libdnnl && echo -ldnnl -lgomp) $static >"$folder/log" 2>&1
ok $? "and with the static one: $(head -n 3 "$folder/log")"
for kind in shared static; do
    [ "$("$folder/${kind}_host" 2>&1)" = '1 ops' ]
    ok $? "the $kind library calls its own: $("$folder/${kind}_host" 2>&1 | head -n 2)"
done
finish
