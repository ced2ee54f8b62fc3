/* The gradient passes on random data-parallel programs: any subset, in the usual order, computes the same on imagined
 * ranks. It is safe by explicit waits once communication overlaps, and changes nothing when it runs again. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/support/grads.h"

enum { MAX_GRADS = 24 };

typedef struct maker {
    grads g;
    unsigned seed;
    char names[MAX_GRADS][24]; /* gradients in the order of their making */
    bool reduced[MAX_GRADS];
    int count, activation;
    int chain;  /* bits: ring 1, ring 3 */
    bool spoil; /* whether oddities may appear that forbid folding */
} maker;

static int roll(maker *m, int n) {
    return (int)((unsigned)rand_r(&m->seed) % (unsigned)n);
}

static void reduce_one(maker *m, const char *n) {
    int rings = roll(m, 6) ? m->chain : 1 + roll(m, 3);
    double factor = m->spoil && roll(m, 12) == 0 ? 0.125 : 1;
    bool both = rings == 3;
    if (rings & 1) grads_sync(&m->g, n, 1, both ? 0.25 : 0.25 * factor);
    if (rings & 2) grads_sync(&m->g, n, 3, both ? 0.5 : 0.25 * factor);
}

/* A backward op with one activation gradient and one or two parameter gradients. */
static void add_layer(maker *m) {
    char line[256], *g = m->names[m->count], *h = m->names[m->count + 1];
    snprintf(g, 24, "w%d@GRAD", m->count);
    snprintf(h, 24, "w%d@GRAD", m->count + 1);
    bool two = roll(m, 3) == 0 && m->count + 1 < MAX_GRADS;
    snprintf(line, sizeof line, "%s Out@GRAD=a%d X=x -> X@GRAD=a%d Y@GRAD=%s%s%s",
             two ? "layer_norm_grad" : "matmul_v2_grad", m->activation, m->activation + 1, g, two ? " Z@GRAD=" : "",
             two ? h : "");
    grads_op(&m->g, line);
    m->activation++;
    m->reduced[m->count] = m->reduced[m->count + 1] = true;
    if (m->spoil && roll(m, 20) == 0)
        m->reduced[m->count] = false;
    else
        reduce_one(m, g);
    if (two) reduce_one(m, h);
    m->count += two ? 2 : 1;
}

/* Something else that touches a gradient: a reader in the middle of the backward pass, an edge, a copy that is fetched.
 */
static void add_oddity(maker *m) {
    char line[256];
    int i = roll(m, m->count), kind = roll(m, 4);
    if (kind == 0)
        snprintf(line, sizeof line, "nop X=%s -> Out=x", m->names[i]);
    else if (kind == 1)
        snprintf(line, sizeof line, "assign X=%s -> Out=fetched%d", m->names[i], m->count);
    else if (kind == 2 && m->spoil)
        snprintf(line, sizeof line, "custom X=a%d -> Out=fetched%d", m->activation, m->count);
    else
        snprintf(line, sizeof line, "relu_grad Out@GRAD=a%d -> X@GRAD=a%d", m->activation, m->activation + 1);
    grads_op(&m->g, line);
    if (kind == 3 || (kind == 2 && !m->spoil)) m->activation++;
}

static void make_program_in(maker *m, unsigned seed, const weft_context_options *options) {
    *m = (maker){.seed = seed};
    grads_create_with(&m->g, options);
    m->chain = 1 + roll(m, 3);
    m->spoil = roll(m, 2);
    grads_var(&m->g, "x");
    grads_seed(&m->g, "a0", 1);
    int layers = 1 + roll(m, 10);
    for (int i = 0; i < layers && m->count + 2 < MAX_GRADS; i++) {
        add_layer(m);
        if (roll(m, 4) == 0) add_oddity(m);
    }
    int start = roll(m, m->count);
    for (int i = 0; i < m->count; i++) {
        char w[24];
        int k = (i + start) % m->count;
        snprintf(w, sizeof w, "w%d", k);
        grads_sgd(&m->g, w, m->names[k]);
    }
}

static void make_program(maker *m, unsigned seed) {
    make_program_in(m, seed, NULL);
}

static void pass_list(maker *m, int subset, char *out, size_t nbytes) {
    static const char *const limits[] = {"0.0001", "0.0003", "0.001", "32"};
    char coalesce[96];
    snprintf(coalesce, sizeof coalesce, "coalesce_grads: {bucket_mb: %s, limit: %s}", limits[roll(m, 4)],
             roll(m, 2) ? "cap" : "flush");
    const char *const passes[] = {"prune_grad_scale", "overlap_comm", coalesce, "insert_dependencies"};
    size_t used = 0;
    for (int i = 0; i < 4; i++)
        if (subset >> i & 1) used += (size_t)snprintf(out + used, nbytes - used, "%s%s", used ? ", " : "", passes[i]);
}

Test(passes_random, every_subset_preserves_what_random_programs_compute, .timeout = 300) {
    size_t nfolded = 0, nbuckets = 0;
    for (unsigned seed = 1; seed <= 600; seed++) {
        maker m;
        make_program(&m, seed);
        char list[256], why[256];
        int subset = 1 + (int)(seed % 15);
        pass_list(&m, subset, list, sizeof list);
        weft_program *before;
        cr_assert_null(weft_program_clone(m.g.p, &before));
        size_t nscales = grads_count(&m.g, "scale");
        grads_run(&m.g, list);
        nfolded += subset == 1 && grads_count(&m.g, "scale") < nscales;
        nbuckets += grads_count(&m.g, "coalesce_tensor");
        cr_assert(grads_same(before, m.g.p, why, sizeof why), "seed %u %s: %s", seed, list, why);
        if (subset & 2) cr_assert(grads_in_order_safe(m.g.p, why, sizeof why), "seed %u %s: race %s", seed, list, why);
        if (subset & 8 || !(subset & 4))
            cr_assert(grads_by_name_safe(m.g.p, why, sizeof why), "seed %u %s: by name %s", seed, list, why);
        weft_program *once;
        cr_assert_null(weft_program_clone(m.g.p, &once));
        grads_run(&m.g, list);
        cr_assert(weft_program_equal(once, m.g.p), "seed %u %s: running it again changes the program", seed, list);
        weft_program_destroy(once);
        weft_program_destroy(before);
        grads_destroy(&m.g);
    }
    cr_assert_gt(nfolded, 5);
    cr_assert_gt(nbuckets, 100);
}

static void make_grads(grads *out, const weft_context_options *options, unsigned seed) {
    maker m;
    make_program_in(&m, seed, options);
    *out = m.g;
}

Test(passes_random, every_allocation_of_the_passes_may_fail, .timeout = 300) {
    for (unsigned seed = 1; seed <= 3; seed++)
        grads_run_without_memory(make_grads, seed,
                                 "prune_grad_scale, overlap_comm, coalesce_grads, insert_dependencies");
}
