/* The structural verifier: whether a program can be talked about at all. Every problem goes to the sink, each with the
 * op or var it concerns; the status counts them.
 *
 * It knows no op types beyond the attributes that every op may carry. Recorded programs of Paddle set what must pass:
 * Paddle writes some attributes twice, with one value; a placement with no entries says "not known", whatever the
 * tensor's rank, and so does one for a tensor without a shape; a sidecar may name variables that are not there.
 * Between passes any negative extent is an unknown one: a program that multiplies a batch of -1 by other extents can
 * still be rewritten. */
#include "program/attr_memo.h"

#include <inttypes.h>
#include <stdio.h>

/* Deeper nesting than block_find searches. */
enum { NESTING_LIMIT = 64, PLACE_NBYTES = 256, SHORT_LIST = 24 };

/* Where a name was seen last. */
typedef struct stamp {
    uint32_t list, index;
} stamp;

/* The attributes that every op may carry. */
static const struct {
    const char *name;
    attr_type type;
    const char *type_name;
} standard_attrs[] = {
    {"op_role", ATTR_INT, "INT"},
    {"op_role_var", ATTR_STRINGS, "STRINGS"},
    {"op_namescope", ATTR_STRING, "STRING"},
    {"op_callstack", ATTR_STRINGS, "STRINGS"},
    {"op_device", ATTR_STRING, "STRING"},
    {"with_quant_attr", ATTR_BOOLEAN, "BOOLEAN"},
};
enum { NSTANDARD_ATTRS = sizeof standard_attrs / sizeof *standard_attrs };

typedef struct verifier {
    const weft_program *program;
    bool all;       /* else only what changed in the program's generation */
    bool is_strict; /* extents and element types are the caller's own */
    size_t nproblems;
    char first[512]; /* problem, with its place */
    attr_memo sound; /* shared lists of attrs in which there is no problem */
    arena scratch;
    const weft_block *block; /* the one being looked at */
    const weft_op *op;       /* NULL between ops */
    size_t op_index;
    stamp *stamps;                           /* by name id, made for the first long list */
    uint32_t list;                           /* number of the list that is being looked at */
    bool any_undeclared;                     /* an op has an argument that no block declares */
    const name *attr_names[NSTANDARD_ATTRS]; /* of standard_attrs; NULL: the program has no such name */
} verifier;

/* `place` begins with the program's own, which the status has too. */
static void keep_first(verifier *v, const char *place, const char *message) {
    size_t n = strlen(v->program->place);
    bool is_within = strlen(place) > n + 2;
    snprintf(v->first, sizeof v->first, "%.200s%s%.300s", is_within ? place + n + 2 : "", is_within ? ": " : "", message);
}

static void report(verifier *v, weft_severity severity, const char *format, va_list args) {
    char place[PLACE_NBYTES], message[1024];
    if (v->op)
        snprintf(place, sizeof place, "%s, block %d, %s #%zu", v->program->place, v->block->idx, v->op->type->bytes,
                 v->op_index);
    else if (v->block)
        snprintf(place, sizeof place, "%s, block %d", v->program->place, v->block->idx);
    else
        snprintf(place, sizeof place, "%s", v->program->place);
    vsnprintf(message, sizeof message, format, args);
    context_diagnose(v->program->context, severity, place, 0, 0, "%s", message);
    if (severity == WEFT_ERROR && v->nproblems++ == 0)
        keep_first(v, place, message);
}

WEFT_PRINTF(2, 3) static void problem(verifier *v, const char *format, ...) {
    va_list args;
    va_start(args, format);
    report(v, WEFT_ERROR, format, args);
    va_end(args);
}

WEFT_PRINTF(2, 3) static void warn(verifier *v, const char *format, ...) {
    va_list args;
    va_start(args, format);
    report(v, WEFT_WARNING, format, args);
    va_end(args);
}

