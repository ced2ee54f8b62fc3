/* rank_edits.c: see rank_edits.h. An attr mostly depends on the place along one axis, so what is noted is kept by set
 * of axes and place along these: as many values as there are places, not ranks. */
#include "passes/rank_edits.h"

#include "program/grow.h"

typedef struct rank_edit {
    weft_op *op;
    weft_attr value;
    struct rank_edit *next;
} rank_edit;

typedef struct edit_group {
    uint32_t axes;
    rank_edit **by_place;
} edit_group;

struct rank_edits {
    weft_context *context;
    arena memory;
    edit_group *groups;
    size_t ngroups, capacity;
};

weft_status rank_edits_create(weft_context *context, rank_edits **out) {
    rank_edits *made = base_alloc(&context->allocator, sizeof *made);
    if (!made) return base_out_of_memory();
    *made = (rank_edits){.context = context};
    arena_init(&made->memory, &context->allocator);
    *out = made;
    return NULL;
}

void rank_edits_destroy(rank_edits *edits) {
    if (!edits) return;
    arena_fini(&edits->memory);
    base_free(&edits->context->allocator, edits, sizeof *edits);
}

static size_t place_of(const mesh *m, uint32_t axes, const int64_t *at) {
    int64_t place = 0;
    for (int k = 0; k < m->ndim; k++)
        if (axes >> k & 1) place = place * m->shape[k] + at[k];
    return (size_t)place;
}

static weft_status find_group(rank_edits *e, const mesh *m, uint32_t axes, edit_group **out) {
    for (size_t i = 0; i < e->ngroups; i++)
        if (e->groups[i].axes == axes) return *out = &e->groups[i], NULL;
    TRY(grow(&e->memory, &e->groups, &e->capacity, e->ngroups + 1, sizeof *e->groups));
    edit_group *made = &e->groups[e->ngroups];
    *made = (edit_group){axes, ARENA_ARRAY(&e->memory, rank_edit *, (size_t)mesh_size(m))};
    if (!made->by_place) return base_out_of_memory();
    e->ngroups++;
    *out = made;
    return NULL;
}

weft_status rank_edits_add(rank_edits *e, const mesh *m, uint32_t axes, const int64_t *at, weft_op *op,
                           const weft_attr *value) {
    edit_group *group = NULL;
    TRY(find_group(e, m, axes, &group));
    rank_edit *made = ARENA_NEW(&e->memory, rank_edit), **first = &group->by_place[place_of(m, axes, at)];
    if (!made) return base_out_of_memory();
    *made = (rank_edit){op, *value, *first};
    bool is_list = value->type == ATTR_INTS || value->type == ATTR_LONGS;
    if (is_list && !(made->value.u.ints = arena_copy(&e->memory, value->u.ints, value->count * sizeof(int64_t))))
        return base_out_of_memory();
    *first = made;
    return NULL;
}

uint32_t rank_edits_axes(const rank_edits *e) {
    uint32_t axes = 0;
    for (size_t i = 0; e && i < e->ngroups; i++) axes |= e->groups[i].axes;
    return axes;
}

weft_status rank_edits_exchange(rank_edits *e, const mesh *m, const int64_t *at) {
    for (size_t i = 0; i < e->ngroups; i++) {
        rank_edit *x = e->groups[i].by_place[place_of(m, e->groups[i].axes, at)];
        for (; x; x = x->next) {
            weft_attr *own, was;
            TRY(op_set_attr(x->op, x->value.name->bytes, &own));
            was = *own;
            *own = x->value;
            x->value = was;
        }
    }
    return NULL;
}
