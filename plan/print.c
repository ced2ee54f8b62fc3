/* print.c: the text form of a plan: a header, a line a value, a line an instruction, in YAML's flow style. Everything
 * that an executor needs is in it, and nothing that depends on addresses or hash order. */
#include <stdlib.h>

#include "dist_attr/dims.h"
#include "plan/text.h"

const plan_flag plan_flags[PLAN_NFLAGS] = {
    {"persistable", offsetof(plan_value, persistable)},  {"feed", offsetof(plan_value, is_feed)},
    {"fetch", offsetof(plan_value, is_fetch)},           {"written", offsetof(plan_value, is_written)},
    {"read_first", offsetof(plan_value, is_read_first)},
};

typedef struct numbered_mesh {
    const mesh *mesh;
    size_t index;    /* in the program */
    int64_t printed; /* in the text; -1: no value has it */
} numbered_mesh;

typedef struct printer {
    const weft_plan *plan;
    buffer *out;
    numbered_mesh *meshes; /* sorted by address */
    size_t nmeshes;
} printer;

static void put_string(buffer *out, const char *s) {
    yaml_put_string(out, s, strlen(s));
}

static void put_ints(buffer *out, const int64_t *values, size_t count) {
    buffer_text(out, "[");
    for (size_t i = 0; i < count; i++) buffer_format(out, "%s%lld", i ? ", " : "", (long long)values[i]);
    buffer_text(out, "]");
}

/* --- meshes: numbered in the program's order, those that no value has left out ------------------------------------ */

static int compare_meshes(const void *x, const void *y) {
    const numbered_mesh *a = x, *b = y;
    return ((uintptr_t)a->mesh > (uintptr_t)b->mesh) - ((uintptr_t)a->mesh < (uintptr_t)b->mesh);
}

static numbered_mesh *find_mesh(const printer *p, const mesh *m) {
    if (!p->nmeshes) return NULL;
    return bsearch(&(numbered_mesh){.mesh = m}, p->meshes, p->nmeshes, sizeof *p->meshes, compare_meshes);
}

static weft_status number_meshes(printer *p, arena *scratch) {
    const weft_program *program = p->plan->program;
    p->nmeshes = program->nmeshes;
    p->meshes = ARENA_ARRAY(scratch, numbered_mesh, p->nmeshes + 1);
    numbered_mesh **in_order = ARENA_ARRAY(scratch, numbered_mesh *, p->nmeshes + 1);
    if (!p->meshes || !in_order) return base_out_of_memory();
    for (size_t i = 0; i < p->nmeshes; i++) p->meshes[i] = (numbered_mesh){program->meshes[i], i, -1};
    if (p->nmeshes > 1) qsort(p->meshes, p->nmeshes, sizeof *p->meshes, compare_meshes);
    for (size_t i = 0; i < p->nmeshes; i++) in_order[p->meshes[i].index] = &p->meshes[i];
    for (size_t v = 0; v < p->plan->nvalues; v++) {
        const placement *dist = p->plan->values[v].dist;
        numbered_mesh *m = dist && dist->mesh ? find_mesh(p, dist->mesh) : NULL;
        if (m) m->printed = 0;
    }
    for (size_t i = 0, n = 0; i < p->nmeshes; i++)
        if (in_order[i]->printed == 0) in_order[i]->printed = (int64_t)n++;
    return NULL;
}

static void put_mesh(buffer *out, const mesh *m) {
    buffer_text(out, "- {shape: ");
    put_ints(out, m->shape, (size_t)m->ndim);
    buffer_text(out, ", ids: ");
    put_ints(out, m->ids, (size_t)mesh_size(m));
    for (int i = 0; m->names && i < m->ndim; i++) {
        buffer_text(out, i ? ", " : ", names: [");
        put_string(out, m->names[i]);
    }
    buffer_text(out, m->names && m->ndim ? "]}\n" : "}\n");
}

static void put_meshes(const printer *p) {
    bool any = false;
    const weft_program *program = p->plan->program;
    for (size_t i = 0; i < program->nmeshes; i++) {
        if (find_mesh(p, program->meshes[i])->printed < 0) continue;
        if (!any) buffer_text(p->out, "meshes:\n");
        any = true;
        put_mesh(p->out, program->meshes[i]);
    }
}

