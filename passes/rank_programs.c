/* rank_programs.c: the programs of all ranks from one serial program: the list is run over a copy for each. */
#include "passes/pass_manager.h"
#include "proof/classes.h"

struct weft_rank_programs {
    weft_context *context;
    weft_program **programs; /* by rank; those that are equal are one */
    size_t count;
};

/* One more than the largest rank of any mesh or ring. */
static size_t count_ranks(const weft_program *p) {
    int64_t last = program_last_rank(p);
    for (size_t i = 0; i < p->nmeshes; i++)
        for (int64_t k = 0; k < mesh_size(p->meshes[i]); k++)
            if (p->meshes[i]->ids[k] > last) last = p->meshes[i]->ids[k];
    return (size_t)last + 1;
}

static weft_status make_one(const weft_pass_list *list, const weft_program *serial, size_t rank, weft_report **report,
                            weft_program **out) {
    weft_program *made = NULL;
    TRY(weft_program_clone(serial, &made));
    weft_status status = pass_list_run_rank(list, made, (int64_t)rank, report);
    if (status)
        weft_program_destroy(made);
    else
        *out = made;
    return status;
}

/* Whether both are equal but for the rank that each is for. */
static bool are_equal(weft_program *a, weft_program *b) {
    int64_t rank_a = a->rank, rank_b = b->rank;
    a->rank = b->rank = -1;
    bool equal = weft_program_equal(a, b);
    a->rank = rank_a;
    b->rank = rank_b;
    return equal;
}

/* The program of `rank`, or an earlier one that is equal and is from then on that of all. */
static void share(weft_rank_programs *all, size_t rank, weft_program *made) {
    weft_program *before = rank ? all->programs[rank - 1] : NULL;
    bool equal = before && are_equal(before, made);
    if (equal) {
        before->rank = -1;
        weft_program_destroy(made);
    }
    all->programs[rank] = equal ? before : made;
}

weft_status weft_pass_list_run_ranks(const weft_pass_list *list, const weft_program *program,
                                     weft_rank_programs **out_programs, weft_report **out_report) {
    weft_status status = NULL;
    const weft_allocator *a = &program->context->allocator;
    weft_program *first = NULL, *made;
    TRY(make_one(list, program, 0, out_report, &first));
    size_t given = count_ranks(program), n = count_ranks(first); /* the list may have told how many there are */
    if (n < given) n = given;
    weft_rank_programs *all = base_alloc(a, sizeof *all);
    if (!all) TRY_DONE(base_out_of_memory());
    *all = (weft_rank_programs){.context = program->context, .count = n};
    all->programs = base_alloc(a, n * sizeof *all->programs);
    if (!all->programs) TRY_DONE(base_out_of_memory());
    memset(all->programs, 0, n * sizeof *all->programs);
    share(all, 0, first);
    first = NULL;
    for (size_t i = 1; i < n; i++) {
        TRY_DONE(make_one(list, program, i, NULL, &made));
        share(all, i, made);
    }
    *out_programs = all;
    all = NULL;
done:
    weft_program_destroy(first);
    weft_rank_programs_destroy(all);
    return status;
}

size_t weft_rank_programs_count(const weft_rank_programs *programs) {
    return programs->count;
}

weft_program *weft_rank_programs_at(const weft_rank_programs *programs, size_t rank) {
    return rank < programs->count ? programs->programs[rank] : NULL;
}

void weft_rank_programs_destroy(weft_rank_programs *all) {
    if (!all) return;
    const weft_allocator *a = &all->context->allocator;
    for (size_t i = 0; all->programs && i < all->count; i++)
        if (i == 0 || all->programs[i] != all->programs[i - 1]) weft_program_destroy(all->programs[i]);
    base_free(a, all->programs, all->count * sizeof(weft_program *));
    base_free(a, all, sizeof *all);
}
