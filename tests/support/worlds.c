/* worlds.c: see worlds.h. A first kind of rank is drawn, the others are changed copies of it; all are parsed from text.
 */
#include "tests/support/worlds.h"

#include <stdio.h>
#include <string.h>

#include "tests/support/draw.h"
#include "tests/support/must.h"

static int draw(world *w, int below) {
    return (int)draw_below(&w->state, (uint64_t)below);
}

/* --- drawing ------------------------------------------------------------------------------------------------------ */

static void add(kind_of_rank *k, toy o) {
    if (k->nops < MOST_OPS) k->ops[k->nops++] = o;
}

static void add_bucket(world *w, kind_of_rank *k, int bucket, bool updates) {
    toy o = {.bucket = bucket, .stream = NONE, .record = NONE, .wait = NONE, .ring = bucket % 2};
    int stream = draw(w, 2);
    o.kind = COALESCE, add(k, o);
    o.kind = MAKE, o.record = 2 * bucket, add(k, o);
    bool by_stream = draw(w, 2); /* the reduce's own stream makes the other member: other bytes of the same buffer */
    o.member = 1, o.stream = by_stream ? stream : NONE, o.record = by_stream ? NONE : 2 * bucket, add(k, o);
    o.stream = NONE;
    bool by_next = draw(w, 2); /* the next launch on its stream says that it is done */
    toy reduce = {REDUCE, bucket, 0, stream, by_next ? NONE : 2 * bucket + 1, 2 * bucket, bucket % 2, false, 0};
    toy next = {PRIVATE, bucket, 0, stream, 2 * bucket + 1, NONE, 0, false, 0};
    add(k, reduce);
    if (by_next) add(k, next);
    o.kind = USE, o.record = NONE, o.wait = 2 * bucket + 1, add(k, o);
    o.member = 0, o.wait = NONE, add(k, o);
    o.kind = UPDATE;
    if (updates) add(k, o);
    o.kind = LOOK;
    if (updates) add(k, o);
}

static void insert(kind_of_rank *k, int at, toy o) {
    if (k->nops == MOST_OPS) return;
    memmove(k->ops + at + 1, k->ops + at, (size_t)(k->nops - at) * sizeof *k->ops);
    k->ops[at] = o;
    k->nops++;
}

static void leave_out(kind_of_rank *k, int at) {
    k->nops--;
    memmove(k->ops + at, k->ops + at + 1, (size_t)(k->nops - at) * sizeof *k->ops);
}

/* One of the ops of a kind; any, if there is none. */
static int draw_op(world *w, const kind_of_rank *k, op_kind kind) {
    int at = draw(w, k->nops);
    for (int i = 0; i < k->nops; i++)
        if (k->ops[(at + i) % k->nops].kind == kind) return (at + i) % k->nops;
    return at;
}

/* The members of a bucket take each other's names. */
static void rename_members(kind_of_rank *k, int bucket) {
    for (int i = 0; i < k->nops; i++) {
        if (k->ops[i].bucket != bucket) continue;
        k->ops[i].member = 1 - k->ops[i].member;
        if (k->ops[i].kind == COALESCE) k->ops[i].of_local = !k->ops[i].of_local;
    }
}

static void change(world *w, kind_of_rank *k) {
    static const op_kind kinds[] = {REDUCE, REDUCE, REDUCE, REDUCE, UPDATE, UPDATE, COALESCE, COALESCE};
    int which = draw(w, 48), at = which < 8 ? draw_op(w, k, kinds[which]) : draw(w, k->nops);
    int other = which < 8 ? draw_op(w, k, kinds[which]) : draw(w, k->nops);
    if (which == 21 || which == 22) at = draw_op(w, k, PRIVATE), other = (at + k->nops - 1) % k->nops;
    toy kept = k->ops[at], extra = {PRIVATE, draw(w, w->nbuckets), 0, draw(w, 3) - 1, NONE, NONE, 0, false, 0};
    switch (which < 32 ? which : which - 16) {
    case 0:
    case 8:
    case 21:
    case 22:
        k->ops[at] = k->ops[other];
        k->ops[other] = kept;
        return;
    case 1:
    case 5:
    case 9: leave_out(k, at); return;
    case 2: k->ops[at].ring = 1 - kept.ring; return;
    case 3:
    case 10: k->ops[at].wait = NONE; return;
    case 4:
    case 6: k->ops[at].of_local = true; return;
    case 7: k->place = 6; return;
    case 11: k->ops[at].stream = draw(w, 3) - 1; return;
    case 12: k->ops[at].record = draw(w, 2 * w->nbuckets); return;
    case 13: k->extent++; return;
    case 14: extra.kind = SYNC; break;
    case 18: k->ops[at].member = 1 - kept.member; return;
    case 19: extra.record = draw(w, 2 * w->nbuckets), extra.kind = PEEK; break;
    case 20:
        if (kept.wait != NONE) k->ops[at].wait = draw(w, 2 * w->nbuckets);
        return;
    case 15: extra.kind = WAIT_COMM; break;
    case 16: extra.kind = PEEK; break;
    case 17: rename_members(k, extra.bucket); return;
    case 24: k->ops[draw_op(w, k, COALESCE)].fills = 1 + draw(w, 2); return;
    case 25: extra.kind = SHOW, extra.member = draw(w, 2); break;
    case 26:
        extra.kind = SHOW, insert(k, at, extra);
        extra.kind = USE_SHOWN, extra.member = draw(w, 2), at += 1 + draw(w, k->nops - at);
        break;
    case 27: extra.kind = WORK_WHOLE, extra.member = draw(w, 2); break;
    case 28: extra.kind = PEEK_WHOLE; break;
    case 29: extra.kind = REGROUP; break;
    case 23: extra.kind = draw(w, 2) ? REDUCE : COALESCE; break;
    case 30:
        extra.kind = REDUCE, extra.of_local = true;
        at = draw_op(w, k, UPDATE), extra.bucket = k->ops[at].bucket;
        break;
    case 31: extra.kind = w->inner ? GUARDED : PRIVATE, extra.member = draw(w, 2); break;
    default: break;
    }
    insert(k, at, extra);
}

