/* proof_by_name.c: dependencies, events and last users by name against a matrix of all pairs, on random programs. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proof/schedule/by_name.h"
#include "tests/support/by_name_dense.h"
#include "tests/support/draw.h"
#include "tests/support/must.h"

static void add_op(FILE *to, uint64_t *seed, uint32_t nvars, uint32_t nbuckets) {
    static const char *const types[] = {"relu",       "relu", "nop",     "c_allreduce_sum", "c_allreduce_max",
                                        "memcpy_d2h", "nop",  "dropout", "depend",          "c_sync_comm_stream"};
    uint32_t kind = draw_below(seed, nbuckets ? 12 : 10), x = draw_below(seed, nvars);
    uint32_t y = draw_below(seed, nvars), z = draw_below(seed, nvars);
    if (kind >= 10 || (kind == 9 && draw_below(seed, 8))) {
        uint32_t f = nbuckets ? draw_below(seed, nbuckets) : 0;
        if (nbuckets && kind >= 10)
            fprintf(to, "  - {coalesce_tensor: {Input: [v%u, v%u]}, out: {Output: [v%u, v%u], FusedOutput: f%u}", x, y,
                    x, y, f);
        else
            fprintf(to, "  - {c_allreduce_sum: {X: f%u}, out: {Out: v%u}", f, x);
        fprintf(to, ", attrs: {dtype: 5, ring_id: 0}}\n");
        return;
    }
    fprintf(to, "  - {%s: {X: [v%u, v%u]}, out: {Out: v%u}", types[kind], x, y, draw_below(seed, 3) ? z : x);
    if (kind == 3 || kind == 4 || kind == 9) fprintf(to, ", attrs: {ring_id: %u}", draw_below(seed, 2));
    if (!draw_below(seed, 3)) fprintf(to, ", dist: {stream: s%u}", draw_below(seed, 2));
    fprintf(to, "}\n");
}

static weft_program *random_program(weft_context *context, uint64_t seed, uint32_t nops, uint32_t nvars,
                                    uint32_t nbuckets) {
    char *text_ = NULL;
    size_t nbytes;
    weft_program *p;
    FILE *to = open_memstream(&text_, &nbytes);
    fprintf(to, "weft: 1\nrings: {0: [0, 1], 1: [0, 1]}\nblocks:\n- vars:\n");
    for (uint32_t i = 0; i < nvars; i++) fprintf(to, "    v%u: {float32: [4]}\n", i);
    for (uint32_t i = 0; i < nbuckets + 1; i++) fprintf(to, "    f%u: {float32: [128]}\n", i);
    fprintf(to, "  ops:\n");
    for (uint32_t i = 0; i < nops; i++) add_op(to, &seed, nvars, nbuckets);
    fclose(to);
    must(weft_program_parse(context, WEFT_FORM_YAML, text_, nbytes, NULL, 0, "random.yaml", &p));
    free(text_);
    return p;
}

static int compare_numbers(const void *x, const void *y) {
    uint32_t a = *(const uint32_t *)x, b = *(const uint32_t *)y;
    return (a > b) - (a < b);
}

static void expect_equal(const char *what, uint32_t seed, size_t i, const list *found, const dense_list *expected) {
    bool equal = found->count == expected->count;
    for (size_t k = 0; equal && k < found->count; k++) equal = found->items[k] == expected->items[k];
    cr_assert(equal, "seed %u: %s %zu: expected %zu, found %zu, or in another order", seed, what, i, expected->count,
              found->count);
}

/* --- memory ------------------------------------------------------------------------------------------------------- */

static bool is_before(const dense_by_name *d, uint32_t x, uint32_t y) {
    return d->earlier[(size_t)y * d->message_nbytes + x / 64] >> (x % 64) & 1;
}

static bool uses(const dense_by_name *d, uint32_t i, size_t var) {
    bool found = false;
    for (int out = 0; out < 2; out++) FOR_EACH_ARG(d->instrs[i].op, out, u) found |= u->var_id == var;
    return found;
}

