/* edits.c: what was edited in a program, held against a hash of each op and var as they were.
 *
 * Passes touch much that they leave as it was: an event is given and taken away again. So the program's word that
 * something was changed only says what to hash once more. Ops that moved are those out of the longest sequence that is
 * still in its old order. */
#include "weft/edits.h"

#include "program/pdmodel/write.h"

typedef struct run {
    const weft_op *first;
    int64_t source;
    size_t nops;
    bool is_edited;
} run;

typedef struct block_edits {
    const weft_op **ops; /* as they were */
    const weft_var **vars;
    uint64_t *op_hashes, *var_hashes;
    size_t nops, nvars;
    run *runs; /* found */
    size_t nruns;
    pdmodel_parts parts;
    bool removes_vars;
} block_edits;

struct weft_edits {
    weft_program *program;
    arena memory, found; /* `found`: what the last look made */
    block_edits *blocks;
    size_t nblocks;
    uint32_t *op_places; /* by id: 1 + the place among the old ops of its block */
    uint32_t *var_places;
    size_t nop_ids, nvar_ids;
    uint32_t mark;
};

/* --- hashes ------------------------------------------------------------------------------------------------------- */

static uint64_t mix(uint64_t h, uint64_t x) {
    h = (h ^ x) * UINT64_C(0x9E3779B97F4A7C15);
    return h ^ h >> 29;
}

static uint64_t hash_of(const void *from, size_t nbytes) {
    const uint8_t *bytes = from;
    uint64_t h = nbytes, word;
    for (; nbytes >= sizeof word; bytes += sizeof word, nbytes -= sizeof word) {
        memcpy(&word, bytes, sizeof word);
        h = mix(h, word);
    }
    for (word = 0; nbytes; nbytes--) word = word << 8 | *bytes++;
    return mix(h, word);
}

static uint64_t mix_real(uint64_t h, double x) {
    uint64_t word;
    memcpy(&word, &x, sizeof word);
    return mix(h, word);
}

/* What was hashed before, by address: a call stack says the same lines for most ops, and half of all ops share their
 * list of attrs with another. */
typedef struct hashed {
    const void *what;
    uint64_t hash;
} hashed;
enum { HASHED_BITS = 10 };
typedef struct hasher {
    hashed strings[1 << HASHED_BITS], lists[1 << HASHED_BITS];
} hasher;

static hashed *hashed_at(hashed *all, const void *what) {
    return &all[(uintptr_t)what * UINT64_C(0x9E3779B97F4A7C15) >> (64 - HASHED_BITS)];
}

static weft_status hasher_create(const weft_program *p, hasher **out) {
    *out = base_alloc(&p->context->allocator, sizeof **out);
    if (!*out) return base_out_of_memory();
    memset(*out, 0, sizeof **out);
    return NULL;
}

static void hasher_destroy(const weft_program *p, hasher *h) {
    base_free(&p->context->allocator, h, sizeof *h);
}

static uint64_t hash_string(hasher *h, const name *n) {
    hashed *known = hashed_at(h->strings, n);
    if (known->what != n) *known = (hashed){n, hash_of(n->bytes, n->nbytes)};
    return known->hash;
}

static uint64_t mix_scalar(uint64_t x, const scalar *s) {
    x = mix(x, (uint64_t)s->type);
    switch (s->type) {
    case SCALAR_BOOLEAN: return mix(x, s->b);
    case SCALAR_LONG: return mix(x, (uint64_t)s->i);
    case SCALAR_FLOAT64: return mix_real(x, s->r);
    case SCALAR_COMPLEX128: return mix_real(mix_real(x, s->r), s->imaginary);
    }
    return x;
}

static uint64_t mix_value(hasher *h, uint64_t x, const weft_attr *a) {
    const size_t n = a->count;
    switch (a->type) {
    case ATTR_INT:
    case ATTR_LONG:
    case ATTR_BLOCK: return mix(x, (uint64_t)a->u.i);
    case ATTR_FLOAT:
    case ATTR_FLOAT64: return mix_real(x, a->u.f);
    case ATTR_BOOLEAN: return mix(x, a->u.b);
    case ATTR_STRING:
    case ATTR_VAR: return mix(x, n ? hash_of(a->u.s, n) : 0);
    case ATTR_BOOLEANS: return mix(x, n ? hash_of(a->u.bools, n * sizeof *a->u.bools) : 0);
    case ATTR_INTS:
    case ATTR_LONGS:
    case ATTR_BLOCKS: return mix(x, n ? hash_of(a->u.ints, n * sizeof *a->u.ints) : 0);
    case ATTR_FLOATS:
    case ATTR_FLOAT64S: return mix(x, n ? hash_of(a->u.floats, n * sizeof *a->u.floats) : 0);
    case ATTR_STRINGS:
    case ATTR_VARS:
        x = mix(x, n);
        for (size_t i = 0; i < n; i++) x = mix(x, hash_string(h, a->u.strings[i]));
        return x;
    case ATTR_SCALAR: return mix_scalar(x, a->u.scalar);
    case ATTR_SCALARS:
        x = mix(x, n);
        for (size_t i = 0; i < n; i++) x = mix_scalar(x, &a->u.scalars[i]);
        return x;
    }
    return x;
}

