#include "tests/support/rank_trial.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dist_attr/dims.h"
#include "program/ir.h"
#include "tests/support/failing_allocator.h"
#include "tests/support/must.h"
#include "weft/equivalent.h"
#include "weft/executor.h"
#include "weft/verify.h"

enum { MOST_ELEMENTS = 512 };

void put(trial *t, char *to, const char *format, ...) {
    va_list args;
    va_start(args, format);
    int n = vsnprintf(to + t->at, TEXT - t->at, format, args);
    va_end(args);
    if (n < 0 || (size_t)n >= TEXT - t->at) abort();
    t->at += (size_t)n;
}

/* --- running ------------------------------------------------------------------------------------------------------ */

/* The ranks' programs; `of` is the one that is looked at. */
typedef struct rank_list {
    weft_program *const *programs;
    int count, of;
} rank_list;

/* Which part of dimension `d` of a persistable it has, counted along the mesh axes that cut it; -1: it is whole. */
static int64_t coordinate(const weft_var *v, int rank, size_t d) {
    int64_t at[8], part = 0;
    if (!v->dist || !v->dist->mesh || !v->dist->dims_mapping || v->dist->dims_mapping[d] < 0) return -1;
    if (!mesh_coordinates(v->dist->mesh, rank, at)) return -1;
    for (int k = 0, axis; k < dim_naxes(v->dist->dims_mapping[d]); k++) {
        axis = dim_axis(v->dist->dims_mapping[d], k);
        part = part * v->dist->mesh->shape[axis] + at[axis];
    }
    return part;
}

/* Where its part of dimension `d` begins: behind those of the coordinates before. */
static int64_t first_of(const rank_list *r, const weft_var *v, size_t d) {
    int64_t own = coordinate(v, r->of, d), first = 0;
    for (int64_t c = 0; c < own; c++) {
        int other = 0;
        while (coordinate(v, other, d) != c) other++;
        first += weft_block_find_var(r->programs[other]->blocks[0], v->name->bytes)->dims[d];
    }
    return first;
}

/* The serial element that element i of the rank's part of `v` is. */
static size_t serial_index(const rank_list *r, const weft_var *serial, const weft_var *v, size_t i) {
    size_t index = 0, times = 1;
    for (size_t d = v->ndim; d-- > 0; times *= (size_t)serial->dims[d], i /= (size_t)v->dims[d])
        index += times * (i % (size_t)v->dims[d] + (size_t)first_of(r, v, d));
    return index;
}

static double number_of(const char *var, size_t index) {
    uint32_t x = (uint32_t)(index + 1) * 2654435761u;
    for (const char *c = var; *c; c++) x = (x ^ (unsigned char)*c) * 16777619u;
    return (double)(int)(x >> 20 & 63) / 16.0 - 2.0;
}

static size_t numel_of(const weft_var *v) {
    size_t n = 1;
    for (size_t d = 0; d < v->ndim; d++) n *= (size_t)v->dims[d];
    return n;
}

/* State whose name begins with "i" holds whole numbers below 8, as labels and indices. */
static void set_state(weft_executor *x, const weft_program *serial, const rank_list *r) {
    const weft_program *p = r->programs[r->of];
    for (size_t i = 0; i < p->nall_vars; i++) {
        const weft_var *v = program_var(p, i), *whole = weft_block_find_var(serial->blocks[0], v->name->bytes);
        double data[MOST_ELEMENTS];
        if (!v->persistable || !v->block || !whole) continue;
        if (numel_of(v) > MOST_ELEMENTS) abort();
        weft_tensor t = {.name = v->name->bytes, .dtype = (weft_dtype)v->dtype, .ndim = v->ndim, .data = data};
        memcpy(t.dims, v->dims, v->ndim * sizeof *v->dims);
        for (size_t k = 0; k < numel_of(v); k++) {
            size_t index = serial_index(r, whole, v, k);
            double number = number_of(v->name->bytes, index);
            if (v->dtype == WEFT_INT64)
                ((int64_t *)(void *)data)[k] = (int64_t)(fabs(number) * 16.0) % 8;
            else
                ((float *)(void *)data)[k] = (float)number;
        }
        t.nbytes = numel_of(v) * weft_dtype_nbytes(t.dtype);
        must(weft_executor_set(x, r->of, t.name, &t));
    }
}

/* NULL: kernels refuse the programs. */
static weft_executor *run(weft_context *context, weft_program *const *programs, const weft_program *serial, int nranks,
                          weft_plan **plans) {
    weft_executor *x = NULL;
    weft_executor_options o = {WEFT_EXECUTOR_OPTIONS_INIT, .watchdog_seconds = 10, .first_step_seconds = 10};
    for (int r = 0; r < nranks; r++) must(weft_plan_create(programs[r], NULL, &plans[r]));
    weft_status status = weft_executor_create(context, (const weft_plan *const *)plans, (size_t)nranks, nranks, &o, &x);
    weft_status_free(status);
    if (status) return NULL;
    for (int r = 0; r < nranks; r++) set_state(x, serial, &(rank_list){programs, nranks, r});
    must(weft_executor_run(x));
    return x;
}

static bool is_close(double a, double b, double tolerance) {
    return a == b || fabs(a - b) <= tolerance * (1.0 + fabs(b)) || (isnan(a) && isnan(b));
}