/* Behind which launch the last user of a name lets go of it; PROOF_NONE: no user, or a depend. */
static uint32_t freed_behind(const dense_by_name *d, size_t var, uint32_t *nnotes) {
    uint32_t behind = PROOF_NONE, half = (uint32_t)d->n / 2;
    for (uint32_t i = 0; i < half; i++) {
        bool is_last = uses(d, i, var);
        for (uint32_t k = i + 1; k < half && is_last; k++) is_last = !uses(d, k, var) || !is_before(d, i, k);
        if (!is_last) continue;
        if (op_is(d->instrs[i].op, "depend")) return PROOF_NONE;
        behind = d->instrs[i].event; /* they rise */
        *nnotes += d->instrs[i].is_async;
    }
    return behind;
}

static bool is_shared(const proof_schedule *s, uint32_t of) {
    bool shared = false;
    for (uint32_t i = 0; i < s->nevents; i++)
        for (uint32_t k = s->events[i].first_access; k < s->events[i + 1].first_access; k++)
            shared |= s->accesses[k].buffer == of && s->events[i].stream != s->memory[of].owner;
    return shared;
}

static void check_memory(uint32_t seed, const proof_schedule *s, const dense_by_name *d) {
    for (uint32_t of = 0; of < s->nbuffers; of++) {
        uint32_t last = PROOF_NONE, nnotes = 0, nfound = 0;
        bool kept = !is_shared(s, of);
        for (size_t v = 0; v < s->program->nall_vars && !kept; v++) {
            if (s->bound[v] != of) continue;
            uint32_t behind = freed_behind(d, v, &nnotes);
            kept |= behind == PROOF_NONE;
            if (last == PROOF_NONE || behind > last) last = behind;
        }
        if (kept) last = PROOF_NONE;
        cr_assert_eq(s->memory[of].freed_by, last, "seed %u: %s: expected %u, found %u", seed, s->buffers[of].name,
                     last, s->memory[of].freed_by);
        for (uint32_t i = s->memory[of].notes; i != PROOF_NONE; i = s->notes[i].next) nfound++;
        cr_assert(kept || nfound == nnotes, "seed %u: %s: expected %u notes, found %u", seed, s->buffers[of].name,
                  nnotes, nfound);
    }
}

static void compare(uint32_t seed, uint32_t nops, uint32_t nvars, uint32_t nbuckets) {
    weft_context *context;
    must(weft_context_create(NULL, &context));
    weft_program *p = random_program(context, seed, nops, nvars, nbuckets);
    arena a;
    arena_init(&a, &context->allocator);
    proof_schedule s;
    by_name z;
    dense_by_name d;
    weft_verify_options o = {WEFT_VERIFY_OPTIONS_INIT, .reading = WEFT_READING_BY_NAME};
    must(schedule_from_program(p, &o, &a, &s));
    must(by_name_depend(&z, &s, &a));
    must(by_name_wait(&z));
    must(by_name_free(&z, 1));
    must(dense_make(&d, &s, &a));
    cr_assert_eq(z.n, d.n);
    for (size_t i = 0; i < z.n; i++) {
        expect_equal("before", seed, i, &z.before[i], &d.before[i]);
        expect_equal("after", seed, i, &z.after[i], &d.after[i]);
    }
    for (size_t i = 0; i < s.nevents; i++) {
        if (d.waits[i].count > 1) qsort(d.waits[i].items, d.waits[i].count, sizeof(uint32_t), compare_numbers);
        expect_equal("waits", seed, i, &z.waits[i], &d.waits[i]);
    }
    if (nops <= 700) check_memory(seed, &s, &d);
    arena_fini(&a);
    weft_program_destroy(p);
    weft_context_destroy(context);
}

Test(proof_by_name, small_programs) {
    for (uint32_t seed = 1; seed <= 250; seed++) compare(seed, 4 + seed % 40, 3 + seed % 9, seed % 5);
}

/* More instructions and buckets than a strip has columns. */
Test(proof_by_name, several_strips) {
    compare(1, 2000, 60, 150);
    compare(2, 2000, 1500, 150);
    compare(3, 700, 12, 3);
}
