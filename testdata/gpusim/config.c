/* The configuration language: one verb per line, see README.md. */
#define _GNU_SOURCE
#include "state.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_WORDS 64
#define ALL_GPUS  (-2)

typedef struct {
    int count;
    char *word[MAX_WORDS];
    const char *tail; /* of "at": the line that is to be carried out */
    char *error;
    size_t error_size;
} words;

typedef struct {
    int gpu, gi, ci; /* gpu may be ALL_GPUS; NVML ids */
} target;

__attribute__((format(printf, 2, 3))) static int refuse(const words *w, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(w->error, w->error_size, format, args);
    va_end(args);
    return -1;
}

/* --- reading words -------------------------------------------------------------------------- */

static int read_number(const words *w, const char *name, const char *s, double min, double max, double *out)
{
    char *end;
    errno = 0;
    double v = strtod(s, &end);
    if (end == s || *end != '\0' || errno != 0 || !(v >= min && v <= max)) {
        return refuse(w, "%s is \"%s\", want a number from %g to %g", name, s, min, max);
    }
    *out = v;
    return 0;
}

static int read_integer(const words *w, const char *name, const char *s, int64_t min, int64_t max, int64_t *out)
{
    char *end;
    errno = 0;
    long long v = strtoll(s, &end, 10);
    if (end == s || *end != '\0' || errno != 0 || v < min || v > max) {
        return refuse(w, "%s is \"%s\", want a whole number from %" PRId64 " to %" PRId64, name, s, min, max);
    }
    *out = v;
    return 0;
}

static int read_switch(const words *w, const char *name, const char *s, bool *out)
{
    *out = strcmp(s, "on") == 0;
    return *out || strcmp(s, "off") == 0 ? 0 : refuse(w, "%s is \"%s\", want on or off", name, s);
}

/* GPU, GPU/GI or GPU/GI/CI; "all" for every GPU. The GPU and its instance must exist now. */
static int read_target(const words *w, const char *s, bool instances, target *out)
{
    int used = 0;
    *out = (target){ ALL_GPUS, GPUSIM_WHOLE, GPUSIM_WHOLE };
    if (strcmp(s, "all") == 0) {
        return gpusim_S.gpu_count > 0 ? 0 : refuse(w, "all, but there are no GPUs yet");
    }
    int n = sscanf(s, "%d%n/%d%n/%d%n", &out->gpu, &used, &out->gi, &used, &out->ci, &used);
    if (n < 1 || s[used] != '\0' || (n > 1 && !instances)) {
        return refuse(w, "target is \"%s\", want %s", s, instances ? "GPU, GPU/GI, GPU/GI/CI or all" : "GPU or all");
    }
    if (out->gpu < 0 || (unsigned)out->gpu >= gpusim_S.gpu_count) {
        return refuse(w, "target is \"%s\", but there are %u GPUs", s, gpusim_S.gpu_count);
    }
    const gpusim_gi *gi = gpusim_find_gi(gpusim_epoch_now(&gpusim_S.gpus[out->gpu]), out->gi);
    if (n > 1 && gi == NULL) {
        return refuse(w, "target is \"%s\", but GPU %d has no GPU instance %d", s, out->gpu, out->gi);
    }
    if (n > 2 && gpusim_find_ci(gi, out->ci) == NULL) {
        return refuse(w, "target is \"%s\", but GPU instance %d has no compute instance %d", s, out->gi, out->ci);
    }
    return 0;
}

static bool meant(target t, unsigned gpu) { return t.gpu == ALL_GPUS || (unsigned)t.gpu == gpu; }

#define EACH_GPU(t, g)                                                                                  \
    for (gpusim_gpu_t *g = gpusim_S.gpus; g < gpusim_S.gpus + gpusim_S.gpu_count; g++)             \
        if (meant(t, g->id))

/* --- clock, seed, GPUs ------------------------------------------------------------------------ */

