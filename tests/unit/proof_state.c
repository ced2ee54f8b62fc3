/* proof_state.c: state that is read before it is gathered, parts of values that are added up, communicators that belong
 * to another ring, updates that nobody sends; each beside a twin that is right. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/judge.h"

/* One program a rank: ring 2 is each rank alone. */
static const char head[] =
    "weft: 1\nrank: %d\nrings: {0: [0, 1], 1: [1, 0], 2: [%d]}\nmeshes:\n"
    "- {shape: [2, 1], ids: [0, 1], dims: [a, b]}\nblocks:\n- vars:\n"
    "    shard: {float32: [4], persistable: true, dist: {mesh: 0, dims_mapping: [0]}}\n"
    "    narrow: {float16: [4]}\n    w: {float32: [8], persistable: true}\n"
    "    h: {float16: [8], persistable: true}\n    y: {float32: [8]}\n    z: {float16: [8]}\n"
    "    part: {float32: [4], dist: {mesh: 0, dims_mapping: [0]}}\n"
    "    along_b: {float32: [4], dist: {mesh: 0, dims_mapping: [1]}}\n"
    "    rate: {float32: [1], persistable: true}\n    zero: {float32: [8]}\n    other: {float32: [4]}\n"
    "    f: {float32: [8]}\n"
    "    given: {float32: [4], need_check_feed: true, dist: {mesh: 0, dims_mapping: [0]}}\n  ops:\n";
#define READ "  - {scale: {X: w}, out: {Out: y}, attrs: {scale: 2.0}}\n"
#define READ_NARROW "  - {scale: {X: h}, out: {Out: z}, attrs: {scale: 2.0}}\n"
#define UPDATE "  - {increment: {X: shard}, out: {Out: shard}, attrs: {step: 1.0}}\n"
#define GATHER "  - {c_allgather: {X: shard}, out: {Out: w}, attrs: {ring_id: 0, nranks: 2, use_calc_stream: true}}\n"
#define NARROW "  - {cast: {X: shard}, out: {Out: narrow}, attrs: {in_dtype: 5, out_dtype: 4}}\n"
#define GATHER_NARROW "  - {all_gather: {x: narrow}, out: {out: h}, attrs: {ring_id: 0, nranks: 2}}\n"
#define MAKE(var) "  - {scale: {X: given}, out: {Out: " var "}, attrs: {scale: 2.0}}\n"
#define SUM(var)                                                                                                       \
    "  - {c_allreduce_sum: {X: " var "}, out: {Out: " var "}, attrs: {ring_id: 0, use_calc_stream: true}}\n"
#define COALESCE                                                                                                       \
    "  - {coalesce_tensor: {Input: [other, part]}, out: {Output: [other, part], FusedOutput: f}, attrs: {dtype: 5, "   \
    "use_align: false}}\n"
#define ON(type, x, out, ring, stream)                                                                                 \
    "  - {" type ": {" x ": other}, out: {" out ": other}, attrs: {ring_id: " ring "}, dist: {stream: " stream "}}\n"
#define NEW(ring, stream) ON("all_reduce", "x", "out", ring, stream)
#define OLD(ring, stream) ON("c_allreduce_max", "X", "Out", ring, stream)

static const struct {
    const char *what, *ops, *by_name;
} cases[] = {
    {"gathered, read, updated", GATHER READ UPDATE, "safe"},
    {"read, updated, gathered", READ UPDATE GATHER, "safe"},
    {"updated, gathered, read", UPDATE GATHER READ, "safe"},
    {"read, gathered, updated", READ GATHER UPDATE, "stale_read"},
    {"updated, read, gathered", UPDATE READ GATHER, "stale_read"},
    {"gathered, updated, read", GATHER UPDATE READ, "stale_read"},
    {"never updated", READ GATHER, "safe"},
    {"through a cast, in time", NARROW GATHER_NARROW READ_NARROW UPDATE, "safe"},
    {"through a cast, too late", READ_NARROW NARROW GATHER_NARROW UPDATE, "stale_read"},

    {"a sum over the axis that shards", MAKE("part") SUM("part"), "wrong_data"},
    {"a sum over the other axis", MAKE("along_b") SUM("along_b"), "safe"},
    {"a sum of what nothing shards", MAKE("other") SUM("other"), "safe"},
    {"a member of a bucket", COALESCE MAKE("part") MAKE("other") SUM("f"), "wrong_data"},

    {"two rings on a stream", MAKE("other") NEW("0", "s") NEW("2", "s"), "wrong_data"},
    {"a stream each", MAKE("other") NEW("0", "s") NEW("2", "t"), "safe"},
    {"two rings of the same ranks", MAKE("other") NEW("0", "s") NEW("1", "s"), "safe"},
    {"an op that looks its ring up", MAKE("other") NEW("0", "s") OLD("2", "s"), "safe"},
    {"attached by such an op", MAKE("other") OLD("0", "s") NEW("2", "s"), "wrong_data"},
    {"on the compute stream", MAKE("other") NEW("0", "default") NEW("2", "default"), "safe"},
};

