/* insert_comm_wait, schedule_comm_wait, and what the pass manager says of waits: each test is one behaviour, most of
 * them one that the originals get wrong. Programs and what is expected of them are written "out,out=type(in,in); ...";
 * every collective is asynchronous on ring 1, if its type does not begin with c_. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

#include "passes/pending.h"
#include "tests/support/grads.h"
#include "tests/support/must.h"
#include "tests/support/small_program.h"

static grads g;
static weft_report *report;
static char reported[2048]; /* diagnostics */

static void on_diagnostic(void *user, const weft_diagnostic *d) {
    (void)user;
    size_t n = strlen(reported);
    snprintf(reported + n, sizeof reported - n, "%s: %s\n", d->place, d->message);
}

static void set_up(void) {
    reported[0] = '\0';
    grads_create_with(&g, &(weft_context_options){WEFT_CONTEXT_OPTIONS_INIT, .on_diagnostic = on_diagnostic});
    report = NULL;
}
static void tear_down(void) {
    weft_report_destroy(report);
    grads_destroy(&g);
}
TestSuite(passes_waits, .init = set_up, .fini = tear_down);

/* Slots of the types that occur. */
static const struct {
    const char *type, *in, *out;
} slots[] = {{"relu", "X", "Out"},
             {"sum", "X", "Out"},
             {"fetch", "X", "Out"},
             {"assign", "X", "Out"},
             {"wait_tensor", "X", "Out"},
             {"getitem", "X", "Out"},
             {"aten_view", "self", "out"},
             {"aten_t", "self", "out"},
             {"all_reduce", "x", "out"},
             {"all_gather", "x", "out"},
             {"all_reduce_coalesced", "x", "out"},
             {"c_allreduce_sum", "X", "Out"}};

static void add_vars(weft_op *op, bool output, const char *slot_name, char *names) {
    for (char *n; (n = strsep(&names, ",")) && *n;)
        must(output ? weft_op_add_output(op, slot_name, grads_var(&g, n))
                    : weft_op_add_input(op, slot_name, grads_var(&g, n)));
}

static weft_op *add_op(char *text_of_op) {
    char *outs = text_of_op + strspn(text_of_op, " "), *type = strchr(outs, '='), *ins = strchr(outs, '(');
    weft_op *op = NULL;
    if (type)
        *type++ = '\0';
    else
        type = outs, outs = NULL;
    *ins++ = '\0';
    ins[strcspn(ins, ")")] = '\0';
    must(weft_op_create(g.p, type, &op));
    if (strcmp(type, "aten_copy_") == 0) {
        char *from = strchr(ins, ','), *to = strchr(outs, ',');
        *from++ = *to++ = '\0';
        add_vars(op, false, "self", ins);
        add_vars(op, false, "src", from);
        add_vars(op, true, "out", outs);
        add_vars(op, true, "self_out", to);
    } else {
        size_t i = 0;
        while (i + 1 < sizeof slots / sizeof *slots && strcmp(slots[i].type, type) != 0) i++;
        add_vars(op, false, slots[i].in, ins);
        if (outs) add_vars(op, true, slots[i].out, outs);
    }
    weft_block_insert_before(g.b, NULL, op);
    if (!op_has_effect(op, OP_COLLECTIVE)) return op;
    must(weft_op_set_attr_int(op, "ring_id", 1));
    if (strncmp(type, "c_", 2) != 0) must(weft_op_set_attr_bool(op, "async_op", true));
    return op;
}

static void build(const char *program) {
    char *copy = strdup(program), *rest = copy;
    for (char *line; (line = strsep(&rest, ";"));)
        if (strchr(line, '(')) add_op(line);
    free(copy);
}

static void print_args(const weft_op *op, bool output, buffer *out) {
    const char *comma = "";
    FOR_EACH_ARG(op, output, u) {
        buffer_format(out, "%s%s", comma, use_var(op->program, u)->name->bytes);
        comma = ",";
    }
}

static void print_program(buffer *out) {
    buffer_init(out, &g.context->allocator);
    FOR_EACH_OP(op, g.b) {
        if (op->prev) buffer_text(out, "; ");
        size_t n = out->nbytes;
        print_args(op, true, out);
        buffer_format(out, "%s%s(", out->nbytes > n ? "=" : "", op->type->bytes);
        print_args(op, false, out);
        buffer_text(out, ")");
    }
    buffer_append(out, "", 1);
}

