/* A recording that planner and executor run: of ops in whose place the planner puts others. */
#include "tests/support/ops_fixture_run.h"

#include <stdio.h>

#include "weft/trainer.h"

/* Recorded inputs by name. */
static weft_status make_feeds(fixture_run *r, weft_tensors **out_feeds) {
    TRY(weft_tensors_create(r->context, out_feeds));
    for (size_t i = 0; i < r->program->nall_vars; i++) {
        const weft_var *v = program_var(r->program, i);
        const npz_array *a = npz_find(&r->npz, "in/", v->name->bytes);
        weft_tensor *t;
        if (!a) continue;
        TRY(weft_tensors_add(*out_feeds, v->name->bytes, (weft_dtype)v->dtype, (size_t)a->ndim, a->dims, &t));
        if (t->nbytes != a->nbytes)
            return weft_status_create(WEFT_INVALID_PROGRAM, v->name->bytes, "it is recorded as %s", a->dtype);
        if (a->nbytes) memcpy(t->data, a->data, a->nbytes);
    }
    return NULL;
}

/* What was recorded of outputs. */
static weft_status list_fetches(fixture_run *r, weft_trainer_options *o) {
    const char **names = ARENA_ARRAY(&r->arena, const char *, r->program->nall_vars + 1);
    if (!names) return base_out_of_memory();
    for (size_t i = 0; i < r->program->nall_vars; i++) {
        const char *name_text = program_var(r->program, i)->name->bytes;
        if (npz_find(&r->npz, "out/", name_text)) names[o->nfetches++] = name_text;
    }
    o->fetches = names;
    return NULL;
}

static weft_status run_step(fixture_run *r, weft_trainer **out_trainer, weft_tensors **out_feeds,
                            weft_tensors **out_results) {
    weft_executor_options executor = {WEFT_EXECUTOR_OPTIONS_INIT, .nthreads = 1};
    weft_trainer_options o = {WEFT_TRAINER_OPTIONS_INIT, .nprograms = 1, .nranks = 1, .nsteps = 1};
    const weft_program *program = r->program;
    TRY(make_feeds(r, out_feeds));
    TRY(list_fetches(r, &o));
    o.programs = &program;
    o.feeds = (const weft_tensors *const *)out_feeds;
    o.feeds_per_rank = true;
    o.executor = &executor;
    TRY(weft_trainer_create(r->context, &o, out_trainer));
    TRY(weft_trainer_step(*out_trainer, 0));
    return weft_trainer_rank_result(*out_trainer, 0, out_results);
}

static void take_results(fixture_run *r, const weft_tensors *results) {
    for (size_t i = 0; i < r->program->nall_vars; i++) {
        const weft_var *v = program_var(r->program, i);
        const weft_tensor *t = weft_tensors_find(results, v->name->bytes);
        tensor *to = &r->values[v->id];
        if (!t) continue;
        *to = (tensor){.dtype = t->dtype, .ndim = (int)t->ndim, .numel = 1, .height = -1, .data = t->data};
        for (size_t d = 0; d < t->ndim; d++) to->numel *= to->dims[d] = t->dims[d];
    }
}

bool fixture_run_planned(fixture_run *r) {
    weft_tensors *feeds = NULL, *results = NULL;
    weft_trainer *trainer = NULL;
    bool passed = false;
    r->values = ARENA_ARRAY(&r->arena, tensor, r->program->nall_vars + 1);
    if (!r->values) return fixture_fail(r, "out of memory");
    weft_status status = run_step(r, &trainer, &feeds, &results);
    if (status) {
        fixture_fail_status(r, status);
    } else {
        take_results(r, results);
        passed = fixture_compare(r);
    }
    weft_trainer_destroy(trainer);
    weft_tensors_destroy(results);
    weft_tensors_destroy(feeds);
    return passed;
}
