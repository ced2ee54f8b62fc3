/* axes_compare.c: whether what ranks computed is the whole's result, placed as a rule says. */
#include "tests/support/axes_trial.h"

#include <math.h>

static double reduce_two(int reduce, double a, double b) {
    switch (reduce) {
    case WEFT_REDUCE_MAX:
    case WEFT_REDUCE_ANY: return a > b || isnan(a) ? a : b;
    case WEFT_REDUCE_MIN:
    case WEFT_REDUCE_ALL: return a < b || isnan(a) ? a : b;
    case WEFT_REDUCE_PROD: return a * b;
    default: return a + b;
    }
}

/* What a rank's elements are reduced with: those of ranks that differ from it along axes on which they are partial. */
typedef struct joined {
    int kind;
    double count; /* a mean is by it */
    int64_t ranks[MOST_RANKS];
    size_t nranks;
} joined;

static joined find_joined(const axes_mesh *on, const axes_placed *p, int64_t rank) {
    joined j = {.kind = WEFT_REDUCE_SUM, .count = 1};
    int64_t at[AXES_MESH], own[AXES_MESH];
    axes_coordinates(on, rank, own);
    for (int axis = 0; axis < on->naxes; axis++) {
        if (p->partial[axis]) j.kind = p->partial[axis] - 1;
        if (p->partial[axis] == 1 + WEFT_REDUCE_AVG) j.count *= (double)on->extent[axis];
    }
    for (int64_t other = 0; other < axes_nranks(on); other++) {
        bool joins = other != rank;
        axes_coordinates(on, other, at);
        for (int axis = 0; axis < on->naxes; axis++) joins &= at[axis] == own[axis] || p->partial[axis];
        if (joins) j.ranks[j.nranks++] = other;
    }
    return j;
}

static double reduced(const joined *j, tensor *const *out, size_t k, int64_t rank, int64_t i) {
    double sum = axes_get(&out[rank][k], i);
    for (size_t n = 0; n < j->nranks; n++) sum = reduce_two(j->kind, sum, axes_get(&out[j->ranks[n]][k], i));
    return sum / j->count;
}

static bool same_dims(const tensor *a, int32_t ndim, const int64_t *dims) {
    return a->ndim == ndim && (ndim == 0 || memcmp(a->dims, dims, (size_t)ndim * sizeof *dims) == 0);
}

/* Whether output k lies as `p` says. *nfinite: elements that tell something. */
bool axes_is_placed(const axes_trial *t, const axes_mesh *on, const axes_placed *p, tensor *const *out, size_t k,
                    int64_t *nfinite) {
    const tensor *whole = &t->out[k];
    double largest = 0, times = 1;
    bool sums = false; /* of infinite addends there is no telling */
    for (int64_t i = 0; i < whole->numel; i++)
        if (isfinite(axes_get(whole, i))) largest = fmax(largest, fabs(axes_get(whole, i)));
    for (int64_t rank = 0; rank < axes_nranks(on); rank++)
        for (int64_t i = 0; i < out[rank][k].numel; i++)
            if (isfinite(axes_get(&out[rank][k], i))) largest = fmax(largest, fabs(axes_get(&out[rank][k], i)));
    for (int axis = 0; axis < on->naxes; axis++)
        if (p->times >> axis & 1) times *= (double)on->extent[axis];
    for (int axis = 0; axis < on->naxes; axis++) sums |= p->partial[axis] != 0;
    for (int64_t rank = 0; rank < axes_nranks(on); rank++) {
        int64_t at[AXES_MESH], offset[WEFT_MAX_RANK], extent[WEFT_MAX_RANK];
        axes_coordinates(on, rank, at);
        axes_part(on, p, whole->ndim, whole->dims, at, offset, extent);
        const tensor *own = &out[rank][k];
        if (!same_dims(own, whole->ndim, extent)) return false;
        joined j = find_joined(on, p, rank);
        for (int64_t i = 0; i < own->numel; i++) {
            double want = times * axes_get(whole, axes_index_in(whole, own, offset, i)),
                   found = reduced(&j, out, k, rank, i);
            bool exact = largest < 0x1p22 && want == floor(want) && found == floor(found);
            if (isfinite(want)) ++*nfinite;
            if (found == want || (isnan(found) && isnan(want)) || (sums && !isfinite(want))) continue;
            if (exact || !(fabs(found - want) <= 3e-5 * times * (largest + 1e-3))) return false;
        }
    }
    return true;
}
