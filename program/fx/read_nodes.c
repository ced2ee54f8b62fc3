/* read_nodes.c: nodes become ops. A node is read by a row of fx.def, by its own words (weft.*), or as an op of its
 * target's name; getitem is a view of a list's member. Outputs are new vars under the node's name, except where
 * "weft.out" names others. */
#include "program/fx/aten_schemas.h"
#include "program/fx/fx.h"
#include "program/grow.h"

static weft_status get_own_keys(fx_reader *r, fx_node *n) {
    n->nkwargs = 0;
    for (void *it = json_object_iter((json_t *)n->kwargs); it; it = json_object_iter_next((json_t *)n->kwargs, it)) {
        const char *key = json_object_iter_key(it);
        const json_t *value = json_object_iter_value(it);
        if (!fx_is_own_key(key))
            n->nkwargs++;
        else if (strcmp(key, "weft.out") == 0 && json_is_array(value))
            n->out = value;
        else if (strcmp(key, "weft.slots") == 0 && json_is_object(value))
            n->slots = value;
        else if (strcmp(key, "weft.attrs") == 0 && json_is_object(value))
            n->attrs = value;
        else if (strcmp(key, "weft.dist") == 0 && json_is_object(value))
            n->dist = value;
        else
            FX_FAIL(r,
                    "node \"%s\": expected weft.out as a list, weft.slots, weft.attrs and weft.dist as objects, found "
                    "\"%.40s\"",
                    n->name->bytes, key);
    }
    return NULL;
}

static weft_status get_node(fx_reader *r, const json_t *entry, fx_node *n) {
    const json_t *op = json_object_get(entry, "op"), *target = json_object_get(entry, "target");
    *n = (fx_node){.entry = entry,
                   .args = json_object_get(entry, "args"),
                   .kwargs = json_object_get(entry, "kwargs"),
                   .shape = json_object_get(entry, "shape"),
                   .dtype = json_object_get(entry, "dtype")};
    TRY(fx_name_of(r, entry, "a node", &n->name));
    if (!json_is_string(op) || strcmp(json_string_value(op), "call") != 0)
        FX_FAIL(r, "node \"%s\": expected \"op\": \"call\"", n->name->bytes);
    if (!json_is_string(target) || !json_string_length(target)) FX_FAIL(r, "node \"%s\" has no target", n->name->bytes);
    if (!json_is_array(n->args) || !json_is_object(n->kwargs))
        FX_FAIL(r, "node \"%s\": expected args as a list and kwargs as an object", n->name->bytes);
    n->target = (text){json_string_value(target), json_string_length(target)};
    size_t nknown = 5u + (n->shape != NULL) + (n->dtype != NULL);
    n->has_extra = json_object_size(entry) != nknown;
    return get_own_keys(r, n);
}

/* --- values ------------------------------------------------------------------------------------------------------- */

/* The form of a value: lists where dtype has them. No vars yet. */
static weft_status get_form(fx_reader *r, const fx_node *n, const json_t *shape, const json_t *dtype, fx_value *out) {
    *out = (fx_value){.is_list = json_is_array(dtype), .is_null = !dtype || json_is_null(dtype)};
    if (!out->is_list) return NULL;
    size_t count = json_array_size(dtype);
    if (!json_is_array(shape) || json_array_size(shape) != count || count > UINT32_MAX)
        FX_FAIL(r, "node \"%s\": expected shape and dtype as lists of one length", n->name->bytes);
    out->count = (uint32_t)count;
    out->items = ARENA_ARRAY(&r->scratch, fx_value, count ? count : 1);
    if (!out->items) return base_out_of_memory();
    for (size_t i = 0; i < count; i++)
        TRY(get_form(r, n, json_array_get(shape, i), json_array_get(dtype, i), &out->items[i]));
    return NULL;
}

/* Makes the vars of a value, in order. */
typedef struct var_maker {
    fx_reader *r;
    const fx_node *n;
    bool drops_nulls;
    size_t index;
    buffer path; /* the name of a new var */
} var_maker;