/* --- header ------------------------------------------------------------------------------------------------------- */

static void put_rings(buffer *out, const weft_program *program) {
    if (program->nrings) buffer_text(out, "rings:\n");
    for (size_t i = 0; i < program->nrings; i++) {
        const ring *r = &program->rings[i];
        buffer_format(out, "- {id: %lld, ranks: ", (long long)r->id);
        put_ints(out, r->ranks, (size_t)r->nranks);
        if (r->type) {
            buffer_text(out, ", type: ");
            put_string(out, r->type);
        }
        buffer_text(out, "}\n");
    }
}

/* Where ops mean what they meant in an older version of Paddle (ops/versions.def). */
static void put_version(const printer *p) {
    const weft_plan *plan = p->plan;
    bool older = false;
    for (size_t i = 0; i < plan->ninstrs && !older; i++) older = op_follows_older(plan->instrs[i].op);
    if (older) buffer_format(p->out, "program_version: %lld\n", (long long)plan->program->version);
}

static void put_header(const printer *p) {
    const weft_plan *plan = p->plan;
    buffer_format(p->out, "weft_plan: %d\nrank: %lld\nstreams: [", PLAN_TEXT_VERSION, (long long)plan->program->rank);
    for (int i = 0; i < plan->nstreams; i++) {
        if (i) buffer_text(p->out, ", ");
        put_string(p->out, plan->stream_names[i]);
    }
    buffer_format(p->out, "]\npersistent_nbytes: %lld\ntemporary_nbytes: %lld\nremoved_ops: %zu\n",
                  (long long)plan->persistent_nbytes, (long long)plan->temporary_nbytes, plan->nremoved);
    if (plan->given_waits) buffer_text(p->out, "given_waits: true\n");
    put_version(p);
    put_rings(p->out, plan->program);
    put_meshes(p);
}

/* --- values ------------------------------------------------------------------------------------------------------- */

static void put_dist(const printer *p, const placement *dist) {
    const numbered_mesh *m = dist && dist->mesh ? find_mesh(p, dist->mesh) : NULL;
    if (!m) return;
    buffer_format(p->out, ", dist: {mesh: %lld, dims_mapping: ", (long long)m->printed);
    dims_mapping_print(p->out, dist->dims_mapping, (size_t)dist->ndim);
    bool any = false;
    for (int axis = 0; axis < 32; axis++) {
        if (!(dist->partial_axes >> axis & 1)) continue;
        buffer_format(p->out, "%s%d: %d", any ? ", " : ", partial: {", axis, dist->partial_reduce[axis]);
        any = true;
    }
    buffer_text(p->out, any ? "}}" : "}");
}

static void put_flags(buffer *out, plan_value v) {
    bool any = false;
    for (size_t i = 0; i < PLAN_NFLAGS; i++) {
        if (!*plan_flag_of(&v, i)) continue;
        buffer_format(out, "%s%s", any ? ", " : ", is: [", plan_flags[i].word);
        any = true;
    }
    if (any) buffer_text(out, "]");
}

static void put_value(const printer *p, const plan_value *v) {
    buffer *out = p->out;
    buffer_text(out, "- {name: ");
    put_string(out, v->name);
    buffer_format(out, ", dtype: %s, dims: ", weft_dtype_name((weft_dtype)v->shape.dtype));
    put_ints(out, v->shape.dims, (size_t)v->shape.ndim);
    buffer_format(out, ", space: %s, offset: %lld", v->space == PLAN_PERSISTENT ? "persistent" : "temporary",
                  (long long)v->offset);
    if (v->view_of >= 0) {
        buffer_text(out, ", view_of: ");
        put_string(out, p->plan->values[v->view_of].name);
    }
    if (v->shape.height >= 0) buffer_format(out, ", height: %lld", (long long)v->shape.height);
    if (v->rows >= 0) {
        buffer_text(out, ", rows: ");
        put_string(out, p->plan->values[v->rows].name);
    }
    put_flags(out, *v);
    put_dist(p, v->dist);
    buffer_text(out, "}\n");
}

/* --- instructions ------------------------------------------------------------------------------------------------- */

static void put_value_name(const printer *p, int32_t value) {
    if (value < 0)
        buffer_text(p->out, "null");
    else
        put_string(p->out, p->plan->values[value].name);
}