/* Takes a status of another folder's check as a problem. Out of memory is passed on. */
static weft_status problem_from(verifier *v, weft_severity severity, weft_status status) {
    if (!status || weft_status_code(status) == WEFT_OUT_OF_MEMORY) return status;
    const char *place = weft_status_place(status);
    (severity == WEFT_ERROR ? problem : warn)(v, "%s%s%s", place, *place ? ": " : "", weft_status_message(status));
    weft_status_free(status);
    return NULL;
}

/* An undeclared name can become one by a change elsewhere: then everything is looked at. */
static bool is_due(const verifier *v, uint32_t generation) {
    return v->all || v->any_undeclared || generation == v->program->generation;
}

/* --- repeats ------------------------------------------------------------------------------------------------------ */

/* Tells `seen` that a list of so many names follows. */
static weft_status begin_list(verifier *v, size_t count) {
    v->list++;
    if (count <= SHORT_LIST || v->stamps) return NULL;
    v->stamps = ARENA_ARRAY(&v->scratch, stamp, v->program->names.count + 1);
    return v->stamps ? NULL : base_out_of_memory();
}

/* Whether the current long list had this name before; *index, its place in the list, becomes that of the first. */
static bool seen(verifier *v, const name *n, uint32_t *index) {
    stamp *s = &v->stamps[n->id];
    if (s->list == v->list) {
        *index = s->index;
        return true;
    }
    *s = (stamp){v->list, *index};
    return false;
}

/* --- blocks ------------------------------------------------------------------------------------------------------- */

/* Depth of each block below block 0 by parents, 0 while unknown; a block on the current path is -1. */
static weft_status check_nesting(verifier *v) {
    const weft_program *p = v->program;
    int32_t *depth = ARENA_ARRAY(&v->scratch, int32_t, p->nblocks + 1);
    int32_t *path = ARENA_ARRAY(&v->scratch, int32_t, p->nblocks + 1);
    if (!depth || !path) return base_out_of_memory();
    for (size_t i = 0; i < p->nblocks; i++) {
        size_t length = 0;
        int32_t at = (int32_t)i;
        while (at >= 0 && (size_t)at < p->nblocks && depth[at] == 0) {
            depth[at] = -1;
            path[length++] = at;
            at = p->blocks[at]->parent_idx;
        }
        int32_t base = 0;
        if (at >= 0 && (size_t)at < p->nblocks) {
            base = depth[at];
            if (base < 0) {
                v->block = p->blocks[at];
                problem(v, "its parents form a cycle");
                base = 0;
            }
        }
        while (length) {
            depth[path[--length]] = ++base;
            if (base == NESTING_LIMIT + 1) {
                v->block = p->blocks[path[length]];
                problem(v, "blocks nest deeper than %d", NESTING_LIMIT);
            }
        }
    }
    v->block = NULL;
    return NULL;
}

static void check_block_indices(verifier *v, size_t index) {
    const weft_block *b = v->block;
    size_t nblocks = v->program->nblocks;
    if (b->idx < 0 || (size_t)b->idx != index) problem(v, "expected index %zu, found %d", index, b->idx);
    if (index > 0 && (b->parent_idx < 0 || (size_t)b->parent_idx >= nblocks))
        problem(v, "expected a parent block below %zu, found %d", nblocks, b->parent_idx);
    if (index == 0 && b->parent_idx >= 0) problem(v, "block 0 has parent %d, expected none", b->parent_idx);
    if (b->forward_block_idx < -1 || (b->forward_block_idx >= 0 && (size_t)b->forward_block_idx >= nblocks))
        problem(v, "expected a forward block below %zu, found %d", nblocks, b->forward_block_idx);
}

/* --- vars --------------------------------------------------------------------------------------------------------- */

