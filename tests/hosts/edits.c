/* edits.c: a host reads and changes all of a program: readers and writers, attrs with their types, placements, meshes,
 * streams, events, vars that go, blocks that come. */
#include "host.h"

#include "weft/access.h"
#include "weft/attr.h"
#include "weft/collective.h"
#include "weft/placement.h"

static const char text[] = "weft: 1\nblocks:\n- idx: 0\n  vars:\n    x: {float32: [4, 8]}\n    y: {float32: [4, 8]}\n  "
                           "  z: {float32: [4, 8]}\n"
                           "    spare: {float32: [4]}\n    last: {float32: [4]}\n"
                           "  ops:\n  - {relu: {X: [x]}, out: {Out: [y]}}\n"
                           "  - {elementwise_add: {X: [y], Y: [y]}, out: {Out: [z]}, attrs: {axis: -1}}\n"
                           "  - {c_reduce_sum: {X: [z]}, out: {Out: [z]}, attrs: {ring_id: 3, root_id: 1}}\n";

static weft_program *parse(weft_context *context, const char *bytes, size_t nbytes) {
    weft_program *program = NULL;
    MUST(weft_program_parse(context, WEFT_FORM_YAML, bytes, nbytes, NULL, 0, "host", &program));
    return program;
}

static void check_uses(weft_block *block) {
    weft_var *y = weft_block_find_var(block, "y");
    size_t readers = 0, writers = 0;
    weft_uses u = weft_var_uses(y);
    while (weft_uses_next(&u)) {
        readers += !u.is_output;
        writers += u.is_output;
        CHECK(strcmp(weft_op_type(u.op), u.is_output ? "relu" : "elementwise_add") == 0);
        CHECK(weft_op_arg(u.op, u.is_output, strcmp(u.slot, "Y") == 0, u.index) == y);
    }
    CHECK(readers == 2 && writers == 1);
    /* The use at hand may be renamed away. */
    weft_var *x = weft_block_find_var(block, "x");
    for (u = weft_var_uses(y); weft_uses_next(&u);)
        if (!u.is_output && strcmp(u.slot, "X") == 0) weft_op_rename_input(u.op, y, x);
    CHECK(weft_var_nuses(y) == 1 && weft_var_nuses(x) == 3);
}

static void check_attrs(weft_op *op) {
    const int64_t ints[] = {1, -2, 3};
    const double floats[] = {0.5, 0.1};
    const bool bools[] = {true, false, true};
    const char *const strings[] = {"one", "two"};
    MUST(weft_op_set_attr_ints(op, "ints", 3, ints));
    MUST(weft_op_set_attr_floats(op, "floats", 2, floats));
    MUST(weft_op_set_attr_float64s(op, "doubles", 2, floats));
    MUST(weft_op_set_attr_bools(op, "bools", 3, bools));
    MUST(weft_op_set_attr_strings(op, "strings", 2, strings));
    MUST(weft_op_set_attr_long(op, "long", INT64_C(1) << 40));
    MUST(weft_op_copy_attr(op, weft_op_attr(op, "long")));
    CHECK(weft_attr_type_of(weft_op_attr(op, "ints")) == WEFT_ATTR_INTS);
    CHECK(weft_attr_count(weft_op_attr(op, "ints")) == 3 && weft_attr_int(weft_op_attr(op, "ints"), 1) == -2);
    CHECK(weft_attr_float(weft_op_attr(op, "floats"), 1) == (double)0.1f);
    CHECK(weft_attr_float(weft_op_attr(op, "doubles"), 1) == 0.1);
    CHECK(weft_attr_bool(weft_op_attr(op, "bools"), 2) && !weft_attr_bool(weft_op_attr(op, "bools"), 1));
    CHECK(strcmp(weft_attr_string(weft_op_attr(op, "strings"), 1), "two") == 0);
    CHECK(!weft_attr_string(weft_op_attr(op, "strings"), 2) && weft_attr_int(weft_op_attr(op, "ints"), 9) == 0);
    CHECK(weft_attr_int(weft_op_attr(op, "long"), 0) == INT64_C(1) << 40);
    size_t nattrs = weft_op_nattrs(op);
    MUST(weft_op_remove_attr(op, "long"));
    CHECK(weft_op_nattrs(op) == nattrs - 1 && !weft_op_attr(op, "long"));
    bool found = false;
    for (size_t i = 0; i < weft_op_nattrs(op); i++)
        found = found || strcmp(weft_attr_name(weft_op_attr_at(op, i)), "axis") == 0;
    CHECK(found);
}

static void check_placements(weft_program *program, weft_op *op, weft_var *x) {
    const int64_t shape[] = {2, 2}, ids[] = {0, 1, 2, 3}, mapping[] = {0, -1}, twice[] = {0, 0};
    const char *const names[] = {"dp", "mp"};
    weft_placement placed = {.mesh = {2, shape, ids, names}, .ndim = 2, .dims_mapping = mapping, .partial_axes = 2},
                   got;
    CHECK(!weft_var_placement(x, &got));
    MUST(weft_var_set_placement(x, &placed));
    CHECK(weft_var_placement(x, &got) && got.dims_mapping[0] == 0 && got.dims_mapping[1] == -1);
    CHECK(got.partial_axes == 2 && got.mesh.ndim == 2 && strcmp(got.mesh.names[1], "mp") == 0);
    CHECK(weft_program_nmeshes(program) == 1);
    placed.dims_mapping = twice;
    REFUSES(WEFT_INVALID_PROGRAM, "mesh axis 0", weft_var_set_placement(x, &placed));
    placed.dims_mapping = mapping;
    weft_mesh mesh;
    CHECK(!weft_op_mesh(op, &mesh));
    MUST(weft_op_set_mesh(op, &placed.mesh));
    CHECK(weft_op_mesh(op, &mesh) && mesh.ids[3] == 3 && weft_program_nmeshes(program) == 1);
    MUST(weft_op_set_arg_placement(op, false, x, &placed));
    CHECK(weft_op_arg_placement(op, false, x, &got) && !weft_op_arg_placement(op, true, x, &got));
    MUST(weft_op_set_arg_placement(op, false, x, NULL));
    CHECK(!weft_op_arg_placement(op, false, x, &got));
}

