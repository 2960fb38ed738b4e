/* Policies (callbacks on violations) and health. Listeners are called by the thread that ends a
 * call into the library, or a line of the model, after something happened: there are no threads.
 * As in DCGM, policies see what happened to whole GPUs only (DcgmPolicyManager.cpp). */
#define _GNU_SOURCE
#include "engine.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    fpRecvUpdates callback;
    uint64_t user_data;
    dcgmPolicyCallbackResponse_t response;
} notice;

static notice *notices;
static size_t notice_count, notice_cap;

void policy_forget(void)
{
    notice_count = 0;
    gpusim_events(&engine.events_seen);
}

/* --- delivery -------------------------------------------------------------------------------------- */

static bool group_has_gpu(dcgmGpuGrp_t group, unsigned gpu)
{
    static dcgmGroupEntityPair_t entities[DCGM_GROUP_MAX_ENTITIES_V2];
    int n = group_entities(group, entities);
    for (int i = 0; i < n; i++) {
        if (entities[i].entityGroupId == DCGM_FE_GPU && entities[i].entityId == gpu) {
            return true;
        }
    }
    return false;
}

static const dcgmPolicy_t *policy_of(dcgmGpuGrp_t group)
{
    for (size_t i = 0; i < engine.policy_count; i++) {
        if (engine.policies[i].group == group) {
            return &engine.policies[i].policy;
        }
    }
    return NULL;
}

static void notify(unsigned gpu, const dcgmPolicyCallbackResponse_t *response, unsigned long long value, dcgmPolicyConditionIdx_t threshold_index, bool has_threshold)
{
    for (size_t i = 0; i < engine.listener_count; i++) {
        const policy_listener *l = &engine.listeners[i];
        const dcgmPolicy_t *p = policy_of(l->group);
        if ((l->condition & response->condition) == 0 || p == NULL || (p->condition & response->condition) == 0 || !group_has_gpu(l->group, gpu)) {
            continue;
        }
        if (has_threshold && value < p->parms[threshold_index].val.llval) {
            continue;
        }
        if (notice_count == notice_cap) {
            notice_cap = notice_cap * 2 + 8;
            notices = engine_alloc(notices, notice_cap * sizeof *notices);
        }
        notices[notice_count++] = (notice){ l->callback, l->user_data, *response };
    }
}

/* What the model's log says since the last call. */
void policy_collect(void)
{
    size_t count;
    const gpusim_event *events = gpusim_events(&count);
    if (engine.events_seen > count) {
        engine.events_seen = 0; /* the log began anew with new GPUs */
    }
    for (; engine.events_seen < count && events[engine.events_seen].t_us <= gpusim_now_us(); engine.events_seen++) {
        const gpusim_event *e = &events[engine.events_seen];
        dcgmPolicyCallbackResponse_t r = { .version = dcgmPolicyCallbackResponse_version, .gpuId = e->gpu };
        if (e->kind == GPUSIM_XID && e->gi == GPUSIM_WHOLE) {
            r.condition = DCGM_POLICY_COND_XID;
            r.val.xid = (dcgmPolicyConditionXID_t){ .timestamp = e->t_us, .errnum = (unsigned)e->value };
        } else if (e->kind == GPUSIM_DBE) {
            r.condition = DCGM_POLICY_COND_DBE;
            r.val.dbe = (dcgmPolicyConditionDbe_t){ .timestamp = e->t_us, .location = DEVICE, .numerrors = (unsigned)e->value };
        } else if (e->kind == GPUSIM_REPLAY) {
            r.condition = DCGM_POLICY_COND_PCI;
            r.val.pci = (dcgmPolicyConditionPci_t){ .timestamp = e->t_us, .counter = (unsigned)e->value };
        } else {
            continue;
        }
        notify(e->gpu, &r, 0, DCGM_POLICY_COND_IDX_XID, false);
    }
}

void policy_deliver(void)
{
    gpusim_enter("policy_deliver");
    size_t n = notice_count;
    notice *mine = notices;
    notices = NULL;
    notice_count = notice_cap = 0;
    gpusim_leave();
    for (size_t i = 0; i < n; i++) {
        mine[i].callback(&mine[i].response, mine[i].user_data);
    }
    free(mine);
}