static char *judge_ranks(const char *ops0, const char *ops1, weft_reading reading, bool message) {
    char text[2][4096];
    for (int rank = 0; rank < 2; rank++) {
        int n = snprintf(text[rank], sizeof text[rank], head, rank, rank);
        snprintf(text[rank] + n, sizeof text[rank] - (size_t)n, "%s", rank ? ops1 : ops0);
    }
    weft_verify_options o = {WEFT_VERIFY_OPTIONS_INIT, .reading = reading};
    return message ? judge_message(text[0], text[1], &o) : judge(text[0], text[1], &o);
}

static char *judge_ops(const char *ops, weft_reading reading, bool message) {
    return judge_ranks(ops, ops, reading, message);
}

Test(proof_state, pairs) {
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *found = judge_ops(cases[i].ops, WEFT_READING_BY_NAME, false);
        cr_expect_str_eq(found, cases[i].by_name, "%s: expected %s, found %s", cases[i].what, cases[i].by_name, found);
        free(found);
    }
}

#define SGD(param) "  - {sgd: {Param: " param ", LearningRate: rate, Grad: zero}, out: {ParamOut: " param "}}\n"
#define ZERO "  - {fill_constant: {}, out: {Out: zero}, attrs: {dtype: 5, shape: !longs [8], value: 0.0}}\n"
#define SEND "  - {c_broadcast: {X: w}, out: {Out: w}, attrs: {ring_id: 0, root: 0, use_calc_stream: true}}\n"
#define READ_SHARD "  - {scale: {X: shard}, out: {Out: other}, attrs: {scale: 2.0}}\n"

/* What rank 0 updates and rank 1 only reads. */
Test(proof_state, updates_that_are_sent) {
    static const struct {
        const char *what, *ops0, *ops1, *verdict;
    } pairs[] = {
        {"not sent", ZERO SGD("w") READ, READ, "missing_reduce"},
        {"sent", ZERO SGD("w") SEND READ, SEND READ, "safe"},
        {"updated by both", ZERO SGD("w") READ, ZERO READ SGD("w"), "safe"},
        {"not read there", ZERO SGD("w") READ, ZERO, "safe"},
        {"each its part", ZERO SGD("shard") READ_SHARD, READ_SHARD, "safe"},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        char *found = judge_ranks(pairs[i].ops0, pairs[i].ops1, WEFT_READING_IN_ORDER, false);
        cr_expect_str_eq(found, pairs[i].verdict, "%s: expected %s, found %s", pairs[i].what, pairs[i].verdict, found);
        free(found);
    }
}

/* Only Paddle's executor mixes communicators up. */
Test(proof_state, communicators_of_other_readings) {
    char *found = judge_ops(MAKE("other") NEW("0", "s") NEW("2", "s"), WEFT_READING_BY_BYTES, false);
    cr_expect_str_eq(found, "safe", "found %s", found);
    free(found);
}

Test(proof_state, messages_name_what_is_concerned) {
    static const struct {
        const char *ops, *says;
    } messages[] = {
        {READ GATHER UPDATE, "reads \"w\" as it was before increment #2 updated what it is gathered from"},
        {MAKE("part") SUM("part"), "different parts of it: mesh axis a shards it"},
        {MAKE("other") NEW("0", "s") NEW("2", "s"), "its stream s has the communicator of ring 0"},
    };
    for (size_t i = 0; i < sizeof messages / sizeof *messages; i++) {
        char *message = judge_ops(messages[i].ops, WEFT_READING_BY_NAME, true);
        cr_expect(strstr(message, messages[i].says), "expected \"%s\" in \"%s\"", messages[i].says, message);
        free(message);
    }
}