static void expect(const char *program, const char *list, const char *wanted) {
    buffer got;
    size_t nproblems;
    pending_check checked;
    build(program);
    report = grads_passes(&g, list);
    print_program(&got);
    cr_assert_str_eq(got.bytes, wanted);
    buffer_fini(&got);
    pending_check_init(&checked, g.context);
    must(check_pending_use(&checked, g.p, &nproblems));
    pending_check_fini(&checked);
    cr_assert_eq(nproblems, 0);
}

#define INSERT(name, program, wanted)                                                                                  \
    Test(passes_waits, insert_##name) {                                                                                \
        expect(program, "insert_comm_wait", wanted);                                                                   \
    }
#define SCHEDULE(name, program, wanted)                                                                                \
    Test(passes_waits, schedule_##name) {                                                                              \
        expect(program, "schedule_comm_wait", wanted);                                                                 \
    }

/* --- insert_comm_wait --------------------------------------------------------------------------------------------- */

INSERT(before_the_first_consumer_and_once, "r=all_reduce(a); b=relu(a); c=sum(r,b); d=relu(r)",
       "r=all_reduce(a); b=relu(a); wait_tensor=wait_tensor(r); c=sum(wait_tensor,b); d=relu(wait_tensor)")
INSERT(an_output_of_the_program_is_a_consumer, "r=all_reduce(a); fetch(r)",
       "r=all_reduce(a); wait_tensor=wait_tensor(r); fetch(wait_tensor)")
INSERT(nothing_for_what_nothing_consumes, "r=all_reduce(a); b=aten_view(r); c=relu(a)",
       "r=all_reduce(a); b=aten_view(r); c=relu(a)")
INSERT(a_collective_is_a_consumer, "r=all_reduce(a); s=all_gather(r); b=relu(s); c=relu(r)",
       "r=all_reduce(a); wait_tensor=wait_tensor(r); s=all_gather(wait_tensor); wait_tensor_1=wait_tensor(s); "
       "b=relu(wait_tensor_1); c=relu(wait_tensor)")
INSERT(in_the_order_of_the_consumers_arguments, "r=all_reduce(a); s=all_reduce(b); c=sum(s,a,r)",
       "r=all_reduce(a); s=all_reduce(b); wait_tensor=wait_tensor(s); wait_tensor_1=wait_tensor(r); "
       "c=sum(wait_tensor,a,wait_tensor_1)")
INSERT(each_member_of_a_list,
       "r,s=all_reduce_coalesced(a,b); x=getitem(r); y=getitem(s); c=relu(y); d=relu(x); e=relu(y)",
       "r,s=all_reduce_coalesced(a,b); x=getitem(r); y=getitem(s); wait_tensor=wait_tensor(y); c=relu(wait_tensor); "
       "wait_tensor_1=wait_tensor(x); d=relu(wait_tensor_1); e=relu(wait_tensor)")
INSERT(in_place_and_again, "a=relu(x); a=all_reduce(a); a=all_reduce(a); b=relu(a)",
       "a=relu(x); a=all_reduce(a); wait_tensor=wait_tensor(a); wait_tensor=all_reduce(wait_tensor); "
       "wait_tensor_1=wait_tensor(wait_tensor); b=relu(wait_tensor_1)")
INSERT(through_a_view_from_before_the_collective, "a=relu(x); v=aten_view(a); a=all_reduce(a); b=relu(v); c=relu(a)",
       "a=relu(x); a=all_reduce(a); wait_tensor=wait_tensor(a); v=aten_view(wait_tensor); b=relu(v); c=relu(wait_tensor)")
INSERT(through_a_view_from_after_it, "r=all_reduce(a); v=aten_t(r); b=relu(x); c=relu(v); d=relu(r)",
       "r=all_reduce(a); b=relu(x); wait_tensor=wait_tensor(r); v=aten_t(wait_tensor); c=relu(v); d=relu(wait_tensor)")
INSERT(views_of_views_behind_it_in_order, "r=all_reduce(a); u=aten_view(r); v=aten_t(u); w=aten_t(u); b=relu(w); c=relu(v)",
       "r=all_reduce(a); wait_tensor=wait_tensor(r); u=aten_view(wait_tensor); v=aten_t(u); w=aten_t(u); b=relu(w); "
       "c=relu(v)")
