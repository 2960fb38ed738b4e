/* The engine's cache: who watches what, and the samples that come of it. Nothing is stored: a
 * watch is a grid of instants, and a sample is computed when it is read. */
#define _GNU_SOURCE
#include "engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_RELEVANT 1024
#define CHUNK        64 /* values per callback of dcgmGetValuesSince_v2 */

/* --- watches ---------------------------------------------------------------------------------- */

static bool same_entity(dcgmGroupEntityPair_t a, dcgmGroupEntityPair_t b)
{
    return a.entityGroupId == b.entityGroupId && a.entityId == b.entityId;
}

/* Are all entities and fields of a watch among these? */
static bool covers(const dcgmGroupEntityPair_t *entities, unsigned count, const field_group *f, const watch *w)
{
    for (unsigned i = 0, k; i < w->entity_count; i++) {
        for (k = 0; k < count && !same_entity(entities[k], w->entities[i]); k++) {
        }
        if (k == count) {
            return false;
        }
    }
    for (unsigned i = 0, k; i < w->field_count; i++) {
        for (k = 0; k < f->count && f->fields[k] != w->fields[i]; k++) {
        }
        if (k == f->count) {
            return false;
        }
    }
    return true;
}

void drop_watches(dcgmHandle_t owner, const dcgmGroupEntityPair_t *entities, unsigned count, const field_group *fields)
{
    size_t kept = 0;
    for (size_t i = 0; i < engine.watch_count; i++) {
        watch *w = &engine.watches[i];
        if ((owner == 0 || w->owner == owner) && (fields == NULL || covers(entities, count, fields, w))) {
            free(w->entities);
        } else {
            engine.watches[kept++] = *w;
        }
    }
    engine.watch_count = kept;
}

/* Traces an entity to the one that holds the field: power of an instance is its GPU's. */
static dcgmGroupEntityPair_t holder(dcgmGroupEntityPair_t e, unsigned short field)
{
    dcgm_field_entity_group_t level = field_meta(field)->entityLevel;
    bool instance = e.entityGroupId == DCGM_FE_GPU_I || e.entityGroupId == DCGM_FE_GPU_CI;
    if (level == DCGM_FE_NONE) {
        return (dcgmGroupEntityPair_t){ DCGM_FE_NONE, 0 };
    }
    if (instance && level == DCGM_FE_GPU) {
        return (dcgmGroupEntityPair_t){ DCGM_FE_GPU, e.entityId / ENTITIES_PER_GPU };
    }
    place p;
    if (e.entityGroupId == DCGM_FE_GPU_CI && level == DCGM_FE_GPU_I && find_place(e, gpusim_now_us(), &p) == DCGM_ST_OK && p.gpu != NULL) {
        const gpusim_gi *gi = gpusim_find_gi(gpusim_epoch_now(p.gpu), p.gi);
        return (dcgmGroupEntityPair_t){ DCGM_FE_GPU_I, p.gpu->id * ENTITIES_PER_GPU + gi->index };
    }
    return e;
}

static bool watches_it(const watch *w, dcgmGroupEntityPair_t h, unsigned short field)
{
    bool has = false;
    for (unsigned i = 0; i < w->field_count; i++) {
        has = has || w->fields[i] == field;
    }
    for (unsigned i = 0; has && i < w->entity_count; i++) {
        if (same_entity(holder(w->entities[i], field), h)) {
            return true;
        }
    }
    return false;
}

/* Watches of a field of an entity, oldest first. */
static unsigned relevant_watches(dcgmGroupEntityPair_t h, unsigned short field, const watch *out[MAX_RELEVANT])
{
    unsigned n = 0;
    for (size_t i = 0; i < engine.watch_count && n < MAX_RELEVANT; i++) {
        if (watches_it(&engine.watches[i], h, field)) {
            out[n++] = &engine.watches[i];
        }
    }
    return n;
}

