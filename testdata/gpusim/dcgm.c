/* The host engine's front door: connections, handles, groups, field groups, entities. */
#define _GNU_SOURCE
#include "engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Groups that clients can have: two of the 64 are DCGM's own. */
#define OWN_GROUPS (DCGM_MAX_NUM_GROUPS - 2)

engine_state engine;

void *engine_alloc(void *old, size_t size)
{
    void *p = realloc(old, size);
    if (p == NULL) {
        fprintf(stderr, "gpusim: out of memory for %zu bytes\n", size);
        abort();
    }
    return p;
}

/* --- call protocol ----------------------------------------------------------------------------- */

/* The engine was started anew: what it knew is gone, and so are the connections. */
static void forget_all(unsigned generation)
{
    drop_watches(0, NULL, 0, NULL);
    free(engine.injections);
    free(engine.groups);
    free(engine.field_groups);
    free(engine.watches);
    unsigned initialised = engine.initialised;
    bool embedded = engine.embedded, connected[ENGINE_MAX_CONNECTIONS];
    unsigned of[ENGINE_MAX_CONNECTIONS], embedded_generation = engine.embedded_generation;
    memcpy(connected, engine.connected, sizeof connected);
    memcpy(of, engine.connection_generation, sizeof of);
    memset(&engine, 0, sizeof engine);
    engine.initialised = initialised;
    engine.embedded = embedded;
    engine.embedded_generation = embedded_generation;
    memcpy(engine.connected, connected, sizeof connected);
    memcpy(engine.connection_generation, of, sizeof of);
    engine.generation = generation;
    engine.next_group = engine.next_field_group = 2; /* 0 and 1 are the default groups */
    engine.groups = engine_alloc(NULL, DCGM_MAX_NUM_GROUPS * sizeof *engine.groups);
    memset(engine.groups, 0, DCGM_MAX_NUM_GROUPS * sizeof *engine.groups);
    engine.field_groups = engine_alloc(NULL, DCGM_MAX_NUM_FIELD_GROUPS * sizeof *engine.field_groups);
    memset(engine.field_groups, 0, DCGM_MAX_NUM_FIELD_GROUPS * sizeof *engine.field_groups);
    policy_forget();
}

dcgmReturn_t engine_enter_free(const char *symbol)
{
    int forced = gpusim_enter(symbol);
    unsigned generation;
    gpusim_hostengine(&generation);
    if (generation != engine.generation) {
        forget_all(generation);
    }
    return (dcgmReturn_t)forced;
}

dcgmReturn_t engine_enter(const char *symbol, dcgmHandle_t handle)
{
    dcgmReturn_t forced = engine_enter_free(symbol);
    unsigned generation;
    if (!gpusim_hostengine(&generation)) {
        return DCGM_ST_CONNECTION_NOT_VALID;
    }
    if (engine.initialised == 0) {
        return DCGM_ST_UNINITIALIZED;
    }
    bool valid = handle == DCGM_EMBEDDED_HANDLE ? engine.embedded && engine.embedded_generation == generation
                                                : handle >= 1 && handle <= ENGINE_MAX_CONNECTIONS && engine.connected[handle - 1] &&
                                                      engine.connection_generation[handle - 1] == generation;
    return valid ? forced : DCGM_ST_CONNECTION_NOT_VALID;
}

dcgmReturn_t engine_leave_quietly(dcgmReturn_t rc)
{
    gpusim_leave();
    return rc;
}

dcgmReturn_t engine_leave(dcgmReturn_t rc)
{
    policy_collect();
    gpusim_leave();
    policy_deliver();
    return rc;
}

/* --- connections ---------------------------------------------------------------------------------- */

dcgmReturn_t dcgmInit(void)
{
    dcgmReturn_t rc = engine_enter_free("dcgmInit");
    if (rc == DCGM_ST_OK) {
        engine.initialised++;
    }
    return engine_leave_quietly(rc);
}

