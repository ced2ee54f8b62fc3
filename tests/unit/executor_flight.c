/* executor_flight.c: what a launcher reads in the memory of its processes: who waits longer than usual, and for whom.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "executor/comm/wait.h"
#include "executor/flight.h"
#include "weft/processes.h"

enum { PROCESSES = 2, MS = 1000000 };

static weft_flights *flights;
static flight_process *processes[PROCESSES];
static char text[900];

/* Two processes of two ranks each, all of them this one. */
static void open_flights(void) {
    static char variable[200];
    cr_assert_null(weft_flights_create(PROCESSES, &flights));
    weft_flights_variable(flights, variable, sizeof variable);
    putenv(variable);
    for (int p = 0; p < PROCESSES; p++) {
        cr_assert_not_null(processes[p] = flight_join(p));
        processes[p]->first_rank = 2 * p;
        processes[p]->nlocal = 2;
    }
}

static void close_flights(void) {
    weft_flights_destroy(flights);
}

/* A rank begins a collective `ago` ms before now, and its others are late after `late` ms. */
static void enter(int rank, int64_t ring, int64_t ago, int64_t late, uint64_t awaited) {
    int64_t since = wait_clock_ns() - ago * MS;
    flight_enter(&processes[rank / 2]->ranks[rank % 2], &(flight_entry){.op = "c_allreduce_sum #3",
                                                                        .ring_id = ring,
                                                                        .since_ns = since,
                                                                        .late_ns = late ? since + late * MS : 0,
                                                                        .awaited = (uint64_t[FLIGHT_SET]){awaited}});
}

static bool says(const char *part) {
    return weft_flights_late(flights, text, sizeof text) && strstr(text, part);
}

TestSuite(executor_flight, .init = open_flights, .fini = close_flights);

Test(executor_flight, nobody_is_late_in_time) {
    cr_expect(!says(""), "nobody has begun");
    enter(0, 0, 200, 0, 1 << 1);
    cr_expect(!says(""), "it has never ended, so that nobody knows how long it takes: %s", text);
    enter(0, 0, 200, 1000000, 1 << 1);
    cr_expect(!says(""), "that is not long: %s", text);
    enter(0, 0, 200, 50, 1 << 1);
    flight_end(&processes[0]->ranks[0]);
    cr_expect(!says(""), "it has ended: %s", text);
}

Test(executor_flight, who_waits_and_for_whom) {
    enter(2, 7, 5000, 0, 1 << 3);
    enter(0, 0, 200, 50, 1 << 1 | 1 << 3);
    cr_expect(says("rank 0, c_allreduce_sum #3, ring 0: has waited "), "%s", text);
    cr_expect(says(" s (0.05 s are usual at most) for rank 1 (pid "), "%s", text);
    cr_expect(says(", before its first collective), rank 3 (pid "), "%s", text);
    cr_expect(!says("rank 2"), "of another ring: %s", text);
    enter(1, 0, 1, 50, 1 << 0 | 1 << 3);
    cr_expect(!says("for rank 1") && says(" for rank 3 (pid "), "rank 1 has come: %s", text);
    enter(3, 0, 900, 50, 1 << 0 | 1 << 1);
    cr_expect(says("rank 3, c_allreduce_sum #3, ring 0: has waited ") && says(", though all ranks have come"), "%s",
              text);
}

Test(executor_flight, ranks_that_are_not_here) {
    enter(0, 0, 200, 50, 1 << 5);
    cr_expect(says(" for a rank of another host"), "%s", text);
    enter(0, 0, 200, 50, 1 << 3);
    flight_leave(processes[1], 0);
    cr_expect(says(" for a rank of another host"), "one that has left is not named: %s", text);
    char little[12];
    cr_expect(weft_flights_late(flights, little, sizeof little) && strlen(little) == sizeof little - 1);
}