static dcgmReturn_t check_watch(dcgmGpuGrp_t group, dcgmFieldGrp_t fields, long long freq, dcgmGroupEntityPair_t *entities, int *count, field_group **f)
{
    *count = group_entities(group, entities);
    *f = find_field_group(fields);
    if (*count < 0) {
        return DCGM_ST_NOT_CONFIGURED;
    }
    if (*f == NULL || freq <= 0) {
        return DCGM_ST_BADPARAM;
    }
    int failed = gpusim_fail_fields((*f)->fields, (*f)->count);
    for (int i = 0; failed == 0 && i < *count; i++) {
        place p;
        for (unsigned k = 0; k < (*f)->count && find_place(entities[i], gpusim_now_us(), &p) == DCGM_ST_OK; k++) {
            if (field_is_profiling((*f)->fields[k]) && p.gpu != NULL && !p.gpu->model->profiling) {
                failed = DCGM_ST_PROFILING_NOT_SUPPORTED; /* the watch fails as a whole */
            }
        }
    }
    return (dcgmReturn_t)failed;
}

dcgmReturn_t dcgmWatchFields(dcgmHandle_t pDcgmHandle, dcgmGpuGrp_t groupId, dcgmFieldGrp_t fieldGroupId, long long updateFreq, double maxKeepAge, int maxKeepSamples)
{
    static dcgmGroupEntityPair_t entities[DCGM_GROUP_MAX_ENTITIES_V2]; /* guarded by the model's lock */
    dcgmReturn_t rc = engine_enter("dcgmWatchFields", pDcgmHandle);
    int count = 0;
    field_group *f = NULL;
    if (rc == DCGM_ST_OK) {
        rc = check_watch(groupId, fieldGroupId, updateFreq, entities, &count, &f);
    }
    if (rc != DCGM_ST_OK) {
        return engine_leave_quietly(rc);
    }
    for (size_t i = 0; i < engine.watch_count; i++) { /* the same watch again: only its terms change */
        watch *w = &engine.watches[i];
        if (w->owner == pDcgmHandle && w->interval_us == updateFreq && w->entity_count == (unsigned)count && w->field_count == f->count &&
            memcmp(w->entities, entities, (size_t)count * sizeof *entities) == 0 && memcmp(w->fields, f->fields, f->count * sizeof *f->fields) == 0) {
            w->keep_us = (int64_t)(maxKeepAge * 1e6);
            w->keep_samples = maxKeepSamples;
            return engine_leave(DCGM_ST_OK);
        }
    }
    watch w = { .owner = pDcgmHandle, .entity_count = (unsigned)count, .field_count = f->count,
                .start_us = gpusim_now_us(), .interval_us = updateFreq, .keep_us = (int64_t)(maxKeepAge * 1e6), .keep_samples = maxKeepSamples };
    memcpy(w.fields, f->fields, sizeof w.fields);
    w.entities = engine_alloc(NULL, (size_t)(count > 0 ? count : 1) * sizeof *entities);
    memcpy(w.entities, entities, (size_t)count * sizeof *entities);
    if (engine.watch_count == engine.watch_cap) {
        engine.watch_cap = engine.watch_cap * 2 + 16;
        engine.watches = engine_alloc(engine.watches, engine.watch_cap * sizeof *engine.watches);
    }
    engine.watches[engine.watch_count++] = w;
    return engine_leave(DCGM_ST_OK);
}

/* DCGM's cache knows entities, fields and connections, not groups: what ends are this
 * connection's watches of those. */
dcgmReturn_t dcgmUnwatchFields(dcgmHandle_t pDcgmHandle, dcgmGpuGrp_t groupId, dcgmFieldGrp_t fieldGroupId)
{
    dcgmGroupEntityPair_t entities[DCGM_GROUP_MAX_ENTITIES_V2];
    dcgmReturn_t rc = engine_enter("dcgmUnwatchFields", pDcgmHandle);
    int count = rc == DCGM_ST_OK ? group_entities(groupId, entities) : 0;
    const field_group *f = rc == DCGM_ST_OK ? find_field_group(fieldGroupId) : NULL;
    if (rc == DCGM_ST_OK && (count < 0 || f == NULL)) {
        rc = count < 0 ? DCGM_ST_NOT_CONFIGURED : DCGM_ST_BADPARAM;
    }
    if (rc == DCGM_ST_OK) {
        drop_watches(pDcgmHandle, entities, (unsigned)count, f);
    }
    return engine_leave_quietly(rc);
}

