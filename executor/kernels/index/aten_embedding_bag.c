/* aten_embedding_bag.c: sums or means of rows of a table, a bag of indices at a time, and the gradient of the table
 * (torch: aten/src/ATen/native/EmbeddingBag.cpp). Indices of padding are no rows. */
#include "executor/kernels/layout.h"

enum { IN_WEIGHT, IN_INDICES, IN_OFFSETS, OUT_ROWS = 0, OUT_BAGS, OUT_SIZES, OUT_MOST };
enum { IN_GRAD, GRAD_IN_BAGS = 3, GRAD_IN_SIZES };
enum { MODE_SUM, MODE_MEAN };

typedef struct bag_state {
    int64_t nrows, width, nbags, padding;
    bool means;
} bag_state;

static weft_status prepare_common(kernel_prepare *p, const tensor *table, const tensor *bags, bag_state **out) {
    bag_state *s = *out = KERNEL_STATE(p, bag_state);
    int64_t mode = attr_int(p->op, "mode", 0);
    if (!s) return base_out_of_memory();
    TRY(require_real(p, table, "the table"));
    TRY(require_present(p, bags, "the bags"));
    TRY(require_same_dtype(p, table, bags, "the bags"));
    TRY(require_integers(p, type_in(p, IN_INDICES), "indices"));
    if (mode != MODE_SUM && mode != MODE_MEAN) return kernel_unsupported(p, "mode: expected 0 or 1, sums or means");
    if (table->ndim != 2 || bags->ndim != 2 || table->dims[1] != bags->dims[1])
        return kernel_unsupported(p, "expected matrices of one width");
    *s = (bag_state){table->dims[0], table->dims[1], bags->dims[0], attr_int(p->op, "padding_idx", -1),
                     mode == MODE_MEAN};
    return NULL;
}

static weft_status prepare(kernel_prepare *p) {
    bag_state *s;
    TRY(prepare_common(p, type_in(p, IN_WEIGHT), type_out(p, OUT_ROWS), &s));
    TRY(require_integers(p, type_in(p, IN_OFFSETS), "offsets"));
    for (int o = OUT_BAGS; o <= OUT_MOST; o++)
        if (type_out(p, o)) TRY(require_integers(p, type_out(p, o), "a list of numbers"));
    if (type_out(p, OUT_BAGS))
        TRY(require_numel(p, type_out(p, OUT_BAGS), type_in(p, IN_INDICES)->numel, "offset2bag"));
    if (type_out(p, OUT_SIZES)) TRY(require_numel(p, type_out(p, OUT_SIZES), s->nbags, "bag_size"));
    return type_in(p, IN_OFFSETS)->numel >= s->nbags ? NULL : kernel_unsupported(p, "expected an offset of each bag");
}

/* Adds `by` times a row of src to one of dst. */
static void add_row(const bag_state *s, const tensor *src, int64_t from, tensor *dst, int64_t to, double by) {
    for (int64_t k = 0; k < s->width; k++)
        tensor_add_real(dst, to * s->width + k, by * tensor_real(src, from * s->width + k));
}

static weft_status check_index(const kernel_call *c, const bag_state *s, int64_t index) {
    if (index >= 0 && index < s->nrows) return NULL;
    return kernel_failed(c, "expected indices of 0 to %lld, found %lld", (long long)s->nrows - 1, (long long)index);
}

static weft_status run(const kernel_call *c) {
    const bag_state *s = c->state;
    const tensor *indices = arg_in(c, IN_INDICES), *offsets = arg_in(c, IN_OFFSETS);
    tensor *out = arg_out(c, OUT_ROWS), *bags = arg_out(c, OUT_BAGS), *sizes = arg_out(c, OUT_SIZES);
    tensor_clear(out);
    tensor_clear(arg_out(c, OUT_MOST));
    for (int64_t bag = 0; bag < s->nbags; bag++) {
        int64_t first = tensor_integer(offsets, bag);
        int64_t end = bag + 1 < offsets->numel ? tensor_integer(offsets, bag + 1) : indices->numel, count = 0;
        if (first < 0 || end < first || end > indices->numel)
            return kernel_failed(c, "expected offsets that rise to %lld", (long long)indices->numel);
        for (int64_t i = first; i < end; i++) {
            int64_t index = tensor_integer(indices, i);
            if (bags) tensor_set_integer(bags, i, bag);
            TRY(check_index(c, s, index));
            if (index == s->padding) continue;
            add_row(s, arg_in(c, IN_WEIGHT), index, out, bag, 1);
            count++;
        }
        if (sizes) tensor_set_integer(sizes, bag, count);
        for (int64_t k = 0; s->means && count && k < s->width; k++)
            tensor_set_real(out, bag * s->width + k, tensor_real(out, bag * s->width + k) / (double)count);
    }
    return NULL;
}

static weft_status prepare_backward(kernel_prepare *p) {
    bag_state *s;
    TRY(prepare_common(p, type_out(p, 0), type_in(p, IN_GRAD), &s));
    TRY(require_integers(p, type_in(p, GRAD_IN_BAGS), "offset2bag"));
    TRY(require_integers(p, type_in(p, GRAD_IN_SIZES), "bag_size"));
    return require_numel(p, type_in(p, GRAD_IN_BAGS), type_in(p, IN_INDICES)->numel, "offset2bag");
}

static weft_status run_backward(const kernel_call *c) {
    const bag_state *s = c->state;
    const tensor *indices = arg_in(c, IN_INDICES), *bags = arg_in(c, GRAD_IN_BAGS), *sizes = arg_in(c, GRAD_IN_SIZES);
    tensor_clear(arg_out(c, 0));
    for (int64_t i = 0; i < indices->numel; i++) {
        int64_t index = tensor_integer(indices, i), bag = tensor_integer(bags, i);
        TRY(check_index(c, s, index));
        if (bag < 0 || bag >= s->nbags) return kernel_failed(c, "expected bags below %lld", (long long)s->nbags);
        if (index == s->padding) continue;
        double by = s->means ? 1 / (double)tensor_integer(sizes, bag) : 1;
        add_row(s, arg_in(c, IN_GRAD), bag, arg_out(c, 0), index, by);
    }
    return NULL;
}

const kernel kernel_aten_embedding_bag = {prepare, run};
const kernel kernel_aten_embedding_bag_backward = {prepare_backward, run_backward};
