/* State of the model, its clock, and the closed forms that everything read is derived from. */
#define _GNU_SOURCE
#include "state.h"

#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define VIRTUAL_START_US INT64_C(1767225600000000) /* 2026-01-01T00:00:00Z */
#define TWO_PI           6.283185307179586

gpusim_state gpusim_S;

static pthread_mutex_t mutex = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static unsigned depth;
static bool configured;

void *gpusim_grow(void *items, size_t *count, size_t *cap, size_t size)
{
    if (*count < *cap) {
        return items;
    }
    *cap = *cap ? *cap * 2 : 8;
    void *p = realloc(items, *cap * size);
    if (p == NULL) {
        fprintf(stderr, "gpusim: out of memory for %zu items of %zu bytes\n", *cap, size);
        abort();
    }
    return p;
}

/* splitmix64 over two words: the only source of "random" values. */
uint64_t gpusim_hash(uint64_t a, uint64_t b)
{
    uint64_t z = a * UINT64_C(0x9e3779b97f4a7c15) + b + UINT64_C(0x632be59bd9b4e019);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

void gpusim_format_uuid(char out[GPUSIM_UUID], const char *prefix, uint64_t a, uint64_t b, int version)
{
    uint64_t h = gpusim_hash(a, b), l = gpusim_hash(h, a);
    snprintf(out, GPUSIM_UUID, "%s%08" PRIx32 "-%04" PRIx32 "-%d%03" PRIx32 "-%04" PRIx32 "-%012" PRIx64, prefix,
             (uint32_t)(h >> 32), (uint32_t)(h >> 16) & 0xffff, version, (uint32_t)h & 0xfff,
             ((uint32_t)(l >> 48) & 0x3fff) | 0x8000, l & UINT64_C(0xffffffffffff));
}

/* --- clock and call protocol ----------------------------------------------------------- */

int64_t gpusim_real_us(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_REALTIME, &ts);
    return (int64_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

/* Carries out the scheduled lines up to the target, each at its own instant. */
static void move_clock(int64_t target_us)
{
    for (;;) {
        size_t next = gpusim_S.scheduled.count;
        for (size_t i = 0; i < gpusim_S.scheduled.count; i++) {
            const gpusim_scheduled *c = &gpusim_S.scheduled.items[i];
            if (c->at_us > target_us) {
                continue;
            }
            const gpusim_scheduled *best = next < gpusim_S.scheduled.count ? &gpusim_S.scheduled.items[next] : NULL;
            if (best == NULL || c->at_us < best->at_us || (c->at_us == best->at_us && c->order < best->order)) {
                next = i;
            }
        }
        if (next == gpusim_S.scheduled.count) {
            break;
        }
        gpusim_scheduled due = gpusim_S.scheduled.items[next];
        gpusim_S.scheduled.items[next] = gpusim_S.scheduled.items[--gpusim_S.scheduled.count];
        if (due.at_us > gpusim_S.now_us) {
            gpusim_S.now_us = due.at_us;
        }
        char error[256];
        if (gpusim_line(due.line, error, sizeof error) != 0) {
            fprintf(stderr, "gpusim: scheduled line %s\n", error);
            abort();
        }
        free(due.line);
    }
    if (target_us > gpusim_S.now_us) {
        gpusim_S.now_us = target_us;
    }
}

static void refuse_configuration(const char *where, const char *error)
{
    fprintf(stderr, "gpusim: %s: %s\n", where, error);
    _exit(2);
}

static void configure_from_file(const char *path)
{
    FILE *f = fopen(path, "r");
    if (f == NULL) {
        refuse_configuration(path, "GPUSIM_CONFIG can't be read");
        return;
    }
    char *line = NULL, error[256], where[512];
    size_t cap = 0;
    for (unsigned n = 1; getline(&line, &cap, f) >= 0; n++) {
        if (gpusim_do(line, error, sizeof error) != 0) {
            snprintf(where, sizeof where, "%s:%u", path, n);
            refuse_configuration(where, error);
        }
    }
    free(line);
    fclose(f);
}

static void clear_lists(void)
{
    for (size_t i = 0; i < gpusim_S.scheduled.count; i++) {
        free(gpusim_S.scheduled.items[i].line);
    }
    gpusim_S.scheduled.count = gpusim_S.faults.count = gpusim_S.field_faults.count = gpusim_S.calls.count = 0;
}

static void start_model(bool virtual_clock)
{
    gpusim_drop_gpus();
    clear_lists();
    gpusim_S.virtual_clock = virtual_clock;
    gpusim_S.now_us = gpusim_S.start_us = virtual_clock ? VIRTUAL_START_US : gpusim_real_us();
    gpusim_S.seed = 1;
    gpusim_S.engine_up = true;
    gpusim_S.engine_generation++;
}

static void lock_model(void)
{
    pthread_mutex_lock(&mutex);
    if (!configured) {
        configured = true;
        start_model(false);
        const char *lines = getenv("GPUSIM"), *path = getenv("GPUSIM_CONFIG");
        char error[256];
        if (path != NULL) {
            configure_from_file(path);
        }
        if (lines != NULL && gpusim_do(lines, error, sizeof error) != 0) {
            refuse_configuration("GPUSIM", error);
        }
    }
    if (depth++ == 0) { /* one call sees one instant */
        move_clock(gpusim_S.virtual_clock ? gpusim_S.now_us : gpusim_real_us());
    }
}

static void count_call(const char *symbol)
{
    for (size_t i = 0; i < gpusim_S.calls.count; i++) {
        if (strcmp(gpusim_S.calls.items[i].symbol, symbol) == 0) {
            gpusim_S.calls.items[i].count++;
            return;
        }
    }
    gpusim_call c = { .count = 1 };
    snprintf(c.symbol, sizeof c.symbol, "%s", symbol);
    PUSH(gpusim_S.calls, c);
}

int gpusim_enter(const char *symbol)
{
    lock_model();
    count_call(symbol);
    for (size_t i = 0; i < gpusim_S.faults.count; i++) {
        gpusim_fault *f = &gpusim_S.faults.items[i];
        if (f->left != 0 && strcmp(f->symbol, symbol) == 0) {
            if (f->left > 0) {
                f->left--;
            }
            return f->code;
        }
    }
    return 0;
}

void gpusim_leave(void)
{
    depth--;
    pthread_mutex_unlock(&mutex);
}

int64_t gpusim_now_us(void) { return gpusim_S.now_us; }
int64_t gpusim_start_us(void) { return gpusim_S.start_us; }
uint64_t gpusim_seed(void) { return gpusim_S.seed; }
const char *gpusim_driver_version(void) { return "570.124.06"; }

bool gpusim_hostengine(unsigned *generation)
{
    *generation = gpusim_S.engine_generation;
    return gpusim_S.engine_up;
}

/* --- GPUs and epochs ------------------------------------------------------------------- */

unsigned gpusim_gpu_count(void) { return gpusim_S.gpu_count; }

const gpusim_gpu_t *gpusim_gpu(unsigned gpu) { return gpu < gpusim_S.gpu_count ? &gpusim_S.gpus[gpu] : NULL; }

void gpusim_drop_gpus(void)
{
    for (unsigned i = 0; i < gpusim_S.gpu_count; i++) {
        free(gpusim_S.gpus[i].epochs);
    }
    memset(gpusim_S.gpus, 0, sizeof gpusim_S.gpus);
    gpusim_S.gpu_count = 0;
    gpusim_S.events.count = gpusim_S.overrides.count = 0;
}

void gpusim_make_gpus(unsigned count, const gpusim_model *model)
{
    gpusim_drop_gpus();
    gpusim_S.gpu_count = count;
    for (unsigned i = 0; i < count; i++) {
        gpusim_gpu_t *g = &gpusim_S.gpus[i];
        uint64_t h = gpusim_hash(gpusim_S.seed, i);
        g->id = g->minor = i;
        g->model = model;
        gpusim_format_uuid(g->uuid, "GPU-", gpusim_S.seed, 1000 + i, 4);
        snprintf(g->serial, sizeof g->serial, "165%010" PRIu64, h % UINT64_C(10000000000));
        snprintf(g->pci_bus_id, sizeof g->pci_bus_id, "00000000:%02X:00.0", 0x1b + 7 * i);
        gpusim_epoch e = { .from_us = gpusim_S.now_us,
                           .ecc = true,
                           .counters_from_us = gpusim_S.now_us,
                           .energy_offset_mj = (double)(h % 1000000000),
                           .idle_w = model->idle_w,
                           .max_w = model->max_w,
                           .idle_c = 28 + (double)(h >> 40) / (1 << 24) * 6,
                           .max_c = 74,
                           .util_percent = -1,
                           .activity = { .base = 0.3 + 0.3 * (double)(h >> 60) / 16, .amp = 0.2, .period_s = 600,
                                         .phase = (double)((h >> 32) & 0xff) / 256 * TWO_PI } };
        g->epochs = gpusim_grow(NULL, &g->epoch_count, &g->epoch_cap, sizeof e);
        g->epochs[g->epoch_count++] = e;
    }
}

gpusim_epoch *gpusim_new_epoch(gpusim_gpu_t *g)
{
    gpusim_epoch *last = &g->epochs[g->epoch_count - 1];
    if (last->from_us == gpusim_S.now_us) {
        return last; /* several lines of one instant are one change */
    }
    gpusim_epoch e = *last;
    e.from_us = gpusim_S.now_us;
    g->epochs = gpusim_grow(g->epochs, &g->epoch_count, &g->epoch_cap, sizeof e);
    g->epochs[g->epoch_count++] = e;
    return &g->epochs[g->epoch_count - 1];
}

const gpusim_epoch *gpusim_epoch_at(const gpusim_gpu_t *g, int64_t t_us)
{
    size_t lo = 0, hi = g->epoch_count;
    while (hi - lo > 1) {
        size_t mid = (lo + hi) / 2;
        if (g->epochs[mid].from_us <= t_us) {
            lo = mid;
        } else {
            hi = mid;
        }
    }
    return &g->epochs[lo];
}

const gpusim_epoch *gpusim_epoch_now(const gpusim_gpu_t *g) { return &g->epochs[g->epoch_count - 1]; }

const gpusim_gi *gpusim_find_gi(const gpusim_epoch *e, int gi)
{
    for (unsigned i = 0; i < e->gi_count; i++) {
        if (gi >= 0 && e->gi[i].nvml_id == (unsigned)gi) {
            return &e->gi[i];
        }
    }
    return NULL;
}

const gpusim_ci *gpusim_find_ci(const gpusim_gi *gi, int ci)
{
    for (unsigned i = 0; gi != NULL && i < gi->ci_count; i++) {
        if (ci >= 0 && gi->ci[i].nvml_id == (unsigned)ci) {
            return &gi->ci[i];
        }
    }
    return NULL;
}

/* --- activity, power, energy in closed form ---------------------------------------------- */

static double seconds_since_start(int64_t t_us) { return (double)(t_us - gpusim_S.start_us) / 1e6; }

/* Integral of an activity over [t0,t1], seconds; at t0 == t1 its value. */
static double integrate(const gpusim_activity *a, int64_t t0, int64_t t1)
{
    double s0 = seconds_since_start(t0), s1 = seconds_since_start(t1);
    if (a->amp == 0) {
        return t0 == t1 ? a->base : a->base * (s1 - s0);
    }
    double w = TWO_PI / a->period_s;
    if (t0 == t1) {
        return a->base + a->amp * sin(w * s0 + a->phase);
    }
    return a->base * (s1 - s0) + a->amp / w * (cos(w * s0 + a->phase) - cos(w * s1 + a->phase));
}

static double integrate_gi(const gpusim_gi *gi, int64_t t0, int64_t t1)
{
    double sum = 0;
    for (unsigned i = 0; i < gi->ci_count; i++) {
        sum += (double)gi->ci[i].slices / gi->profile->slices * integrate(&gi->ci[i].activity, t0, t1);
    }
    return sum;
}

static double integrate_epoch(const gpusim_gpu_t *g, const gpusim_epoch *e, int gi, int ci, int64_t t0, int64_t t1)
{
    if (gi != GPUSIM_WHOLE) {
        const gpusim_gi *i = gpusim_find_gi(e, gi);
        const gpusim_ci *c = gpusim_find_ci(i, ci);
        if (ci != GPUSIM_WHOLE) {
            return c == NULL ? 0 : integrate(&c->activity, t0, t1);
        }
        return i == NULL ? 0 : integrate_gi(i, t0, t1);
    }
    if (!e->mig) {
        return integrate(&e->activity, t0, t1);
    }
    double sum = 0;
    for (unsigned i = 0; i < e->gi_count; i++) {
        sum += (double)e->gi[i].profile->slices / g->model->slices * integrate_gi(&e->gi[i], t0, t1);
    }
    return sum;
}

/* Sums f over the parts of [t0,t1] that lie in one epoch each. */
typedef double (*part_integral)(const gpusim_gpu_t *, const gpusim_epoch *, int, int, int64_t, int64_t);

static double over_epochs(const gpusim_gpu_t *g, int gi, int ci, int64_t t0, int64_t t1, part_integral f)
{
    double sum = 0;
    for (size_t i = 0; i < g->epoch_count; i++) {
        int64_t from = i == 0 || g->epochs[i].from_us < t0 ? t0 : g->epochs[i].from_us;
        int64_t to = i + 1 == g->epoch_count || g->epochs[i + 1].from_us > t1 ? t1 : g->epochs[i + 1].from_us;
        if (from < to) {
            sum += f(g, &g->epochs[i], gi, ci, from, to);
        }
    }
    return sum;
}

double gpusim_activity_mean(const gpusim_gpu_t *g, int gi, int ci, int64_t t0, int64_t t1)
{
    if (t1 <= t0) {
        return integrate_epoch(g, gpusim_epoch_at(g, t1), gi, ci, t1, t1);
    }
    return over_epochs(g, gi, ci, t0, t1, integrate_epoch) / ((double)(t1 - t0) / 1e6);
}

double gpusim_power_w(const gpusim_gpu_t *g, int64_t t_us)
{
    const gpusim_epoch *e = gpusim_epoch_at(g, t_us);
    return e->idle_w + (e->max_w - e->idle_w) * gpusim_activity_mean(g, GPUSIM_WHOLE, GPUSIM_WHOLE, t_us, t_us);
}

static double energy_part_j(const gpusim_gpu_t *g, const gpusim_epoch *e, int gi, int ci, int64_t t0, int64_t t1)
{
    return e->idle_w * (double)(t1 - t0) / 1e6 + (e->max_w - e->idle_w) * integrate_epoch(g, e, gi, ci, t0, t1);
}

double gpusim_energy_between_mj(const gpusim_gpu_t *g, int64_t t0, int64_t t1)
{
    return t1 <= t0 ? 0 : 1e3 * over_epochs(g, GPUSIM_WHOLE, GPUSIM_WHOLE, t0, t1, energy_part_j);
}

uint64_t gpusim_energy_counter_mj(const gpusim_gpu_t *g, int64_t t_us)
{
    const gpusim_epoch *e = gpusim_epoch_at(g, t_us);
    return (uint64_t)(e->energy_offset_mj + gpusim_energy_between_mj(g, e->counters_from_us, t_us));
}

/* --- what is derived from activity ------------------------------------------------------- */

static int64_t second_before(int64_t t_us) { return t_us - 1000000 < gpusim_S.start_us ? gpusim_S.start_us : t_us - 1000000; }

double gpusim_temperature_c(const gpusim_gpu_t *g, int64_t t_us)
{
    const gpusim_epoch *e = gpusim_epoch_at(g, t_us);
    int64_t before = t_us - 30000000 < gpusim_S.start_us ? gpusim_S.start_us : t_us - 30000000; /* heat is slow */
    return e->idle_c + (e->max_c - e->idle_c) * gpusim_activity_mean(g, GPUSIM_WHOLE, GPUSIM_WHOLE, before, t_us);
}

unsigned gpusim_util_percent(const gpusim_gpu_t *g, int64_t t_us)
{
    const gpusim_epoch *e = gpusim_epoch_at(g, t_us);
    if (e->util_percent >= 0) {
        return (unsigned)e->util_percent;
    }
    return (unsigned)lround(100 * gpusim_activity_mean(g, GPUSIM_WHOLE, GPUSIM_WHOLE, second_before(t_us), t_us));
}

unsigned gpusim_mem_util_percent(const gpusim_gpu_t *g, int64_t t_us)
{
    double a = gpusim_activity_mean(g, GPUSIM_WHOLE, GPUSIM_WHOLE, second_before(t_us), t_us);
    return (unsigned)lround(100 * gpusim_unit_share(GPUSIM_DRAM) * a);
}

unsigned gpusim_fb_total_mib(const gpusim_gpu_t *g, int gi, int64_t t_us)
{
    const gpusim_gi *i = gpusim_find_gi(gpusim_epoch_at(g, t_us), gi);
    return i == NULL ? g->model->memory_mib : i->profile->memory_mib;
}

/* Programs keep their memory while they wait: half of it in use from the first activity on. */
unsigned gpusim_fb_used_mib(const gpusim_gpu_t *g, int gi, int64_t t_us)
{
    double a = gpusim_activity_mean(g, gi, GPUSIM_WHOLE, t_us, t_us);
    unsigned total = gpusim_fb_total_mib(g, gi, t_us);
    return a > 0 ? (unsigned)(total * (0.5 + 0.4 * a)) : total / 200;
}

double gpusim_unit_share(gpusim_unit u)
{
    static const double share[] = { [GPUSIM_GR] = 1, [GPUSIM_SM] = 1, [GPUSIM_OCCUPANCY] = 0.5, [GPUSIM_TENSOR] = 0.6, [GPUSIM_DRAM] = 0.4,
                                    [GPUSIM_FP64] = 0.05, [GPUSIM_FP32] = 0.2, [GPUSIM_FP16] = 0.1, [GPUSIM_INT] = 0.15 };
    return share[u];
}

double gpusim_pcie_bytes_per_s(const gpusim_gpu_t *g, bool tx, int64_t t0, int64_t t1)
{
    double full = g->model->pcie_gen >= 5 ? 55e9 : 26e9;
    return full * (tx ? 0.02 : 0.05) * gpusim_activity_mean(g, GPUSIM_WHOLE, GPUSIM_WHOLE, t0, t1);
}

double gpusim_nvlink_bytes_per_s(const gpusim_gpu_t *g, bool tx, int64_t t0, int64_t t1)
{
    return g->model->nvlinks * 25e9 * (tx ? 0.30 : 0.31) * gpusim_activity_mean(g, GPUSIM_WHOLE, GPUSIM_WHOLE, t0, t1);
}

/* --- events, overrides, faults ------------------------------------------------------------ */

void gpusim_add_event(gpusim_event_kind kind, unsigned gpu, int gi, int ci, uint64_t value, int64_t t_us)
{
    gpusim_event e = { .t_us = t_us, .kind = kind, .gpu = gpu, .gi = gi, .ci = ci, .value = value };
    PUSH(gpusim_S.events, e);
    for (size_t i = gpusim_S.events.count - 1; i > 0 && gpusim_S.events.items[i - 1].t_us > t_us; i--) {
        gpusim_S.events.items[i] = gpusim_S.events.items[i - 1];
        gpusim_S.events.items[i - 1] = e;
    }
}

const gpusim_event *gpusim_events(size_t *count)
{
    *count = gpusim_S.events.count;
    return gpusim_S.events.items;
}

uint64_t gpusim_event_count(const gpusim_gpu_t *g, gpusim_event_kind kind, bool aggregate, int64_t t_us)
{
    int64_t from = gpusim_epoch_at(g, t_us)->counters_from_us;
    uint64_t sum = 0;
    for (size_t i = 0; i < gpusim_S.events.count; i++) {
        const gpusim_event *e = &gpusim_S.events.items[i];
        if (e->kind == kind && e->gpu == g->id && e->t_us <= t_us && (aggregate || e->t_us >= from)) {
            sum += e->value;
        }
    }
    return sum;
}

gpusim_read gpusim_read_override(unsigned gpu, int gi, int ci, unsigned field, int64_t t_us, double *garbage)
{
    for (size_t i = gpusim_S.overrides.count; i-- > 0;) { /* the last line wins */
        const gpusim_override *o = &gpusim_S.overrides.items[i];
        if (o->gpu == gpu && o->gi == gi && o->ci == ci && o->field == field && o->from_us <= t_us && t_us < o->to_us) {
            *garbage = o->garbage;
            return o->read;
        }
    }
    return GPUSIM_READ_OK;
}

int gpusim_fail_fields(const unsigned short *fields, unsigned count)
{
    for (size_t i = 0; i < gpusim_S.field_faults.count; i++) {
        const gpusim_field_fault *f = &gpusim_S.field_faults.items[i];
        for (unsigned k = 0; k < count; k++) {
            if (fields[k] >= f->first && fields[k] <= f->last) {
                return f->code;
            }
        }
    }
    return 0;
}

/* --- control from outside ------------------------------------------------------------------ */

void gpusim_reset(void)
{
    lock_model();
    start_model(true);
    gpusim_leave();
}

void gpusim_advance_us(int64_t d)
{
    lock_model();
    if (gpusim_S.virtual_clock && d > 0) {
        move_clock(gpusim_S.now_us + d);
    }
    gpusim_leave();
}

int64_t gpusim_clock_us(void)
{
    lock_model();
    int64_t t = gpusim_S.now_us;
    gpusim_leave();
    return t;
}

int gpusim_do(const char *lines, char *error, size_t error_size)
{
    lock_model();
    int rc = 0;
    char *copy = strdup(lines), *rest = copy;
    for (char *line; rc == 0 && (line = strsep(&rest, ";\n")) != NULL;) {
        rc = gpusim_line(line, error, error_size);
    }
    free(copy);
    gpusim_leave();
    return rc;
}

uint64_t gpusim_calls(const char *symbol)
{
    lock_model();
    uint64_t n = 0;
    for (size_t i = 0; i < gpusim_S.calls.count; i++) {
        if (strcmp(gpusim_S.calls.items[i].symbol, symbol) == 0) {
            n = gpusim_S.calls.items[i].count;
        }
    }
    gpusim_leave();
    return n;
}

double gpusim_truth_energy_mj(unsigned gpu, int64_t t0, int64_t t1)
{
    lock_model();
    const gpusim_gpu_t *g = gpusim_gpu(gpu);
    double v = g == NULL ? -1 : gpusim_energy_between_mj(g, t0, t1);
    gpusim_leave();
    return v;
}

double gpusim_truth_activity(unsigned gpu, int gi, int ci, int64_t t0, int64_t t1)
{
    lock_model();
    const gpusim_gpu_t *g = gpusim_gpu(gpu);
    double v = g == NULL ? -1 : gpusim_activity_mean(g, gi, ci, t0, t1);
    gpusim_leave();
    return v;
}