dcgmReturn_t dcgmUpdateAllFields(dcgmHandle_t pDcgmHandle, int waitForUpdate)
{
    (void)waitForUpdate; /* a watch has its first sample from its first instant on */
    return engine_leave(engine_enter("dcgmUpdateAllFields", pDcgmHandle));
}

/* --- samples -------------------------------------------------------------------------------------- */

/* Applies a "blank" line about the entity asked or about the one that holds the field. */
static bool overridden(const place *asked, const place *held, unsigned short field, int64_t t, reading *out)
{
    double garbage = 0;
    gpusim_read r = GPUSIM_READ_OK;
    if (asked->gpu != NULL) {
        r = gpusim_read_override(asked->gpu->id, asked->gi, asked->ci, field, t, &garbage);
        if (r == GPUSIM_READ_OK && held->gpu != NULL) {
            r = gpusim_read_override(held->gpu->id, held->gi, held->ci, field, t, &garbage);
        }
    }
    switch (r) {
    case GPUSIM_READ_ABSENT: blank_reading(out, field, BLANK_NONE, DCGM_ST_NO_DATA, 0); return true;
    case GPUSIM_READ_NOT_WATCHED: blank_reading(out, field, BLANK_NONE, DCGM_ST_NOT_WATCHED, 0); return true;
    case GPUSIM_READ_NOT_SUPPORTED: blank_reading(out, field, BLANK_NOT_SUPPORTED, DCGM_ST_OK, t); return true;
    case GPUSIM_READ_GARBAGE:
        blank_reading(out, field, BLANK_NONE, DCGM_ST_OK, t);
        out->dbl = garbage;
        out->i64 = garbage >= 9.2e18 ? INT64_MAX : (int64_t)garbage;
        snprintf(out->str, sizeof out->str, "%.17g", garbage);
        return true;
    default: return false;
    }
}

static bool instance_is_new(const place *p, int64_t t, int64_t interval)
{
    const gpusim_gi *gi = gpusim_find_gi(gpusim_epoch_at(p->gpu, t), p->gi);
    return gi != NULL && gi->created_us > t - interval;
}

/* The sample of one instant; false where the engine has none (GPU lost, stale or reloading). */
static bool sample_at(dcgmGroupEntityPair_t asked, unsigned short field, int64_t t, int64_t interval, bool first, reading *out)
{
    place a, h;
    if (find_place(asked, t, &a) != DCGM_ST_OK || find_place(holder(asked, field), t, &h) != DCGM_ST_OK || (a.fake && field != 50)) {
        return false;
    }
    if (a.gpu != NULL) {
        const gpusim_epoch *e = gpusim_epoch_at(a.gpu, t);
        if (e->lost || (e->stale && t > e->from_us) || (t < e->blank_until_us && t >= e->blank_until_us - 2000000)) {
            return false;
        }
    }
    if (overridden(&a, &h, field, t, out)) {
        return true;
    }
    if (field_is_profiling(field) && h.gpu != NULL && h.gpu->model->profiling && (first || instance_is_new(&h, t, interval))) {
        blank_reading(out, field, BLANK_NONE, DCGM_ST_OK, t); /* a mean needs two samples */
        return true;
    }
    compute_reading(h, field, t, interval, out);
    return true;
}

/* --- events as samples: XIDs and bind events ---------------------------------------------------------- */

static bool is_event_field(unsigned short field) { return field == 230 || field == 6; }

static bool event_matches(const gpusim_event *e, const place *p, unsigned short field)
{
    if (field == 6) {
        return e->kind == GPUSIM_BIND;
    }
    return e->kind == GPUSIM_XID && p->gpu != NULL && e->gpu == p->gpu->id && e->gi == p->gi && e->ci == p->ci;
}

/* Calls visit for each event of the entity's own level in [since, now]. */
static void each_event(dcgmGroupEntityPair_t asked, unsigned short field, int64_t since, void (*visit)(const reading *, void *), void *arg)
{
    size_t count;
    const gpusim_event *events = gpusim_events(&count);
    place p;
    if (find_place(asked, gpusim_now_us(), &p) != DCGM_ST_OK) {
        return;
    }
    for (size_t i = 0; i < count && events[i].t_us <= gpusim_now_us(); i++) {
        if (events[i].t_us >= since && event_matches(&events[i], &p, field)) {
            reading r;
            blank_reading(&r, field, BLANK_NONE, DCGM_ST_OK, events[i].t_us);
            r.i64 = (int64_t)events[i].value;
            visit(&r, arg);
        }
    }
}