static uint64_t hash_attrs(hasher *h, const weft_attr *attrs, size_t count) {
    uint64_t x = count;
    for (size_t i = 0; i < count; i++)
        x = mix_value(h, mix(mix(x, (uintptr_t)attrs[i].name), (uint64_t)attrs[i].type), &attrs[i]);
    return x;
}

static uint64_t hash_attrs_of(hasher *h, const weft_op *op) {
    if (!op_shares_attrs(op)) return hash_attrs(h, op->attrs, op->nattrs);
    hashed *known = hashed_at(h->lists, op->attrs);
    if (known->what != op->attrs) *known = (hashed){op->attrs, hash_attrs(h, op->attrs, op->nattrs)};
    return known->hash;
}

/* What a file holds of it (write.c), and so neither stream nor events. Names of ops, slots and attrs are those of the
 * program, and vars keep theirs. */
static uint64_t hash_op(hasher *h, const weft_op *op) {
    const slot_table *t = op->slots;
    uint64_t x = mix(mix((uintptr_t)op->type, t->ninputs), t->noutputs);
    for (uint32_t i = 0; i < slot_table_count(t); i++) {
        const slot *s = &t->slots[i];
        x = mix(mix(x, (uintptr_t)s->name), s->nargs);
        for (uint32_t k = 0; k < s->nargs; k++) x = mix(x, op->args[s->first + k].var_id);
    }
    x = mix(mix(x, hash_attrs_of(h, op)), op->has_is_target ? 2u + op->is_target : 0u);
    return op->unknown_fields ? mix(x, hash_of(op->unknown_fields->bytes, op->unknown_fields->nbytes)) : x;
}

static uint64_t hash_var(hasher *h, const weft_var *v) {
    uint64_t flags = 0, x = mix((uintptr_t)v->name, (uint64_t)v->kind);
    const bool flag[] = {v->has_tensor,          v->has_lod_level,   v->has_persistable,  v->persistable,
                         v->has_need_check_feed, v->need_check_feed, v->has_is_parameter, v->is_parameter,
                         v->has_stop_gradient,   v->stop_gradient};
    for (size_t i = 0; i < sizeof flag; i++) flags = flags << 1 | flag[i];
    x = mix(mix(mix(x, flags), (uint64_t)v->dtype), (uint64_t)v->lod_level);
    for (uint32_t i = 0; i < v->ndim; i++) x = mix(x, (uint64_t)v->dims[i]);
    x = mix(mix(x, v->ndim), hash_attrs(h, v->rest->attrs, v->rest->nattrs));
    x = mix(x, hash_of(v->rest->type_bytes.bytes, v->rest->type_bytes.nbytes));
    return mix(x, hash_of(v->rest->unknown_fields.bytes, v->rest->unknown_fields.nbytes));
}

/* --- as it was ---------------------------------------------------------------------------------------------------- */

static weft_status begin_block(weft_edits *e, block_edits *b, const weft_block *block, hasher *h) {
    size_t n = 0;
    b->ops = ARENA_ARRAY(&e->memory, const weft_op *, block->nops + 1);
    b->vars = ARENA_ARRAY(&e->memory, const weft_var *, block->nvars + 1);
    b->op_hashes = ARENA_ARRAY(&e->memory, uint64_t, block->nops + 1);
    b->var_hashes = ARENA_ARRAY(&e->memory, uint64_t, block->nvars + 1);
    if (!b->ops || !b->vars || !b->op_hashes || !b->var_hashes) return base_out_of_memory();
    b->nops = block->nops;
    b->nvars = block->nvars;
    FOR_EACH_OP(op, block) {
        b->ops[n] = op;
        b->op_hashes[n++] = hash_op(h, op);
        if (op->id >= e->nop_ids) e->nop_ids = op->id + 1;
    }
    for (size_t i = 0; i < block->nvars; i++) {
        b->vars[i] = block_var(block, i);
        b->var_hashes[i] = hash_var(h, b->vars[i]);
        if (b->vars[i]->id >= e->nvar_ids) e->nvar_ids = b->vars[i]->id + 1;
    }
    return NULL;
}

