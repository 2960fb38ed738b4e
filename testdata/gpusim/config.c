/* The configuration language: one verb per line, see README.md. */
#define _GNU_SOURCE
#include "lines.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int gpusim_refuse(const words *w, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(w->error, w->error_size, format, args);
    va_end(args);
    return -1;
}

/* --- reading words -------------------------------------------------------------------------- */

int gpusim_read_number(const words *w, const char *name, const char *s, double min, double max, double *out)
{
    char *end;
    errno = 0;
    double v = strtod(s, &end);
    if (end == s || *end != '\0' || errno != 0 || !(v >= min && v <= max)) {
        return gpusim_refuse(w, "%s is \"%s\", want a number from %g to %g", name, s, min, max);
    }
    *out = v;
    return 0;
}

int gpusim_read_integer(const words *w, const char *name, const char *s, int64_t min, int64_t max, int64_t *out)
{
    char *end;
    errno = 0;
    long long v = strtoll(s, &end, 10);
    if (end == s || *end != '\0' || errno != 0 || v < min || v > max) {
        return gpusim_refuse(w, "%s is \"%s\", want a whole number from %" PRId64 " to %" PRId64, name, s, min, max);
    }
    *out = v;
    return 0;
}

static int read_switch(const words *w, const char *name, const char *s, bool *out)
{
    *out = strcmp(s, "on") == 0;
    return *out || strcmp(s, "off") == 0 ? 0 : gpusim_refuse(w, "%s is \"%s\", want on or off", name, s);
}

int gpusim_read_target(const words *w, const char *s, bool instances, target *out)
{
    int used = 0;
    *out = (target){ ALL_GPUS, GPUSIM_WHOLE, GPUSIM_WHOLE };
    if (strcmp(s, "all") == 0) {
        return gpusim_S.gpu_count > 0 ? 0 : gpusim_refuse(w, "all, but there are no GPUs yet");
    }
    int n = sscanf(s, "%d%n/%d%n/%d%n", &out->gpu, &used, &out->gi, &used, &out->ci, &used);
    if (n < 1 || s[used] != '\0' || (n > 1 && !instances)) {
        return gpusim_refuse(w, "target is \"%s\", want %s", s, instances ? "GPU, GPU/GI, GPU/GI/CI or all" : "GPU or all");
    }
    if (out->gpu < 0 || (unsigned)out->gpu >= gpusim_S.gpu_count) {
        return gpusim_refuse(w, "target is \"%s\", but there are %u GPUs", s, gpusim_S.gpu_count);
    }
    const gpusim_gi *gi = gpusim_find_gi(gpusim_epoch_now(&gpusim_S.gpus[out->gpu]), out->gi);
    if (n > 1 && gi == NULL) {
        return gpusim_refuse(w, "target is \"%s\", but GPU %d has no GPU instance %d", s, out->gpu, out->gi);
    }
    if (n > 2 && gpusim_find_ci(gi, out->ci) == NULL) {
        return gpusim_refuse(w, "target is \"%s\", but GPU instance %d has no compute instance %d", s, out->gi, out->ci);
    }
    return 0;
}

bool gpusim_meant(target t, unsigned gpu) { return t.gpu == ALL_GPUS || (unsigned)t.gpu == gpu; }

/* --- clock, seed, GPUs ------------------------------------------------------------------------ */

static int do_clock(const words *w)
{
    int64_t t = gpusim_S.now_us;
    if (gpusim_S.gpu_count > 0) {
        return gpusim_refuse(w, "clock comes before gpus");
    }
    if (strcmp(w->word[1], "real") == 0) {
        gpusim_S.virtual_clock = false;
        gpusim_S.start_us = gpusim_S.now_us = gpusim_real_us();
        return 0;
    }
    if (strcmp(w->word[1], "virtual") != 0) {
        return gpusim_refuse(w, "clock is \"%s\", want virtual UNIX_US or real", w->word[1]);
    }
    if (w->count > 2 && gpusim_read_integer(w, "UNIX_US", w->word[2], 0, INT64_C(4102444800000000), &t) != 0) {
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
        return gpusim_refuse(w, "seed comes before gpus");
    }
    if (gpusim_read_integer(w, "seed", w->word[1], 0, INT64_MAX, &v) != 0) {
        return -1;
    }
    gpusim_S.seed = (uint64_t)v;
    return 0;
}

static int do_gpus(const words *w)
{
    int64_t n;
    const char *name = "NVIDIA H100 80GB HBM3";
    if (gpusim_read_integer(w, "number of GPUs", w->word[1], 0, GPUSIM_MAX_GPUS, &n) != 0) {
        return -1;
    }
    if (w->count > 2) {
        if (w->count != 4 || strcmp(w->word[2], "model") != 0) {
            return gpusim_refuse(w, "want gpus N [model \"NAME\"]");
        }
        name = w->word[3];
    }
    const gpusim_model *m = gpusim_find_model(name);
    if (m == NULL) {
        return gpusim_refuse(w, "model is \"%s\", want one of %s", name, gpusim_model_names());
    }
    gpusim_make_gpus((unsigned)n, m);
    return 0;
}

