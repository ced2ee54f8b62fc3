/* collective_list.c: collectives whose buffers come in parts: several tensors reduced at once, an argument for each
 * rank of the ring, or a tensor cut at extents of the op's own.
 *
 * The parts go to the engine as they lie: nothing is packed, so nothing is copied but what the collective moves. */
#include "executor/kernels/collective/collective.h"
#include "ops/collectives.h"

typedef enum side_form {
    WHOLE, /* one tensor, in equal parts if the kind has parts */
    LIST,  /* an argument for each part */
    CUT    /* one tensor, part after part, of `counts` elements each */
} side_form;

/* What a member gives, or what it gets. */
typedef struct side {
    side_form form;
    int64_t nparts;
    int64_t *counts; /* LIST and CUT: elements of each part */
    void **parts;    /* room for their addresses */
} side;

typedef struct list_state {
    comm_request request; /* all but the addresses */
    side given, got;
} list_state;

static weft_status make_parts(const kernel_prepare *p, side *s, side_form form, int64_t nparts) {
    s->form = form;
    s->nparts = nparts;
    s->counts = ARENA_ARRAY(p->arena, int64_t, (size_t)nparts + 1);
    s->parts = ARENA_ARRAY(p->arena, void *, (size_t)nparts + 1);
    return s->counts && s->parts ? NULL : base_out_of_memory();
}

/* The arguments of a list, all of the ring's element type: *dtype, or where that is none that of the first. */
static weft_status take_list(const kernel_prepare *p, bool output, weft_dtype *dtype, side *s) {
    const tensor *args = output ? p->out + p->out_first[0] : p->in + p->in_first[0];
    uint32_t n = output ? p->out_first[1] - p->out_first[0] : p->in_first[1] - p->in_first[0];
    const char *slot_name = output ? p->schema->outputs[0].name : p->schema->inputs[0].name;
    TRY(make_parts(p, s, LIST, n));
    for (uint32_t k = 0; k < n; k++) {
        TRY(require_ring_type(p, &args[k]));
        if (*dtype == WEFT_DTYPE_NONE) *dtype = args[k].dtype;
        if (args[k].dtype != *dtype)
            return kernel_unsupported(p, "expected one element type for all tensors, found %s and %s in %s",
                                      dtype_text(*dtype), dtype_text(args[k].dtype), slot_name);
        s->counts[k] = args[k].numel;
    }
    return NULL;
}

static weft_status require_nparts(const kernel_prepare *p, const side *s, const char *slot_name) {
    if (s->nparts == p->ring_nranks) return NULL;
    return kernel_unsupported(p, "expected an argument of %s for each of the %d ranks, found %lld", slot_name,
                              p->ring_nranks, (long long)s->nparts);
}

/* As many elements in each part. */
static weft_status require_counts(const kernel_prepare *p, const side *s, int64_t count, const char *slot_name) {
    for (int64_t k = 0; k < s->nparts; k++)
        if (s->counts[k] != count)
            return kernel_unsupported(p, "expected %lld elements in each argument of %s, found %lld in number %lld",
                                      (long long)count, slot_name, (long long)s->counts[k], (long long)k);
    return NULL;
}

static void ask(const kernel_call *c, int round, comm_request *out_request);
static const kernel_rounds list_rounds = {1, ask, NULL};

static weft_status begin(kernel_prepare *p, list_state **out) {
    list_state *s = KERNEL_STATE(p, list_state);
    if (!s) return base_out_of_memory();
    s->request = (comm_request){.kind = comm_kind_of(p->op), .dtype = WEFT_DTYPE_NONE, .op = p->schema->type};
    TRY(read_ring_attrs(p, &s->request.reduce, &s->request.root));
    if (p->ring_nranks > 1) p->rounds = &list_rounds;
    *out = s;
    return NULL;
}