INSERT(a_second_view_where_the_first_is_read_before,
       "a=relu(x); v=aten_view(a); e=relu(v); a=all_reduce(a); u=aten_t(v); b=relu(u); c=relu(v)",
       "a=relu(x); v=aten_view(a); e=relu(v); a=all_reduce(a); wait_tensor=wait_tensor(a); v_1=aten_view(wait_tensor); "
       "u=aten_t(v_1); b=relu(u); c=relu(v_1)")
INSERT(a_view_that_nobody_reads_stays, "r=all_reduce(a); v=aten_view(r); b=relu(r)",
       "r=all_reduce(a); v=aten_view(r); wait_tensor=wait_tensor(r); b=relu(wait_tensor)")
INSERT(a_view_follows_two_collectives, "a=relu(x); v=aten_view(a); a=all_reduce(a); a=all_reduce(a); b=relu(v)",
       "a=relu(x); a=all_reduce(a); wait_tensor=wait_tensor(a); wait_tensor=all_reduce(wait_tensor); "
       "wait_tensor_1=wait_tensor(wait_tensor); v=aten_view(wait_tensor_1); b=relu(v)")
INSERT(before_its_input_is_written, "a=relu(x); r=all_reduce(a); v,a=aten_copy_(a,x); b=relu(r)",
       "a=relu(x); r=all_reduce(a); wait_tensor=wait_tensor(r); v,a=aten_copy_(a,x); b=relu(wait_tensor)")
INSERT(a_value_made_anew_keeps_its_name, "r=all_reduce(a); b=relu(r); r=relu(x); c=relu(r)",
       "r=all_reduce(a); wait_tensor=wait_tensor(r); b=relu(wait_tensor); r=relu(x); c=relu(r)")
INSERT(leaves_pending_collectives_that_have_a_wait, "r=all_reduce(a); w=wait_tensor(r); b=relu(w); s=all_reduce(b); c=relu(s)",
       "r=all_reduce(a); w=wait_tensor(r); b=relu(w); s=all_reduce(b); wait_tensor_1=wait_tensor(s); "
       "c=relu(wait_tensor_1)")

Test(passes_waits, insert_tells_of_a_wait_that_comes_late) {
    build("r=all_reduce(a); b=relu(r); w=wait_tensor(r)");
    report = grads_passes(&g, "insert_comm_wait");
    cr_assert(grads_left(report, 0, WEFT_REASON_IN_USE, "touches \"r\" before the wait for it"));
    cr_assert_eq(grads_count(&g, "wait_tensor"), 1);
}

Test(passes_waits, insert_before_the_op_whose_block_consumes) {
    static const char *const lines[] = {"var a float32 4",
                                        "var r float32 4",
                                        "var b float32 4",
                                        "var d float32 4",
                                        "var c bool 1",
                                        "op all_reduce x=a -> out=r | async_op=true ring_id=1",
                                        "op relu X=a -> Out=b",
                                        "op conditional_block Cond=c | sub_block=@1",
                                        "block",
                                        "op relu X=r -> Out=d"};
    static const char list_text[] = "insert_comm_wait, schedule_comm_wait";
    weft_program *p = small_program(g.context, lines, sizeof lines / sizeof *lines);
    weft_pass_list *list = NULL;
    must(weft_pass_list_parse(g.context, list_text, strlen(list_text), "test", &list));
    must(weft_pass_list_run(list, p, NULL));
    char *types = small_program_types(p, 0);
    cr_assert_str_eq(types, "all_reduce relu wait_tensor conditional_block");
    free(types);
    weft_pass_list_destroy(list);
    weft_program_destroy(p);
}

/* --- schedule_comm_wait ------------------------------------------------------------------------------------------- */

SCHEDULE(sinks_to_the_first_consumer, "r=all_reduce(a); w=wait_tensor(r); b=relu(a); c=relu(b); d=sum(w,c)",
         "r=all_reduce(a); b=relu(a); c=relu(b); w=wait_tensor(r); d=sum(w,c)")
SCHEDULE(takes_views_along_in_order,
         "r=all_reduce(a); w=wait_tensor(r); u=aten_view(w); v=aten_t(u); b=relu(a); c=relu(v)",
         "r=all_reduce(a); b=relu(a); w=wait_tensor(r); u=aten_view(w); v=aten_t(u); c=relu(v)")
