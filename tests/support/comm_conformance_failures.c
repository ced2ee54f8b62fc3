/* comm_conformance_failures.c: members that disagree, requests that are refused, worlds and rings that are aborted. */
#include <unistd.h>

#include "tests/support/comm_member.h"

/* --- failures ----------------------------------------------------------------------------------------------------- */

static bool says(weft_status status, const char *part) {
    return strstr(weft_status_message(status), part) != NULL;
}

enum { VARIANTS = 6 };
static int first_variant, end_variant; /* set before the threads start */

/* A ring whose collectives are on streams is good for nothing behind one that failed. */
static void *disagree(void *arg) {
    comm_member *m = arg;
    float x[64] = {0};
    int odd = m->rank == 2;
    comm_request variants[VARIANTS][2] = {
        {COMM_REQUEST(COMM_ALL_REDUCE, WEFT_FP32, WEFT_REDUCE_SUM, 0, 12, x, x, "a"),
         COMM_REQUEST(COMM_BARRIER, 0, 0, 0, 0, x, x, "b")},
        {COMM_REQUEST(COMM_ALL_REDUCE, WEFT_FP32, WEFT_REDUCE_SUM, 0, 12, x, x, "a"),
         COMM_REQUEST(COMM_ALL_REDUCE, WEFT_INT32, WEFT_REDUCE_SUM, 0, 12, x, x, "b")},
        {COMM_REQUEST(COMM_ALL_REDUCE, WEFT_FP32, WEFT_REDUCE_SUM, 0, 12, x, x, "a"),
         COMM_REQUEST(COMM_ALL_REDUCE, WEFT_FP32, WEFT_REDUCE_MAX, 0, 12, x, x, "b")},
        {COMM_REQUEST(COMM_ALL_REDUCE, WEFT_FP32, WEFT_REDUCE_SUM, 0, 12, x, x, "a"),
         COMM_REQUEST(COMM_ALL_REDUCE, WEFT_FP32, WEFT_REDUCE_SUM, 0, 13, x, x, "b")},
        {COMM_REQUEST(COMM_BROADCAST, WEFT_FP32, WEFT_REDUCE_SUM, 0, 12, x, x, "a"),
         COMM_REQUEST(COMM_BROADCAST, WEFT_FP32, WEFT_REDUCE_SUM, 1, 12, x, x, "b")},
        {COMM_REQUEST(COMM_ALL_TO_ALL, WEFT_FP32, WEFT_REDUCE_SUM, 0, 12, x, x, "a"),
         COMM_REQUEST(COMM_ALL_TO_ALL, WEFT_FP32, WEFT_REDUCE_SUM, 0, 13, x, x, "b")},
    };
    for (int v = first_variant; v < end_variant; v++) {
        weft_status status = comm_perform(m, &variants[v][odd]);
        comm_check(weft_status_code(status) == WEFT_RUNTIME && says(status, "ring 7") && says(status, "rank 0 asks a: ") &&
                  says(status, "rank 2 asks b: "),
              "variant %d, rank %d: \"%s\"", v, m->rank, weft_status_message(status));
        weft_status_free(status);
    }
    if (comm_factory_at_hand->perform) return NULL;
    /* The ring is still good. */
    comm_request barrier = {.kind = COMM_BARRIER, .op = "barrier"};
    weft_status status = comm_perform(m, &barrier);
    comm_check(!status, "after disagreements: %s", weft_status_message(status));
    weft_status_free(status);
    return NULL;
}

static void *refuse(void *arg) {
    comm_member *m = arg;
    float x[64] = {0};
    comm_request bad[] = {
        COMM_REQUEST(COMM_ALL_REDUCE, WEFT_FP32, WEFT_REDUCE_SUM, 0, 8, x, x + 4, "overlap"),
        COMM_REQUEST(COMM_ALL_REDUCE, WEFT_FP32, WEFT_REDUCE_SUM, 0, -1, x, x, "count"),
        COMM_REQUEST(COMM_BROADCAST, WEFT_FP32, WEFT_REDUCE_SUM, 3, 8, x, x, "root"),
        COMM_REQUEST(COMM_ALL_REDUCE, WEFT_COMPLEX64, WEFT_REDUCE_MAX, 0, 8, x, x, "complex"),
        COMM_REQUEST(COMM_ALL_REDUCE, (weft_dtype)55, WEFT_REDUCE_SUM, 0, 8, x, x, "dtype"),
        COMM_REQUEST(COMM_ALL_REDUCE, WEFT_FP32, WEFT_REDUCE_SUM, 0, 8, NULL, x, "missing"),
        COMM_REQUEST(COMM_ALL_GATHER, WEFT_FP32, WEFT_REDUCE_SUM, 0, 8, x + 1, x, "shifted"),
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        weft_status status = comm_perform(m, &bad[i]);
        comm_check(weft_status_code(status) == WEFT_UNSUPPORTED && says(status, bad[i].op), "%s: \"%s\"", bad[i].op,
              weft_status_message(status));
        weft_status_free(status);
    }
    return NULL;
}

