/* verify.c: weft_verify: programs to classes of ranks, a schedule of each class, then one row of checks.def after
 * another. */
#include <stdio.h>

#include "plan/plan.h"
#include "proof/checks/across.h"
#include "proof/checks/alike.h"
#include "proof/checks/checks.h"
#include "proof/classes.h"

enum { DEFAULT_MAX_FINDINGS = 1000 };

typedef struct verifier {
    weft_context *context;
    const weft_verify_options *options;
    weft_findings *findings;
    arena arena, scratch; /* scratch: of one question at a time */
    rank_classes classes;
    proof_schedule *schedules; /* by class, under the reading */
    proof_schedule *programs;  /* by class: as the program stands, in order */
    weft_plan **plans;         /* by class, where the reading is by_bytes */
    bool *is_made;             /* by class: it could be planned */
    proof_ranks ranks;
    across across;
    uint32_t *alike; /* by class: the first that moves alike */
    bool *is_calm;   /* by class: no two launches seem to race */
    bool *is_joined; /* by class: nothing that differs between ranks reaches state */
} verifier;

static weft_status report_problems(verifier *v, const proof_schedule *s, int64_t rank) {
    for (size_t i = 0; i < s->nproblems; i++) {
        const proof_problem *p = &s->problems[i];
        weft_finding *found;
        char message[256];
        TRY(finding_add(v->findings, p->verdict, &found));
        if (!found) return NULL;
        if (p->event == PROOF_NONE) {
            TRY(finding_says(v->findings, &found->message, "%s (rank %lld)", p->message, (long long)rank));
            continue;
        }
        TRY(finding_op(v->findings, found, s, p->event, rank, ""));
        finding_op_text(&found->ops[0], message, sizeof message);
        TRY(finding_says(v->findings, &found->message, "%s: %s (rank %lld)", message, p->message, (long long)rank));
    }
    return NULL;
}

/* A program that cannot be planned is reported, with the planner's message; running out of memory is an error. */
static weft_status make_plan(verifier *v, size_t class, bool *out_made) {
    weft_status status = weft_plan_create(v->classes.programs[class], NULL, &v->plans[class]);
    *out_made = status == NULL;
    if (!status) return schedule_from_plan(v->plans[class], &v->arena, &v->schedules[class]);
    if (weft_status_code(status) == WEFT_OUT_OF_MEMORY) return status;
    weft_finding *found;
    weft_status reported = finding_add(v->findings, WEFT_VERDICT_INVALID_PROGRAM, &found);
    if (!reported && found)
        reported = finding_says(v->findings, &found->message, "%s: %s (rank %lld)", weft_status_place(status),
                                weft_status_message(status), (long long)v->classes.first_rank[class]);
    weft_status_free(status);
    return reported;
}

static weft_status make_schedule(verifier *v, size_t class, bool *out_made) {
    const weft_program *p = v->classes.programs[class];
    proof_schedule *of_program = &v->programs[class];
    TRY(schedule_from_program(p, v->options, &v->arena, of_program));
    *out_made = true;
    if (of_program->streams_unknown && of_program->ncollectives && v->options->reading != WEFT_READING_BY_BYTES)
        TRY(v->options->stream ? findings_add_note(v->findings, "streams unknown: assumed %s", v->options->stream)
                               : findings_add_note(v->findings, "streams unknown: assumed compute"));
    TRY(report_problems(v, of_program, v->classes.first_rank[class]));
    if (v->options->reading == WEFT_READING_BY_BYTES) return make_plan(v, class, out_made);
    v->schedules[class] = *of_program;
    return v->options->reading == WEFT_READING_BY_NAME ? schedule_order_by_name(&v->schedules[class]) : NULL;
}

static weft_status make_room(verifier *v) {
    size_t n = v->classes.count;
    v->schedules = ARENA_ARRAY(&v->arena, proof_schedule, n);
    v->programs = ARENA_ARRAY(&v->arena, proof_schedule, n);
    v->plans = ARENA_ARRAY(&v->arena, weft_plan *, n);
    v->is_made = ARENA_ARRAY(&v->arena, bool, n);
    v->is_joined = ARENA_ARRAY(&v->arena, bool, n);
    if (!v->schedules || !v->programs || !v->plans || !v->is_made || !v->is_joined) return base_out_of_memory();
    return NULL;
}

