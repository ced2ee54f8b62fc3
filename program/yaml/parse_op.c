/* parse_op.c: one var and one op from their nodes. Unknown keys are errors. */
#include <inttypes.h>

#include "program/grow.h"
#include "program/yaml/yaml_form.h"

/* --- vars --------------------------------------------------------------------------------------------------------- */

static weft_status get_kind(yaml_reader *r, const yaml_node *node, weft_var *v) {
    int64_t kind;
    if (node->kind == NODE_SCALAR && yaml_kind_parse(node->bytes, &v->kind)) return NULL;
    TRY(yaml_get_int(r, node, "kind (a word that is known, or a number)", INT32_MIN, INT32_MAX, &kind));
    v->kind = (int32_t)kind;
    return NULL;
}

static weft_status get_dims(yaml_reader *r, const yaml_node *node, weft_var *v) {
    const int64_t *dims;
    size_t ndim;
    TRY(yaml_get_ints(r, node, "dims", &dims, &ndim));
    v->ndim = (uint32_t)ndim;
    v->dims = (int64_t *)dims;
    v->has_tensor = true;
    return NULL;
}

static weft_status get_int32(yaml_reader *r, const yaml_node *node, const char *what, int32_t *out) {
    int64_t value;
    TRY(yaml_get_int(r, node, what, INT32_MIN, INT32_MAX, &value));
    *out = (int32_t)value;
    return NULL;
}

/* False: not the name of a flag. */
static bool set_flag(weft_var *v, const yaml_node *key, bool on) {
    if (yaml_is(key, "persistable")) return v->persistable = on, v->has_persistable = true;
    if (yaml_is(key, "need_check_feed")) return v->need_check_feed = on, v->has_need_check_feed = true;
    if (yaml_is(key, "parameter")) return v->is_parameter = on, v->has_is_parameter = true;
    if (yaml_is(key, "stop_gradient")) return v->stop_gradient = on, v->has_stop_gradient = true;
    return false;
}

static weft_status get_var_member(yaml_reader *r, weft_var *v, const yaml_node *key, const yaml_node *node) {
    weft_dtype dtype = key->kind == NODE_SCALAR && !key->tag ? weft_dtype_parse(key->bytes) : WEFT_DTYPE_NONE;
    if (dtype != WEFT_DTYPE_NONE) {
        if (v->has_tensor) YAML_FAIL(r, key, "expected one element type, found \"%s\" after another", key->bytes);
        v->dtype = dtype;
        return get_dims(r, node, v);
    }
    if (yaml_is(key, "kind")) return get_kind(r, node, v);
    if (yaml_is(key, "dtype")) return get_int32(r, node, "dtype (a number that has no name)", &v->dtype);
    if (yaml_is(key, "dims")) return get_dims(r, node, v);
    if (yaml_is(key, "lod")) {
        v->has_lod_level = true;
        return get_int32(r, node, "lod", &v->lod_level);
    }
    if (set_flag(v, key, false)) {
        bool on;
        TRY(yaml_get_bool(r, node, key->bytes, &on));
        set_flag(v, key, on);
        return NULL;
    }
    if (yaml_is(key, "dist")) return yaml_get_var_dist(r, v, node);
    if (yaml_is(key, "type_bytes") || yaml_is(key, "attrs") || yaml_is(key, "unknown")) {
        var_rest *rest;
        TRY(var_rest_get(r->program, v, &rest));
        if (yaml_is(key, "type_bytes")) return yaml_get_text(r, node, &rest->type_bytes);
        if (yaml_is(key, "unknown")) return yaml_get_text(r, node, &rest->unknown_fields);
        return yaml_get_attrs(r, NULL, node, &rest->attrs, &rest->nattrs);
    }
    YAML_FAIL(r, key,
              "expected an element type (float32, int64, ...), kind, dtype, dims, lod, type_bytes, persistable, "
              "need_check_feed, parameter, stop_gradient, attrs, unknown or dist, found \"%s\"",
              key->bytes);
}

static weft_status check_var_attrs(yaml_reader *r, const weft_var *v, const yaml_node *node) {
    for (size_t i = 0; i < v->rest->nattrs; i++) {
        const weft_attr *a = &v->rest->attrs[i];
        if (a->type != ATTR_INT && a->type != ATTR_STRING && a->type != ATTR_INTS)
            YAML_FAIL(r, node, "attr \"%s\" of a var: expected an int, a string or a list of ints", a->name->bytes);
    }
    return NULL;
}