static void check_shape(verifier *v, const weft_var *var) {
    if (var->ndim > WEFT_MAX_RANK) {
        problem(v, "variable \"%s\" has %u axes, at most %d are possible", var->name->bytes, var->ndim, WEFT_MAX_RANK);
        return;
    }
    size_t count = 1;
    bool fits = true;
    for (size_t i = 0; i < var->ndim; i++)
        if (var->dims[i] > 0) fits = fits && base_mul(count, (size_t)var->dims[i], &count);
    for (size_t i = 0; v->is_strict && i < var->ndim; i++)
        if (var->dims[i] < -1)
            problem(v, "variable \"%s\": expected extents of -1 or more, found %" PRId64 " on axis %zu",
                    var->name->bytes, var->dims[i], i);
    if (!fits || count > (size_t)INT64_MAX / 16)
        problem(v, "variable \"%s\" has more elements than can be addressed", var->name->bytes);
}

static void check_element_type(verifier *v, const weft_var *var) {
    if (!weft_dtype_name((weft_dtype)var->dtype))
        problem(v, "variable \"%s\": expected an element type, found number %d", var->name->bytes, (int)var->dtype);
}

static weft_status check_placement(verifier *v, const weft_var *var, const placement *where, const char *what,
                                   weft_severity severity) {
    bool comparable = var && var->has_tensor && var->ndim > 0 && var->ndim <= WEFT_MAX_RANK && where->ndim > 0;
    weft_status found = placement_check(where, comparable ? (int)var->ndim : -1, "");
    if (!found) return NULL;
    char place[PLACE_NBYTES];
    snprintf(place, sizeof place, "placement of \"%s\"", what);
    return problem_from(v, severity, base_status_at(found, place));
}

static weft_status check_vars(verifier *v) {
    const weft_block *b = v->block;
    for (size_t i = 0; i < b->nvars; i++) {
        const weft_var *var = block_var(b, i);
        if (!is_due(v, var->generation)) continue;
        if (block_find_own(b, var->name) != var) problem(v, "variable \"%s\" is declared twice", var->name->bytes);
        if (var->name->nbytes == 0) problem(v, "a variable has no name");
        if (var->has_tensor) check_shape(v, var);
        if (var->has_tensor && v->is_strict) check_element_type(v, var);
        if (var->dist && var->dist->mesh) TRY(check_placement(v, var, var->dist, var->name->bytes, WEFT_ERROR));
    }
    return NULL;
}

/* --- ops ---------------------------------------------------------------------------------------------------------- */

static bool is_undeclared(const weft_var *var) {
    return !var->block && !name_is(var->name, "@EMPTY@");
}

/* Asked once, so that a sound program's arguments need not be looked at. */
static bool uses_undeclared(const weft_program *p) {
    for (size_t i = 0; i < p->undeclared.capacity; i++) {
        uint32_t id = table_item_at(&p->undeclared, i);
        if (id == TABLE_NONE) continue;
        const weft_var *var = program_var(p, id);
        if (var->nuses && is_undeclared(var)) return true;
    }
    return false;
}

static bool is_repeated_slot(verifier *v, bool output, uint32_t at) {
    const slot *slots = op_slot(v->op, output, 0);
    uint32_t first = at;
    if (op_nslots(v->op, output) > SHORT_LIST) return seen(v, slots[at].name, &first);
    for (uint32_t i = 0; i < at; i++)
        if (slots[i].name == slots[at].name) return true;
    return false;
}

static weft_status check_slots(verifier *v, bool output) {
    const char *side = output ? "output" : "input";
    uint32_t nslots = op_nslots(v->op, output);
    TRY(begin_list(v, nslots));
    for (uint32_t i = 0; i < nslots; i++) {
        const slot *s = op_slot(v->op, output, i);
        if (is_repeated_slot(v, output, i)) problem(v, "%s slot \"%s\" is there twice", side, s->name->bytes);
        for (size_t k = 0; v->any_undeclared && k < s->nargs; k++) {
            const weft_var *var = slot_var(v->op, s, k);
            if (is_undeclared(var))
                problem(v, "%s \"%s\" of slot \"%s\" is not declared", side, var->name->bytes, s->name->bytes);
        }
    }
    return NULL;
}