static int abort_at; /* set before the threads start */

static void *abort_at_nth(void *arg) {
    comm_member *m = arg;
    float x[4] = {1, 2, 3, 4};
    for (int i = 1; i <= 6; i++) {
        if (m->rank == m->nranks - 1 && i == abort_at) {
            if (i % 2) usleep(20000); /* the others sleep already, or still spin */
            comm_world_abort(m->world, NULL);
        }
        comm_request q = COMM_REQUEST(COMM_ALL_REDUCE, WEFT_FP32, WEFT_REDUCE_AVG, 0, 4, x, x, "all_reduce");
        weft_status status = comm_perform(m, &q);
        comm_check(status ? weft_status_code(status) == WEFT_CANCELLED && i >= abort_at - 1 : i <= abort_at,
              "abort at %d, collective %d: \"%s\"", abort_at, i, weft_status_message(status));
        if (status) {
            weft_status_free(status);
            return NULL;
        }
    }
    comm_check(false, "abort at %d was not seen", abort_at);
    return NULL;
}

static void *disagree_on_pairs(void *arg) {
    comm_member *m = arg;
    float x[16] = {0};
    comm_request requests[2] = {
        {.kind = COMM_SEND, .dtype = WEFT_FP32, .count = 12, .src = x, .peer = 1, .op = "a"},
        {.kind = COMM_RECV, .dtype = WEFT_FP32, .count = 13, .dst = x, .peer = 0, .op = "b"},
    };
    weft_status status = comm_perform(m, &requests[m->rank]);
    comm_check(weft_status_code(status) == WEFT_RUNTIME &&
              strstr(weft_status_message(status), "rank 0 asks a: send of 12 float32 to member 1") &&
              strstr(weft_status_message(status), "rank 1 asks b: recv of 13 float32 from member 0"),
          "a send of 12 and a receive of 13: \"%s\"", weft_status_message(status));
    weft_status_free(status);
    comm_request itself = {.kind = COMM_SEND, .dtype = WEFT_FP32, .count = 1, .src = x, .peer = m->rank, .op = "c"};
    status = comm_perform(m, &itself);
    comm_check(weft_status_code(status) == WEFT_UNSUPPORTED, "to itself: \"%s\"", weft_status_message(status));
    weft_status_free(status);
    return NULL;
}

/* --- the end of a ring -------------------------------------------------------------------------------------------- */

/* Member 0 ends the ring while the others wait for it. */
static void *abort_ring(void *arg) {
    comm_member *m = arg;
    comm_request barrier = {.kind = COMM_BARRIER, .op = "barrier"};
    if (m->rank == 0) {
        usleep(10000);
        weft_status none = comm_error(m->ring), status = comm_abort(m->ring, 5);
        comm_check(!none && !status, "abort of a ring: %s", weft_status_message(status));
        weft_status_free(status);
    }
    weft_status status = comm_perform(m, &barrier);
    comm_check(weft_status_code(status) == WEFT_CANCELLED, "in an aborted ring: \"%s\"", weft_status_message(status));
    weft_status_free(status);
    status = comm_error(m->ring);
    comm_check(status != NULL, "an aborted ring has no error");
    weft_status_free(status);
    return NULL;
}

static void test_disagreements(void) {
    int each = comm_factory_at_hand->perform ? 1 : VARIANTS;
    for (first_variant = 0; first_variant < VARIANTS; first_variant = end_variant) {
        end_variant = first_variant + each;
        comm_run_ranks(3, disagree);
    }
}

void comm_test_failures(void) {
    test_disagreements();
    comm_run_ranks(2, disagree_on_pairs);
    comm_run_ranks(2, refuse);
    for (abort_at = 1; abort_at <= 6; abort_at++) comm_run_ranks(4, abort_at_nth);
    comm_run_ranks(3, abort_ring);
}