dcgmReturn_t dcgmShutdown(void)
{
    dcgmReturn_t rc = engine_enter_free("dcgmShutdown");
    if (rc == DCGM_ST_OK && engine.initialised > 0) {
        engine.initialised--;
    }
    return engine_leave_quietly(rc);
}

dcgmReturn_t dcgmStartEmbedded(dcgmOperationMode_t opMode, dcgmHandle_t *pDcgmHandle)
{
    dcgmReturn_t rc = engine_enter_free("dcgmStartEmbedded");
    unsigned generation;
    bool up = gpusim_hostengine(&generation);
    if (rc == DCGM_ST_OK && (opMode != DCGM_OPERATION_MODE_AUTO && opMode != DCGM_OPERATION_MODE_MANUAL)) {
        rc = DCGM_ST_BADPARAM;
    } else if (rc == DCGM_ST_OK && !up) {
        rc = DCGM_ST_INIT_ERROR;
    } else if (rc == DCGM_ST_OK && engine.initialised == 0) {
        rc = DCGM_ST_UNINITIALIZED;
    }
    if (rc == DCGM_ST_OK) {
        engine.embedded = true;
        engine.embedded_generation = generation;
        *pDcgmHandle = DCGM_EMBEDDED_HANDLE;
    }
    return engine_leave_quietly(rc);
}

/* Watches and groups of a connection go with it. */
static void drop_owner(dcgmHandle_t owner)
{
    for (unsigned i = 0; i < DCGM_MAX_NUM_GROUPS; i++) {
        engine.groups[i].used = engine.groups[i].used && engine.groups[i].owner != owner;
        engine.field_groups[i].used = engine.field_groups[i].used && engine.field_groups[i].owner != owner;
    }
    size_t kept = 0;
    for (size_t i = 0; i < engine.listener_count; i++) {
        if (engine.listeners[i].owner != owner) {
            engine.listeners[kept++] = engine.listeners[i];
        }
    }
    engine.listener_count = kept;
    drop_watches(owner, NULL, 0, NULL);
}

dcgmReturn_t dcgmStopEmbedded(dcgmHandle_t pDcgmHandle)
{
    dcgmReturn_t rc = engine_enter_free("dcgmStopEmbedded");
    if (rc == DCGM_ST_OK && pDcgmHandle != DCGM_EMBEDDED_HANDLE) {
        rc = DCGM_ST_BADPARAM;
    }
    if (rc == DCGM_ST_OK && engine.embedded) { /* the engine ends with everything in it */
        engine.embedded = false;
        forget_all(engine.generation);
    }
    return engine_leave_quietly(rc);
}

static dcgmReturn_t connect_engine(const char *symbol, const char *address, bool version_ok, dcgmHandle_t *handle)
{
    dcgmReturn_t rc = engine_enter_free(symbol);
    unsigned generation;
    bool up = gpusim_hostengine(&generation);
    if (rc == DCGM_ST_OK && (address == NULL || address[0] == '\0' || handle == NULL)) {
        rc = DCGM_ST_BADPARAM;
    } else if (rc == DCGM_ST_OK && !version_ok) {
        rc = DCGM_ST_VER_MISMATCH;
    } else if (rc == DCGM_ST_OK && engine.initialised == 0) {
        rc = DCGM_ST_UNINITIALIZED;
    } else if (rc == DCGM_ST_OK && !up) {
        rc = DCGM_ST_CONNECTION_NOT_VALID;
    }
    if (rc == DCGM_ST_OK) {
        unsigned slot = 0;
        while (slot < ENGINE_MAX_CONNECTIONS && engine.connected[slot]) {
            slot++;
        }
        if (slot == ENGINE_MAX_CONNECTIONS) {
            return engine_leave_quietly(DCGM_ST_MAX_LIMIT);
        }
        engine.connected[slot] = true;
        engine.connection_generation[slot] = generation;
        *handle = slot + 1;
    }
    return engine_leave_quietly(rc);
}