static bool state_is_equal(const trial *t, weft_executor *one, weft_executor *all, const weft_program *serial,
                           weft_program *const *programs) {
    for (int r = 0; r < t->nranks; r++) {
        for (size_t i = 0; i < programs[r]->nall_vars; i++) {
            const weft_var *v = program_var(programs[r], i),
                           *whole = weft_block_find_var(serial->blocks[0], v->name->bytes);
            weft_tensor a, b;
            if (!v->persistable || !v->block || !whole || v->dtype != WEFT_FP32) continue;
            must(weft_executor_get(one, 0, v->name->bytes, &a));
            must(weft_executor_get(all, r, v->name->bytes, &b));
            for (size_t k = 0; a.data && b.data && k < numel_of(v); k++)
                if (!is_close(((float *)b.data)[k],
                              ((float *)a.data)[serial_index(&(rank_list){programs, t->nranks, r}, whole, v, k)],
                              t->tolerance))
                    return false;
        }
    }
    return true;
}

static weft_program *parse_in(weft_context *of, const char *program_text) {
    weft_program *p;
    must(weft_program_parse(of, WEFT_FORM_YAML, program_text, strlen(program_text), NULL, 0, "test", &p));
    return p;
}

static bool lacks_reduce(weft_program *const *ranks, int nranks) {
    weft_findings *findings;
    bool any = false;
    must(weft_verify((const weft_program *const *)ranks, (size_t)nranks, NULL, &findings));
    for (size_t i = 0; i < weft_findings_count(findings); i++)
        any |= weft_finding_at(findings, i)->verdict == WEFT_VERDICT_MISSING_REDUCE;
    weft_findings_destroy(findings);
    return any;
}

void trial_run(weft_context *context, trial *t) {
    weft_program *serial = parse_in(context, t->serial), *ranks[MOST_RANKS];
    weft_plan *plans[MOST_RANKS + 1];
    weft_equivalence *e;
    for (int r = 0; r < t->nranks; r++) ranks[r] = parse_in(context, t->ranks[r]);
    must(weft_equivalent_to_serial(serial, (const weft_program *const *)ranks, (size_t)t->nranks, NULL, &e));
    const char *message = "";
    (void)weft_equivalence_finding(e, 0, NULL, &message);
    snprintf(t->message, sizeof t->message, "%s", message);
    t->proved = weft_equivalence_grade(e) < WEFT_NOT_PROVED;
    t->lacks_reduce = lacks_reduce(ranks, t->nranks);
    weft_executor *one = run(context, &serial, serial, 1, &plans[MOST_RANKS]);
    weft_executor *all = run(context, ranks, serial, t->nranks, plans);
    t->equal = one && all && state_is_equal(t, one, all, serial, ranks);
    weft_executor_destroy(one);
    weft_executor_destroy(all);
    weft_plan_destroy(plans[MOST_RANKS]);
    for (int r = 0; r < t->nranks; r++) weft_plan_destroy(plans[r]), weft_program_destroy(ranks[r]);
    weft_equivalence_destroy(e);
    weft_program_destroy(serial);
}

bool trial_fail_each(const trial *t, char *message, size_t nbytes) {
    failing_allocator state = {.fail_at = 0};
    weft_context_options o = {WEFT_CONTEXT_OPTIONS_INIT, .allocator = failing_allocator_on(&state)};
    weft_context *of;
    weft_program *serial, *ranks[MOST_RANKS];
    must(weft_context_create(&o, &of));
    serial = parse_in(of, t->serial);
    for (int r = 0; r < t->nranks; r++) ranks[r] = parse_in(of, t->ranks[r]);
    size_t held = state.held;
    bool good = true;
    for (bool done = false; !done;) {
        weft_equivalence *e = NULL;
        size_t at = ++state.fail_at;
        state.nrequests = 0;
        state.failed = false;
        weft_status status =
            weft_equivalent_to_serial(serial, (const weft_program *const *)ranks, (size_t)t->nranks, NULL, &e);
        done = !state.failed;
        if (done ? status != NULL : weft_status_code(status) != WEFT_OUT_OF_MEMORY) {
            good = false;
            snprintf(message, nbytes, "allocation %zu", at);
        }
        weft_status_free(status);
        weft_equivalence_destroy(e);
        state.fail_at = at;
    }
    state.fail_at = 0;
    if (state.held != held || state.wrong_size) {
        good = false;
        snprintf(message, nbytes, "%zu bytes are held, %zu before", state.held, held);
    }
    for (int r = 0; r < t->nranks; r++) weft_program_destroy(ranks[r]);
    weft_program_destroy(serial);
    weft_context_destroy(of);
    return good;
}

bool trial_replace(char *in, const char *from, const char *to) {
    static char copy[TEXT];
    size_t at = 0, n = strlen(from);
    bool any = n == 0;
    for (const char *p = in; *p;) {
        bool here = n && strncmp(p, from, n) == 0;
        any |= here;
        at += (size_t)snprintf(copy + at, TEXT - at, "%.*s", here ? (int)strlen(to) : 1, here ? to : p);
        p += here ? n : 1;
    }
    memcpy(in, copy, at);
    in[at] = 0;
    return any;
}