/* --- activity, power, state ------------------------------------------------------------------------ */

static int do_activity(const words *w)
{
    target t;
    gpusim_activity a = { .period_s = 60 };
    if (gpusim_read_target(w, w->word[1], true, &t) != 0 || gpusim_read_number(w, "BASE", w->word[2], 0, 1, &a.base) != 0) {
        return -1;
    }
    if (w->count == 4) {
        return gpusim_refuse(w, "AMP without PERIOD_S");
    }
    if (w->count > 4 && (gpusim_read_number(w, "AMP", w->word[3], 0, 0.5, &a.amp) != 0 || gpusim_read_number(w, "PERIOD_S", w->word[4], 0.001, 1e9, &a.period_s) != 0)) {
        return -1;
    }
    if (a.base - a.amp < -1e-12 || a.base + a.amp > 1 + 1e-12) {
        return gpusim_refuse(w, "activity %g +- %g leaves 0..1", a.base, a.amp);
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
    if (gpusim_read_target(w, w->word[1], false, &t) != 0 || gpusim_read_number(w, "idle value", w->word[2], 0, limit, &low) != 0 ||
        gpusim_read_number(w, "highest value", w->word[3], low, limit, &high) != 0) {
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
    if (gpusim_read_target(w, w->word[1], false, &t) != 0) {
        return -1;
    }
    if (strcmp(w->word[2], "auto") != 0 && gpusim_read_integer(w, "PERCENT", w->word[2], 0, 100, &percent) != 0) {
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
    if (gpusim_read_target(w, w->word[1], false, &t) != 0 || read_switch(w, w->word[0], w->word[2], &on) != 0) {
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
    if (gpusim_read_target(w, w->word[1], false, &t) != 0) {
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
        return gpusim_refuse(w, "want driver reload");
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
        return gpusim_refuse(w, "hostengine is \"%s\", want down, up or restart", s);
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
    if (gpusim_read_target(w, w->word[1], true, &t) != 0 || gpusim_read_integer(w, "XID", w->word[2], 1, 1000, &code) != 0) {
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
    if (gpusim_read_target(w, w->word[1], false, &t) != 0 || gpusim_read_integer(w, "count", number, 1, INT32_MAX, &n) != 0) {
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
        return gpusim_refuse(w, "rowremap is \"%s\", want failed, ok, correctable N or uncorrectable N", what);
    }
    if (gpusim_read_target(w, w->word[1], false, &t) != 0) {
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
    if (gpusim_read_integer(w, "CODE", w->word[2], -1000, 1000, &code) != 0 || (w->count > 3 && gpusim_read_integer(w, "COUNT", w->word[3], 1, INT32_MAX, &times) != 0)) {
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
            return gpusim_refuse(w, "fields are \"%s\", want FIRST-LAST", w->word[1]);
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
    if (gpusim_read_integer(w, "CODE", w->word[2], -1000, -1, &code) != 0) {
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
    if (gpusim_read_target(w, w->word[1], true, &t) != 0 || gpusim_read_integer(w, "FIELD", w->word[2], 1, 65535, &field) != 0) {
        return -1;
    }
    while (w->count > 3 && kind < sizeof kinds / sizeof *kinds && strcmp(kinds[kind], w->word[3]) != 0) {
        kind++;
    }
    kind = w->count > 3 ? kind : GPUSIM_READ_ABSENT;
    if (kind == sizeof kinds / sizeof *kinds || (kind == GPUSIM_READ_GARBAGE) != (w->count == 5)) {
        return gpusim_refuse(w, "want blank TARGET FIELD [absent|notsupported|notwatched|garbage VALUE|off]");
    }
    if (w->count == 5 && gpusim_read_number(w, "VALUE", w->word[4], -1e300, 1e300, &o.garbage) != 0) {
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

static bool is_verb(const char *line);

static int do_at(const words *w)
{
    double seconds;
    if (!is_verb(w->tail)) {
        return gpusim_refuse(w, "\"%s\" begins with no verb", w->tail);
    }
    if (gpusim_read_number(w, "SECONDS", w->word[1], 0, 1e9, &seconds) != 0) {
        return -1;
    }
    gpusim_scheduled c = { .at_us = gpusim_S.start_us + (int64_t)(seconds * 1e6), .order = gpusim_S.scheduled_ever++, .line = strdup(w->tail) };
    if (c.at_us < gpusim_S.now_us) {
        free(c.line);
        return gpusim_refuse(w, "at %s is in the past: the model is at %.6f s", w->word[1], (double)(gpusim_S.now_us - gpusim_S.start_us) / 1e6);
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
    { "mig", 3, MAX_WORDS, gpusim_do_mig, "mig GPU|all off|on|PROFILE[*N][/1c+2c..] .." },
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

static bool is_verb(const char *line)
{
    size_t length = strcspn(line, " \t\r");
    for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++) {
        if (strlen(verbs[i].verb) == length && strncmp(verbs[i].verb, line, length) == 0) {
            return true;
        }
    }
    return false;
}

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
