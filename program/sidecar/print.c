/* print.c: the distributed side of a program as NAME.dist.json, one entry a line. Members appear in the order
 * of the recorded sidecars; those that Weft does not know follow. */
#include <inttypes.h>
#include <stdio.h>

#include "dist_attr/dims.h"
#include "program/sidecar/sidecar.h"

typedef struct writer {
    const weft_program *program;
    buffer *out;
    const mesh_index *meshes;
    bool is_first; /* of the members of the object that is open: no comma */
} writer;

static void put_string(writer *w, const char *s) {
    json_put_string(w->out, s, strlen(s));
}

/* Opens a member: the comma, the key, the colon. */
static void put_keyn(writer *w, const char *key, size_t nbytes) {
    buffer_text(w->out, w->is_first ? "" : ", ");
    json_put_string(w->out, key, nbytes);
    buffer_text(w->out, ": ");
    w->is_first = false;
}

static void put_key(writer *w, const char *key) {
    put_keyn(w, key, strlen(key));
}

static void open_object(writer *w) {
    buffer_text(w->out, "{");
    w->is_first = true;
}

static void close_object(writer *w) {
    buffer_text(w->out, "}");
    w->is_first = false;
}

static void put_ints(writer *w, const int64_t *values, size_t count) {
    buffer_text(w->out, "[");
    for (size_t i = 0; i < count; i++) {
        if (i) buffer_text(w->out, ", ");
        buffer_integer(w->out, values[i]);
    }
    buffer_text(w->out, "]");
}

static void put_mesh_member(writer *w, const mesh *m) {
    int64_t index = mesh_index_find(w->meshes, w->program->nmeshes, m);
    if (index < 0) return;
    put_key(w, "mesh");
    buffer_integer(w->out, index);
}

/* The members of a JSON object text, without its braces, as further members of the object that is open. */
static void put_extra(writer *w, const char *json) {
    size_t n = json ? strlen(json) : 0;
    if (n < 3) return;
    buffer_text(w->out, w->is_first ? "" : ", ");
    buffer_append(w->out, json + 1, n - 2);
    w->is_first = false;
}

/* --- placements --------------------------------------------------------------------------------------------------- */

/* A list of axes where all are sums, else an object of reduce kinds by axis. */
static void put_partial(writer *w, const placement *p) {
    bool sums = true, first = true;
    for (unsigned i = 0; i < 32; i++)
        if (p->partial_axes >> i & 1 && p->partial_reduce[i] != WEFT_REDUCE_SUM) sums = false;
    buffer_text(w->out, sums ? "[" : "{");
    for (unsigned i = 0; i < 32; i++) {
        if (!(p->partial_axes >> i & 1)) continue;
        const char *reduce = form_reduce_name(p->partial_reduce[i]);
        buffer_text(w->out, first ? "" : ", ");
        if (sums)
            buffer_integer(w->out, i);
        else
            buffer_format(w->out, "\"%u\": \"%s\"", i, reduce ? reduce : "sum");
        first = false;
    }
    buffer_text(w->out, sums ? "]" : "}");
}

static void put_placement_members(writer *w, const placement *p, bool with_partial) {
    size_t ndim = p->ndim > 0 ? (size_t)p->ndim : 0;
    put_mesh_member(w, p->mesh);
    put_key(w, "dims_mapping");
    dims_mapping_print(w->out, p->dims_mapping, ndim);
    put_key(w, "batch_dim");
    buffer_integer(w->out, p->batch_dim);
    put_key(w, "dynamic_dims");
    buffer_text(w->out, "[");
    for (size_t i = 0; i < ndim; i++) {
        buffer_text(w->out, i ? ", " : "");
        buffer_integer(w->out, p->dynamic_dims && p->dynamic_dims[i]);
    }
    buffer_text(w->out, "]");
    if (p->chunk_id) {
        put_key(w, "chunk_id");
        buffer_integer(w->out, p->chunk_id);
    }
    if (with_partial && p->partial_axes) {
        put_key(w, "partial");
        put_partial(w, p);
    }
}