/* For whoever moves the model from outside: listeners hear of it now, not at the next call. */
void gpusim_dcgm_notice(void)
{
    engine_enter_free("gpusim_dcgm_notice");
    engine_leave(DCGM_ST_OK);
}

static bool nvlink_error_field(unsigned short field)
{
    return (field >= 400 && field <= 439) || (field >= 451 && field <= 474) || (field >= 481 && field <= 493);
}

void policy_injected(dcgmGroupEntityPair_t e, unsigned short field, const reading *before, const reading *now)
{
    int64_t grown = before == NULL ? 0 : now->i64 - before->i64;
    dcgmPolicyCallbackResponse_t r = { .version = dcgmPolicyCallbackResponse_version, .gpuId = e.entityId };
    if (field == 230) {
        r.condition = DCGM_POLICY_COND_XID;
        r.val.xid = (dcgmPolicyConditionXID_t){ .timestamp = now->ts, .errnum = (unsigned)now->i64 };
        notify(e.entityId, &r, 0, DCGM_POLICY_COND_IDX_XID, false);
    } else if (field == 319 && grown > 0) {
        r.condition = DCGM_POLICY_COND_DBE;
        r.val.dbe = (dcgmPolicyConditionDbe_t){ .timestamp = now->ts, .location = DEVICE, .numerrors = (unsigned)now->i64 };
        notify(e.entityId, &r, 0, DCGM_POLICY_COND_IDX_DBE, false);
    } else if (field == 202 && grown > 0) {
        r.condition = DCGM_POLICY_COND_PCI;
        r.val.pci = (dcgmPolicyConditionPci_t){ .timestamp = now->ts, .counter = (unsigned)now->i64 };
        notify(e.entityId, &r, 0, DCGM_POLICY_COND_IDX_PCI, false);
    } else if (field == 391) {
        r.condition = DCGM_POLICY_COND_MAX_PAGES_RETIRED;
        r.val.mpr = (dcgmPolicyConditionMpr_t){ .timestamp = now->ts, .dbepages = (unsigned)now->i64 };
        notify(e.entityId, &r, (unsigned long long)now->i64, DCGM_POLICY_COND_IDX_MAX_PAGES_RETIRED, true);
    } else if (field == 150) {
        r.condition = DCGM_POLICY_COND_THERMAL;
        r.val.thermal = (dcgmPolicyConditionThermal_t){ .timestamp = now->ts, .thermalViolation = (unsigned)now->i64 };
        notify(e.entityId, &r, (unsigned long long)now->i64, DCGM_POLICY_COND_IDX_THERMAL, true);
    } else if (field == 155) {
        r.condition = DCGM_POLICY_COND_POWER;
        r.val.power = (dcgmPolicyConditionPower_t){ .timestamp = now->ts, .powerViolation = (unsigned)now->dbl };
        notify(e.entityId, &r, (unsigned long long)now->dbl, DCGM_POLICY_COND_IDX_POWER, true);
    } else if (nvlink_error_field(field) && grown > 0) {
        r.condition = DCGM_POLICY_COND_NVLINK;
        r.val.nvlink = (dcgmPolicyConditionNvlink_t){ .timestamp = now->ts, .fieldId = field, .counter = (unsigned)now->i64 };
        notify(e.entityId, &r, 0, DCGM_POLICY_COND_IDX_NVLINK, false);
    }
}

/* --- policy calls ------------------------------------------------------------------------------------------ */

static dcgmReturn_t check_group(dcgmReturn_t rc, dcgmGpuGrp_t group, int *count)
{
    static dcgmGroupEntityPair_t entities[DCGM_GROUP_MAX_ENTITIES_V2];
    *count = rc == DCGM_ST_OK ? group_entities(group, entities) : 0;
    return *count < 0 ? DCGM_ST_NOT_CONFIGURED : rc;
}

