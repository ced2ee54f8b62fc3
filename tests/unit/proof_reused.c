/* proof_reused.c: memory that Paddle's garbage collector hands on while a stream still uses it, and feeds that are
 * filled again; each beside a twin that is right. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/judge.h"

#define HEAD                                                                                                           \
    "weft: 1\nrank: -1\nrings: {0: [0, 1], 1: [0, 1]}\nblocks:\n- vars:\n"                                             \
    "    x: {float32: [4], need_check_feed: true}\n    g: {float32: [4]}\n    sum: {float32: [4]}\n"                   \
    "    peak: {float32: [4]}\n    y: {float32: [4]}\n    z: {float32: [4]}\n    a: {float32: [4]}\n"                  \
    "    b: {float32: [4]}\n    f: {float32: [128]}\n    kept: {float32: [4], persistable: true}\n"                    \
    "    feeds: {kind: feed_minibatch, persistable: true}\n    c: {bool: [1], persistable: true}\n  ops:\n"
#define ON(stream) ", dist: {stream: " stream "}"
#define OP(type, in, out, dist) "  - {" type ": {X: " in "}, out: {Out: " out "}" dist "}\n"
#define MAKE(var, dist) OP("relu", "x", var, dist)
#define COMM(type, in, out, dist)                                                                                      \
    "  - {" type ": {X: " in "}, out: {Out: " out "}, attrs: {ring_id: 0, use_calc_stream: true}" dist "}\n"
#define SUM(of) COMM("c_allreduce_sum", of, "sum", ON("s"))
#define PEAK(of, dist) COMM("c_allreduce_max", of, "peak", dist)
#define COALESCE                                                                                                       \
    "  - {coalesce_tensor: {Input: [a, b]}, out: {Output: [a, b], FusedOutput: f}, attrs: {dtype: 5, align_size: "     \
    "256, use_align: true}}\n"
#define BUCKET COALESCE MAKE("a", "") MAKE("b", "") OP("nop", "[a, b]", "f", ON("s"))

/* A block that runs under a condition comes behind all of block 0. */
#define IF(in, kept)                                                                                                   \
    "  - {conditional_block: {Cond: c, Input: " in "}, out: {Out: kept}, attrs: {sub_block: !block 1, "                \
    "is_scalar_condition: true, skip_eager_deletion_vars: !strings [" kept "]}}\n"
#define BLOCK "- parent: 0\n  vars:\n    h: {float32: [4]}\n    i: {float32: [4]}\n    j: {float32: [4]}\n  ops:\n"
#define SUM_IN(of) COMM("c_allreduce_sum", of, "i", ON("s"))
#define PEAK_IN(of, dist) COMM("c_allreduce_max", of, "j", dist)
#define AT_LAST "  - {c_sync_comm_stream: {X: x}, out: {Out: x}, attrs: {ring_id: 0}" ON("s") "}\n"
#define HOST_WAITS_ON_S(var)                                                                                           \
    "  - {c_sync_comm_stream: {X: " var "}, out: {Out: " var "}, attrs: {ring_id: 0}" ON("s") "}\n"
#define HOST_WAITS(var) "  - {c_sync_calc_stream: {X: " var "}, out: {Out: " var "}}\n"

