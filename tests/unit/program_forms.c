/* Recorded programs come back as the bytes they were, from the wire form and through YAML; what Weft does not model is
 * kept; what is wrong on the wire is reported with its position. */
#include <criterion/criterion.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/context.h"
#include "program/ir.h"
#include "program/pdmodel/wire.h"
#include "tests/support/fixtures.h"
#include "tests/support/table.h"

static weft_context *context;

static void begin(void) {
    cr_assert_null(context_create_bare(NULL, &context));
}
static void end(void) {
    context_destroy(context);
}
TestSuite(program_forms, .init = begin, .fini = end, .timeout = 1200);

/* --- every recorded program --------------------------------------------------------------------------------------- */

typedef struct printed {
    char *bytes;
    size_t nbytes;
} printed;

static printed print(const weft_program *p, weft_form form) {
    printed out;
    cr_assert_null(weft_program_print(p, form, &out.bytes, &out.nbytes));
    return out;
}

static void drop(printed p) {
    weft_bytes_free(context, p.bytes, p.nbytes);
}

static bool same(printed a, printed b) {
    return a.nbytes == b.nbytes && memcmp(a.bytes, b.bytes, a.nbytes) == 0;
}

/* `p` read again from one of its forms. */
static weft_program *reread(weft_form form, printed bytes, const char *path) {
    weft_program *p = NULL;
    weft_status status = weft_program_parse(context, form, bytes.bytes, bytes.nbytes, NULL, 0, path, &p);
    cr_assert_null(status, "%s: %s", path, weft_status_message(status));
    return p;
}

static void check_sidecar(const weft_program *p, printed wire, const char *path) {
    printed json, again;
    weft_program *q;
    cr_assert_null(weft_program_print_sidecar(p, &json.bytes, &json.nbytes));
    cr_assert_null(
        weft_program_parse(context, WEFT_FORM_PDMODEL, wire.bytes, wire.nbytes, json.bytes, json.nbytes, path, &q));
    cr_assert_null(weft_program_print_sidecar(q, &again.bytes, &again.nbytes));
    cr_expect(same(json, again), "%s: the sidecar printed again differs", path);
    cr_expect(weft_program_equal(p, q), "%s: the program differs after its sidecar was read again", path);
    drop(json);
    drop(again);
    weft_program_destroy(q);
}

static void check_save(const weft_program *p, printed wire, const char *path) {
    const char *root = getenv("TMPDIR");
    char stem[256], target[280];
    printed saved;
    snprintf(stem, sizeof stem, "%.200s/weft_forms_%ld", root ? root : "/tmp", (long)getpid());
    snprintf(target, sizeof target, "%s.pdmodel", stem);
    cr_assert_null(weft_program_save(p, target));
    cr_assert_null(file_read(&context->allocator, target, SIZE_MAX, &saved.bytes, &saved.nbytes));
    cr_expect(same(saved, wire), "%s: saved it differs", path);
    drop(saved);
    unlink(target);
    snprintf(target, sizeof target, "%s.dist.json", stem);
    unlink(target);
}

static void check_round_trips(const char *path) {
    weft_program *p = NULL;
    printed file, wire, yaml, yaml_again, wire_again;
    cr_assert_null(file_read(&context->allocator, path, SIZE_MAX, &file.bytes, &file.nbytes));
    weft_status status = weft_program_load(context, path, NULL, &p);
    cr_assert_null(status, "%s: %s", path, weft_status_message(status));
    wire = print(p, WEFT_FORM_PDMODEL);
    cr_expect(same(file, wire), "%s: written back it differs", path);
    check_save(p, wire, path);
    yaml = print(p, WEFT_FORM_YAML);
    weft_program *q = reread(WEFT_FORM_YAML, yaml, path);
    yaml_again = print(q, WEFT_FORM_YAML);
    wire_again = print(q, WEFT_FORM_PDMODEL);
    cr_expect(same(yaml, yaml_again), "%s: the YAML printed again differs", path);
    cr_expect(same(file, wire_again), "%s: through YAML it differs", path);
    cr_expect(weft_program_equal(p, q), "%s: the program differs after YAML", path);
    if (p->has_dist) check_sidecar(p, wire, path);
    drop(file), drop(wire), drop(yaml), drop(yaml_again), drop(wire_again);
    weft_program_destroy(p);
    weft_program_destroy(q);
}

