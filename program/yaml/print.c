/* print.c: a program as YAML, one var or op a line. What a wire form leaves out is left out here, so that presence
 * survives; meshes are named by index, as in the sidecar. Grammar: docs/yaml-form.md. */
#include <inttypes.h>

#include "program/yaml/yaml_form.h"

/* --- call stacks -------------------------------------------------------------------------------------------------- */

/* The different call stacks of a program, in order of first use: most ops share theirs with neighbours. */
typedef struct callstack_list {
    const weft_attr **stacks;
    size_t count;
    hash_table table; /* of stacks by what they hold */
} callstack_list;

static uint32_t hash_stack(const weft_attr *a) {
    uint32_t h = a->count;
    for (size_t i = 0; i < a->count; i++) h = h * 31 + base_hash(a->u.strings[i]->bytes, a->u.strings[i]->nbytes);
    return h;
}

static bool same_stack(const weft_attr *a, const weft_attr *b) {
    if (a->count != b->count) return false;
    for (size_t i = 0; i < a->count; i++) {
        const name *x = a->u.strings[i], *y = b->u.strings[i];
        if (x->nbytes != y->nbytes || (x->nbytes && memcmp(x->bytes, y->bytes, x->nbytes) != 0)) return false;
    }
    return true;
}

static uint32_t number_stack(callstack_list *list, const weft_attr *a) {
    table_probe at = table_find(&list->table, hash_stack(a));
    while (at.item != TABLE_NONE && !same_stack(list->stacks[at.item], a)) table_next(&list->table, &at);
    if (at.item == TABLE_NONE) {
        list->stacks[list->count] = a;
        table_put(&list->table, &at, (uint32_t)list->count++);
    }
    return at.item;
}

/* Numbers the call stack of every op; the result has one entry for each attr that yaml_is_callstack. */
static weft_status number_callstacks(yaml_writer *w, callstack_list *list) {
    size_t nuses = 0, n = 0;
    for (size_t i = 0; i < w->program->nblocks; i++) {
        FOR_EACH_OP(op, w->program->blocks[i]) {
            for (size_t k = 0; k < op->nattrs; k++) nuses += yaml_is_callstack(&op->attrs[k]);
        }
    }
    if (nuses) TRY(table_reserve(&w->scratch, &list->table, nuses));
    list->stacks = ARENA_ARRAY(&w->scratch, const weft_attr *, nuses);
    w->callstacks = ARENA_ARRAY(&w->scratch, uint32_t, nuses);
    if (!list->stacks || !w->callstacks) return base_out_of_memory();
    for (size_t i = 0; i < w->program->nblocks; i++) {
        FOR_EACH_OP(op, w->program->blocks[i]) {
            for (size_t k = 0; k < op->nattrs; k++)
                if (yaml_is_callstack(&op->attrs[k])) w->callstacks[n++] = number_stack(list, &op->attrs[k]);
        }
    }
    return NULL;
}

/* --- head --------------------------------------------------------------------------------------------------------- */

static void put_bytes_member(buffer *out, const char *before, const char *key, text value) {
    if (!value.nbytes) return;
    buffer_format(out, "%s%s: ", before, key);
    yaml_put_string(out, value.bytes, value.nbytes);
}

static void put_op_versions(buffer *out, const weft_program *p) {
    if (!p->has_op_version_map) return;
    size_t start = out->nbytes;
    buffer_text(out, "op_versions: ");
    if (!op_versions_print(p->op_version_map, out)) {
        out->nbytes = start;
        buffer_text(out, "op_version_map: ");
        yaml_put_string(out, p->op_version_map.bytes, p->op_version_map.nbytes);
    }
    buffer_text(out, "\n");
}

static void put_rings(buffer *out, const weft_program *p) {
    if (p->nrings) buffer_text(out, "rings:\n");
    for (size_t i = 0; i < p->nrings; i++) {
        const ring *r = &p->rings[i];
        buffer_format(out, "  %" PRId64 ": %s", r->id, r->type ? "{ranks: " : "");
        yaml_put_ints(out, r->ranks, (size_t)r->nranks);
        if (r->type) {
            buffer_text(out, ", type: ");
            yaml_put_string(out, r->type, strlen(r->type));
            buffer_text(out, "}");
        }
        buffer_text(out, "\n");
    }
}

static void put_meshes(buffer *out, const weft_program *p) {
    if (p->nmeshes) buffer_text(out, "meshes:\n");
    for (size_t i = 0; i < p->nmeshes; i++) {
        const mesh *m = p->meshes[i];
        buffer_text(out, "- {shape: ");
        yaml_put_ints(out, m->shape, (size_t)m->ndim);
        buffer_text(out, ", ids: ");
        yaml_put_ints(out, m->ids, (size_t)mesh_size(m));
        buffer_text(out, m->names ? ", dims: [" : "");
        for (int k = 0; m->names && k < m->ndim; k++) {
            buffer_text(out, k ? ", " : "");
            yaml_put_string(out, m->names[k], strlen(m->names[k]));
        }
        buffer_text(out, m->names ? "]}\n" : "}\n");
    }
}