static const struct {
    const char *what, *ops, *by_name, *in_order;
} cases[] = {
    /* SUM reads g on s; PEAK, which only the order of communication puts behind it, lets go of g on compute. */
    {"let go of elsewhere", MAKE("g", "") SUM("g") PEAK("g", "") MAKE("y", ""), "race", "race"},
    {"let go of by the stream that uses it", MAKE("g", "") PEAK("g", "") SUM("g") MAKE("y", ""), "safe", "race"},
    {"used there once more", MAKE("g", "") SUM("g") PEAK("g", "") OP("nop", "g", "z", ON("s")) MAKE("y", ""), "safe",
     "race"},
    {"who gets it waits for the use", MAKE("g", "") SUM("g") PEAK("g", "") OP("relu", "sum", "y", "") MAKE("z", ""),
     "safe", "race race"},
    {"who gets it has waited", MAKE("g", "") SUM("g") OP("nop", "sum", "sum", "") PEAK("g", "") MAKE("y", ""), "safe",
     "race"},
    {"let go of on a third stream, which does not own it",
     MAKE("z", "") OP("relu", "z", "g", "") SUM("g") PEAK("g", ON("t")) OP("relu", "peak", "z", "") MAKE("y", ""),
     "race", "race race race"},
    {"let go of on a third stream, which waits for the use", MAKE("g", "") SUM("g") PEAK("g", ON("t")) MAKE("y", ""),
     "safe", "race race"},
    {"nobody allocates before the next step", MAKE("y", "") MAKE("g", "") SUM("g") PEAK("g", ""), "race", "race"},
    {"state is not let go of", OP("relu", "x", "kept", "") SUM("kept") PEAK("kept", "") MAKE("y", ""), "safe", "race"},
    {"a depend lets go of nothing",
     MAKE("g", "") SUM("g") PEAK("g", "") "  - {depend: {X: g, Dep: peak}, out: {Out: g}" ON("t") "}\n" MAKE("y", ""),
     "safe", "race"},
    {"a bucket", BUCKET SUM("f") PEAK("f", "") MAKE("y", ""), "race", "race"},
    {"a bucket, let go of by the stream that uses it", BUCKET PEAK("f", "") SUM("f") MAKE("y", ""), "safe", "race"},
    {"a bucket that a member still holds",
     BUCKET SUM("f") PEAK("f", "") OP("relu", "sum", "z", "") OP("nop", "a", "z", "") MAKE("y", ""), "safe",
     "race race"},
    {"the other stream owns it: compute is not noted",
     MAKE("g", ON("s")) PEAK("g", "") SUM("g") OP("relu", "sum", "z", ON("s")), "race", "race"},
    {"the other stream owns it: compute is noted",
     MAKE("g", ON("s")) SUM("g") PEAK("g", "") OP("relu", "sum", "z", ON("s")), "safe", "race"},
    /* What is noted is complete behind all that it waits for, on whatever stream that is. */
    {"what is noted has waited for the use",
     OP("relu", "kept", "g", ON("s")) OP("relu", "g", "g", ON("t")) OP("relu", "g", "y", "")
         OP("relu", "kept", "z", ON("s")),
     "safe", "race race"},
    {"a use behind what is noted has not been waited for",
     OP("relu", "kept", "g", ON("s")) PEAK("g", ON("t")) SUM("g") COMM("c_allreduce_max", "x", "z", "")
         OP("relu", "g", "y", "") OP("relu", "kept", "a", ON("s")),
     "race", "race race"},

    {"a feed that another stream reads last", MAKE("y", "") OP("relu", "x", "z", ON("s")), "race", "safe"},
    {"compute waits for it", OP("relu", "x", "z", ON("s")) OP("relu", "z", "y", ""), "safe", "race"},
    {"the host waits for it",
     OP("relu", "x", "z",
        ON("s")) "  - {c_sync_comm_stream: {X: z}, out: {Out: z}, attrs: {ring_id: 0}" ON("s") "}\n" MAKE("y", ""),
     "safe", "safe"},
    {"an op fills it",
     "  - {feed: {X: feeds}, out: {Out: x}, attrs: {col: 0}}\n" MAKE("y", "") OP("relu", "x", "z", ON("s")), "safe",
     "race"},

    /* The executor of a block lets go of the block's names, as that of the program does of its own. */
    {"let go of elsewhere, in a block", IF("x", "") MAKE("y", "") BLOCK MAKE("h", "") SUM_IN("h") PEAK_IN("h", ""),
     "race", "race"},
    {"let go of in a block by the stream that uses it",
     IF("x", "") MAKE("y", "") BLOCK MAKE("h", "") PEAK_IN("h", "") SUM_IN("h"), "safe", "race"},
    {"the op that runs the block says to keep it",
     IF("x", "h") MAKE("y", "") BLOCK MAKE("h", "") SUM_IN("h") PEAK_IN("h", ""), "safe", "race"},
    {"who gets it in the block waits for the use",
     IF("x", "") MAKE("y", "") BLOCK MAKE("h", "") SUM_IN("h") PEAK_IN("h", "") OP("relu", "i", "kept", ""), "safe",
     "race race"},
    {"of the program, used by a block on a stream that nobody notes",
     MAKE("g", "") HOST_WAITS("g") IF("g", "") MAKE("y", "") AT_LAST BLOCK SUM_IN("g"), "race", "safe"},
    {"used by a block on its own stream",
     MAKE("g", "") HOST_WAITS("g") IF("g", "") MAKE("y", "") BLOCK PEAK_IN("g", ""), "safe", "safe"},
    {"another stream owns it, and the block uses it on its own, which is noted up to there",
     MAKE("g", ON("s")) IF("g", "") OP("relu", "x", "z", ON("s")) AT_LAST BLOCK OP("relu", "g", "j", ""), "safe",
     "race"},
    {"another stream, and the block uses it on a third",
     MAKE("g", ON("s")) HOST_WAITS_ON_S("g") IF("g", "") OP("relu", "x", "z", ON("s"))
         AT_LAST BLOCK OP("relu", "g", "j", ON("t")),
     "race race", "safe"},
    {"nothing is handed on before the block is through",
     MAKE("g", "") HOST_WAITS("g") IF("g", "") MAKE("y", "") BLOCK SUM_IN("g") OP("relu", "x", "j", "")
         OP("relu", "i", "h", ""),
     "safe", "race"},
    {"used by a block that waits for its other stream",
     MAKE("g", "") HOST_WAITS("g") IF("g", "") MAKE("y", "") BLOCK SUM_IN("g") OP("relu", "i", "j", ""), "safe",
     "race"},
    {"a block has no wait for what the program does on another stream",
     MAKE("g", ON("s")) IF("g", "") BLOCK OP("relu", "g", "i", ON("t")), "race race", "race"},

    /* What is saved is read by an op as any other; between steps the host copies with all streams idle. */
    {"saved before the update is complete", OP("relu", "kept", "kept", ON("s")) OP("save", "kept", "y", ""), "safe",
     "race"},
    {"in flight at the end of a step", MAKE("y", "") OP("relu", "kept", "kept", ON("s")), "safe", "safe"},
};

