/* print_op.c: one var, one op, and their dist attrs, each on its line in flow style. */
#include <inttypes.h>

#include "dist_attr/dims.h"
#include "program/yaml/yaml_form.h"

/* --- vars --------------------------------------------------------------------------------------------------------- */

/* Starts a member of the flow mapping that is open. */
static void put_member(buffer *out, bool *first, const char *key) {
    buffer_format(out, "%s%s: ", *first ? "" : ", ", key);
    *first = false;
}

static void put_flag(buffer *out, bool *first, const char *key, bool has, bool value) {
    if (!has && !value) return;
    put_member(out, first, key);
    buffer_text(out, value ? "true" : "false");
}

static void put_text_member(buffer *out, bool *first, const char *key, const char *bytes, size_t nbytes) {
    if (!bytes || !nbytes) return;
    put_member(out, first, key);
    yaml_put_string(out, bytes, nbytes);
}

static void put_tensor(buffer *out, bool *first, const weft_var *v) {
    const char *dtype = weft_dtype_name((weft_dtype)v->dtype);
    if (v->kind != WEFT_DENSE_TENSOR) {
        const char *word = yaml_kind_word(v->kind);
        put_member(out, first, "kind");
        if (word)
            buffer_text(out, word);
        else
            buffer_format(out, "%" PRId32, v->kind);
    }
    if (!v->has_tensor) return;
    if (!dtype) {
        put_member(out, first, "dtype");
        buffer_format(out, "%" PRId32, v->dtype);
    }
    put_member(out, first, dtype ? dtype : "dims");
    yaml_put_ints(out, v->dims, v->ndim);
}

void yaml_put_var(yaml_writer *w, const weft_var *v) {
    buffer *out = w->out;
    bool first = true;
    buffer_text(out, "{");
    put_tensor(out, &first, v);
    if (v->has_lod_level) {
        put_member(out, &first, "lod");
        buffer_format(out, "%" PRId32, v->lod_level);
    }
    put_text_member(out, &first, "type_bytes", v->rest->type_bytes.bytes, v->rest->type_bytes.nbytes);
    put_flag(out, &first, "persistable", v->has_persistable, v->persistable);
    put_flag(out, &first, "need_check_feed", v->has_need_check_feed, v->need_check_feed);
    put_flag(out, &first, "parameter", v->has_is_parameter, v->is_parameter);
    put_flag(out, &first, "stop_gradient", v->has_stop_gradient, v->stop_gradient);
    if (v->rest->nattrs) {
        put_member(out, &first, "attrs");
        yaml_put_attrs(w, v->rest->attrs, v->rest->nattrs);
    }
    put_text_member(out, &first, "unknown", v->rest->unknown_fields.bytes, v->rest->unknown_fields.nbytes);
    if (v->dist || v->dist_is_null) {
        put_member(out, &first, "dist");
        yaml_put_var_dist(w, v);
    }
    buffer_text(out, "}");
}

/* --- dist attrs --------------------------------------------------------------------------------------------------- */

static void put_mesh(yaml_writer *w, bool *first, const mesh *m) {
    int64_t index = mesh_index_find(w->meshes, w->program->nmeshes, m);
    if (index < 0) return;
    put_member(w->out, first, "mesh");
    buffer_format(w->out, "%" PRId64, index);
}

static void put_partial(buffer *out, const placement *p) {
    const char *comma = "{";
    for (unsigned i = 0; i < 32; i++) {
        if (!(p->partial_axes >> i & 1)) continue;
        const char *reduce = form_reduce_name(p->partial_reduce[i]);
        buffer_format(out, "%s%u: %s", comma, i, reduce ? reduce : "sum");
        comma = ", ";
    }
    buffer_text(out, "}");
}

static void put_placement_members(yaml_writer *w, bool *first, const placement *p) {
    size_t ndim = p->ndim > 0 ? (size_t)p->ndim : 0;
    put_member(w->out, first, "dims_mapping");
    dims_mapping_print(w->out, p->dims_mapping, ndim);
    if (p->partial_axes) {
        put_member(w->out, first, "partial");
        put_partial(w->out, p);
    }
    if (p->batch_dim) {
        put_member(w->out, first, "batch_dim");
        buffer_format(w->out, "%" PRId64, p->batch_dim);
    }
    if (p->chunk_id) {
        put_member(w->out, first, "chunk_id");
        buffer_format(w->out, "%" PRId64, p->chunk_id);
    }
    if (!p->dynamic_dims) return;
    put_member(w->out, first, "dynamic_dims");
    for (size_t i = 0; i < ndim; i++) buffer_format(w->out, "%s%d", i ? ", " : "[", p->dynamic_dims[i] != 0);
    buffer_text(w->out, ndim ? "]" : "[]");
}

void yaml_put_var_dist(yaml_writer *w, const weft_var *v) {
    bool first = true;
    if (!v->dist) {
        buffer_text(w->out, "null");
        return;
    }
    buffer_text(w->out, "{");
    put_mesh(w, &first, v->dist->mesh);
    put_placement_members(w, &first, v->dist);
    const char *extra = v->rest->dist_extra_json;
    if (extra) put_text_member(w->out, &first, "extra", extra, strlen(extra));
    buffer_text(w->out, "}");
}

