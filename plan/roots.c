/* roots.c: the buffer that holds a value, and where in it. */
#include "plan/builder.h"

int32_t plan_find_root(const plan_builder *b, int32_t value, int64_t *out_begin) {
    int64_t begin = 0;
    for (; b->values[value].view_of >= 0; value = b->values[value].view_of) begin += b->values[value].offset;
    *out_begin = begin;
    return value;
}

weft_status plan_find_roots(plan_builder *b) {
    size_t n = b->nvalues ? b->nvalues : 1;
    b->root_of = ARENA_ARRAY(&b->scratch, int32_t, n);
    b->begin_of = ARENA_ARRAY(&b->scratch, int64_t, n);
    b->roots = ARENA_ARRAY(&b->scratch, plan_root, n);
    if (!b->root_of || !b->begin_of || !b->roots) return base_out_of_memory();
    for (size_t i = 0; i < b->nvalues; i++) {
        int32_t v = (int32_t)i, root = plan_find_root(b, v, &b->begin_of[v]);
        b->root_of[v] = root;
        if (root != v) b->roots[root].has_views = true;
        if (root != v && !b->view_ops[v]) b->roots[root].has_members = true;
        b->roots[v].nbytes = b->values[v].nbytes;
    }
    return NULL;
}