static int do_clock(const words *w)
{
    int64_t t = gpusim_S.now_us;
    if (gpusim_S.gpu_count > 0) {
        return refuse(w, "clock comes before gpus");
    }
    if (strcmp(w->word[1], "real") == 0) {
        gpusim_S.virtual_clock = false;
        return 0;
    }
    if (strcmp(w->word[1], "virtual") != 0) {
        return refuse(w, "clock is \"%s\", want virtual UNIX_US or real", w->word[1]);
    }
    if (w->count > 2 && read_integer(w, "UNIX_US", w->word[2], 0, INT64_C(4102444800000000), &t) != 0) {
        return -1;
    }
    gpusim_S.virtual_clock = true;
    gpusim_S.start_us = gpusim_S.now_us = t;
    return 0;
}

static int do_seed(const words *w)
{
    int64_t v;
    if (gpusim_S.gpu_count > 0) {
        return refuse(w, "seed comes before gpus");
    }
    if (read_integer(w, "seed", w->word[1], 0, INT64_MAX, &v) != 0) {
        return -1;
    }
    gpusim_S.seed = (uint64_t)v;
    return 0;
}

static int do_gpus(const words *w)
{
    int64_t n;
    const char *name = "NVIDIA H100 80GB HBM3";
    if (read_integer(w, "number of GPUs", w->word[1], 0, GPUSIM_MAX_GPUS, &n) != 0) {
        return -1;
    }
    if (w->count > 2) {
        if (w->count != 4 || strcmp(w->word[2], "model") != 0) {
            return refuse(w, "want gpus N [model \"NAME\"]");
        }
        name = w->word[3];
    }
    const gpusim_model *m = gpusim_find_model(name);
    if (m == NULL) {
        return refuse(w, "model is \"%s\", want one of %s", name, gpusim_model_names());
    }
    gpusim_make_gpus((unsigned)n, m);
    return 0;
}

/* --- MIG ---------------------------------------------------------------------------------------- */

/* Finds a start for each instance from the one with most memory on, first fit with backtracking;
 * the starts allowed are NVIDIA's: multiples of the size with enough compute slices behind. */
static bool place(const gpusim_model *m, gpusim_gi *gi, const unsigned *order, unsigned count, unsigned taken)
{
    if (count == 0) {
        return true;
    }
    gpusim_gi *i = &gi[order[0]];
    unsigned size = i->profile->mem_slices;
    for (unsigned start = 0; start + size <= m->mem_slices && start + i->profile->slices <= m->slices; start += size) {
        unsigned mask = ((1u << size) - 1) << start;
        if ((taken & mask) == 0 && place(m, gi, order + 1, count - 1, taken | mask)) {
            i->placement = start;
            i->nvml_id = m->mem_slices / size - 1 + start / size;
            return true;
        }
    }
    return false;
}

static int read_compute_instances(const words *w, char *list, gpusim_gi *gi)
{
    unsigned used = 0;
    for (char *item; (item = strsep(&list, "+")) != NULL;) {
        unsigned slices;
        char unit, rest;
        if (sscanf(item, "%u%c%c", &slices, &unit, &rest) != 2 || unit != 'c' || slices == 0) {
            return refuse(w, "compute instance is \"%s\", want 1c, 2c, ..", item);
        }
        used += slices;
        if (used > gi->profile->slices) {
            return refuse(w, "compute instances of %s take %u slices of %u", gi->profile->name, used, gi->profile->slices);
        }
        gi->ci[gi->ci_count++] = (gpusim_ci){ .slices = slices };
    }
    return 0;
}

