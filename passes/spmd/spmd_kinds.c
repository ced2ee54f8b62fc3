/* spmd_kinds.c: the rule of each op. Large programs are layers over again: a rule is made once for all ops that have
 * one type, the same attrs, and arguments of the same types. */
#include "base/table.h"
#include "passes/attr_place.h"
#include "passes/spmd/spmd.h"
#include "program/grow.h"

typedef struct kind_entry {
    spmd_kind kind;
    const int64_t *key;
    size_t nkey;
    const weft_op *example;  /* with the attrs */
    struct kind_entry *next; /* with the same key, and other attrs */
} kind_entry;

struct spmd_kinds {
    hash_table table;
    kind_entry **items;
    size_t nitems, capacity;
    int64_t *key; /* of the op at hand */
    size_t nkey, key_capacity;
};

weft_status spmd_kinds_init(spmd_plan *plan) {
    plan->kinds = ARENA_NEW(&plan->memory, struct spmd_kinds);
    return plan->kinds ? NULL : base_out_of_memory();
}

/* --- what the kind of an op depends on ---------------------------------------------------------------------------- */

static bool is_absent(const weft_var *v) {
    return !v->block && name_is(v->name, "@EMPTY@");
}

/* Room for all that is put of an op. */
static weft_status reserve(spmd_plan *plan, const weft_op *op) {
    struct spmd_kinds *k = plan->kinds;
    size_t nslots = op_nslots(op, false) + op_nslots(op, true), nargs = op_nargs(op, false) + op_nargs(op, true);
    size_t most = 3 + 2 * nslots + (3 + WEFT_MAX_RANK) * nargs + 2 * (size_t)op->nattrs;
    return most <= k->key_capacity ? NULL : grow(&plan->memory, &k->key, &k->key_capacity, most, sizeof *k->key);
}

static void put(struct spmd_kinds *k, int64_t value) {
    k->key[k->nkey++] = value;
}

static void put_type(spmd_plan *plan, const use *u) {
    const kept_shape *t = &plan->types.kept[u->var_id]; /* no var is made before all is read */
    struct spmd_kinds *k = plan->kinds;
    const spmd_var *v = &plan->vars[u->var_id];
    bool absent = !v->counts && is_absent(v->var);
    put(k, absent ? INT64_MIN : (int64_t)t->dtype);
    put(k, t->ndim);
    put(k, t->height);
    for (int d = 0; d < t->ndim; d++) put(k, t->dims[d]);
}

/* The next attr that rules may read. */
static const weft_attr *next_attr(const weft_op *op, uint32_t *at) {
    while (*at < op->nattrs) {
        const weft_attr *a = &op->attrs[(*at)++];
        if (!attr_is_of_place(a)) return a;
    }
    return NULL;
}

static int64_t hash_attr(const weft_attr *a) {
    switch (a->type) {
    case ATTR_INT:
    case ATTR_LONG:
    case ATTR_BLOCK: return a->u.i;
    case ATTR_BOOLEAN: return a->u.b;
    case ATTR_FLOAT:
    case ATTR_FLOAT64: return (int64_t)base_hash(&a->u.f, sizeof a->u.f);
    case ATTR_INTS:
    case ATTR_LONGS: return a->count ? (int64_t)base_hash(a->u.ints, a->count * sizeof *a->u.ints) : 0;
    default: return a->count;
    }
}

static weft_status make_key(spmd_plan *plan, const weft_op *op, const op_schema *schema) {
    struct spmd_kinds *k = plan->kinds;
    TRY(reserve(plan, op));
    k->nkey = 0;
    put(k, (int64_t)(intptr_t)schema);
    for (int side = 0; side < 2; side++) {
        put(k, (int64_t)op_nslots(op, side));
        for (size_t i = 0; i < op_nslots(op, side); i++) {
            const slot *s = op_slot(op, side, i);
            put(k, (int64_t)(intptr_t)s->name);
            put(k, (int64_t)s->nargs);
        }
        FOR_EACH_ARG(op, side, u) put_type(plan, u);
    }
    uint32_t at = 0;
    for (const weft_attr *a; (a = next_attr(op, &at));) {
        put(k, (int64_t)(intptr_t)a->name);
        put(k, hash_attr(a));
    }
    return NULL;
}

static uint32_t hash_key(const struct spmd_kinds *k) {
    uint64_t h = k->nkey;
    for (size_t i = 0; i < k->nkey; i++) {
        h = (h ^ (uint64_t)k->key[i]) * UINT64_C(0x9E3779B97F4A7C15);
        h ^= h >> 29;
    }
    return (uint32_t)(h >> 32);
}

