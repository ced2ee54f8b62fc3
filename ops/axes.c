/* axes.c: the rows of axes.def, and the rule of one op: the first alternative of its row that fits its arguments, bound
 * to their extents. */
#include "ops/axes_build.h"
#include "ops/host_op.h"

enum {
#define OP(type, family, inputs, outputs, attrs, effects, infer, summary) ROW_##type,
#include "ops/ops.def"
#undef OP
    NROWS
};

#define AXES(type, text) [ROW_##type] = {#type, AXES_ROW_RULE, -1, text},
#define AXES_GRAD(type, forward, text) [ROW_##type] = {#type, AXES_ROW_GRAD, ROW_##forward, text},
#define AXES_NONE(type, why) [ROW_##type] = {#type, AXES_ROW_NONE, -1, why},
static const axes_row rows[NROWS] = {
#include "ops/axes.def"
};

const axes_row *axes_rows(size_t *out_count) {
    *out_count = NROWS;
    return rows;
}

const axes_row *axes_row_of(const op_schema *schema) {
    bool known = schema && schema->index >= 0 && schema->index < NROWS;
    if (schema && schema->host) return schema->host->axes.type ? &schema->host->axes : NULL;
    return known && rows[schema->index].type ? &rows[schema->index] : NULL;
}

/* The row of the op that the schema's row is the gradient of. */
static const axes_row *forward_of(const op_schema *schema, const axes_row *row) {
    return schema->host ? schema->host->forward : &rows[row->of];
}

/* --- arguments ---------------------------------------------------------------------------------------------------- */

static weft_status make_args(const shape *types, const uint32_t *first, size_t nslots, arena *a, axes_arg **out) {
    axes_arg *args = ARENA_ARRAY(a, axes_arg, first[nslots] + 1);
    if (!args) return base_out_of_memory();
    for (size_t s = 0; s < nslots; s++)
        for (uint32_t i = first[s]; i < first[s + 1]; i++) {
            const shape *t = &types[i];
            args[i].slot = (int)s;
            args[i].any = t->dtype == WEFT_DTYPE_NONE;
            args[i].ndim = args[i].any ? -1 : t->ndim;
            for (int d = 0; d < args[i].ndim; d++) args[i].extents[d] = t->dims[d];
            if (t->height >= 0 && args[i].ndim > 0) args[i].extents[0] = t->height;
        }
    *out = args;
    return NULL;
}

static weft_status make_rule(const axes_call *c, arena *a, axes_rule *out) {
    *out = (axes_rule){.nin = c->in_first[c->schema->ninputs], .nout = c->out_first[c->schema->noutputs]};
    TRY(make_args(c->in, c->in_first, c->schema->ninputs, a, &out->in));
    return make_args(c->out, c->out_first, c->schema->noutputs, a, &out->out);
}

static void forget(axes_build *b) {
    axes_rule *r = b->rule;
    r->nfactors = r->ngroups = r->nchanges = 0;
    for (size_t i = 0; i < r->nin; i++)
        for (int d = 0; d < r->in[i].ndim; d++) r->in[i].dims[d].nfactors = 0;
    for (size_t i = 0; i < r->nout; i++)
        for (int d = 0; d < r->out[i].ndim; d++) r->out[i].dims[d].nfactors = 0;
    for (int i = 0; i < 26; i++) b->letters[i] = -1, b->letter_size[i] = -2;
    for (int i = 0; i < WEFT_MAX_RANK; i++) b->rest[i] = -1, b->rest_extent[i] = -2, b->stretched[i] = false;
    b->rest_size = 0;
    b->same_outputs = 0;
}

/* --- what outputs lack -------------------------------------------------------------------------------------------- */

static bool has_factor(const axes_arg *x, size_t factor) {
    for (int d = 0; d < x->ndim; d++)
        for (int i = 0; i < x->dims[d].nfactors; i++)
            if (x->dims[d].factors[i] == factor) return true;
    return false;
}

/* The factors over which the pattern's slot is a mean. */
static uint64_t mean_of(const axes_build *b, const axes_pattern *p) {
    const axes_arg *x = axes_arg_of(b, p->slot, 0);
    uint64_t mask = 0;
    for (const char *c = p->mean_of; c && *c && *c != ')'; c++) {
        int factor = *c >= 'a' && *c <= 'z' ? b->letters[*c - 'a'] : -1;
        if (factor >= 0 && factor < 64) mask |= UINT64_C(1) << factor;
    }
    for (size_t f = 0; x && !p->mean_of && f < b->rule->nfactors && f < 64; f++)
        if (!has_factor(x, f)) mask |= UINT64_C(1) << f;
    return mask;
}

