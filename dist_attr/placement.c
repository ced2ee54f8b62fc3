/* placement.c: how one tensor lies on a mesh, and which part of it a rank holds. An axis that is sharded is cut into
 * equal parts, in the order of the mesh coordinate; where several mesh axes shard it, the major one cuts first. A mesh
 * axis that shards nothing holds copies. */
#include "weft/placement.h"
#include "dist_attr/dims.h"

/* --- entries of dims_mapping -------------------------------------------------------------------------------------- */

int64_t dim_add(int64_t entry, int64_t axis) {
    int n = dim_naxes(entry);
    if (entry < -1 || axis < 0 || axis >= MESH_MAX_NDIM || n == DIM_MAX_AXES) return -2;
    return n ? entry | (axis + 1) << 6 * n : axis;
}

void dims_mapping_print(buffer *out, const int64_t *dims_mapping, size_t ndim) {
    for (size_t d = 0; d < ndim; d++) {
        int n = dim_naxes(dims_mapping[d]);
        buffer_text(out, d ? ", " : "[");
        if (n < 2) buffer_integer(out, dims_mapping[d]);
        for (int i = 0; n > 1 && i < n; i++) {
            buffer_text(out, i ? ", " : "[");
            buffer_integer(out, dim_axis(dims_mapping[d], i));
        }
        if (n > 1) buffer_text(out, "]");
    }
    buffer_text(out, ndim ? "]" : "[]");
}

int64_t weft_dims_entry(size_t naxes, const int64_t *axes) {
    int64_t entry = -1;
    for (size_t i = 0; i < naxes; i++) entry = dim_add(entry, axes[i]);
    return entry;
}

size_t weft_dims_axes(int64_t entry, int64_t *out_axes) {
    int n = dim_naxes(entry);
    for (int i = 0; i < n; i++) out_axes[i] = dim_axis(entry, i);
    return (size_t)n;
}

/* --- validity ----------------------------------------------------------------------------------------------------- */

static weft_status check_partial(const placement *p, uint32_t sharded_axes, const char *place) {
    for (int i = 0; i < MESH_MAX_NDIM && p->partial_axes >> i; i++) {
        if (!(p->partial_axes >> i & 1)) continue;
        if (i >= p->mesh->ndim)
            return weft_status_create(WEFT_INVALID_PROGRAM, place,
                                      "partial over mesh axis %d, but the mesh has %d axes", i, p->mesh->ndim);
        if (sharded_axes >> i & 1)
            return weft_status_create(WEFT_INVALID_PROGRAM, place, "mesh axis %d both shards the tensor and is partial",
                                      i);
    }
    return NULL;
}

/* The axes of entry `i`; *sharded_axes: those of the entries before it, and then its own too. */
static weft_status check_entry(const placement *p, int i, uint32_t *sharded_axes, const char *place) {
    int64_t entry = p->dims_mapping[i];
    uint32_t before = *sharded_axes;
    for (int k = 0; k < dim_naxes(entry) || (entry < -1 && k == 0); k++) {
        int64_t axis = entry < -1 ? entry : dim_axis(entry, k);
        if (axis < 0 || axis >= p->mesh->ndim)
            return weft_status_create(WEFT_INVALID_PROGRAM, place,
                                      "dims_mapping[%d]: expected -1 or a mesh axis below %d, found %lld", i,
                                      p->mesh->ndim, (long long)axis);
        if (*sharded_axes >> axis & 1)
            return weft_status_create(WEFT_INVALID_PROGRAM, place, "dims_mapping[%d]: mesh axis %lld %s", i,
                                      (long long)axis,
                                      before >> axis & 1 ? "shards another tensor axis too" : "is given twice");
        *sharded_axes |= (uint32_t)1 << axis;
    }
    return NULL;
}

weft_status placement_check(const placement *p, int tensor_ndim, const char *place) {
    if (!p || !p->mesh) return NULL;
    if (tensor_ndim >= 0 && p->ndim != tensor_ndim)
        return weft_status_create(WEFT_INVALID_PROGRAM, place,
                                  "expected a dims_mapping of %d entries, one a tensor axis, found %d", tensor_ndim,
                                  p->ndim);
    uint32_t sharded_axes = 0;
    for (int i = 0; i < p->ndim; i++) TRY(check_entry(p, i, &sharded_axes, place));
    return check_partial(p, sharded_axes, place);
}