dcgmReturn_t dcgmConnect_v2(const char *ipAddress, dcgmConnectV2Params_t *connectParams, dcgmHandle_t *pDcgmHandle)
{
    return connect_engine("dcgmConnect_v2", ipAddress, connectParams != NULL && connectParams->version == dcgmConnectV2Params_version, pDcgmHandle);
}

dcgmReturn_t dcgmConnect_v3(const char *connectionString, dcgmConnectV3Params_t *connectParams, dcgmHandle_t *pDcgmHandle)
{
    return connect_engine("dcgmConnect_v3", connectionString, connectParams != NULL && connectParams->version == dcgmConnectV3Params_version, pDcgmHandle);
}

dcgmReturn_t dcgmDisconnect(dcgmHandle_t pDcgmHandle)
{
    dcgmReturn_t rc = engine_enter_free("dcgmDisconnect");
    if (rc == DCGM_ST_OK && (pDcgmHandle < 1 || pDcgmHandle > ENGINE_MAX_CONNECTIONS || !engine.connected[pDcgmHandle - 1])) {
        rc = DCGM_ST_BADPARAM;
    }
    if (rc == DCGM_ST_OK) {
        engine.connected[pDcgmHandle - 1] = false;
        drop_owner(pDcgmHandle);
    }
    return engine_leave_quietly(rc);
}

/* --- entities ------------------------------------------------------------------------------------------ */

static bool gpu_active(unsigned gpu)
{
    const gpusim_gpu_t *g = gpusim_gpu(gpu);
    return g != NULL ? !engine.detached && !gpusim_epoch_now(g)->lost : gpu < gpusim_gpu_count() + engine.fake_gpus;
}

static unsigned list_instances(const gpusim_gpu_t *g, bool compute, dcgm_field_eid_t *out, unsigned n, unsigned max)
{
    const gpusim_epoch *e = gpusim_epoch_now(g);
    for (unsigned i = 0; i < e->gi_count; i++) {
        if (!compute && n < max) {
            out[n++] = g->id * ENTITIES_PER_GPU + e->gi[i].index;
        }
        for (unsigned k = 0; compute && k < e->gi[i].ci_count && n < max; k++) {
            out[n++] = g->id * ENTITIES_PER_GPU + e->gi[i].ci[k].index;
        }
    }
    return n;
}

unsigned list_entities(dcgm_field_entity_group_t group, bool active_only, dcgm_field_eid_t *out, unsigned max)
{
    unsigned n = 0;
    for (unsigned i = 0; i < gpusim_gpu_count() + engine.fake_gpus; i++) {
        const gpusim_gpu_t *g = gpusim_gpu(i);
        if (active_only && !gpu_active(i)) {
            continue;
        }
        if (group == DCGM_FE_GPU && n < max) {
            out[n++] = i;
        } else if (g != NULL && (group == DCGM_FE_GPU_I || group == DCGM_FE_GPU_CI)) {
            n = list_instances(g, group == DCGM_FE_GPU_CI, out, n, max);
        } else if (g != NULL && group == DCGM_FE_LINK) {
            for (unsigned k = 0; k < g->model->nvlinks && n < max; k++) {
                dcgm_link_t link = { .parsed = { .type = DCGM_FE_GPU, .index = k, .gpuId = i } };
                out[n++] = link.raw;
            }
        }
        unsigned fakes = group == DCGM_FE_GPU_I ? engine.fake_gis[i] : group == DCGM_FE_GPU_CI ? engine.fake_cis[i] : 0;
        for (unsigned k = 0; g == NULL && k < fakes && n < max; k++) {
            out[n++] = i * ENTITIES_PER_GPU + k;
        }
    }
    return n;
}