SCHEDULE(leaves_views_where_the_wait_stays,
         "r=all_reduce(a); w=wait_tensor(r); b=relu(w); v=aten_view(w); c=relu(a); d=relu(v)",
         "r=all_reduce(a); w=wait_tensor(r); b=relu(w); v=aten_view(w); c=relu(a); d=relu(v)")
SCHEDULE(a_detach_is_no_user, "r=all_reduce(a); w=wait_tensor(r); v=aten_view(w); b=relu(a); s=all_reduce(b); fetch(v)",
         "r=all_reduce(a); b=relu(a); s=all_reduce(b); w=wait_tensor(r); v=aten_view(w); fetch(v)")
SCHEDULE(a_wait_without_user, "r=all_reduce(a); w=wait_tensor(r); b=relu(a); fetch(b)",
         "r=all_reduce(a); b=relu(a); w=wait_tensor(r); fetch(b)")
SCHEDULE(a_collective_without_user, "r=all_reduce(a); s=all_reduce(b); w=wait_tensor(s); c=relu(a); d=relu(w)",
         "r=all_reduce(a); s=all_reduce(b); c=relu(a); w=wait_tensor(s); d=relu(w)")
SCHEDULE(a_list_of_one, "r=all_reduce_coalesced(a); x=getitem(r); w=wait_tensor(x); b=relu(a); c=relu(w)",
         "r=all_reduce_coalesced(a); x=getitem(r); b=relu(a); w=wait_tensor(x); c=relu(w)")
SCHEDULE(members_one_by_one,
         "r,s=all_reduce_coalesced(a,b); x=getitem(r); y=getitem(s); v=wait_tensor(x); w=wait_tensor(y); c=relu(a); "
         "d=relu(w); e=relu(v)",
         "r,s=all_reduce_coalesced(a,b); x=getitem(r); y=getitem(s); c=relu(a); w=wait_tensor(y); d=relu(w); "
         "v=wait_tensor(x); e=relu(v)")
SCHEDULE(a_reader_through_a_view_from_before,
         "a=relu(x); v=aten_view(a); a=all_reduce(a); w=wait_tensor(a); b=relu(x); c=relu(v); d=relu(w)",
         "a=relu(x); a=all_reduce(a); b=relu(x); w=wait_tensor(a); v=aten_view(w); c=relu(v); d=relu(w)")
SCHEDULE(a_reader_past_the_wait_reads_its_result,
         "r=all_reduce(a); v=aten_t(r); w=wait_tensor(r); b=relu(x); c=relu(v); d=relu(r)",
         "r=all_reduce(a); b=relu(x); w=wait_tensor(r); v=aten_t(w); c=relu(v); d=relu(w)")
SCHEDULE(a_writer_of_the_input,
         "a=relu(x); r=all_reduce(a); w=wait_tensor(r); b=relu(x); v,a=aten_copy_(a,x); c=relu(w)",
         "a=relu(x); r=all_reduce(a); b=relu(x); w=wait_tensor(r); v,a=aten_copy_(a,x); c=relu(w)")
SCHEDULE(copies_sink_so_that_accumulation_overlaps,
         "r=all_reduce(a); v=wait_tensor(r); c,p=aten_copy_(p,v); b=relu(a); s=all_reduce(b); w=wait_tensor(s); "
         "d,q=aten_copy_(q,w); fetch(b)",
         "r=all_reduce(a); b=relu(a); s=all_reduce(b); v=wait_tensor(r); c,p=aten_copy_(p,v); w=wait_tensor(s); "
         "d,q=aten_copy_(q,w); fetch(b)")
SCHEDULE(a_copy_stays_before_a_reader_of_its_target,
         "r=all_reduce(a); v=wait_tensor(r); c,p=aten_copy_(p,v); b=relu(a); d=relu(c); s=all_reduce(d); "
         "w=wait_tensor(s); fetch(w)",
         "r=all_reduce(a); b=relu(a); v=wait_tensor(r); c,p=aten_copy_(p,v); d=relu(c); s=all_reduce(d); "
         "w=wait_tensor(s); fetch(w)")
