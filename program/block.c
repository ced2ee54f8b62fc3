/* Blocks and their vars.
 *
 * A block finds its own vars through an open-addressing table on the name's hash. A name that it does not declare is
 * looked for breadth first in its forward block and its parent, as Paddle's BlockDesc::FindVarRecursive does. Block
 * indices come from files and may form cycles: a search visits at most NESTING_LIMIT different blocks. A name that no
 * block declares gets one placeholder var per program, so that its uses are kept too. */
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
    return index < block->nvars ? block->vars[index] : NULL;
}

weft_var *weft_block_find_var(const weft_block *block, const char *name_text) {
    return block_find_text(block, name_text, strlen(name_text));
}

const char *weft_var_name(const weft_var *var) {
    return var->name->bytes;
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

/* --- finding -------------------------------------------------------------------------------------------------------
 */

static weft_var *find_declared(const weft_block *b, const name *n) {
    if (!b->by_name_capacity) return NULL;
    size_t mask = b->by_name_capacity - 1;
    for (size_t at = n->hash & mask; b->by_name[at]; at = (at + 1) & mask)
        if (b->by_name[at]->name == n) return b->by_name[at];
    return NULL;
}

weft_var *block_find_own(const weft_block *b, const char *bytes, size_t nbytes, uint32_t hash) {
    if (!b->by_name_capacity) return NULL;
    size_t mask = b->by_name_capacity - 1;
    for (size_t at = hash & mask; b->by_name[at]; at = (at + 1) & mask) {
        const name *n = b->by_name[at]->name;
        if (n->hash == hash && n->nbytes == nbytes && memcmp(n->bytes, bytes, nbytes) == 0) return b->by_name[at];
    }
    return NULL;
}

static weft_var *find_outside(const weft_block *b, const name *n) {
    const weft_block *queue[NESTING_LIMIT];
    size_t count = 1;
    queue[0] = b;
    for (size_t i = 0; i < count; i++) {
        weft_var *v = i ? find_declared(queue[i], n) : NULL;
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
    weft_var *v = find_declared(b, n);
    return v || !has_outside(b) ? v : find_outside(b, n);
}

weft_var *block_find_text(const weft_block *b, const char *bytes, size_t nbytes) {
    weft_var *v = block_find_own(b, bytes, nbytes, base_hash(bytes, nbytes));
    if (v || !has_outside(b)) return v;
    const name *n = interner_find(&b->program->names, bytes, nbytes);
    return n ? find_outside(b, n) : NULL;
}

/* --- adding --------------------------------------------------------------------------------------------------------
 */

static void table_put(weft_var **table, size_t capacity, weft_var *v) {
    size_t at = v->name->hash & (capacity - 1);
    while (table[at]) at = (at + 1) & (capacity - 1);
    table[at] = v;
}

static weft_status table_grow(weft_block *b) {
    if ((b->nvars + 1) * 2 <= b->by_name_capacity) return NULL;
    size_t capacity = b->by_name_capacity ? b->by_name_capacity * 2 : 8;
    weft_var **table = ARENA_ARRAY(&b->program->arena, weft_var *, capacity);
    if (!table) return base_out_of_memory();
    for (size_t i = 0; i < b->by_name_capacity; i++)
        if (b->by_name[i]) table_put(table, capacity, b->by_name[i]);
    b->by_name = table;
    b->by_name_capacity = capacity;
    return NULL;
}

static weft_status new_var(weft_program *p, const name *n, weft_var **out) {
    if (p->nall_vars >= UINT32_MAX) return weft_status_create(WEFT_LIMIT, p->place, "too many variables");
    TRY(grow(&p->arena, &p->all_vars, &p->all_vars_capacity, p->nall_vars + 1, sizeof *p->all_vars));
    weft_var *v = ARENA_NEW(&p->arena, weft_var);
    if (!v) return base_out_of_memory();
    *v = (weft_var){.name = n, .kind = WEFT_DENSE_TENSOR, .dtype = WEFT_DTYPE_NONE, .id = (uint32_t)p->nall_vars};
    p->all_vars[p->nall_vars++] = v;
    p->edits++;
    *out = v;
    return NULL;
}

/* A second var of the same name is kept for the verifier to report; lookups find the first. */
weft_status block_add_var(weft_block *b, const name *n, weft_var **out) {
    weft_program *p = b->program;
    TRY(table_grow(b));
    TRY(grow(&p->arena, &b->vars, &b->var_capacity, b->nvars + 1, sizeof *b->vars));
    weft_var *v;
    TRY(new_var(p, n, &v));
    v->block = b;
    bool is_first = !find_declared(b, n);
    b->vars[b->nvars++] = v;
    if (is_first) table_put(b->by_name, b->by_name_capacity, v);
    *out = v;
    return NULL;
}

weft_status block_resolve(weft_block *b, const name *n, weft_var **out) {
    if ((*out = block_find(b, n))) return NULL;
    weft_program *p = b->program;
    TRY(grow(&p->arena, &p->undeclared, &p->undeclared_capacity, (size_t)n->id + 1, sizeof *p->undeclared));
    if (!p->undeclared[n->id]) TRY(new_var(p, n, &p->undeclared[n->id]));
    *out = p->undeclared[n->id];
    return NULL;
}

weft_status weft_block_add_var(weft_block *block, const char *name_text, weft_dtype dtype, size_t ndim,
                               const int64_t *dims, weft_var **out_var) {
    weft_program *p = block->program;
    const name *n;
    TRY(program_name(p, name_text, strlen(name_text), &n));
    if (find_declared(block, n))
        return weft_status_create(WEFT_INVALID_ARGUMENT, p->place, "block %d already has a variable \"%s\"", block->idx,
                                  name_text);
    int64_t *copy = ARENA_ARRAY(&p->arena, int64_t, ndim ? ndim : 1);
    if (!copy) return base_out_of_memory();
    if (ndim) memcpy(copy, dims, ndim * sizeof *dims);
    weft_var *v;
    TRY(block_add_var(block, n, &v));
    v->dtype = dtype;
    v->has_tensor = true;
    v->ndim = ndim;
    v->dims = copy;
    *out_var = v;
    return NULL;
}