/* The var that weft.out names for the output at hand; NULL: a new one of the usual name. */
static weft_status get_named(var_maker *m, weft_var **out, const json_t **out_name) {
    fx_reader *r = m->r;
    const json_t *entry = m->n->out ? json_array_get(m->n->out, m->index) : NULL, *ref = fx_ref(entry);
    *out = NULL;
    *out_name = NULL;
    if (!entry || json_is_null(entry)) return NULL;
    if (json_is_string(entry) && json_string_length(entry)) {
        *out_name = entry;
        return NULL;
    }
    const fx_value *value = ref ? fx_find(r, ref) : NULL;
    if (!value || !value->var)
        FX_FAIL(r, "node \"%s\": expected names, refs to tensors or null in weft.out", m->n->name->bytes);
    *out = value->var;
    return fx_set_written(r, value->var);
}

static weft_status make_var(var_maker *m, const json_t *shape, const json_t *dtype, fx_value *value) {
    const json_t *wanted;
    fx_reader *r = m->r;
    if (value->is_null && m->drops_nulls) return NULL;
    TRY(get_named(m, &value->var, &wanted));
    m->index++;
    if (value->var) return NULL;
    if (wanted && strcmp(json_string_value(wanted), "@EMPTY@") == 0) {
        const name *empty;
        TRY(program_name(r->program, "@EMPTY@", 7, &empty));
        return program_placeholder(r->program, empty, &value->var);
    }
    TRY(buffer_status(&m->path));
    TRY(fx_add_var(r, wanted ? json_string_value(wanted) : m->path.bytes,
                   wanted ? json_string_length(wanted) : m->path.nbytes, &value->var));
    return fx_set_type(r, m->n->name->bytes, shape, dtype, value->var);
}

static weft_status make_vars(var_maker *m, const json_t *shape, const json_t *dtype, fx_value *value) {
    if (!value->is_list) return make_var(m, shape, dtype, value);
    size_t length = m->path.nbytes;
    for (uint32_t i = 0; i < value->count; i++) {
        buffer_format(&m->path, ".%u", i);
        TRY(make_vars(m, json_array_get(shape, i), json_array_get(dtype, i), &value->items[i]));
        m->path.nbytes = length;
    }
    return NULL;
}

static weft_status make_value(fx_reader *r, const fx_node *n, bool drops_nulls, fx_value *value) {
    var_maker m = {.r = r, .n = n, .drops_nulls = drops_nulls};
    buffer_init(&m.path, &r->context->allocator);
    buffer_append(&m.path, n->name->bytes, n->name->nbytes);
    weft_status status = make_vars(&m, n->shape, n->dtype, value);
    if (!status) status = buffer_status(&m.path);
    if (!status && n->out && json_array_size(n->out) != m.index)
        status = json_error(&r->text, r->at, "node \"%s\": expected %zu entries in weft.out", n->name->bytes, m.index);
    buffer_fini(&m.path);
    return status;
}

/* --- outputs ------------------------------------------------------------------------------------------------------ */

static weft_status append_slot(weft_op *op, bool output, const char *slot_name, uint32_t *out) {
    const name *n;
    TRY(program_name(op->program, slot_name, strlen(slot_name), &n));
    return op_append_slot(op, output, n, out);
}

/* Argument `index` of what the op reads as argument `arg` of the row. */
static weft_var *read_as(const weft_op *op, const fx_row *row, int arg, uint32_t index) {
    const slot *s = op_find_slot(op, false, row->args[arg].to);
    return s && index < s->nargs ? slot_var(op, s, index) : NULL;
}

static weft_status append_written(fx_reader *r, weft_op *op, const fx_row *row, const fx_out *out) {
    uint32_t s;
    weft_var *v;
    TRY(append_slot(op, true, out->slot, &s));
    for (uint32_t i = 0; (v = read_as(op, row, out->writes, i)); i++) {
        TRY(op_append_arg(op, true, s, v));
        TRY(fx_set_written(r, v));
    }
    return NULL;
}