/* A list where it says all there is on the op's own mesh. */
static void put_op_placement(yaml_writer *w, const placement *p, const mesh *op_mesh) {
    bool first = true;
    if (p->mesh == op_mesh && !p->partial_axes && !p->batch_dim && !p->chunk_id && !p->dynamic_dims) {
        dims_mapping_print(w->out, p->dims_mapping, p->ndim > 0 ? (size_t)p->ndim : 0);
        return;
    }
    buffer_text(w->out, "{");
    if (p->mesh != op_mesh && !p->mesh) {
        put_member(w->out, &first, "mesh");
        buffer_text(w->out, "null");
    } else if (p->mesh != op_mesh) {
        put_mesh(w, &first, p->mesh);
    }
    put_placement_members(w, &first, p);
    buffer_text(w->out, "}");
}

static void put_op_placements(yaml_writer *w, bool *first, const char *key, const op_placement *list, size_t count,
                              const mesh *op_mesh) {
    bool repeats = false;
    if (!count) return;
    yaml_new_list(w);
    for (size_t i = 0; i < count; i++) repeats = yaml_seen(w, list[i].var) || repeats;
    put_member(w->out, first, key);
    buffer_text(w->out, repeats ? "[{" : "{");
    for (size_t i = 0; i < count; i++) {
        if (i) buffer_text(w->out, repeats ? "}, {" : ", ");
        yaml_put_key(w->out, list[i].var);
        put_op_placement(w, list[i].placement, op_mesh);
    }
    buffer_text(w->out, repeats ? "}]" : "}");
}

static void put_string_member(buffer *out, bool *first, const char *key, const char *value) {
    if (!value) return;
    put_member(out, first, key);
    yaml_put_string(out, value, strlen(value));
}

static void put_op_dist(yaml_writer *w, const op_dist *d) {
    const op_dist_rest *rest = op_dist_rest_of(d);
    bool first = true;
    buffer_text(w->out, "{");
    put_mesh(w, &first, rest->mesh);
    put_string_member(w->out, &first, "impl", rest->impl_type);
    if (rest->impl_idx) {
        put_member(w->out, &first, "impl_idx");
        buffer_format(w->out, "%" PRId64, rest->impl_idx);
    }
    put_flag(w->out, &first, "recompute", rest->has_recompute, rest->is_recompute);
    put_string_member(w->out, &first, "stream", d->execution_stream);
    put_string_member(w->out, &first, "record", d->event_to_record);
    if (op_dist_nwaits(d)) {
        put_member(w->out, &first, "wait");
        for (size_t i = 0; i < op_dist_nwaits(d); i++) {
            buffer_text(w->out, i ? ", " : "[");
            yaml_put_string(w->out, d->waits->events[i], strlen(d->waits->events[i]));
        }
        buffer_text(w->out, "]");
    }
    put_op_placements(w, &first, "in", rest->inputs, rest->ninputs, rest->mesh);
    put_op_placements(w, &first, "out", rest->outputs, rest->noutputs, rest->mesh);
    put_string_member(w->out, &first, "extra", rest->extra_json);
    buffer_text(w->out, "}");
}

/* --- ops ---------------------------------------------------------------------------------------------------------- */

static void put_slots(yaml_writer *w, const weft_op *op, bool output) {
    uint32_t nslots = op_nslots(op, output);
    bool repeats = false;
    yaml_new_list(w);
    for (uint32_t i = 0; i < nslots; i++) repeats = yaml_seen(w, op_slot(op, output, i)->name) || repeats;
    buffer_text(w->out, repeats ? "[{" : "{");
    for (uint32_t i = 0; i < nslots; i++) {
        const slot *s = op_slot(op, output, i);
        if (i) buffer_text(w->out, repeats ? "}, {" : ", ");
        yaml_put_key(w->out, s->name);
        buffer_text(w->out, "[");
        for (size_t k = 0; k < s->nargs; k++) {
            buffer_text(w->out, k ? ", " : "");
            const name *n = slot_var(op, s, k)->name;
            yaml_put_string(w->out, n->bytes, n->nbytes);
        }
        buffer_text(w->out, "]");
    }
    buffer_text(w->out, repeats ? "}]" : "}");
}

/* The op's type is its first key; where it could be taken for another key, it is the value of `type`. */
static void put_type_and_inputs(yaml_writer *w, const weft_op *op) {
    static const char *const keys[] = {"type", "in", "out", "attrs", "target", "unknown", "dist", NULL};
    bool is_key = false;
    for (size_t i = 0; keys[i]; i++) is_key = is_key || name_is(op->type, keys[i]);
    if (is_key) {
        buffer_format(w->out, "type: %s, in: ", op->type->bytes);
    } else {
        yaml_put_key(w->out, op->type);
    }
    put_slots(w, op, false);
}

void yaml_put_op(yaml_writer *w, const weft_op *op) {
    bool first = false;
    buffer_text(w->out, "{");
    put_type_and_inputs(w, op);
    if (op_nslots(op, true)) {
        put_member(w->out, &first, "out");
        put_slots(w, op, true);
    }
    if (op->nattrs) {
        put_member(w->out, &first, "attrs");
        yaml_put_attrs(w, op->attrs, op->nattrs);
    }
    put_flag(w->out, &first, "target", op->has_is_target, op->is_target);
    text unknown = op_unknown_fields(op);
    put_text_member(w->out, &first, "unknown", unknown.bytes, unknown.nbytes);
    if (op->dist) {
        put_member(w->out, &first, "dist");
        put_op_dist(w, op->dist);
    }
    buffer_text(w->out, "}");
}