static char *judge_ops(const char *ops, weft_reading reading, bool message) {
    char text[4096] = HEAD;
    strncat(text, ops, sizeof text - strlen(text) - 1);
    weft_verify_options o = {WEFT_VERIFY_OPTIONS_INIT, .reading = reading, .nranks = 2};
    return message ? judge_message(text, NULL, &o) : judge(text, NULL, &o);
}

/* In order the same programs race or not for their missing waits: all streams are idle between steps, memory is the
 * reader's own affair. */
Test(proof_reused, pairs) {
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *by_name = judge_ops(cases[i].ops, WEFT_READING_BY_NAME, false);
        char *in_order = judge_ops(cases[i].ops, WEFT_READING_IN_ORDER, false);
        cr_expect_str_eq(by_name, cases[i].by_name, "%s: expected %s, found %s", cases[i].what, cases[i].by_name,
                         by_name);
        cr_expect_str_eq(in_order, cases[i].in_order, "%s, in order: expected %s, found %s", cases[i].what,
                         cases[i].in_order, in_order);
        free(by_name);
        free(in_order);
    }
}

Test(proof_reused, messages_name_what_is_concerned) {
    static const struct {
        const char *ops, *says;
    } messages[] = {
        {BUCKET SUM("f") PEAK("f", "") MAKE("y", ""),
         "c_allreduce_sum #4 on stream s reads \"f\"; c_allreduce_max #5 on stream compute lets go of the memory of "
         "\"f\" last, and nothing notes stream s behind the use: relu #6 on stream compute may be given"},
        {MAKE("y", "") MAKE("g", "") SUM("g") PEAK("g", ""), "relu #0 on stream compute in the next step may be given"},
        {MAKE("g", "") HOST_WAITS("g") IF("g", "") MAKE("y", "") AT_LAST BLOCK SUM_IN("g"),
         "c_allreduce_sum #2 on stream s reads \"g\"; conditional_block #2 on stream compute lets go of the memory of "
         "\"g\" last, and nothing notes stream s"},
        {OP("relu", "x", "z", ON("s")), "the feed \"x\" is filled again when stream compute is through"},
    };
    for (size_t i = 0; i < sizeof messages / sizeof *messages; i++) {
        char *message = judge_ops(messages[i].ops, WEFT_READING_BY_NAME, true);
        cr_expect(strstr(message, messages[i].says), "expected \"%s\" in \"%s\"", messages[i].says, message);
        free(message);
    }
}