static weft_status list_ranks(verifier *v) {
    proof_ranks *r = &v->ranks;
    *r = (proof_ranks){.context = v->context,
                       .programs = v->classes.by_rank,
                       .class_of = v->classes.class_of,
                       .nranks = v->classes.nranks,
                       .nclasses = v->classes.count,
                       .max_in_flight = v->options->max_in_flight,
                       .max_queued = v->options->max_queued};
    int64_t *all = ARENA_ARRAY(&v->arena, int64_t, r->nranks);
    proof_class *classes = ARENA_ARRAY(&v->arena, proof_class, r->nclasses);
    if (!all || !classes) return base_out_of_memory();
    for (int64_t i = 0; i < r->nranks; i++) all[i] = i;
    for (size_t c = 0; c < r->nclasses; c++) TRY(sequences_list(&v->schedules[c], &v->arena, &classes[c]));
    for (size_t c = 0; c < r->nclasses && r->nclasses > 1; c++)
        TRY(sequences_look_at_moved(&classes[c], v->classes.names[c], &v->arena));
    r->all = all;
    r->classes = classes;
    TRY(alike_in_motion(classes, r->nclasses, false, &v->arena, &v->alike));
    v->is_calm = ARENA_ARRAY(&v->arena, bool, r->nclasses);
    if (!v->is_calm) return base_out_of_memory();
    TRY(across_begin(&v->across, r, &v->arena));
    v->across.scratch = &v->scratch;
    return NULL;
}

/* --- checks ------------------------------------------------------------------------------------------------------- */

static size_t found_so_far(const verifier *v) {
    return v->findings->count + v->findings->nleft_out;
}

/* Classes that move alike race alike; where the first seems to, each is looked at, for its own names and partners. */
static weft_status ask_motion(verifier *v, const check *k, uint32_t class) {
    size_t before = found_so_far(v) + v->across.nasked;
    if (v->alike[class] != class && v->is_calm[v->alike[class]]) return NULL;
    TRY(k->of_launches(&v->across, class, v->classes.first_rank[class], v->findings));
    v->is_calm[class] = found_so_far(v) + v->across.nasked == before;
    return NULL;
}

static weft_status ask_flows(verifier *v, const check *k, size_t class) {
    const rank_classes *of = &v->classes;
    size_t before = found_so_far(v), first = 0;
    while (!mixture_equal(&of->flows[first], &of->flows[class])) first++;
    if (first != class && v->is_joined[first]) return NULL;
    TRY(k->of_flows(&v->programs[class], &of->rings_of[of->first_rank[class]], of->first_rank[class], of->nranks,
                    v->findings));
    v->is_joined[class] = found_so_far(v) == before;
    return NULL;
}

/* Of one rank of a class. */
static weft_status ask_class(verifier *v, const check *k, uint32_t class) {
    int64_t rank = v->classes.first_rank[class];
    bool made = v->is_made[class];
    switch (k->needs) {
    case CHECK_PROGRAM: return k->of_schedule(&v->programs[class], rank, v->findings);
    case CHECK_SCHEDULE: return made ? k->of_schedule(&v->schedules[class], rank, v->findings) : NULL;
    case CHECK_LAUNCHES: return made ? k->of_launches(&v->across, class, rank, v->findings) : NULL;
    case CHECK_MOTION: return made ? ask_motion(v, k, class) : NULL;
    case CHECK_FLOWS: return ask_flows(v, k, class);
    default: return NULL;
    }
}

/* Whether rings do not agree, from finding number `first` on: then there is no saying what waits for what. */
static bool is_stuck(const weft_findings *f, size_t first) {
    bool stuck = f->nleft_out > 0;
    for (size_t i = first; i < f->count; i++) stuck |= f->items[i].verdict != WEFT_VERDICT_WRONG_DATA;
    return stuck;
}

/* `before`: findings when the first was asked of all ranks. */
static bool is_asked(const verifier *v, const check *k, size_t before) {
    const weft_verify_options *o = v->options;
    bool any_launch = o->launch_any && o->reading == WEFT_READING_BY_NAME;
    if (k->reading != CHECK_ANY && (int)k->reading != (int)o->reading) return false;
    switch (k->when) {
    case CHECK_ALWAYS: return true;
    case CHECK_ANY_LAUNCH: return any_launch;
    case CHECK_ONE_LAUNCH: return !any_launch;
    case CHECK_PAIRED: return !is_stuck(v->findings, before);
    case CHECK_LIMITED: return (o->max_in_flight || o->max_queued) && !is_stuck(v->findings, before);
    }
    return false;
}