/* --- head --------------------------------------------------------------------------------------------------------- */

static void put_rings(writer *w) {
    const weft_program *p = w->program;
    for (size_t i = 0; i < p->nrings; i++) {
        buffer_format(w->out, "%s\n  \"%" PRId64 "\": {\"ranks\": ", i ? "," : "", p->rings[i].id);
        put_ints(w, p->rings[i].ranks, (size_t)p->rings[i].nranks);
        buffer_text(w->out, ", \"type\": ");
        if (p->rings[i].type)
            put_string(w, p->rings[i].type);
        else
            buffer_text(w->out, "null");
        buffer_text(w->out, "}");
    }
}

static void put_meshes(writer *w) {
    const weft_program *p = w->program;
    for (size_t i = 0; i < p->nmeshes; i++) {
        const mesh *m = p->meshes[i];
        buffer_format(w->out, "%s\n  {\"shape\": ", i ? "," : "");
        put_ints(w, m->shape, (size_t)m->ndim);
        buffer_text(w->out, ", \"ids\": ");
        put_ints(w, m->ids, (size_t)mesh_size(m));
        buffer_text(w->out, m->names ? ", \"dims\": [" : "");
        for (int k = 0; m->names && k < m->ndim; k++) {
            buffer_text(w->out, k ? ", " : "");
            put_string(w, m->names[k]);
        }
        buffer_text(w->out, m->names ? "]}" : "}");
    }
}

static void put_params_grads(writer *w) {
    const weft_program *p = w->program;
    for (size_t i = 0; i < p->nparams_grads; i++) {
        const name *param = p->params_grads[2 * i], *grad = p->params_grads[2 * i + 1];
        buffer_format(w->out, "%s\n  [", i ? "," : "");
        json_put_string(w->out, param->bytes, param->nbytes);
        buffer_text(w->out, ", ");
        json_put_string(w->out, grad->bytes, grad->nbytes);
        buffer_text(w->out, "]");
    }
}

/* --- vars and ops ------------------------------------------------------------------------------------------------- */

static void start_line(writer *w, const char *comma) {
    buffer_flush(w->out);
    buffer_text(w->out, comma);
    buffer_text(w->out, "\n  ");
}

static void put_vars(writer *w, weft_var *const *by_name) {
    const weft_program *p = w->program;
    const char *comma = "";
    for (size_t i = 0; i < p->nall_vars; i++) {
        const weft_var *v = program_var(p, i);
        if (by_name[v->name->id] != v || (!v->dist && !v->dist_is_null)) continue;
        start_line(w, comma);
        comma = ",";
        json_put_string(w->out, v->name->bytes, v->name->nbytes);
        if (!v->dist) {
            buffer_text(w->out, ": null");
            continue;
        }
        buffer_text(w->out, ": ");
        open_object(w);
        put_placement_members(w, v->dist, true);
        put_extra(w, v->rest->dist_extra_json);
        close_object(w);
    }
}

/* Whether a list of axes says all there is, on the op's own mesh. */
static bool is_plain(const placement *p, const mesh *op_mesh) {
    return p->mesh == op_mesh && p->batch_dim == 0 && p->chunk_id == 0 && !p->dynamic_dims;
}

static void put_placements(writer *w, const char *key, const op_placement *list, size_t count, const mesh *op_mesh) {
    bool partial = false;
    put_key(w, key);
    open_object(w);
    for (size_t i = 0; i < count; i++) {
        const placement *p = list[i].placement;
        put_keyn(w, list[i].var->bytes, list[i].var->nbytes);
        if (is_plain(p, op_mesh)) {
            dims_mapping_print(w->out, p->dims_mapping, p->ndim > 0 ? (size_t)p->ndim : 0);
        } else {
            open_object(w);
            put_placement_members(w, p, false);
            close_object(w);
        }
        partial = partial || p->partial_axes;
    }
    if (partial) {
        put_key(w, "@partial");
        open_object(w);
        for (size_t i = 0; i < count; i++) {
            if (!list[i].placement->partial_axes) continue;
            put_keyn(w, list[i].var->bytes, list[i].var->nbytes);
            put_partial(w, list[i].placement);
        }
        close_object(w);
    }
    close_object(w);
}