static void find_attr_names(verifier *v) {
    for (size_t i = 0; i < NSTANDARD_ATTRS; i++)
        v->attr_names[i] = interner_find(&v->program->names, standard_attrs[i].name, strlen(standard_attrs[i].name));
}

/* Paddle's layers that reduce over a ring themselves. They say -1 for "no tensor parallelism". */
static bool is_fused_layer(const weft_op *op) {
    static const char *const types[] = {"fused_attention",         "fused_attention_grad",
                                        "fused_feedforward",       "fused_feedforward_grad",
                                        "fused_multi_transformer", "fused_multi_transformer_int8"};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (op_is(op, types[i])) return true;
    return false;
}

static void check_standard_attr(verifier *v, const weft_attr *a) {
    for (size_t i = 0; i < NSTANDARD_ATTRS; i++)
        if (a->name == v->attr_names[i] && a->type != standard_attrs[i].type)
            problem(v, "attribute \"%s\": expected type %s, found type number %d", a->name->bytes,
                    standard_attrs[i].type_name, (int)a->type);
    if (!name_is(a->name, "ring_id")) return;
    bool may_be_absent = is_fused_layer(v->op);
    if (a->type != ATTR_INT && a->type != ATTR_LONG)
        problem(v, "attribute \"ring_id\": expected an integer, found type number %d", (int)a->type);
    else if (a->u.i < 0 && !(may_be_absent && a->u.i == -1))
        problem(v, "attribute \"ring_id\" is negative: %" PRId64, a->u.i);
}

/* A sub-block is another block that does not hold this one: else running it would never end. */
static void check_block_attr(verifier *v, const weft_attr *a, int64_t index) {
    const weft_program *p = v->program;
    if (index < 0 || (size_t)index >= p->nblocks) {
        problem(v, "attribute \"%s\" names block %" PRId64 " of %zu", a->name->bytes, index, p->nblocks);
        return;
    }
    int32_t at = v->block->idx;
    for (int steps = 0; at >= 0 && (size_t)at < p->nblocks && steps <= NESTING_LIMIT; steps++) {
        if (at == index) {
            problem(v, "attribute \"%s\" names block %" PRId64 ", which contains this op", a->name->bytes, index);
            return;
        }
        at = p->blocks[at]->parent_idx;
    }
}

/* An earlier attribute of the same name, or NULL. */
static const weft_attr *attr_before(verifier *v, size_t at) {
    const weft_attr *attrs = v->op->attrs;
    uint32_t first = (uint32_t)at;
    if (v->op->nattrs > SHORT_LIST) return seen(v, attrs[at].name, &first) ? &attrs[first] : NULL;
    for (size_t i = 0; i < at; i++)
        if (attrs[i].name == attrs[at].name) return &attrs[i];
    return NULL;
}

/* Whether the op's attrs would be found sound whatever op of whatever block has them. */
static bool suits_any_op(const weft_op *op) {
    for (size_t i = 0; i < op->nattrs; i++)
        if (op->attrs[i].type == ATTR_BLOCK || op->attrs[i].type == ATTR_BLOCKS ||
            name_is(op->attrs[i].name, "ring_id"))
            return false;
    return true;
}

static weft_status check_attrs(verifier *v) {
    attr_memo_entry *sound = attr_memo_find(&v->sound, v->op);
    if (sound && sound->list == v->op->attrs) return NULL;
    size_t nproblems = v->nproblems;
    TRY(begin_list(v, v->op->nattrs));
    for (size_t i = 0; i < v->op->nattrs; i++) {
        const weft_attr *a = &v->op->attrs[i];
        const weft_attr *before = attr_before(v, i);
        if (before && !attr_equal(a, before))
            problem(v, "attribute \"%s\" is there twice, with two values", a->name->bytes);
        check_standard_attr(v, a);
        if (a->type == ATTR_BLOCK) check_block_attr(v, a, a->u.i);
        for (size_t k = 0; a->type == ATTR_BLOCKS && k < a->count; k++) check_block_attr(v, a, a->u.ints[k]);
    }
    if (sound && nproblems == v->nproblems && suits_any_op(v->op)) sound->list = v->op->attrs;
    return NULL;
}

