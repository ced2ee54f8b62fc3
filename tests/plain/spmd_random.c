/* Recorded serial programs of some 60 op types, with random placements of a few of their vars on random meshes. The
 * programs of all ranks must be safe and leave what the serial program leaves. With a
 * mistake they may not be proved, unless they leave the same. 200 of them, 60 under sanitizers, 5,000 with
 * WEFT_LONG_TESTS. spmd_random FIRST [COUNT]     tells what is left unproved, and why: few may be */
#include <glob.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ops/ops.h"
#include "program/ir.h"
#include "tests/support/draw.h"
#include "tests/support/fixtures.h"
#include "tests/support/plain.h"
#include "tests/support/spmd_mistake.h"
#include "weft/pass.h"
#include "weft/trainer.h"
#include "weft/verify.h"

enum { NSTEPS = 2, NWRONG = 6, MOST_OPS = 220, MOST_TEXT = 8192 };

static const struct {
    int ndim, extents[3];
} meshes[] = {{1, {2}}, {1, {3}}, {1, {4}}, {2, {2, 2}}, {2, {2, 3}}, {3, {2, 2, 2}}};

static uint64_t state;
static unsigned draw(unsigned n) {
    return draw_below(&state, n);
}

/* A recorded program with what it leaves. */
typedef struct recorded {
    char dir[500], loss[120];
    char *bytes;
    size_t nbytes;
    weft_program *serial;
    weft_tensors *params, *feeds, *left;
    double mean_loss;
} recorded;

/* With a mistake the first four were proved, and wrong: all but one of these declared other extents than their ops
 * make, of what is turned and of what is put together. The others were not proved: parts of sums, members of a
 * concatenation, some rows of uneven columns, slices that an op reads, factors that stand elsewhere in what is turned,
 * columns of what was filled up and lies behind others, one group of channels a rank, constants among parts that
 * differ. */
static const int kept[] = {951, 2766, 4073, 1482, 207, 572, 1791, 2541, 394, 769, 412, 4736, 722, 3104, 315};

static weft_context *context;
static bool is_told;
static int nwrong, nharmless;

static char *read_all(const char *path, size_t *out_nbytes) {
    FILE *f = fopen(path, "rb");
    if (!f) return NULL;
    char *bytes = malloc(4 << 20);
    *out_nbytes = bytes ? fread(bytes, 1, (4 << 20) - 1, f) : 0;
    if (bytes) bytes[*out_nbytes] = 0;
    fclose(f);
    return bytes;
}

/* *out_loss: the mean over the ranks of that of the last step. */
static weft_status train(const recorded *c, const weft_program *const *programs, size_t n, int nranks,
                         weft_tensors **out, double *out_loss) {
    const weft_tensors *feeds = c->feeds;
    const char *loss = c->loss;
    weft_trainer_options o = {WEFT_TRAINER_OPTIONS_INIT,
                              .programs = programs,
                              .nprograms = n,
                              .nranks = nranks,
                              .params = c->params,
                              .feeds = &feeds,
                              .fetches = &loss,
                              .nfetches = 1,
                              .nsteps = NSTEPS,
                              .executor = &(weft_executor_options){WEFT_EXECUTOR_OPTIONS_INIT, .nthreads = 1}};
    weft_trainer *t = NULL;
    weft_status status = weft_trainer_create(context, &o, &t);
    for (size_t i = 0; i < NSTEPS && !status; i++) status = weft_trainer_step(t, i);
    *out_loss = 0;
    for (int i = 0; i < nranks && !status; i++) {
        double own;
        if (weft_trainer_fetch_scalar(t, i, 0, &own)) *out_loss += own / nranks;
    }
    if (!status) status = weft_trainer_result(t, out);
    weft_trainer_destroy(t);
    return status;
}

static bool open_recorded(recorded *c, const char *dir) {
    char path[600];
    size_t n;
    *c = (recorded){.loss = ""};
    snprintf(c->dir, sizeof c->dir, "%s", dir);
    snprintf(path, sizeof path, "%s/case.json", dir);
    char *json = read_all(path, &n), *at = json ? strstr(json, "\"loss\": \"") : NULL;
    if (at) sscanf(at, "\"loss\": \"%100[^\"]", c->loss);
    free(json);
    snprintf(path, sizeof path, "%s/serial.pdmodel", dir);
    c->bytes = read_all(path, &c->nbytes);
    if (!at || !c->bytes) return false;
    must(weft_program_parse(context, WEFT_FORM_PDMODEL, c->bytes, c->nbytes, NULL, 0, dir, &c->serial));
    if (weft_program_nops(c->serial) > MOST_OPS) return false;
    snprintf(path, sizeof path, "%s/params.npz", dir);
    must(weft_tensors_load(context, path, c->serial, &c->params));
    snprintf(path, sizeof path, "%s/feeds.npz", dir);
    must(weft_tensors_load(context, path, c->serial, &c->feeds));
    const weft_program *one = c->serial;
    weft_status status = train(c, &one, 1, 1, &c->left, &c->mean_loss);
    bool runs = !status; /* some hold ops that have no kernel */
    weft_status_free(status);
    return runs;
}