/* nftw has no argument for its caller: each case is a process of its own. AddressSanitizer makes it ten times slower
 * and sees as much in a part of the programs, which differ little in form. */
#if defined(__SANITIZE_ADDRESS__)
enum { SHARDS = 4, STRIDE = 8 };
#else
enum { SHARDS = 4, STRIDE = 1 };
#endif
static size_t shard, seen;

static int visit(const char *path, const struct stat *about, int kind, struct FTW *where) {
    (void)about, (void)where;
    size_t n = strlen(path);
    bool is_program =
        (n > 8 && strcmp(path + n - 8, ".pdmodel") == 0) || (n > 11 && strcmp(path + n - 11, ".pdmodel.gz") == 0);
    if (kind == FTW_F && is_program && seen++ % (SHARDS * STRIDE) == shard) check_round_trips(path);
    return 0;
}

static const size_t shards[SHARDS];
TABLE_ROWS(program_forms, recorded_programs_come_back, shards);
TABLE_TEST(size_t *row, program_forms, recorded_programs_come_back) {
    shard = *row;
    cr_assert_eq(nftw(fixture_root(), visit, 16, FTW_PHYS), 0);
    cr_assert_gt(seen, 0, "no program below %s", fixture_root());
}

/* --- what is not modelled ----------------------------------------------------------------------------------------- */

/* Bytes of a program, put together by hand. */
static void put_number(buffer *out, uint32_t field, uint64_t value) {
    wire_put_integer(out, field, (int64_t)value);
}

static void put_text(buffer *out, uint32_t field, const char *bytes) {
    wire_put_bytes(out, field, bytes, strlen(bytes));
}

static void put_attr(buffer *out, const char *name_text, uint64_t type, uint32_t field, uint64_t value) {
    size_t start = wire_begin(out, 4);
    put_text(out, 1, name_text);
    put_number(out, 2, type);
    if (field) put_number(out, field, value);
    wire_end(out, start);
}

static void put_var(buffer *out, const char *name_text, const void *type, size_t type_nbytes) {
    size_t start = wire_begin(out, 3);
    put_text(out, 1, name_text);
    wire_put_bytes(out, 2, type, type_nbytes);
    put_number(out, 99, 7);
    wire_end(out, start);
}

static void put_odd_program(buffer *out) {
    static const uint8_t tensor_array[] = {8, 13, 34, 6, 10, 4, 8, 5, 16, 3}, raw[] = {8, 17};
    static const uint8_t dense_with_more[] = {8, 7, 26, 6, 10, 2, 8, 5, 80, 1};
    size_t block = wire_begin(out, 1);
    put_number(out, 1, 0);
    put_number(out, 2, UINT64_MAX);
    put_var(out, "an array", tensor_array, sizeof tensor_array);
    put_var(out, "raw", raw, sizeof raw);
    put_var(out, "more", dense_with_more, sizeof dense_with_more);
    size_t op = wire_begin(out, 4);
    put_text(out, 3, "an op");
    put_attr(out, "known", ATTR_INT, 3, 4);
    put_number(out, 5, 1);
    put_attr(out, "blank", UINT64_MAX, 0, 0);
    put_attr(out, "new type", 44, 0, 0);
    put_attr(out, "without its value", ATTR_FLOAT, 0, 0);
    put_attr(out, "with another's value", ATTR_INT, 13, 4);
    put_number(out, 200, 3);
    wire_end(out, op);
    put_number(out, 77, 1);
    wire_end(out, block);
    put_number(out, 6, 9);
}