static void put_string_member(writer *w, const char *key, const char *value) {
    if (!value) return;
    put_key(w, key);
    put_string(w, value);
}

static void put_op(writer *w, const weft_op *op, size_t block, size_t index) {
    const op_dist *d = op->dist;
    const op_dist_rest *rest = op_dist_rest_of(d);
    open_object(w);
    put_key(w, "block");
    buffer_integer(w->out, (int64_t)block);
    put_key(w, "idx");
    buffer_integer(w->out, (int64_t)index);
    put_key(w, "type");
    json_put_string(w->out, op->type->bytes, op->type->nbytes);
    put_string_member(w, "impl_type", rest->impl_type);
    if (rest->impl_type || rest->impl_idx) {
        put_key(w, "impl_idx");
        buffer_integer(w->out, rest->impl_idx);
    }
    put_mesh_member(w, rest->mesh);
    if (rest->mesh || rest->ninputs) put_placements(w, "inputs", rest->inputs, rest->ninputs, rest->mesh);
    if (rest->mesh || rest->noutputs) put_placements(w, "outputs", rest->outputs, rest->noutputs, rest->mesh);
    if (rest->has_recompute) {
        put_key(w, "is_recompute");
        buffer_text(w->out, rest->is_recompute ? "true" : "false");
    }
    put_string_member(w, "execution_stream", d->execution_stream);
    put_string_member(w, "event_to_record", d->event_to_record);
    if (op_dist_nwaits(d)) {
        put_key(w, "events_to_wait");
        for (size_t i = 0; i < op_dist_nwaits(d); i++) {
            buffer_text(w->out, i ? ", " : "[");
            put_string(w, d->waits->events[i]);
        }
        buffer_text(w->out, "]");
    }
    put_extra(w, rest->extra_json);
    close_object(w);
}

static void put_ops(writer *w) {
    const char *comma = "";
    for (size_t i = 0; i < w->program->nblocks; i++) {
        size_t index = 0;
        FOR_EACH_OP(op, w->program->blocks[i]) {
            if (op->dist) {
                start_line(w, comma);
                comma = ",";
                put_op(w, op, i, index);
            }
            index++;
        }
    }
}

static void put_root(writer *w, weft_var *const *by_name) {
    buffer *out = w->out;
    buffer_format(out, "{\"rank\": %" PRId64 ",\n \"process_groups\": {", w->program->rank);
    put_rings(w);
    buffer_text(out, "},\n \"meshes\": [");
    put_meshes(w);
    buffer_text(out, "],\n \"params_grads\": [");
    put_params_grads(w);
    buffer_text(out, "],\n \"vars\": {");
    put_vars(w, by_name);
    buffer_text(out, "},\n \"ops\": [");
    put_ops(w);
    buffer_text(out, "]");
    w->is_first = false;
    if (w->program->fx_json) {
        buffer_text(out, ",\n \"fx\": ");
        put_string(w, w->program->fx_json);
    }
    put_extra(w, w->program->dist_extra_json);
    buffer_text(out, "}\n");
}

weft_status sidecar_print(const weft_program *p, buffer *out) {
    arena scratch;
    arena_init(&scratch, &p->context->allocator);
    mesh_index *meshes;
    weft_var **by_name;
    weft_status status = mesh_indices(p, &scratch, &meshes);
    if (!status) status = vars_by_name(p, &scratch, &by_name);
    if (!status) {
        writer w = {.program = p, .out = out, .meshes = meshes};
        put_root(&w, by_name);
        status = buffer_status(out);
    }
    arena_fini(&scratch);
    return status;
}