static weft_status ask_classes(verifier *v) {
    size_t nchecks;
    const check *all = checks_all(&nchecks);
    for (uint32_t c = 0; c < v->classes.count; c++)
        for (size_t i = 0; i < nchecks; i++)
            if (is_asked(v, &all[i], 0)) TRY(ask_class(v, &all[i], c));
    for (size_t i = 0; i < nchecks; i++)
        if (all[i].needs == CHECK_CLASSES && is_asked(v, &all[i], 0))
            TRY(all[i].of_classes(v->programs, v->classes.count, v->classes.first_rank, v->findings));
    return NULL;
}

/* Of what each class issues on its rings, those that are alike as one. */
static weft_status ask_ring(verifier *v, const check *k, const uint32_t *alike) {
    for (uint32_t c = 0; c < v->ranks.nclasses; c++)
        if (alike[c] == c) TRY(k->of_ring(&v->ranks.classes[c], v->classes.first_rank[c], v->findings));
    return NULL;
}

/* Of all ranks, classes that are alike as one. */
static weft_status ask_ranks(verifier *v, const uint32_t *alike) {
    proof_ranks movers;
    rank_parties parties;
    size_t before = v->findings->count, nchecks;
    const check *all = checks_all(&nchecks);
    TRY(alike_ranks(&v->ranks, alike, &v->arena, &movers));
    TRY(parties_find(&v->classes.lists, movers.programs, movers.class_of, v->classes.rings_of, movers.nranks, &v->arena,
                     &parties));
    movers.parties = &parties;
    for (const check *k = all; k < all + nchecks; k++) {
        if (k->needs < CHECK_RING || !is_asked(v, k, before)) continue;
        /* A launch that nobody else can notice takes its place in a queue: CHECK_RANKS. */
        TRY(k->needs == CHECK_RING ? ask_ring(v, k, alike)
                                   : k->of_ranks(k->needs == CHECK_MOVERS ? &movers : &v->ranks, v->findings));
    }
    return NULL;
}

/* What is found is reported once more of classes that are alike in their ops too: a finding names an op as the programs
 * of its ranks have it. */
static weft_status ask_all_ranks(verifier *v) {
    weft_findings *f = v->findings;
    size_t count = f->count, nnotes = f->nnotes, nleft_out = f->nleft_out;
    uint32_t *alike;
    TRY(ask_ranks(v, v->alike));
    if (v->ranks.nclasses < 2 || (f->count == count && f->nleft_out == nleft_out)) return NULL;
    f->count = count;
    f->nnotes = nnotes;
    f->nleft_out = nleft_out;
    TRY(alike_in_motion(v->ranks.classes, v->ranks.nclasses, true, &v->arena, &alike));
    return ask_ranks(v, alike);
}

/* --- replicas alone -------------------------------------------------------------------------------------------------- */

/* The programs as they stand say enough: no reading, no plan, no pairing of ranks. */
static weft_status judge_replicas(verifier *v, const weft_program *const *programs, size_t nprograms) {
    size_t nchecks;
    const check *all = checks_all(&nchecks);
    TRY(classes_find(programs, nprograms, v->options->nranks, &v->arena, &v->classes));
    if (v->classes.nranks < 2) return NULL;
    TRY(make_room(v));
    for (uint32_t c = 0; c < v->classes.count; c++)
        TRY(schedule_from_program(v->classes.programs[c], v->options, &v->arena, &v->programs[c]));
    for (const check *k = all; k < all + nchecks; k++) {
        if (k->about != CHECK_REPLICAS) continue;
        for (uint32_t c = 0; c < v->classes.count; c++) TRY(ask_class(v, k, c));
        if (k->needs == CHECK_CLASSES)
            TRY(k->of_classes(v->programs, v->classes.count, v->classes.first_rank, v->findings));
    }
    return NULL;
}