SCHEDULE(a_copy_stays_before_a_writer_of_its_target,
         "r=all_reduce(a); v=wait_tensor(r); c,p=aten_copy_(p,v); b=relu(a); p=relu(b); d=relu(a)",
         "r=all_reduce(a); b=relu(a); v=wait_tensor(r); c,p=aten_copy_(p,v); p=relu(b); d=relu(a)")
SCHEDULE(a_copy_stays_if_the_wait_does, "r=all_reduce(a); v=wait_tensor(r); b=relu(v); c,p=aten_copy_(p,v); d=relu(a)",
         "r=all_reduce(a); v=wait_tensor(r); b=relu(v); c,p=aten_copy_(p,v); d=relu(a)")
SCHEDULE(two_copies_of_one_pending_collective,
         "r=all_reduce(a); v=wait_tensor(r); c,p=aten_copy_(p,v); d,q=aten_copy_(q,v); b=relu(a)",
         "r=all_reduce(a); b=relu(a); v=wait_tensor(r); c,p=aten_copy_(p,v); d,q=aten_copy_(q,v)")
SCHEDULE(raises_to_where_the_input_is_ready, "a=relu(x); b=relu(x); c=relu(b); r=all_reduce(a); fetch(c)",
         "a=relu(x); r=all_reduce(a); b=relu(x); c=relu(b); fetch(c)")
SCHEDULE(raises_with_the_view_that_it_reads, "a=relu(x); b=relu(x); v=aten_t(a); r=all_reduce(v); fetch(b)",
         "a=relu(x); v=aten_t(a); r=all_reduce(v); b=relu(x); fetch(b)")
SCHEDULE(keeps_the_order_of_a_ring, "a=relu(x); b=relu(x); c=c_allreduce_sum(b); r=all_reduce(a); d=relu(x)",
         "a=relu(x); b=relu(x); c=c_allreduce_sum(b); r=all_reduce(a); d=relu(x)")
SCHEDULE(nothing_passes_the_host,
         "a=relu(x); fetch(x); b=relu(x); r=all_reduce(a); w=wait_tensor(r); c=relu(x); fetch(c); d=relu(w)",
         "a=relu(x); fetch(x); r=all_reduce(a); b=relu(x); c=relu(x); w=wait_tensor(r); fetch(c); d=relu(w)")
SCHEDULE(nothing_passes_an_unknown_op, "a=relu(x); r=all_reduce(a); w=wait_tensor(r); b=relu(x); unknown(x); c=relu(w)",
         "a=relu(x); r=all_reduce(a); b=relu(x); w=wait_tensor(r); unknown(x); c=relu(w)")
SCHEDULE(a_wait_passes_a_functional_op_without_a_row,
         "a=relu(x); r=all_reduce(a); w=wait_tensor(r); b=aten.maximum.default(x); c=relu(w)",
         "a=relu(x); r=all_reduce(a); b=aten.maximum.default(x); w=wait_tensor(r); c=relu(w)")
SCHEDULE(nothing_passes_an_op_that_writes_and_has_no_row,
         "a=relu(x); r=all_reduce(a); w=wait_tensor(r); b=relu(x); d=aten.resize_.default(x); c=relu(w)",
         "a=relu(x); r=all_reduce(a); b=relu(x); w=wait_tensor(r); d=aten.resize_.default(x); c=relu(w)")
SCHEDULE(nothing_passes_a_view_that_has_no_row,
         "a=relu(x); r=all_reduce(a); w=wait_tensor(r); b=relu(x); d=aten.diagonal.default(x); c=relu(w)",
         "a=relu(x); r=all_reduce(a); b=relu(x); w=wait_tensor(r); d=aten.diagonal.default(x); c=relu(w)")
SCHEDULE(in_place_after_the_last_reader, "a=relu(x); b=relu(a); c=relu(x); a=all_reduce(a); d=relu(x)",
         "a=relu(x); b=relu(a); a=all_reduce(a); c=relu(x); d=relu(x)")

/* Each relu is 128 bytes: without a bound `a` is kept until the wait, which sinks past the peak. */
#define WIDE                                                                                                           \
    "a=relu(x); r=all_reduce(a); w=wait_tensor(r); b=relu(x); c=relu(x); d=relu(x); e=sum(b,c,d); f=relu(e); "         \
    "s=sum(f,w); fetch(s)"