static weft_status begin_all(weft_edits *e, const weft_program *p) {
    hasher *h = NULL;
    weft_status status = hasher_create(p, &h);
    e->nblocks = p->nblocks;
    e->blocks = ARENA_ARRAY(&e->memory, block_edits, p->nblocks);
    if (!status && !e->blocks) status = base_out_of_memory();
    for (size_t i = 0; i < p->nblocks && !status; i++) status = begin_block(e, &e->blocks[i], p->blocks[i], h);
    hasher_destroy(p, h);
    TRY(status);
    e->op_places = ARENA_ARRAY(&e->memory, uint32_t, e->nop_ids + 1);
    e->var_places = ARENA_ARRAY(&e->memory, uint32_t, e->nvar_ids + 1);
    if (!e->op_places || !e->var_places) return base_out_of_memory();
    for (size_t i = 0; i < e->nblocks; i++) {
        const block_edits *b = &e->blocks[i];
        for (size_t k = 0; k < b->nops; k++) e->op_places[b->ops[k]->id] = (uint32_t)k + 1;
        for (size_t k = 0; k < b->nvars; k++) e->var_places[b->vars[k]->id] = (uint32_t)k + 1;
    }
    return NULL;
}

weft_status weft_edits_begin(weft_program *program, weft_edits **out_edits) {
    uint32_t mark;
    TRY(weft_program_mark(program, &mark));
    weft_edits *e = base_alloc(&program->context->allocator, sizeof *e);
    if (!e) return base_out_of_memory();
    *e = (weft_edits){.program = program, .mark = mark};
    arena_init(&e->memory, &program->context->allocator);
    arena_init(&e->found, &program->context->allocator);
    weft_status status = begin_all(e, program);
    if (status)
        weft_edits_destroy(e);
    else
        *out_edits = e;
    return status;
}

void weft_edits_destroy(weft_edits *edits) {
    if (!edits) return;
    const weft_allocator *allocator = edits->memory.allocator;
    arena_fini(&edits->found);
    arena_fini(&edits->memory);
    base_free(allocator, edits, sizeof *edits);
}

/* --- as it is ----------------------------------------------------------------------------------------------------- */

/* Where the op stood in the block; -1: it is new. */
static int64_t source_of(const weft_edits *e, const block_edits *b, const weft_op *op) {
    size_t place = op->id < e->nop_ids ? e->op_places[op->id] : 0;
    return place && place <= b->nops && b->ops[place - 1] == op ? (int64_t)place - 1 : -1;
}

/* Marks as edited what is out of the longest rising sequence of `sources`. best[k]: where the sequence of k + 1 members
 * with the smallest end has that end; before[i]: the member before i. */
static weft_status mark_moved(weft_edits *e, const int64_t *sources, size_t n, bool *edited) {
    size_t *best = ARENA_ARRAY(&e->found, size_t, n + 1), *before = ARENA_ARRAY(&e->found, size_t, n + 1), length = 0;
    bool *stays = ARENA_ARRAY(&e->found, bool, n + 1);
    if (!best || !before || !stays) return base_out_of_memory();
    for (size_t i = 0; i < n; i++) {
        if (sources[i] < 0) continue;
        size_t low = 0, high = length;
        while (low < high) {
            size_t middle = (low + high) / 2;
            if (sources[best[middle]] < sources[i])
                low = middle + 1;
            else
                high = middle;
        }
        before[i] = low ? best[low - 1] : n;
        best[low] = i;
        if (low == length) length++;
    }
    for (size_t i = length ? best[length - 1] : n; i < n; i = before[i]) stays[i] = true;
    for (size_t i = 0; i < n; i++) edited[i] |= !stays[i];
    return NULL;
}

static weft_status find_ops(weft_edits *e, block_edits *b, const weft_block *block, hasher *h) {
    size_t n = 0;
    const weft_op **ops = ARENA_ARRAY(&e->found, const weft_op *, block->nops + 1);
    int64_t *sources = ARENA_ARRAY(&e->found, int64_t, block->nops + 1);
    bool *edited = ARENA_ARRAY(&e->found, bool, block->nops + 1);
    b->runs = ARENA_ARRAY(&e->found, run, block->nops + 1);
    if (!ops || !sources || !edited || !b->runs) return base_out_of_memory();
    FOR_EACH_OP(op, block) {
        ops[n] = op;
        sources[n] = source_of(e, b, op);
        edited[n] = sources[n] < 0 || (weft_op_is_edited(op, e->mark) && hash_op(h, op) != b->op_hashes[sources[n]]);
        n++;
    }
    TRY(mark_moved(e, sources, n, edited));
    b->nruns = 0;
    for (size_t i = 0; i < n; i++) {
        if (i && !edited[i] && !edited[i - 1] && sources[i] == sources[i - 1] + 1)
            b->runs[b->nruns - 1].nops++;
        else
            b->runs[b->nruns++] = (run){ops[i], sources[i], 1, edited[i]};
    }
    b->parts.ops = edited;
    return NULL;
}