static void read_reduces(axes_build *b) {
    axes_rule *r = b->rule;
    uint64_t means = 0;
    for (int i = 0; b->is_grad && i < b->text->npatterns; i++)
        if (b->text->patterns[i].is_mean) means |= mean_of(b, &b->text->patterns[i]);
    for (size_t i = 0; i < r->nout; i++) {
        const axes_pattern *p = axes_pattern_of(b, &r->out[i], true);
        bool is_own = p && p->nitems && p->items[0].kind == AXES_OWN_REST; /* it depends on its own arguments alone */
        is_own = is_own || (b->same_outputs >> r->out[i].slot & 1);
        r->out[i].reduce = is_own ? AXES_NONE : p && !b->is_grad ? p->reduce : WEFT_REDUCE_SUM;
        r->out[i].mean = b->is_grad ? means : p && p->is_mean ? mean_of(b, p) : 0;
        for (size_t s = 0; s < b->call->schema->ninputs && s < 64; s++)
            if (b->call->schema->inputs[s].only_type) r->out[i].unread |= UINT64_C(1) << s;
    }
    for (size_t i = 0; i < r->nin; i++) {
        const axes_pattern *p = axes_pattern_of(b, &r->in[i], false);
        r->in[i].any |= p && p->kind == '*';
    }
}

/* Rows are given by index: which they are depends on all of them. */
static void keep_rows_whole(axes_build *b, const shape *types, axes_arg *args, size_t n) {
    for (size_t i = 0; i < n; i++)
        for (int k = 0; types[i].height >= 0 && args[i].ndim > 0 && k < args[i].dims[0].nfactors; k++)
            b->rule->factors[args[i].dims[0].factors[k]].why = "rows are given by index";
}

/* --- one alternative ---------------------------------------------------------------------------------------------- */

static weft_status malformed(const axes_row *row, const char *wrong) {
    return weft_status_create(WEFT_INVALID_ARGUMENT, "axes.def", "row %s: %s", row->type, wrong);
}

static bool has_group(const axes_text *t) {
    static const char *const verbs[] = {"linear", "moves", "rises", "affine", "max", "min", "prod"};
    for (int i = 0; i < t->nclauses; i++)
        for (size_t k = 0; k < sizeof verbs / sizeof *verbs; k++)
            if (strcmp(t->clauses[i].words[0], verbs[k]) == 0) return true;
    return false;
}

static weft_status try_alternative(axes_build *b, const axes_row *row, const axes_text *more, bool *out_fits) {
    axes_function function = b->text->nwords ? axes_find_function(b->text->words[0]) : NULL;
    const char *wrong = NULL;
    if (b->text->nwords && !function) return malformed(row, "there is no such function");
    forget(b);
    *out_fits = false;
    if (!axes_holds(b, &b->text->when)) return NULL;
    axes_read_sizes(b);
    if (!axes_bind(b) || (function && !function(b, b->text->words + 1, b->text->nwords - 1))) return NULL;
    *out_fits = true;
    read_reduces(b);
    axes_default_groups(b, has_group(b->text));
    wrong = axes_apply_clauses(b, b->text);
    if (!wrong && more) wrong = axes_apply_clauses(b, more);
    if (wrong) return malformed(row, wrong);
    keep_rows_whole(b, b->call->in, b->rule->in, b->rule->nin);
    keep_rows_whole(b, b->call->out, b->rule->out, b->rule->nout);
    return NULL;
}

static weft_status copy_text(const axes_row *row, const char *from, size_t n, char out[AXES_TEXT]) {
    if (n >= AXES_TEXT) return malformed(row, "the text is too long");
    memcpy(out, from, n);
    out[n] = 0;
    return NULL;
}

static weft_status try_all(axes_build *b, const axes_row *row, const axes_row *forward, bool *out_fits) {
    char bytes[AXES_TEXT], more_bytes[AXES_TEXT];
    axes_text parsed, more;
    bool adds = forward != row;
    TRY(copy_text(row, row->text, strlen(row->text), more_bytes));
    const char *wrong = adds ? axes_text_parse(more_bytes, true, &more) : NULL;
    for (const char *at = forward->text; at && !wrong && !*out_fits;) {
        size_t n = strcspn(at, "|");
        TRY(copy_text(forward, at, n, bytes));
        at = at[n] ? at + n + 1 : NULL;
        if ((wrong = axes_text_parse(bytes, false, &parsed))) break;
        b->text = &parsed;
        TRY(try_alternative(b, row, adds ? &more : NULL, out_fits));
    }
    return wrong ? malformed(row, wrong) : NULL;
}