bool placement_is_sharded(const placement *p) {
    if (!p || !p->mesh) return false;
    for (int i = 0; i < p->ndim; i++)
        if (placement_parts(p, i) > 1) return true;
    return false;
}

/* --- parts -------------------------------------------------------------------------------------------------------- */

int64_t placement_parts(const placement *p, int axis) {
    int64_t parts = 1;
    for (int k = 0; axis < p->ndim && k < dim_naxes(p->dims_mapping[axis]); k++) {
        int of = dim_axis(p->dims_mapping[axis], k);
        if (of < p->mesh->ndim) parts *= p->mesh->shape[of];
    }
    return parts;
}

static bool is_dynamic(const placement *p, int axis) {
    return p && p->dynamic_dims && axis < p->ndim && p->dynamic_dims[axis];
}

/* Part number `at` of `parts` of what is there. */
static void cut(int64_t parts, int64_t at, bool dynamic, int64_t *offset, int64_t *extent) {
    int64_t whole = *extent, longer = whole % parts, most = whole / parts + (longer != 0);
    int64_t before = dynamic && at > longer ? at * (whole / parts) + longer : at * most;
    if (before > whole) before = whole;
    *offset += before;
    *extent = dynamic && at >= longer ? whole / parts : most < whole - before ? most : whole - before;
}

weft_status placement_slice(const placement *p, int ndim, const int64_t *whole, int64_t rank, const char *place,
                            int64_t *out_offset, int64_t *out_extent) {
    bool known = p && p->mesh;
    int64_t coordinates[MESH_MAX_NDIM] = {0};
    if (known) {
        TRY(placement_check(p, ndim, place));
        if (!mesh_coordinates(p->mesh, rank, coordinates))
            return weft_status_create(WEFT_INVALID_PROGRAM, place, "rank %lld is not in the tensor's mesh",
                                      (long long)rank);
    }
    for (int i = 0; i < ndim; i++) {
        out_offset[i] = 0;
        out_extent[i] = whole[i];
        for (int k = 0; known && k < dim_naxes(p->dims_mapping[i]); k++) {
            int axis = dim_axis(p->dims_mapping[i], k);
            cut(p->mesh->shape[axis], coordinates[axis], is_dynamic(p, i), &out_offset[i], &out_extent[i]);
        }
    }
    return NULL;
}

weft_status placement_check_even(const placement *p, int ndim, const int64_t *whole, int axis, const char *place) {
    int64_t parts = p && p->mesh && axis < ndim ? placement_parts(p, axis) : 1;
    if (is_dynamic(p, axis) && whole[axis] >= parts) return NULL;
    if (is_dynamic(p, axis))
        return weft_status_create(WEFT_INVALID_PROGRAM, place, "axis %d of extent %lld has none for each of %lld", axis,
                                  (long long)whole[axis], (long long)parts);
    if (whole[axis] % parts == 0) return NULL;
    return weft_status_create(WEFT_INVALID_PROGRAM, place, "axis %d of extent %lld does not divide by %lld", axis,
                              (long long)whole[axis], (long long)parts);
}

weft_status placement_whole(const placement *p, int ndim, const int64_t *local, const char *place, int64_t *out_whole) {
    bool known = p && p->mesh;
    if (known) TRY(placement_check(p, ndim, place));
    int64_t whole[WEFT_MAX_RANK];
    if (ndim > WEFT_MAX_RANK)
        return weft_status_create(WEFT_LIMIT, place, "a tensor of %d axes: the limit is %d", ndim, WEFT_MAX_RANK);
    for (int i = 0; i < ndim; i++) {
        int64_t parts = known && local[i] >= 0 ? placement_parts(p, i) : 1; /* an unknown extent stays unknown */
        if (__builtin_mul_overflow(local[i], parts, &whole[i]))
            return weft_status_create(WEFT_LIMIT, place, "axis %d: %lld times %lld is too large", i,
                                      (long long)local[i], (long long)parts);
    }
    if (ndim > 0) memcpy(out_whole, whole, (size_t)ndim * sizeof *whole);
    return NULL;
}