/* An optional output that is what the op writes in place anyway. */
static bool is_written(const weft_op *op, const fx_row *row, const weft_var *v) {
    for (uint32_t i = 0; i < row->nouts; i++)
        for (uint32_t k = 0; row->outs[i].writes >= 0; k++) {
            const weft_var *written = read_as(op, row, row->outs[i].writes, k);
            if (!written) break;
            if (written == v) return true;
        }
    return false;
}

static weft_status append_own(fx_reader *r, weft_op *op, const fx_row *row, const fx_out *out, fx_value *items,
                              uint32_t count) {
    uint32_t s = 0;
    bool is_begun = false;
    for (uint32_t i = 0; i < count; i++) {
        weft_var *v = items[i].var,
                 *of = out->view_of >= 0 ? read_as(op, row, out->view_of, out->is_list ? i : 0) : NULL;
        bool is_dropped = !v || ((out->is_optional || out->is_list) && is_written(op, row, v));
        if (is_dropped) continue;
        if (!is_begun) TRY(append_slot(op, true, out->slot, &s));
        is_begun = true;
        TRY(op_append_arg(op, true, s, v));
        if (!of && out->view_of >= 0) of = read_as(op, row, out->view_of, 0); /* parts of one tensor */
        if (of) TRY(fx_set_view(r, v, of));
    }
    return NULL;
}

static weft_status append_row_outputs(fx_reader *r, weft_op *op, const fx_row *row, fx_value *value) {
    fx_value *items = value->is_list ? value->items : value;
    uint32_t count = value->is_list ? value->count : 1, at = 0;
    for (uint32_t i = 0; i < row->nouts; i++) {
        const fx_out *out = &row->outs[i];
        if (out->writes >= 0) {
            TRY(append_written(r, op, row, out));
            continue;
        }
        if (out->is_nested) {
            TRY(append_own(r, op, row, out, items[at].items, items[at].count));
            at++;
            continue;
        }
        uint32_t n = out->is_list ? count - at : 1;
        TRY(append_own(r, op, row, out, items + at, n));
        at += n;
    }
    return NULL;
}

/* weft.slots: how many outputs each output slot has, in order. */
static weft_status append_counted(fx_reader *r, const fx_node *n, weft_op *op, fx_value *value) {
    fx_value *items = value->is_list ? value->items : value;
    size_t count = value->is_list ? value->count : 1, at = 0;
    for (void *it = json_object_iter((json_t *)n->slots); it; it = json_object_iter_next((json_t *)n->slots, it)) {
        const json_t *size = json_object_iter_value(it);
        uint32_t s;
        if (!json_is_integer(size) || json_integer_value(size) < 0 || (size_t)json_integer_value(size) > count - at)
            FX_FAIL(r, "node \"%s\": weft.slots counts other outputs than there are", n->name->bytes);
        TRY(append_slot(op, true, json_object_iter_key(it), &s));
        for (json_int_t k = 0; k < json_integer_value(size); k++, at++) {
            if (!items[at].var) FX_FAIL(r, "node \"%s\": expected no lists within its value", n->name->bytes);
            TRY(op_append_arg(op, true, s, items[at].var));
            TRY(fx_set_written(r, items[at].var));
        }
    }
    if (at != count) FX_FAIL(r, "node \"%s\": weft.slots counts other outputs than there are", n->name->bytes);
    return NULL;
}

/* By the rule of names of targets: "aten.add_.Tensor" writes its first argument. */
static bool is_in_place(text target) {
    const char *end = target.bytes + target.nbytes, *start = memchr(target.bytes, '.', target.nbytes);
    start = start ? start + 1 : target.bytes;
    const char *dot = memchr(start, '.', (size_t)(end - start));
    if (dot) end = dot;
    return end - start > 1 && end[-1] == '_' && end[-2] != '_';
}

/* --- nodes -------------------------------------------------------------------------------------------------------- */