weft_status yaml_get_var(yaml_reader *r, weft_block *b, const yaml_node *key, const yaml_node *value) {
    const name *n;
    weft_var *v;
    TRY(form_charge(r->program, r->budget, r->item.total_nbytes + sizeof *v));
    TRY(yaml_get_name(r, key, &n));
    if (value->kind != NODE_MAPPING || value->tag)
        YAML_FAIL(r, value, "variable \"%s\": expected a mapping such as {float32: [8, 32]}", n->bytes);
    TRY(block_add_var(b, n, &v));
    for (size_t i = 0; i < value->count; i++) TRY(get_var_member(r, v, value->items[2 * i], value->items[2 * i + 1]));
    return check_var_attrs(r, v, value);
}

/* --- ops ---------------------------------------------------------------------------------------------------------- */

static weft_status get_args(yaml_reader *r, weft_block *b, weft_op *op, bool output, const name *slot_name,
                            const yaml_node *node) {
    bool is_list = node->kind == NODE_SEQUENCE && !node->tag;
    if (!is_list && node->kind != NODE_SCALAR)
        YAML_FAIL(r, node, "slot \"%s\": expected a list of variables", slot_name->bytes);
    yaml_node *only = (yaml_node *)node, **items = is_list ? node->items : &only;
    size_t count = is_list ? node->count : 1;
    TRY(form_charge(r->program, r->budget, r->item.total_nbytes + count * sizeof(use)));
    uint32_t s;
    TRY(op_append_slot(op, output, slot_name, &s));
    TRY(op_reserve_args(op, count));
    for (size_t i = 0; i < count; i++) {
        const name *n;
        weft_var *v;
        TRY(yaml_get_name(r, items[i], &n));
        TRY(block_resolve(b, n, &v));
        if (!v->block && r->nundeclared < MOST_UNDECLARED && !name_is(n, "@EMPTY@"))
            r->undeclared[r->nundeclared++] = (undeclared_use){b, n, items[i]->line, items[i]->column};
        TRY(op_append_arg(op, output, s, v));
    }
    return NULL;
}

static weft_status get_slots(yaml_reader *r, weft_block *b, weft_op *op, bool output, const yaml_node *node) {
    yaml_node **items;
    size_t count;
    TRY(yaml_pairs(r, node, "slots", &items, &count));
    for (size_t i = 0; i < count; i++) {
        const name *n;
        TRY(yaml_get_name(r, items[2 * i], &n));
        TRY(get_args(r, b, op, output, n, items[2 * i + 1]));
    }
    return NULL;
}

static weft_status get_op_member(yaml_reader *r, weft_block *b, weft_op *op, const yaml_node *key,
                                 const yaml_node *node) {
    if (yaml_is(key, "in") && op_nslots(op, false) == 0) return get_slots(r, b, op, false, node);
    if (yaml_is(key, "out")) return get_slots(r, b, op, true, node);
    if (yaml_is(key, "target")) {
        bool target;
        TRY(yaml_get_bool(r, node, key->bytes, &target));
        op->has_is_target = true;
        op->is_target = target;
        return NULL;
    }
    if (yaml_is(key, "unknown")) {
        text unknown;
        TRY(yaml_get_text(r, node, &unknown));
        return op_set_unknown_fields(op, unknown);
    }
    if (yaml_is(key, "dist")) return yaml_get_op_dist(r, op, node);
    if (!yaml_is(key, "attrs"))
        YAML_FAIL(r, key, "op \"%s\": expected out, attrs, target, unknown or dist, found \"%s\"", op->type->bytes,
                  key->bytes);
    size_t nattrs;
    TRY(yaml_get_attrs(r, op->type, node, &op->attrs, &nattrs));
    op->attr_capacity = nattrs & OP_MAX_ATTRS;
    op->nattrs = op->attr_capacity;
    return NULL;
}

weft_status yaml_get_op(yaml_reader *r, weft_block *b, const yaml_node *node) {
    const name *type;
    weft_op *op;
    if (node->kind != NODE_MAPPING || node->count == 0 || node->tag)
        YAML_FAIL(r, node, "expected an op such as {relu: {X: [x]}, out: {Out: [y]}}");
    TRY(form_charge(r->program, r->budget, r->item.total_nbytes + sizeof *op));
    bool spelled_out = yaml_is(node->items[0], "type");
    TRY(yaml_get_name(r, node->items[spelled_out], &type));
    TRY(form_charge_op(r->program, r->budget));
    TRY(op_create(r->program, type, &op));
    if (!spelled_out) TRY(get_slots(r, b, op, false, node->items[1]));
    for (int others = 0; others < 2; others++) { /* inputs first: those behind outputs would have to move them */
        for (size_t i = 1; i < node->count; i++) {
            const yaml_node *key = node->items[2 * i];
            if (yaml_is(key, "in") == !others) TRY(get_op_member(r, b, op, key, node->items[2 * i + 1]));
        }
    }
    weft_block_insert_before(b, NULL, op);
    return NULL;
}