/* Of several tensors at once: on one side whole tensors of nranks parts, or on both. */
static weft_status prepare_coalesced(kernel_prepare *p) {
    list_state *s = NULL;
    TRY(begin(p, &s));
    int64_t in_parts = s->request.kind == COMM_REDUCE_SCATTER ? p->ring_nranks : 1;
    int64_t out_parts = s->request.kind == COMM_ALL_GATHER ? p->ring_nranks : 1;
    TRY(take_list(p, false, &s->request.dtype, &s->given));
    TRY(take_list(p, true, &s->request.dtype, &s->got));
    if (!s->given.nparts || s->given.nparts != s->got.nparts)
        return kernel_unsupported(p, "expected as many outputs as inputs, and some, found %lld and %lld",
                                  (long long)s->got.nparts, (long long)s->given.nparts);
    for (int64_t k = 0; k < s->given.nparts; k++) {
        int64_t part = s->given.counts[k] / in_parts;
        if (s->given.counts[k] % in_parts || part * out_parts != s->got.counts[k])
            return kernel_unsupported(p, "expected %lld elements in output %lld, found %lld",
                                      (long long)(part * out_parts), (long long)k, (long long)s->got.counts[k]);
        s->given.counts[k] = s->got.counts[k] = part;
        s->request.count += part;
    }
    s->request.nparts = s->given.nparts;
    return NULL;
}

static weft_status prepare_all_gather_list(kernel_prepare *p) {
    list_state *s = NULL;
    const tensor *x = type_in(p, 0);
    TRY(begin(p, &s));
    TRY(require_ring_type(p, x));
    s->request.dtype = x->dtype;
    s->request.count = x->numel;
    TRY(take_list(p, true, &s->request.dtype, &s->got));
    TRY(require_nparts(p, &s->got, "out"));
    return require_counts(p, &s->got, x->numel, "out");
}

static weft_status prepare_parts(kernel_prepare *p, list_state *s) {
    const tensor *out = type_out(p, 0);
    TRY(require_ring_type(p, out));
    s->request.dtype = out->dtype;
    s->request.count = out->numel;
    if (s->request.kind == COMM_SCATTER && s->request.root != p->ring_index) return NULL;
    TRY(take_list(p, false, &s->request.dtype, &s->given));
    TRY(require_nparts(p, &s->given, "x"));
    return require_counts(p, &s->given, out->numel, "x");
}

static weft_status prepare_reduce_scatter_list(kernel_prepare *p) {
    list_state *s = NULL;
    TRY(begin(p, &s));
    return prepare_parts(p, s);
}

static weft_status prepare_scatter_list(kernel_prepare *p) {
    list_state *s = NULL;
    TRY(begin(p, &s));
    return prepare_parts(p, s);
}

static weft_status prepare_all_to_all_list(kernel_prepare *p) {
    list_state *s = NULL;
    TRY(begin(p, &s));
    TRY(take_list(p, false, &s->request.dtype, &s->given));
    TRY(take_list(p, true, &s->request.dtype, &s->got));
    TRY(require_nparts(p, &s->given, "x"));
    return require_nparts(p, &s->got, "out");
}

/* A tensor's parts by the extents of an attr, equal ones where it has none. */
static weft_status cut(const kernel_prepare *p, bool gets, const tensor *t, side *s) {
    size_t nsplits;
    const int64_t *splits = op_collective_splits(p->op, gets, &nsplits);
    const char *attr = gets ? "out_splits" : "in_splits";
    int64_t nranks = p->ring_nranks, extent = t->ndim ? t->dims[0] : 0, sum = 0;
    TRY(make_parts(p, s, CUT, nranks));
    if (nsplits && nsplits != (size_t)nranks)
        return kernel_unsupported(p, "expected %lld extents in %s, found %zu", (long long)nranks, attr, nsplits);
    if (!nsplits && extent % nranks)
        return kernel_unsupported(p, "expected an extent that %lld ranks can share, found %lld", (long long)nranks,
                                  (long long)extent);
    for (int64_t k = 0; k < nranks; k++) {
        int64_t part = nsplits ? splits[k] : extent / nranks;
        if (part < 0 || part > extent - sum) break;
        sum += part;
        s->counts[k] = extent ? part * (t->numel / extent) : 0;
    }
    if (sum == extent) return NULL;
    return kernel_unsupported(p, "expected extents in %s that add up to %lld", attr, (long long)extent);
}

