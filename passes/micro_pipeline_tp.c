/* micro_pipeline_tp: a gather and the products of its rows, or a product and the scatter of its sums. Both are cut up,
 * so that rows are sent while others are multiplied; or marked as one for a device that does so itself.
 *
 * Matches, places, asks the guard, then edits. Each collective that could be one gets a line: taken, or left and why.
 * Sources: Wang et al. 2023 (ASPLOS), pytorch.md 4, micropipe.md. */
#include <stdlib.h>

#include "base/types.h"
#include "passes/certificate.h"
#include "passes/micro_pipeline/micro.h"
#include "program/grow.h"

static const weft_option options[] = {
    {"form", WEFT_OPTION_STRING, "chunks", "chunks|fused",
     "chunks: sends, receives and products of row slices; fused: stand together, torch's fused ops in an FX graph"},
    {"guard", WEFT_OPTION_STRING, "on", "on|off", "off: every pair that is legal; on: those that the model says gain"},
    {"chunks_per_shard", WEFT_OPTION_INT, "1", NULL, "pieces in which a rank's rows are sent"},
    {"directions", WEFT_OPTION_STRING, "one", "one|both",
     "both: chunks go both ways round a ring at once, in half the steps, where links carry both"},
    {"all_reduce", WEFT_OPTION_STRING, "rows", "rows|scattered",
     "a product's all-reduce: of some rows after others; scattered: sums of chunks, as a reduce-scatter, that go to "
     "all"},
    {"strict_bits", WEFT_OPTION_BOOL, "false", NULL, "sums in the order of ranks, as the reduce-scatter forms them"},
    {"fp32_sums", WEFT_OPTION_BOOL, "false", NULL,
     "16-bit floats are added up in fp32 and rounded once, as with strict_bits"},
    {"cluster", WEFT_OPTION_STRING, "", NULL,
     "a cluster file, what the program is to run on; default: the accelerator that weft simulate takes"},
    {"least_gain", WEFT_OPTION_FLOAT, "0.02", NULL, "part of its time that a pair must gain with the guard on"},
};

static weft_status begin(micro_pass *m, weft_pass_context *pass, weft_program *program) {
    *m = (micro_pass){.pass = pass, .program = program, .block = program->blocks[0], .scratch = pass_scratch(pass)};
    m->form = strcmp(weft_pass_option_string(pass, "form"), "fused") == 0 ? MICRO_FUSED : MICRO_CHUNKS;
    m->guards = strcmp(weft_pass_option_string(pass, "guard"), "on") == 0;
    m->both_ways = strcmp(weft_pass_option_string(pass, "directions"), "both") == 0;
    m->scatters_reduces = strcmp(weft_pass_option_string(pass, "all_reduce"), "scattered") == 0;
    m->strict_bits = weft_pass_option_bool(pass, "strict_bits");
    m->fp32_sums = m->strict_bits || weft_pass_option_bool(pass, "fp32_sums");
    m->nsub = weft_pass_option_int(pass, "chunks_per_shard");
    if (m->nsub < 1 || m->nsub > 64) return weft_pass_refuse(pass, "chunks_per_shard: expected 1 to 64");
    TRY(access_index_begin(program, m->scratch, &m->index));
    TRY(access_index_gather(&m->index, m->scratch, NULL));
    size_t n = m->index.nops + 1;
    m->pair_of = ARENA_ARRAY(m->scratch, weft_op *, n);
    m->place_of = ARENA_ARRAY(m->scratch, uint32_t, n);
    m->raised_to = ARENA_ARRAY(m->scratch, uint32_t, n);
    m->seen = ARENA_ARRAY(m->scratch, uint32_t, n);
    return m->pair_of && m->place_of && m->raised_to && m->seen ? micro_guard_begin(m) : base_out_of_memory();
}