dcgmReturn_t dcgmPolicySet(dcgmHandle_t pDcgmHandle, dcgmGpuGrp_t groupId, dcgmPolicy_t *policy, dcgmStatus_t statusHandle)
{
    int count;
    dcgmReturn_t rc = check_group(engine_enter("dcgmPolicySet", pDcgmHandle), groupId, &count);
    size_t slot = 0;
    (void)statusHandle;
    if (rc == DCGM_ST_OK && policy->version != dcgmPolicy_version) {
        rc = DCGM_ST_VER_MISMATCH;
    }
    while (slot < engine.policy_count && engine.policies[slot].group != groupId) {
        slot++;
    }
    if (rc == DCGM_ST_OK && slot == ENGINE_MAX_POLICIES) {
        rc = DCGM_ST_MAX_LIMIT;
    }
    if (rc == DCGM_ST_OK) {
        engine.policies[slot] = (group_policy){ groupId, *policy };
        engine.policy_count = slot == engine.policy_count ? slot + 1 : engine.policy_count;
    }
    return engine_leave_quietly(rc);
}

dcgmReturn_t dcgmPolicyGet(dcgmHandle_t pDcgmHandle, dcgmGpuGrp_t groupId, int count, dcgmPolicy_t *policy, dcgmStatus_t statusHandle)
{
    int have;
    dcgmReturn_t rc = check_group(engine_enter("dcgmPolicyGet", pDcgmHandle), groupId, &have);
    (void)statusHandle;
    if (rc == DCGM_ST_OK && (count < 1 || policy->version != dcgmPolicy_version)) {
        rc = count < 1 ? DCGM_ST_BADPARAM : DCGM_ST_VER_MISMATCH;
    }
    const dcgmPolicy_t *p = policy_of(groupId);
    for (int i = 0; rc == DCGM_ST_OK && i < count; i++) {
        policy[i] = p != NULL ? *p : (dcgmPolicy_t){ .version = dcgmPolicy_version };
    }
    return engine_leave_quietly(rc);
}

dcgmReturn_t dcgmPolicyRegister_v2(dcgmHandle_t pDcgmHandle, dcgmGpuGrp_t groupId, dcgmPolicyCondition_t condition, fpRecvUpdates callback, uint64_t userData)
{
    int count;
    dcgmReturn_t rc = check_group(engine_enter("dcgmPolicyRegister_v2", pDcgmHandle), groupId, &count);
    if (rc == DCGM_ST_OK && callback == NULL) {
        rc = DCGM_ST_BADPARAM;
    } else if (rc == DCGM_ST_OK && engine.listener_count == ENGINE_MAX_POLICIES) {
        rc = DCGM_ST_MAX_LIMIT;
    }
    if (rc == DCGM_ST_OK) {
        policy_collect(); /* what was before isn't told */
        engine.listeners[engine.listener_count++] = (policy_listener){ groupId, pDcgmHandle, condition, callback, userData };
    }
    return engine_leave_quietly(rc);
}

dcgmReturn_t dcgmPolicyUnregister(dcgmHandle_t pDcgmHandle, dcgmGpuGrp_t groupId, dcgmPolicyCondition_t condition)
{
    dcgmReturn_t rc = engine_enter("dcgmPolicyUnregister", pDcgmHandle);
    size_t kept = 0;
    for (size_t i = 0; rc == DCGM_ST_OK && i < engine.listener_count; i++) {
        policy_listener l = engine.listeners[i];
        if (l.group == groupId && l.owner == pDcgmHandle) {
            l.condition &= ~(unsigned)condition;
        }
        if (l.condition != 0) {
            engine.listeners[kept++] = l;
        }
    }
    if (rc == DCGM_ST_OK) {
        engine.listener_count = kept;
    }
    return engine_leave_quietly(rc);
}

/* --- health ------------------------------------------------------------------------------------------------------ */

/* Health systems are kept in the group; the two that are DCGM's own have no entry. */
static unsigned *health_of(dcgmGpuGrp_t group)
{
    entity_group *g = find_group(group);
    if (g != NULL) {
        return &g->health;
    }
    if (group == DCGM_GROUP_ALL_GPUS || group == 0) {
        return &engine.own_health[0];
    }
    return group == DCGM_GROUP_ALL_NVSWITCHES || group == 1 ? &engine.own_health[1] : NULL;
}

