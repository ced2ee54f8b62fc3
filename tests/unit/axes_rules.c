/* Rules of axes.def hold of the kernels: 0 wrong, over all recorded ops and over made ones (axes_rules_cases.inc).
 *
 * With WEFT_AXES_REPORT=FILE what was checked, what is missing and what has no rule is written there as markdown, in
 * place of what follows a marker. */
#include <criterion/criterion.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/axes_check.h"
#include "tests/support/fixtures.h"
#include "tests/support/must.h"
#include "tests/support/ops_fixture.h"

static axes_check begin_check(bool finds_missing) {
    axes_check c = {.finds_missing = finds_missing};
    must(weft_context_create(NULL, &c.context));
    c.tallies = calloc(ops_count(c.context), sizeof *c.tallies);
    cr_assert(c.tallies);
    for (size_t i = 0; c.finds_missing && i < ops_count(c.context); i++)
        c.tallies[i].missing = calloc(AXES_MISSING, sizeof *c.tallies[i].missing);
    return c;
}

static void end_check(axes_check *c) {
    for (size_t i = 0; i < ops_count(c->context); i++) free(c->tallies[i].missing);
    free(c->tallies);
    weft_context_destroy(c->context);
}

/* None is wrong; *out_nplacements: how many hold. */
static size_t expect_none_wrong(const axes_check *c, size_t *out_nplacements) {
    size_t nops = 0;
    *out_nplacements = 0;
    for (size_t i = 0; i < ops_count(c->context); i++) {
        const axes_tally *t = &c->tallies[i];
        nops += t->nchecked > 0;
        *out_nplacements += t->nchecked;
        cr_expect_eq(t->nwrong, 0, "%s: %zu placements are not as its rule says: %s", ops_at(c->context, i)->type,
                     t->nwrong, t->wrong);
    }
    return nops;
}

/* --- recorded ops ------------------------------------------------------------------------------------------------- */

static void check_folder(axes_check *c, char *dir) {
    char pattern[640], why[400] = "";
    glob_t found;
    const char *op = strrchr(dir, '/') + 1;
    snprintf(pattern, sizeof pattern, "%s/*.pdmodel", dir);
    if (glob(pattern, 0, NULL, &found) != 0) return;
    for (size_t i = 0; i < found.gl_pathc; i++) {
        char *variant = strrchr(found.gl_pathv[i], '/') + 1;
        variant[strlen(variant) - strlen(".pdmodel")] = 0;
        if (ops_fixture_is_known(c->context, "ops", op, variant)) continue;
        cr_expect_neq(ops_fixture_run_axes(c->context, dir, variant, c, why, sizeof why), OPS_FAILED, "%s/%s: %s", op,
                      variant, why);
    }
    globfree(&found);
}

static bool check_recorded(axes_check *c) {
    glob_t found;
    if (fixture_glob_ops("*", &found) != 0) return false;
    for (size_t i = 0; i < found.gl_pathc; i++) check_folder(c, found.gl_pathv[i]);
    globfree(&found);
    return true;
}

Test(axes_rules, hold_of_recorded_ops) {
    axes_check c = begin_check(false);
    size_t nplacements;
    if (!check_recorded(&c)) cr_skip_test("no recordings here");
    cr_expect_gt(expect_none_wrong(&c, &nplacements), 40);
    cr_expect_gt(nplacements, 4000);
    end_check(&c);
}

/* --- made ops ----------------------------------------------------------------------------------------------------- */

/* Inputs as "slot:2,3", a letter before the extents for another type than float32 (l int64, i int32, o bool), "<9"
 * behind them for integers below 9; outputs as slots, apart by spaces; attrs as "axis=1 shape=2,3". */
typedef struct made_case {
    const char *type, *inputs, *outputs, *attrs;
} made_case;

static const made_case cases[] = {
#include "tests/unit/axes_rules_cases.inc"
};

enum { ARGS = 12, ELEMENTS = 4096 };

typedef struct made {
    weft_op *op;
    tensor in[ARGS], out[ARGS];
    uint32_t in_first[ARGS * 2], out_first[ARGS * 2];
    double room[ARGS][ELEMENTS];
} made;

static void fill(tensor *t, int64_t below, uint32_t seed) {
    for (int64_t i = 0; i < t->numel; i++) {
        seed = seed * 1664525u + 1013904223u;
        uint32_t h = seed >> 8;
        switch ((int)t->dtype) {
        case WEFT_INT64: ((int64_t *)t->data)[i] = h % below; break;
        case WEFT_INT32: ((int32_t *)t->data)[i] = (int32_t)(h % below); break;
        case WEFT_BOOL: ((uint8_t *)t->data)[i] = h % 2; break;
        default: ((float *)t->data)[i] = (float)(1 + h % 97) / 16; break;
        }
    }
}