Test(passes_waits, schedule_tells_how_memory_grows) {
    build(WIDE);
    report = grads_passes(&g, "schedule_comm_wait");
    cr_assert_eq(weft_report_count(report, 0, "bytes of peak memory added"), 128);
    cr_assert_eq(weft_report_count(report, 0, "waits sunk"), 1);
}

Test(passes_waits, schedule_keeps_within_the_bound) {
    buffer got;
    build(WIDE);
    report = grads_passes(&g, "schedule_comm_wait: {max_memory_growth_mb: 0}");
    cr_assert_eq(weft_report_count(report, 0, "bytes of peak memory added"), 0);
    cr_assert(grads_left(report, 0, WEFT_REASON_LIMIT, "max_memory_growth_mb"));
    print_program(&got);
    cr_assert_str_eq(got.bytes, "a=relu(x); r=all_reduce(a); b=relu(x); c=relu(x); d=relu(x); w=wait_tensor(r); "
                                "e=sum(b,c,d); f=relu(e); s=sum(f,w); fetch(s)");
    buffer_fini(&got);
}

/* --- the pass manager --------------------------------------------------------------------------------------------- */

static weft_op *find(const weft_program *p, const char *type) {
    FOR_EACH_OP(op, p->blocks[0]) {
        if (op_is(op, type)) return op;
    }
    return NULL;
}

static weft_status drop_wait(weft_pass_context *pass, weft_program *p, void *user) {
    (void)pass, (void)user;
    weft_op *wait = find(p, "wait_tensor"), *reader = wait->next;
    weft_op_rename_input(reader, op_out(wait), op_x(wait));
    weft_op_remove(wait);
    return NULL;
}
static weft_status delay_wait(weft_pass_context *pass, weft_program *p, void *user) {
    (void)pass, (void)user;
    weft_op *wait = find(p, "wait_tensor"), *reader = wait->next;
    weft_op_rename_input(reader, op_out(wait), op_x(wait));
    weft_op_move_after(wait, reader);
    return NULL;
}
static weft_status repeat_wait(weft_pass_context *pass, weft_program *p, void *user) {
    (void)pass, (void)user;
    weft_op *wait = find(p, "wait_tensor"), *again;
    TRY(op_clone(wait, &again));
    weft_block_insert_after(p->blocks[0], wait, again);
    return NULL;
}

/* Runs a host's pass over a program and gives what the list says of it. */
static void run_spoiler(const char *program, weft_status (*spoil)(weft_pass_context *, weft_program *, void *),
                        const char *wanted) {
    const weft_pass pass = {.name = "spoiler", .summary = "", .run = spoil};
    weft_pass_list *list = NULL;
    build(program);
    must(weft_pass_register(g.context, &pass));
    must(weft_pass_list_parse(g.context, "spoiler", strlen("spoiler"), "test", &list));
    weft_status status = weft_pass_list_run(list, g.p, NULL);
    if (wanted) {
        cr_assert_eq(weft_status_code(status), WEFT_INVALID_PROGRAM);
        cr_assert(strstr(reported, wanted), "%s", reported);
    } else {
        cr_assert_null(status, "%s", weft_status_message(status));
        cr_assert_str_empty(reported);
    }
    weft_status_free(status);
    weft_pass_list_destroy(list);
}

#define SOUND "r=all_reduce(a); w=wait_tensor(r); b=relu(w); fetch(b)"

Test(passes_waits, manager_finds_a_missing_wait) {
    run_spoiler(SOUND, drop_wait, "relu #1: needs \"r\" of the asynchronous all_reduce #0, which nothing waits for");
}
Test(passes_waits, manager_finds_a_late_wait) {
    run_spoiler(SOUND, delay_wait, "relu #1: needs \"r\" of the asynchronous all_reduce #0 before wait_tensor #2");
}
Test(passes_waits, manager_finds_a_second_wait) {
    run_spoiler(SOUND, repeat_wait, "wait_tensor #2: waits for what all_reduce #0 wrote to \"r\" once more");
}
Test(passes_waits, manager_lets_a_program_without_waits_be) {
    run_spoiler("s=all_reduce(a); c=relu(s); r=all_reduce(a); w=wait_tensor(r); b=relu(w)", drop_wait, NULL);
}
Test(passes_waits, manager_finds_none_where_nothing_consumes) {
    run_spoiler("r=all_reduce(a); w=wait_tensor(r); v=aten_view(w); fetch(a)", drop_wait, NULL);
}