/* In one order: ops that differ in that alone have two rules, which are equal. */
static bool has_same_attrs(const weft_op *a, const weft_op *b) {
    uint32_t at_a = 0, at_b = 0;
    if (a->attrs == b->attrs && a->nattrs == b->nattrs) return true;
    for (;;) {
        const weft_attr *x = next_attr(a, &at_a), *y = next_attr(b, &at_b);
        if (!x || !y) return !x && !y;
        if (!attr_equal(x, y)) return false;
    }
}

/* --- the rule ----------------------------------------------------------------------------------------------------- */

/* Every element of an output comes from one element of each input. */
static bool passes_elements(const axes_rule *r) {
    if (r->why_none || !r->nout) return false;
    for (size_t f = 0; f < r->nfactors; f++) {
        for (size_t i = 0; i < r->nin + r->nout; i++) {
            const axes_arg *x = i < r->nin ? &r->in[i] : &r->out[i - r->nin];
            bool has = false, is_scalar = x->ndim <= 0;
            for (int d = 0; d < x->ndim; d++)
                for (int k = 0; k < x->dims[d].nfactors; k++) has |= x->dims[d].factors[k] == f;
            if (!has && !is_scalar && !x->any && r->factors[f].size != 1) return false;
        }
    }
    return true;
}

/* A gradient of a table as some rows of it: ranks have other rows, and no collective adds them up. */
static bool has_rows(weft_op *op) {
    for (int side = 0; side < 2; side++) FOR_EACH_ARG(op, side, u)
    if (use_var(op->program, u)->kind == WEFT_SELECTED_ROWS) return true;
    return false;
}

static const char *must_be_whole(weft_op *op, const op_schema *schema, const axes_rule *rule) {
    if (schema->effects & OP_CONTROL) return "it runs another block";
    if (schema->effects & OP_RANDOM) return "all ranks draw the same numbers only for the whole";
    if (op_has_effect(op, OP_ALIASES)) return "its outputs are views of one buffer";
    if (has_rows(op)) return "a gradient is rows of a table (SelectedRows), which no collective adds up";
    return rule->why_none;
}

/* Outputs depend on its elements. */
static bool reads(const axes_rule *r, size_t i) {
    const axes_arg *x = &r->in[i];
    for (size_t o = 0; o < r->nout && !x->any; o++)
        if (!(r->out[o].unread >> x->slot & 1)) return true;
    return !r->nout;
}

/* Whether a sum may pass through the input. */
static bool passes_sums(const spmd_kind *kind, size_t i) {
    const axes_rule *r = &kind->rule;
    uint32_t sums = UINT32_C(1) << WEFT_REDUCE_SUM;
    for (size_t g = 0; g < r->ngroups && !kind->why_whole; g++)
        if ((r->in[i].in_group >> g & 1) && ((r->groups[g].all | r->groups[g].any) & sums)) return true;
    return false;
}

static weft_status fill_inputs(spmd_plan *plan, spmd_kind *kind) {
    kind->reads = ARENA_ARRAY(&plan->memory, bool, kind->rule.nin + 1);
    kind->passes_sums = ARENA_ARRAY(&plan->memory, bool, kind->rule.nin + 1);
    if (!kind->reads || !kind->passes_sums) return base_out_of_memory();
    for (size_t i = 0; i < kind->rule.nin; i++) {
        kind->reads[i] = reads(&kind->rule, i);
        kind->passes_sums[i] = passes_sums(kind, i);
    }
    return NULL;
}

static weft_status read_side(spmd_plan *plan, weft_op *op, bool output, axes_side *s) {
    TRY(axes_read_side(op, output, &plan->types, &plan->memory, s));
    for (size_t i = 0; i < s->count; i++)
        if (is_absent(use_var(op->program, s->uses[i])))
            s->types[i] = (shape){.dtype = WEFT_DTYPE_NONE, .ndim = -1, .height = -1};
    return NULL;
}

static weft_status find_places(spmd_plan *plan, const weft_op *op, const axes_side *in, const axes_side *out,
                               spmd_kind *kind) {
    uint32_t *at = kind->at = ARENA_ARRAY(&plan->memory, uint32_t, in->count + out->count + 1);
    if (!at) return base_out_of_memory();
    for (size_t i = 0; i < in->count; i++) *at++ = (uint32_t)(in->uses[i] - op->args);
    for (size_t o = 0; o < out->count; o++) *at++ = (uint32_t)(out->uses[o] - op->args);
    return NULL;
}