static dcgmReturn_t place_instance(const gpusim_gpu_t *g, const gpusim_epoch *e, unsigned index, bool compute, place *out)
{
    out->gpu = g;
    for (unsigned i = 0; i < e->gi_count; i++) {
        if (!compute && e->gi[i].index == index) {
            out->gi = (int)e->gi[i].nvml_id;
            return DCGM_ST_OK;
        }
        for (unsigned k = 0; compute && k < e->gi[i].ci_count; k++) {
            if (e->gi[i].ci[k].index == index) {
                out->gi = (int)e->gi[i].nvml_id;
                out->ci = (int)e->gi[i].ci[k].nvml_id;
                return DCGM_ST_OK;
            }
        }
    }
    return compute ? DCGM_ST_COMPUTE_INSTANCE_NOT_FOUND : DCGM_ST_INSTANCE_NOT_FOUND;
}

static dcgmReturn_t place_fake(dcgmGroupEntityPair_t e, unsigned gpu, place *out)
{
    unsigned index = e.entityId % ENTITIES_PER_GPU;
    out->fake = true;
    if (gpu >= gpusim_gpu_count() + engine.fake_gpus) {
        return DCGM_ST_BADPARAM;
    }
    if (e.entityGroupId == DCGM_FE_GPU_I) {
        out->gi = (int)index;
        return index < engine.fake_gis[gpu] ? DCGM_ST_OK : DCGM_ST_INSTANCE_NOT_FOUND;
    }
    if (e.entityGroupId == DCGM_FE_GPU_CI) {
        out->gi = out->ci = (int)index;
        return index < engine.fake_cis[gpu] ? DCGM_ST_OK : DCGM_ST_COMPUTE_INSTANCE_NOT_FOUND;
    }
    return DCGM_ST_OK;
}

dcgmReturn_t find_place(dcgmGroupEntityPair_t e, int64_t t_us, place *out)
{
    dcgm_link_t link = { .raw = e.entityId };
    bool instance = e.entityGroupId == DCGM_FE_GPU_I || e.entityGroupId == DCGM_FE_GPU_CI;
    *out = (place){ .gi = GPUSIM_WHOLE, .ci = GPUSIM_WHOLE, .link = -1 };
    unsigned gpu = e.entityGroupId == DCGM_FE_LINK ? link.parsed.gpuId : instance ? e.entityId / ENTITIES_PER_GPU : e.entityId;
    if (e.entityGroupId == DCGM_FE_NONE) {
        return DCGM_ST_OK;
    }
    if (!instance && e.entityGroupId != DCGM_FE_GPU && (e.entityGroupId != DCGM_FE_LINK || link.parsed.type != DCGM_FE_GPU)) {
        return DCGM_ST_BADPARAM;
    }
    const gpusim_gpu_t *g = gpusim_gpu(gpu);
    if (g == NULL) {
        return place_fake(e, gpu, out);
    }
    const gpusim_epoch *epoch = gpusim_epoch_at(g, t_us);
    if (instance) {
        return place_instance(g, epoch, e.entityId % ENTITIES_PER_GPU, e.entityGroupId == DCGM_FE_GPU_CI, out);
    }
    out->gpu = g;
    if (e.entityGroupId == DCGM_FE_LINK) {
        out->link = (int)link.parsed.index;
        return link.parsed.index < g->model->nvlinks ? DCGM_ST_OK : DCGM_ST_BADPARAM;
    }
    return DCGM_ST_OK;
}

dcgmReturn_t dcgmCreateFakeEntities(dcgmHandle_t pDcgmHandle, dcgmCreateFakeEntities_t *c)
{
    dcgmReturn_t rc = engine_enter("dcgmCreateFakeEntities", pDcgmHandle);
    if (rc == DCGM_ST_OK && c->version != dcgmCreateFakeEntities_version) {
        rc = DCGM_ST_VER_MISMATCH;
    }
    for (unsigned i = 0; rc == DCGM_ST_OK && i < c->numToCreate; i++) {
        dcgmMigHierarchyInfo_t *m = &c->entityList[i];
        if (m->entity.entityGroupId == DCGM_FE_GPU) {
            unsigned id = gpusim_gpu_count() + engine.fake_gpus;
            if (id >= DCGM_MAX_NUM_DEVICES) {
                rc = DCGM_ST_MAX_LIMIT;
                break;
            }
            engine.fake_gpus++;
            m->entity.entityId = id;
            continue;
        }
        unsigned gpu = m->parent.entityGroupId == DCGM_FE_GPU ? m->parent.entityId : m->parent.entityId / ENTITIES_PER_GPU;
        unsigned *count = m->entity.entityGroupId == DCGM_FE_GPU_I ? &engine.fake_gis[gpu % DCGM_MAX_NUM_DEVICES] : &engine.fake_cis[gpu % DCGM_MAX_NUM_DEVICES];
        if (gpu < gpusim_gpu_count() || gpu >= gpusim_gpu_count() + engine.fake_gpus || *count >= ENTITIES_PER_GPU) {
            rc = DCGM_ST_BADPARAM;
            break;
        }
        m->entity.entityId = gpu * ENTITIES_PER_GPU + (*count)++;
    }
    return engine_leave_quietly(rc);
}