/* PROFILE[*N][/1c+2c..] */
static int read_instances(const words *w, const gpusim_model *m, char *spec, gpusim_epoch *e)
{
    char *cis = strchr(spec, '/'), *times = strchr(spec, '*');
    int64_t n = 1;
    if (cis != NULL) {
        *cis++ = '\0';
    }
    if (times != NULL) {
        *times++ = '\0';
        if (read_integer(w, "number of instances", times, 1, GPUSIM_MAX_GI, &n) != 0) {
            return -1;
        }
    }
    const gpusim_profile *p = gpusim_find_profile(m, spec);
    if (p == NULL) {
        return refuse(w, "profile is \"%s\", which %s doesn't have", spec, m->name);
    }
    for (; n > 0; n--) {
        if (e->gi_count == GPUSIM_MAX_GI) {
            return refuse(w, "more than %d GPU instances", GPUSIM_MAX_GI);
        }
        gpusim_gi *gi = &e->gi[e->gi_count];
        *gi = (gpusim_gi){ .profile = p, .index = e->gi_count++ };
        char list[64];
        snprintf(list, sizeof list, "%s", cis == NULL ? "" : cis);
        if (cis == NULL) {
            gi->ci[gi->ci_count++] = (gpusim_ci){ .slices = p->slices };
        } else if (read_compute_instances(w, list, gi) != 0) {
            return -1;
        }
    }
    return 0;
}

/* Names, activities and positions of new instances. NVIDIA's MIG UUIDs are derived from their
 * names (version 5), so that the same instance made again has the same one. */
static void finish_instances(const gpusim_gpu_t *g, gpusim_epoch *e)
{
    unsigned index = 0;
    for (unsigned i = 0; i < e->gi_count; i++) {
        gpusim_gi *gi = &e->gi[i];
        gi->created_us = gpusim_S.now_us;
        for (unsigned k = 0; k < gi->ci_count; k++) {
            gpusim_ci *ci = &gi->ci[k];
            uint64_t name = ((uint64_t)g->id << 32) | (gi->nvml_id << 16) | k;
            uint64_t h = gpusim_hash(gpusim_S.seed ^ UINT64_C(0x4d4947), name);
            ci->nvml_id = k;
            ci->index = index++;
            ci->sms = gi->profile->sms * ci->slices / gi->profile->slices;
            ci->created_us = gpusim_S.now_us;
            gpusim_format_uuid(ci->uuid, "MIG-", gpusim_S.seed ^ UINT64_C(0x4d4947), name, 5);
            ci->activity = (gpusim_activity){ .base = 0.2 + 0.5 * (double)(h >> 60) / 16, .amp = 0.2, .period_s = 300,
                                              .phase = (double)((h >> 32) & 0xff) / 41 };
        }
    }
}

static int plan_mig(const words *w, const gpusim_gpu_t *g, gpusim_epoch *e)
{
    unsigned order[GPUSIM_MAX_GI], compute = 0, cis = 0;
    e->gi_count = 0;
    e->mig = true;
    for (int i = 2; i < w->count; i++) {
        char spec[64];
        snprintf(spec, sizeof spec, "%s", w->word[i]);
        if (read_instances(w, g->model, spec, e) != 0) {
            return -1;
        }
    }
    for (unsigned i = 0; i < e->gi_count; i++) {
        unsigned k = i;
        for (; k > 0 && e->gi[order[k - 1]].profile->mem_slices < e->gi[i].profile->mem_slices; k--) {
            order[k] = order[k - 1];
        }
        order[k] = i;
        compute += e->gi[i].profile->slices;
        cis += e->gi[i].ci_count;
    }
    if (compute > g->model->slices || cis > GPUSIM_MAX_CI || !place(g->model, e->gi, order, e->gi_count, 0)) {
        return refuse(w, "these instances don't fit on a %s", g->model->name);
    }
    finish_instances(g, e);
    return 0;
}

static int do_mig(const words *w)
{
    target t;
    if (read_target(w, w->word[1], false, &t) != 0) {
        return -1;
    }
    bool off = w->count == 3 && strcmp(w->word[2], "off") == 0;
    bool none = w->count == 3 && strcmp(w->word[2], "on") == 0; /* MIG mode without instances */
    EACH_GPU(t, g) {
        gpusim_epoch next = *gpusim_epoch_now(g);
        next.mig = !off;
        next.gi_count = 0;
        if (g->model->slices == 0) {
            return refuse(w, "%s has no MIG", g->model->name);
        }
        if (!off && !none && plan_mig(w, g, &next) != 0) {
            return -1;
        }
        next.from_us = gpusim_S.now_us;
        *gpusim_new_epoch(g) = next;
    }
    return 0;
}

/* --- activity, power, state ------------------------------------------------------------------------ */

