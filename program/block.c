/* Blocks and their vars.
 *
 * A name's value is 1 + the id of the first var that a block declares under it; where several blocks declare one name,
 * each but the first finds its own in a table. A name that a block does not declare is looked for breadth first in its
 * forward block and its parent, as Paddle's BlockDesc::FindVarRecursive does. Block indices come from files and may
 * form cycles: a search visits at most NESTING_LIMIT different blocks. A name that no block declares gets one
 * placeholder var per program, so that its uses are kept too. */
#include "program/grow.h"
#include "program/ir.h"

enum { NESTING_LIMIT = 64 };

weft_op *weft_block_first_op(const weft_block *block) {
    return block->first;
}
weft_op *weft_block_last_op(const weft_block *block) {
    return block->last;
}
size_t weft_block_nops(const weft_block *block) {
    return block->nops;
}
size_t weft_block_nvars(const weft_block *block) {
    return block->nvars;
}

weft_var *weft_block_var_at(const weft_block *block, size_t index) {
    return index < block->nvars ? block_var(block, index) : NULL;
}

weft_var *weft_block_find_var(const weft_block *block, const char *name_text) {
    return block_find_text(block, name_text, strlen(name_text));
}

const char *weft_var_name(const weft_var *var) {
    return var->name->bytes;
}
weft_block *weft_var_block(const weft_var *var) {
    return var->block;
}
weft_var_kind weft_var_kind_of(const weft_var *var) {
    return (weft_var_kind)var->kind;
}
weft_dtype weft_var_dtype(const weft_var *var) {
    return (weft_dtype)var->dtype;
}
size_t weft_var_ndim(const weft_var *var) {
    return var->ndim;
}
const int64_t *weft_var_dims(const weft_var *var) {
    return var->dims;
}
bool weft_var_persistable(const weft_var *var) {
    return var->persistable;
}
size_t weft_var_nuses(const weft_var *var) {
    return var->nuses;
}

void weft_var_set_persistable(weft_var *var, bool persistable, bool is_parameter) {
    var_changed(var);
    var->persistable = var->has_persistable = persistable;
    var->is_parameter = var->has_is_parameter = is_parameter;
}

/* --- finding ------------------------------------------------------------------------------------------------------ */

static table_probe find_var(const weft_program *p, const hash_table *t, const name *n) {
    table_probe at = table_find(t, table_hash(n->id));
    while (at.item != TABLE_NONE && program_var(p, at.item)->name != n) table_next(t, &at);
    return at;
}

static weft_var *var_in_table(const weft_program *p, const hash_table *t, const name *n) {
    table_probe at = find_var(p, t, n);
    return at.item == TABLE_NONE ? NULL : program_var(p, at.item);
}

/* A var that was removed stays in the table, and is in no block. */
static weft_var *var_shared(const weft_block *b, const name *n) {
    const weft_program *p = b->program;
    table_probe at = table_find(&b->shared, table_hash(n->id));
    while (at.item != TABLE_NONE && (program_var(p, at.item)->name != n || program_var(p, at.item)->block != b))
        table_next(&b->shared, &at);
    return at.item == TABLE_NONE ? NULL : program_var(p, at.item);
}

weft_var *block_find_own(const weft_block *b, const name *n) {
    weft_var *v = program_declared(b->program, n);
    if (!v || v->block == b) return v;
    return v->shares_name ? var_shared(b, n) : NULL;
}

static weft_var *find_outside(const weft_block *b, const name *n) {
    const weft_block *queue[NESTING_LIMIT];
    size_t count = 1;
    queue[0] = b;
    for (size_t i = 0; i < count; i++) {
        weft_var *v = i ? block_find_own(queue[i], n) : NULL;
        if (v) return v;
        int32_t around[2] = {queue[i]->forward_block_idx, queue[i]->parent_idx};
        for (size_t k = 0; k < 2; k++) {
            const weft_block *next = around[k] < 0 ? NULL : weft_program_block(b->program, (size_t)around[k]);
            for (size_t j = 0; next && j < count; j++)
                if (queue[j] == next) next = NULL;
            if (next && count < NESTING_LIMIT) queue[count++] = next;
        }
    }
    return NULL;
}

