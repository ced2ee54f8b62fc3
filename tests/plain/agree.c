/* agree.c: ranks whose programs communicate differently are reported so before the first step: ring, position, both
 * ranks and ops; the same words for every participant, whether one speaks for all or each for itself; a rank that never
 * comes is named. A plain main, because participants are threads. */
#include "executor/agree.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "executor/comm/local.h"
#include "tests/support/plain.h"
#include "weft/program.h"

enum { MOST_RANKS = 4, LENGTH = 40, MOST_WORDS = 600 };

/* --- programs ----------------------------------------------------------------------------------------------------- */

#define REDUCE(type, v, ring)                                                                                          \
    "  - {" type ": {X: [" v "]}, out: {Out: [" v "]}, attrs: {ring_id: " ring ", use_calc_stream: true}}\n"
#define BROADCAST(root)                                                                                                \
    "  - {c_broadcast: {X: [x]}, out: {Out: [x]}, attrs: {ring_id: 0, root: " root ", use_calc_stream: true}}\n"

typedef struct source {
    char text[8000];
    size_t n;
} source;

static void add(source *s, const char *message) {
    s->n += (size_t)snprintf(s->text + s->n, sizeof s->text - s->n, "%s", message);
}

/* LENGTH collectives on rings 0 and 3 in turns, of which op number `odd` is `other`. */
static void write_program(source *s, const char *rings, int odd, const char *other) {
    s->n = 0;
    add(s, "weft: 1\n");
    add(s, rings);
    add(s, "blocks:\n- vars:\n    x: {float32: [8], persistable: true}\n    w: {float32: [9], persistable: true}\n"
           "    go: {bool: [1], persistable: true}\n  ops:\n");
    for (int i = 0; i < LENGTH; i++)
        add(s, i == odd ? other : i % 2 ? REDUCE("c_allreduce_sum", "x", "3") : BROADCAST("1"));
    if (strstr(other, "conditional_block")) add(s, "- idx: 1\n  parent: 0\n  vars: {}\n  ops:\n" BROADCAST("1"));
}

static weft_plan *plan_of(weft_context *context, const char *message) {
    weft_program *program;
    weft_plan *plan;
    must(weft_program_parse(context, WEFT_FORM_YAML, message, strlen(message), NULL, 0, "p.yaml", &program));
    must(weft_plan_create(program, NULL, &plan));
    weft_program_destroy(program);
    return plan;
}

/* --- one participant for all ranks: what creating an executor does ------------------------------------------------ */

/* Of the ranks' programs; rank `odd_rank` has `odd`, the others `usual`. */
static weft_status create(int nranks, int odd_rank, const char *usual, const char *odd) {
    weft_context *context;
    weft_plan *plans[MOST_RANKS];
    weft_executor *x = NULL;
    must(weft_context_create(NULL, &context));
    for (int r = 0; r < nranks; r++) plans[r] = plan_of(context, r == odd_rank ? odd : usual);
    weft_status status =
        weft_executor_create(context, (const weft_plan *const *)plans, (size_t)nranks, nranks, NULL, &x);
    weft_executor_destroy(x);
    for (int r = 0; r < nranks; r++) weft_plan_destroy(plans[r]);
    weft_context_destroy(context);
    return status;
}

static void expect(weft_status status, const char *what, const char *expected) {
    check(weft_status_code(status) == WEFT_INVALID_PROGRAM && strstr(weft_status_message(status), expected),
          "%s: expected \"%s\", found \"%s\"", what, expected, weft_status_message(status));
    weft_status_free(status);
}

/* Rank 2 of 4 differs in op `at`. */
static void test_one_op(const char *what, int at, const char *op, const char *expected) {
    static source usual, odd;
    write_program(&usual, "", -1, "");
    write_program(&odd, "", at, op);
    expect(create(4, 2, usual.text, odd.text), what, expected);
}

#define CONDITIONAL                                                                                                    \
    "  - {conditional_block: {Cond: [go], Input: [x]}, out: {Out: [x]}, attrs: {is_scalar_condition: true, "           \
    "sub_block: "                                                                                                      \
    "!block 1}}\n"