static int do_activity(const words *w)
{
    target t;
    gpusim_activity a = { .period_s = 60 };
    if (read_target(w, w->word[1], true, &t) != 0 || read_number(w, "BASE", w->word[2], 0, 1, &a.base) != 0) {
        return -1;
    }
    if (w->count == 4) {
        return refuse(w, "AMP without PERIOD_S");
    }
    if (w->count > 4 && (read_number(w, "AMP", w->word[3], 0, 0.5, &a.amp) != 0 || read_number(w, "PERIOD_S", w->word[4], 0.001, 1e9, &a.period_s) != 0)) {
        return -1;
    }
    if (a.base - a.amp < -1e-12 || a.base + a.amp > 1 + 1e-12) {
        return refuse(w, "activity %g +- %g leaves 0..1", a.base, a.amp);
    }
    EACH_GPU(t, g) {
        gpusim_epoch *e = gpusim_new_epoch(g);
        if (t.gi == GPUSIM_WHOLE) {
            e->activity = a;
        }
        for (unsigned i = 0; i < e->gi_count; i++) {
            for (unsigned k = 0; k < e->gi[i].ci_count; k++) {
                bool gi = t.gi == GPUSIM_WHOLE || e->gi[i].nvml_id == (unsigned)t.gi;
                if (gi && (t.ci == GPUSIM_WHOLE || e->gi[i].ci[k].nvml_id == (unsigned)t.ci)) {
                    e->gi[i].ci[k].activity = a;
                }
            }
        }
    }
    return 0;
}

static int do_pair(const words *w)
{
    target t;
    double low, high;
    bool power = strcmp(w->word[0], "power") == 0;
    double limit = power ? 10000 : 200;
    if (read_target(w, w->word[1], false, &t) != 0 || read_number(w, "idle value", w->word[2], 0, limit, &low) != 0 ||
        read_number(w, "highest value", w->word[3], low, limit, &high) != 0) {
        return -1;
    }
    EACH_GPU(t, g) {
        gpusim_epoch *e = gpusim_new_epoch(g);
        *(power ? &e->idle_w : &e->idle_c) = low;
        *(power ? &e->max_w : &e->max_c) = high;
    }
    return 0;
}

static int do_util(const words *w)
{
    target t;
    int64_t percent = -1;
    if (read_target(w, w->word[1], false, &t) != 0) {
        return -1;
    }
    if (strcmp(w->word[2], "auto") != 0 && read_integer(w, "PERCENT", w->word[2], 0, 100, &percent) != 0) {
        return -1;
    }
    EACH_GPU(t, g) {
        gpusim_new_epoch(g)->util_percent = (int)percent;
    }
    return 0;
}

static int do_mode(const words *w)
{
    target t;
    bool on;
    if (read_target(w, w->word[1], false, &t) != 0 || read_switch(w, w->word[0], w->word[2], &on) != 0) {
        return -1;
    }
    EACH_GPU(t, g) {
        gpusim_epoch *e = gpusim_new_epoch(g);
        *(strcmp(w->word[0], "ecc") == 0 ? &e->ecc : &e->persistence) = on;
    }
    return 0;
}

static void restart_counters(gpusim_epoch *e)
{
    e->counters_from_us = gpusim_S.now_us;
    e->energy_offset_mj = 0;
}

static int do_state(const words *w)
{
    target t;
    const char *verb = w->word[0];
    if (read_target(w, w->word[1], false, &t) != 0) {
        return -1;
    }
    EACH_GPU(t, g) {
        gpusim_epoch *e = gpusim_new_epoch(g);
        if (strcmp(verb, "lost") == 0 || strcmp(verb, "back") == 0) {
            e->lost = verb[0] == 'l';
        } else if (strcmp(verb, "stale") == 0 || strcmp(verb, "fresh") == 0) {
            e->stale = verb[0] == 's';
        } else {
            e->lost = e->stale = e->row_remap_failed = false;
            restart_counters(e);
        }
    }
    return 0;
}