/* What this form cannot do with a pair. */
static void check_form(const micro_pass *m, micro_pair *p, micro_refusal *why) {
    if (why->words) return;
    p->summed = p->kind == MICRO_GATHER ? p->dtype : p->sent;
    if (m->form == MICRO_CHUNKS) {
        p->is_scattered = p->kind == MICRO_REDUCE && m->scatters_reduces && p->reduce == WEFT_REDUCE_SUM &&
                          micro_rows(p) % p->ring.nranks == 0;
        bool all_rows = !micro_sends(p);
        p->pieces = micro_pieces(all_rows ? m->nsub * p->ring.nranks : p->is_batched ? 1 : m->nsub, micro_rows(p));
        if (m->fp32_sums && dtype_is_half(p->summed) && micro_sends(p) && !(p->exchanges && p->kind == MICRO_SCATTER))
            p->summed = WEFT_FP32;
        return;
    }
    p->pieces = 1;
    if (p->exchanges)
        *why = (micro_refusal){WEFT_REASON_NOTHING, "torch has no fused op of a product and an all-to-all"};
    if (p->kind == MICRO_REDUCE)
        *why = (micro_refusal){WEFT_REASON_NOTHING, "torch has no fused op of a product and an all-reduce"};
    if (m->strict_bits && p->kind == MICRO_SCATTER)
        *why = (micro_refusal){WEFT_REASON_SCALE, "the fused op does not promise the order of ranks (strict_bits)"};
    if (p->path.is_transposed || p->path.is_cast)
        *why = (micro_refusal){WEFT_REASON_SHAPE, "the fused op takes no transposition and no cast in between"};
    for (size_t k = 0; k < p->nproducts; k++)
        if (p->products[k].trans)
            *why = (micro_refusal){WEFT_REASON_SHAPE, "the fused op takes no transposed right operand"};
}

static weft_status consider(micro_pass *m, weft_op *op) {
    micro_pair pair;
    micro_refusal why;
    bool is_one;
    TRY(micro_match(m, op, &pair, &why, &is_one));
    if (!is_one) return NULL;
    check_form(m, &pair, &why);
    if (!why.words) TRY(micro_guard(m, &pair, &why));
    if (!why.words) TRY(micro_place(m, &pair, &why));
    if (why.words) return weft_pass_left(m->pass, op, why.reason, "%s", why.words);
    TRY(grow(m->scratch, &m->pairs, &m->capacity, m->npairs + 1, sizeof *m->pairs));
    m->pairs[m->npairs++] = pair;
    return NULL;
}

static int by_place(const void *a, const void *b) {
    const micro_pair *x = a, *y = b;
    if (x->place != y->place) return x->place < y->place ? -1 : 1;
    return x->collective->mark < y->collective->mark ? -1 : x->collective->mark > y->collective->mark;
}

static const char *const names[][2] = {[MICRO_GATHER] = {"all-gather and matmul", "all-to-all and matmul"},
                                       [MICRO_SCATTER] = {"matmul and reduce-scatter", "matmul and all-to-all"},
                                       [MICRO_REDUCE] = {"matmul and all-reduce"}};

static weft_status report(const micro_pass *m, const micro_pair *p, size_t number) {
    return weft_pass_did(m->pass,
                         "pair %zu: %s (%s #%u, %d ranks, %zu product%s): %.1f us for %.1f us, predicted gain %.1f%%",
                         number, names[p->kind][p->exchanges], p->collective->type->bytes, p->collective->mark,
                         p->ring.nranks, p->nproducts, p->nproducts == 1 ? "" : "s", 1e6 * p->pair_seconds,
                         1e6 * p->serial_seconds, 100 * (1 - p->pair_seconds / p->serial_seconds));
}

/* Whether the programs of ranks differ. */
static bool sends(const micro_pass *m) {
    for (size_t i = 0; i < m->npairs; i++)
        if (micro_sends(&m->pairs[i])) return true;
    return false;
}

static weft_status run(weft_pass_context *pass, weft_program *program, void *user) {
    (void)user;
    micro_pass m;
    TRY(begin(&m, pass, program));
    for (size_t i = 0; i < m.index.nops; i++) TRY(consider(&m, access_op(&m.index, i)));
    if (!m.npairs) return weft_pass_left(pass, NULL, WEFT_REASON_NOTHING, "no pair is taken");
    if (m.form == MICRO_CHUNKS && sends(&m) && pass_rank(pass) < 0)
        return weft_pass_refuse(pass,
                                "the programs of ranks differ (chunks of each go to others): one is made for each, "
                                "named by {rank} in -o");
    qsort(m.pairs, m.npairs, sizeof *m.pairs, by_place);
    for (size_t i = 0; i < m.npairs; i++) TRY(report(&m, &m.pairs[i], i));
    TRY(weft_pass_count_add(pass, "pairs", (int64_t)m.npairs));
    if (m.form == MICRO_CHUNKS) {
        pass_changes_meaning(pass, "ranks send each other chunks: the plans of all are proved together instead");
        pass_claims_nothing(pass);
    }
    for (size_t i = 0; i < m.npairs; i++) {
        micro_raise(&m, &m.pairs[i]);
        TRY(m.form == MICRO_FUSED ? micro_fuse(&m, &m.pairs[i], i) : micro_write_chunks(&m, &m.pairs[i], i));
    }
    return NULL;
}

const weft_pass pass_micro_pipeline_tp = {.options = options, .noptions = sizeof options / sizeof *options, .run = run};