Test(program_forms, what_is_not_modelled_is_kept) {
    buffer bytes;
    buffer_init(&bytes, &context->allocator);
    put_odd_program(&bytes);
    printed file = {bytes.bytes, bytes.nbytes};
    weft_program *p = reread(WEFT_FORM_PDMODEL, file, "odd");
    printed wire = print(p, WEFT_FORM_PDMODEL), yaml = print(p, WEFT_FORM_YAML);
    weft_program *q = reread(WEFT_FORM_YAML, yaml, "odd.yaml");
    printed through = print(q, WEFT_FORM_PDMODEL);
    cr_expect(same(file, wire));
    cr_expect(same(file, through));
    cr_expect(weft_program_equal(p, q));
    cr_expect_eq(p->blocks[0]->first->nattrs, 1, "only the first attr is modelled");
    cr_expect_eq(weft_op_attr_int(p->blocks[0]->first, "known", 0), 4);
    drop(wire), drop(yaml), drop(through);
    weft_program_destroy(p);
    weft_program_destroy(q);
    buffer_fini(&bytes);
}

/* --- what is wrong ------------------------------------------------------------------------------------------------ */

typedef struct wrong_row {
    const char *what;
    uint8_t bytes[40];
    size_t nbytes;
    const char *message;
} wrong_row;

static const wrong_row wrong_rows[] = {
    {"nothing", {0}, 0, "at least one block"},
    {"a tag that does not end", {0xff}, 1, "byte 1: expected a field tag"},
    {"field number 0", {0x02, 0x00}, 2, "byte 0: expected a field number"},
    {"a group", {0x0b}, 1, "byte 0: expected wire type"},
    {"2^60 bytes",
     {0x0a, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x10},
     10,
     "claims 1152921504606846976 bytes"},
    {"a block that is a number", {0x08, 0x01}, 2, "as a block"},
    {"no idx", {0x0a, 0x02, 0x10, 0x00}, 4, "expected a field \"idx\""},
    {"no parent", {0x0a, 0x02, 0x08, 0x00}, 4, "expected a field \"parent_idx\""},
    {"another idx", {0x0a, 0x04, 0x08, 0x05, 0x10, 0x00}, 6, "block 0: expected idx 0, found 5"},
    {"its own parent", {0x0a, 0x04, 0x08, 0x00, 0x10, 0x00}, 6, "cycle through block 0"},
    {"two blocks in a circle",
     {0x0a, 0x04, 0x08, 0x00, 0x10, 0x01, 0x0a, 0x04, 0x08, 0x01, 0x10, 0x00},
     12,
     "cycle through block 0"},
    {"parent out of range", {0x0a, 0x04, 0x08, 0x00, 0x10, 0x07}, 6, "expected a parent_idx from -1 to 0, found 7"},
    {"parent -2",
     {0x0a, 0x0d, 0x08, 0x00, 0x10, 0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01},
     15,
     "expected a parent_idx from -1 to 0, found -2"},
    {"an op without type",
     {0x0a, 0x11, 0x08, 0x00, 0x10, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01, 0x22, 0x02, 0x28, 0x01},
     19,
     "byte 17: expected a field \"type\" (3) in this OpDesc"},
    {"a var without name",
     {0x0a, 0x11, 0x08, 0x00, 0x10, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01, 0x1a, 0x02, 0x18, 0x01},
     19,
     "byte 17: expected a field \"name\" (1) in this VarDesc"},
    {"an op whose type is a number",
     {0x0a, 0x11, 0x08, 0x00, 0x10, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01, 0x22, 0x02, 0x18, 0x01},
     19,
     "byte 17: expected bytes with a length as type (field 3)"},
};

