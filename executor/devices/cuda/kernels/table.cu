/* table.cu: rows of a table by id, and the gradient: each row is the sum of its lookups' gradients, in their order. */
#include "executor/devices/cuda/kernels/kernel.h"

DEVICE cuda_index id_at(const table_args *a, cuda_index k) {
    return a->wide_ids ? ((const long long *)a->ids)[k] : ((const int *)a->ids)[k];
}

/* An id that is no row gives what is no number, where the CPU's kernel says which one it was. */
ITEM_KERNEL(table_rows, table_args) {
    cuda_index id = id_at(a, i / a->width);
    bool is_inside = id >= 0 && id < a->nrows;
    float element = is_inside ? real_at(a->in, a->type, id * a->width + i % a->width) : NAN;
    store_real(a->out, a->type, i, id == a->padding ? 0 : element);
}

/* Lookups of one id become a list. */
ITEM_KERNEL(table_links, table_args) {
    cuda_index id = id_at(a, i);
    a->next[i] = -1;
    a->is_first[i] = id >= 0 && id < a->nrows && id != a->padding;
    for (cuda_index k = i + 1; k < a->nids; k++) {
        if (id_at(a, k) != id) continue;
        a->next[i] = (int)k;
        break;
    }
    for (cuda_index k = 0; k < i && a->is_first[i]; k++)
        if (id_at(a, k) == id) a->is_first[i] = 0;
}

/* The first lookup of an id adds up for all. */
ITEM_KERNEL(table_grad, table_args) {
    cuda_index k = i / a->width, column = i % a->width;
    float sum = 0;
    if (!a->is_first[k]) return;
    for (cuda_index at = k; at >= 0; at = a->next[at]) sum += real_at(a->in, a->type, at * a->width + column);
    store_real(a->out, a->type, id_at(a, k) * a->width + column, sum);
}