/* An op's own entries may be stale: Paddle's pass flattens a mesh and keeps mappings to its old axes. */
static weft_status check_op_dist(verifier *v) {
    const op_dist_rest *d = op_dist_rest_of(v->op->dist);
    for (int output = 0; output < 2; output++) {
        const op_placement *list = output ? d->outputs : d->inputs;
        for (size_t i = 0; i < (output ? d->noutputs : d->ninputs); i++)
            if (list[i].placement->mesh)
                TRY(check_placement(v, block_find(v->block, list[i].var), list[i].placement, list[i].var->bytes,
                                    WEFT_WARNING));
    }
    return NULL;
}

static weft_status check_ops(verifier *v) {
    v->op_index = SIZE_MAX;
    FOR_EACH_OP(op, v->block) {
        v->op_index++;
        if (!is_due(v, op->generation)) continue;
        v->op = op;
        TRY(check_slots(v, false));
        TRY(check_slots(v, true));
        TRY(check_attrs(v));
        if (op->dist) TRY(check_op_dist(v));
    }
    v->op = NULL;
    return NULL;
}

/* --- programs ----------------------------------------------------------------------------------------------------- */

static weft_status check_dist(verifier *v) {
    const weft_program *p = v->program;
    char place[PLACE_NBYTES];
    for (size_t i = 0; i < p->nmeshes; i++) {
        snprintf(place, sizeof place, "mesh %zu", i);
        TRY(problem_from(v, WEFT_ERROR, mesh_check(p->meshes[i], place)));
    }
    for (size_t i = 0; i < p->nrings; i++) {
        snprintf(place, sizeof place, "ring %" PRId64, p->rings[i].id);
        if (p->rings[i].id < 0) problem(v, "%s: its id is negative", place);
        TRY(problem_from(v, WEFT_ERROR, ring_check(&p->rings[i], place)));
    }
    return NULL;
}

static weft_status verify(verifier *v) {
    const weft_program *p = v->program;
    TRY(check_nesting(v));
    TRY(check_dist(v));
    find_attr_names(v);
    v->any_undeclared = uses_undeclared(p);
    for (size_t i = 0; i < p->nblocks; i++) {
        v->block = p->blocks[i];
        check_block_indices(v, i);
        TRY(check_vars(v));
        TRY(check_ops(v));
    }
    return NULL;
}

static weft_status verify_program(const weft_program *p, bool all, bool strict) {
    verifier v = {.program = p, .all = all, .is_strict = strict};
    arena_init(&v.scratch, &p->context->allocator);
    weft_status status = verify(&v);
    arena_fini(&v.scratch);
    if (status || v.nproblems == 0) return status;
    return weft_status_create(WEFT_INVALID_PROGRAM, p->place, "%zu problem%s in the program's structure, the first: %s",
                              v.nproblems, v.nproblems == 1 ? "" : "s", v.first);
}

weft_status weft_program_verify(const weft_program *program) {
    return verify_program(program, true, true);
}

weft_status program_verify_changed(weft_program *p, bool all) {
    TRY(verify_program(p, all, false));
    p->generation++;
    return NULL;
}

weft_status weft_program_mark(weft_program *program, uint32_t *out_mark) {
    TRY(program_verify_changed(program, true));
    *out_mark = program->generation;
    return NULL;
}

bool weft_op_is_edited(const weft_op *op, uint32_t mark) {
    return op->generation >= mark;
}
bool weft_var_is_edited(const weft_var *var, uint32_t mark) {
    return var->generation >= mark;
}