/* One input, as text; returns behind it. */
static const char *read_input(const char *at, tensor *t, double *room, char slot_text[32], uint32_t seed) {
    int nbytes = 0;
    int64_t below = 2;
    cr_assert_eq(sscanf(at, " %31[^:]:%n", slot_text, &nbytes), 1, "\"%s\"", at);
    at += nbytes;
    *t = (tensor){.data = room, .dtype = WEFT_FP32, .numel = 1, .height = -1};
    if (*at == 'l' || *at == 'i' || *at == 'o')
        t->dtype = *at == 'l' ? WEFT_INT64 : *at == 'i' ? WEFT_INT32 : WEFT_BOOL, at++;
    while (*at && *at != ' ' && *at != '<') {
        char *end;
        t->numel *= t->dims[t->ndim++] = strtoll(at, &end, 10);
        at = end + (*end == ',');
    }
    cr_assert(t->numel <= ELEMENTS);
    if (*at == '<') {
        char *end;
        below = strtoll(at + 1, &end, 10);
        at = end;
    }
    fill(t, below, seed);
    return at + (*at == ' ');
}

static void set_attr(weft_op *op, const char *n, const char *value) {
    const op_schema *s = op_schema_of(op);
    int64_t list[16];
    size_t count = 0, i = 0;
    weft_attr *a;
    while (i < s->nattrs && strcmp(s->attrs[i].name, n) != 0) i++;
    cr_assert_lt(i, s->nattrs, "%s has no attr %s", s->type, n);
    switch ((int)s->attrs[i].type) {
    case ATTR_FLOAT: must(weft_op_set_attr_float(op, n, strtod(value, NULL))); return;
    case ATTR_BOOLEAN: must(weft_op_set_attr_bool(op, n, *value == '1')); return;
    case ATTR_STRING: must(weft_op_set_attr_string(op, n, value)); return;
    case ATTR_FLOAT64:
        must(op_set_attr(op, n, &a));
        a->type = ATTR_FLOAT64;
        a->u.f = strtod(value, NULL);
        return;
    case ATTR_INTS:
    case ATTR_LONGS:
        while (*value) {
            char *end;
            list[count++] = strtoll(value, &end, 10);
            value = end + (*end == ',');
        }
        must(weft_op_set_attr_longs(op, n, count, list));
        return;
    default: must(weft_op_set_attr_int(op, n, strtoll(value, NULL, 10))); return;
    }
}

static void set_attrs(weft_op *op, const char *at) {
    while (*at) {
        char attr[32], value[64] = "";
        cr_assert_geq(sscanf(at, " %31[^= ]=%63[^ ]", attr, value), 1, "\"%s\"", at);
        set_attr(op, attr, value);
        at = strchr(at + 1, ' ') ? strchr(at + 1, ' ') : "";
    }
}

static void read_inputs(made *m, const char *from) {
    const op_schema *s = op_schema_of(m->op);
    uint32_t n = 0;
    for (size_t i = 0; i < s->ninputs; i++) {
        m->in_first[i] = n;
        uint32_t seed = 7;
        for (const char *at = from; *at; seed += 1000) {
            char slot_text[32];
            tensor t;
            at = read_input(at, &t, m->room[n], slot_text, seed);
            if (strcmp(slot_text, s->inputs[i].name) == 0) m->in[n++] = t;
        }
    }
    m->in_first[s->ninputs] = n;
}

static void read_outputs(made *m, const char *from) {
    const op_schema *s = op_schema_of(m->op);
    uint32_t n = 0;
    for (size_t i = 0; i < s->noutputs; i++) {
        m->out_first[i] = n;
        size_t nbytes = strlen(s->outputs[i].name);
        for (const char *at = from; (at = strstr(at, s->outputs[i].name)); at += nbytes) {
            if ((at > from && at[-1] != ' ') || (at[nbytes] && at[nbytes] != ' ')) continue;
            m->out[n++] = (tensor){.dtype = WEFT_FP32, .height = -1};
        }
    }
    m->out_first[s->noutputs] = n;
}

static void check_case(axes_check *c, const made_case *k) {
    made *m = calloc(1, sizeof *m);
    weft_program *program;
    cr_assert(m);
    must(weft_program_create(c->context, &program));
    must(weft_op_create(program, k->type, &m->op));
    set_attrs(m->op, k->attrs);
    read_inputs(m, k->inputs);
    read_outputs(m, k->outputs);
    axes_tally *t = &c->tallies[op_schema_of(m->op)->index];
    size_t before = t->nchecked + t->nwrong;
    axes_check_op(c, m->op, m->in, m->in_first, m->out, m->out_first);
    cr_expect_gt(t->nchecked + t->nwrong, before, "%s of %s: nothing may be split", k->type, k->inputs);
    weft_program_destroy(program);
    free(m);
}

