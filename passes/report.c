/* report.c: what passes tell while they run, kept in allocator memory of its own, so that a report outlives the list
 * and the program. */
#include <stdio.h>
#include <stdlib.h>

#include "passes/pass_manager.h"

enum { MOST_DID_LINES = 12 }; /* of a pass in the short text */

static const char *const reason_names[WEFT_REASON_COUNT] = {
    [WEFT_REASON_DEPENDENCY] = "dependency", [WEFT_REASON_DTYPE] = "dtype", [WEFT_REASON_RING] = "ring",
    [WEFT_REASON_LIMIT] = "limit",           [WEFT_REASON_ROLE] = "role",   [WEFT_REASON_IN_USE] = "in use",
    [WEFT_REASON_SHAPE] = "shape",           [WEFT_REASON_SCALE] = "scale", [WEFT_REASON_MESH] = "mesh",
    [WEFT_REASON_NOTHING] = "nothing to do",
};

const char *weft_reason_name(weft_reason reason) {
    return (unsigned)reason < WEFT_REASON_COUNT ? reason_names[reason] : "unknown";
}

weft_status report_create(weft_context *context, size_t max_passes, weft_report **out_report) {
    weft_report *report = base_alloc(&context->allocator, sizeof *report);
    if (!report) return base_out_of_memory();
    *report = (weft_report){.context = context};
    arena_init(&report->arena, &context->allocator);
    report->passes = ARENA_ARRAY(&report->arena, pass_report, max_passes);
    if (!report->passes) {
        weft_report_destroy(report);
        return base_out_of_memory();
    }
    *out_report = report;
    return NULL;
}

void weft_report_destroy(weft_report *report) {
    if (!report) return;
    const weft_allocator *allocator = &report->context->allocator;
    for (size_t i = 0; i < report->npasses; i++) {
        pass_report *of = &report->passes[i];
        base_free(allocator, of->did, of->did_capacity * sizeof *of->did);
        base_free(allocator, of->counts, of->count_capacity * sizeof *of->counts);
        base_free(allocator, of->left, of->left_capacity * sizeof *of->left);
        weft_equivalence_destroy(of->proof);
    }
    arena_fini(&report->arena);
    base_free(allocator, report, sizeof *report);
}

/* --- what passes report ------------------------------------------------------------------------------------------- */

static char *format_message(arena *a, const char *format, va_list args) {
    char small[256]; /* most fit: numbers are formatted once */
    va_list again;
    va_copy(again, args);
    int nbytes = vsnprintf(small, sizeof small, format, again);
    va_end(again);
    if (nbytes >= 0 && (size_t)nbytes < sizeof small) return arena_string(a, small, (size_t)nbytes);
    char *message = nbytes < 0 ? NULL : arena_alloc(a, (size_t)nbytes + 1);
    if (message) vsnprintf(message, (size_t)nbytes + 1, format, args);
    return message;
}

weft_status weft_pass_did(weft_pass_context *pass, const char *format, ...) {
    pass_report *out = pass->out;
    TRY(vector_reserve(&pass->context->allocator, &out->did, &out->did_capacity, out->ndid + 1, sizeof *out->did));
    va_list args;
    va_start(args, format);
    const char *message = format_message(&pass->report->arena, format, args);
    va_end(args);
    if (!message) return base_out_of_memory();
    out->did[out->ndid++] = message;
    context_log(pass->context, WEFT_NOTE, out->name, "%s", message);
    return NULL;
}

weft_status weft_pass_count_add(weft_pass_context *pass, const char *what, int64_t amount) {
    pass_report *out = pass->out;
    for (size_t i = 0; i < out->ncounts; i++) {
        if (strcmp(out->counts[i].what, what) != 0) continue;
        out->counts[i].amount += amount;
        return NULL;
    }
    TRY(vector_reserve(&pass->context->allocator, &out->counts, &out->count_capacity, out->ncounts + 1,
                       sizeof *out->counts));
    const char *message = arena_string(&pass->report->arena, what, strlen(what));
    if (!message) return base_out_of_memory();
    out->counts[out->ncounts++] = (named_count){message, amount};
    return NULL;
}

