/* What the parts of the simulated host engine (libdcgm.so.4) share. */
#ifndef GPUSIM_ENGINE_H
#define GPUSIM_ENGINE_H

#include "model.h"

#include "dcgm_agent.h"
#include "dcgm_errors.h"
#include "dcgm_fields.h"
#include "dcgm_structs.h"
#include "dcgm_structs_internal.h"
#include "dcgm_test_apis.h"

#define ENTITIES_PER_GPU DCGM_MAX_INSTANCES_PER_GPU

/* One value of one field at one instant. */
typedef struct {
    int64_t ts;
    int status; /* DCGM_ST_* */
    char type;  /* DCGM_FT_* */
    int64_t i64;
    double dbl;
    char str[DCGM_MAX_STR_LENGTH];
} reading;

/* An entity traced back to the model: GPU, and instances by NVML id (GPUSIM_WHOLE: none). */
typedef struct {
    const gpusim_gpu_t *gpu; /* NULL: a fake GPU, or none */
    bool fake;
    int gi, ci, link;
} place;

typedef struct {
    bool used;
    dcgmGpuGrp_t id;
    dcgmHandle_t owner;
    char name[DCGM_MAX_STR_LENGTH];
    unsigned count;
    dcgmGroupEntityPair_t entities[DCGM_GROUP_MAX_ENTITIES_V2];
    unsigned health; /* DCGM_HEALTH_WATCH_* */
} entity_group;

typedef struct {
    bool used;
    dcgmFieldGrp_t id;
    dcgmHandle_t owner;
    char name[DCGM_MAX_STR_LENGTH];
    unsigned count;
    unsigned short fields[DCGM_MAX_FIELD_IDS_PER_FIELD_GROUP];
} field_group;

/* One dcgmWatchFields: a grid of sampling instants start + k * interval. */
typedef struct {
    dcgmHandle_t owner;
    unsigned entity_count, field_count;
    dcgmGroupEntityPair_t *entities;
    unsigned short fields[DCGM_MAX_FIELD_IDS_PER_FIELD_GROUP];
    int64_t start_us, interval_us, keep_us; /* keep_us 0: for good */
    int keep_samples;                       /* 0: all */
} watch;

typedef struct {
    dcgmGroupEntityPair_t entity;
    unsigned short field;
    reading value;
} injected;

#define ENGINE_MAX_CONNECTIONS 64
#define ENGINE_MAX_POLICIES    64

typedef struct {
    dcgmGpuGrp_t group;
    dcgmHandle_t owner;
    unsigned condition;
    fpRecvUpdates callback;
    uint64_t user_data;
} policy_listener;

typedef struct {
    dcgmGpuGrp_t group;
    dcgmPolicy_t policy;
} group_policy;

typedef struct {
    unsigned initialised; /* dcgmInit minus dcgmShutdown */
    unsigned generation;  /* of the model's host engine that all of the below belongs to */
    bool embedded, detached;
    bool connected[ENGINE_MAX_CONNECTIONS];
    unsigned connection_generation[ENGINE_MAX_CONNECTIONS];
    unsigned embedded_generation;
    uintptr_t next_group, next_field_group;
    entity_group *groups; /* DCGM_MAX_NUM_GROUPS */
    field_group *field_groups;
    unsigned own_health[2]; /* health systems of DCGM's own groups */
    size_t watch_count, watch_cap;
    watch *watches;
    size_t injected_count, injected_cap;
    injected *injections;
    unsigned fake_gpus, fake_gis[DCGM_MAX_NUM_DEVICES], fake_cis[DCGM_MAX_NUM_DEVICES];
    size_t listener_count, policy_count;
    policy_listener listeners[ENGINE_MAX_POLICIES];
    group_policy policies[ENGINE_MAX_POLICIES];
    size_t events_seen; /* of the model's log, by policies */
} engine_state;

extern engine_state engine;

/* Begins a call: locks, counts, applies faults, checks the handle. DCGM_ST_OK or what to answer;
 * leave must follow in both cases. */
dcgmReturn_t engine_enter(const char *symbol, dcgmHandle_t handle);
dcgmReturn_t engine_enter_free(const char *symbol); /* calls that need no handle */
/* Ends a call, then tells policy listeners what happened meanwhile (outside the lock). */
dcgmReturn_t engine_leave(dcgmReturn_t rc);
/* Ends a call without telling anybody: for calls inside of which a client holds locks. */
dcgmReturn_t engine_leave_quietly(dcgmReturn_t rc);

void *engine_alloc(void *old, size_t size);

/* Meta data, never NULL for a known field. */
const dcgm_field_meta_t *field_meta(unsigned short field);
bool field_is_profiling(unsigned short field);

/* Entities of a group, DCGM's own included; -1: no such group. */
int group_entities(dcgmGpuGrp_t id, dcgmGroupEntityPair_t out[DCGM_GROUP_MAX_ENTITIES_V2]);
entity_group *find_group(dcgmGpuGrp_t id);
field_group *find_field_group(dcgmFieldGrp_t id);
/* DCGM_ST_OK and the place of an entity at t, or the error that a read of it gets. */
dcgmReturn_t find_place(dcgmGroupEntityPair_t e, int64_t t_us, place *out);
unsigned list_entities(dcgm_field_entity_group_t group, bool active_only, dcgm_field_eid_t *out, unsigned max);

/* Value of a field at a place at t; interval is what profiling fields are averaged over.
 * DCGM_ST_OK with a sentinel in it where the field isn't supported. */
void compute_reading(place p, unsigned short field, int64_t t_us, int64_t interval_us, reading *out);
void blank_reading(reading *r, unsigned short field, int kind, int status, int64_t ts);
enum { BLANK_NONE, BLANK_NOT_FOUND, BLANK_NOT_SUPPORTED, BLANK_NOT_PERMITTED };

/* Latest value of a field of an entity as the cache has it (or live). */
void latest_reading(dcgmGroupEntityPair_t e, unsigned short field, bool live, reading *out);
/* Calls visit for each sample with since <= ts <= now, ascending. DCGM_ST_NOT_WATCHED if nobody watches. */
dcgmReturn_t each_sample(dcgmGroupEntityPair_t e, unsigned short field, int64_t since_us, void (*visit)(const reading *, void *), void *arg);
/* Ends watches: of one owner (0: of all), and with fields only those inside entities x fields. */
void drop_watches(dcgmHandle_t owner, const dcgmGroupEntityPair_t *entities, unsigned count, const field_group *fields);
/* How much a counter grew in the last interval, for health. */
int64_t counter_growth(dcgmGroupEntityPair_t e, unsigned short field, int64_t interval_us);

/* A value was injected: policies may want to know. */
void policy_injected(dcgmGroupEntityPair_t e, unsigned short field, const reading *before, const reading *now);
/* Calls the listeners; the lock must not be held. */
void policy_deliver(void);
void policy_collect(void);
void policy_forget(void);
void gpusim_dcgm_notice(void);

#endif
