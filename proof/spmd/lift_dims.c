/* lift_dims.c: which dimensions of an op's arguments go together: a reader of the op's factor table (ops/axes.h).
 *
 * A dimension that ranks hold parts of has an extent that no attr and no other argument may be compared with: it counts
 * as not known. The op that computes a rank's part is taken for the serial one. So a rule by which its attrs would have
 * to differ does not hold here. */
#include "ops/axes.h"
#include "proof/spmd/lift.h"

typedef struct reading {
    const sharded_inputs *in;
    shape *types, *out_types;
    uint32_t *in_first, *out_first;
    axes_placed *placed, *out_placed;
    int64_t *held; /* by input: the rank's extent of what is sharded, or -1 */
    axes_rule rule;
    size_t nin, nout;
    const char *attr; /* that counts what is sharded; NULL: none does */
    int element;      /* of it, where it is a list */
    int split;        /* how what is sharded is split */
    int64_t extent;   /* where the split is not even: the rank's, which all that are sharded must have */
} reading;

/* --- inputs ------------------------------------------------------------------------------------------------------- */

static weft_status make_room(reading *r, const op_schema *s) {
    arena *a = r->in->memory;
    size_t nout = r->in->out_index + 1;
    r->types = ARENA_ARRAY(a, shape, r->in->nargs + 1);
    r->placed = ARENA_ARRAY(a, axes_placed, r->in->nargs + 1);
    r->held = ARENA_ARRAY(a, int64_t, r->in->nargs + 1);
    r->in_first = ARENA_ARRAY(a, uint32_t, s->ninputs + 1);
    r->out_first = ARENA_ARRAY(a, uint32_t, s->noutputs + 1);
    r->out_types = ARENA_ARRAY(a, shape, nout);
    r->out_placed = ARENA_ARRAY(a, axes_placed, nout);
    bool good = r->types && r->placed && r->held && r->in_first && r->out_first && r->out_types && r->out_placed;
    return good ? NULL : base_out_of_memory();
}

/* Extents as far as they are known; that of dimension `whole` is not. */
static bool read_type(const terms *t, uint32_t id, int whole, shape *out) {
    size_t ndim;
    const int64_t *dims = term_dims(t, id, &ndim);
    *out = (shape){.dtype = t->items[id].dtype, .ndim = t->items[id].ndim, .height = -1};
    if (out->dtype == WEFT_DTYPE_NONE) out->dtype = WEFT_FP32; /* its elements may count */
    if (out->ndim < 0 || out->ndim > WEFT_MAX_RANK || whole >= out->ndim) return false;
    for (int d = 0; d < out->ndim; d++) out->dims[d] = dims && d != whole ? dims[d] : -1;
    return true;
}

/* What is sharded is split alike everywhere. */
static bool splits_alike(reading *r, size_t at, bool first) {
    axis_placement p = r->in->args[at].placed[r->in->axis];
    size_t ndim;
    const int64_t *dims = term_dims(r->in->t, r->in->own[at].term, &ndim);
    if (first) r->split = p.split, r->extent = p.split && dims ? dims[p.dim] : -1;
    return p.split == r->split && (!p.split || (dims && dims[p.dim] == r->extent));
}

/* *sharded_before: whether one before it is sharded. An XShape has no elements: ranks may hold it as they like. */
static bool read_input(reading *r, size_t at, bool is_xshape, bool *sharded_before) {
    const lifted *held = &r->in->args[at];
    if (held->state != LIFT_KNOWN) return false;
    if (is_xshape) return r->types[r->nin++] = (shape){.dtype = WEFT_FP32, .ndim = -1, .height = -1}, true;
    axis_placement p = held->placed[r->in->axis];
    if (!read_type(r->in->t, r->in->own[at].term, sharded_dim(p), &r->types[r->nin])) return false;
    if (is_partial(p)) r->placed[r->nin].partial[0] = 1 + WEFT_REDUCE_SUM;
    if (is_sharded(p)) {
        if (!splits_alike(r, at, !*sharded_before)) return false;
        size_t ndim;
        const int64_t *dims = term_dims(r->in->t, r->in->own[at].term, &ndim);
        *sharded_before = true;
        r->placed[r->nin].naxes[p.dim] = 1;
        r->held[r->nin] = dims ? dims[p.dim] : -1;
    }
    r->nin++;
    return true;
}

