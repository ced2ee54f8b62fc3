/* choice_mesh.c: the mesh that an option names. */
#include <stdlib.h>

#include "passes/choice/choice.h"

static weft_status refuse(weft_pass_context *pass, const char *words) {
    return weft_pass_refuse(
        pass, "mesh: expected the ranks along 1 to %d axes, as \"4\", \"2x4\" or \"dp=2, mp=4\", found \"%s\"",
        AXES_MESH, words);
}

/* An axis: a name and '=', or neither; then a number. False: it is none. */
static bool read_axis(const char **at, arena *memory, int64_t *out_extent, const char **out_name) {
    *at += strspn(*at, " ");
    size_t n = strcspn(*at, "=,x ");
    *out_name = NULL;
    if ((*at)[n] == '=' && n) {
        *out_name = arena_string(memory, *at, n);
        *at += n + 1;
    }
    char *end;
    long long extent = strtoll(*at, &end, 10);
    bool found = end != *at && extent >= 1 && extent <= MAX_RANKS;
    *at = end + strspn(end, " ");
    *out_extent = extent;
    return found;
}

weft_status choice_read_mesh(weft_pass_context *pass, const char *words, arena *memory, mesh *out) {
    int64_t *extents = ARENA_ARRAY(memory, int64_t, AXES_MESH), all = 1;
    const char **names = ARENA_ARRAY(memory, const char *, AXES_MESH), *at = words;
    int naxes = 0, nnames = 0;
    if (!extents || !names) return base_out_of_memory();
    do {
        if (naxes == AXES_MESH || !read_axis(&at, memory, &extents[naxes], &names[naxes])) return refuse(pass, words);
        nnames += names[naxes] != NULL;
        all *= extents[naxes++];
    } while (all <= MAX_RANKS && (*at == ',' || *at == 'x') && *at++);
    if (*at || all > MAX_RANKS || (nnames && nnames < naxes)) return refuse(pass, words);
    int64_t *ids = ARENA_ARRAY(memory, int64_t, all);
    if (!ids) return base_out_of_memory();
    for (int64_t i = 0; i < all; i++) ids[i] = i;
    *out = (mesh){.ndim = naxes, .shape = extents, .ids = ids, .names = nnames ? names : NULL};
    return mesh_check(out, "mesh");
}
