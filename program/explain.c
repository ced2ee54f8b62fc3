/* explain.c: how vars lie on the mesh and why, in words. Why a mesh axis shards a var stands in the sidecar, as the
 * member "placed_by" of the var: for each axis, the op that carried it and the var that it came from; or "chosen", what
 * spmd_choose says of it. "conflicts": ops whose arguments disagree, this var one of them, with the price of each side.
 */
#include <stdio.h>

#include "base/json.h"
#include "dist_attr/dims.h"
#include "program/ir.h"

static void put_axis(buffer *out, const mesh *m, int64_t axis) {
    if (m->names)
        buffer_text(out, m->names[axis]);
    else
        buffer_format(out, "%lld", (long long)axis);
}

static void put_placement(buffer *out, const placement *p) {
    if (!p || !p->mesh) {
        buffer_text(out, "no placement");
        return;
    }
    buffer_text(out, "[");
    for (int d = 0; d < p->ndim; d++) {
        buffer_text(out, d ? ", " : "");
        int n = dim_naxes(p->dims_mapping[d]);
        buffer_text(out, !n ? "-" : n > 1 ? "(" : "");
        for (int i = 0; i < n; i++) {
            buffer_text(out, i ? ", " : "");
            put_axis(out, p->mesh, dim_axis(p->dims_mapping[d], i));
        }
        buffer_text(out, n > 1 ? ")" : "");
    }
    buffer_text(out, "]");
    for (int i = 0; i < p->mesh->ndim; i++) {
        if (!(p->partial_axes >> i & 1)) continue;
        buffer_text(out, " partial over ");
        put_axis(out, p->mesh, i);
    }
}

static weft_status give(buffer *out, char **out_bytes, size_t *out_nbytes) {
    weft_status status = buffer_status(out);
    if (!status) status = buffer_take(out, out_bytes, out_nbytes);
    buffer_fini(out);
    return status;
}

weft_status weft_var_placement_print(const weft_var *var, char **out_bytes, size_t *out_nbytes) {
    buffer out;
    buffer_init(&out, &var->program->context->allocator);
    put_placement(&out, var->dist);
    return give(&out, out_bytes, out_nbytes);
}

/* --- why ---------------------------------------------------------------------------------------------------------- */

/* Where the axis came from: a line; *out_next the var before, NULL: the user. */
static weft_status put_origin(buffer *out, const weft_var *v, const char *axis, const weft_var **out_next) {
    const char *extra = v->rest->dist_extra_json;
    json_t *document = NULL;
    *out_next = NULL;
    if (extra) TRY(json_read(v->program->context, extra, strlen(extra), "sidecar", &document));
    const json_t *by = json_object_get(json_object_get(document, "placed_by"), axis);
    const char *from = json_string_value(json_object_get(by, "var")),
               *op = json_string_value(json_object_get(by, "op"));
    if (from && op) {
        buffer_format(out, "    from %s through %s\n", from, op);
        *out_next = block_find_text(v->program->blocks[0], from, strlen(from));
    } else {
        buffer_format(out, "    %s is annotated\n", v->name->bytes);
    }
    json_decref(document);
    return NULL;
}

/* What spmd_choose says of it; *out_said: whether there is such a line. */
static weft_status put_chosen(buffer *out, const weft_var *v, bool *out_said) {
    const char *extra = v->rest->dist_extra_json;
    json_t *document = NULL;
    if (extra) TRY(json_read(v->program->context, extra, strlen(extra), "sidecar", &document));
    const char *why = json_string_value(json_object_get(document, "chosen"));
    if (why) buffer_format(out, "  chosen: %s\n", why);
    *out_said = why != NULL;
    json_decref(document);
    return NULL;
}

static weft_status put_conflicts(buffer *out, const weft_var *v) {
    const char *extra = v->rest->dist_extra_json;
    json_t *document = NULL;
    if (extra) TRY(json_read(v->program->context, extra, strlen(extra), "sidecar", &document));
    const json_t *list = json_object_get(document, "conflicts");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *words = json_string_value(json_array_get(list, i));
        if (words) buffer_format(out, "  conflict over %s\n", words);
    }
    json_decref(document);
    return NULL;
}

static weft_status explain_axis(buffer *out, const weft_var *var, int64_t axis) {
    const mesh *m = var->dist->mesh;
    char word[40];
    snprintf(word, sizeof word, "%lld", (long long)axis);
    const char *named = m->names ? m->names[axis] : word;
    buffer_format(out, "  %s:\n", named);
    const weft_var *v = var;
    for (size_t i = 0; v && i <= var->program->nall_vars; i++) { /* a sidecar may lead in a circle */
        const weft_var *next;
        TRY(put_origin(out, v, named, &next));
        v = next;
    }
    return NULL;
}

weft_status weft_var_placement_explain(const weft_var *var, char **out_bytes, size_t *out_nbytes) {
    buffer out;
    weft_status status = NULL;
    buffer_init(&out, &var->program->context->allocator);
    buffer_format(&out, "%s: ", var->name->bytes);
    put_placement(&out, var->dist);
    buffer_text(&out, "\n");
    const placement *p = var->dist;
    bool any = false;
    status = put_chosen(&out, var, &any);
    if (any) p = NULL; /* it has no annotation behind it */
    for (int d = 0; p && p->mesh && d < p->ndim; d++)
        for (int i = 0; i < dim_naxes(p->dims_mapping[d]) && !status; i++) {
            any = true;
            status = explain_axis(&out, var, dim_axis(p->dims_mapping[d], i));
        }
    if (!any) buffer_text(&out, "  no annotation reaches it\n");
    if (!status) status = put_conflicts(&out, var);
    if (!status) return give(&out, out_bytes, out_nbytes);
    buffer_fini(&out);
    return status;
}