static weft_status prepare_all_to_all(kernel_prepare *p) {
    list_state *s = NULL;
    const tensor *x = type_in(p, 0), *out = type_out(p, 0);
    size_t nsent, nreceived;
    TRY(begin(p, &s));
    TRY(require_ring_type(p, x));
    TRY(require_same_dtype(p, x, out, "output"));
    s->request.dtype = x->dtype;
    op_collective_splits(p->op, false, &nsent);
    op_collective_splits(p->op, true, &nreceived);
    if (nsent || nreceived) {
        TRY(cut(p, false, x, &s->given));
        return cut(p, true, out, &s->got);
    }
    if (out->numel != x->numel || x->numel % p->ring_nranks)
        return kernel_unsupported(p, "expected %lld elements for a ring of %d ranks, found %lld", (long long)x->numel,
                                  p->ring_nranks, (long long)out->numel);
    s->request.count = x->numel / p->ring_nranks;
    return NULL;
}

/* The addresses of the parts; NULL where the tensor goes as a whole. */
static void *const *part_addresses(const side *s, const tensor *args, size_t element) {
    if (s->form == WHOLE) return NULL;
    size_t at = 0;
    for (int64_t k = 0; k < s->nparts; k++) {
        s->parts[k] = s->form == LIST ? args[k].data : (char *)args->data + at * element;
        at += (size_t)s->counts[k];
    }
    return s->parts;
}

/* On a ring of one rank argument k becomes output k. */
static void copy_alone(const kernel_call *c) {
    uint32_t nin = c->in_first[1] - c->in_first[0], nout = c->out_first[1] - c->out_first[0];
    for (uint32_t k = 0; k < nin && k < nout; k++) {
        const tensor *out = &c->out[c->out_first[0] + k];
        copy_bytes(out->data, c->in[c->in_first[0] + k].data, tensor_nbytes(out));
    }
}

static void ask(const kernel_call *c, int round, comm_request *out_request) {
    const list_state *s = c->state;
    (void)round;
    comm_request r = s->request;
    const tensor *x = arg_in(c, 0), *out = arg_out(c, 0);
    size_t element = weft_dtype_nbytes(r.dtype);
    r.srcs = (const void *const *)part_addresses(&s->given, x, element);
    r.dsts = part_addresses(&s->got, out, element);
    r.src = r.srcs || !x ? NULL : x->data;
    r.dst = r.dsts ? NULL : out->data;
    bool counted = r.nparts || r.kind == COMM_ALL_TO_ALL;
    if (counted && r.srcs) r.src_counts = s->given.counts;
    if (counted && r.dsts) r.dst_counts = s->got.counts;
    *out_request = r;
}

static weft_status run(const kernel_call *c) {
    if (!is_alone(c)) return run_rounds(c, &list_rounds);
    copy_alone(c);
    return NULL;
}

const kernel kernel_all_reduce_coalesced = {prepare_coalesced, run};
const kernel kernel_all_gather_coalesced = {prepare_coalesced, run};
const kernel kernel_reduce_scatter_coalesced = {prepare_coalesced, run};
const kernel kernel_all_gather_list = {prepare_all_gather_list, run};
const kernel kernel_reduce_scatter_list = {prepare_reduce_scatter_list, run};
const kernel kernel_scatter_list = {prepare_scatter_list, run};
const kernel kernel_all_to_all_list = {prepare_all_to_all_list, run};
const kernel kernel_all_to_all = {prepare_all_to_all, run};