static weft_status append_refs_of(fx_reader *r, const fx_node *n, weft_op *op, uint32_t s) {
    TRY(fx_append_refs(r, n, op, false, s, n->args));
    for (void *it = json_object_iter((json_t *)n->kwargs); it; it = json_object_iter_next((json_t *)n->kwargs, it))
        if (!fx_is_own_key(json_object_iter_key(it)))
            TRY(fx_append_refs(r, n, op, false, s, json_object_iter_value(it)));
    return NULL;
}

/* The tensors of an argument that the op writes. */
static weft_status append_written_arg(fx_reader *r, const fx_node *n, const json_t *arg, weft_op *op) {
    const slot *there = op_find_slot(op, true, "args_out");
    uint32_t s = op_nslots(op, true) - 1, first = there ? there->nargs : 0; /* it is the last one */
    if (!there) TRY(append_slot(op, true, "args_out", &s));
    TRY(fx_append_refs(r, n, op, true, s, arg));
    const slot *written = op_slot(op, true, s);
    for (uint32_t i = first; i < written->nargs; i++) TRY(fx_set_written(r, slot_var(op, written, i)));
    return NULL;
}

/* The tensors of a value are views of an argument that is one tensor. */
static weft_status set_views_of(fx_reader *r, const json_t *arg, const fx_value *value) {
    const json_t *ref = fx_ref(arg);
    const fx_value *of = ref ? fx_find(r, ref) : NULL;
    if (!of || !of->var) return NULL;
    if (value->var) return fx_set_view(r, value->var, of->var);
    for (uint32_t i = 0; i < value->count; i++) TRY(set_views_of(r, arg, &value->items[i]));
    return NULL;
}

/* What a signature says of the memory of arguments: which are written, and which the value shares. */
static weft_status append_by_signature(fx_reader *r, const fx_node *n, const char *signature, const fx_value *value,
                                       weft_op *op) {
    aten_parameter p;
    const char *at = signature;
    for (size_t i = 0; aten_next_parameter(&at, &p); i++) {
        const json_t *arg = json_array_get(n->args, i);
        if (!arg) arg = json_object_getn(n->kwargs, p.name, p.name_nbytes);
        if (!arg || !p.alias) continue;
        if (p.is_written) TRY(append_written_arg(r, n, arg, op));
        if (aten_gives(signature, p.alias)) TRY(set_views_of(r, arg, value));
    }
    return NULL;
}

static weft_status read_unknown(fx_reader *r, const fx_node *n, fx_value *value, weft_op **out) {
    const name *type;
    uint32_t s;
    TRY(program_name(r->program, n->target.bytes, n->target.nbytes, &type));
    TRY(op_create(r->program, type, out));
    TRY(append_slot(*out, false, "args", &s));
    TRY(append_refs_of(r, n, *out, s));
    TRY(make_value(r, n, false, value));
    TRY(append_slot(*out, true, "Out", &s));
    TRY(fx_append_tensors(*out, true, s, value));
    const char *signature = aten_signature(n->target.bytes, n->target.nbytes);
    if (signature)
        TRY(append_by_signature(r, n, signature, value, *out));
    else if (is_in_place(n->target) && json_array_size(n->args))
        TRY(append_written_arg(r, n, json_array_get(n->args, 0), *out));
    return fx_append_node(r, n, NULL, NULL, value, *out);
}

/* Whether the writer would write the node like this by itself. */
static bool follows_from_op(const fx_node *n, const fx_row *row) {
    if (!row->is_collective || n->nkwargs || n->has_extra || json_array_size(n->args) != row->nnamed) return false;
    for (uint32_t i = 0; i < row->nnamed; i++) {
        const json_t *arg = json_array_get(n->args, i);
        bool is_list = row->args[i].kind == FX_TENSORS || row->args[i].type == FX_INTS;
        if (json_is_null(arg) || (is_list && !json_is_array(arg))) return false;
    }
    return true;
}