static void check_made(axes_check *c) {
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) check_case(c, &cases[i]);
}

/* --- the report --------------------------------------------------------------------------------------------------- */

enum { MOST_LISTED = 6 };

static const char marker[] = "## What was checked\n";

static bool is_missing(const axes_missing *m) {
    return m->nheld == m->ntried && m->ntried > 1;
}

static bool is_listed(const axes_missing *m) {
    return is_missing(m) && m->sums;
}

/* A line a family: how many ops and placements, and what was not checked. */
static void write_families(const axes_check *c, FILE *f) {
    size_t n = ops_count(c->context);
    fprintf(f, "| family | ops | with a rule | checked | placements | missing | without a rule |\n"
               "| --- | --- | --- | --- | --- | --- | --- |\n");
    for (size_t first = 0; first < n; first++) {
        const char *family = ops_at(c->context, first)->family;
        size_t nops = 0, nrules = 0, nchecked = 0, nplacements = 0, nmissing = 0;
        bool seen = false;
        for (size_t i = 0; i < first; i++) seen |= strcmp(ops_at(c->context, i)->family, family) == 0;
        for (size_t i = first; i < n && !seen; i++) {
            if (strcmp(ops_at(c->context, i)->family, family) != 0) continue;
            const axes_tally *t = &c->tallies[i];
            bool rule = axes_row_of(ops_at(c->context, i))->kind != AXES_ROW_NONE;
            nops++;
            nrules += rule;
            nchecked += rule && t->nchecked > 0;
            nplacements += t->nchecked;
            for (size_t k = 0; k < t->nmissing; k++) nmissing += is_missing(&t->missing[k]);
        }
        if (!seen)
            fprintf(f, "| %s | %zu | %zu | %zu | %zu | %zu | %zu |\n", family, nops, nrules, nchecked, nplacements,
                    nmissing, nops - nrules);
    }
}

static void write_lists(const axes_check *c, FILE *f) {
    fprintf(f, "\n### Without a rule\n| op | why |\n| --- | --- |\n");
    for (size_t i = 0; i < ops_count(c->context); i++) {
        const axes_row *row = axes_row_of(ops_at(c->context, i));
        if (row->kind == AXES_ROW_NONE) fprintf(f, "| %s | %s |\n", row->type, row->text);
    }
    fprintf(
        f,
        "\n### With a rule, not checked\nOps that draw random numbers, and ops without a kernel on CPUs or without a "
        "recording that can be split:\n");
    size_t n = 0;
    for (size_t i = 0; i < ops_count(c->context); i++) {
        bool rule = axes_row_of(ops_at(c->context, i))->kind != AXES_ROW_NONE;
        if (rule && !c->tallies[i].nchecked) fprintf(f, "%s%s", n++ ? ", " : "", ops_at(c->context, i)->type);
    }
    fprintf(f, ".\n\n### Missing\n| op | inputs | outputs |\n| --- | --- | --- |\n");
    for (size_t i = 0; i < ops_count(c->context); i++) {
        size_t nlisted = 0;
        for (size_t k = 0; k < c->tallies[i].nmissing; k++) {
            const axes_missing *m = &c->tallies[i].missing[k];
            if (!is_listed(m) || nlisted++ >= MOST_LISTED) continue;
            fprintf(f, "| %s | %s | %s |\n", ops_at(c->context, i)->type, m->in, m->out);
        }
        if (nlisted > MOST_LISTED)
            fprintf(f, "| %s | %zu more | |\n", ops_at(c->context, i)->type, nlisted - MOST_LISTED);
    }
}

/* Keeps what stands before the marker. */
static void write_report(const axes_check *c, const char *path) {
    char *kept = calloc(1, 1 << 16);
    FILE *f = fopen(path, "r");
    cr_assert(kept);
    if (f) {
        (void)!fread(kept, 1, (1 << 16) - 1, f);
        fclose(f);
    }
    char *at = strstr(kept, marker);
    if (at) *at = 0;
    f = fopen(path, "w");
    cr_assert(f, "%s", path);
    fprintf(f, "%s%s", kept, marker);
    write_families(c, f);
    write_lists(c, f);
    cr_assert_eq(fclose(f), 0);
    free(kept);
}

Test(axes_rules, report) {
    const char *path = getenv("WEFT_AXES_REPORT");
    if (!path) return;
    axes_check c = begin_check(true);
    check_made(&c);
    cr_assert(check_recorded(&c));
    write_report(&c, path);
    end_check(&c);
}

Test(axes_rules, hold_of_made_ops) {
    axes_check c = begin_check(false);
    size_t nplacements;
    check_made(&c);
    (void)expect_none_wrong(&c, &nplacements);
    cr_expect_gt(nplacements, 100);
    end_check(&c);
}