TABLE_ROWS(program_forms, wrong_bytes_are_told_with_their_position, wrong_rows);
TABLE_TEST(size_t *index, program_forms, wrong_bytes_are_told_with_their_position) {
    const wrong_row *row = &wrong_rows[*index];
    weft_program *p;
    weft_status status =
        weft_program_parse(context, WEFT_FORM_PDMODEL, row->bytes, row->nbytes, NULL, 0, "wrong.pdmodel", &p);
    cr_assert_eq(weft_status_code(status), WEFT_PARSE, "%s", row->what);
    cr_expect(strstr(weft_status_message(status), row->message), "%s: %s", row->what, weft_status_message(status));
    cr_expect_str_eq(weft_status_place(status), "wrong.pdmodel");
    weft_status_free(status);
}

/* Few are found while the op is looked over, many by protobuf-c. */
Test(program_forms, any_number_of_slots_comes_back) {
    for (size_t nslots = 0; nslots < 70; nslots++) {
        weft_program *p;
        weft_var *v[3];
        weft_op *op;
        cr_assert_null(weft_program_create(context, &p));
        for (int i = 0; i < 3; i++)
            cr_assert_null(
                weft_block_add_var(p->blocks[0], (const char *[]){"a", "b", "c"}[i], WEFT_FP32, 0, NULL, &v[i]));
        cr_assert_null(weft_op_create(p, "many", &op));
        for (size_t i = 0; i < nslots; i++) {
            char slot_text[16];
            uint32_t s;
            snprintf(slot_text, sizeof slot_text, "S%zu", i);
            cr_assert_null(op_append_room(op, i % 3 == 0, slot_text, i % 4, &s));
            for (size_t k = 0; k < i % 4; k++) cr_assert_null(op_append_arg(op, i % 3 == 0, s, v[(i + k) % 3]));
        }
        weft_block_insert_before(p->blocks[0], NULL, op);
        printed wire = print(p, WEFT_FORM_PDMODEL), again;
        weft_program *q = reread(WEFT_FORM_PDMODEL, wire, "many slots");
        again = print(q, WEFT_FORM_PDMODEL);
        cr_expect(weft_program_equal(p, q), "%zu slots", nslots);
        cr_expect(same(wire, again), "%zu slots", nslots);
        drop(wire);
        drop(again);
        weft_program_destroy(p);
        weft_program_destroy(q);
    }
}

/* What lists of attrs have in common is read once and shared: each op still has its own. */
Test(program_forms, attrs_in_any_mixture_come_back) {
    char long_texts[2][300] = {"", ""};
    memset(long_texts[0], 'x', sizeof *long_texts - 1);
    memset(long_texts[1], 'y', sizeof *long_texts - 1);
    const char *const values[] = {"", "short", long_texts[0], long_texts[1]};
    weft_program *p;
    cr_assert_null(weft_program_create(context, &p));
    for (unsigned n = 0; n < 300; n++) {
        weft_op *op;
        cr_assert_null(weft_op_create(p, n % 3 ? "some" : "other", &op));
        for (unsigned i = 0, digits = n / 2 * 2654435761u >> 12; i < 5; i++, digits /= 5)
            if (digits % 5 < 4)
                cr_assert_null(weft_op_set_attr_string(op, (char[]){(char)('a' + i), 0}, values[digits % 5]));
        weft_block_insert_before(p->blocks[0], NULL, op);
    }
    printed wire = print(p, WEFT_FORM_PDMODEL), again;
    weft_program *q = reread(WEFT_FORM_PDMODEL, wire, "attrs");
    again = print(q, WEFT_FORM_PDMODEL);
    cr_expect(same(wire, again));
    cr_expect(weft_program_equal(p, q));
    weft_op *mine = p->blocks[0]->first, *its = q->blocks[0]->first;
    for (unsigned n = 0; mine; n++, mine = mine->next, its = its->next) {
        if (n % 7) continue;
        cr_assert_null(weft_op_set_attr_int(mine, "b", 1));
        cr_assert_null(weft_op_set_attr_int(its, "b", 1));
    }
    cr_expect(weft_program_equal(p, q), "a change of one op's attrs is in another's");
    drop(wire), drop(again);
    weft_program_destroy(p);
    weft_program_destroy(q);
}