static void close_recorded(recorded *c) {
    weft_tensors_destroy(c->left);
    weft_tensors_destroy(c->feeds);
    weft_tensors_destroy(c->params);
    weft_program_destroy(c->serial);
    free(c->bytes);
}

/* --- a case ------------------------------------------------------------------------------------------------------- */

/* A sidecar: a mesh, and random placements of one to four vars. */
static int annotate(const recorded *c, char *out) {
    unsigned m = draw(sizeof meshes / sizeof *meshes);
    int n = 1, at;
    for (int i = 0; i < meshes[m].ndim; i++) n *= meshes[m].extents[i];
    at = snprintf(out, MOST_TEXT, "{\"meshes\": [{\"shape\": [");
    for (int i = 0; i < meshes[m].ndim; i++) at += sprintf(out + at, "%s%d", i ? ", " : "", meshes[m].extents[i]);
    at += sprintf(out + at, "], \"ids\": [");
    for (int i = 0; i < n; i++) at += sprintf(out + at, "%s%d", i ? ", " : "", i);
    at += sprintf(out + at, "], \"dims\": [\"a\"%s%s]}], \"vars\": {", meshes[m].ndim > 1 ? ", \"b\"" : "",
                  meshes[m].ndim > 2 ? ", \"c\"" : "");
    const weft_block *b = weft_program_block(c->serial, 0);
    unsigned count = 1 + draw(4), nput = 0;
    bool used[4096] = {false};
    for (unsigned tries = 0; tries < 40 && nput < count; tries++) {
        size_t k = draw((unsigned)weft_block_nvars(b));
        const weft_var *v = weft_block_var_at(b, k);
        if (k >= 4096 || used[k] || weft_var_kind_of(v) != WEFT_DENSE_TENSOR || !weft_var_ndim(v)) continue;
        used[k] = true;
        at += sprintf(out + at, "%s\"%s\": {\"mesh\": 0, \"dims_mapping\": [", nput++ ? ", " : "", weft_var_name(v));
        unsigned taken = 0;
        for (size_t d = 0; d < weft_var_ndim(v); d++) {
            at += sprintf(out + at, "%s[", d ? ", " : "");
            for (int tried = 0, most = draw(3) ? 1 + !draw(3) + !draw(3) : 0, nlisted = 0; tried < most; tried++) {
                unsigned axis = draw((unsigned)meshes[m].ndim);
                if (taken >> axis & 1) continue;
                taken |= 1u << axis;
                at += sprintf(out + at, "%s%u", nlisted++ ? ", " : "", axis);
            }
            at += sprintf(out + at, "]");
        }
        at += sprintf(out + at, "]}");
    }
    sprintf(out + at, "}, \"ops\": []}");
    return n;
}

static double element(const weft_tensor *t, size_t i) {
    switch (t->dtype) {
    case WEFT_FP32: return (double)((const float *)t->data)[i];
    case WEFT_FP64: return ((const double *)t->data)[i];
    case WEFT_INT64: return (double)((const int64_t *)t->data)[i];
    case WEFT_INT32: return (double)((const int32_t *)t->data)[i];
    default: return 0;
    }
}

/* The norm of the difference, of that of the serial value; -1: another shape. */
static double distance(const weft_tensor *a, const weft_tensor *b) {
    double difference = 0, norm = 0;
    size_t n = 1;
    if (!b || a->ndim != b->ndim || a->dtype != b->dtype) return -1;
    for (size_t d = 0; d < a->ndim; d++) {
        if (a->dims[d] != b->dims[d]) return -1;
        n *= (size_t)a->dims[d];
    }
    for (size_t i = 0; i < n; i++) {
        double x = element(a, i), y = element(b, i);
        difference += (x - y) * (x - y), norm += x * x;
    }
    return sqrt(difference) / fmax(sqrt(norm), 1e-3);
}