/* A reload of the driver: counters restart, MIG instances are gone (unless persistence says
 * otherwise), watches see nothing for two seconds, and DCGM tells of it in field 6. */
static int do_driver(const words *w)
{
    if (strcmp(w->word[1], "reload") != 0) {
        return refuse(w, "want driver reload");
    }
    for (unsigned i = 0; i < gpusim_S.gpu_count; i++) {
        gpusim_epoch *e = gpusim_new_epoch(&gpusim_S.gpus[i]);
        restart_counters(e);
        e->lost = e->stale = false;
        e->blank_until_us = gpusim_S.now_us + 2000000;
        if (!e->persistence) {
            e->gi_count = 0;
        }
    }
    gpusim_add_event(GPUSIM_BIND, 0, GPUSIM_WHOLE, GPUSIM_WHOLE, 1, gpusim_S.now_us);
    gpusim_add_event(GPUSIM_BIND, 0, GPUSIM_WHOLE, GPUSIM_WHOLE, 2, gpusim_S.now_us + 2000000);
    return 0;
}

static int do_hostengine(const words *w)
{
    const char *s = w->word[1];
    if (strcmp(s, "down") != 0 && strcmp(s, "up") != 0 && strcmp(s, "restart") != 0) {
        return refuse(w, "hostengine is \"%s\", want down, up or restart", s);
    }
    gpusim_S.engine_up = strcmp(s, "down") != 0;
    gpusim_S.engine_generation++;
    return 0;
}

/* --- events, faults ---------------------------------------------------------------------------------- */

static int do_xid(const words *w)
{
    target t;
    int64_t code;
    if (read_target(w, w->word[1], true, &t) != 0 || read_integer(w, "XID", w->word[2], 1, 1000, &code) != 0) {
        return -1;
    }
    EACH_GPU(t, g) {
        gpusim_add_event(GPUSIM_XID, g->id, t.gi, t.ci, (uint64_t)code, gpusim_S.now_us);
    }
    return 0;
}

static int add_count(const words *w, gpusim_event_kind kind, const char *number)
{
    target t;
    int64_t n;
    if (read_target(w, w->word[1], false, &t) != 0 || read_integer(w, "count", number, 1, INT32_MAX, &n) != 0) {
        return -1;
    }
    EACH_GPU(t, g) {
        gpusim_add_event(kind, g->id, GPUSIM_WHOLE, GPUSIM_WHOLE, (uint64_t)n, gpusim_S.now_us);
    }
    return 0;
}

static int do_count(const words *w)
{
    const char *verb = w->word[0];
    return add_count(w, verb[0] == 's' ? GPUSIM_SBE : verb[0] == 'd' ? GPUSIM_DBE : GPUSIM_REPLAY, w->word[2]);
}

static int do_rowremap(const words *w)
{
    target t;
    const char *what = w->word[2];
    if (strcmp(what, "correctable") == 0 || strcmp(what, "uncorrectable") == 0) {
        return add_count(w, what[0] == 'c' ? GPUSIM_REMAP_CORRECTABLE : GPUSIM_REMAP_UNCORRECTABLE, w->count > 3 ? w->word[3] : "1");
    }
    if (strcmp(what, "failed") != 0 && strcmp(what, "ok") != 0) {
        return refuse(w, "rowremap is \"%s\", want failed, ok, correctable N or uncorrectable N", what);
    }
    if (read_target(w, w->word[1], false, &t) != 0) {
        return -1;
    }
    EACH_GPU(t, g) {
        gpusim_new_epoch(g)->row_remap_failed = what[0] == 'f';
    }
    return 0;
}

static int do_fail(const words *w)
{
    int64_t code, times = -1;
    gpusim_fault f = { .left = 0 };
    snprintf(f.symbol, sizeof f.symbol, "%s", w->word[1]);
    for (size_t i = 0; i < gpusim_S.faults.count; i++) {
        if (strcmp(gpusim_S.faults.items[i].symbol, f.symbol) == 0) {
            gpusim_S.faults.items[i].left = 0; /* the last line about a symbol wins */
        }
    }
    if (strcmp(w->word[2], "off") == 0) {
        return 0;
    }
    if (read_integer(w, "CODE", w->word[2], -1000, 1000, &code) != 0 || (w->count > 3 && read_integer(w, "COUNT", w->word[3], 1, INT32_MAX, &times) != 0)) {
        return -1;
    }
    f.code = (int)code;
    f.left = (long)times;
    PUSH(gpusim_S.faults, f);
    return 0;
}

