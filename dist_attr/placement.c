/* placement.c: how one tensor lies on a mesh, and which part of it a rank holds. An axis that is sharded is cut into
 * equal parts, in the order of the mesh coordinate; a mesh axis that shards nothing holds copies. */
#include "dist_attr/dist_attr.h"

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

weft_status placement_check(const placement *p, int tensor_ndim, const char *place) {
    if (!p || !p->mesh) return NULL;
    if (tensor_ndim >= 0 && p->ndim != tensor_ndim)
        return weft_status_create(WEFT_INVALID_PROGRAM, place,
                                  "expected a dims_mapping of %d entries, one a tensor axis, found %d", tensor_ndim,
                                  p->ndim);
    uint32_t sharded_axes = 0;
    for (int i = 0; i < p->ndim; i++) {
        int64_t axis = p->dims_mapping[i];
        if (axis == -1) continue;
        if (axis < -1 || axis >= p->mesh->ndim)
            return weft_status_create(WEFT_INVALID_PROGRAM, place,
                                      "dims_mapping[%d]: expected -1 or a mesh axis below %d, found %lld", i,
                                      p->mesh->ndim, (long long)axis);
        if (sharded_axes >> axis & 1)
            return weft_status_create(WEFT_INVALID_PROGRAM, place,
                                      "dims_mapping[%d]: mesh axis %lld shards another tensor axis too", i,
                                      (long long)axis);
        sharded_axes |= (uint32_t)1 << axis;
    }
    return check_partial(p, sharded_axes, place);
}

bool placement_is_sharded(const placement *p) {
    if (!p || !p->mesh) return false;
    for (int i = 0; i < p->ndim; i++)
        if (p->dims_mapping[i] >= 0 && p->mesh->shape[p->dims_mapping[i]] > 1) return true;
    return false;
}

/* The number of parts into which tensor axis i is cut. */
static int64_t parts_of_axis(const placement *p, int i) {
    return i < p->ndim && p->dims_mapping[i] >= 0 ? p->mesh->shape[p->dims_mapping[i]] : 1;
}

static bool is_dynamic(const placement *p, int axis) {
    return p && p->dynamic_dims && axis < p->ndim && p->dynamic_dims[axis];
}

/* Part number `at` of `parts` of an extent. */
static void cut(int64_t whole, int64_t parts, int64_t at, bool dynamic, int64_t *out_offset, int64_t *out_extent) {
    int64_t longer = whole % parts, most = whole / parts + (longer != 0);
    int64_t before = dynamic && at > longer ? at * (whole / parts) + longer : at * most;
    *out_offset = before < whole ? before : whole;
    *out_extent = dynamic && at >= longer ? whole / parts : most < whole - *out_offset ? most : whole - *out_offset;
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
        int64_t parts = known ? parts_of_axis(p, i) : 1;
        cut(whole[i], parts, parts > 1 ? coordinates[p->dims_mapping[i]] : 0, is_dynamic(p, i), &out_offset[i],
            &out_extent[i]);
    }
    return NULL;
}

weft_status placement_check_even(const placement *p, int ndim, const int64_t *whole, int axis, const char *place) {
    int64_t parts = p && p->mesh && axis < ndim ? parts_of_axis(p, axis) : 1;
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
        int64_t parts = known && local[i] >= 0 ? parts_of_axis(p, i) : 1; /* an unknown extent stays unknown */
        if (__builtin_mul_overflow(local[i], parts, &whole[i]))
            return weft_status_create(WEFT_LIMIT, place, "axis %d: %lld times %lld is too large", i,
                                      (long long)local[i], (long long)parts);
    }
    if (ndim > 0) memcpy(out_whole, whole, (size_t)ndim * sizeof *whole);
    return NULL;
}