weft_status axes_check_row(const op_schema *schema) {
    const axes_row *row = axes_row_of(schema);
    char bytes[AXES_TEXT];
    axes_text parsed;
    const char *wrong = NULL;
    for (const char *at = row ? row->text : NULL; at && !wrong;) {
        size_t n = strcspn(at, "|");
        TRY(copy_text(row, at, n, bytes));
        at = at[n] ? at + n + 1 : NULL;
        wrong = axes_text_parse(bytes, row->kind == AXES_ROW_GRAD, &parsed);
    }
    if (!wrong) return NULL;
    return weft_status_create(WEFT_INVALID_ARGUMENT, schema->type, "axes \"%s\": %s", row->text, wrong);
}

weft_status axes_read_side(weft_op *op, bool output, const shape_env *env, arena *a, axes_side *out) {
    const op_schema *schema = op_schema_of(op);
    const slot_schema *slots = output ? schema->outputs : schema->inputs;
    size_t nslots = output ? schema->noutputs : schema->ninputs, nargs = op_nargs(op, output);
    *out = (axes_side){.types = ARENA_ARRAY(a, shape, nargs + 1),
                       .first = ARENA_ARRAY(a, uint32_t, nslots + 1),
                       .uses = ARENA_ARRAY(a, use *, nargs + 1)};
    if (!out->types || !out->first || !out->uses) return base_out_of_memory();
    for (size_t i = 0; i < nslots; i++) {
        const slot *found = op_find_slot(op, output, slots[i].name);
        out->first[i] = (uint32_t)out->count;
        for (size_t k = 0; found && k < found->nargs; k++, out->count++) {
            use *u = out->uses[out->count] = &slot_args(op, found)[k];
            const weft_var *v = use_var(op->program, u);
            out->types[out->count] = env ? shape_env_get(env, v) : shape_of_var(v);
        }
    }
    out->first[nslots] = (uint32_t)out->count;
    return NULL;
}

weft_status axes_of_op(const axes_call *call, arena *a, axes_rule *out) {
    axes_factor factors[AXES_FACTORS];
    const axes_row *row = axes_row_of(call->schema);
    bool fits = false;
    TRY(make_rule(call, a, out));
    if (!row || row->kind == AXES_ROW_NONE) return out->why_none = row ? row->text : "axes.def has no row for it", NULL;
    axes_build b = {.call = call, .rule = out, .is_grad = row->kind == AXES_ROW_GRAD};
    out->factors = factors;
    TRY(try_all(&b, row, b.is_grad ? forward_of(call->schema, row) : row, &fits));
    if (!fits) out->why_none = "its arguments do not have the dimensions of its row", out->nfactors = 0;
    out->factors = arena_copy(a, factors, (out->nfactors + 1) * sizeof *factors);
    return out->factors ? NULL : base_out_of_memory();
}

/* --- what a row says of a type ------------------------------------------------------------------------------------ */

bool axes_reads(const op_schema *schema, const char *out_slot, const char *in_slot) {
    const axes_row *row = axes_row_of(schema);
    char bytes[AXES_TEXT];
    axes_text own;
    bool has_clauses = row && row->kind == AXES_ROW_GRAD && strlen(row->text) < sizeof bytes;
    if (!has_clauses) return true;
    memcpy(bytes, row->text, strlen(row->text) + 1);
    if (axes_text_parse(bytes, true, &own)) return true;
    for (int i = 0; i < own.nclauses; i++) {
        const axes_clause *c = &own.clauses[i];
        if (strcmp(c->words[0], "unread") != 0 || c->when.count || strcmp(c->words[1], out_slot) != 0) continue;
        for (int k = 2; k < c->nwords; k++)
            if (strcmp(c->words[k], in_slot) == 0) return false;
    }
    return true;
}

bool axes_only_reshapes(const op_schema *schema) {
    static const char *const functions[] = {"@reshape ", "@squeeze ", "@unsqueeze "};
    const axes_row *row = axes_row_of(schema);
    if (row && row->kind == AXES_ROW_GRAD) row = forward_of(schema, row);
    for (size_t i = 0; row && i < sizeof functions / sizeof *functions; i++)
        if (strncmp(row->text, functions[i], strlen(functions[i])) == 0) return row->kind == AXES_ROW_RULE;
    return false;
}