/* In the schema's order. Those in slots that it does not have, and random numbers, must be replicated. */
static bool read_inputs(reading *r, const op_schema *s) {
    const sharded_inputs *in = r->in;
    bool sharded_before = false;
    size_t nothers = 0, nplain = 0, npartial = 0;
    for (size_t i = 0; i < s->ninputs; i++) {
        const slot *given = op_find_slot(in->op, false, s->inputs[i].name);
        r->in_first[i] = (uint32_t)r->nin;
        for (uint32_t k = 0; given && k < given->nargs; k++) {
            bool is_xshape = strcmp(s->inputs[i].name, "XShape") == 0;
            if (given->first + k >= in->nargs || !read_input(r, given->first + k, is_xshape, &sharded_before))
                return false;
            nothers += !is_replicated(in->args[given->first + k].placed[in->axis]);
        }
    }
    r->in_first[s->ninputs] = (uint32_t)r->nin;
    for (size_t i = 0; i < in->nargs; i++) {
        nplain += !is_replicated(in->args[i].placed[in->axis]);
        npartial += is_partial(in->args[i].placed[in->axis]);
    }
    return (sharded_before ? npartial == 0 : npartial == 1) && nplain == nothers;
}

/* --- the output --------------------------------------------------------------------------------------------------- */

/* The type of what the output is the gradient of; NULL: it is no gradient, or the op does not get that. */
static const shape *find_forward(const reading *r, const op_schema *s, const char *slot_text) {
    for (size_t i = 0; i < s->ninputs; i++) {
        size_t n = strlen(s->inputs[i].name), k = r->in_first[i] + r->in->out_index;
        bool is_of = strncmp(slot_text, s->inputs[i].name, n) == 0 && strcmp(slot_text + n, "@GRAD") == 0;
        if (is_of && k < r->in_first[i + 1]) return &r->types[k];
    }
    return NULL;
}

static bool forget_extents(shape *s) {
    for (int d = 0; d < s->ndim; d++) s->dims[d] = -1;
    return true;
}

/* The output, and those of its slot before it, of which nothing is known. */
static bool describe_output(reading *r, const op_schema *s, uint32_t id) {
    const char *slot_text = term_head(r->in->t, id)->label;
    bool found = false;
    for (size_t i = 0; i < s->noutputs; i++) {
        r->out_first[i] = (uint32_t)r->nout;
        if (strcmp(s->outputs[i].name, slot_text) == 0) r->nout = r->in->out_index + 1, found = true;
    }
    r->out_first[s->noutputs] = (uint32_t)r->nout;
    if (!found) return false;
    for (size_t i = 0; i < r->nout; i++) r->out_types[i] = (shape){.dtype = WEFT_FP32, .ndim = -1, .height = -1};
    shape *own = &r->out_types[r->nout - 1];
    const shape *forward = find_forward(r, s, slot_text);
    if (forward) return *own = *forward, true; /* the ranks' own extents say nothing of what is stretched */
    return read_type(r->in->t, id, -1, own) && forget_extents(own);
}

static bool has_factor(const axes_dim *dim, size_t which) {
    for (int k = 0; k < dim->nfactors; k++)
        if (dim->factors[k] == which) return true;
    return false;
}

static bool shards_factor(const reading *r, size_t which) {
    if (r->rule.factors[which].size == 1) return false; /* the one behind it is */
    for (size_t i = 0; i < r->nin; i++)
        for (int d = 0; d < r->rule.in[i].ndim; d++)
            if (r->placed[i].naxes[d] && has_factor(&r->rule.in[i].dims[d], which)) return true;
    return false;
}

/* Whether the rank has whole groups of the factors behind `k`, as far as these are known: parts of other sizes than
 * even ones may begin within a group. */
static bool has_whole_groups(const reading *r, const axes_dim *dim, int k, int64_t held) {
    int64_t group = 1;
    for (int behind = k + 1; behind < dim->nfactors; behind++) {
        int64_t size = r->rule.factors[dim->factors[behind]].size;
        if (size <= 0 || __builtin_mul_overflow(group, size, &group)) return true;
    }
    return group == 1 || (!r->split && (held < 0 || held % group == 0));
}

static bool counts(const axes_change *c) {
    return c->kind == AXES_EXTENT || c->kind == AXES_ELEMENT;
}

/* Whether an attr counts the factor: a rank's op states how many are in its part. */
static bool is_counted(const reading *r, size_t which) {
    for (size_t i = 0; i < r->rule.nchanges; i++)
        if (counts(&r->rule.changes[i]) && r->rule.changes[i].factor == which) return true;
    return false;
}