#define BUCKET(print)                                                                                                  \
    "  - {c_allreduce_sum: {X: [x]}, out: {Out: [x]}, attrs: {ring_id: 3, use_calc_stream: true, bucket_fingerprint: " \
    "!long " print "}}\n"

static void test_one_op_differs(void) {
    test_one_op("root", 0, BROADCAST("0"),
                "ring 0: ranks disagree on collective 0: rank 0 runs c_broadcast #0 of 8 float32, root 1, rank 2 runs "
                "c_broadcast #0 of 8 float32, root 0");
    test_one_op(
        "count", 24, REDUCE("c_broadcast", "w", "0"),
        "ring 0: ranks disagree on collective 12: rank 0 runs c_broadcast #24 of 8 float32, root 1, rank 2 runs "
        "c_broadcast #24 of 9 float32");
    test_one_op("type", LENGTH - 1, REDUCE("c_allreduce_max", "x", "3"),
                "ring 3: ranks disagree on collective 19: rank 0 runs c_allreduce_sum #39 of 8 float32, rank 2 runs "
                "c_allreduce_max #39 of 8 float32");
    test_one_op("one less", LENGTH - 1, "",
                "on collective 19: rank 0 runs c_allreduce_sum #39 of 8 float32, rank 2 runs none");
    test_one_op("condition", 10, CONDITIONAL,
                "on collective 5: rank 0 runs c_broadcast #10 of 8 float32, root 1, rank 2 runs c_broadcast #10 of 8 "
                "float32, root 1, under a condition");
    test_one_op(
        "fingerprint", 7, BUCKET("17"),
        "ring 3: ranks put different gradients into a bucket, collective 3: rank 0 runs c_allreduce_sum #7 of 8 "
        "float32, rank 2 runs c_allreduce_sum #7 of 8 float32, fingerprint 0000000000000011");
}

static void test_first_rank_differs(void) {
    static source usual, odd;
    write_program(&usual, "", -1, "");
    write_program(&odd, "", 6, BROADCAST("0"));
    expect(create(3, 0, usual.text, odd.text), "rank 0",
           "on collective 3: rank 0 runs c_broadcast #6 of 8 float32, root 0, "
           "rank 1 runs c_broadcast #6 of 8 float32, root 1");
    write_program(&odd, "", LENGTH, "");
    weft_status status = create(4, 3, usual.text, odd.text);
    check(!status, "equal programs: %s", weft_status_message(status));
    weft_status_free(status);
}

static void test_lists_of_ranks(void) {
    static source usual, odd;
    write_program(&usual, "rings:\n  3: [0, 1, 2]\n", -1, "");
    write_program(&odd, "rings:\n  3: [0, 2, 1]\n", -1, "");
    expect(
        create(3, 1, usual.text, odd.text), "order of ranks",
        "ring 3: ranks disagree on its ranks: rank 0 runs c_allreduce_sum #1 of 8 float32 among [0, 1, 2], rank 1 runs "
        "c_allreduce_sum #1 of 8 float32 among [0, 2, 1]");
    /* Equal ids with other ranks are other rings. */
    write_program(&usual, "rings:\n  3: [0, 1]\n  0: [0, 1]\n", -1, "");
    write_program(&odd, "rings:\n  3: [2]\n  0: [1, 2]\n", -1, "");
    expect(create(3, 2, usual.text, odd.text), "a ring of one that has it otherwise",
           "ring 0: ranks disagree on its ranks: rank 1 runs");
}

/* --- exchanges ---------------------------------------------------------------------------------------------------- */

#define EXCHANGE(attrs)                                                                                                \
    "weft: 1\nblocks:\n- vars:\n    x: {float32: [4, 2]}\n    z: {float32: [-1, 2]}\n  ops:\n"                         \
    "  - {all_to_all: {x: [x]}, out: {out: [z]}, attrs: {" attrs "}}\n"

static void test_exchanges(void) {
    static const char given[] = EXCHANGE("in_splits: !longs [2, 2], out_splits: !longs [2, 2]");
    weft_status status = create(2, 1, given, EXCHANGE(""));
    check(!status, "parts that are equal, given and not: %s", weft_status_message(status));
    weft_status_free(status);
    static const char first[] = EXCHANGE("in_splits: !longs [1, 3], out_splits: !longs [1, 2]");
    status = create(2, 1, first, EXCHANGE("in_splits: !longs [2, 2], out_splits: !longs [3, 2]"));
    check(!status, "parts that fit: %s", weft_status_message(status));
    weft_status_free(status);
    expect(
        create(2, 1, first, given), "parts that do not fit",
        "ring 0: ranks disagree on collective 0: rank 0 runs all_to_all #0 of float32 and sends 6 elements to rank 1, "
        "which runs all_to_all #0 of float32 and takes 4");
}