/* --- groups -------------------------------------------------------------------------------------------------- */

entity_group *find_group(dcgmGpuGrp_t id)
{
    for (unsigned i = 0; i < DCGM_MAX_NUM_GROUPS; i++) {
        if (engine.groups[i].used && engine.groups[i].id == id) {
            return &engine.groups[i];
        }
    }
    return NULL;
}

static unsigned append_entities(dcgm_field_entity_group_t kind, dcgmGroupEntityPair_t *out, unsigned n)
{
    dcgm_field_eid_t ids[DCGM_GROUP_MAX_ENTITIES_V2];
    unsigned count = list_entities(kind, true, ids, DCGM_GROUP_MAX_ENTITIES_V2);
    for (unsigned i = 0; i < count && n < DCGM_GROUP_MAX_ENTITIES_V2; i++) {
        out[n++] = (dcgmGroupEntityPair_t){ kind, ids[i] };
    }
    return n;
}

/* Groups 0 and 1 are DCGM's own, also known as DCGM_GROUP_ALL_GPUS and _NVSWITCHES. The other
 * DCGM_GROUP_ALL_* numbers are no groups to its DcgmGroupManager. */
int group_entities(dcgmGpuGrp_t id, dcgmGroupEntityPair_t out[DCGM_GROUP_MAX_ENTITIES_V2])
{
    if (id == DCGM_GROUP_ALL_GPUS || id == 0) {
        return (int)append_entities(DCGM_FE_GPU, out, 0);
    }
    if (id == DCGM_GROUP_ALL_NVSWITCHES || id == 1) {
        return 0;
    }
    const entity_group *g = find_group(id);
    if (g == NULL) {
        return -1;
    }
    memcpy(out, g->entities, g->count * sizeof *out);
    return (int)g->count;
}

static unsigned default_entities(dcgmGroupType_t type, dcgmGroupEntityPair_t *out)
{
    unsigned n = 0;
    bool all = type == DCGM_GROUP_DEFAULT_EVERYTHING;
    n = all || type == DCGM_GROUP_DEFAULT ? append_entities(DCGM_FE_GPU, out, n) : n;
    n = all || type == DCGM_GROUP_DEFAULT_INSTANCES ? append_entities(DCGM_FE_GPU_I, out, n) : n;
    return all || type == DCGM_GROUP_DEFAULT_COMPUTE_INSTANCES ? append_entities(DCGM_FE_GPU_CI, out, n) : n;
}

dcgmReturn_t dcgmGroupCreate(dcgmHandle_t pDcgmHandle, dcgmGroupType_t type, const char *groupName, dcgmGpuGrp_t *pDcgmGrpId)
{
    dcgmReturn_t rc = engine_enter("dcgmGroupCreate", pDcgmHandle);
    unsigned slot = 0;
    if (rc != DCGM_ST_OK) {
        return engine_leave_quietly(rc);
    }
    if (groupName == NULL || pDcgmGrpId == NULL || type > DCGM_GROUP_DEFAULT_EVERYTHING) {
        return engine_leave_quietly(DCGM_ST_BADPARAM);
    }
    while (slot < OWN_GROUPS && engine.groups[slot].used) {
        slot++;
    }
    if (slot == OWN_GROUPS) {
        return engine_leave_quietly(DCGM_ST_MAX_LIMIT);
    }
    entity_group *g = &engine.groups[slot];
    memset(g, 0, sizeof *g);
    snprintf(g->name, sizeof g->name, "%s", groupName);
    g->owner = pDcgmHandle;
    g->id = engine.next_group++;
    g->count = default_entities(type, g->entities);
    g->used = true;
    *pDcgmGrpId = g->id;
    return engine_leave_quietly(DCGM_ST_OK);
}