/* --- reading ---------------------------------------------------------------------------------------------- */

/* Earliest instant that is still kept. */
static int64_t kept_since(const watch *const *w, unsigned n)
{
    int64_t age = 0;
    for (unsigned i = 0; i < n; i++) {
        int64_t own = w[i]->keep_us > 0 ? w[i]->keep_us : INT64_MAX / 4;
        if (w[i]->keep_samples > 0 && (w[i]->keep_samples - 1) * w[i]->interval_us < own) {
            own = (w[i]->keep_samples - 1) * w[i]->interval_us;
        }
        age = own > age ? own : age;
    }
    return gpusim_now_us() - age;
}

typedef struct {
    dcgmGroupEntityPair_t asked;
    unsigned short field;
    int64_t since;
    size_t next_injected;
    void (*visit)(const reading *, void *);
    void *arg;
} walk;

/* Injected samples up to t, which stand between the computed ones. */
static void flush_injected(walk *k, int64_t t)
{
    dcgmGroupEntityPair_t h = holder(k->asked, k->field);
    for (; k->next_injected < engine.injected_count && engine.injections[k->next_injected].value.ts <= t; k->next_injected++) {
        const injected *i = &engine.injections[k->next_injected];
        if (i->field == k->field && i->value.ts >= k->since && same_entity(i->entity, h)) {
            k->visit(&i->value, k->arg);
        }
    }
}

/* Samples of [from, to) on the grid of w. */
static void walk_span(walk *k, const watch *w, bool oldest, int64_t from, int64_t to)
{
    int64_t n = from <= w->start_us ? 0 : (from - w->start_us + w->interval_us - 1) / w->interval_us;
    for (int64_t t = w->start_us + n * w->interval_us; t < to; t += w->interval_us) {
        reading r;
        if (sample_at(k->asked, k->field, t, w->interval_us, oldest && t == w->start_us, &r) && r.status == DCGM_ST_OK) {
            flush_injected(k, t);
            k->visit(&r, k->arg);
        }
    }
}

static const watch *fastest(const watch *const *w, unsigned n)
{
    const watch *best = w[0];
    for (unsigned i = 1; i < n; i++) {
        best = w[i]->interval_us < best->interval_us ? w[i] : best;
    }
    return best;
}

dcgmReturn_t each_sample(dcgmGroupEntityPair_t asked, unsigned short field, int64_t since, void (*visit)(const reading *, void *), void *arg)
{
    const watch *w[MAX_RELEVANT];
    unsigned n = relevant_watches(holder(asked, field), field, w);
    walk k = { .asked = asked, .field = field, .since = since, .visit = visit, .arg = arg };
    if (n > 0) {
        int64_t kept = kept_since(w, n);
        k.since = kept > since ? kept : since;
    }
    if (n > 0 && is_event_field(field)) {
        each_event(asked, field, k.since > w[0]->start_us ? k.since : w[0]->start_us, visit, arg);
    }
    for (unsigned i = 0; i < n && !is_event_field(field); i++) {
        int64_t from = w[i]->start_us > k.since ? w[i]->start_us : k.since;
        int64_t to = i + 1 < n ? w[i + 1]->start_us : gpusim_now_us() + 1;
        const watch *best = fastest(w, i + 1);
        walk_span(&k, best, best == w[0], from, to);
    }
    k.since = since;
    flush_injected(&k, INT64_MAX);
    return n > 0 ? DCGM_ST_OK : DCGM_ST_NOT_WATCHED;
}

static void keep_last(const reading *r, void *arg) { *(reading *)arg = *r; }

static bool latest_injected(dcgmGroupEntityPair_t h, unsigned short field, reading *out)
{
    for (size_t i = engine.injected_count; i-- > 0;) {
        if (engine.injections[i].field == field && same_entity(engine.injections[i].entity, h)) {
            *out = engine.injections[i].value;
            return true;
        }
    }
    return false;
}