/* Whether nothing joins ranks at all: a serial program. */
static bool is_serial(const verifier *v) {
    for (size_t c = 0; c < v->classes.count; c++)
        if (v->programs[c].ncollectives) return false;
    return true;
}

static weft_status refusal(const verifier *v) {
    const weft_finding *first = NULL;
    size_t nmore = v->findings->nleft_out;
    for (size_t i = 0; i < v->findings->count; i++) {
        const weft_finding *f = &v->findings->items[i];
        if (f->verdict != WEFT_VERDICT_MISSING_REDUCE) continue;
        nmore += first != NULL;
        if (!first) first = f;
    }
    if (!first) return NULL;
    char more[64] = "";
    if (nmore) snprintf(more, sizeof more, "; %zu more like it", nmore);
    return weft_status_create(WEFT_INVALID_PROGRAM, first->state,
                              "replicas would drift apart on %lld ranks: %s; mended by %s%s",
                              (long long)v->classes.nranks, first->message,
                              is_serial(v) ? "the pass data_parallel" : first->remedy, more);
}

/* --- all ---------------------------------------------------------------------------------------------------------- */

static weft_status judge(verifier *v, const weft_program *const *programs, size_t nprograms) {
    TRY(classes_find(programs, nprograms, v->options->nranks, &v->arena, &v->classes));
    size_t n = v->classes.count;
    TRY(make_room(v));
    for (size_t c = 0; c < n; c++) TRY(make_schedule(v, c, &v->is_made[c]));
    TRY(list_ranks(v));
    TRY(ask_classes(v));
    bool all_made = true;
    for (size_t c = 0; c < n; c++) all_made &= v->is_made[c];
    if (all_made) TRY(ask_all_ranks(v));
    if (v->findings->nleft_out)
        TRY(findings_add_note(v->findings, "%zu more findings are not listed", v->findings->nleft_out));
    return findings_add_note(v->findings, "%lld rank%s, %zu distinct program%s, read %s", (long long)v->classes.nranks,
                             v->classes.nranks == 1 ? "" : "s", n, n == 1 ? "" : "s",
                             weft_reading_name(v->options->reading));
}

static weft_status findings_create(weft_context *context, size_t max, weft_findings **out) {
    weft_findings *f = base_alloc(&context->allocator, sizeof *f);
    if (!f) return base_out_of_memory();
    *f = (weft_findings){.context = context, .max = max ? max : DEFAULT_MAX_FINDINGS};
    arena_init(&f->arena, &context->allocator);
    *out = f;
    return NULL;
}

weft_status weft_verify_replicas(const weft_program *const *programs, size_t nprograms, int64_t nranks) {
    const weft_verify_options options = {WEFT_VERIFY_OPTIONS_INIT, .reading = WEFT_READING_IN_ORDER, .nranks = nranks};
    if (!nprograms)
        return weft_status_create(WEFT_INVALID_ARGUMENT, "verify", "expected one program or more, found none");
    verifier v = {.context = programs[0]->context, .options = &options};
    TRY(findings_create(v.context, 0, &v.findings));
    arena_init(&v.arena, &v.context->allocator);
    weft_status status = judge_replicas(&v, programs, nprograms);
    if (!status) status = refusal(&v);
    arena_fini(&v.arena);
    weft_findings_destroy(v.findings);
    return status;
}

weft_status weft_verify(const weft_program *const *programs, size_t nprograms, const weft_verify_options *options,
                        weft_findings **out_findings) {
    weft_verify_options taken;
    TRY(base_take_struct("weft_verify_options", &taken, sizeof taken, options));
    if (!nprograms)
        return weft_status_create(WEFT_INVALID_ARGUMENT, "verify", "expected one program or more, found none");
    verifier v = {.context = programs[0]->context, .options = &taken};
    TRY(findings_create(v.context, v.options->max_findings, &v.findings));
    arena_init(&v.arena, &v.context->allocator);
    arena_init(&v.scratch, &v.context->allocator);
    weft_status status = judge(&v, programs, nprograms);
    for (size_t c = 0; v.plans && c < v.classes.count; c++) weft_plan_destroy(v.plans[c]);
    arena_fini(&v.scratch);
    arena_fini(&v.arena);
    if (status)
        weft_findings_destroy(v.findings);
    else
        *out_findings = v.findings;
    return status;
}