dcgmReturn_t dcgmGroupDestroy(dcgmHandle_t pDcgmHandle, dcgmGpuGrp_t groupId)
{
    dcgmReturn_t rc = engine_enter("dcgmGroupDestroy", pDcgmHandle);
    entity_group *g = rc == DCGM_ST_OK ? find_group(groupId) : NULL;
    if (rc == DCGM_ST_OK && g == NULL) {
        rc = DCGM_ST_NOT_CONFIGURED;
    }
    if (rc == DCGM_ST_OK) {
        g->used = false; /* its watches go on, as DCGM's cache knows entities only */
    }
    return engine_leave_quietly(rc);
}

static dcgmReturn_t add_entity(const char *symbol, dcgmHandle_t handle, dcgmGpuGrp_t id, dcgmGroupEntityPair_t e)
{
    dcgmReturn_t rc = engine_enter(symbol, handle);
    place p;
    if (rc != DCGM_ST_OK) {
        return engine_leave_quietly(rc);
    }
    entity_group *g = find_group(id);
    if (g == NULL) {
        return engine_leave_quietly(DCGM_ST_NOT_CONFIGURED);
    }
    if (e.entityGroupId == DCGM_FE_NONE || find_place(e, gpusim_now_us(), &p) != DCGM_ST_OK) {
        return engine_leave_quietly(DCGM_ST_BADPARAM);
    }
    if (p.gpu != NULL && (engine.detached || gpusim_epoch_now(p.gpu)->lost)) {
        return engine_leave_quietly(engine.detached ? DCGM_ST_GPUS_DETACHED : DCGM_ST_GPU_IS_LOST);
    }
    for (unsigned i = 0; i < g->count; i++) {
        if (g->entities[i].entityGroupId == e.entityGroupId && g->entities[i].entityId == e.entityId) {
            return engine_leave_quietly(DCGM_ST_BADPARAM);
        }
    }
    if (g->count == DCGM_GROUP_MAX_ENTITIES_V2) {
        return engine_leave_quietly(DCGM_ST_MAX_LIMIT);
    }
    g->entities[g->count++] = e;
    return engine_leave_quietly(DCGM_ST_OK);
}

dcgmReturn_t dcgmGroupAddDevice(dcgmHandle_t pDcgmHandle, dcgmGpuGrp_t groupId, unsigned int gpuId)
{
    return add_entity("dcgmGroupAddDevice", pDcgmHandle, groupId, (dcgmGroupEntityPair_t){ DCGM_FE_GPU, gpuId });
}

dcgmReturn_t dcgmGroupAddEntity(dcgmHandle_t pDcgmHandle, dcgmGpuGrp_t groupId, dcgm_field_entity_group_t entityGroupId, dcgm_field_eid_t entityId)
{
    return add_entity("dcgmGroupAddEntity", pDcgmHandle, groupId, (dcgmGroupEntityPair_t){ entityGroupId, entityId });
}