dcgmReturn_t dcgmHealthSet(dcgmHandle_t pDcgmHandle, dcgmGpuGrp_t groupId, dcgmHealthSystems_t systems)
{
    dcgmReturn_t rc = engine_enter("dcgmHealthSet", pDcgmHandle);
    unsigned *health = rc == DCGM_ST_OK ? health_of(groupId) : NULL;
    if (rc == DCGM_ST_OK && health == NULL) {
        rc = DCGM_ST_NOT_CONFIGURED;
    } else if (rc == DCGM_ST_OK) {
        *health = systems;
    }
    return engine_leave_quietly(rc);
}

dcgmReturn_t dcgmHealthGet(dcgmHandle_t pDcgmHandle, dcgmGpuGrp_t groupId, dcgmHealthSystems_t *systems)
{
    dcgmReturn_t rc = engine_enter("dcgmHealthGet", pDcgmHandle);
    unsigned *health = rc == DCGM_ST_OK ? health_of(groupId) : NULL;
    if (rc == DCGM_ST_OK && health == NULL) {
        rc = DCGM_ST_NOT_CONFIGURED;
    } else if (rc == DCGM_ST_OK) {
        *systems = (dcgmHealthSystems_t)*health;
    }
    return engine_leave_quietly(rc);
}

__attribute__((format(printf, 6, 7))) static void incident(dcgmHealthResponse_t *r, dcgmGroupEntityPair_t e, dcgmHealthSystems_t system, dcgmHealthWatchResults_t health,
                                                           unsigned code, const char *format, ...)
{
    if (r->incidentCount == DCGM_HEALTH_WATCH_MAX_INCIDENTS_V2) {
        return;
    }
    dcgmIncidentInfo_t *i = &r->incidents[r->incidentCount++];
    va_list args;
    va_start(args, format);
    vsnprintf(i->error.msg, sizeof i->error.msg, format, args);
    va_end(args);
    i->system = system;
    i->health = health;
    i->error.code = code;
    i->entityInfo = e;
    r->overallHealth = health > r->overallHealth ? health : r->overallHealth;
}

static void check_memory(dcgmGroupEntityPair_t e, const gpusim_gpu_t *g, dcgmHealthResponse_t *r)
{
    uint64_t dbe = gpusim_event_count(g, GPUSIM_DBE, false, gpusim_now_us());
    if (dbe > 0) {
        incident(r, e, DCGM_HEALTH_WATCH_MEM, DCGM_HEALTH_RESULT_FAIL, DCGM_FR_VOLATILE_DBE_DETECTED, DCGM_FR_VOLATILE_DBE_DETECTED_MSG, (int)dbe, g->id);
    }
    if (gpusim_epoch_now(g)->row_remap_failed) {
        incident(r, e, DCGM_HEALTH_WATCH_MEM, DCGM_HEALTH_RESULT_FAIL, DCGM_FR_ROW_REMAP_FAILURE, DCGM_FR_ROW_REMAP_FAILURE_MSG, g->id);
    }
}

static int64_t latest_int(dcgmGroupEntityPair_t e, unsigned short field, int64_t fallback)
{
    reading r;
    latest_reading(e, field, false, &r);
    return r.status == DCGM_ST_OK && !DCGM_INT64_IS_BLANK(r.i64) ? r.i64 : fallback;
}

/* PCIe replays per minute allowed: lane speed in GT/s * 60 / 1000 per lane (DcgmHealthWatch.cpp). */
static void check_pcie(dcgmGroupEntityPair_t e, const gpusim_gpu_t *g, dcgmHealthResponse_t *r)
{
    static const double speeds[] = { 0, 2.5, 5, 8, 16, 32, 64 };
    int64_t gen = latest_int(e, 237, g != NULL ? g->model->pcie_gen : 0), lanes = latest_int(e, 238, g != NULL ? 16 : 0);
    if (gen < 1 || gen > 6 || lanes < 1) {
        return;
    }
    unsigned limit = (unsigned)ceil(speeds[gen] / 1000 * 60 * (double)lanes);
    int64_t now = gpusim_now_us(), grown = counter_growth(e, 202, 60000000);
    if (g != NULL) {
        grown = (int64_t)(gpusim_event_count(g, GPUSIM_REPLAY, true, now) - gpusim_event_count(g, GPUSIM_REPLAY, true, now - 60000000));
    }
    if (grown > (int64_t)limit) {
        incident(r, e, DCGM_HEALTH_WATCH_PCIE, DCGM_HEALTH_RESULT_WARN, DCGM_FR_PCI_REPLAY_RATE, DCGM_FR_PCI_REPLAY_RATE_MSG, limit, e.entityId, (int)grown);
    }
}