/* --- as text ------------------------------------------------------------------------------------------------------ */

static bool is_recorded(const kind_of_rank *k, int event) {
    for (int i = 0; i < k->nops; i++)
        if (k->ops[i].record == event && k->ops[i].kind != WAIT_COMM) return true;
    return false;
}

static void append(char *out, const char *format, ...) WEFT_PRINTF(2, 3);
static void append(char *out, const char *format, ...) {
    size_t n = strlen(out);
    va_list args;
    va_start(args, format);
    vsnprintf(out + n, MOST_TEXT - n, format, args);
    va_end(args);
}

static void print_op(char *out, const kind_of_rank *k, const toy *o) {
    static const char *const fills[] = {"", ", copy_data: true", ", set_constant: true"};
    int b = o->bucket, first = o->of_local, second = !o->of_local;
    switch (o->kind) {
    case COALESCE:
        append(out,
               "  - {coalesce_tensor: {Input: [g%d_%d, g%d_%d]}, out: {Output: [g%d_%d, g%d_%d], FusedOutput: f%d}, "
               "attrs: {dtype: 5, align_size: 256, use_align: true%s}",
               b, first, b, second, b, first, b, second, b, fills[o->fills]);
        break;
    case MAKE: append(out, "  - {scale: {X: x}, out: {Out: g%d_%d}, attrs: {scale: 2.0}", b, o->member); break;
    case REDUCE:
        append(out, "  - {c_allreduce_sum: {X: %s%d%s}, out: {Out: %s%d%s}, ", o->of_local ? "y" : "f", b,
               o->of_local ? "_0" : "", o->of_local ? "y" : "f", b, o->of_local ? "_0" : "");
        append(out, "attrs: {ring_id: %d, use_calc_stream: true%s}", o->ring, o->member ? ", nranks: 2" : "");
        break;
    case USE: append(out, "  - {relu: {X: g%d_%d}, out: {Out: y%d_%d}", b, o->member, b, o->member); break;
    case UPDATE:
        append(out, "  - {sgd: {Grad: %s%d_0, LearningRate: r, Param: w%d}, out: {ParamOut: w%d}",
               o->of_local ? "h" : "y", b, b, b);
        break;
    case LOOK: append(out, "  - {relu: {X: w%d}, out: {Out: z%d}", b, b); break;
    case PRIVATE:
        append(out, "  - {fill_constant: {}, out: {Out: p%d}, attrs: {shape: !longs [%d], dtype: 5}", b, k->extent);
        break;
    case PEEK: append(out, "  - {relu: {X: g%d_%d}, out: {Out: q}", b, o->member); break;
    case SYNC: append(out, "  - {c_sync_comm_stream: {X: g%d_0}, out: {Out: g%d_0}", b, b); break;
    case SHOW: append(out, "  - {getitem: {X: g%d_%d}, out: {Out: v%d}", b, o->member, b); break;
    case USE_SHOWN:
        if (o->member)
            append(out, "  - {relu: {X: x}, out: {Out: v%d}", b);
        else
            append(out, "  - {relu: {X: v%d}, out: {Out: y%d_0}", b, b);
        break;
    case WORK_WHOLE:
        if (o->member)
            append(out, "  - {relu: {X: x}, out: {Out: f%d}", b);
        else
            append(out, "  - {scale: {X: f%d}, out: {Out: f%d}, attrs: {scale: 2.0}", b, b);
        break;
    case PEEK_WHOLE: append(out, "  - {relu: {X: f%d}, out: {Out: u}", b); break;
    case REGROUP:
        append(out,
               "  - {coalesce_tensor: {Input: [g%d_0]}, out: {Output: [g%d_0], FusedOutput: e}, "
               "attrs: {dtype: 5, align_size: 256, use_align: true, copy_data: true}",
               b, b);
        break;
    case GUARDED:
        append(out, "  - {conditional_block: {Cond: [%s]}, out: {Out: [w0]}, attrs: {sub_block: !block 1}",
               o->member ? "d" : "c");
        break;
    case WAIT_COMM: append(out, "  - {c_wait_comm: {}, attrs: {ring_id: %d}}\n", o->ring); return;
    }
    static const char *const streams[] = {"s", "t"};
    append(out, ", dist: {");
    const char *comma = "";
    if (o->stream != NONE) append(out, "stream: %s", streams[o->stream]), comma = ", ";
    if (o->record != NONE) append(out, "%srecord: e%d", comma, o->record), comma = ", ";
    if (o->wait != NONE && is_recorded(k, o->wait)) append(out, "%swait: [e%d]", comma, o->wait);
    append(out, "}}\n");
}