weft_status weft_pass_left(weft_pass_context *pass, const weft_op *op, weft_reason reason, const char *format, ...) {
    pass_report *out = pass->out;
    TRY(vector_reserve(&pass->context->allocator, &out->left, &out->left_capacity, out->nleft + 1, sizeof *out->left));
    va_list args;
    va_start(args, format);
    const char *message = format_message(&pass->report->arena, format, args);
    va_end(args);
    if (!message) return base_out_of_memory();
    out->left[out->nleft++] = (left_alone){op, message, reason};
    context_log(pass->context, WEFT_NOTE, out->name, "left alone (%s): %s", weft_reason_name(reason), message);
    return NULL;
}

weft_status weft_pass_refuse(weft_pass_context *pass, const char *format, ...) {
    va_list args;
    va_start(args, format);
    weft_status status = base_status_createv(WEFT_REFUSED, pass->entry->pass->name, format, args);
    va_end(args);
    context_log(pass->context, WEFT_ERROR, pass->entry->pass->name, "refused: %s", weft_status_message(status));
    return status;
}

/* --- places of ops ------------------------------------------------------------------------------------------------ */

static int by_block_and_order(const void *a, const void *b) {
    const weft_op *x = (*(left_alone *const *)a)->op, *y = (*(left_alone *const *)b)->op;
    if (x->block != y->block) return x->block->idx < y->block->idx ? -1 : 1;
    return x->order < y->order ? -1 : x->order > y->order;
}

static weft_status put_place(weft_report *report, left_alone *entry, size_t index) {
    const weft_op *op = entry->op;
    char of_block[32] = "";
    if (op->block && op->block->idx != 0) snprintf(of_block, sizeof of_block, " of block %d", op->block->idx);
    entry->message =
        op->block ? arena_format(&report->arena, "%s #%zu%s: %s", op->type->bytes, index, of_block, entry->message)
                  : arena_format(&report->arena, "%s: %s", op->type->bytes, entry->message);
    entry->op = NULL;
    return entry->message ? NULL : base_out_of_memory();
}

/* Looking up each op's position alone would be quadratic: sort the entries and walk each block once. */
weft_status report_place_left(weft_report *report, pass_report *of) {
    arena scratch;
    arena_init(&scratch, &report->context->allocator);
    weft_status status = NULL;
    left_alone **sorted = ARENA_ARRAY(&scratch, left_alone *, of->nleft);
    size_t count = 0;
    if (!sorted) TRY_DONE(base_out_of_memory());
    for (size_t i = 0; i < of->nleft; i++) {
        left_alone *entry = &of->left[i];
        if (entry->op && entry->op->block)
            sorted[count++] = entry;
        else if (entry->op)
            TRY_DONE(put_place(report, entry, 0));
    }
    qsort(sorted, count, sizeof *sorted, by_block_and_order);
    const weft_op *at = NULL;
    size_t index = 0;
    for (size_t i = 0; i < count; i++) {
        const weft_op *op = sorted[i]->op;
        if (!at || at->block != op->block) {
            at = op->block->first;
            index = 0;
        }
        for (; at != op; at = at->next) index++;
        TRY_DONE(put_place(report, sorted[i], index));
    }
done:
    arena_fini(&scratch);
    return status;
}

/* --- reading ------------------------------------------------------------------------------------------------------ */

size_t weft_report_npasses(const weft_report *report) {
    return report->npasses;
}

static const pass_report *at_index(const weft_report *report, size_t pass_index) {
    static const pass_report none = {.name = ""};
    return pass_index < report->npasses ? &report->passes[pass_index] : &none;
}

int64_t weft_report_count(const weft_report *report, size_t pass_index, const char *what) {
    const pass_report *of = at_index(report, pass_index);
    for (size_t i = 0; i < of->ncounts; i++)
        if (strcmp(of->counts[i].what, what) == 0) return of->counts[i].amount;
    return 0;
}

const char *weft_report_pass_name(const weft_report *report, size_t pass_index) {
    return at_index(report, pass_index)->name;
}

