/* A program: the owner of blocks, vars, ops, names, meshes and rings.
 *
 * Everything lives in the program's arenas and pools until weft_program_destroy, removed ops too, so a pointer that a
 * pass holds never dangles. Names are interned once per program: two equal names are one pointer. */
#include "program/grow.h"
#include "program/ir.h"

#include <stdio.h>

weft_status weft_program_create(weft_context *context, weft_program **out_program) {
    weft_program *p = base_alloc(&context->allocator, sizeof *p);
    if (!p) return base_out_of_memory();
    *p = (weft_program){.context = context, .rank = -1, .place = "program"};
    arena_init(&p->arena, &context->allocator);
    pool_init(&p->ops, &context->allocator, sizeof(weft_op));
    pool_init(&p->vars, &context->allocator, sizeof(weft_var));
    pool_init(&p->uses, &context->allocator, sizeof(use));
    interner_init(&p->names, &p->arena);
    weft_block *b;
    weft_status status = program_add_block(p, -1, &b);
    if (status) {
        weft_program_destroy(p);
        return status;
    }
    *out_program = p;
    return NULL;
}

void weft_program_destroy(weft_program *program) {
    if (!program) return;
    weft_context *context = program->context;
    pool_fini(&program->uses);
    pool_fini(&program->ops);
    pool_fini(&program->vars);
    arena_fini(&program->arena);
    base_free(&context->allocator, program, sizeof *program);
}

weft_status program_name(weft_program *p, const char *bytes, size_t nbytes, const name **out) {
    return program_name_hashed(p, bytes, nbytes, base_hash(bytes, nbytes), out);
}

weft_status program_name_hashed(weft_program *p, const char *bytes, size_t nbytes, uint32_t hash, const name **out) {
    if (nbytes > UINT32_MAX)
        return weft_status_create(WEFT_LIMIT, p->place, "a name has %zu bytes, at most 4294967295 are possible",
                                  nbytes);
    const name *n = interner_get_hashed(&p->names, bytes, nbytes, hash);
    if (!n) return base_out_of_memory();
    *out = n;
    return NULL;
}

weft_status program_unique_name(weft_program *p, const char *stem, const name **out) {
    size_t count = p->names.count;
    TRY(program_name(p, stem, strlen(stem), out));
    if (p->names.count > count) return NULL; /* it was none before */
    for (uint64_t i = 1;; i++) {
        char *candidate = arena_format(&p->arena, "%s_%llu", stem, (unsigned long long)i);
        if (!candidate) return base_out_of_memory();
        if (!interner_find(&p->names, candidate, strlen(candidate)))
            return program_name(p, candidate, strlen(candidate), out);
    }
}

weft_status program_add_block(weft_program *p, int32_t parent_idx, weft_block **out) {
    if (p->nblocks >= INT32_MAX) return weft_status_create(WEFT_LIMIT, p->place, "more than %d blocks", INT32_MAX);
    TRY(grow(&p->arena, &p->blocks, &p->block_capacity, p->nblocks + 1, sizeof *p->blocks));
    weft_block *b = ARENA_NEW(&p->arena, weft_block);
    if (!b) return base_out_of_memory();
    *b = (weft_block){.program = p, .idx = (int32_t)p->nblocks, .parent_idx = parent_idx, .forward_block_idx = -1};
    p->blocks[p->nblocks++] = b;
    *out = b;
    return NULL;
}

size_t weft_program_nblocks(const weft_program *program) {
    return program->nblocks;
}

weft_block *weft_program_block(const weft_program *program, size_t index) {
    return index < program->nblocks ? program->blocks[index] : NULL;
}

size_t weft_program_nops(const weft_program *program) {
    size_t n = 0;
    for (size_t i = 0; i < program->nblocks; i++) n += program->blocks[i]->nops;
    return n;
}

int64_t weft_program_rank(const weft_program *program) {
    return program->rank;
}

int64_t weft_program_version(const weft_program *program) {
    return program->has_version ? program->version : 0;
}

void weft_program_set_version(weft_program *program, int64_t version) {
    program->version = version;
    program->has_version = true;
}
