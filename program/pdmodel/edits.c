/* edits.c: what was edited in a program, held against a hash of each op and var as they were.
 *
 * Passes touch much that they leave as it was: an event is given and taken away again. So the program's word that
 * something was changed only says what to hash once more. Ops that moved are those out of the longest sequence that is
 * still in its old order. */
#include "weft/edits.h"

#include "program/pdmodel/write.h"

typedef struct run {
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

static uint64_t hash_of(const char *bytes, size_t nbytes) {
    uint64_t h = nbytes, word;
    for (; nbytes >= sizeof word; bytes += sizeof word, nbytes -= sizeof word) {
        memcpy(&word, bytes, sizeof word);
        h = mix(h, word);
    }
    for (word = 0; nbytes; nbytes--) word = word << 8 | (uint8_t)*bytes++;
    return mix(h, word);
}

/* Ops and vars as bytes, one behind the other, since lists of attrs are repeated; and so hashed. */
typedef struct hasher {
    buffer bytes;
    attr_memo *memo;
} hasher;

static weft_status hasher_init(hasher *h, const weft_program *p) {
    buffer_init(&h->bytes, &p->context->allocator);
    h->memo = base_alloc(h->bytes.allocator, sizeof *h->memo);
    return h->memo ? NULL : base_out_of_memory();
}

static void hasher_fini(hasher *h) {
    base_free(h->bytes.allocator, h->memo, sizeof *h->memo);
    buffer_fini(&h->bytes);
}

static uint64_t hash_op(hasher *h, const weft_op *op) {
    size_t start = h->bytes.nbytes;
    pdmodel_put_op(&h->bytes, op, h->memo);
    return h->bytes.failed ? 0 : hash_of(h->bytes.bytes + start, h->bytes.nbytes - start);
}

static uint64_t hash_var(hasher *h, const weft_var *v) {
    size_t start = h->bytes.nbytes;
    pdmodel_put_var(&h->bytes, v);
    return h->bytes.failed ? 0 : hash_of(h->bytes.bytes + start, h->bytes.nbytes - start);
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
    return buffer_status(&h->bytes);
}

static weft_status begin_all(weft_edits *e, const weft_program *p) {
    hasher h;
    weft_status status = hasher_init(&h, p);
    e->nblocks = p->nblocks;
    e->blocks = ARENA_ARRAY(&e->memory, block_edits, p->nblocks);
    if (!status && !e->blocks) status = base_out_of_memory();
    for (size_t i = 0; i < p->nblocks && !status; i++) {
        memset(h.memo, 0, sizeof *h.memo);
        h.bytes.nbytes = 0;
        status = begin_block(e, &e->blocks[i], p->blocks[i], &h);
    }
    hasher_fini(&h);
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
    int64_t *sources = ARENA_ARRAY(&e->found, int64_t, block->nops + 1);
    bool *edited = ARENA_ARRAY(&e->found, bool, block->nops + 1);
    b->runs = ARENA_ARRAY(&e->found, run, block->nops + 1);
    if (!sources || !edited || !b->runs) return base_out_of_memory();
    FOR_EACH_OP(op, block) {
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
            b->runs[b->nruns++] = (run){sources[i], 1, edited[i]};
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
    hasher h;
    arena_reset(&e->found);
    for (size_t i = 0; i < e->nblocks; i++) e->blocks[i].nruns = 0, e->blocks[i].parts = (pdmodel_parts){NULL, NULL};
    weft_status status = hasher_init(&h, e->program);
    for (size_t i = 0; i < e->nblocks && !status; i++) {
        memset(h.memo, 0, sizeof *h.memo);
        h.bytes.nbytes = 0;
        status = find_ops(e, &e->blocks[i], e->program->blocks[i], &h);
        if (!status) status = find_vars(e, &e->blocks[i], e->program->blocks[i], &h);
        if (!status) status = buffer_status(&h.bytes);
    }
    hasher_fini(&h);
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

bool weft_edits_removes_vars(const weft_edits *edits, size_t block_index) {
    return block_index < edits->nblocks && edits->blocks[block_index].removes_vars;
}

weft_status weft_edits_print(const weft_edits *edits, char **out_bytes, size_t *out_nbytes) {
    buffer out;
    buffer_init(&out, &edits->program->context->allocator);
    pdmodel_parts *parts = base_alloc(out.allocator, edits->nblocks * sizeof *parts);
    weft_status status = parts ? NULL : base_out_of_memory();
    for (size_t i = 0; i < edits->nblocks && !status; i++) {
        parts[i] = edits->blocks[i].parts;
        if (!parts[i].ops)
            status = weft_status_create(WEFT_INVALID_ARGUMENT, "", "weft_edits_print: weft_edits_find comes first");
    }
    if (!status) status = pdmodel_print_parts(edits->program, parts, &out);
    if (!status) status = buffer_take(&out, out_bytes, out_nbytes);
    base_free(out.allocator, parts, edits->nblocks * sizeof *parts);
    buffer_fini(&out);
    return status;
}