size_t weft_report_nops_before(const weft_report *report, size_t pass_index) {
    return at_index(report, pass_index)->nops_before;
}

size_t weft_report_nops_after(const weft_report *report, size_t pass_index) {
    return at_index(report, pass_index)->nops_after;
}

double weft_report_seconds(const weft_report *report, size_t pass_index) {
    return at_index(report, pass_index)->seconds;
}

const weft_equivalence *weft_report_equivalence(const weft_report *report, size_t pass_index) {
    return at_index(report, pass_index)->proof;
}

size_t weft_report_nleft(const weft_report *report, size_t pass_index) {
    return at_index(report, pass_index)->nleft;
}

weft_reason weft_report_left(const weft_report *report, size_t pass_index, size_t index, const char **out_message) {
    const pass_report *of = at_index(report, pass_index);
    bool there = index < of->nleft;
    if (out_message) *out_message = there ? of->left[index].message : "";
    return there ? of->left[index].reason : WEFT_REASON_NOTHING;
}

/* --- printing ----------------------------------------------------------------------------------------------------- */

static void print_left_counted(buffer *out, const pass_report *of) {
    for (int reason = 0; reason < WEFT_REASON_COUNT; reason++) {
        size_t count = 0;
        const char *first = "";
        for (size_t i = 0; i < of->nleft; i++) {
            if ((int)of->left[i].reason != reason) continue;
            if (count++ == 0) first = of->left[i].message;
        }
        if (count)
            buffer_format(out, "    left alone: %zu (%s): %s%s\n", count, weft_reason_name((weft_reason)reason), first,
                          count > 1 ? ", ..." : "");
    }
}

/* How the program compares with the one before the pass; of values that are not proved, the first. */
static void print_proof(buffer *out, const pass_report *of, bool verbose) {
    if (of->not_proved) buffer_format(out, "    not checked: %s\n", of->not_proved);
    if (!of->proof) return;
    buffer_format(out, "    proved in %.1f ms: %s (%zu values, %zu not bit for bit)\n", 1e3 * of->proof_seconds,
                  weft_grade_name(weft_equivalence_grade(of->proof)), weft_equivalence_nvalues(of->proof),
                  weft_equivalence_nfindings(of->proof));
    for (size_t i = 0; i < weft_equivalence_nfindings(of->proof); i++) {
        weft_grade grade;
        const char *message, *var = weft_equivalence_finding(of->proof, i, &grade, &message);
        if (grade < WEFT_NOT_PROVED || (i && !verbose)) break;
        buffer_format(out, "    %s \"%s\": %s\n", weft_grade_name(grade), var, message);
    }
}

static void print_pass(buffer *out, const pass_report *of, bool verbose) {
    buffer_format(out, "%-20s %8.1f ms   ops %zu -> %zu\n", of->name, 1e3 * of->seconds, of->nops_before,
                  of->nops_after);
    size_t shown = !verbose && of->ndid > MOST_DID_LINES ? MOST_DID_LINES : of->ndid;
    for (size_t i = 0; i < shown; i++) buffer_format(out, "    did: %s\n", of->did[i]);
    if (shown < of->ndid) buffer_format(out, "    did: %zu more like these\n", of->ndid - shown);
    for (size_t i = 0; i < of->ncounts; i++)
        buffer_format(out, "    %s: %lld\n", of->counts[i].what, (long long)of->counts[i].amount);
    if (!verbose) print_left_counted(out, of);
    for (size_t i = 0; verbose && i < of->nleft; i++)
        buffer_format(out, "    left alone (%s): %s\n", weft_reason_name(of->left[i].reason), of->left[i].message);
    print_proof(out, of, verbose);
    if (of->failure) buffer_format(out, "    failed: %s\n", of->failure);
}

weft_status weft_report_print(const weft_report *report, bool verbose, char **out_bytes, size_t *out_nbytes) {
    buffer out;
    buffer_init(&out, &report->context->allocator);
    for (size_t i = 0; i < report->npasses; i++) print_pass(&out, &report->passes[i], verbose);
    return buffer_take(&out, out_bytes, out_nbytes);
}