static weft_status make_kind(spmd_plan *plan, weft_op *op, const op_schema *schema, kind_entry *out) {
    axes_side in, made;
    spmd_kind *kind = &out->kind;
    kind->special = SIZE_MAX;
    TRY(read_side(plan, op, false, &in));
    TRY(read_side(plan, op, true, &made));
    TRY(find_places(plan, op, &in, &made, kind));
    TRY(axes_of_op(&(axes_call){op, schema, in.types, made.types, in.first, made.first}, &plan->memory, &kind->rule));
    kind->why_whole = must_be_whole(op, schema, &kind->rule);
    kind->passes = !kind->why_whole && passes_elements(&kind->rule);
    if (!kind->why_whole) spmd_find_form(op, plan->own_statistics, kind);
    out->example = op;
    return fill_inputs(plan, kind);
}

/* An op of a type that nobody knows reads its inputs, whole, and writes its outputs. */
static weft_status make_unknown(spmd_plan *plan, weft_op *op, kind_entry *out) {
    spmd_kind *kind = &out->kind;
    kind->special = SIZE_MAX;
    kind->why_whole = kind->rule.why_none = "its type is not known";
    uint32_t *at = kind->at = ARENA_ARRAY(&plan->memory, uint32_t, op_nargs(op, false) + op_nargs(op, true) + 1);
    if (!at) return base_out_of_memory();
    for (int side = 0; side < 2; side++) {
        size_t n = op_nargs(op, side), i = 0;
        axes_arg *args = ARENA_ARRAY(&plan->memory, axes_arg, n + 1);
        if (!args) return base_out_of_memory();
        FOR_EACH_ARG(op, side, u) {
            args[i++].ndim = plan->types.kept[u->var_id].ndim;
            *at++ = (uint32_t)(u - op->args);
        }
        *(side ? &kind->rule.out : &kind->rule.in) = args;
        *(side ? &kind->rule.nout : &kind->rule.nin) = n;
    }
    return fill_inputs(plan, kind);
}

static weft_status add_kind(spmd_plan *plan, weft_op *op, const op_schema *schema, table_probe *at, kind_entry **out) {
    struct spmd_kinds *k = plan->kinds;
    kind_entry *made = *out = ARENA_NEW(&plan->memory, kind_entry);
    if (!made) return base_out_of_memory();
    if (!(made->key = arena_copy(&plan->memory, k->key, k->nkey * sizeof *k->key))) return base_out_of_memory();
    made->nkey = k->nkey;
    TRY(make_kind(plan, op, schema, made));
    if (at->item != TABLE_NONE) {
        made->next = k->items[at->item];
        k->items[at->item] = made;
        return NULL;
    }
    TRY(table_reserve(&plan->memory, &k->table, k->nitems + 1));
    TRY(grow(&plan->memory, &k->items, &k->capacity, k->nitems + 1, sizeof(kind_entry *)));
    *at = table_find(&k->table, at->hash); /* it may have grown */
    while (at->item != TABLE_NONE) table_next(&k->table, at);
    k->items[k->nitems] = made;
    table_put(&k->table, at, (uint32_t)k->nitems++);
    return NULL;
}

static weft_status find_kind(spmd_plan *plan, weft_op *op, kind_entry **out) {
    struct spmd_kinds *k = plan->kinds;
    const op_schema *schema = op_schema_of(op);
    if (!schema) {
        *out = ARENA_NEW(&plan->memory, kind_entry);
        return *out ? make_unknown(plan, op, *out) : base_out_of_memory();
    }
    TRY(make_key(plan, op, schema));
    table_probe at = table_find(&k->table, hash_key(k));
    while (at.item != TABLE_NONE) {
        const kind_entry *e = k->items[at.item];
        if (e->nkey == k->nkey && memcmp(e->key, k->key, k->nkey * sizeof *k->key) == 0) break;
        table_next(&k->table, &at);
    }
    for (kind_entry *e = at.item == TABLE_NONE ? NULL : k->items[at.item]; e; e = e->next)
        if (has_same_attrs(e->example, op)) return *out = e, NULL;
    return add_kind(plan, op, schema, &at, out);
}

weft_status spmd_read_op(spmd_plan *plan, weft_op *op, spmd_op *out) {
    kind_entry *e;
    TRY(find_kind(plan, op, &e));
    size_t nin = e->kind.rule.nin, nout = e->kind.rule.nout, n = nin + nout;
    spmd_var **vars = ARENA_ARRAY(&plan->memory, spmd_var *, n + 1);
    if (!vars) return base_out_of_memory();
    *out = (spmd_op){.op = op, .kind = &e->kind, .in = vars, .out = vars + nin, .at = e->kind.at};
    out->choice = &plan->undecided;
    for (size_t i = 0; i < n; i++) {
        spmd_var *v = &plan->vars[op->args[out->at[i]].var_id];
        vars[i] = v->counts ? v : NULL;
    }
    return NULL;
}
