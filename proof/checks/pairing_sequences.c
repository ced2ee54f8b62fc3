/* pairing_sequences.c: what two members of a ring issue on it, compared.
 *
 * By kind, element type, count, root and reduction: the first difference hangs the ring. Where all of that agrees, what
 * is reduced must agree too: a value that both ranks move on the ring must be moved in one collective, at one place in
 * it. Names that only one of them knows say nothing. */
#include <stdlib.h>

#include "proof/checks/pairing.h"

/* --- a difference ------------------------------------------------------------------------------------------------- */

static const char *dtype_word(int32_t dtype) {
    const char *word = weft_dtype_name((weft_dtype)dtype);
    return word ? word : "no type";
}

static const char *reduce_word(int reduce) {
    static const char *const names[] = {"sum", "max", "min", "prod", "avg", "any", "all"};
    return reduce >= 0 && reduce < 7 ? names[reduce] : "none";
}

/* Words for the first difference; NULL if there is none. `verdict`: what comes of it. */
static weft_status difference(pairing *p, const proof_collective *x, const proof_collective *y, weft_verdict *verdict,
                              const char **out) {
    *out = NULL;
    *verdict = WEFT_VERDICT_DEADLOCK;
    if (strcmp(x->word, y->word) != 0) return finding_says(p->findings, out, "%s against %s", x->word, y->word);
    if (x->dtype != y->dtype)
        return finding_says(p->findings, out, "%s against %s", dtype_word(x->dtype), dtype_word(y->dtype));
    if (x->count >= 0 && y->count >= 0 && x->count != y->count)
        return finding_says(p->findings, out, "%lld elements against %lld", (long long)x->count, (long long)y->count);
    if (x->root != y->root)
        return finding_says(p->findings, out, "root %lld against %lld", (long long)x->root, (long long)y->root);
    *verdict = WEFT_VERDICT_WRONG_DATA;
    if (x->reduce != y->reduce)
        return finding_says(p->findings, out, "%s against %s", reduce_word(x->reduce), reduce_word(y->reduce));
    if (x->history != y->history)
        return finding_says(p->findings, out, "other collectives moved this value before on the one than on the other");
    return NULL;
}

static weft_status report_pair(pairing *p, weft_verdict verdict, const proof_collective *x, const proof_collective *y,
                               uint32_t k, const char *what) {
    weft_finding *found;
    char x_text[256], y_text[256];
    TRY(finding_add(p->findings, verdict, &found));
    if (!found) return NULL;
    found->ring = p->ring;
    TRY(finding_op(p->findings, found, p->a->schedule, x->event, p->a_rank, "communicates"));
    TRY(finding_op(p->findings, found, p->b->schedule, y->event, p->b_rank, "communicates"));
    finding_op_text(&found->ops[0], x_text, sizeof x_text);
    finding_op_text(&found->ops[1], y_text, sizeof y_text);
    return finding_says(p->findings, &found->message,
                        "ring %lld: collective number %u is %s on rank %lld and %s on rank %lld: %s",
                        (long long)p->ring, k, x_text, (long long)p->a_rank, y_text, (long long)p->b_rank, what);
}

static weft_status report_missing(pairing *p, bool b_lacks, uint32_t k) {
    const proof_class *more = b_lacks ? p->a : p->b;
    const proof_collective *extra = sequence_at(more, b_lacks ? p->a_list : p->b_list, k);
    int64_t has = b_lacks ? p->a_rank : p->b_rank, lacks = b_lacks ? p->b_rank : p->a_rank;
    weft_finding *found;
    char message[256];
    TRY(finding_add(p->findings, WEFT_VERDICT_DEADLOCK, &found));
    if (!found) return NULL;
    found->ring = p->ring;
    TRY(finding_op(p->findings, found, more->schedule, extra->event, has, "communicates"));
    return finding_says(p->findings, &found->message,
                        "ring %lld: rank %lld issues %s as collective number %u, rank %lld issues only %u",
                        (long long)p->ring, (long long)has, finding_op_text(&found->ops[0], message, sizeof message), k,
                        (long long)lacks, k);
}

/* --- what is reduced ---------------------------------------------------------------------------------------------- */

typedef struct part {
    const char *name;
    int64_t offset;
    uint32_t k;
} part;

static int compare_parts(const void *x, const void *y) {
    const part *a = x, *b = y;
    int by_name = strcmp(a->name, b->name);
    if (by_name) return by_name;
    if (a->k != b->k) return a->k < b->k ? -1 : 1;
    return (a->offset > b->offset) - (a->offset < b->offset);
}