dcgmReturn_t dcgmGroupGetInfo(dcgmHandle_t pDcgmHandle, dcgmGpuGrp_t groupId, dcgmGroupInfo_t *pDcgmGroupInfo)
{
    dcgmReturn_t rc = engine_enter("dcgmGroupGetInfo", pDcgmHandle);
    if (rc == DCGM_ST_OK && pDcgmGroupInfo->version != dcgmGroupInfo_version) {
        rc = DCGM_ST_VER_MISMATCH;
    }
    int n = rc == DCGM_ST_OK ? group_entities(groupId, pDcgmGroupInfo->entityList) : 0;
    if (n < 0) {
        rc = DCGM_ST_NOT_CONFIGURED;
    }
    if (rc == DCGM_ST_OK) {
        const entity_group *g = find_group(groupId);
        pDcgmGroupInfo->count = (unsigned)n;
        snprintf(pDcgmGroupInfo->groupName, sizeof pDcgmGroupInfo->groupName, "%s", g != NULL ? g->name : groupId == 0 || groupId == DCGM_GROUP_ALL_GPUS ? "DCGM_ALL_SUPPORTED_GPUS" : "DCGM_ALL_SUPPORTED_NVSWITCHES");
    }
    return engine_leave_quietly(rc);
}

/* --- field groups ------------------------------------------------------------------------------------------------ */

field_group *find_field_group(dcgmFieldGrp_t id)
{
    for (unsigned i = 0; i < DCGM_MAX_NUM_FIELD_GROUPS; i++) {
        if (engine.field_groups[i].used && engine.field_groups[i].id == id) {
            return &engine.field_groups[i];
        }
    }
    return NULL;
}

static dcgmReturn_t check_new_field_group(int count, const unsigned short *fields, const char *name, unsigned *slot)
{
    if (count < 1 || count > DCGM_MAX_FIELD_IDS_PER_FIELD_GROUP || fields == NULL || name == NULL) {
        return DCGM_ST_BADPARAM;
    }
    for (int i = 0; i < count; i++) {
        if (field_meta(fields[i]) == NULL) {
            return DCGM_ST_UNKNOWN_FIELD;
        }
    }
    *slot = DCGM_MAX_NUM_FIELD_GROUPS;
    for (unsigned i = DCGM_MAX_NUM_FIELD_GROUPS; i-- > 0;) {
        if (!engine.field_groups[i].used) {
            *slot = i;
        } else if (strcmp(engine.field_groups[i].name, name) == 0) {
            return DCGM_ST_DUPLICATE_KEY;
        }
    }
    return *slot == DCGM_MAX_NUM_FIELD_GROUPS ? DCGM_ST_MAX_LIMIT : DCGM_ST_OK;
}

dcgmReturn_t dcgmFieldGroupCreate(dcgmHandle_t dcgmHandle, int numFieldIds, const unsigned short *fieldIds, const char *fieldGroupName,
                                  dcgmFieldGrp_t *dcgmFieldGroupId)
{
    dcgmReturn_t rc = engine_enter("dcgmFieldGroupCreate", dcgmHandle);
    unsigned slot = 0;
    if (rc == DCGM_ST_OK) {
        rc = check_new_field_group(numFieldIds, fieldIds, fieldGroupName, &slot);
    }
    if (rc == DCGM_ST_OK) {
        field_group *g = &engine.field_groups[slot];
        *g = (field_group){ .used = true, .id = engine.next_field_group++, .owner = dcgmHandle, .count = (unsigned)numFieldIds };
        snprintf(g->name, sizeof g->name, "%s", fieldGroupName);
        memcpy(g->fields, fieldIds, (size_t)numFieldIds * sizeof *fieldIds);
        *dcgmFieldGroupId = g->id;
    }
    return engine_leave_quietly(rc);
}

dcgmReturn_t dcgmFieldGroupDestroy(dcgmHandle_t dcgmHandle, dcgmFieldGrp_t dcgmFieldGroupId)
{
    dcgmReturn_t rc = engine_enter("dcgmFieldGroupDestroy", dcgmHandle);
    field_group *g = rc == DCGM_ST_OK ? find_field_group(dcgmFieldGroupId) : NULL;
    if (rc == DCGM_ST_OK && g == NULL) {
        rc = DCGM_ST_NO_DATA;
    }
    if (rc == DCGM_ST_OK) {
        g->used = false; /* here too */
    }
    return engine_leave_quietly(rc);
}