static bool has_outside(const weft_block *b) {
    return b->parent_idx >= 0 || b->forward_block_idx >= 0;
}

weft_var *block_find(const weft_block *b, const name *n) {
    weft_var *v = block_find_own(b, n);
    return v || !has_outside(b) ? v : find_outside(b, n);
}

weft_var *block_find_text(const weft_block *b, const char *bytes, size_t nbytes) {
    const name *n = interner_find(&b->program->names, bytes, nbytes);
    return n ? block_find(b, n) : NULL;
}

/* --- adding ------------------------------------------------------------------------------------------------------- */

static const var_rest nothing = {.type_bytes = {"", 0}, .unknown_fields = {"", 0}};

weft_status var_rest_get(weft_program *p, weft_var *v, var_rest **out) {
    var_changed(v);
    var_rest *rest = v->rest == &nothing ? arena_copy(&p->arena, &nothing, sizeof nothing) : (var_rest *)v->rest;
    if (!rest) return base_out_of_memory();
    v->rest = *out = rest;
    return NULL;
}

weft_var program_blank_var(const weft_program *p, const name *n) {
    return (weft_var){.name = n,
                      .program = (weft_program *)(uintptr_t)p,
                      .kind = WEFT_DENSE_TENSOR,
                      .dtype = WEFT_DTYPE_NONE,
                      .generation = p->generation,
                      .rest = &nothing};
}

weft_status program_take_var(weft_program *p, const weft_var *like, weft_var **out) {
    if (p->nall_vars >= PROGRAM_MAX_VARS) return weft_status_create(WEFT_LIMIT, p->place, "too many variables");
    uint32_t id;
    weft_var *v = pool_take(&p->vars, 1, &id);
    if (!v) return base_out_of_memory();
    *v = *like;
    v->id = id - POOL_FIRST;
    p->nall_vars++;
    p->edits++;
    *out = v;
    return NULL;
}

static weft_status new_var(weft_program *p, const name *n, weft_var **out) {
    const weft_var blank = program_blank_var(p, n);
    return program_take_var(p, &blank, out);
}

weft_status block_reserve_vars(weft_block *b, size_t count) {
    return grow(&b->program->arena, &b->vars, &b->var_capacity, b->nvars + count, sizeof *b->vars);
}

/* A second var of the same name in one block is kept for the verifier to report; lookups find the first. */
weft_status block_add_var(weft_block *b, const name *n, weft_var **out) {
    weft_program *p = b->program;
    TRY(block_reserve_vars(b, 1));
    weft_var *first = program_declared(p, n), *v;
    bool is_shared = first && !block_find_own(b, n);
    if (is_shared) TRY(table_reserve(&p->arena, &b->shared, b->shared.count + 1));
    TRY(new_var(p, n, &v));
    v->block = b;
    b->vars[b->nvars++] = v->id;
    if (!first) name_set_value(n, v->id + 1);
    if (is_shared) {
        first->shares_name = true;
        table_add(&b->shared, table_hash(n->id), v->id);
    }
    *out = v;
    return NULL;
}

weft_status program_dims(weft_program *p, size_t ndim, const int64_t *dims, int64_t **out) {
    if (!ndim) {
        *out = NULL;
        return NULL;
    }
    size_t nbytes = ndim * sizeof *dims;
    known_dims *known = &p->known_dims[base_hash(dims, nbytes) % PROGRAM_KNOWN_DIMS];
    if (known->ndim != ndim || memcmp(known->dims, dims, nbytes) != 0) {
        int64_t *copy = arena_copy(&p->arena, dims, nbytes);
        if (!copy) return base_out_of_memory();
        *known = (known_dims){copy, ndim};
    }
    *out = known->dims;
    return NULL;
}

weft_var *program_find_placeholder(const weft_program *p, const name *n) {
    return var_in_table(p, &p->undeclared, n);
}