static void check_streams(weft_op *op, weft_op *reduce) {
    const char *const awaited[] = {"made"};
    char stream[32];
    weft_collective c;
    MUST(weft_op_set_event_recorded(op, "made"));
    MUST(weft_op_set_stream(reduce, "side"));
    MUST(weft_op_set_events_awaited(reduce, 1, awaited));
    CHECK(strcmp(weft_op_event_recorded(op), "made") == 0 && strcmp(weft_op_event_awaited(reduce, 0), "made") == 0);
    CHECK(weft_op_runs_on(reduce, stream, sizeof stream) == 4 && strcmp(stream, "side") == 0);
    CHECK(weft_op_runs_on(op, stream, sizeof stream) == 0);
    CHECK(weft_op_collective(reduce, &c) && strcmp(c.kind, "reduce") == 0 && c.communicates);
    CHECK(c.ring_id == 3 && c.root == 1 && c.reduce == WEFT_REDUCE_SUM && !c.is_list && strcmp(c.in_slot, "X") == 0);
    CHECK(!weft_op_collective(op, &c));
}

static void check_vars(weft_block *block) {
    weft_var *again;
    const int64_t dims[] = {7};
    size_t nvars = weft_block_nvars(block);
    REFUSES(WEFT_INVALID_ARGUMENT, "relu #0", weft_var_remove(weft_block_find_var(block, "y")));
    MUST(weft_var_remove(weft_block_find_var(block, "spare")));
    CHECK(!weft_block_find_var(block, "spare") && weft_block_nvars(block) == nvars - 1);
    CHECK(strcmp(weft_var_name(weft_block_var_at(block, nvars - 2)), "last") == 0);
    CHECK(weft_block_var_at(block, nvars - 2) == weft_block_find_var(block, "last"));
    MUST(weft_block_add_var(block, "spare", WEFT_INT64, 1, dims, &again));
    CHECK(weft_block_find_var(block, "spare") == again);
    MUST(weft_var_remove(weft_block_find_var(block, "last")));
}

static void check_blocks(weft_program *program) {
    weft_block *top = weft_program_block(program, 0), *inner = NULL;
    weft_var *own, *copy;
    weft_op *op, *runs;
    const int64_t dims[] = {4, 8};
    MUST(weft_program_add_block(program, top, &inner));
    CHECK(weft_program_nblocks(program) == 2 && weft_block_index(inner) == 1);
    MUST(weft_block_add_var(inner, "z", WEFT_FP32, 2, dims, &own));
    MUST(weft_block_add_var(inner, "copy", WEFT_FP32, 2, dims, &copy));
    CHECK(weft_block_find_var(inner, "x") == weft_block_find_var(top, "x") && weft_block_find_var(inner, "z") == own);
    MUST(weft_var_remove(own));
    CHECK(weft_block_find_var(inner, "z") == weft_block_find_var(top, "z"));
    MUST(weft_op_create(program, "assign", &op));
    MUST(weft_op_add_input(op, "X", weft_block_find_var(inner, "z")));
    MUST(weft_op_add_output(op, "Out", copy));
    weft_block_insert_before(inner, NULL, op);
    MUST(weft_op_create(program, "while", &runs));
    MUST(weft_op_set_attr_block(runs, "sub_block", inner));
    weft_block_insert_before(top, NULL, runs);
    CHECK(weft_attr_int(weft_op_attr(runs, "sub_block"), 0) == 1);
    /* The op counts as reading what its block reads. */
    weft_accesses *accesses;
    MUST(weft_accesses_create(program, &accesses));
    weft_var *z = weft_block_find_var(top, "z");
    weft_access a = weft_accesses_at(accesses, z, weft_accesses_count(accesses, z) - 1);
    CHECK(a.op == runs && a.is_nested && a.reads && !a.writes);
    weft_accesses_destroy(accesses);
    weft_op_remove(runs);
}

int main(void) {
    weft_context *context = NULL;
    MUST(weft_context_create(NULL, &context));
    weft_program *program = parse(context, text, strlen(text)), *read = NULL, *clone = NULL;
    weft_block *block = weft_program_block(program, 0);
    weft_op *relu = weft_block_first_op(block), *add = weft_op_next(relu), *reduce = weft_op_next(add);
    check_uses(block);
    check_attrs(add);
    check_placements(program, relu, weft_block_find_var(block, "x"));
    check_streams(relu, reduce);
    check_vars(block);
    check_blocks(program);
    /* All of it is written and read back. */
    char *bytes;
    size_t nbytes;
    MUST(weft_program_print(program, WEFT_FORM_YAML, &bytes, &nbytes));
    read = parse(context, bytes, nbytes);
    CHECK(weft_program_equal(program, read));
    MUST(weft_program_clone(program, &clone));
    CHECK(weft_program_equal(program, clone));
    weft_bytes_free(context, bytes, nbytes);
    weft_program_destroy(clone);
    weft_program_destroy(read);
    weft_program_destroy(program);
    weft_context_destroy(context);
    return host_end("edits");
}