static void print(const world *w, kind_of_rank *k, const char *rings) {
    k->text[0] = '\0';
    append(k->text,
           "weft: 1\nrank: -1\nrings: %s\nblocks:\n- vars:\n    x: {float32: [4], need_check_feed: true}\n"
           "    q: {float32: [4]}\n    r: {float32: [1], persistable: true}\n    u: {float32: [128]}\n"
           "    e: {float32: [64]}\n    c: {bool: [1], need_check_feed: true}\n    d: {bool: [1], persistable: true}\n",
           rings);
    for (int b = 0; b < w->nbuckets; b++) {
        int n = b == w->nbuckets - 1 ? k->place : 4;
        append(k->text, "    f%d: {float32: [128]}\n    w%d: {float32: [4], persistable: true}\n", b, b);
        append(k->text, "    h%d_0: {float32: [4], need_check_feed: true}\n    z%d: {float32: [4]}\n", b, b);
        append(k->text, "    p%d: {float32: [%d]}\n    v%d: {float32: [%d]}\n", b, k->extent, b, n);
        for (int i = 0; i < 2; i++)
            append(k->text, "    g%d_%d: {float32: [%d]}\n    y%d_%d: {float32: [%d]}\n", b, i, n, b, i, n);
    }
    append(k->text, "  ops:\n");
    for (int i = 0; i < k->nops; i++) print_op(k->text, k, &k->ops[i]);
    static const char *const inner[] = {
        "  - {relu: {X: g0_0}, out: {Out: i}}\n  - {sgd: {Grad: i, LearningRate: r, Param: w0}, out: {ParamOut: w0}}\n",
        "  - {c_allreduce_sum: {X: f0}, out: {Out: f0}, attrs: {ring_id: 0, use_calc_stream: true}}\n",
        "  - {scale: {X: r}, out: {Out: g0_0}, attrs: {scale: 2.0}}\n  - {relu: {X: g0_1}, out: {Out: i}}\n"};
    if (w->inner) append(k->text, "- parent: 0\n  vars: {i: {float32: [4]}}\n  ops:\n%s", inner[w->inner - 1]);
}

void draw_world(world *w, int number) {
    static const char *const rings[] = {"{0: [0, 1], 1: [0, 1]}", "{0: [0, 1, 2], 1: [0, 2]}",
                                        "{0: [0, 1, 2, 3, 4, 5], 1: [0, 1, 2, 3, 4, 5]}", "{0: [0, 1], 1: [0, 2]}"};
    static const int nranks[] = {2, 3, MOST_RANKS, 3};
    int shape_of_world = draw(w, 8) ? draw(w, 3) : 3;
    bool updates = draw(w, 2);
    w->nranks = nranks[shape_of_world];
    w->nbuckets = 1 + draw(w, 3);
    w->nkinds = 2 + draw(w, MOST_KINDS - 1);
    w->inner = draw(w, 4) ? 0 : 1 + draw(w, 3);
    kind_of_rank *first = &w->kinds[0];
    *first = (kind_of_rank){.extent = 4, .place = 4};
    for (int b = 0; b < w->nbuckets; b++) add_bucket(w, first, b, updates);
    for (int i = 0; i < w->nkinds; i++) {
        if (i) w->kinds[i] = *first;
        for (int n = (i > 0) + (draw(w, 4) == 0); n > 0; n--) change(w, &w->kinds[i]);
    }
    for (int i = 0; i < w->nkinds; i++) print(w, &w->kinds[i], rings[shape_of_world]);
    for (int r = 0; r < w->nranks; r++) {
        const kind_of_rank *k = &w->kinds[w->kind_at[r] = draw(w, w->nkinds)];
        char place[32];
        snprintf(place, sizeof place, "world %d", number);
        must(weft_program_parse(w->context, WEFT_FORM_YAML, k->text, strlen(k->text), NULL, 0, place, &w->programs[r]));
    }
}