weft_var *block_find_used(const weft_block *b, const char *name_text) {
    weft_var *v = weft_block_find_var(b, name_text);
    if (v) return v;
    const name *n = interner_find(&b->program->names, name_text, strlen(name_text));
    v = n ? program_find_placeholder(b->program, n) : NULL;
    return v && v->nuses ? v : NULL;
}

weft_status program_placeholder(weft_program *p, const name *n, weft_var **out) {
    if ((*out = program_find_placeholder(p, n))) return NULL;
    TRY(table_reserve(&p->arena, &p->undeclared, p->undeclared.count + 1));
    TRY(new_var(p, n, out));
    table_add(&p->undeclared, table_hash(n->id), (*out)->id);
    return NULL;
}

weft_status block_resolve(weft_block *b, const name *n, weft_var **out) {
    *out = block_find(b, n);
    return *out ? NULL : program_placeholder(b->program, n, out);
}

weft_status block_add_tensor(weft_block *b, const name *n, weft_dtype dtype, size_t ndim, const int64_t *dims,
                             weft_var **out) {
    int64_t *own;
    TRY(program_dims(b->program, ndim, dims, &own));
    TRY(block_add_var(b, n, out));
    (*out)->dtype = dtype;
    (*out)->has_tensor = true;
    (*out)->ndim = (uint32_t)ndim;
    (*out)->dims = own;
    return NULL;
}

weft_status weft_block_add_var(weft_block *block, const char *name_text, weft_dtype dtype, size_t ndim,
                               const int64_t *dims, weft_var **out_var) {
    weft_program *p = block->program;
    const name *n;
    TRY(program_name(p, name_text, strlen(name_text), &n));
    if (block_find_own(block, n))
        return weft_status_create(WEFT_INVALID_ARGUMENT, p->place, "block %d already has a variable \"%s\"", block->idx,
                                  name_text);
    return block_add_tensor(block, n, dtype, ndim, dims, out_var);
}

/* --- removing ----------------------------------------------------------------------------------------------------- */

static void drop_from_block(weft_block *b, const weft_var *v) {
    size_t at = 0;
    while (b->vars[at] != v->id) at++;
    b->nvars--;
    memmove(b->vars + at, b->vars + at + 1, (b->nvars - at) * sizeof *b->vars);
}

/* Another block's var of the name, if there is one, is the first now. */
static void pass_name_on(weft_program *p, const weft_var *removed) {
    const name *n = removed->name;
    if (program_declared(p, n) != removed) return;
    weft_var *other = NULL;
    for (size_t i = 0; i < p->nblocks && !other && removed->shares_name; i++) other = var_shared(p->blocks[i], n);
    if (other) other->shares_name = true;
    name_set_value(n, other ? other->id + 1 : 0);
}

weft_status weft_var_remove(weft_var *var) {
    weft_program *p = var->program;
    weft_block *b = var->block;
    if (!b) return weft_status_create(WEFT_INVALID_ARGUMENT, p->place, "\"%s\" is in no block", var->name->bytes);
    if (var->nuses) {
        char place[160];
        return weft_status_create(WEFT_INVALID_ARGUMENT, p->place, "\"%s\" cannot be removed: it is an argument of %s",
                                  var->name->bytes,
                                  op_place(use_op(p, use_at(p, var->first_use)), place, sizeof place));
    }
    TRY(table_reserve(&p->arena, &p->undeclared, p->undeclared.count + 1));
    drop_from_block(b, var);
    var->block = NULL;
    pass_name_on(p, var);
    /* As a name that nobody declares: it has nothing else any more. */
    const uint32_t id = var->id;
    *var = program_blank_var(p, var->name);
    var->id = id;
    if (!program_find_placeholder(p, var->name)) table_add(&p->undeclared, table_hash(var->name->id), var->id);
    p->edits++;
    return NULL;
}

weft_status weft_program_add_block(weft_program *program, const weft_block *parent, weft_block **out_block) {
    return program_add_block(program, parent ? parent->idx : 0, out_block);
}

size_t weft_block_index(const weft_block *block) {
    return (size_t)block->idx;
}
