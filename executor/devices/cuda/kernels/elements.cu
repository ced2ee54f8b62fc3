/* elements.cu: functions of elements of any type; what moves; triangles; bytes that come with a launch. */
#include "executor/devices/cuda/kernels/place.h"

DEVICE cuda_index integer_mod(cuda_index a, cuda_index b) {
    cuda_index r = b == 0 || b == -1 ? 0 : a % b;
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
DEVICE cuda_index integer_floordiv(cuda_index a, cuda_index b) {
    if (b == 0) return 0;
    if (b == -1) return (cuda_index)(0 - (unsigned long long)a);
    return a / b - (a % b != 0 && (a < 0) != (b < 0));
}
DEVICE float real_mod(float a, float b) {
    float r = fmodf(a, b);
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

DEVICE cuda_index integer_at(const void *in, int type, cuda_index at) {
    switch (type) {
    case ELEMENT_INT32: return ((const int *)in)[at];
    case ELEMENT_INT64: return ((const long long *)in)[at];
    default: return ((const unsigned char *)in)[at];
    }
}
DEVICE void store_integer(void *out, int type, cuda_index at, cuda_index value) {
    switch (type) {
    case ELEMENT_INT32: ((int *)out)[at] = (int)value; return;
    case ELEMENT_INT64: ((long long *)out)[at] = value; return;
    default: ((unsigned char *)out)[at] = (unsigned char)value;
    }
}

DEVICE cuda_index integer_function(int function, cuda_index a, cuda_index b, cuda_index p, cuda_index q) {
    switch (function) {
#define ELEMENTS(name, integer, real) \
    case ELEMENTS_##name: return integer;
#include "executor/devices/cuda/kernels/elements.def"
#undef ELEMENTS
    default: return 0;
    }
}
DEVICE float real_function(int function, float a, float b, cuda_index p, cuda_index q) {
    switch (function) {
#define ELEMENTS(name, integer, real) \
    case ELEMENTS_##name: return real;
#include "executor/devices/cuda/kernels/elements.def"
#undef ELEMENTS
    default: return 0;
    }
}

DEVICE void move_word(void *out, cuda_index to, const void *in, cuda_index from, int size) {
    switch (size) {
    case 1: ((unsigned char *)out)[to] = ((const unsigned char *)in)[from]; return;
    case 2: ((unsigned short *)out)[to] = ((const unsigned short *)in)[from]; return;
    case 4: ((unsigned *)out)[to] = ((const unsigned *)in)[from]; return;
    default: ((unsigned long long *)out)[to] = ((const unsigned long long *)in)[from];
    }
}

ITEM_KERNEL(move_elements, elements_args) {
    strided_at at = place_of(&a->walk, i);
    int from = 0;
    if (a->function == ELEMENTS_CHOOSE) from = ((const unsigned char *)a->walk.in[0])[at.in[0]] ? 1 : 2;
    move_word(a->walk.out, at.out, a->walk.in[from], at.in[from], a->size);
}

ITEM_KERNEL(elements_of, elements_args) {
    strided_at at = place_of(&a->walk, i);
    const void *x = a->walk.in[0], *y = a->walk.in[1];
    if (!is_real(a->type)) {
        cuda_index b = y ? integer_at(y, a->type, at.in[1]) : 0;
        store_integer(a->walk.out, a->out_type, at.out,
                      integer_function(a->function, integer_at(x, a->type, at.in[0]), b, a->p, a->q));
        return;
    }
    float b = y ? real_at(y, a->type, at.in[1]) : 0;
    float r = real_function(a->function, real_at(x, a->type, at.in[0]), b, a->p, a->q);
    if (is_real(a->out_type))
        store_real(a->walk.out, a->out_type, at.out, r);
    else
        store_integer(a->walk.out, a->out_type, at.out, (cuda_index)r);
}

ITEM_KERNEL(triangles, triangle_args) {
    cuda_index column = i % a->ncolumns, row = i / a->ncolumns % a->nrows;
    const unsigned long long none = 0;
    int is_kept = a->is_lower ? column <= row + a->diagonal : column >= row + a->diagonal;
    move_word(a->out, i, is_kept ? a->x : &none, is_kept ? i : 0, a->size);
}

ITEM_KERNEL(given_bytes, given_args) {
    a->out[i] = a->bytes[i];
}

ITEM_KERNEL(one_hot, table_args) {
    cuda_index id = a->wide_ids ? ((const long long *)a->ids)[i / a->width] : ((const int *)a->ids)[i / a->width];
    ((float *)a->out)[i] = id < 0 || id >= a->width ? NAN : id == i % a->width;
}