/* What the watch thread last stored. */
static void latest_watched(dcgmGroupEntityPair_t asked, unsigned short field, int64_t limit, reading *out)
{
    const watch *w[MAX_RELEVANT];
    unsigned n = relevant_watches(holder(asked, field), field, w);
    blank_reading(out, field, BLANK_NONE, n == 0 ? DCGM_ST_NOT_WATCHED : DCGM_ST_NO_DATA, 0);
    if (n == 0) {
        return;
    }
    if (is_event_field(field)) {
        each_event(asked, field, w[0]->start_us, keep_last, out);
        return;
    }
    while (n > 0 && w[n - 1]->start_us > limit) {
        n--;
    }
    if (n == 0) {
        return;
    }
    const watch *best = fastest(w, n);
    int64_t t = best->start_us + (limit - best->start_us) / best->interval_us * best->interval_us;
    reading r;
    if (sample_at(asked, field, t, best->interval_us, best == w[0] && t == best->start_us, &r)) {
        *out = r;
    }
}

static bool gpu_trouble(const place *p, unsigned short field, int64_t *limit, reading *out)
{
    if (p->gpu == NULL || field_meta(field)->entityLevel == DCGM_FE_NONE) {
        return false;
    }
    const gpusim_epoch *e = gpusim_epoch_now(p->gpu);
    if (engine.detached || e->lost) {
        blank_reading(out, field, BLANK_NONE, engine.detached ? DCGM_ST_GPUS_DETACHED : DCGM_ST_GPU_IS_LOST, 0);
        return true;
    }
    if (e->stale) {
        *limit = e->from_us;
    }
    return false;
}

void latest_reading(dcgmGroupEntityPair_t asked, unsigned short field, bool live, reading *out)
{
    int64_t limit = gpusim_now_us();
    place p;
    reading in;
    blank_reading(out, field, BLANK_NONE, DCGM_ST_UNKNOWN_FIELD, 0);
    if (field_meta(field) == NULL) {
        return;
    }
    dcgmReturn_t rc = find_place(asked, limit, &p);
    if (rc != DCGM_ST_OK) {
        blank_reading(out, field, BLANK_NONE, rc, 0);
        return;
    }
    if (gpu_trouble(&p, field, &limit, out)) {
        return;
    }
    if (live && !field_is_profiling(field) && !is_event_field(field)) {
        if (!sample_at(asked, field, limit, 1000000, false, out)) {
            blank_reading(out, field, BLANK_NONE, DCGM_ST_NO_DATA, 0);
        }
    } else {
        latest_watched(asked, field, limit, out);
    }
    if (latest_injected(holder(asked, field), field, &in) && (out->status != DCGM_ST_OK || in.ts >= out->ts)) {
        *out = in;
    }
}

/* --- calls that read ------------------------------------------------------------------------------------------ */

static void put_v1(const reading *r, unsigned short field, dcgmFieldValue_v1 *out)
{
    out->version = dcgmFieldValue_version1;
    out->fieldId = field;
    out->fieldType = (unsigned char)r->type;
    out->status = r->status;
    out->ts = r->ts;
    switch (r->type) {
    case DCGM_FT_DOUBLE: out->value.dbl = r->dbl; break;
    case DCGM_FT_STRING: snprintf(out->value.str, sizeof out->value.str, "%s", r->str); break;
    case DCGM_FT_BINARY: memset(out->value.blob, 0, 16); break;
    default: out->value.i64 = r->i64; break;
    }
}

static void put_v2(const reading *r, dcgmGroupEntityPair_t e, unsigned short field, dcgmFieldValue_v2 *out)
{
    out->version = dcgmFieldValue_version2;
    out->entityGroupId = e.entityGroupId;
    out->entityId = e.entityId;
    out->fieldId = field;
    out->fieldType = (unsigned char)r->type;
    out->status = r->status;
    out->unused = 0;
    out->ts = r->ts;
    switch (r->type) {
    case DCGM_FT_DOUBLE: out->value.dbl = r->dbl; break;
    case DCGM_FT_STRING: snprintf(out->value.str, sizeof out->value.str, "%s", r->str); break;
    case DCGM_FT_BINARY: memset(out->value.blob, 0, 16); break;
    default: out->value.i64 = r->i64; break;
    }
}