dcgmReturn_t dcgmHealthCheck(dcgmHandle_t pDcgmHandle, dcgmGpuGrp_t groupId, dcgmHealthResponse_t *results)
{
    static dcgmGroupEntityPair_t entities[DCGM_GROUP_MAX_ENTITIES_V2];
    dcgmReturn_t rc = engine_enter("dcgmHealthCheck", pDcgmHandle);
    unsigned *health = rc == DCGM_ST_OK ? health_of(groupId) : NULL;
    if (rc == DCGM_ST_OK && results->version != dcgmHealthResponse_version) {
        rc = DCGM_ST_VER_MISMATCH;
    } else if (rc == DCGM_ST_OK && health == NULL) {
        rc = DCGM_ST_NOT_CONFIGURED;
    }
    int count = rc == DCGM_ST_OK ? group_entities(groupId, entities) : 0;
    if (rc == DCGM_ST_OK) {
        results->overallHealth = DCGM_HEALTH_RESULT_PASS;
        results->incidentCount = 0;
    }
    for (int i = 0; i < count; i++) {
        const gpusim_gpu_t *g = entities[i].entityGroupId == DCGM_FE_GPU ? gpusim_gpu(entities[i].entityId) : NULL;
        if (entities[i].entityGroupId != DCGM_FE_GPU) {
            continue;
        }
        if (g != NULL && gpusim_epoch_now(g)->lost) {
            incident(results, entities[i], DCGM_HEALTH_WATCH_DRIVER, DCGM_HEALTH_RESULT_FAIL, DCGM_FR_FALLEN_OFF_BUS, DCGM_FR_FALLEN_OFF_BUS_MSG, (int)g->id);
            continue;
        }
        if (g != NULL && (*health & DCGM_HEALTH_WATCH_MEM) != 0) {
            check_memory(entities[i], g, results);
        }
        if ((*health & DCGM_HEALTH_WATCH_PCIE) != 0) {
            check_pcie(entities[i], g, results);
        }
    }
    return engine_leave_quietly(rc);
}

/* Meta data of the errors that health reports here. */
const dcgm_error_meta_t *dcgmGetErrorMeta(dcgmError_t error)
{
    static const dcgm_error_meta_t metas[] = {
        { DCGM_FR_PCI_REPLAY_RATE, DCGM_FR_PCI_REPLAY_RATE_MSG, DCGM_FR_PCI_REPLAY_RATE_NEXT, DCGM_ERROR_ISOLATE, DCGM_FR_EC_HARDWARE_PCIE },
        { DCGM_FR_VOLATILE_DBE_DETECTED, DCGM_FR_VOLATILE_DBE_DETECTED_MSG, DCGM_FR_VOLATILE_DBE_DETECTED_NEXT, DCGM_ERROR_RESET, DCGM_FR_EC_HARDWARE_MEMORY },
        { DCGM_FR_ROW_REMAP_FAILURE, DCGM_FR_ROW_REMAP_FAILURE_MSG, DCGM_FR_ROW_REMAP_FAILURE_NEXT, DCGM_ERROR_ISOLATE, DCGM_FR_EC_HARDWARE_MEMORY },
        { DCGM_FR_FALLEN_OFF_BUS, DCGM_FR_FALLEN_OFF_BUS_MSG, DCGM_FR_FALLEN_OFF_BUS_NEXT, DCGM_ERROR_ISOLATE, DCGM_FR_EC_HARDWARE_OTHER },
    };
    gpusim_enter("dcgmGetErrorMeta");
    const dcgm_error_meta_t *found = NULL;
    for (size_t i = 0; i < sizeof metas / sizeof *metas; i++) {
        if (metas[i].errorId == error) {
            found = &metas[i];
        }
    }
    gpusim_leave();
    return found;
}