/* --- a participant for each rank ---------------------------------------------------------------------------------- */

typedef struct participant {
    const weft_executor *x;
    comm_world *world;
    char message[MOST_WORDS];
} participant;

static void *take_part(void *arg) {
    participant *p = arg;
    weft_status status = agree_on_collectives(p->x, p->world);
    snprintf(p->message, sizeof p->message, "%s", status ? weft_status_message(status) : "");
    weft_status_free(status);
    return NULL;
}

/* Participants of 1 or 2 ranks, the last `nabsent` of which never come. */
static void run_participants(weft_executor *x, int each, int nabsent, double timeout, char (*out)[MOST_WORDS]) {
    const weft_allocator libc = base_libc_allocator();
    local_hub *hub;
    pthread_t threads[MOST_RANKS];
    static participant all[MOST_RANKS];
    int n = x->nranks / each - nabsent;
    must(local_hub_create(&libc, x->nranks, &hub));
    double usual = x->options.first_step_seconds;
    x->options.first_step_seconds = timeout;
    for (int i = 0; i < n; i++) {
        comm_host host = local_hub_host(hub, i * each, each);
        all[i] = (participant){.x = x};
        must(comm_world_create(&libc, &host, &all[i].world));
        pthread_create(&threads[i], NULL, take_part, &all[i]);
    }
    for (int i = 0; i < n; i++) {
        pthread_join(threads[i], NULL);
        memcpy(out[i], all[i].message, sizeof all[i].message);
    }
    for (int i = 0; i < n; i++) comm_world_destroy(all[i].world);
    local_hub_destroy(hub);
    x->options.first_step_seconds = usual;
}

/* Changes one op of one rank of an executor that was made from equal programs. */
static void test_participants(void) {
    static source usual, odd;
    static char message[MOST_RANKS][MOST_WORDS];
    weft_context *context;
    weft_executor *x;
    must(weft_context_create(NULL, &context));
    write_program(&usual, "", -1, "");
    write_program(&odd, "", 20, BROADCAST("2"));
    weft_plan *plan = plan_of(context, usual.text), *other = plan_of(context, odd.text);
    const weft_plan *plans[] = {plan};
    must(weft_executor_create(context, plans, 1, 4, NULL, &x));
    for (int each = 1; each <= 2; each++) {
        run_participants(x, each, 0, 60, message);
        for (int i = 0; i < 4 / each; i++) check(!*message[i], "participant %d of equal ranks: %s", i, message[i]);
    }
    x->ranks[3].rings[0].instrs[10] = &other->instrs[20];
    for (int each = 1; each <= 2; each++) {
        run_participants(x, each, 0, 60, message);
        for (int i = 0; i < 4 / each; i++)
            check(strstr(message[i],
                         "ring 0: ranks disagree on collective 10: rank 0 runs c_broadcast #20 of 8 float32, root "
                         "1, rank 3 runs c_broadcast #20 of 8 float32, root 2") != NULL,
                  "participant %d: \"%s\"", i, message[i]);
    }
    run_participants(x, 1, 1, 0.1, message);
    int nnamed = 0, ngiven_up = 0;
    for (int i = 0; i < 3; i++) {
        nnamed += strstr(message[i], " waited 0.1 s before the first step for rank 3") != NULL;
        ngiven_up += strstr(message[i], "was given up") != NULL;
    }
    check(nnamed >= 1 && nnamed + ngiven_up == 3, "absent: \"%s\", \"%s\", \"%s\"", message[0], message[1], message[2]);
    weft_executor_destroy(x);
    weft_plan_destroy(plan);
    weft_plan_destroy(other);
    weft_context_destroy(context);
}

int main(void) {
    test_one_op_differs();
    test_first_rank_differs();
    test_lists_of_ranks();
    test_exchanges();
    test_participants();
    return report_checks();
}