static int do_fail_fields(const words *w)
{
    gpusim_field_fault f = { 0 };
    int64_t code;
    char rest;
    if (sscanf(w->word[1], "%u-%u%c", &f.first, &f.last, &rest) != 2) {
        if (sscanf(w->word[1], "%u%c", &f.first, &rest) != 1) {
            return refuse(w, "fields are \"%s\", want FIRST-LAST", w->word[1]);
        }
        f.last = f.first;
    }
    if (strcmp(w->word[2], "off") == 0) {
        for (size_t i = 0; i < gpusim_S.field_faults.count;) {
            gpusim_field_fault *old = &gpusim_S.field_faults.items[i];
            if (old->first >= f.first && old->last <= f.last) {
                *old = gpusim_S.field_faults.items[--gpusim_S.field_faults.count];
            } else {
                i++;
            }
        }
        return 0;
    }
    if (read_integer(w, "CODE", w->word[2], -1000, -1, &code) != 0) {
        return -1;
    }
    f.code = (int)code;
    PUSH(gpusim_S.field_faults, f);
    return 0;
}

static int do_blank(const words *w)
{
    static const char *kinds[] = { [GPUSIM_READ_OK] = "off", [GPUSIM_READ_ABSENT] = "absent", [GPUSIM_READ_NOT_SUPPORTED] = "notsupported",
                                   [GPUSIM_READ_NOT_WATCHED] = "notwatched", [GPUSIM_READ_GARBAGE] = "garbage" };
    target t;
    int64_t field;
    unsigned kind = 0;
    gpusim_override o = { .from_us = gpusim_S.now_us, .to_us = INT64_MAX };
    if (read_target(w, w->word[1], true, &t) != 0 || read_integer(w, "FIELD", w->word[2], 1, 65535, &field) != 0) {
        return -1;
    }
    while (w->count > 3 && kind < sizeof kinds / sizeof *kinds && strcmp(kinds[kind], w->word[3]) != 0) {
        kind++;
    }
    kind = w->count > 3 ? kind : GPUSIM_READ_ABSENT;
    if (kind == sizeof kinds / sizeof *kinds || (kind == GPUSIM_READ_GARBAGE) != (w->count == 5)) {
        return refuse(w, "want blank TARGET FIELD [absent|notsupported|notwatched|garbage VALUE|off]");
    }
    if (w->count == 5 && read_number(w, "VALUE", w->word[4], -1e300, 1e300, &o.garbage) != 0) {
        return -1;
    }
    o.field = (unsigned)field;
    o.gi = t.gi;
    o.ci = t.ci;
    o.read = (gpusim_read)kind;
    EACH_GPU(t, g) {
        o.gpu = g->id;
        PUSH(gpusim_S.overrides, o);
    }
    return 0;
}

static int do_at(const words *w)
{
    double seconds;
    if (read_number(w, "SECONDS", w->word[1], 0, 1e9, &seconds) != 0) {
        return -1;
    }
    gpusim_scheduled c = { .at_us = gpusim_S.start_us + (int64_t)(seconds * 1e6), .order = gpusim_S.scheduled_ever++, .line = strdup(w->tail) };
    if (c.at_us < gpusim_S.now_us) {
        free(c.line);
        return refuse(w, "at %s is in the past: the model is at %.6f s", w->word[1], (double)(gpusim_S.now_us - gpusim_S.start_us) / 1e6);
    }
    PUSH(gpusim_S.scheduled, c);
    return 0;
}

/* --- the verbs ------------------------------------------------------------------------------------------- */