static dcgmReturn_t read_entity(const char *symbol, dcgmHandle_t handle, dcgmGroupEntityPair_t e, const unsigned short *fields, unsigned count, dcgmFieldValue_v1 *values)
{
    dcgmReturn_t rc = engine_enter(symbol, handle);
    if (rc == DCGM_ST_OK && (fields == NULL || values == NULL || count == 0)) {
        rc = DCGM_ST_BADPARAM;
    }
    for (unsigned i = 0; rc == DCGM_ST_OK && i < count; i++) {
        reading r;
        latest_reading(e, fields[i], false, &r);
        put_v1(&r, fields[i], &values[i]);
    }
    return engine_leave(rc);
}

dcgmReturn_t dcgmGetLatestValuesForFields(dcgmHandle_t pDcgmHandle, int gpuId, unsigned short fields[], unsigned int count, dcgmFieldValue_v1 values[])
{
    return read_entity("dcgmGetLatestValuesForFields", pDcgmHandle, (dcgmGroupEntityPair_t){ DCGM_FE_GPU, (unsigned)gpuId }, fields, count, values);
}

dcgmReturn_t dcgmEntityGetLatestValues(dcgmHandle_t pDcgmHandle, dcgm_field_entity_group_t entityGroup, int entityId, unsigned short fields[], unsigned int count,
                                       dcgmFieldValue_v1 values[])
{
    return read_entity("dcgmEntityGetLatestValues", pDcgmHandle, (dcgmGroupEntityPair_t){ entityGroup, (unsigned)entityId }, fields, count, values);
}

dcgmReturn_t dcgmEntitiesGetLatestValues(dcgmHandle_t pDcgmHandle, dcgmGroupEntityPair_t entities[], unsigned int entityCount, unsigned short fields[],
                                         unsigned int fieldCount, unsigned int flags, dcgmFieldValue_v2 values[])
{
    dcgmReturn_t rc = engine_enter("dcgmEntitiesGetLatestValues", pDcgmHandle);
    if (rc == DCGM_ST_OK && (entities == NULL || fields == NULL || values == NULL || entityCount == 0 || fieldCount == 0)) {
        rc = DCGM_ST_BADPARAM;
    }
    for (unsigned i = 0; rc == DCGM_ST_OK && i < entityCount; i++) {
        for (unsigned k = 0; k < fieldCount; k++) {
            reading r;
            latest_reading(entities[i], fields[k], (flags & DCGM_FV_FLAG_LIVE_DATA) != 0, &r);
            put_v2(&r, entities[i], fields[k], &values[i * fieldCount + k]);
        }
    }
    return engine_leave(rc);
}

typedef struct {
    dcgmGroupEntityPair_t entity;
    unsigned short field;
    dcgmFieldValueEntityEnumeration_f callback;
    void *user_data;
    dcgmFieldValue_v1 *chunk;
    int count, stopped;
    int64_t next;
} since_call;

static void flush_chunk(since_call *c)
{
    if (c->count > 0 && !c->stopped) {
        c->stopped = c->callback(c->entity.entityGroupId, c->entity.entityId, c->chunk, c->count, c->user_data);
    }
    c->count = 0;
}

static void add_sample(const reading *r, void *arg)
{
    since_call *c = arg;
    if (c->count == CHUNK) {
        flush_chunk(c);
    }
    put_v1(r, c->field, &c->chunk[c->count++]);
    c->next = r->ts + 1 > c->next ? r->ts + 1 : c->next;
}

