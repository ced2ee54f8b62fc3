/* fixed.c: see fixed.h.
 *
 * Extents that only a run knows are followed like numbers by taking numbers for them: each rank has a large prime
 * number of rows. Rules compare extents with one another and with those that the program states. No other extent is
 * that prime, or a multiple of it, but one that comes from the rows. */
#include "proof/spmd/fixed.h"

#include "plan/plan.h"
#include "proof/spmd/plain_views.h"

/* Lengths: a prime first; then one that halves often, for nets that join what they made smaller and larger. */
static const int64_t lengths[] = {10007, 64 * 251};

void fixed_fini(fixed_programs *f) {
    for (size_t i = 0; i < f->nprograms; i++) weft_program_destroy(f->programs[i]);
    if (f->programs) base_free(&f->context->allocator, f->programs, f->room * sizeof *f->programs);
    weft_program_destroy(f->serial);
    *f = (fixed_programs){.serial = NULL};
}

static weft_status write_numbers(weft_program *p, const open_extents *e, bool folds) {
    if (e->rows) TRY(open_extents_set(p, e));
    if (folds) TRY(plan_unroll_program(p));
    if (folds) TRY(plain_views_write(p));
    return folds ? known_numbers_write(p) : NULL;
}

weft_status fixed_make(const weft_program *serial, const weft_program *const *programs, size_t nprograms,
                       const open_extents *e, bool folds, fixed_programs *out) {
    open_extents whole = *e;
    whole.nranks = 1;
    weft_context *c = serial->context;
    *out = (fixed_programs){.context = c, .room = nprograms};
    out->programs = base_alloc(&c->allocator, nprograms * sizeof *out->programs);
    weft_status status = NULL;
    if (!out->programs) TRY_DONE(base_out_of_memory());
    TRY_DONE(weft_program_clone(serial, &out->serial));
    TRY_DONE(write_numbers(out->serial, &whole, folds));
    for (size_t i = 0; i < nprograms; i++) {
        TRY_DONE(weft_program_clone(programs[i], &out->programs[i]));
        out->nprograms++;
        TRY_DONE(write_numbers(out->programs[i], e, folds));
    }
done:
    if (status) fixed_fini(out);
    return status;
}

weft_status fixed_stand_in(const weft_program *serial, const weft_program *const *programs, size_t nprograms,
                           size_t nranks, int64_t *out_rows, fixed_programs *out) {
    bool is_open;
    int64_t n = (int64_t)nranks;
    TRY(open_extents_find((weft_program *)serial, &is_open));
    *out_rows = FIXED_ROWS;
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths && is_open; i++) {
        open_extents e = {.rows = FIXED_ROWS * n, .lengths = lengths[i] * n, .nranks = n};
        weft_status status = fixed_make(serial, programs, nprograms, &e, true, out);
        if (!status || weft_status_code(status) == WEFT_OUT_OF_MEMORY) return status;
        weft_status_free(status);
    }
    *out_rows = 0;
    weft_status status = fixed_make(serial, programs, nprograms, &(open_extents){.nranks = n}, true, out);
    if (!status || weft_status_code(status) == WEFT_OUT_OF_MEMORY) return status;
    weft_status_free(status);
    return fixed_make(serial, programs, nprograms, &(open_extents){.nranks = n}, false, out);
}