static void put_args(const printer *p, const char *key, const slot_schema *slots, size_t nslots, const int32_t *values,
                     const uint32_t *first) {
    bool any = false;
    buffer_format(p->out, ", %s: {", key);
    for (size_t s = 0; s < nslots; s++) {
        if (first[s] == first[s + 1]) continue;
        buffer_text(p->out, any ? ", " : "");
        put_string(p->out, slots[s].name);
        buffer_text(p->out, ": [");
        for (uint32_t i = first[s]; i < first[s + 1]; i++) {
            if (i > first[s]) buffer_text(p->out, ", ");
            put_value_name(p, values[i]);
        }
        buffer_text(p->out, "]");
        any = true;
    }
    buffer_text(p->out, "}");
}

static void put_waits(const printer *p, const plan_instr *i) {
    for (uint32_t w = 0; w < i->nwaits; w++) {
        buffer_text(p->out, w ? ", " : ", after: {");
        put_string(p->out, p->plan->stream_names[i->waits[w].stream]);
        buffer_format(p->out, ": %d", i->waits[w].count);
    }
    if (i->nwaits) buffer_text(p->out, "}");
}

static void put_guards(const printer *p, const plan_instr *i) {
    if (i->guard < 0) return;
    buffer_text(p->out, ", if: [");
    if (i->outer_guard >= 0) {
        put_value_name(p, i->outer_guard);
        buffer_text(p->out, ", ");
    }
    put_value_name(p, i->guard);
    buffer_text(p->out, "]");
}

/* Attrs that the op table knows, in its order: kernels read no others. */
static weft_status put_attrs(const printer *p, const plan_instr *i) {
    bool any = false;
    buffer one;
    buffer_init(&one, &p->plan->context->allocator);
    for (size_t k = 0; k < i->schema->nattrs; k++) {
        const weft_attr *a = op_find_attr(i->op, i->schema->attrs[k].name);
        one.nbytes = 0;
        if (!a || !plan_print_attr(&one, a, i->schema->attrs[k].type)) continue;
        buffer_format(p->out, "%s%s: ", any ? ", " : ", attrs: {", i->schema->attrs[k].name);
        buffer_append(p->out, one.bytes, one.nbytes);
        any = true;
    }
    weft_status status = buffer_status(&one);
    buffer_fini(&one);
    if (any) buffer_text(p->out, "}");
    return status;
}

static weft_status put_instr(const printer *p, const plan_instr *i) {
    buffer_text(p->out, "- {op: ");
    put_string(p->out, i->schema->type);
    buffer_format(p->out, ", index: %d, stream: ", i->op_index);
    put_string(p->out, p->plan->stream_names[i->stream]);
    put_args(p, "in", i->schema->inputs, i->schema->ninputs, i->in, i->in_first);
    put_args(p, "out", i->schema->outputs, i->schema->noutputs, i->out, i->out_first);
    put_waits(p, i);
    put_guards(p, i);
    if (i->nfused) buffer_format(p->out, ", fused: %u", i->nfused);
    TRY(put_attrs(p, i));
    int role = op_role(i->op);
    if (role != WEFT_ROLE_NOT_SPECIFIED) buffer_format(p->out, ", role: %d", role);
    buffer_text(p->out, "}\n");
    return NULL;
}

weft_status weft_plan_print(const weft_plan *plan, char **out_bytes, size_t *out_nbytes) {
    buffer out;
    arena scratch;
    weft_status status = NULL;
    buffer_init(&out, &plan->context->allocator);
    arena_init(&scratch, &plan->context->allocator);
    printer p = {.plan = plan, .out = &out};
    TRY_DONE(number_meshes(&p, &scratch));
    put_header(&p);
    buffer_text(&out, plan->nvalues ? "values:\n" : "values: []\n");
    for (size_t i = 0; i < plan->nvalues; i++) put_value(&p, &plan->values[i]);
    buffer_text(&out, plan->ninstrs ? "instructions:\n" : "instructions: []\n");
    for (size_t i = 0; i < plan->ninstrs; i++) TRY_DONE(put_instr(&p, &plan->instrs[i]));
    TRY_DONE(buffer_take(&out, out_bytes, out_nbytes));
done:
    buffer_fini(&out);
    arena_fini(&scratch);
    return status;
}