/* Nulls in a list of optional outputs are no vars, nor is the value of a row that only writes in place. */
static bool drops_nulls(const fx_row *row, const fx_value *value) {
    bool has_own = false, has_optional = false;
    for (uint32_t i = 0; i < row->nouts; i++) {
        has_own = has_own || row->outs[i].writes < 0;
        has_optional = has_optional || (row->outs[i].writes < 0 && row->outs[i].is_optional);
    }
    return !has_own || (value->is_list && has_optional);
}

static weft_status read_by_row(fx_reader *r, const fx_node *n, const fx_row *row, const uint32_t *first,
                               fx_value *value, weft_op *op) {
    TRY(fx_read_attrs(r, n, op, n->attrs));
    TRY(make_value(r, n, drops_nulls(row, value), value));
    TRY(append_row_outputs(r, op, row, value));
    return follows_from_op(n, row) ? NULL : fx_append_node(r, n, row, first, value, op);
}

/* What getitem takes of a list; NULL where the node is another kind of getitem, or takes no tensor. */
static weft_status get_member(fx_reader *r, const fx_node *n, fx_value **out) {
    const json_t *ref = fx_ref(json_array_get(n->args, 0)), *index = json_array_get(n->args, 1);
    const fx_value *list = ref ? fx_find(r, ref) : NULL;
    *out = NULL;
    if (!list || !list->is_list || n->nkwargs || json_array_size(n->args) != 2) return NULL;
    if (!json_is_integer(index) || json_integer_value(index) < 0 || json_integer_value(index) >= list->count)
        FX_FAIL(r, "node \"%s\": expected an index from 0 to %lld into \"%s\"", n->name->bytes,
                (long long)list->count - 1, list->name->bytes);
    fx_value *member = &list->items[json_integer_value(index)];
    *out = fx_ntensors(member) ? member : NULL;
    return NULL;
}

static weft_status set_views(fx_reader *r, weft_op *op) {
    const slot *x = op_find_slot(op, false, "X"), *out = op_find_slot(op, true, "Out");
    for (uint32_t i = 0; i < out->nargs && i < x->nargs; i++)
        TRY(fx_set_view(r, slot_var(op, out, i), slot_var(op, x, i)));
    return NULL;
}

/* Whether the node only gives the member a name: it is called as its var, or names that in weft.out. */
static bool is_member(const fx_reader *r, const fx_node *n, const fx_value *member) {
    const json_t *named = n->out ? json_array_get(n->out, 0) : NULL, *ref = fx_ref(named);
    const fx_value *value = ref ? fx_find(r, ref) : NULL;
    if (!member->var) return false;
    if (json_is_string(named)) return name_is(member->var->name, json_string_value(named));
    return member->var->name == n->name || (value && value->var == member->var);
}

/* *out NULL: the member itself, under another name. */
static weft_status read_getitem(fx_reader *r, const fx_node *n, const fx_value *member, fx_value *value,
                                weft_op **out) {
    const name *type;
    uint32_t x, s;
    *out = NULL;
    if (is_member(r, n, member)) return *value = *member, NULL;
    if (value->is_list != member->is_list || value->count != member->count)
        FX_FAIL(r, "node \"%s\": expected a value like the member of the list", n->name->bytes);
    const char *as = member->is_list ? "getitem_list" : "getitem";
    TRY(program_name(r->program, as, strlen(as), &type));
    TRY(op_create(r->program, type, out));
    TRY(append_slot(*out, false, "X", &x));
    TRY(fx_append_tensors(*out, false, x, member));
    TRY(make_value(r, n, false, value));
    TRY(append_slot(*out, true, "Out", &s));
    TRY(fx_append_tensors(*out, true, s, value));
    if (op_nargs(*out, true) != op_nargs(*out, false))
        FX_FAIL(r, "node \"%s\": expected a value like the member of the list", n->name->bytes);
    TRY(set_views(r, *out));
    if (!value->is_list && !n->has_extra) return NULL;
    const fx_node own = {.entry = n->entry, .name = n->name, .target = n->target, .has_extra = n->has_extra};
    return fx_append_node(r, &own, NULL, NULL, value, *out);
}

