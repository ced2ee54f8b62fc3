/* What the gradient passes find out and hand on: sets of bits, the accesses of a class, syncs after edits. */
#include <criterion/criterion.h>

#include "passes/grad_sync.h"
#include "tests/support/grads_case.h"

TestSuite(passes_syncs, .init = set_up, .fini = tear_down);

Test(passes_syncs, members_of_a_set_are_numbered_in_order) {
    enum { LIMIT = 1000 };
    arena a;
    arena_init(&a, &g.context->allocator);
    bit_set set;
    uint32_t count, below = 0;
    cr_assert(bit_set_init(&set, &a, LIMIT));
    for (size_t i = 0; i < LIMIT; i++)
        if (i % 64 == 0 || i % 64 == 63 || i % 7 == 3) bit_set_add(&set, i);
    cr_assert(bit_set_number(&set, &a, &count));
    for (size_t i = 0; i < LIMIT; i++) {
        bool is_member = i % 64 == 0 || i % 64 == 63 || i % 7 == 3;
        cr_assert_eq(bit_set_has(&set, i), is_member, "%zu", i);
        cr_assert_eq(bit_set_index(&set, i), below, "%zu", i);
        below += is_member;
    }
    cr_assert_eq(count, below);
    arena_fini(&a);
}

/* An op with more arguments than are looked at while its accesses are noted, the same two by turns with others. */
Test(passes_syncs, an_op_has_one_access_of_a_class) {
    char line[512] = "sum ";
    size_t at = strlen(line);
    for (int i = 0; i < 12; i++) at += (size_t)snprintf(line + at, sizeof line - at, "%sa,v%d", i ? "," : "X=", i);
    snprintf(line + at, sizeof line - at, " -> Out=a");
    grads_op(&g, "relu_grad Out=b -> X@GRAD=a");
    grads_op(&g, line);
    arena memory;
    arena_init(&memory, &g.context->allocator);
    access_index x;
    bit_set wanted;
    const weft_var *a = grads_var(&g, "a"), *b = grads_var(&g, "b");
    cr_assert_null(access_index_begin(g.p, &memory, &x));
    cr_assert(bit_set_init(&wanted, &memory, g.p->nall_vars));
    bit_set_add(&wanted, access_class(&x, a));
    cr_assert_null(access_index_gather(&x, &memory, &wanted));
    size_t count;
    const access *accesses = accesses_of(&x, a, &count);
    cr_assert_eq(count, 2);
    cr_expect_eq(accesses[0].flags, ACCESS_WRITE);
    cr_expect_eq(accesses[1].flags, ACCESS_READ | ACCESS_WRITE);
    cr_expect_str_eq(access_op(&x, accesses[1].position)->type->bytes, "sum");
    (void)accesses_of(&x, b, &count);
    cr_expect_eq(count, 0, "it was not asked for");
    arena_fini(&memory);
}

/* Two syncs of one gradient, the first over two rings: what prune_grad_scale leaves of them is what a later pass would
 * find. */
Test(passes_syncs, passes_of_one_run_do_what_they_do_one_by_one) {
    weft_program *together;
    grads_seed(&g, "a0", 1);
    grads_op(&g, "matmul_v2_grad Out@GRAD=a0 X=x -> X@GRAD=a1 Y@GRAD=w1@GRAD");
    grads_sync(&g, "w1@GRAD", 1, 0.25);
    grads_sync(&g, "w1@GRAD", 3, 0.5);
    grads_op(&g, "scale X=w1@GRAD -> Out=other");
    grads_sync(&g, "w1@GRAD", 1, 0.25);
    grads_op(&g, "matmul_v2_grad Out@GRAD=a1 X=x -> X@GRAD=a2 Y@GRAD=w2@GRAD");
    grads_sync(&g, "w2@GRAD", 1, 0.125);
    grads_sgd(&g, "w1", "w1@GRAD");
    grads_sgd(&g, "w2", "w2@GRAD");
    cr_assert_null(weft_program_clone(g.p, &before));
    grads_run(&g, "prune_grad_scale, overlap_comm, coalesce_grads, insert_dependencies");
    cr_expect_eq(grads_count(&g, "scale"), 2, "of the second sync, and the one that is none");
    together = g.p;
    g.p = before;
    g.b = g.p->blocks[0];
    before = NULL;
    grads_run(&g, "prune_grad_scale");
    grads_run(&g, "overlap_comm");
    grads_run(&g, "coalesce_grads");
    grads_run(&g, "insert_dependencies");
    cr_expect(weft_program_equal(together, g.p));
    cr_expect(grads_in_order_safe(g.p, why, sizeof why), "%s", why);
    weft_program_destroy(together);
}