static void put_params_grads(buffer *out, const weft_program *p) {
    if (p->nparams_grads) buffer_text(out, "params_grads:\n");
    for (size_t i = 0; i < p->nparams_grads; i++) {
        const name *param = p->params_grads[2 * i], *grad = p->params_grads[2 * i + 1];
        buffer_text(out, "- [");
        yaml_put_string(out, param->bytes, param->nbytes);
        buffer_text(out, ", ");
        yaml_put_string(out, grad->bytes, grad->nbytes);
        buffer_text(out, "]\n");
    }
}

static void put_json(buffer *out, const char *key, const char *json) {
    if (!json) return;
    buffer_format(out, "%s: ", key);
    yaml_put_string(out, json, strlen(json));
    buffer_text(out, "\n");
}

static void put_head(buffer *out, const weft_program *p) {
    buffer_format(out, "weft: %d\n", YAML_FORM_VERSION);
    if (p->has_version) buffer_format(out, "version: %" PRId64 "\n", p->version);
    put_op_versions(out, p);
    put_bytes_member(out, "", "unknown", p->unknown_fields);
    buffer_text(out, p->unknown_fields.nbytes ? "\n" : "");
    if (p->has_dist) buffer_format(out, "rank: %" PRId64 "\n", p->rank);
    put_rings(out, p);
    put_meshes(out, p);
    put_params_grads(out, p);
    put_json(out, "dist_extra", p->dist_extra_json);
    put_json(out, "fx", p->fx_json);
}

/* --- blocks ------------------------------------------------------------------------------------------------------- */

/* Vars as a mapping; as a list of flow mappings where a name is declared twice or is too long for a plain key. */
static void put_vars(yaml_writer *w, const weft_block *b) {
    bool as_list = false;
    yaml_new_list(w);
    for (size_t i = 0; i < b->nvars; i++) {
        const name *n = block_var(b, i)->name;
        as_list = yaml_seen(w, n) || yaml_is_long_key(n) || as_list;
    }
    if (b->nvars) buffer_text(w->out, "  vars:\n");
    for (size_t i = 0; i < b->nvars; i++) {
        buffer_text(w->out, as_list ? "  - {" : "    ");
        const weft_var *v = block_var(b, i);
        yaml_put_key(w->out, v->name);
        yaml_put_var(w, v);
        buffer_text(w->out, as_list ? "}\n" : "\n");
        buffer_flush(w->out);
    }
}

static void put_block(yaml_writer *w, const weft_block *b) {
    buffer_format(w->out, "- idx: %" PRId32 "\n  parent: %" PRId32 "\n", b->idx, b->parent_idx);
    if (b->has_forward_block_idx) buffer_format(w->out, "  forward: %" PRId32 "\n", b->forward_block_idx);
    put_bytes_member(w->out, "  ", "unknown", b->unknown_fields);
    if (b->unknown_fields.nbytes) buffer_text(w->out, "\n");
    put_vars(w, b);
    if (b->nops) buffer_text(w->out, "  ops:\n");
    FOR_EACH_OP(op, b) {
        buffer_text(w->out, "  - ");
        yaml_put_op(w, op);
        buffer_text(w->out, "\n");
        buffer_flush(w->out);
    }
}

static weft_status put_program(yaml_writer *w) {
    const weft_program *p = w->program;
    callstack_list list = {0};
    mesh_index *meshes;
    TRY(mesh_indices(p, &w->scratch, &meshes));
    w->meshes = meshes;
    w->stamps = ARENA_ARRAY(&w->scratch, uint32_t, p->names.count + 1);
    if (!w->stamps) return base_out_of_memory();
    TRY(number_callstacks(w, &list));
    put_head(w->out, p);
    buffer_text(w->out, "blocks:\n");
    for (size_t i = 0; i < p->nblocks; i++) put_block(w, p->blocks[i]);
    if (list.count) buffer_text(w->out, "callstacks:\n");
    for (size_t i = 0; i < list.count; i++) {
        buffer_text(w->out, "- ");
        yaml_put_strings(w->out, list.stacks[i]->u.strings, list.stacks[i]->count);
        buffer_text(w->out, "\n");
    }
    return buffer_status(w->out);
}

weft_status yaml_print(const weft_program *p, buffer *out) {
    yaml_writer w = {.program = p, .out = out};
    arena_init(&w.scratch, &p->context->allocator);
    weft_status status = put_program(&w);
    arena_fini(&w.scratch);
    return status;
}