/* What is sharded has an extent that is not known; a factor of known extent before it says nothing of the parts. */
static bool knows_factors(const reading *r) {
    for (size_t i = 0; i < r->nin; i++)
        for (int d = 0; d < r->rule.in[i].ndim; d++) {
            const axes_dim *dim = &r->rule.in[i].dims[d];
            int k = 0;
            while (k + 1 < dim->nfactors && r->rule.factors[dim->factors[k]].size == 1) k++;
            if (!r->placed[i].naxes[d]) continue;
            if (!dim->nfactors) return false;
            if (r->rule.factors[dim->factors[k]].size >= 0 && !is_counted(r, dim->factors[k])) return false;
            if (!has_whole_groups(r, dim, k, r->held[i])) return false;
        }
    return true;
}

/* Whether the rank's op would have other attrs than the serial one, but for one that counts even parts. */
static bool changes_attrs(reading *r) {
    for (size_t i = 0; i < r->rule.nchanges; i++) {
        const axes_change *c = &r->rule.changes[i];
        size_t n;
        const int64_t *list = attr_ints(r->in->op, c->attr, &n);
        if (c->kind != AXES_EXTENTS && shards_factor(r, c->factor)) {
            if (!counts(c) || r->split || r->attr) return true;
            r->attr = c->attr;
            r->element = c->kind == AXES_ELEMENT ? (int)c->arg : -1;
        }
        for (size_t d = 0; c->kind == AXES_EXTENTS && d < n && d < WEFT_MAX_RANK; d++)
            if (r->out_placed[c->arg].naxes[d] && list[d] > 0) return true;
    }
    return false;
}

/* How the output lies, from what the rule says; false: not in a way that is followed. */
static bool read_output(const reading *r, uint32_t id, sharded_result *out) {
    const axes_placed *p = &r->out_placed[r->nout - 1];
    size_t ndim;
    const int64_t *dims = term_dims(r->in->t, id, &ndim);
    bool is_mean = p->times || p->partial[0] == 1 + WEFT_REDUCE_AVG;
    int reduce = p->partial[0] - 1;
    out->mean = !is_mean ? 0 : r->split && r->split < SPLIT_RUNS ? r->extent : MEAN_EVEN;
    out->folds = reduce == WEFT_REDUCE_MAX || reduce == WEFT_REDUCE_MIN || reduce == WEFT_REDUCE_PROD;
    bool of_nothing = r->split && r->split < SPLIT_RUNS && r->extent == 0;
    if (of_nothing && (is_mean || out->folds)) return false;
    out->reduce = reduce;
    out->placed = reduce >= 0 && !out->folds ? PARTIAL : REPLICATED;
    if (reduce >= 0) return is_mean || out->folds || reduce == WEFT_REDUCE_SUM;
    for (int d = 0; d < r->out_types[r->nout - 1].ndim; d++) {
        if (!p->naxes[d]) continue;
        out->placed = sharded_by(d, r->split);
        return !r->split || (dims && dims[d] == r->extent);
    }
    return true;
}

/* False: the output is not followed, by the rule as it is. */
static bool follow_rule(reading *r, uint32_t id, sharded_result *out) {
    static const axes_mesh line = {.naxes = 1, .extent = {2}}; /* no extent that is sharded is known */
    memset(r->out_placed, 0, r->nout * sizeof *r->out_placed);
    r->attr = NULL;
    if (axes_follow(&r->rule, &line, r->placed, r->out_placed) || !knows_factors(r) || changes_attrs(r)) return false;
    out->split = r->split;
    out->attr = r->attr;
    out->element = r->element;
    return read_output(r, id, out);
}

/* What the rank's attr counts one of, all ranks may have several of; false: no attr counts one. */
static bool forget_ones(reading *r) {
    bool is_any = false;
    for (size_t i = 0; i < r->rule.nchanges; i++) {
        const axes_change *c = &r->rule.changes[i];
        if (!counts(c) || r->rule.factors[c->factor].size != 1) continue;
        r->rule.factors[c->factor].size = -1;
        is_any = true;
    }
    return is_any;
}

weft_status sharded_output(const sharded_inputs *in, uint32_t id, sharded_result *out) {
    const op_schema *s = op_schema_of(in->op);
    reading r = {.in = in};
    *out = (sharded_result){.is_known = false};
    if (!s) return NULL;
    TRY(make_room(&r, s));
    if (!read_inputs(&r, s) || !describe_output(&r, s, id)) return NULL;
    axes_call call = {in->op, s, r.types, r.out_types, r.in_first, r.out_first};
    TRY(axes_of_op(&call, in->memory, &r.rule));
    out->is_known = follow_rule(&r, id, out);
    if (!out->is_known && forget_ones(&r)) {
        *out = (sharded_result){.is_known = false};
        out->is_known = follow_rule(&r, id, out) && out->attr;
    }
    return NULL;
}