/* What is fetched of ranks that have partial values is their mean, though one of them is saved. */
static void compare(const recorded *c, const weft_tensors *left, double loss, bool loss_is_mean, int number,
                    const char *annotated) {
    for (size_t i = 0; i < weft_tensors_count(c->left); i++) {
        const weft_tensor *want = weft_tensors_at(c->left, i), *got = weft_tensors_find(left, want->name);
        double off = distance(want, got);
        if (loss_is_mean && strcmp(want->name, c->loss) == 0)
            off = fabs(loss - c->mean_loss) / fmax(fabs(c->mean_loss), 1e-3);
        check(off >= 0 && off < 2e-4, "%d: %s: %s is off by %g: %s", number, c->dir, want->name, off, annotated);
    }
}

static bool is_safe(const weft_program *const *programs, size_t n) {
    weft_verify_options o = {WEFT_VERIFY_OPTIONS_INIT, .reading = WEFT_READING_BY_BYTES, .nranks = (int64_t)n};
    weft_findings *findings = NULL;
    must(weft_verify(programs, n, &o, &findings));
    bool safe = weft_findings_count(findings) == 0;
    weft_findings_destroy(findings);
    return safe;
}

static void tell_unproved(const weft_equivalence *e, int number, const char *annotated) {
    for (size_t i = 0; i < weft_equivalence_nfindings(e); i++) {
        weft_grade grade;
        const char *why, *var = weft_equivalence_finding(e, i, &grade, &why);
        if (grade == WEFT_NOT_PROVED) printf("%d: %s: %s: %s\n", number, annotated, var, why);
    }
}

static weft_grade judge(const recorded *c, const weft_program *const *programs, size_t n, int number,
                        const char *annotated) {
    weft_equivalence *e = NULL;
    weft_equivalence_options o = {WEFT_EQUIVALENCE_OPTIONS_INIT, .fetches = (const char *const[]){c->loss},
                                  .nfetches = 1};
    must(weft_equivalent_to_serial(c->serial, programs, n, &o, &e));
    weft_grade grade = weft_equivalence_grade(e);
    if (grade == WEFT_NOT_PROVED && is_told && number >= 0) tell_unproved(e, number, annotated);
    weft_equivalence_destroy(e);
    return grade;
}

/* --- wrong programs ----------------------------------------------------------------------------------------------- */

/* What wrong programs of one rank, or of all, make of the step is not proved, unless nothing comes of it. */
static void try_wrong(const recorded *c, const weft_program *const *programs, int n, int number,
                      const char *annotated) {
    const weft_program *wrong[16];
    weft_program *spoiled[16] = {NULL};
    weft_tensors *left = NULL;
    unsigned rank = draw((unsigned)n), salt = draw(1 << 30);
    bool of_all = !draw(4), is_spoiled = true;
    const char *mistake = "";
    memcpy(wrong, programs, (size_t)n * sizeof *wrong);
    for (int i = 0; i < n; i++) {
        if (!of_all && i != (int)rank) continue;
        must(weft_program_clone(programs[i], &spoiled[i]));
        wrong[i] = spoiled[i];
        spoiled[i]->rank = i;
        is_spoiled = spmd_mistake(spoiled[i], salt, &mistake) && is_spoiled;
    }
    nwrong += is_spoiled;
    if (is_spoiled && judge(c, wrong, (size_t)n, -1, annotated) < WEFT_SAME_IF) {
        double loss;
        weft_status status = train(c, wrong, (size_t)n, n, &left, &loss);
        char what[60];
        snprintf(what, sizeof what, "%s on %s %u", mistake, of_all ? "all ranks and" : "rank", rank);
        if (!status) compare(c, left, loss, true, number, what);
        weft_status_free(status);
        nharmless++;
    }
    weft_tensors_destroy(left);
    for (int i = 0; i < n; i++) weft_program_destroy(spoiled[i]);
}

/* Ranks share what a list made for one of them: each would have made the same for itself. */
static void check_shared(const weft_pass_list *list, const weft_program *placed, const weft_rank_programs *ranks,
                         int number) {
    for (size_t i = 0; i < weft_rank_programs_count(ranks); i++) {
        weft_program *own = NULL;
        must(weft_program_clone(placed, &own));
        must(weft_pass_list_run_rank(list, own, (int64_t)i, NULL));
        weft_program *shared = weft_rank_programs_at(ranks, i);
        int64_t rank = weft_program_rank(shared);
        check(rank == -1 || rank == (int64_t)i, "%d: rank %zu has the program of rank %lld", number, i,
              (long long)rank);
        own->rank = rank;
        check(weft_program_equal(own, shared), "%d: rank %zu shares a program that is not its own", number, i);
        weft_program_destroy(own);
    }
}