static weft_status find_vars(weft_edits *e, block_edits *b, const weft_block *block, hasher *h) {
    bool *edited = ARENA_ARRAY(&e->found, bool, block->nvars + 1);
    if (!edited) return base_out_of_memory();
    for (size_t i = 0; i < block->nvars; i++) {
        const weft_var *v = block_var(block, i);
        size_t place = v->id < e->nvar_ids ? e->var_places[v->id] : 0;
        bool is_old = place && place <= b->nvars && b->vars[place - 1] == v;
        edited[i] = !is_old || (weft_var_is_edited(v, e->mark) && hash_var(h, v) != b->var_hashes[place - 1]);
    }
    b->removes_vars = false;
    for (size_t i = 0; i < b->nvars; i++) b->removes_vars |= b->vars[i]->block != block;
    b->parts.vars = edited;
    return NULL;
}

weft_status weft_edits_find(weft_edits *e) {
    hasher *h = NULL;
    arena_reset(&e->found);
    for (size_t i = 0; i < e->nblocks; i++)
        e->blocks[i].nruns = 0, e->blocks[i].parts = (pdmodel_parts){NULL, NULL, SIZE_MAX};
    weft_status status = hasher_create(e->program, &h);
    for (size_t i = 0; i < e->nblocks && !status; i++) {
        status = find_ops(e, &e->blocks[i], e->program->blocks[i], h);
        if (!status) status = find_vars(e, &e->blocks[i], e->program->blocks[i], h);
    }
    hasher_destroy(e->program, h);
    return status;
}

size_t weft_edits_nruns(const weft_edits *edits, size_t block_index) {
    return block_index < edits->nblocks ? edits->blocks[block_index].nruns : 0;
}

void weft_edits_run(const weft_edits *edits, size_t block_index, size_t index, int64_t *out_source, size_t *out_nops,
                    bool *out_is_edited) {
    bool is_one = index < weft_edits_nruns(edits, block_index);
    const run r = is_one ? edits->blocks[block_index].runs[index] : (run){.source = -1};
    *out_source = r.source;
    *out_nops = r.nops;
    *out_is_edited = r.is_edited;
}

static bool has_long_slot(const weft_op *op, size_t max_nargs) {
    for (uint32_t i = 0; i < slot_table_count(op->slots); i++)
        if (op->slots->slots[i].nargs > max_nargs) return true;
    return false;
}

const weft_op *weft_edits_long_op(const weft_edits *edits, size_t block_index, size_t index, size_t max_nargs) {
    if (index >= weft_edits_nruns(edits, block_index)) return NULL;
    const run *r = &edits->blocks[block_index].runs[index];
    return r->is_edited && has_long_slot(r->first, max_nargs) ? r->first : NULL;
}

bool weft_edits_removes_vars(const weft_edits *edits, size_t block_index) {
    return block_index < edits->nblocks && edits->blocks[block_index].removes_vars;
}

weft_status weft_edits_print_short(const weft_edits *edits, size_t max_nargs, char **out_bytes, size_t *out_nbytes) {
    buffer out;
    buffer_init(&out, &edits->program->context->allocator);
    pdmodel_parts *parts = base_alloc(out.allocator, edits->nblocks * sizeof *parts);
    weft_status status = parts ? NULL : base_out_of_memory();
    for (size_t i = 0; i < edits->nblocks && !status; i++) {
        parts[i] = edits->blocks[i].parts;
        parts[i].max_nargs = max_nargs;
        if (!parts[i].ops)
            status = weft_status_create(WEFT_INVALID_ARGUMENT, "", "weft_edits_print: weft_edits_find comes first");
    }
    if (!status) status = pdmodel_print_parts(edits->program, parts, &out);
    if (!status) status = buffer_take(&out, out_bytes, out_nbytes);
    base_free(out.allocator, parts, edits->nblocks * sizeof *parts);
    buffer_fini(&out);
    return status;
}

weft_status weft_edits_print(const weft_edits *edits, char **out_bytes, size_t *out_nbytes) {
    return weft_edits_print_short(edits, SIZE_MAX, out_bytes, out_nbytes);
}