static const struct {
    const char *verb;
    int min, max; /* words, the verb included */
    int (*run)(const words *);
    const char *usage;
} verbs[] = {
    { "clock", 2, 3, do_clock, "clock virtual [UNIX_US] | clock real" },
    { "seed", 2, 2, do_seed, "seed N" },
    { "gpus", 2, 4, do_gpus, "gpus N [model \"NAME\"]" },
    { "mig", 3, MAX_WORDS, do_mig, "mig GPU|all off|on|PROFILE[*N][/1c+2c..] .." },
    { "activity", 3, 5, do_activity, "activity GPU[/GI[/CI]] BASE [AMP PERIOD_S]" },
    { "util", 3, 3, do_util, "util GPU PERCENT|auto" },
    { "power", 4, 4, do_pair, "power GPU IDLE_W MAX_W" },
    { "temp", 4, 4, do_pair, "temp GPU IDLE_C MAX_C" },
    { "ecc", 3, 3, do_mode, "ecc GPU on|off" },
    { "persistence", 3, 3, do_mode, "persistence GPU on|off" },
    { "xid", 3, 3, do_xid, "xid GPU[/GI[/CI]] CODE" },
    { "sbe", 3, 3, do_count, "sbe GPU N" },
    { "dbe", 3, 3, do_count, "dbe GPU N" },
    { "replay", 3, 3, do_count, "replay GPU N" },
    { "rowremap", 3, 4, do_rowremap, "rowremap GPU failed|ok|correctable N|uncorrectable N" },
    { "lost", 2, 2, do_state, "lost GPU" },
    { "back", 2, 2, do_state, "back GPU" },
    { "reset", 2, 2, do_state, "reset GPU" },
    { "stale", 2, 2, do_state, "stale GPU" },
    { "fresh", 2, 2, do_state, "fresh GPU" },
    { "driver", 2, 2, do_driver, "driver reload" },
    { "hostengine", 2, 2, do_hostengine, "hostengine down|up|restart" },
    { "fail", 3, 4, do_fail, "fail SYMBOL CODE [COUNT] | fail SYMBOL off" },
    { "fail-fields", 3, 3, do_fail_fields, "fail-fields FIRST-LAST CODE|off" },
    { "blank", 3, 5, do_blank, "blank GPU[/GI[/CI]] FIELD [absent|notsupported|notwatched|garbage VALUE|off]" },
    { "at", 3, MAX_WORDS, do_at, "at SECONDS LINE" },
};

/* Cuts text (changed by it) into words; "..." is one. */
static void split(char *text, const char *line, words *w)
{
    for (char *p = text; w->count < MAX_WORDS;) {
        p += strspn(p, " \t\r");
        if (*p == '\0' || *p == '#') {
            return;
        }
        if (w->count == 2) {
            w->tail = line + (p - text);
        }
        char *end = *p == '"' ? strchr(p + 1, '"') : p + strcspn(p, " \t\r");
        w->word[w->count++] = *p == '"' && end != NULL ? p + 1 : p;
        if (end == NULL || *end == '\0') {
            return;
        }
        *end = '\0';
        p = end + 1;
    }
}

int gpusim_line(const char *line, char *error, size_t error_size)
{
    char reason[384], text[1024];
    words w = { .error = reason, .error_size = sizeof reason };
    if ((size_t)snprintf(text, sizeof text, "%s", line) >= sizeof text) {
        snprintf(error, error_size, "\"%.40s..\": longer than %zu characters", line, sizeof text - 1);
        return -1;
    }
    split(text, line, &w);
    if (w.count == 0) {
        return 0;
    }
    snprintf(reason, sizeof reason, "unknown verb \"%s\"", w.word[0]);
    int rc = -1;
    for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++) {
        if (strcmp(verbs[i].verb, w.word[0]) != 0) {
            continue;
        }
        if (w.count < verbs[i].min || w.count > verbs[i].max) {
            snprintf(reason, sizeof reason, "want %s", verbs[i].usage);
        } else {
            rc = verbs[i].run(&w);
        }
    }
    if (rc != 0) {
        snprintf(error, error_size, "\"%s\": %s", line + strspn(line, " \t"), reason);
    }
    return rc;
}
