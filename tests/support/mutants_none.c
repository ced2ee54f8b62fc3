/* mutants_none.c: recorded programs as they are and after every subset of the passes: nothing may be found, by bytes,
 * in what was right before; nor in plans that keep other values. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ops/ops.h"
#include "tests/support/fixtures.h"
#include "tests/support/must.h"
#include "tests/support/mutants.h"
#include "tests/support/order.h"
#include "weft/pass.h"
#include "weft/verify.h"

enum { MOST_FETCHES = 8, MOST_COMPARED = 3000 };

/* "" or what is found first. */
static size_t judge_world(const exact_world *w, char *out, size_t room) {
    weft_findings *found;
    weft_verify_options o = {WEFT_VERIFY_OPTIONS_INIT, .reading = WEFT_READING_BY_BYTES, .nranks = w->nranks};
    must(weft_verify((const weft_program *const *)w->programs, (size_t)w->nranks, &o, &found));
    size_t n = weft_findings_count(found);
    snprintf(out, room, "%s", n ? weft_finding_at(found, 0)->message : "");
    weft_findings_destroy(found);
    return n;
}

/* Values that nobody keeps otherwise, here and there in the program. */
static size_t choose_fetches(const weft_program *p, const char **out) {
    size_t n = 0, i = 0;
    FOR_EACH_OP(op, p->blocks[0]) {
        const weft_var *v = op_out(op);
        bool is_plain = v && v->block && !v->persistable && v->kind == WEFT_DENSE_TENSOR && v->has_tensor;
        bool is_known = false;
        for (size_t k = 0; k < n; k++) is_known |= v && strcmp(out[k], v->name->bytes) == 0;
        if (is_plain && !is_known && n < MOST_FETCHES && i++ % 5 == 0) out[n++] = v->name->bytes;
    }
    return n;
}

/* Rank 0's plan with fetches: proof and closure both find it right. */
static void judge_fetches(accepted *a, const exact_world *w, const char *where) {
    const char *fetches[MOST_FETCHES];
    weft_plan_options o = {WEFT_PLAN_OPTIONS_INIT, .fetches = fetches,
                           .nfetches = choose_fetches(w->programs[0], fetches)};
    weft_plan *plan;
    order_verdict v;
    weft_status status = weft_plan_create(w->programs[0], &o, &plan);
    if (status) { /* not all vars can be fetched */
        weft_status_free(status);
        return;
    }
    char message[1200];
    a->nplans++;
    bool accepted_by_proof = plan_is_accepted(plan), is_right = true;
    if (plan->ninstrs < MOST_COMPARED) {
        order_of_plan(plan, &v);
        is_right = v.npairs == 0;
        order_free(&v);
    }
    if (!accepted_by_proof || !is_right) {
        snprintf(message, sizeof message, "%s: a plan with fetches is refused by the %s", where,
                 is_right ? "prover" : "closure");
        a->complain(message);
    }
    weft_plan_destroy(plan);
}

/* The words of a list with these passes of the four. */
static void subset_words(int subset, char *out, size_t room) {
    static const char *const passes[] = {"prune_grad_scale", "overlap_comm", "coalesce_grads: {bucket_mb: 0.02}",
                                         "insert_dependencies"};
    *out = 0;
    for (int i = 0; i < 4; i++) {
        size_t used = strlen(out);
        if (subset >> i & 1) snprintf(out + used, room - used, "%s%s", used ? ", " : "", passes[i]);
    }
}

static const char *const fusions[] = {"fuse_allreduce_buckets: {mode: in_place, bucket_mb: 0.02}, schedule_comm_wait",
                                      "fuse_allreduce_buckets: {mode: concat, bucket_mb: 0.02}, schedule_comm_wait",
                                      "fuse_allreduce_buckets: {mode: coalesced, bucket_mb: 0.02}, schedule_comm_wait",
                                      "fuse_allreduce_buckets: {mode: in_place, bucket_mb: 25}", "schedule_comm_wait"};

static void judge_list(accepted *a, const exact_world *w, const char *folder, const char *list) {
    exact_world after;
    char message[2000], what[700], where[1000];
    snprintf(where, sizeof where, "%s after \"%s\"", folder, list);
    world_clone(w, &after);
    if (!world_try_pass(&after, list)) { /* a pass may refuse a program: it stays as it was */
        world_free(&after);
        return;
    }
    a->nprograms++;
    if (judge_world(&after, what, sizeof what)) {
        a->nrefused++;
        snprintf(message, sizeof message, "%s is refused: %s", where, what);
        a->complain(message);
    }
    judge_fetches(a, &after, where);
    world_free(&after);
}

void accept_folder(accepted *a, weft_context *context, const char *folder) {
    exact_world w;
    char what[700], message[400];
    world_load(&w, context, folder);
    if (!w.nranks) return;
    if (judge_world(&w, what, sizeof what)) {
        a->nwrong++; /* as recorded: nothing is expected of what passes make of it */
        printf("wrong as recorded: %s: %.150s\n", folder, what);
        world_free(&w);
        return;
    }
    bool is_graph = strncmp(folder, "torch", 5) == 0;
    for (int i = 0; i < (is_graph ? 5 : 16); i++) {
        subset_words(i, message, sizeof message);
        if (is_graph || i) judge_list(a, &w, folder, is_graph ? fusions[i] : message);
    }
    judge_fetches(a, &w, folder);
    a->nprograms++;
    world_free(&w);
}

void accept_all(accepted *a, weft_context *context, const char *parent) {
    char path[512], folder[512];
    struct dirent **entries;
    snprintf(path, sizeof path, "%s/%s", fixture_root(), parent);
    int n = scandir(path, &entries, NULL, alphasort);
    for (int i = 0; i < n; i++) {
        snprintf(folder, sizeof folder, "%s/%s", parent, entries[i]->d_name);
        if (entries[i]->d_name[0] != '.') accept_folder(a, context, folder);
        free(entries[i]);
    }
    if (n >= 0) free(entries);
}