static weft_status list_parts(arena *a, const proof_class *c, const ring_sequence *list, part **out, size_t *out_n) {
    size_t n = 0;
    for (uint32_t k = 0; k < list->count; k++) n += sequence_at(c, list, k)->nmembers;
    part *parts = ARENA_ARRAY(a, part, n + 1);
    if (!parts) return base_out_of_memory();
    n = 0;
    for (uint32_t k = 0; k < list->count; k++) {
        const proof_collective *x = sequence_at(c, list, k);
        for (uint32_t m = 0; m < x->nmembers; m++) {
            const proof_member *of = &c->schedule->members[x->first_member + m];
            parts[n++] = (part){of->name, of->offset, k};
        }
    }
    if (n > 1) qsort(parts, n, sizeof *parts, compare_parts);
    *out = parts;
    *out_n = n;
    return NULL;
}

static size_t run_length(const part *parts, size_t i, size_t n) {
    size_t end = i + 1;
    while (end < n && strcmp(parts[end].name, parts[i].name) == 0) end++;
    return end - i;
}

static weft_status report_parts(pairing *p, const part *x, const part *y) {
    const char *what;
    TRY(finding_says(
        p->findings, &what,
        "\"%s\" is moved by collective number %u at byte %lld on the one, by number %u at byte %lld on the "
        "other",
        x->name, x->k, (long long)x->offset, y->k, (long long)y->offset));
    const proof_collective *mine = sequence_at(p->a, p->a_list, x->k), *theirs = sequence_at(p->b, p->b_list, x->k);
    return report_pair(p, WEFT_VERDICT_WRONG_DATA, mine, theirs, x->k, what);
}

/* Whether two collectives move the same parts in one order. */
static bool same_members(const pairing *p, const proof_collective *x, const proof_collective *y) {
    const proof_member *a = p->a->schedule->members + x->first_member, *b = p->b->schedule->members + y->first_member;
    if (x->nmembers != y->nmembers) return false;
    if (p->a->moved && p->b->moved &&
        mixture_equal(&p->a->moved[x - p->a->schedule->collectives], &p->b->moved[y - p->b->schedule->collectives]))
        return true;
    for (uint32_t i = 0; i < x->nmembers; i++)
        if (a[i].offset != b[i].offset || strcmp(a[i].name, b[i].name) != 0) return false;
    return true;
}

static weft_status compare_contents(pairing *p) {
    part *x, *y;
    size_t nx, ny, i = 0, k = 0;
    TRY(list_parts(p->arena, p->a, p->a_list, &x, &nx));
    TRY(list_parts(p->arena, p->b, p->b_list, &y, &ny));
    const part *first_x = NULL, *first_y = NULL; /* the difference that comes first in the sequence */
    while (i < nx && k < ny) {
        int by_name = strcmp(x[i].name, y[k].name);
        size_t x_run = run_length(x, i, nx), y_run = run_length(y, k, ny);
        for (size_t n = 0; by_name == 0 && x_run == y_run && n < x_run; n++)
            if ((x[i + n].k != y[k + n].k || x[i + n].offset != y[k + n].offset) &&
                (!first_x || x[i + n].k < first_x->k))
                first_x = &x[i + n], first_y = &y[k + n];
        if (by_name <= 0) i += x_run;
        if (by_name >= 0) k += y_run;
    }
    return first_x ? report_parts(p, first_x, first_y) : NULL;
}

/* --- both --------------------------------------------------------------------------------------------------------- */

weft_status pairing_compare(pairing *p) {
    static const ring_sequence none = {0};
    if (!p->a_list) p->a_list = &none;
    if (!p->b_list) p->b_list = &none;
    uint32_t n = p->a_list->count < p->b_list->count ? p->a_list->count : p->b_list->count;
    bool is_wrong = false, is_same = true; /* what moves wrong data goes on, and may hang later */
    for (uint32_t k = 0; k < n; k++) {
        const proof_collective *x = sequence_at(p->a, p->a_list, k), *y = sequence_at(p->b, p->b_list, k);
        weft_verdict verdict;
        const char *what;
        TRY(difference(p, x, y, &verdict, &what));
        bool hangs = what && verdict == WEFT_VERDICT_DEADLOCK;
        if (what && (hangs || !is_wrong)) TRY(report_pair(p, verdict, x, y, k, what));
        if (hangs) return NULL;
        is_wrong |= what != NULL;
        is_same &= same_members(p, x, y);
    }
    if (p->a_list->count != p->b_list->count) return report_missing(p, p->a_list->count > n, n);
    return is_wrong || is_same ? NULL : compare_contents(p);
}