dcgmReturn_t dcgmGetValuesSince_v2(dcgmHandle_t pDcgmHandle, dcgmGpuGrp_t groupId, dcgmFieldGrp_t fieldGroupId, long long sinceTimestamp, long long *nextSinceTimestamp,
                                   dcgmFieldValueEntityEnumeration_f enumCB, void *userData)
{
    static dcgmGroupEntityPair_t entities[DCGM_GROUP_MAX_ENTITIES_V2];
    dcgmReturn_t rc = engine_enter("dcgmGetValuesSince_v2", pDcgmHandle);
    int count = rc == DCGM_ST_OK ? group_entities(groupId, entities) : 0;
    field_group *f = rc == DCGM_ST_OK ? find_field_group(fieldGroupId) : NULL;
    if (rc != DCGM_ST_OK || count < 0 || f == NULL || enumCB == NULL) {
        return engine_leave_quietly(rc != DCGM_ST_OK ? rc : count < 0 ? DCGM_ST_NOT_CONFIGURED : DCGM_ST_BADPARAM);
    }
    since_call c = { .callback = enumCB, .user_data = userData, .next = sinceTimestamp > 0 ? sinceTimestamp : 0 };
    c.chunk = engine_alloc(NULL, CHUNK * sizeof *c.chunk);
    bool watched = false;
    for (int i = 0; i < count; i++) {
        for (unsigned k = 0; k < f->count && !c.stopped; k++) {
            c.entity = entities[i];
            c.field = f->fields[k];
            watched = each_sample(c.entity, c.field, c.next > 0 && sinceTimestamp > 0 ? sinceTimestamp : 0, add_sample, &c) == DCGM_ST_OK || c.count > 0 || watched;
            flush_chunk(&c);
        }
    }
    free(c.chunk);
    if (nextSinceTimestamp != NULL) {
        *nextSinceTimestamp = c.next;
    }
    return engine_leave(watched ? DCGM_ST_OK : DCGM_ST_NOT_WATCHED);
}

/* --- injection --------------------------------------------------------------------------------------------------- */

dcgmReturn_t dcgmInjectFieldValue(dcgmHandle_t pDcgmHandle, unsigned int gpuId, dcgmInjectFieldValue_t *v)
{
    dcgmReturn_t rc = engine_enter("dcgmInjectFieldValue", pDcgmHandle);
    injected in = { .entity = { DCGM_FE_GPU, gpuId }, .field = v->fieldId };
    place p;
    if (rc == DCGM_ST_OK && v->version != dcgmInjectFieldValue_version) {
        rc = DCGM_ST_VER_MISMATCH;
    } else if (rc == DCGM_ST_OK && (field_meta(v->fieldId) == NULL || find_place(in.entity, gpusim_now_us(), &p) != DCGM_ST_OK)) {
        rc = DCGM_ST_BADPARAM;
    }
    if (rc != DCGM_ST_OK) {
        return engine_leave_quietly(rc);
    }
    reading before;
    bool had = latest_injected(in.entity, in.field, &before);
    blank_reading(&in.value, v->fieldId, BLANK_NONE, v->status, v->ts > 0 ? v->ts : gpusim_now_us());
    in.value.type = (char)v->fieldType;
    in.value.i64 = v->fieldType == DCGM_FT_DOUBLE ? (int64_t)v->value.dbl : v->value.i64;
    in.value.dbl = v->fieldType == DCGM_FT_DOUBLE ? v->value.dbl : (double)v->value.i64;
    if (v->fieldType == DCGM_FT_STRING) {
        snprintf(in.value.str, sizeof in.value.str, "%.*s", DCGM_MAX_STR_LENGTH - 1, v->value.str);
    }
    if (engine.injected_count == engine.injected_cap) {
        engine.injected_cap = engine.injected_cap * 2 + 16;
        engine.injections = engine_alloc(engine.injections, engine.injected_cap * sizeof *engine.injections);
    }
    size_t at = engine.injected_count++;
    for (; at > 0 && engine.injections[at - 1].value.ts > in.value.ts; at--) {
        engine.injections[at] = engine.injections[at - 1];
    }
    engine.injections[at] = in;
    policy_injected(in.entity, in.field, had ? &before : NULL, &in.value);
    return engine_leave(DCGM_ST_OK);
}

/* Growth between the first and the last sample of the interval that ends with the newest. */
typedef struct {
    int64_t from, first, last;
    bool any;
} growth;

static void add_growth(const reading *r, void *arg)
{
    growth *g = arg;
    if (r->status != DCGM_ST_OK || DCGM_INT64_IS_BLANK(r->i64) || r->ts < g->from) {
        return;
    }
    g->first = g->any ? g->first : r->i64;
    g->last = r->i64;
    g->any = true;
}

int64_t counter_growth(dcgmGroupEntityPair_t e, unsigned short field, int64_t interval_us)
{
    growth g = { .from = gpusim_now_us() - interval_us };
    each_sample(e, field, g.from, add_growth, &g);
    return g.any ? g.last - g.first : 0;
}
