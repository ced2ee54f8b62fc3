/* fixed.c: see fixed.h.
 *
 * Extents that only a run knows are followed like numbers by taking numbers for them: each rank has a large prime
 * number of rows. Rules compare extents with one another and with those that the program states. No other extent is
 * that prime, or a multiple of it, but one that comes from the rows. */
#include "proof/spmd/fixed.h"

enum { ROWS_OF_RANK = 104729 };
/* Lengths: a prime first; then one that halves often, for nets that join what they made smaller and larger. */
static const int64_t lengths[] = {10007, 64 * 251};

void fixed_fini(fixed_programs *f) {
    for (size_t i = 0; i < f->nprograms; i++) weft_program_destroy(f->programs[i]);
    if (f->programs) base_free(&f->context->allocator, f->programs, f->room * sizeof *f->programs);
    weft_program_destroy(f->serial);
    *f = (fixed_programs){.serial = NULL};
}

weft_status fixed_make(const weft_program *serial, const weft_program *const *programs, size_t nprograms,
                       const open_extents *e, fixed_programs *out) {
    open_extents whole = *e;
    whole.nranks = 1;
    weft_context *c = serial->context;
    *out = (fixed_programs){.context = c, .room = nprograms};
    out->programs = base_alloc(&c->allocator, nprograms * sizeof *out->programs);
    weft_status status = NULL;
    if (!out->programs) TRY_DONE(base_out_of_memory());
    TRY_DONE(weft_program_clone(serial, &out->serial));
    TRY_DONE(open_extents_set(out->serial, &whole));
    for (size_t i = 0; i < nprograms; i++) {
        TRY_DONE(weft_program_clone(programs[i], &out->programs[i]));
        out->nprograms++;
        TRY_DONE(open_extents_set(out->programs[i], e));
    }
done:
    if (status) fixed_fini(out);
    return status;
}

weft_status fixed_stand_in(const weft_program *serial, const weft_program *const *programs, size_t nprograms,
                           size_t nranks, bool *out_is, fixed_programs *out) {
    *out = (fixed_programs){.serial = NULL};
    TRY(open_extents_find((weft_program *)serial, out_is));
    if (!*out_is) return NULL;
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        int64_t n = (int64_t)nranks;
        open_extents e = {.rows = ROWS_OF_RANK * n, .lengths = lengths[i] * n, .nranks = n};
        weft_status status = fixed_make(serial, programs, nprograms, &e, out);
        if (!status || weft_status_code(status) == WEFT_OUT_OF_MEMORY) return status;
        weft_status_free(status);
    }
    *out_is = false;
    return NULL;
}