static bool is_own_target(text target) {
    size_t n = sizeof FX_OWN - 1;
    return target.nbytes > n && memcmp(target.bytes, FX_OWN, n) == 0;
}

static weft_status read_op(fx_reader *r, const fx_node *n, fx_value *value, weft_op **out) {
    fx_value *member = NULL;
    const fx_row *row;
    uint32_t *first;
    if (is_own_target(n->target)) {
        if (!n->slots) FX_FAIL(r, "node \"%s\": expected weft.slots", n->name->bytes);
        TRY(make_value(r, n, false, value));
        TRY(fx_read_own(r, n, value, out));
        return append_counted(r, n, *out, value);
    }
    if (n->target.nbytes == 7 && memcmp(n->target.bytes, "getitem", 7) == 0) TRY(get_member(r, n, &member));
    if (member) return read_getitem(r, n, member, value, out);
    TRY(fx_read_args(r, n, value, &row, out, &first));
    return row ? read_by_row(r, n, row, first, value, *out) : read_unknown(r, n, value, out);
}

/* A node whose name is not that of its only var keeps it. */
static weft_status append_name(const fx_node *n, const fx_value *value, weft_op *op) {
    if (value->var && value->var->name == n->name) return NULL;
    return fx_append_string(op, FX_NAME, n->name->bytes, n->name->nbytes);
}

/* Every ref has a value. *out_broken: one of them is of a node that was reported. */
static weft_status check_refs(fx_reader *r, const fx_node *n, const json_t *arg, bool *out_broken) {
    const char *key;
    json_t *item;
    size_t i;
    const json_t *ref = fx_ref(arg);
    if (ref) {
        const fx_value *value;
        TRY(fx_find_before(r, n, ref, &value));
        *out_broken = *out_broken || value->is_broken;
    } else if (json_is_array(arg)) {
        json_array_foreach(arg, i, item) TRY(check_refs(r, n, item, out_broken));
    } else if (json_is_object(arg)) {
        json_object_foreach((json_t *)arg, key, item) TRY(check_refs(r, n, item, out_broken));
    }
    return NULL;
}

static weft_status read_node(fx_reader *r, const fx_node *n) {
    weft_op *op = NULL;
    fx_value value;
    bool is_broken = false;
    TRY(check_refs(r, n, n->args, &is_broken));
    TRY(check_refs(r, n, n->kwargs, &is_broken));
    if (is_broken) return fx_define(r, n->name, &(fx_value){.is_broken = true});
    TRY(get_form(r, n, n->shape, n->dtype, &value));
    TRY(read_op(r, n, &value, &op));
    TRY(fx_define(r, n->name, &value));
    if (!op) return NULL;
    TRY(append_name(n, &value, op));
    if (n->dist) TRY(fx_read_dist(r, n, op));
    weft_block_insert_before(r->block, NULL, op);
    return NULL;
}

static weft_status read_entry(fx_reader *r, const json_t *entry) {
    fx_node n;
    weft_status status = get_node(r, entry, &n);
    if (!status) status = read_node(r, &n);
    if (!status) return NULL;
    TRY(fx_keep_problem(r, status));
    bool is_named = n.name && (n.name->id >= r->value_capacity || !r->values[n.name->id]);
    return is_named ? fx_define(r, n.name, &(fx_value){.is_broken = true}) : NULL;
}

weft_status fx_read_nodes(fx_reader *r) {
    bool more;
    TRY(json_next(&r->text, true, &more));
    buffer_text(&r->kept, "[]");
    while (more) {
        json_t *entry;
        r->at = r->text.at;
        TRY(json_take(&r->text, &entry));
        weft_status status = read_entry(r, entry);
        json_decref(entry);
        if (status) return status;
        TRY(form_charge_op(r->program, r->budget));
        TRY(json_next(&r->text, false, &more));
    }
    return NULL;
}