/* So they do where passes follow. */
static void check_behind(const weft_pass_list *behind, const weft_program *placed, int number) {
    weft_rank_programs *ranks;
    must(weft_pass_list_run_ranks(behind, placed, &ranks, NULL));
    check_shared(behind, placed, ranks, number);
    weft_rank_programs_destroy(ranks);
}

static int try_case(const recorded *c, int number, const weft_pass_list *list, const weft_pass_list *behind) {
    static char annotated[MOST_TEXT];
    state = (uint64_t)number * UINT64_C(0x9E3779B97F4A7C15) + 7;
    draw(2);
    int n = annotate(c, annotated);
    weft_program *placed = NULL;
    weft_rank_programs *ranks = NULL;
    weft_tensors *left = NULL;
    bool proved = false;
    must(weft_program_parse(context, WEFT_FORM_PDMODEL, c->bytes, c->nbytes, annotated, strlen(annotated), c->dir,
                            &placed));
    weft_status status = weft_pass_list_run_ranks(list, placed, &ranks, NULL);
    const weft_program *programs[16];
    for (int i = 0; i < n && !status; i++) programs[i] = weft_rank_programs_at(ranks, (size_t)i);
    double loss = 0;
    if (!status) status = train(c, programs, (size_t)n, n, &left, &loss);
    check(!status, "%d: %s: %s: %s", number, c->dir, status ? weft_status_message(status) : "", annotated);
    if (!status) {
        check(is_safe(programs, (size_t)n), "%d: %s: not safe: %s", number, c->dir, annotated);
        compare(c, left, loss, false, number, annotated);
        proved = judge(c, programs, (size_t)n, number, annotated) < WEFT_NOT_PROVED;
        for (int i = 0; i < NWRONG && proved; i++) try_wrong(c, programs, n, number, annotated);
    }
    if (!status && number % 4 == 0) check_shared(list, placed, ranks, number);
    if (!status && number % 4 == 2) check_behind(behind, placed, number);
    weft_status_free(status);
    weft_tensors_destroy(left);
    weft_rank_programs_destroy(ranks);
    weft_program_destroy(placed);
    return proved;
}

int main(int argc, char **argv) {
    int first = argc > 1 ? atoi(argv[1]) : 0, n = getenv("WEFT_SANITIZED") ? 60 : 200, nproved = 0;
    if (getenv("WEFT_LONG_TESTS")) n = 5000;
    if (argc > 1) n = argc > 2 ? atoi(argv[2]) : 1;
    is_told = argc > 1;
    char pattern[600];
    glob_t found;
    weft_pass_list *list = NULL, *behind = NULL;
    static const char passes_behind[] =
        "spmd_expand, prune_grad_scale, overlap_comm, coalesce_grads, insert_dependencies";
    must(weft_context_create(NULL, &context));
    must(weft_pass_list_parse(context, "spmd_expand", strlen("spmd_expand"), "list", &list));
    must(weft_pass_list_parse(context, passes_behind, strlen(passes_behind), "list", &behind));
    snprintf(pattern, sizeof pattern, "%s/spmd/paddle26/*", fixture_root());
    int nfound = glob(pattern, GLOB_ONLYDIR, NULL, &found) == 0 ? (int)found.gl_pathc : 0;
    for (int k = 0; k < nfound; k++) { /* the cases of one program in turn: it is read once */
        recorded c;
        int from = (k + nfound - first % nfound) % nfound;
        if (from < n && open_recorded(&c, found.gl_pathv[k])) {
            for (int i = first + from; i < first + n; i += nfound) nproved += try_case(&c, i, list, behind);
            for (size_t i = 0; i < sizeof kept / sizeof *kept && !is_told; i++)
                if (kept[i] >= n && kept[i] % nfound == k)
                    check(try_case(&c, kept[i], list, behind), "%d: not proved", kept[i]);
        }
        if (from < n) close_recorded(&c);
    }
    if (nfound) printf("%d of %d proved; of %d with a mistake %d, that left the same\n", nproved, n, nwrong, nharmless);
    check(!nfound || n < 200 || nproved >= 99 * n / 100, "only %d of %d are proved", nproved, n);
    globfree(&found);
    weft_pass_list_destroy(behind);
    weft_pass_list_destroy(list);
    weft_context_destroy(context);
    return report_checks();
}
